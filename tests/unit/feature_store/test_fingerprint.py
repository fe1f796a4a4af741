"""A key changes with everything that its step depends on, and with nothing else."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feature_store import fingerprint as module
from feature_store.errors import BadInputError
from feature_store.fingerprint import file_digest, fingerprint, unit_interval

BASE = {"step": "s", "version": 1, "parameters": {"a": 1, "b": [1, 2]}, "inputs": ["ab"]}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


def key(**changes: object) -> str:
    return fingerprint(**{**BASE, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "changes",
    [
        {"step": "t"},
        {"version": 2},
        {"parameters": {"a": 2, "b": [1, 2]}},
        {"parameters": {"a": 1, "b": [2, 1]}},
        {"parameters": {"a": 1}},
        {"parameters": {"a": "1", "b": [1, 2]}},
        {"parameters": {"a": True, "b": [1, 2]}},
        {"parameters": {"a": 1.0, "b": [1, 2]}},
        {"inputs": ["a", "b"]},
        {"inputs": ["ba"]},
        {"inputs": []},
    ],
)
def test_every_field_matters(changes: dict[str, object]):
    assert key(**changes) != key()


def test_the_format_of_the_cache_matters(monkeypatch: pytest.MonkeyPatch):
    before = key()
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    assert key() != before


def test_order_of_names_does_not_matter():
    assert key(parameters={"b": [1, 2], "a": 1}) == key()


def test_golden_value():
    # the key of one step, written out as the JSON that is hashed
    text = '{"format":1,"inputs":["ab"],"parameters":{"a":1},"step":"s","version":1}'
    assert key(parameters={"a": 1}) == hashlib.sha256(text.encode()).hexdigest()


@settings(max_examples=50)
@given(VALUES, VALUES)
def test_equal_keys_mean_equal_parameters(one: object, other: object):
    same = repr(_sorted(one)) == repr(_sorted(other))
    assert (key(parameters={"p": one}) == key(parameters={"p": other})) == same


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return "dict", sorted((name, _sorted(inner)) for name, inner in value.items())
    return [_sorted(inner) for inner in value] if isinstance(value, list) else value


@settings(max_examples=50)
@given(st.lists(st.text(max_size=3), max_size=3), st.lists(st.text(max_size=3), max_size=3))
def test_inputs_are_not_run_together(one: list[str], other: list[str]):
    assert (key(inputs=one) == key(inputs=other)) == (one == other)


def test_what_is_not_json_is_refused():
    with pytest.raises(TypeError, match="PosixPath is not JSON serializable"):
        key(parameters={"path": Path("a")})


@pytest.mark.parametrize("parameters", [{1: "a"}, {"a": {2: "b"}}, {"a": [{None: 1}]}])
def test_a_name_that_is_no_text_is_refused(parameters: dict[object, object]):
    with pytest.raises(TypeError, match="a parameter's name must be text, but got (1|2|None)"):
        key(parameters=parameters)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_nan_is_refused(value: float):
    with pytest.raises(ValueError, match="not JSON compliant"):
        key(parameters={"a": value})


def test_digest_of_a_file_longer_than_a_block(tmp_path: Path):
    content = os.urandom(2**20 + 17)
    (tmp_path / "f").write_bytes(content)
    assert file_digest(tmp_path / "f") == hashlib.sha256(content).hexdigest()


@given(st.text())
def test_unit_interval_stays_inside(text: str):
    assert 0 <= unit_interval(text) < 1


def test_unit_interval_is_even():
    values = [unit_interval(str(i)) for i in range(4000)]
    for tenth in range(10):
        share = sum(tenth / 10 <= value < (tenth + 1) / 10 for value in values) / len(values)
        assert share == pytest.approx(0.1, abs=0.02)  # four standard deviations


def test_the_same_in_every_process():
    code = "from feature_store.fingerprint import unit_interval; print(unit_interval('beer'))"
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(Path(module.__file__).parents[1])}
    output = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    ).stdout
    assert float(output) == unit_interval("beer")


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def walk(folder: Path, onerror):
        onerror(PermissionError(13, "Permission denied", str(folder / "locked")))
        return iter(())

    monkeypatch.setattr(module.os, "walk", walk)
    with pytest.raises(BadInputError, match="locked: cannot be read: Permission denied"):
        module.files_below(tmp_path)

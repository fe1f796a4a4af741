"""Further tables cached beside features."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from feature_store.errors import DamagedCacheError, RequestError
from feature_store.store import Features, derived, load_features, verify_derived


class Builder:
    """Counts its calls."""

    def __init__(self, value: int = 1) -> None:
        self.calls = 0
        self.value = value

    def __call__(self) -> pa.Table:
        self.calls += 1
        return pa.table({"score": [[float(self.value)], [2.0, 3.0]]})


def table_of(features: Features, build: Any, **changes: Any) -> pa.Table:
    given = {"step": "lm-scores", "version": 1, "parameters": {"size": 3}, **changes}
    return derived(features, build=build, **given)


def folders(features: Features) -> list[Path]:
    return sorted((features.directory / "derived").iterdir())


def test_it_is_built_once(features: Features):
    build = Builder()
    first = table_of(features, build)
    again = table_of(load_features(features.directory), build)
    assert build.calls == 1
    assert first.equals(again)
    assert first.to_pydict() == {"score": [[1.0], [2.0, 3.0]]}


@pytest.mark.parametrize("change", [{"step": "other"}, {"version": 2}, {"parameters": {"size": 4}}])
def test_every_part_of_the_key_matters(features: Features, change: dict[str, Any]):
    table_of(features, Builder(1))
    assert table_of(features, Builder(9), **change)["score"][0].as_py() == [9.0]
    assert table_of(features, Builder(5))["score"][0].as_py() == [1.0]
    assert len(folders(features)) == 2


def test_other_features_have_other_tables(features: Features, make_request: Any):
    from feature_store.store import open_features

    other = open_features(make_request(seed=1))
    table_of(features, Builder(1))
    assert table_of(other, Builder(2))["score"][0].as_py() == [2.0]


def test_an_error_leaves_nothing(features: Features):
    def build() -> pa.Table:
        raise OSError("the language model failed")

    with pytest.raises(OSError, match="the language model failed"):
        table_of(features, build)
    assert not (features.directory / "derived").exists()
    assert table_of(features, Builder()).num_rows == 2


@pytest.mark.parametrize("damage", ["cut", "gone", "manifest", "bit", "other"])
def test_a_damaged_table_is_computed_again(features: Features, caplog: pytest.LogCaptureFixture, damage: str):
    table_of(features, Builder())
    path = folders(features)[0] / ("manifest.json" if damage == "manifest" else "table.arrow")
    if damage == "bit":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "other":  # a whole table, but of other parameters
        table_of(features, Builder(9), version=2)
        (other,) = [folder for folder in folders(features) if folder != path.parent]
        shutil.rmtree(path.parent)
        other.rename(path.parent)
    else:
        path.unlink() if damage == "gone" else path.write_bytes(path.read_bytes()[:50])
    build = Builder(4)
    assert table_of(features, build)["score"][0].as_py() == [4.0]
    assert build.calls == 1
    assert "computing it again" in caplog.text


def test_verify_finds_a_flipped_bit(features: Features):
    table_of(features, Builder())
    verify_derived(features)
    path = folders(features)[0] / "table.arrow"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedCacheError, match="table.arrow: the content differs"):
        verify_derived(features)


def test_the_manifest_says_what_it_is(features: Features):
    table_of(features, Builder())
    manifest = json.loads((folders(features)[0] / "manifest.json").read_text())
    assert manifest["meta"] == {"step": "lm-scores", "version": 1, "parameters": {"size": 3}}


@pytest.mark.parametrize("step", ["", "../up", "a b", "a/b"])
def test_a_step_is_fit_for_a_file_name(features: Features, step: str):
    with pytest.raises(RequestError, match=f"letters, digits, `_` and `-`, but got `{step}`"):
        table_of(features, Builder(), step=step)


def test_a_parameter_is_json(features: Features):
    with pytest.raises(TypeError, match="not JSON serializable"):
        table_of(features, Builder(), parameters={"path": Path("a")})

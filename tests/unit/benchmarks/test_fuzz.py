"""The fuzz run itself: the same seed gives the same damage, and no misbehaviour passes for an answer."""

import gzip
import io
import json
import re
import zipfile
from pathlib import Path
from random import Random

import pytest

from benchmarks import fuzz
from benchmarks.fuzzing import mutations
from benchmarks.fuzzing.reader import OUTPUT, Reader, attempt
from pipeline.base.errors import PipelineError
from tests import fuzz_readers

FILES = {"a.json": b'{"x": [1, 2]}\n', "b.txt": b"1 two\n3 four\n", "c.gz": gzip.compress(b"1\n2\n", mtime=0)}


def test_a_seed_repeats_its_damage_and_another_gives_another():
    first, again, other = (mutations.mutate(FILES, list(FILES), Random(seed)) for seed in ("1", "1", "2"))
    assert first == again != other
    assert first.keys() == FILES.keys()


def test_files_that_are_no_targets_stay():
    for seed in range(50):
        assert mutations.mutate(FILES, ["b.txt"], Random(seed))["a.json"] == FILES["a.json"]


@pytest.mark.parametrize("damages", ["TEXT", "JSON", "TOML", "GZIP", "BYTE", "ZIP", "SAFETENSORS"])
@pytest.mark.parametrize(
    "content", [b"", b"\xff\x00", b'{"a": 1}\n', b"a = 1\n"], ids=["none", "bytes", "json", "toml"]
)
def test_every_damage_takes_any_content(damages: str, content: bytes):
    for damage in set(getattr(mutations, f"{damages}_DAMAGES")):
        assert isinstance(damage(Random(0), content), bytes)


def test_damage_to_json_reaches_names_values_and_types():
    content = json.dumps({"name": "x", "list": [1, 2], "inner": {"y": 0.5}}).encode()
    seen = {mutations.change_json(Random(seed), content) for seed in range(300)}
    assert len(seen) > 100
    assert any(b"[[[[[" in text for text in seen)
    assert any(b"\\ud800" in text for text in seen)
    assert any(b'"list"' not in text and b'"inner"' in text for text in seen)


def test_damage_to_archives_reaches_paths_links_and_bombs():
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("x/data.json", b"{}")
    names: set[str] = set()
    sizes, links = set(), 0
    for seed in range(60):
        with zipfile.ZipFile(io.BytesIO(mutations.rewrite_zip(Random(seed), packed.getvalue()))) as archive:
            names |= set(archive.namelist())
            sizes |= {entry.file_size for entry in archive.infolist()}
            links += any(entry.external_attr >> 28 == 0o12 for entry in archive.infolist())
    assert {"../escaped", "/x/data.json"} <= names
    assert max(sizes) > 10**7
    assert links > 0


# ------------------------------------------------------------------------------------- what is not an answer


def escaping(folder: Path) -> None:
    (folder.parent / "escaped").write_text("x")


def littering(folder: Path) -> None:
    (folder / "left").write_text("x")


def placeless(folder: Path) -> None:
    raise PipelineError("something is wrong")


def endless(folder: Path) -> None:
    error = PipelineError("x")
    error.where = f"{folder}/a.json" + "!" * 3000  # its own constructor would cut it
    raise error


@pytest.mark.parametrize(
    ("read", "detail"),
    [
        (lambda folder: {}["x"], "KeyError: 'x'"),
        (escaping, r"files outside the output: \['escaped'\]"),
        (littering, r"files beside the input: \['left'\]"),
        (placeless, "PipelineError names no file: something is wrong"),
        (endless, "PipelineError is no line that one can read"),
    ],
)
def test_misbehaviour_is_foreign_and_cleared_away(read: object, detail: str, tmp_path: Path):
    reader = Reader(files=FILES, targets=("a.json",), read=read)  # type: ignore[arg-type]
    outcome = attempt(reader, FILES, tmp_path)
    assert outcome.kind == "foreign"
    assert re.search(detail, outcome.detail)
    assert list(tmp_path.iterdir()) == []


def test_an_answer_is_told_from_a_refusal(tmp_path: Path):
    def refusing(folder: Path) -> None:
        (folder.parent / OUTPUT).mkdir()
        raise PipelineError("expected x", where=f"{folder / 'a.json'}:1")

    assert attempt(Reader(files=FILES, targets=(), read=str), FILES, tmp_path).kind == "accepted"
    outcome = attempt(Reader(files=FILES, targets=(), read=refusing), FILES, tmp_path)
    assert (outcome.kind, outcome.detail[-19:]) == ("refused", "a.json:1: expected x"[-19:])


# ------------------------------------------------------------------------------------------------ processes


@pytest.mark.parametrize(
    ("make", "kind", "detail"),
    [
        (fuzz_readers.dying, "crash", "the interpreter died: exit code 9"),
        (fuzz_readers.hanging, "hang", "no end after 3 s"),
        (fuzz_readers.greedy, "foreign", "MemoryError"),
    ],
)
def test_a_reader_that_goes_down_does_not_end_the_run(
    monkeypatch: pytest.MonkeyPatch, make: object, kind: str, detail: str
):
    monkeypatch.setattr(fuzz, "LIMIT_S", 3.0)
    monkeypatch.setattr(fuzz, "READY_S", 300.0)
    found = list(fuzz.outcomes("any", make, 0, 5, 2))  # type: ignore[arg-type]
    assert [number for number, *_ in found] == [5, 6]
    assert {kind} <= {each for _, each, _ in found} <= {kind, "accepted"}
    assert detail in max(said for _, _, said in found)


def test_a_reader_that_refuses_its_valid_files_ends_the_run(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(RuntimeError, match="reader any does not take its own valid files"):
        list(fuzz.outcomes("any", fuzz_readers.refusing_its_own, 0, 0, 1))
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_row_counts_and_keeps_findings():
    row = fuzz.Row("x")
    for number, kind in enumerate(("accepted", "refused", "foreign", "crash", "hang", "refused")):
        row.add(number, kind, kind)
    assert (row.inputs, row.accepted, row.refused, row.foreign, row.hangs) == (6, 1, 2, 2, 1)
    assert [finding["number"] for finding in row.findings] == [2, 3, 4]


def test_the_command_prints_a_table_and_writes_the_figures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "figures.json"
    assert fuzz.main(["--inputs", "20", "--only", "stop-words", "--json", str(path)]) == 0
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["reader", "inputs", "accepted", "refused", "foreign", "hangs", "seconds"]
    assert row.split()[:2] == ["stop-words", "20"]
    (figures,) = json.loads(path.read_text())
    assert figures["accepted"] + figures["refused"] == 20
    assert figures["findings"] == []


def test_an_input_can_be_kept_to_look_at(tmp_path: Path):
    assert fuzz.main(["--inputs", "2", "--first", "7", "--only", "json", "--keep", str(tmp_path)]) == 0
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.json")) == [
        "json/7/history.json",
        "json/8/history.json",
    ]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--only", "klingon"], "--only: no reader `klingon`; the readers are beer-reviews, "),
        (["--json", "gone/f.json"], "--json: there is no folder `gone`"),
    ],
)
def test_a_wrong_flag_is_named(flags: list[str], message: str):
    with pytest.raises(PipelineError, match=message):
        fuzz.main(flags)

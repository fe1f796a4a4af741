"""ERASER's format: documents, evidence, queries."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feature_store import sample
from feature_store.errors import MissingDataError
from feature_store.sources.base import Example
from feature_store.store import FeatureRequest, open_features
from tests.own_corpora import eraser_records, read_all, write_eraser, write_lines

LONG_AGO_S = 1_000_000_000


def evidence(docid: str, start: int, end: int) -> dict[str, Any]:
    return {"docid": docid, "start_token": start, "end_token": end, "text": "", "start_sentence": -1}


def one(tmp_path: Path, options: dict[str, str] | None = None, **changes: Any) -> Example:
    """What the first line of the test file becomes; documents `one` and `two` are there."""
    records = eraser_records()
    first = {key: value for key, value in (records["test"][0] | changes).items() if value != "absent"}
    records["test"][0] = first
    names = [line["annotation_id"] for lines in records.values() for line in lines if line is not first]
    documents = {name: f"{name} a b c ." for name in names}
    documents |= {"test0": "its own\ntext", "one": "Pours black .\n\nIt  is thin .\n", "two": "x y z"}
    write_eraser(tmp_path, records, documents)
    examples = read_all("eraser", tmp_path, **(options or {}))[0]
    return next(example for example in examples if example.example_id == first["annotation_id"])


def test_every_line_becomes_an_example(tmp_path: Path):
    records = eraser_records()
    examples, task, report = read_all("eraser", write_eraser(tmp_path, records))
    assert task.class_names == ("NEG", "POS")
    assert [example.example_id for example in examples] == [
        line["annotation_id"] for lines in records.values() for line in lines
    ]
    assert [example.target for example in examples] == [0, 1, 0] * 3
    assert examples[0].tokens == ["train0", "a", "b", "c", "."]
    assert all(example.rationale == [2, 3] for example in examples)
    assert report.notes == ["2 classes in train.jsonl: `NEG` 2, `POS` 1"]


def test_a_document_is_split_at_blanks_over_all_lines(tmp_path: Path):
    found = one(tmp_path, docids=["one"], evidences=[[evidence("one", 0, 1)], [evidence("one", 5, 7)]])
    assert found.tokens == ["Pours", "black", ".", "It", "is", "thin", "."]
    assert found.rationale == [0, 5, 6]


def test_several_documents_in_the_order_of_docids(tmp_path: Path):
    spans = [[evidence("one", 1, 2), evidence("two", 0, 2)]]
    found = one(tmp_path, docids=["two", "one", "two"], evidences=spans)
    assert found.tokens == ["x", "y", "z", "Pours", "black", ".", "It", "is", "thin", "."]
    assert found.rationale == [0, 1, 4]


@pytest.mark.parametrize("docids", [None, [], "absent"])
def test_without_docids_the_evidences_order_counts(tmp_path: Path, docids: Any):
    found = one(tmp_path, docids=docids, evidences=[[evidence("two", 2, 3)], [evidence("one", 0, 1)]])
    assert found.tokens[:4] == ["x", "y", "z", "Pours"]
    assert found.rationale == [2, 3]


@pytest.mark.parametrize("evidences", [[], [[]]])
def test_without_evidence_the_document_of_the_annotations_name(tmp_path: Path, evidences: Any):
    found = one(tmp_path, evidences=evidences)
    assert found.tokens == ["its", "own", "text"]
    assert found.rationale is None


@pytest.mark.parametrize(
    ("use", "tokens", "rationale"),
    [
        ("ignore", ["x", "y", "z"], [1]),
        ("prepend", ["how", "is", "it", "?", "x", "y", "z"], [5]),
        ("append", ["x", "y", "z", "how", "is", "it", "?"], [1]),
    ],
)
def test_the_query(tmp_path: Path, use: str, tokens: list[str], rationale: list[int]):
    found = one(tmp_path, {"query": use}, docids=["two"], evidences=[[evidence("two", 1, 2)]])
    assert (found.tokens, found.rationale) == (tokens, rationale)


def test_different_queries_that_are_ignored_are_said(tmp_path: Path):
    records = eraser_records()
    records["val"][0]["query"] = "is it ?"
    folder = write_eraser(tmp_path, records)
    (_, note) = read_all("eraser", folder)[2].notes
    assert note.startswith(
        "the texts come with different queries, which are ignored: with `--option query=prepend`"
    )
    assert len(read_all("eraser", folder, query="append")[2].notes) == 1


def test_evidence_with_another_text_than_its_span_is_counted_and_said(tmp_path: Path):
    records = eraser_records()
    records["val"][1]["evidences"][0][0]["text"] = "b  c\n"  # only blanks differ
    records["val"][2]["evidences"][0][0]["text"] = "a b"
    _, _, report = read_all("eraser", write_eraser(tmp_path, records))
    (_, note) = report.notes
    assert note.startswith("1 of 9 evidences has a `text` that differs from the tokens of the span")
    assert report.counts["misplaced_evidences"] == 1


@pytest.mark.parametrize("pack", [False, True])
def test_documents_in_one_file(tmp_path: Path, zipped: Callable[[Path], Path], pack: bool):
    folder = write_eraser(tmp_path / "a", eraser_records())
    expected = read_all("eraser", folder)[0]
    documents = [{"docid": path.name, "document": path.read_text()} for path in (folder / "docs").iterdir()]
    for path in (folder / "docs").iterdir():
        path.unlink()
    (folder / "docs").rmdir()
    write_lines(folder / "docs.jsonl", documents)
    if pack:
        zipped(folder / "docs.jsonl")
    assert read_all("eraser", folder)[0] == expected


def test_documents_in_folders(tmp_path: Path):
    records = eraser_records()
    records["test"][0] |= {"docids": ["sub/test0"], "evidences": []}
    folder = write_eraser(tmp_path, records)
    (folder / "docs" / "sub").mkdir()
    (folder / "docs" / "test0").rename(folder / "docs" / "sub" / "test0")
    assert read_all("eraser", folder)[0][6].tokens == ["test0", "a", "b", "c", "."]


def test_a_folder_of_its_own_or_the_folder_itself(tmp_path: Path):
    write_eraser(tmp_path / "eraser", eraser_records())
    assert read_all("eraser", tmp_path)[0] == read_all("eraser", tmp_path / "eraser")[0]


@pytest.mark.parametrize("name", ["train", "val", "test"])
def test_a_missing_file(tmp_path: Path, name: str):
    write_eraser(tmp_path, eraser_records())
    (tmp_path / f"{name}.jsonl").unlink()
    with pytest.raises(MissingDataError, match=f"dataset `eraser`: no {name}.jsonl.gz or {name}.jsonl in"):
        read_all("eraser", tmp_path)


def test_missing_documents(tmp_path: Path):
    write_lines(tmp_path / "train.jsonl", [])
    with pytest.raises(
        MissingDataError, match="no docs or docs.jsonl.gz or docs.jsonl in .*, and no folder `eraser` in it"
    ):
        read_all("eraser", tmp_path)


def request(folder: Path, **changes: Any) -> FeatureRequest:
    values = {"dataset": "eraser", "data_dir": folder / "data", "cache_dir": folder / "cache"}
    return FeatureRequest(**{**values, "embedding": "random", "embedding_size": 4, **changes})


@pytest.mark.parametrize("change", ["content", "name", "more"])
def test_a_change_in_the_documents_makes_other_features(tmp_path: Path, change: str):
    folder = write_eraser(tmp_path / "data", eraser_records())
    for path in (folder / "docs").iterdir():
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    before = open_features(request(tmp_path))
    assert open_features(request(tmp_path)).fingerprint == before.fingerprint
    path = folder / "docs" / "train1"
    if change == "content":
        path.write_text("other a b c .\n")
        os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    elif change == "name":
        (folder / "docs" / "unused").write_text("")
        before = open_features(request(tmp_path))
        (folder / "docs" / "unused").rename(folder / "docs" / "unused2")
    else:
        (folder / "docs" / "more").write_text("more")
    assert open_features(request(tmp_path)).fingerprint != before.fingerprint


def test_the_query_is_part_of_the_fingerprint(tmp_path: Path):
    write_eraser(tmp_path / "data", eraser_records())
    first, second = (
        open_features(request(tmp_path, options={"query": use})) for use in ("ignore", "prepend")
    )
    assert first.fingerprint != second.fingerprint
    assert first.tokenizer == "whitespace"


def test_the_sample_is_read_as_it_was_made(tmp_path: Path):
    sample.write_eraser(tmp_path, seed=0, sizes={"train": 40, "val": 10, "test": 10})
    examples, task, _ = read_all("eraser", tmp_path)
    assert task.class_names == ("NEG", "POS")
    records = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    for record, example in zip(records, examples, strict=False):
        spans = [span for group in record["evidences"] for span in group]
        words = " ".join(span["text"] for span in spans).split()
        assert [example.tokens[i] for i in example.rationale or ()] == words
        assert (example.rationale is None) == (not spans)
    assert len({record["classification"] for record in records}) == 2

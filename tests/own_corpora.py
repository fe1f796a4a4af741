"""Small corpora of one's own, for tests: as records, on disk, and read."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from feature_store.sources import REGISTRY
from feature_store.sources.base import Example, Query, Report, TaskSpec

Records = Mapping[str, Sequence[Mapping[str, Any]]]

WORDS = ("soft", "thin", "crisp", "flat", "smooth", "gritty", "silky", "watery", "creamy", "chalky")


def own_records(num_train: int = 20) -> dict[str, list[dict[str, Any]]]:
    """Texts of two classes, `bad` and `good`; no two are equal."""
    sizes = {"train": num_train, "val": 3, "test": 3}
    return {
        split: [
            {"text": f"It is {word}, {split} {number}.", "label": "good" if number % 2 else "bad"}
            for number, word in zip(range(size), WORDS * num_train, strict=False)
        ]
        for split, size in sizes.items()
    }


def eraser_records() -> dict[str, list[dict[str, Any]]]:
    """Annotations of two classes with documents of the same names; no two are equal."""
    return {
        split: [
            {
                "annotation_id": f"{split}{number}",
                "classification": "POS" if number % 2 else "NEG",
                "evidences": [
                    [{"docid": f"{split}{number}", "start_token": 2, "end_token": 4, "text": "b c"}]
                ],
                "query": "how is it ?",
            }
            for number in range(3)
        ]
        for split in ("train", "val", "test")
    }


def write_lines(path: Path, records: Sequence[Mapping[str, Any]]) -> None:
    """One JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")


def write_own(folder: Path, records: Records, task: str = 'kind = "classification"\n') -> Path:
    """A corpus of `jsonl`."""
    for split, lines in records.items():
        write_lines(folder / f"{split}.jsonl", lines)
    (folder / "task.toml").write_text(task, encoding="utf-8")
    return folder


def write_eraser(folder: Path, records: Records, documents: Mapping[str, str] | None = None) -> Path:
    """A corpus of `eraser`; documents that are not given have one sentence of five tokens."""
    for split, lines in records.items():
        write_lines(folder / f"{split}.jsonl", lines)
    (folder / "docs").mkdir()
    names = [line["annotation_id"] for lines in records.values() for line in lines]
    for name, text in (documents or {name: f"{name} a b c .\n" for name in names}).items():
        (folder / "docs" / name).write_text(text, encoding="utf-8")
    return folder


def examples_of(frames: Iterable[pl.DataFrame]) -> list[Example]:
    """The rows of a source's frames."""
    rows = (row for frame in frames for row in frame.iter_rows(named=True))
    return [Example(**{**row, "groups": tuple(row["groups"])}) for row in rows]


def read_all(dataset: str, folder: Path, **options: str) -> tuple[list[Example], TaskSpec, Report]:
    """Everything a source makes of a folder."""
    source = REGISTRY[dataset]
    report = Report()
    chosen = {option.name: option.default for option in source.options} | options
    query = Query(inputs=source.inputs(folder, None), aspect=None, options=chosen, max_bytes=10**7)
    task = source.task(query, report)
    return list(source.examples(query, task, report)), task, report

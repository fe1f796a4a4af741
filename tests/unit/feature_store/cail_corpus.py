"""Cases in the official form of CAIL2018, written by tests where they need them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from feature_store.sources import get_source
from feature_store.sources.base import Example, Query, Report

SMALL = {"train": "data_train.json", "val": "data_valid.json", "test": "data_test.json"}
BIG = {"train": "train.json", "test": "test.json"}
Record = dict[str, Any]


def record(fact: str = "被告人张某盗窃手机。", **changes: Any) -> Record:
    """A case of theft; `changes` go into its `meta`, those of terms into `term_of_imprisonment`."""
    term = {"death_penalty": False, "life_imprisonment": False, "imprisonment": 6}
    meta = {
        "accusation": ["盗窃"],
        "relevant_articles": [264],
        "criminals": ["张某"],
        "punish_of_money": 1000,
        "term_of_imprisonment": term | {name: changes.pop(name) for name in list(changes) if name in term},
    }
    return {"fact": fact, "meta": meta | changes}


def cases(charge: str, article: int, number: int, **changes: Any) -> list[Record]:
    """Cases of one charge, each with a text of its own."""
    labels = {"accusation": [charge], "relevant_articles": [article]}
    return [record(f"第{i}号案件，被告人犯{charge}罪。", **{**labels, **changes}) for i in range(number)]


def as_text(records: Sequence[Record | str]) -> str:
    """Lines of a file; a text stands for itself."""
    dumped = (one if isinstance(one, str) else json.dumps(one, ensure_ascii=False) for one in records)
    return "".join(f"{line}\n" for line in dumped)


def write(data_dir: Path, dataset: str = "cail-small", **splits: Sequence[Record | str]) -> Path:
    """Write splits in the official layout under `data_dir/cail2018`; returns the folder of the files."""
    stage, files = ("exercise_contest", SMALL) if dataset == "cail-small" else ("first_stage", BIG)
    folder = data_dir / "cail2018" / "final_all_data" / stage
    folder.mkdir(parents=True, exist_ok=True)
    for split, records in splits.items():
        (folder / files[split]).write_text(as_text(records), encoding="utf-8")
    return folder


def write_lists(data_dir: Path, charges: Sequence[str], articles: Sequence[int]) -> None:
    """Write the official lists."""
    meta = data_dir / "cail2018" / "meta"
    meta.mkdir(parents=True, exist_ok=True)
    (meta / "accu.txt").write_text("".join(f"{charge}\n" for charge in charges), encoding="utf-8")
    (meta / "law.txt").write_text("".join(f"{article}\n" for article in articles), encoding="utf-8")


def read(
    data_dir: Path, dataset: str = "cail-small", aspect: str = "charges", **options: str
) -> tuple[list[Example], Report, tuple[str, ...]]:
    """Examples, what was counted, and names of the classes."""
    source = get_source(dataset)
    inputs = source.inputs(data_dir, aspect)
    files = {name: Path(value) for name, value in options.items() if name != "recipe"}
    values = {option.name: options.get(option.name, option.default) for option in source.options}
    query = Query(inputs=inputs | files, aspect=aspect, options=values, max_bytes=10**8)
    report = Report()
    task = source.task(query, report)
    return list(source.examples(query, task, report)), report, task.class_names or ()

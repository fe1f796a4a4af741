"""Several targets of data of one's own, and of HateXplain: label and group."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from feature_store.checks import check_features
from feature_store.errors import BadInputError, RequestError
from feature_store.sources import get_source
from feature_store.sources.base import resolve_aspect
from feature_store.store import FeatureRequest, Features, open_features
from tests.own_corpora import own_records, write_own
from tests.small_store import sample_cache

GROUPS = ["dogs", "cats", "birds"]
TASK = """
kind = "classification"
[targets.group]
kind = "classification"
[targets.stars]
kind = "regression"
score_range = [1, 5]
"""


def records(**changes: Any) -> dict[str, list[dict[str, Any]]]:
    """The texts of `own_records` with a group and stars; `changes` in the second test text."""
    found = own_records()
    for lines in found.values():
        for number, line in enumerate(lines):
            line |= {"group": GROUPS[number % 3], "stars": 1 + number % 5}
    found["test"][1] |= changes
    return found


def opened(folder: Path, aspect: str | None, task: str = TASK, **changes: Any) -> Features:
    write_own(folder / "jsonl", records(**changes), task)
    request = FeatureRequest(
        dataset="jsonl", aspect=aspect, data_dir=folder, cache_dir=folder / "cache", embedding="random"
    )
    return open_features(request)


def test_side_targets_are_columns_in_the_order_asked_for(tmp_path: Path):
    found = opened(tmp_path, "label,stars,group")
    assert check_features(found) == []
    info = found.task
    assert (found.aspect, info.name) == ("label+stars+group", "label")
    assert [(side.name, side.kind, side.class_names, side.score_range) for side in info.sides] == [
        ("stars", "regression", None, (1.0, 5.0)),
        ("group", "classification", ("birds", "cats", "dogs"), (0.0, 1.0)),
    ]
    rows = found.table("test").to_pylist()
    for row, line in zip(rows, records()["test"], strict=True):
        assert row["target_stars"] == pytest.approx((line["stars"] - 1) / 4)
        assert info.sides[1].class_names[row["target_group"]] == line["group"]
        assert info.class_names[row["target"]] == line["label"]
    assert any("3 classes in train.jsonl for `group`: `birds`" in note for note in found.notes)
    assert not any("not read" in note for note in found.notes)


def test_targets_that_nobody_asks_for_change_nothing(tmp_path: Path):
    plain = opened(tmp_path / "a", None, 'kind = "classification"\n')
    several = opened(tmp_path / "b", None)
    named = opened(tmp_path / "b", "label")
    assert named.directory == several.directory
    for split in plain.splits:
        assert several.table(split).equals(plain.table(split))
    assert several.task == plain.task
    assert any("'group' (26 lines)" in note or "'group'" in note for note in plain.notes)
    assert not any("'group'" in note for note in several.notes)


def test_a_score_may_be_the_main_target_and_a_label_a_side_target(tmp_path: Path):
    lines = {s: [line | {"score": i % 3} for i, line in enumerate(own)] for s, own in own_records().items()}
    task = 'kind = "regression"\nscore_range = [0, 2]\n[targets.label]\nkind = "classification"\n'
    write_own(tmp_path / "jsonl", lines, task)
    request = FeatureRequest(
        dataset="jsonl",
        aspect="score,label",
        data_dir=tmp_path,
        cache_dir=tmp_path / "cache",
        embedding="random",
    )
    found = open_features(request)
    assert found.task.kind == "regression"
    assert found.task.side_kinds == {"label": "classification"}


@pytest.mark.parametrize(
    ("aspect", "task", "error", "message", "hint"),
    [
        (
            "score,group",
            TASK,
            RequestError,
            "expected `label` as the main target of a classification",
            "label,group",
        ),
        (
            "label,grup",
            TASK,
            RequestError,
            "describes no target `grup`; it describes `group`, `stars`",
            "did you mean",
        ),
        (
            "label,group",
            'kind = "classification"\n',
            RequestError,
            "describes no target `group`; it describes none",
            r"add `\[targets.group\]`",
        ),
        (
            "label,group",
            TASK.replace("classification", "class"),
            BadInputError,
            "expected one of .* as `kind`",
            None,
        ),
        (
            "label",
            TASK + "[targets.tokens]\nkind = 'regression'\n",
            BadInputError,
            "`tokens` cannot be the name of a side target",
            "use letters",
        ),
        (
            "label",
            TASK + "[targets.label]\nkind = 'regression'\n",
            BadInputError,
            "`label` cannot be the name of a side target",
            "use letters",
        ),
        (
            "label",
            TASK + "[targets.price]\nkind = 'regression'\nrange = [0, 1]\n",
            BadInputError,
            "unknown key `range`",
            None,
        ),
        (
            "label",
            TASK + "[targets.price]\nkind = 'regression'\nclasses = ['a', 'b']\n",
            BadInputError,
            "`classes` belongs to kind `classification`",
            None,
        ),
        (
            "label",
            'targets = 3\nkind = "classification"\n',
            BadInputError,
            r"expected tables `\[targets.NAME\]`",
            None,
        ),
    ],
)
def test_targets_that_do_not_fit_the_task_file(
    tmp_path: Path, aspect: str, task: str, error: type[Exception], message: str, hint: str | None
):
    with pytest.raises(error, match=message) as caught:
        opened(tmp_path, aspect, task)
    if hint is not None:
        assert caught.match("") and hint.replace("\\", "") in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": "fish"}, "expected one of the 3 classes `birds`, `cats`, `dogs`, but got `fish`"),
        ({"group": None}, "expected a whole number or text as `group`, but got null"),
        ({"group": " "}, "expected a name as `group`"),
        ({"stars": 6}, r"expected a score in \[1, 5\] as `stars`, but got 6"),
        ({"stars": "3"}, r"expected a score in \[1, 5\] as `stars`, but got .*3"),
        ({"stars": None}, r"expected a score in \[1, 5\] as `stars`, but got null"),
    ],
)
def test_a_line_names_what_is_wrong_with_its_side_target(
    tmp_path: Path, changes: dict[str, Any], message: str
):
    with pytest.raises(BadInputError, match=message) as caught:
        opened(tmp_path, "label,group,stars", **changes)
    assert caught.value.where.endswith("test.jsonl:2")


def test_a_line_without_a_side_target_is_refused(tmp_path: Path):
    lines = records()
    del lines["train"][3]["group"]
    write_own(tmp_path / "jsonl", lines, TASK)
    request = FeatureRequest(
        dataset="jsonl", aspect="label,group", data_dir=tmp_path, cache_dir=tmp_path / "c", embedding="random"
    )
    with pytest.raises(BadInputError, match="no key `group`") as caught:
        open_features(request)
    assert caught.value.where.endswith("train.jsonl:4")


@pytest.mark.parametrize(
    ("dataset", "aspect", "message"),
    [
        (
            "jsonl",
            "group,label",
            "expected `label`, `score` as the first target of dataset `jsonl`",
        ),
        ("jsonl", "label,", "expected names of targets after `label,`, but got ``"),
        ("jsonl", "label,a b", "expected names of targets after `label,`, but got `a b`"),
        ("jsonl", "label,x,x", "aspect `x` is named twice"),
        (
            "jsonl",
            "group",
            "expected `label`, `score` as the first target of dataset `jsonl`, but got `group`",
        ),
        ("hatexplain", "label,groups", "no side target `groups` in dataset `hatexplain`; it has `group`"),
        ("eraser", "label,x", "dataset `eraser` has no aspects, but got `label,x`"),
    ],
)
def test_names_of_targets_that_are_refused(dataset: str, aspect: str, message: str):
    with pytest.raises(RequestError, match=message):
        resolve_aspect(get_source(dataset), aspect)


def test_one_target_needs_no_name():
    assert resolve_aspect(get_source("jsonl"), "label") is None
    assert resolve_aspect(get_source("hatexplain"), "label") is None
    assert resolve_aspect(get_source("hatexplain"), "label, group") == "label+group"


# ------------------------------------------------------------------------------------------- HateXplain


def posts(aspect: str | None) -> Features:
    return open_features(
        FeatureRequest(
            dataset="hatexplain", aspect=aspect, sample=True, embedding="random", cache_dir=sample_cache()
        )
    )


def test_the_group_that_most_annotators_name_is_a_side_target():
    found, alone = posts("label,group"), posts(None)
    assert check_features(found) == []
    (side,) = found.task.sides
    names = side.class_names
    assert names == ("Dunefolk", "Hillfolk", "Lakefolk", "Moonfolk", "another group", "no group")
    raw = json.loads(
        next((sample_cache() / "sample").glob("hatexplain-*/hatexplain/dataset.json")).read_text()
    )
    for split in found.splits:
        table, own = found.table(split), alone.table(split)
        for name in ("example_id", "tokens", "target", "rationale"):
            assert table[name].equals(own[name])
        for row in table.select(["example_id", "target_group"]).to_pylist():
            votes = Counter(
                group
                for annotator in raw[row["example_id"]]["annotators"]
                for group in set(annotator["target"] or []) - {"None"}
            )
            group = names[row["target_group"]]
            if group == "no group":
                assert max(votes.values(), default=0) < 2
            else:
                assert votes[group] == max(votes.values()) >= 2

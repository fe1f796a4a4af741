"""ERASER's prediction and annotation files, and doccano's spans, as mask files."""

import json
from pathlib import Path
from typing import Any

import pytest

from feature_store.errors import BadInputError
from feature_store.masks import MaskFile, read_masks


def write(path: Path, *records: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def read(folder: Path, *records: object) -> MaskFile:
    return read_masks(write(folder / "masks.jsonl", *records), aspect=None)


def hard(*spans: tuple[int, int]) -> list[dict[str, int]]:
    return [{"start_token": start, "end_token": end} for start, end in spans]


def predicted(**rationale: Any) -> dict[str, Any]:
    return {
        "annotation_id": "a.txt",
        "rationales": [{"docid": "a.txt", **rationale}],
        "classification": "POS",
        "classification_scores": {"POS": 0.9, "NEG": 0.1},
    }


HARD, SOFT = "hard_rationale_predictions", "soft_rationale_predictions"


@pytest.mark.parametrize(
    ("record", "num_tokens", "positions", "scores"),
    [
        (predicted(**{HARD: hard((1, 3)), SOFT: [0.1, 0.9, 0.8, 0]}), 4, [1, 2], [0.1, 0.9, 0.8, 0]),
        (predicted(**{HARD: hard((1, 3), (2, 4))}), None, [1, 2, 3], None),
        (predicted(**{HARD: [[1, 3]], SOFT: None}), None, [1, 2], None),
        (predicted(**{HARD: []}), None, [], None),
        (predicted(**{SOFT: [0.5, 0.51, 1]}), 3, [1, 2], [0.5, 0.51, 1]),
        ({"annotation_id": 7, "rationales": [{HARD: hard((0, 1))}]}, None, [0], None),
        ({"annotation_id": 7, HARD: hard((0, 1)), SOFT: [1, 0]}, 2, [0], [1, 0]),
        ({"annotation_id": 7, "rationales": []}, None, [], None),
        (
            {"annotation_id": 7, "evidences": [[{"docid": "d", "start_token": 2, "end_token": 4}]]},
            None,
            [2, 3],
            None,
        ),
        ({"annotation_id": 7, "evidences": []}, None, [], None),
    ],
)
def test_a_line_becomes_positions(tmp_path: Path, record: Any, num_tokens: Any, positions: Any, scores: Any):
    (found,) = read(tmp_path, record).records
    assert (found.num_tokens, found.positions, found.scores) == (num_tokens, positions, scores)
    assert found.example_id == str(record["annotation_id"])


def test_documents_of_one_line_are_kept_apart(tmp_path: Path):
    entries = [{"docid": name, HARD: hard((i, i + 1))} for i, name in enumerate(["premise", "hypothesis"])]
    records = read(tmp_path, {"annotation_id": "9", "rationales": entries}).records
    assert [(one.example_id, one.positions) for one in records] == [("9/premise", [0]), ("9/hypothesis", [1])]
    assert len({one.where for one in records}) == 2


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_the_length_of_annotated_documents_is_read_beside_them(tmp_path: Path, kind: str):
    if kind == "folder":
        (tmp_path / "docs").mkdir()
        (tmp_path / "docs" / "d").write_text("so thin\nand watery .\n")
    else:
        write(tmp_path / "docs.jsonl", {"docid": "d", "document": "so thin\nand watery ."})
    record = {"annotation_id": "x", "evidences": [[{"docid": "d", "start_token": 1, "end_token": 2}]]}
    (found,) = read(tmp_path, record).records
    assert (found.tokens, found.num_tokens, found.positions) == (["so", "thin", "and", "watery", "."], 5, [1])
    record["evidences"][0][0]["end_token"] = 6
    with pytest.raises(BadInputError, match=r"span \[1, 6\] of `evidences` does not fit the text's 5 tokens"):
        read(tmp_path, record)


def test_what_was_done_without_hard_predictions_and_keys_of_a_fork_are_said(tmp_path: Path):
    file = read(tmp_path, predicted(**{SOFT: [0, 1]}) | {"my_key": 1})
    assert file.notes == [
        f"masks.jsonl: 1 document has no `{HARD}`: there, tokens with a soft prediction above 0.5 "
        "count as selected",
        "masks.jsonl: keys that are not read: 'my_key' (1 line)",
    ]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"annotation_id": "a"}, "expected a list of objects as `rationales`, but got null"),
        (predicted(), f"expected the key `{HARD}` or `{SOFT}`, but got neither"),
        (predicted(**{HARD: [{"start_token": 1}]}), "no key `end_token` in a span of"),
        (predicted(**{HARD: hard((3, 1))}), "expected 0 <= start <= end in a span of"),
        (predicted(**{HARD: hard((0, 3)), SOFT: [1, 0]}), "does not fit the text's 2 tokens"),
        (
            predicted(**{HARD: hard((0, 3_000_000_000))}),
            f"masks.jsonl:1: a span of `{HARD}` ends at token 3000000000, but a text has at most 1,048,576",
        ),
        (
            {
                "annotation_id": 7,
                "evidences": [[{"docid": "d", "start_token": 2, "end_token": 30000000000000000000000}]],
            },
            "masks.jsonl:1: a span of `evidences` ends at token 30000000000000000000000, but a text has at",
        ),
        (predicted(**{HARD: 5}), r"expected a list of \[start, end\) spans as"),
        (predicted(**{SOFT: []}), f"expected a list of numbers as `{SOFT}`, but got"),
        (predicted(**{SOFT: [0.5, "x"]}), f"expected numbers as `{SOFT}`, but got 'x'"),
        (
            {"annotation_id": "a", "rationales": [{HARD: []}, {HARD: []}]},
            "document `a` occurs twice in `rationales`",
        ),
        ({"annotation_id": "a", "evidences": 3}, "expected a list of lists as `evidences`"),
        ({"annotation_id": None, "rationales": []}, "expected a whole number or text as `annotation_id`"),
    ],
)
def test_a_line_that_breaks_the_format_is_named(tmp_path: Path, record: Any, message: str):
    with pytest.raises(BadInputError, match=message) as caught:
        read(tmp_path, record)
    assert str(caught.value.where).startswith(f"{tmp_path / 'masks.jsonl'}:1")


@pytest.mark.parametrize(
    ("record", "positions"),
    [
        ({"id": 1, "num_tokens": 9, "rationale": [[0, 2, "evidence"], [3, 4]]}, [0, 1, 3]),
        ({"id": 1, "text": "so  thin, and flat", "label": [[4, 8, "bad"], [14, 15, "bad"]]}, [1, 3]),
        ({"id": 1, "text": "so  thin, and flat", "labels": [[0, 4, "bad"]]}, [0]),
        (
            {
                "id": 1,
                "text": "so thin",
                "entities": [{"id": 4, "label": "x", "start_offset": 3, "end_offset": 7}],
            },
            [1],
        ),
        ({"id": 1, "text": "so thin", "rationale": [[3, 4]], "label": "NEG"}, [1]),
        ({"id": 1, "text": "so thin", "rationale": [0, 1]}, [1]),
        ({"id": 1, "text": "so thin", "label": []}, []),
    ],
)
def test_spans_of_doccano(tmp_path: Path, record: Any, positions: list[int]):
    (found,) = read(tmp_path, record).records
    assert found.positions == positions
    if "text" in record:
        assert found.tokens == record["text"].split()


@pytest.mark.parametrize("span", [[0, 2, 3], [0, 2, "a", "b"], [0], [0, "b", 2], {"start_offset": 1}])
def test_another_list_is_no_span(tmp_path: Path, span: Any):
    with pytest.raises(BadInputError, match=r"expected a span \[start, end\) in `label`"):
        read(tmp_path, {"id": 1, "text": "so thin", "label": [span]})

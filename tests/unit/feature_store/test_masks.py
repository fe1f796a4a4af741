"""Mask files: what a line becomes, and what is refused by file and line."""

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

from feature_store import masks
from feature_store.errors import BadInputError, MissingDataError, RequestError
from feature_store.fingerprint import file_digest
from feature_store.mask_records import MaskRecord
from feature_store.masks import read_masks


def write(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def one(tmp_path: Path, record: object, aspect: str | None = None) -> MaskRecord:
    return read_masks(write(tmp_path / "masks.jsonl", record), aspect=aspect).records[0]


@pytest.mark.parametrize(
    ("record", "num_tokens", "positions"),
    [
        ({"id": 1, "rationale": [0, 1, 1]}, 3, [1, 2]),
        ({"id": 1, "rationale": [False, True]}, 2, [1]),
        ({"id": 1, "num_tokens": 4, "rationale": [[0, 1], [0, 2], [3, 4]]}, 4, [0, 1, 3]),
        ({"id": 1, "rationale": [[2, 3]]}, None, [2]),
        ({"id": 1, "rationale": [[0, 1]], "scores": [0.5, 1, -2]}, 3, [0]),
        ({"tokens": ["so", "thin"], "rationale": []}, 2, []),
        ({"id": 1, "tokens": None, "num_tokens": 2, "rationale": None}, 2, None),
    ],
)
def test_a_line_becomes_positions(
    tmp_path: Path, record: dict[str, Any], num_tokens: int | None, positions: list[int] | None
):
    found = one(tmp_path, record)
    assert (found.num_tokens, found.positions) == (num_tokens, positions)


def test_what_else_a_line_states(tmp_path: Path):
    found = one(tmp_path, {"id": 5, "tokens": ["so", "thin"], "rationale": [0, 1], "scores": [0, 0.5]})
    assert (found.example_id, found.tokens, found.scores) == ("5", ["so", "thin"], [0.0, 0.5])
    assert found.label == "5"
    assert one(tmp_path, {"tokens": ["so"], "rationale": [1]}).label == f"{tmp_path / 'masks.jsonl'}:1"


def test_a_file_has_its_digest_and_may_be_compressed(tmp_path: Path):
    path = tmp_path / "masks.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"id": "a", "rationale": [1]}\n'))
    found = read_masks(path, aspect=None)
    assert (found.sha256, found.notes, len(found.records)) == (file_digest(path), [], 1)


def test_keys_that_are_not_read_are_named(tmp_path: Path):
    path = write(tmp_path / "m.jsonl", *({"id": i, "rationale": [1], "score": [0.5]} for i in range(3)))
    assert read_masks(path, aspect=None).notes == [
        "m.jsonl: keys that are not read: 'score' (3 lines, did you mean `scores`?)"
    ]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": 1}, "masks.jsonl:1: no key `rationale`"),
        ({"rationale": [1]}, "masks.jsonl:1: expected `id` or `tokens`, .*; the keys are `rationale`$"),
        ({"id": 1, "rationale": [0, 2]}, "expected 0 or 1 in the mask `rationale`, but got 2"),
        (
            {"id": 1, "num_tokens": 3, "rationale": [0, 1]},
            "one 0 or 1 for each token as `rationale`, but got 2 for 3 tokens",
        ),
        ({"id": 1, "num_tokens": 3, "rationale": [[1, 4]]}, "does not fit the text's 3 tokens"),
        (
            {"id": 1, "rationale": [[0, 2**60]]},
            "ends at token 1152921504606846976, but a text has at most 1,048,576 tokens",
        ),
        ({"id": 1, "rationale": [[3, 2]]}, "expected 0 <= start <= end in a span of `rationale`, but got"),
        ({"id": 1, "rationale": [[0, 1]], "scores": 1}, "expected a list of numbers as `scores`, but got 1"),
        ({"id": 1, "rationale": "0 1"}, "expected a list of \\[start, end\\) spans as `rationale`"),
        *(
            (
                {"id": 1, "num_tokens": size, "rationale": [[2, 5]]},
                "masks.jsonl:1: expected at most 1,048,576 as `num_tokens`, but got ",
            )
            for size in (1e30, 3e22, 30000000000000000000000, 3000000000, 2**20 + 1)
        ),
        (
            {"id": 1, "num_tokens": 3, "rationale": [[0, 10**200]]},
            "span \\[0, 10{50,60}\\.\\.\\. of `rationale` does not fit the text's 3 tokens",
        ),
        ({"id": 1, "num_tokens": 10**60, "tokens": ["a"], "rationale": []}, "`num_tokens` is 1000"),
        ({"id": 1, "num_tokens": 0, "rationale": []}, "expected a whole number above 0 as `num_tokens`"),
        ({"id": 1, "num_tokens": True, "rationale": []}, "expected a whole number above 0 as `num_tokens`"),
        (
            {"id": 1, "num_tokens": 2, "tokens": ["a"], "rationale": [1]},
            "`num_tokens` is 2, but there are 1 token",
        ),
        ({"id": 1, "tokens": [], "rationale": []}, "no tokens in `tokens`"),
        ({"id": 1, "rationale": [1, 0], "scores": [1]}, "expected 2 numbers as `scores`, but got 1"),
        ({"id": 1, "rationale": [1], "scores": 1}, "expected 1 numbers as `scores`, but got 1"),
        ({"id": 1, "rationale": [1], "scores": ["x"]}, "expected numbers as `scores`, but got 'x'"),
        ({"id": 1, "rationale": [1], "scores": [float("nan")]}, "expected numbers as `scores`, but got nan"),
        ({"id": 1, "rationale": [1], "scores": [10**400]}, "expected numbers as `scores`, but got 1000000"),
        ({"id": [1], "rationale": [1]}, "expected a whole number or text as `id`"),
        ({"rid": 1, "palate": [0, -1]}, "expected a list of positions from 0 as `palate`"),
        ({"rid": 1, "smell": [0]}, "no key `palate`"),
    ],
)
def test_a_line_that_breaks_the_format_is_named(tmp_path: Path, record: dict[str, Any], message: str):
    with pytest.raises(BadInputError, match=message):
        one(tmp_path, record, "palate")


@pytest.mark.parametrize(
    ("record", "keys", "hint"),
    [
        (
            {"id": 1, "tokens": ["a"]},
            "`id`, `tokens`",
            "each line needs `rationale`: a 0/1 mask .* ERASER's .* `annotation_id`",
        ),
        (
            {"id": 1, "rationales": []},
            "`id`, `rationales`",
            "in ERASER predictions, every line needs `annotation_id`",
        ),
        (
            {"docid": "d", "hard_rationale_predictions": []},
            "`docid`, `hard_rationale_predictions`",
            r"in ERASER predictions, every line needs .* `rationales` \(or `hard_rationale_predictions`\)",
        ),
    ],
)
def test_a_line_without_a_rationale_is_told_both_formats(
    tmp_path: Path, record: dict[str, Any], keys: str, hint: str
):
    with pytest.raises(
        BadInputError, match=f"masks.jsonl:1: no key `rationale`; the keys are {keys}$"
    ) as caught:
        one(tmp_path, record)
    assert re.match(hint, str(caught.value.hint))


@pytest.mark.parametrize(("limit", "what"), [("MAX_SELECTED", "rationales"), ("MAX_ALL_TOKENS", "texts")])
def test_short_lines_cannot_state_more_than_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, what: str
):
    lines = [{"id": number, "num_tokens": 10, "rationale": [[0, 10]]} for number in range(3)]
    monkeypatch.setattr(masks, limit, 20)
    path = write(tmp_path / "m.jsonl", *lines[:2])
    assert len(read_masks(path, aspect=None).records) == 2
    path = write(tmp_path / "m.jsonl", *lines)
    message = (
        f"m.jsonl:3: expected at most 20 tokens in all {what} of a file, but there are 30 up to this line"
    )
    with pytest.raises(BadInputError, match=message):
        read_masks(path, aspect=None)


@pytest.mark.parametrize("key", ["id", "rid"])
def test_an_id_stands_once(tmp_path: Path, key: str):
    record = {key: 4, "rationale": [1], "palate": [0]}
    path = write(tmp_path / "m.jsonl", record, record)
    with pytest.raises(BadInputError, match="m.jsonl:2: the id `4` is in .*m.jsonl:1 already"):
        read_masks(path, aspect="palate")


def test_a_file_of_beer_needs_its_aspect(tmp_path: Path):
    with pytest.raises(RequestError, match="a file of the beer corpus") as caught:
        one(tmp_path, {"rid": 1, "palate": [0]})
    assert caught.value.hint == "add `--dataset beer --aspect ASPECT` (appearance, smell or palate)"


def test_annotations_of_beer_are_read_by_its_source(tmp_path: Path):
    review = {"rid": 1, "x": ["a", "b"], "y": [0.5] * 5, "0": [], "1": [[1, 2]]}
    path = write(tmp_path / "annotations.json", review, review | {"rid": 2, "1": []})
    marked, unmarked = read_masks(path, aspect="smell").records
    assert (marked.example_id, marked.tokens, marked.positions) == ("1", ["a", "b"], [1])
    assert (unmarked.where, unmarked.positions) == (f"{path}:2", None)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(MissingDataError, match="nowhere.jsonl: no such file"):
        read_masks(tmp_path / "nowhere.jsonl", aspect=None)


@pytest.mark.parametrize(
    ("text", "spans", "tokens", "positions"),
    [
        (
            "快递三个星期没有送到。",
            [[0, 2], [6, 10]],
            ["快递", "三个", "星期", "没有", "送到", "。"],
            [0, 3, 4],
        ),
        ("屏幕\u200b坏 了 ，\n不行", [[0, 4]], None, [0]),
        ("屏幕 坏 了", [[0, 2]], ["屏幕", "坏", "了"], [0]),
        ("The screen broke", [[4, 10]], ["The", "screen", "broke"], [1]),
    ],
)
def test_a_text_in_chinese_is_cut_into_words(
    tmp_path: Path, text: str, spans: list[list[int]], tokens: list[str] | None, positions: list[int]
):
    found = one(tmp_path, {"id": 1, "text": text, "label": [[*span, "WHY"] for span in spans]})
    assert found.positions == positions
    assert tokens is None or found.tokens == tokens


def test_a_text_that_nothing_can_cut_needs_its_tokens(tmp_path: Path):
    with pytest.raises(
        BadInputError, match="m.*1: this text is Japanese, .* no tokenizer supports this language"
    ) as caught:
        one(tmp_path, {"id": 1, "text": "部屋はとても狭かったです。", "label": [[0, 2]]})
    assert caught.value.hint == "give `tokens` instead of `text`, and spans that count tokens"

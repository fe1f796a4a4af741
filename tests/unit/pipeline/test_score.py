"""`pipeline.score` on small files whose scores are worked out by hand."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipeline import score
from pipeline.base.errors import run_command

HUMAN = [
    {"id": "a", "tokens": ["soft", "and", "thin", "."], "rationale": [1, 1, 0, 0]},
    {"id": "b", "num_tokens": 5, "rationale": [[3, 5]]},
    {"id": "c", "num_tokens": 3, "rationale": None},
]
MASKS = [
    {"id": "a", "rationale": [0, 1, 1, 0], "scores": [0.2, 0.9, 0.8, 0.1]},
    {"id": "b", "rationale": [[3, 5]], "scores": [0.1, 0.2, 0.3, 0.6, 0.7]},
    {"id": "c", "rationale": [1, 0, 0], "scores": [0.9, 0.1, 0.1]},
]
"""Text a: hits 1, selected 2, marked 2. Text b: hits 2, selected 2, marked 2. Text c: nobody annotated it."""


def write(path: Path, records: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def files(
    folder: Path, human: list[dict[str, Any]] | None = None, masks: list[dict[str, Any]] | None = None
) -> list[str]:
    human_file = write(folder / "human.jsonl", HUMAN if human is None else human)
    return [
        "--human",
        human_file,
        "--rationale",
        write(folder / "m.jsonl", MASKS if masks is None else masks),
    ]


def scored(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert run_command(score.main, [*arguments, "--json", "-"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert run_command(score.main, arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


# -------------------------------------------------------------------------------------------- the scores


def test_scores_of_every_mode_are_those_worked_out_by_hand(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    found = scored(files(tmp_path), capsys)["scores"]
    micro = 3 / 4  # hits 1 + 2 of 2 + 2 selected and of 2 + 2 marked
    expected = {
        "token_precision": micro,
        "token_recall": micro,
        "token_f1": micro,
        "token_precision_macro": (1 / 2 + 1) / 2,
        "token_recall_macro": (1 / 2 + 1) / 2,
        "token_f1_macro": (1 / 2 + 1) / 2,
        # spans: a's [1, 3) against [0, 2) has IOU 1/3, b's agree
        "iou_precision": 1 / 2,
        "iou_recall": 1 / 2,
        "iou_f1": 1 / 2,
        "iou_f1_macro": 1 / 2,
        "span_f1": 1 / 2,
        "gold_density": 4 / 9,
        "selection_rate": 5 / 12,
        "selection_rate_annotated": 4 / 9,
        "num_documents": 3,
        "num_skipped": 1,
        # a: points (R, P) = (0, 1), (1/2, 1), (1/2, 1/2), (1, 2/3), (1, 1/2); b: ranked without a fault
        "auprc": (1 / 2 + (1 / 2 + 2 / 3) / 2 / 2 + 1) / 2,
        "average_precision": (1 / 2 + 2 / 3 / 2 + 1) / 2,
    }
    assert {name: found["eraser"][name] for name in expected} == pytest.approx(expected)
    for mode in ("hatexplain", "paper"):
        assert found[mode].items() >= found["eraser"].items()
    assert found["hatexplain"]["hatexplain_token_f1"] == pytest.approx(3 / 4)
    assert found["hatexplain"]["hatexplain_iou_f1"] == pytest.approx(1 / 2)
    assert found["hatexplain"]["hatexplain_auprc"] == pytest.approx(expected["auprc"])
    assert found["paper"]["precision_micro"] == pytest.approx(3 / 4)
    assert found["paper"]["precision_macro"] == pytest.approx(3 / 4)
    assert found["paper"]["paper_iou_f1"] == pytest.approx(0.75 / 1.25)
    assert found["paper"]["paper_auprc"] == pytest.approx(0.75 * 1.75 / 2 + 0.25 * 0.85 / 2)


def test_trivial_lines_and_the_ceiling_stand_beside(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found = scored(files(tmp_path), capsys)
    assert found["trivial_rate"] == pytest.approx(4 / 9)
    lines = {line: modes["paper"] for line, modes in found["trivial"].items()}
    assert list(lines) == ["all_tokens", "no_tokens", "random_k", "first_k", "oracle_k"]
    assert lines["all_tokens"]["token_precision"] == pytest.approx(4 / 9)
    assert lines["all_tokens"]["paper_iou_f1"] == pytest.approx(4 / 9)
    assert lines["no_tokens"]["token_f1"] == 0
    # 4/9 of 12 tokens are 5: 2 + 2 + 1; the first two of a are both marked, those of b not
    assert lines["first_k"]["token_precision"] == pytest.approx(1 / 2)
    assert lines["oracle_k"]["token_f1"] == 1
    assert 0 < lines["random_k"]["token_f1"] < 1


def test_without_scores_the_mask_ranks_the_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bare = [{key: value for key, value in record.items() if key != "scores"} for record in MASKS]
    found = scored(files(tmp_path, masks=bare), capsys)
    # a: (0, 1), then both selected tokens at once: (1/2, 1/2), then the rest: (1, 1/2)
    assert found["scores"]["eraser"]["auprc"] == pytest.approx(((1 + 1 / 2) / 4 + 1 / 4 + 1) / 2)
    assert any("ranked by the mask" in note for note in found["notes"])


def test_scores_of_some_texts_only_are_not_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    masks = [MASKS[0], {**MASKS[1], "scores": None}, MASKS[2]]
    found = scored(files(tmp_path, masks=masks), capsys)
    assert any("1 of 3 texts have no `scores`" in note for note in found["notes"])


def test_each_number_has_its_definition_and_each_file_its_digest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    arguments = files(tmp_path)
    found = scored(arguments, capsys)
    names = {name for flat in found["scores"].values() for name in flat}
    assert found["definitions"].keys() == names
    assert "F / (2 - F)" in found["definitions"]["paper_iou_f1"]
    for side, path in (("human", arguments[1]), ("rationale", arguments[3])):
        digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
        assert found[side] == {"file": path, "sha256": digest}


def test_the_page_says_what_was_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "scores.json"
    assert score.main([*files(tmp_path), "--json", str(target)]) == 0
    page = capsys.readouterr().out
    assert "3 human, 3 of the rationale file; 3 matched (3 by id, 0 by text), 2 of them annotated" in page
    assert "note: texts without a human mask, left out of every score but the selection rates: 1 (c)" in page
    assert re.search(r"^token_precision +0\.7500 +0\.4444 +0\.0000", page, re.M)
    assert re.search(r"^paper_iou_f1 +0\.6000", page, re.M)
    assert "paper_iou_f1                 F / (2 - F) of token_f1" in page
    assert json.loads(target.read_text("utf-8"))["scores"]["eraser"]["token_f1"] == 0.75


def test_a_mask_of_everything_is_called_degenerate(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    masks = [{"id": "a", "rationale": [1] * 4}, {"id": "b", "rationale": [1] * 5}]
    found = scored(files(tmp_path, masks=masks), capsys)
    assert "the masks select (nearly) all tokens" in found["notes"]


# ----------------------------------------------------------------------------------- which texts are compared


def test_texts_that_do_not_match_are_named_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    masks = [MASKS[0], {"id": "x", "rationale": [1]}]
    arguments = files(tmp_path, masks=masks)
    found = scored(arguments, capsys)
    assert found["counts"] == {
        "human_texts": 3,
        "rationale_texts": 2,
        "matched": 1,
        "matched_by_id": 1,
        "matched_by_text": 0,
        "annotated": 1,
        "human_alone": 2,
        "rationale_alone": 1,
    }
    assert found["left_out"] == {"not_annotated": [], "human_alone": ["b", "c"], "rationale_alone": ["x"]}
    assert found["scores"]["eraser"]["token_precision"] == 0.5
    assert score.main(arguments) == 0
    page = capsys.readouterr().out
    assert "texts of the human file without a rationale in the other file, not scored: 2 (b, c)" in page
    assert "texts of the rationale file that are not in the human file, not scored: 1 (x)" in page


def test_texts_of_other_ids_are_found_by_their_tokens(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    human = [
        {"id": 1, "tokens": ["thin", "."], "rationale": [1, 0]},
        {"id": 2, "tokens": ["soft", "."], "rationale": [1, 0]},
        {"id": 3, "tokens": ["twice"], "rationale": [1]},
        {"id": 4, "tokens": ["twice"], "rationale": [0]},
    ]
    masks = [
        {"id": "q", "tokens": ["soft", "."], "rationale": [1, 0]},
        {"tokens": ["thin", "."], "rationale": [0, 1]},
        {"id": "t", "tokens": ["twice"], "rationale": [1]},
    ]
    found = scored(files(tmp_path, human, masks), capsys)
    assert (found["counts"]["matched_by_id"], found["counts"]["matched_by_text"]) == (0, 2)
    assert found["scores"]["eraser"]["token_precision"] == 0.5
    assert found["left_out"]["human_alone"] == ["3", "4"], "which of them is meant, nobody can say"
    assert found["left_out"]["rationale_alone"] == ["t"]


def test_spans_take_their_length_from_the_other_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    found = scored(files(tmp_path, masks=[{"id": "a", "rationale": [[0, 2]]}]), capsys)
    assert found["scores"]["eraser"]["token_f1"] == 1


BEER = {
    "rid": 7,
    "x": ["thin", "body", ",", "nice", "nose"],
    "y": [0.5] * 5,
    "0": [],
    "1": [[3, 5]],
    "2": [[0, 2]],
}


def test_the_beer_corpus_is_read_in_its_own_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    published = {"rid": 7, "appearance": [], "smell": [4], "palate": [0, 1, 2]}
    arguments = files(tmp_path, [BEER], [published])
    palate = scored([*arguments, "--dataset", "beer", "--aspect", "palate"], capsys)["scores"]["paper"]
    assert (palate["token_precision"], palate["token_recall"]) == (pytest.approx(2 / 3), 1)
    smell = scored([*arguments, "--dataset", "beer", "--aspect", "aroma"], capsys)["scores"]["paper"]
    assert (smell["token_precision"], smell["token_recall"]) == (1, 0.5)


def test_a_plain_file_goes_with_one_of_beer(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    masks = [{"id": "review", "tokens": BEER["x"], "rationale": [[0, 1]]}]
    arguments = [*files(tmp_path, [BEER], masks), "--dataset", "beer", "--aspect", "palate"]
    found = scored(arguments, capsys)
    assert found["counts"]["matched_by_text"] == 1
    assert found["scores"]["paper"]["token_recall"] == 0.5


# ------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize("flag", ["--human", "--rationale", "--audit"])
def test_what_is_read_is_not_overwritten(flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    arguments = files(tmp_path)
    if flag == "--audit":
        (tmp_path / "t.csv").write_text("precision\n0.5\n")
        arguments = ["--audit", str(tmp_path / "t.csv")]
    read = Path(arguments[arguments.index(flag) + 1])
    before = read.read_bytes()
    said = refused([*arguments, "--json", str(read)], capsys)
    assert f"error: --json {read}: this file is read by the command, and would be overwritten" in said
    assert read.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "error: no `--human` was given"),
        (["--human", "h.jsonl"], "error: no `--rationale` was given"),
        (["--human", "nowhere.jsonl", "--rationale", "r.jsonl"], "error: nowhere.jsonl: no such file"),
        (["--json", "no/folder/a.json"], "error: --json no/folder/a.json: there is no folder `no/folder`"),
        (
            ["--human", "h", "--rationale", "r", "--aspect", "smell"],
            "--aspect: `smell` is an aspect of a data set, but no data set",
        ),
        (["--human", "h", "--rationale", "r", "--dataset", "bear"], "did you mean `--dataset beer`?"),
        (
            ["--human", "h", "--rationale", "r", "--dataset", "bear"],
            "error: --dataset: expected `beer`, the only data set whose raw files this command reads",
        ),
        (
            ["--human", "h", "--rationale", "r", "--dataset", "hatexplain"],
            "expected `beer`, the only data set whose raw files",
        ),
        (["--human", "h", "--rationale", "r", "--dataset", "beer"], "dataset `beer` needs an aspect"),
        (["--json", "."], "error: --json .: expected a file, but this is a folder"),
        (["--ration", "r"], "unrecognized arguments: --ration r"),
    ],
)
def test_wrong_flags_are_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]):
    assert message in refused(arguments, capsys)


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        ([{"id": "a", "rationale": [0, 1]}], "m.jsonl:1: `a` has 2 tokens here, but 4 in"),
        (
            [{"id": "a", "rationale": [[3, 6]]}],
            "m.jsonl:1: expected a span [start, end) with an end of at most 4, because the text has 4 ",
        ),
        ([{"id": "a", "rationale": None}], "m.jsonl:1: expected a rationale, but got null"),
        ([{"id": "z", "rationale": [1]}], "m.jsonl: no text of this file (1 in all) occurs in"),
        (
            [{"id": "y", "rationale": [1]}, {"id": "z", "rationale": [1]}],
            "m.jsonl: no text of this file (2 in all) occurs in",
        ),
        (
            [{"id": "c", "rationale": [1, 0, 0]}],
            "human.jsonl: the only text that both files contain has no human rationale",
        ),
        (
            [{"id": "a", "tokens": ["soft", "and", "thick", "."], "rationale": [1, 0, 0, 0]}],
            "m.jsonl:1: the text `a` has other tokens here than in",
        ),
    ],
)
def test_files_that_do_not_go_together_are_refused(
    masks: list[dict[str, Any]], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert message in refused(files(tmp_path, masks=masks), capsys)


TOKENS = ["it", "'s", "thin", ",", "like", "water", "."]
TEXT = "It's thin, like water."


@pytest.mark.parametrize("is_text_human", [True, False])
def test_masks_of_a_text_are_scored_on_the_tokens_of_the_other_file(
    is_text_human: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    of_tokens = {"id": "a", "tokens": TOKENS, "rationale": [[2, 3], [5, 6]]}
    of_text = {"id": "a", "text": TEXT, "rationale": [[5, 10]]}
    if not is_text_human:
        of_text["scores"] = [0.1, 0.9, 0.2, 0.3]
    human, masks = ([of_text], [of_tokens]) if is_text_human else ([of_tokens], [of_text])
    found = scored(files(tmp_path, human=human, masks=masks), capsys)
    # `thin` and `,` against `thin` and `water`
    assert found["scores"]["eraser"]["token_f1"] == 0.5
    assert found["scores"]["eraser"]["selection_rate"] == pytest.approx(2 / 7)
    if not is_text_human:
        # `thin` and `,` first, then `water` and `.`: (1/1 or 1/2 together, 2/4)
        assert found["scores"]["eraser"]["average_precision"] == pytest.approx(0.5 * 0.5 + 0.5 * 0.5)


def test_another_text_is_refused_whatever_it_is_given_as(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    human = [{"id": "a", "tokens": TOKENS, "rationale": [1, 0, 0, 0, 0, 0, 0]}]
    masks = [{"id": "a", "text": "It's thick.", "rationale": [[0, 2]]}]
    said = refused(files(tmp_path, human=human, masks=masks), capsys)
    assert "the text `a` has other tokens here than in" in said and "both as `text` or both as" in said


@pytest.mark.parametrize("size", ["1e30", "30000000000000000000000", "3000000000"])
def test_an_absurd_length_is_refused_before_memory_is_taken(
    size: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "m.jsonl"
    path.write_text(f'{{"id": 1, "num_tokens": {size}, "rationale": [[2, 5]]}}\n')
    said = refused(["--human", str(path), "--rationale", str(path)], capsys)
    assert f"error: {path}:1: expected at most 1,048,576 as `num_tokens`, but got {size[:1]}" in said


def test_a_position_beyond_every_text_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    human = write(tmp_path / "h.jsonl", [{"id": 1, "num_tokens": 9, "rationale": [[0, 1]]}])
    masks = write(tmp_path / "m.jsonl", [{"rid": 1, "palate": [1, 10**30]}])
    flags = ["--dataset", "beer", "--aspect", "palate"]
    said = refused(["--human", human, "--rationale", masks, *flags], capsys)
    assert "m.jsonl:1: expected a position below 9, because the text has 9 tokens in " in said
    assert "h.jsonl:1, but got 1000" in said


def test_a_span_beyond_a_text_whose_length_the_other_file_has_is_named_as_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    human = [{"id": "a", "num_tokens": 8, "rationale": [[2, 7]]}]
    said = refused(files(tmp_path, human, [{"id": "a", "rationale": [[2, 9, "why"], [0, 1]]}]), capsys)
    assert "m.jsonl:1: expected a span [start, end) with an end of at most 8, because the text has 8" in said
    assert "human.jsonl:1, but got [2, 9, " in said


def test_a_text_of_unknown_length_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    spans = [{"id": "a", "rationale": [[0, 1]]}]
    assert "the number of tokens of `a` is not given" in refused(files(tmp_path, spans, spans), capsys)


def test_eraser_files_give_the_scores_of_the_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    gold = {"a": [(2, 6)], "b": [(0, 2), (7, 8)]}
    chosen = {"a": [(3, 7)], "b": [(0, 1), (7, 10)]}
    human = [
        {
            "annotation_id": name,
            "evidences": [[{"docid": name, "start_token": s, "end_token": e}] for s, e in spans],
        }
        for name, spans in gold.items()
    ]
    masks = [
        {
            "annotation_id": name,
            "rationales": [
                {
                    "docid": name,
                    "hard_rationale_predictions": [{"start_token": s, "end_token": e} for s, e in spans],
                    "soft_rationale_predictions": [0.5] * 10,
                }
            ],
            "classification": "POS",
        }
        for name, spans in chosen.items()
    ]
    files = [
        "--human",
        write(tmp_path / "val.jsonl", human),
        "--rationale",
        write(tmp_path / "p.jsonl", masks),
    ]
    assert run_command(score.main, [*files, "--json", "-"]) == 0
    scores = json.loads(capsys.readouterr().out)["scores"]["eraser"]
    # the benchmark's own program on these spans (tests/data has its other values)
    assert scores["token_precision"] == pytest.approx(0.625)
    assert scores["token_recall"] == pytest.approx(5 / 7)


@pytest.mark.parametrize(
    ("of_human", "of_method", "is_refused"),
    [
        ("d1", "d1", False),
        ("d1", None, False),
        ("d1", "a", False),  # the name of the annotation, as forks write it
        ("d1", "d2", True),
        ("a", "d2", True),
    ],
)
def test_a_rationale_of_another_document_is_refused(
    of_human: str,
    of_method: str | None,
    is_refused: bool,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    evidence = {"docid": of_human, "start_token": 0, "end_token": 2}
    human = [{"annotation_id": "a", "evidences": [[evidence]]}]
    found: dict[str, Any] = {"soft_rationale_predictions": [0.9, 0.8, 0.1]}
    masks = [{"annotation_id": "a", "rationales": [found | ({"docid": of_method} if of_method else {})]}]
    arguments = files(tmp_path, human, masks)
    if not is_refused:
        assert scored(arguments, capsys)["scores"]["eraser"]["token_precision"] == 1
        return
    said = refused(arguments, capsys)
    assert (
        f"m.jsonl:1: the rationale of `a` is for document `d2` here, but for document `{of_human}` in" in said
    )

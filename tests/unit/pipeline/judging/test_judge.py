"""The command: a sheet is made, filled in without a server, and its results are written."""

import contextlib
import dataclasses
import json
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feature_store.errors import RequestError
from infocal.errors import UserError
from pipeline import judge, score
from pipeline.base.errors import PipelineError
from pipeline.judging import host
from pipeline.judging import sheet as sheets
from pipeline.judging.book import Book
from pipeline.judging.guide import SCALES, WORDS
from pipeline.judging.sheet import Text
from tests.integration.servers import free_port
from tests.small_store import new_store

TEXTS = [
    {"id": "a", "text": "the mouthfeel is thin and watery , but the smell is lovely .", "label": "low"},
    {"id": "b", "text": "a smooth and creamy body .", "label": "high"},
    {"id": 3, "tokens": ["thin", "as", "water"], "score": 0.5},
    {"text": "被告人王某盗窃手机一部，价值人民币3000元。"},
]
NUM_TOKENS = {"a": 13, "b": 6, "3": 3}


def written(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    return path


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A sheet for two judges, three texts and two methods."""
    written(tmp_path / "texts.jsonl", TEXTS[:3])
    for name, span in (("first", [0, 2]), ("second", [1, 3])):
        masks = [{"id": k, "num_tokens": n, "rationale": [span]} for k, n in NUM_TOKENS.items()]
        written(tmp_path / f"{name}.jsonl", masks)
    assert judge.main([*new(tmp_path), "--no-serve"]) == 0
    return tmp_path / "sheet"


def new(folder: Path, *more: str) -> list[str]:
    flags = ["--sheet", str(folder / "sheet"), "--input", str(folder / "texts.jsonl"), "--judges", "2"]
    flags += [
        "--rationales",
        f"InfoCal={folder / 'first.jsonl'}",
        "--rationales",
        str(folder / "second.jsonl"),
    ]
    return [*flags, *more]


def filled(made: Path, out: Path) -> list[Path]:
    """Exported files, filled in: `InfoCal` marks the first word on, and gets 5, the other 3."""
    assert judge.main(["--sheet", str(made), "--export", str(out)]) == 0
    for path in sorted(out.glob("judge-*.jsonl")):
        lines = read(path)
        for line in lines:
            value = 5 if line["text"].startswith("【") else 3
            line |= {"usefulness": value, "completeness": value - 0.5, "fluency": 2}
        written(path, lines)
    return sorted(out.glob("judge-*.jsonl"))


def test_a_sheet_goes_to_files_and_back_and_has_results(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    files = filled(made, tmp_path / "out")
    assert len(files) == 2 and "4" in (tmp_path / "out" / "guide.txt").read_text()
    assert judge.main(["--sheet", str(made), "--import", *map(str, files)]) == 0
    capsys.readouterr()
    assert judge.main(["--results", str(made)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "| InfoCal | 5.00 [5.00, 5.00] | 4.50 [4.50, 4.50] |" in text
    assert "InfoCal less second.jsonl | Usefulness | 2.00 [2.00, 2.00] | 3 | 0.250 | 0.250 |" in text
    found = json.loads((made / "results.json").read_text())
    assert found["num_done"] == found["num_slots"]
    assert found["alpha"]["usefulness"]["value"] == 1.0
    assert found["repeats"]["usefulness"]["equal"] == 1.0
    assert "\\toprule" in (made / "results.tex").read_text()
    assert "<h1>Human evaluation: texts.jsonl</h1>" in (made / "results.html").read_text()


def test_results_become_artifacts_of_the_run_that_is_named(made: Path, tmp_path: Path):
    files = filled(made, tmp_path / "out")
    judge.main(["--sheet", str(made), "--import", *map(str, files)])
    tracker = new_store(tmp_path)
    run_id = tracker.start_run(tracker.experiment("beer", "palate"), "judged", {}, {})
    assert judge.main(["--results", str(made), "--tracking-uri", tracker.uri, "--run", run_id]) == 0
    assert tracker.artifact_paths(run_id, "judging") == {
        f"judging/results.{end}" for end in ("md", "tex", "html", "json")
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"usefulness": 6}, "expected a number from 1 to 5 as `usefulness`, but got 6"),
        ({"fluency": "good"}, "as `fluency`, but got 'good'"),
        ({"fluency": 4.25}, "expected `fluency` in tenths, as 4.2, but got 4.25"),
        (
            {"label": "none"},
            "`label` differs from the sheet: with `judge` 1 and `number` 3, the sheet has '[^']*', but the "
            "file has 'none'",
        ),
        (
            {"text": "another"},
            "`text` differs from the sheet: with `judge` 1 and `number` 3, the sheet has .*, but the file "
            "has 'another'",
        ),
        ({"judge": 2}, "`(text|label)` differs from the sheet: with `judge` 2 and `number` 3"),
        ({"fluency": KeyError}, "no key `fluency`; the keys are"),
        ({"text": KeyError}, "no key `text`; the keys are"),
        ({"sheet": "0" * 16}, "the line belongs to sheet '0000000000000000'"),
        ({"judge": 3}, "expected `judge` from 1 to 2, but got 3"),
        ({"number": 0}, "expected `number` from 1 to"),
    ],
)
def test_a_wrong_line_is_named_and_nothing_is_kept(
    made: Path, tmp_path: Path, change: dict[str, Any], message: str
):
    file = filled(made, tmp_path / "out")[0]
    lines = read(file)
    changed = {key: value for key, value in (lines[2] | change).items() if value is not KeyError}
    written(file, [*lines[:2], changed])
    with pytest.raises(PipelineError, match=message) as caught:
        judge.main(["--sheet", str(made), "--import", str(file)])
    assert caught.value.where == f"{file}:3"
    with pytest.raises(PipelineError, match="nobody has answered anything yet"):
        judge.main(["--results", str(made)])


def test_another_answer_needs_leave_to_take_the_place_of_a_finished_one(made: Path, tmp_path: Path):
    file = filled(made, tmp_path / "out")[0]
    take = ["--sheet", str(made), "--import", str(file)]
    judge.main(take)
    judge.main(take)  # the same once more
    lines = read(file)
    written(file, [lines[0] | {"fluency": 4}])
    with pytest.raises(
        PipelineError, match="`judge` 1 and `number` 1 has another answer than the stored one"
    ):
        judge.main(take)
    assert judge.main([*take, "--replace"]) == 0


def test_two_lines_that_contradict_each_other_are_both_named(made: Path, tmp_path: Path):
    file, other = filled(made, tmp_path / "out")
    lines = read(file)
    written(other, [lines[1] | {"fluency": 4}])
    for replace in ([], ["--replace"]):
        with pytest.raises(
            PipelineError,
            match=f"the line with `judge` 1 and `number` 2 has a different answer here than in {file}:2",
        ) as caught:
            judge.main(["--sheet", str(made), "--import", str(file), str(other), *replace])
        assert caught.value.where == f"{other}:1"


def test_null_changes_nothing_and_lines_may_complete_each_other(made: Path, tmp_path: Path):
    file = filled(made, tmp_path / "out")[0]
    line = read(file)[0]
    null = dict.fromkeys(SCALES)
    parts = [line | null | {scale: line[scale]} for scale in SCALES]
    for given in (parts, [line | null | {"fluency": 1}]):
        written(file, given)
        judge.main(["--sheet", str(made), "--import", str(file), "--replace"])
    book = Book(made, sheets.load(made, "--sheet"))
    (answer,) = book.answers(0).values()
    book.close()
    assert answer.is_complete
    assert answer.content == {scale: line[scale] for scale in SCALES} | {"fluency": 1}


@pytest.mark.parametrize("change", [{"tokens": ["other"]}, {"tokens": KeyError}, {"rationale": KeyError}])
def test_marks_of_other_tokens_are_refused(tmp_path: Path, change: dict[str, Any]):
    texts, out = written(tmp_path / "texts.jsonl", TEXTS[1:2]), tmp_path / "out"
    sheet = ["--sheet", str(tmp_path / "sheet")]
    judge.main([*sheet, "--annotate", "--input", str(texts), "--judges", "1", "--export", str(out)])
    file = out / "judge-1.jsonl"
    line = read(file)[0] | {"rationale": [[0, 1]]} | change
    written(file, [{key: value for key, value in line.items() if value is not KeyError}])
    (key,) = change
    with pytest.raises(UserError, match=f"`{key}`") as caught:
        judge.main([*sheet, "--import", str(file)])
    assert caught.value.where == f"{file}:1"


def _of_text(path: Path) -> None:
    path.write_text("garbage\n" * 300)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5000])


def _with_a_wrong_answer(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("INSERT INTO answer VALUES (0, 0, '{\"fluen', 1, '')")


@pytest.mark.parametrize("damage", [_of_text, _empty, _cut_off, _with_a_wrong_answer])
@pytest.mark.parametrize("flag", ["--results", "--export", "--import", "--port"])
def test_a_damaged_book_is_named(made: Path, tmp_path: Path, damage: Callable[[Path], None], flag: str):
    file = filled(made, tmp_path / "out")[0]
    damage(made / "answers.db")
    more = {"--export": [flag, str(tmp_path / "new")], "--import": [flag, str(file)], "--port": [flag, "0"]}
    with pytest.raises(PipelineError, match=r"the answers (cannot be read|are damaged): ") as caught:
        judge.main([flag if flag == "--results" else "--sheet", str(made), *more.get(flag, [])])
    assert caught.value.where == str(made / "answers.db") and "restore this file" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--judges", "2", "--texts", "5"], "`--texts`, `--judges` have no effect"),
        (["--option", "x=y"], "`--option` has no effect"),
        (["--replace", "--import", "FILE", "--debug"], ""),
    ],
)
def test_flags_that_an_existing_sheet_does_not_heed_are_named(
    made: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, flags: list[str], said: str
):
    file = filled(made, tmp_path / "out")[0]
    does = [] if "--import" in flags else ["--export", str(tmp_path / "again")]
    judge.main(["--sheet", str(made), *does, *(str(file) if f == "FILE" else f for f in flags)])
    notes = [record.getMessage() for record in caplog.records if "effect" in record.getMessage()]
    assert notes == ([f"note: on an existing sheet, {said}: the sheet stays as it is"] if said else [])


def test_a_command_with_nothing_to_do_is_refused(made: Path):
    with pytest.raises(PipelineError, match="there is nothing to do without a new sheet") as caught:
        judge.main(["--sheet", str(made), "--no-serve"])
    assert caught.value.where == "--no-serve"


@pytest.mark.parametrize("rate", ["0.7", "1", "-0.1", "half"])
def test_more_repeats_than_half_are_refused(tmp_path: Path, rate: str):
    with pytest.raises(PipelineError, match=f"--repeats: expected a number from 0 to 0.5, but got '{rate}'"):
        judge.main(new(tmp_path, f"--repeats={rate}"))


def test_the_port_stays_with_the_sheet_unless_another_program_has_it(
    made: Path, caplog: pytest.LogCaptureFixture
):
    def port(wanted: int = 0) -> int:
        with host.listening_for(made, "127.0.0.1", wanted) as listener:
            return int(listener.getsockname()[1])

    first = port()
    assert port() == first and caplog.records == []
    with socket.create_server(("127.0.0.1", first)):
        assert port() != first
        assert f"the links of this sheet have port {first}, which is not free" in caplog.text
    assert port() == first
    other = free_port()
    assert port(other) == other and port() == other


def test_what_annotators_mark_is_gold_by_vote_and_is_scored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    texts, sheet, out = written(tmp_path / "texts.jsonl", TEXTS), tmp_path / "sheet", tmp_path / "out"
    flags = ["--sheet", str(sheet), "--annotate", "--input", str(texts), "--judges", "3", "--per-text", "3"]
    assert judge.main([*flags, "--export", str(out)]) == 0
    marks = {
        "b": ([[0, 2]], [[1, 3]], [[1, 2]]),
        "3": ([], [], [[0, 3]]),
        "4": ([[0, 1]], [[0, 1]], [[0, 1]]),
    }
    for number, path in enumerate(sorted(out.glob("judge-*.jsonl"))):
        names = {tuple(text["tokens"]) for text in TEXTS if "tokens" in text}
        lines = read(path)
        for line in lines:
            name = "b" if "smooth" in line["tokens"] else "3" if tuple(line["tokens"]) in names else "4"
            line["rationale"] = None if "watery" in line["tokens"] else marks[name][number]
        written(path, lines)
    judge.main(["--sheet", str(sheet), "--import", *map(str, sorted(out.glob("judge-*.jsonl")))])
    for vote, expected in (("majority", [1, 2]), ("any", [0, 3]), ("all", [1, 2])):
        assert judge.main(["--results", str(sheet), "--vote", vote]) == 0
        gold = {record["id"]: record for record in read(sheet / "gold.jsonl")}
        text, (start, end) = TEXTS[1]["text"], expected
        (span,) = gold["b"]["rationale"]
        assert gold["b"]["text"] == text and "tokens" not in gold["b"] and "text" not in gold["3"]
        assert text[slice(*span)].split() == text.split()[start:end]
        assert gold["b"]["label"] == "high" and gold["3"]["score"] == 0.5
        assert gold["3"]["rationale"] == ([[0, 3]] if vote == "any" else [])
        assert gold["a"]["rationale"] is None
    found = json.loads((sheet / "results.json").read_text())
    # token F1 of pairs: b 1/2, 2/3, 2/3; 3: both nothing 1, 0, 0; 4: 1, 1, 1
    assert found["token_f1"]["value"] == pytest.approx(((1 / 2 + 2 / 3 + 2 / 3) / 3 + 1 / 3 + 1) / 3)
    capsys.readouterr()
    human, own = str(sheet / "gold.jsonl"), str(sheet / "annotator-1.jsonl")
    assert score.main(["--human", human, "--rationale", own]) == 0
    assert "token_f1" in capsys.readouterr().out


CRASH = "The app crashes."


def spans_on_sheet(folder: Path, texts: dict[str, Any], masks: dict[str, Any], *more: str) -> list[list[int]]:
    """The spans of a method on a sheet of one text."""
    input_file, mask_file = written(folder / "t.jsonl", [texts]), written(folder / "m.jsonl", [masks])
    flags = ["--input", str(input_file), "--rationales", str(mask_file), "--judges", "1", "--no-serve", *more]
    assert judge.main(["--sheet", str(folder / "one"), *flags]) == 0
    return sheets.load(folder / "one", "--sheet").rationales[0][0]


@pytest.mark.parametrize("name", [{"id": "1"}, {}])
@pytest.mark.parametrize(
    ("rationale", "option", "expected"),
    [
        ([[8, 15]], [], [[2, 3]]),
        ([[8, 16]], [], [[2, 4]]),
        ([0, 0, 1], [], [[2, 4]]),
        ([[8, 15]], ["--option", "tokenizer=whitespace"], [[2, 3]]),
        ([[0, 3], [15, 16]], ["--option", "tokenizer=english_cased"], [[0, 1], [3, 4]]),
    ],
)
def test_masks_of_the_same_text_fit_it_however_it_is_split(
    tmp_path: Path, name: dict[str, str], rationale: list[Any], option: list[str], expected: list[list[int]]
):
    masks = {"id": "1", "text": CRASH, "rationale": rationale}
    assert spans_on_sheet(tmp_path, {"text": CRASH, **name}, masks, *option) == expected


def test_masks_with_characters_fit_the_tokens_of_the_sheet_and_another_text_does_not(tmp_path: Path):
    texts = {"id": "1", "tokens": ["the", "app", "crashes", "."]}
    masks = {"id": "1", "text": CRASH, "rationale": [[8, 15]]}
    assert spans_on_sheet(tmp_path, texts, masks) == [[2, 3]]
    (tmp_path / "other").mkdir()
    with pytest.raises(PipelineError, match="text `1` has different tokens here than on the sheet"):
        spans_on_sheet(tmp_path / "other", {"id": "1", "text": "An app crashes."}, masks)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("tokenizer=nope", "no tokenizer `nope`"),
        ("target=polar", "texts from a file have one option, `tokenizer`, but got `target`"),
    ],
)
def test_an_option_that_texts_of_a_file_do_not_have_is_refused(tmp_path: Path, option: str, message: str):
    with pytest.raises((PipelineError, RequestError), match=message):
        spans_on_sheet(tmp_path, {"text": CRASH}, {"id": "1", "rationale": [1]}, "--option", option)


def test_gold_of_a_text_is_scored_against_masks_of_the_text_and_of_its_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    texts, sheet, out = written(tmp_path / "t.jsonl", [{"id": "1", "text": CRASH}]), tmp_path / "s", tmp_path
    flags = ["--annotate", "--input", str(texts), "--judges", "1", "--export", str(out)]
    assert judge.main(["--sheet", str(sheet), *flags]) == 0
    (line,) = read(out / "judge-1.jsonl")
    written(out / "judge-1.jsonl", [line | {"rationale": [[2, 3]]}])
    judge.main(["--sheet", str(sheet), "--import", str(out / "judge-1.jsonl")])
    judge.main(["--results", str(sheet)])
    assert read(sheet / "gold.jsonl") == [{"id": "1", "text": CRASH, "rationale": [[8, 15]]}]
    of_text = {"id": "1", "text": CRASH, "rationale": [[8, 15]]}
    of_tokens = {"id": "1", "tokens": ["the", "app", "crashes", "."], "rationale": [[2, 3]]}
    for masks in (of_text, of_tokens):
        files = ["--human", sheet / "gold.jsonl", "--rationale", written(tmp_path / "m.jsonl", [masks])]
        capsys.readouterr()
        assert score.main([*map(str, files), "--json", "-"]) == 0
        assert json.loads(capsys.readouterr().out)["scores"]["eraser"]["token_f1"] == 1


def test_a_sheet_of_an_older_version_is_still_the_same(made: Path):
    document = json.loads((made / "sheet.json").read_text())
    assert "original" in document["texts"][0] and "original" not in document["texts"][2]
    texts = [Text(**{**text, "original": "", "places": []}) for text in document["texts"]]
    older = dataclasses.replace(sheets.load(made, "--sheet"), texts=texts)
    sheets.save(older, made)
    assert all(text.keys().isdisjoint({"original", "places"}) for text in older.document()["texts"])
    assert sheets.load(made, "--sheet") == older


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--sheet", "s", "--annotate", "--models", "m"], "people mark their own rationales on this sheet"),
        (["--sheet", "s", "--input", "x"], "texts from a file have no rationales of a model"),
        (["--results", "s", "--models", "m"], "this flag only computes results"),
        (["--results", "s", "--tracking-uri", "sqlite:///x.db"], "this flag needs `--run`"),
        (["--sheet", "s", "--run", "r"], "this flag needs `--results`"),
        (["--sheet", "s", "--replace"], "this flag needs `--import`"),
        (["--sheet", "s", "--port", "70000"], "expected a port from 0 to 65535, but got 70000"),
        (["--sheet", "s"], "no sheet in `s`"),
        (
            ["--sheet", "s", "--rationales", "a.jsonl", "--rationales", "b/a.jsonl"],
            "two methods are called `a.jsonl`",
        ),
    ],
)
def test_flags_that_do_not_go_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: list[str], message: str
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError, match=message):
        judge.main(flags)
    assert [*tmp_path.iterdir()] == []


def test_masks_of_other_texts_make_no_sheet(made: Path, tmp_path: Path):
    flags = new(tmp_path, "--no-serve")
    flags[1] = str(tmp_path / "other")
    written(tmp_path / "first.jsonl", [{"id": "a", "num_tokens": 4, "rationale": [[0, 1]]}])
    with pytest.raises(PipelineError, match="has different tokens here than on the sheet|is missing"):
        judge.main(flags)
    assert not (tmp_path / "other").exists()


def test_a_folder_that_is_not_empty_is_left_alone(made: Path, tmp_path: Path):
    with pytest.raises(PipelineError, match="expected a new or empty folder, but this folder is not empty"):
        judge.main(new(tmp_path, "--no-serve"))


def test_both_languages_say_the_same_things():
    assert WORDS["en"].keys() == WORDS["zh"].keys()
    assert all(WORDS["en"].values()) and all(WORDS["zh"].values())

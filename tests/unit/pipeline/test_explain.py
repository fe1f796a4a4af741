import dataclasses
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infocal.config import Task
from pipeline import explain
from pipeline.base.errors import PipelineError, run_command
from pipeline.cli import explanations, text_input
from pipeline.cli.text_input import Line
from pipeline.training.checkpoints import load_package, save_package
from pipeline.training.explainer import ExplainedToken, Explanation
from tests.small_store import NAME, new_store, registered, small_package

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return small_package(tmp_path / "model")


class Bytes(io.TextIOWrapper):
    """Standard input or output with a say on whether it is a terminal."""

    terminal = False

    def isatty(self) -> bool:
        return self.terminal


def standard_input(monkeypatch: pytest.MonkeyPatch, content: bytes, terminal: bool = False):
    stream = Bytes(io.BytesIO(content), encoding="utf-8")
    stream.terminal = terminal
    monkeypatch.setattr(sys, "stdin", stream)


def explanation(text: str, chosen: set[str], **changes: Any) -> Explanation:
    tokens, position = [], 0
    for word in text.split():
        start = text.index(word, position)
        position = start + len(word)
        tokens.append(ExplainedToken(word, start, position, 0.5, word in chosen))
    values: dict[str, Any] = {"prediction": 0.25, "probabilities": [], "label": "", "tokens": tokens}
    return Explanation(**{**values, **changes})


# -------------------------------------------------------------------------------------------- marking


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (set(), "a very  smooth body"),
        ({"very", "smooth"}, "a [very  smooth] body"),
        ({"a", "body"}, "[a] very  smooth [body]"),
        ({"a", "very", "smooth", "body"}, "[a very  smooth body]"),
    ],
)
def test_runs_of_selected_tokens_are_marked_in_the_text_as_given(chosen: set[str], expected: str):
    text = "a very  smooth body"
    assert explanations.marked(text, explanation(text, chosen).tokens, ("[", "]")) == expected


def test_a_text_of_several_lines_stays_on_one():
    text = "smooth\nbody\r\nthin"
    assert explanations.line(text, explanation(text, {"body"}), ("[", "]")) == (
        "predicted score: 0.25 of 1\tsmooth [body] thin"
    )


def test_a_class_is_said_by_name_and_probability():
    found = explanation("a body", set(), prediction=1.0, probabilities=[0.3, 0.7], label="good")
    assert explanations.line("a body", found, ("[", "]")) == (
        "predicted good (0.700) (no token reaches p >= 0.5)\ta body"
    )


@pytest.mark.parametrize(
    ("changes", "chosen", "said"),
    [
        ({"subject": "palate"}, {"body"}, "predicted palate: 0.25 of 1"),
        ({"score_range": (1.0, 5.0), "prediction": 3.4}, {"body"}, "predicted score: 3.40 (from 1 to 5)"),
        ({"score_range": (0.0, 10.0), "prediction": 7.25}, {"a"}, "predicted score: 7.25 of 10"),
        ({"num_unknown": 1}, {"a"}, "predicted score: 0.25 of 1 (1 of 2 words unknown)"),
        (
            {"num_unknown": 2},
            set(),
            "predicted score: 0.25 of 1 (2 of 2 words unknown; no token reaches p >= 0.5)",
        ),
    ],
)
def test_what_a_number_is_and_what_to_know_of_it(changes: dict[str, Any], chosen: set[str], said: str):
    assert explanation("a body", chosen, **changes).said == said


# -------------------------------------------------------------------------------------------- command


def test_texts_of_the_command_line(package: Path, capsys: pytest.CaptureFixture[str]):
    texts = ["A smooth body .", "creamy"]
    assert explain.main(["--package", str(package), "--text", texts[0], "--text", texts[1]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    for text, line in zip(texts, lines, strict=True):
        said, _, marked = line.partition("\t")
        assert re.fullmatch(r"predicted palate: 0\.\d\d of 1", said)
        assert marked.replace("[", "").replace("]", "") == text
        assert "[" in marked, "the untrained model selects nearly everything"


def test_brackets_in_bold_on_a_terminal(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    explain.main(["--package", str(package), "--text", "creamy"])
    assert capsys.readouterr().out.endswith("\t\033[1m[creamy]\033[0m\n")
    monkeypatch.setenv("NO_COLOR", "1")
    explain.main(["--package", str(package), "--text", "creamy"])
    assert capsys.readouterr().out.endswith("\t[creamy]\n")


def test_json_holds_every_token(package: Path, capsys: pytest.CaptureFixture[str]):
    explain.main(["--package", str(package), "--text", "Crème brûlée", "--json"])
    printed = capsys.readouterr().out
    answer = json.loads(printed)
    assert answer["text"] == "Crème brûlée"
    assert "è" in printed
    assert [(token["token"], token["start"], token["end"]) for token in answer["tokens"]] == [
        ("crème", 0, 5),
        ("brûlée", 6, 12),
    ]
    assert answer["rationale"] == [token["token"] for token in answer["tokens"] if token["selected"]]
    assert (answer["threshold"], answer["held_threshold"]) == (0.5, 0.5)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (0.5, "marked: tokens with p >= 0.5"),
        (
            0.125,
            "marked: tokens with p >= 0.5; p is rescaled: the model's own threshold, 0.125, is shown as 0.5",
        ),
        (
            0.98765,
            "marked: tokens with p >= 0.5; p is rescaled: the model's own threshold, 0.988, is shown as 0.5",
        ),
    ],
)
def test_the_threshold_that_marks_is_stated(
    held: float,
    said: str,
    package: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
):
    moved = load_package(package)
    moved.model.threshold = held
    save_package(tmp_path / "moved", moved)
    caplog.set_level("INFO")
    command = ["--package", str(tmp_path / "moved"), "--text", "A smooth body", "--text", "creamy"]
    explain.main(command)
    assert caplog.messages.count(said) == 1, "once, however many texts there are"
    caplog.clear()
    capsys.readouterr()
    explain.main([*command, "--json"])
    assert not [message for message in caplog.messages if "marked" in message]
    for answer in map(json.loads, capsys.readouterr().out.splitlines()):
        assert (answer["threshold"], answer["held_threshold"]) == (0.5, held)
        assert all((t["probability"] >= answer["threshold"]) == t["selected"] for t in answer["tokens"])


def test_more_lines_than_a_batch_keep_their_order(
    package: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    file = tmp_path / "texts.txt"
    file.write_text("".join(f"body {i}\n" for i in range(130)) + "\n  \nlast one")
    assert explain.main(["--package", str(package), "--input", str(file), "--json"]) == 0
    texts = [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()]
    assert texts == [f"body {i}" for i in range(130)] + ["last one"]
    assert caplog.messages == [f"{file}:131: empty line skipped", f"{file}:132: empty line skipped"]


@pytest.mark.parametrize("arguments", [[], ["--input", "-"]])
def test_standard_input(
    package: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    standard_input(monkeypatch, b"a body\r\ncreamy\n")
    explain.main(["--package", str(package), "--json", *arguments])
    assert [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()] == ["a body", "creamy"]


def test_a_registered_model_is_loaded_by_alias(
    tmp_path: Path, package: Path, capsys: pytest.CaptureFixture[str]
):
    tracker = new_store(tmp_path)
    registered(tracker, package)
    command = ["--tracking-uri", tracker.uri, "--text", "creamy body"]
    explain.main(["--model", f"models:/{NAME}@challenger", *command])
    registered_says = capsys.readouterr().out
    explain.main(["--package", str(package), *command])
    assert registered_says == capsys.readouterr().out


def test_class_names_come_from_the_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    task = Task(kind="classification", num_classes=2)
    package = small_package(tmp_path / "classes", task, class_names=["bad", "good"])
    explain.main(["--package", str(package), "--text", "creamy"])
    assert capsys.readouterr().out.split()[1] in {"bad", "good"}


# ------------------------------------------------------------------------------------------ streaming


class Pieces(io.BytesIO):
    """A pipe that gives what was written at a time, and says what it was read for."""

    def __init__(self, pieces: list[bytes]) -> None:
        super().__init__()
        self.pieces = pieces

    def read1(self, size: int | None = -1, /) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


def test_a_line_is_answered_before_the_next_one_is_waited_for():
    pipe = Pieces([b"one\n", b"two\nthr", b"ee\n\nfour", b" words\nfi", b"ve"])
    found = text_input.windows(pipe, "pipe")
    assert next(found) == [Line("one", "pipe:1")]
    assert len(pipe.pieces) == 4
    assert [[(entry.text, entry.where) for entry in window] for window in found] == [
        [("two", "pipe:2")],
        [("three", "pipe:3")],
        [("four words", "pipe:5")],
        [("five", "pipe:6")],
    ]


@pytest.mark.parametrize("last", [b"", b"\n"])
def test_a_file_is_read_in_windows_of_bounded_size(last: bytes, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_input, "WINDOW", 4)
    found = list(text_input.windows(io.BytesIO(b"\n".join([b"a b"] * 10) + last), "file"))
    assert [len(window) for window in found] == ([4, 4, 2] if last else [4, 4, 1, 1])
    assert [entry.where for window in found for entry in window] == [f"file:{i}" for i in range(1, 11)]


def test_nothing_to_read_gives_nothing():
    assert list(text_input.windows(io.BytesIO(b""), "file")) == []


def test_lines_without_a_token_are_named_and_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    package = load_package(small_package(tmp_path / "small", tokenizer="jieba"))
    save_package(tmp_path / "own", dataclasses.replace(package, tokenizer_files={"stop_words": "。\n"}))
    (tmp_path / "texts").write_text("手机\n。\n\n现金\n。。\n")
    arguments = ["--package", str(tmp_path / "own")]
    assert explain.main([*arguments, "--input", str(tmp_path / "texts"), "--json"]) == 0
    assert [json.loads(line)["text"] for line in capsys.readouterr().out.splitlines()] == ["手机", "现金"]
    assert [message.removeprefix(f"{tmp_path}/") for message in caplog.messages] == [
        "texts:3: empty line skipped",
        "texts:2: the line has no token and is skipped",
        "texts:5: the line has no token and is skipped",
    ]
    assert run_command(explain.main, [*arguments, "--text", "手机", "--text", "。"]) == 2
    assert "text 2 of 2 has no token: '。'" in capsys.readouterr().err


def explain_process(package: Path, **places: Any) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "pipeline.explain", "--package", str(package), "--json"]
    return subprocess.Popen(command, cwd=ROOT, **places)


@pytest.mark.slow
def test_a_slow_pipe_gets_each_answer_at_once(package: Path):
    with explain_process(package, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in ("a body", "creamy"):
            process.stdin.write(f"{text}\n".encode())
            process.stdin.flush()
            # the pipe stays open: an answer that waited for more lines would never come
            assert json.loads(process.stdout.readline())["text"] == text
        process.stdin.close()
        assert process.stdout.read() == b""
    assert process.returncode == 0


@pytest.mark.slow
def test_a_reader_who_has_seen_enough_ends_it_quietly(package: Path, tmp_path: Path):
    (tmp_path / "texts").write_text("a smooth body .\n" * 20_000)
    with (tmp_path / "texts").open("rb") as texts:
        process = explain_process(package, stdin=texts, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert json.loads(process.stdout.readline())["text"] == "a smooth body ."
            process.stdout.close()
            said = process.stderr.read().decode()
    assert process.returncode == 141
    assert not [line for line in said.splitlines() if not line.startswith("recurrent layers run in")], said


# ------------------------------------------------------------------------------------------- mistakes


def test_a_line_that_is_not_utf8_is_named_after_the_lines_before_it():
    stream = text_input.windows(io.BytesIO(b"fine\ncaf\xe9\nlater\n"), "texts.txt")
    assert next(stream) == [Line("fine", "texts.txt:1")]
    with pytest.raises(PipelineError, match="texts.txt:2: the line is not UTF-8"):
        next(stream)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--package", "none", "--text", "a"],
            "error: none: expected a folder with a model, but the folder is missing\n\nhint: a search writes",
        ),
        (["--package", "none", "--text", "a", "--text", " "], "error: --text: text 2 of 2 is empty"),
        (
            ["--package", "none", "--input", "missing.txt"],
            "error: --input missing.txt: cannot read the file: No such",
        ),
        (["--package", "none", "--input", "."], "error: --input .: cannot read the file: Is a directory"),
        (["--model", "models:/a/b", "--text", "a"], "error: --model: expected `models:/NAME@ALIAS`"),
        (["--model", f"models:/{NAME}@champion", "--storage", "none", "--text", "a"], "no tracking database"),
    ],
)
def test_mistakes_are_named(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
):
    monkeypatch.chdir(tmp_path)
    assert run_command(explain.main, arguments) == 2
    assert message in capsys.readouterr().err


def test_a_terminal_without_text_is_asked_for_one(
    package: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    standard_input(monkeypatch, b"", terminal=True)
    assert run_command(explain.main, ["--package", str(package)]) == 2
    assert (
        capsys.readouterr().err == 'error: no text was given\n\nhint: add `--text "..."`, or `--input FILE`\n'
    )


class Endless(io.BytesIO):
    """A stream like /dev/zero; counts what was read."""

    given = 0

    def read1(self, size: int | None = -1) -> bytes:
        self.given += 10
        return b"x" * 10


def test_a_line_without_end_takes_no_memory(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_input, "MAX_LINE_BYTES", 100)
    stream = Endless()
    with pytest.raises(
        PipelineError, match="^zero:1: expected lines of at most 100 bytes, but this line is longer$"
    ):
        list(text_input.windows(stream, "zero"))
    assert stream.given <= 120
    whole = io.BytesIO(b"fine\n" + b"y" * 101 + b"\nlater\n")
    found = text_input.windows(whole, "file")
    assert [given.text for given in next(found)] == ["fine"]
    with pytest.raises(
        PipelineError, match="^file:2: expected lines of at most 100 bytes, but this line is longer$"
    ):
        next(found)


def test_long_lines_are_answered_in_small_pieces(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_input, "MAX_LINE_BYTES", 100)
    stream = io.BytesIO(b"\n".join([b"z" * 60] * 5))
    assert [len(window) for window in text_input.windows(stream, "file")] == [2, 2, 1]


@pytest.mark.parametrize(
    ("encoding", "more"),
    [("gbk", []), ("ascii", ["--json"]), ("latin-1", []), ("utf-8", []), ("utf-8", ["--json"])],
)
def test_no_encoding_of_stdout_ends_a_command(tmp_path: Path, encoding: str, more: list[str]):
    folder = small_package(tmp_path / "model")
    text = "smooth 😀 body 中文 ü"
    command = [sys.executable, "-m", "pipeline.explain", "--package", str(folder), "--text", text, *more]
    done = subprocess.run(
        command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": encoding}, cwd=ROOT, check=False
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.decode(encoding)
    if more:
        assert json.loads(said)["text"] == text
    elif encoding == "utf-8":
        assert "😀" in said
    else:
        assert "\\U0001f600" in said

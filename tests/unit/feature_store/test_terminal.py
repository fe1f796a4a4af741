"""What a terminal shows: processes run on a pseudo-terminal, and pyte draws what they write."""

import fcntl
import io
import math
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyte
import pytest
from rich.console import ConsoleDimensions

from feature_store import terminal
from feature_store.terminal import clock, columns, cut, fit, fitted

ROOT = Path(terminal.__file__).parents[1]
COMMAND = "python -m pipeline.search --resume --name first --tracking-uri 'sqlite:////all runs/mlflow.db'"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


# ------------------------------------------------------------------------------------------ lines that fit


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_prose_is_cut_between_words(width: int):
    text = (
        "82% of the cores' time between the first and the last report was spent on training; "
        "a further trial cost 0.27 s"
    )
    found = fitted(text, width).split("\n")
    assert " ".join(found) == text
    assert all(len(line) <= width for line in found)


def test_a_line_that_fits_stays():
    assert fitted("two  blanks , and an end  ", 80) == "two  blanks , and an end  "


@pytest.mark.parametrize("width", [20, 80])
@pytest.mark.parametrize(
    "command",
    [
        COMMAND,
        "MLFLOW_DISABLE_TELEMETRY=true mlflow ui --backend-store-uri sqlite:////data/mlflow.db",
        "make search",
    ],
)
def test_a_command_at_the_end_of_a_line_gets_one_of_its_own_and_stays_whole(width: int, command: str):
    said = "a sentence that is longer than many others, and than the terminal; to go on:"
    *prose, last = fitted(f"{said} {command}", width).split("\n")
    assert last == f"  {command}"
    assert " ".join(prose) == said


@pytest.mark.parametrize("command", [COMMAND, "MLFLOW_TRACKING_URI='sqlite:////a b/mlflow.db' mlflow ui"])
def test_a_command_that_stands_alone_is_never_cut(command: str):
    assert fitted(f"  {command}", 20) == f"  {command}"


@pytest.mark.parametrize("width", [30, 80])
@pytest.mark.parametrize(
    "line",
    [
        "  threshold 0.806: HardKuma's validation precision of 0.826 minus 0.02, at 20 % of the tokens",
        "    pythons are no command: a note that is longer than eighty columns, so it is cut, but indented",
    ],
)
def test_indented_prose_is_cut_between_words_and_stays_indented(width: int, line: str):
    indent = line[: len(line) - len(line.lstrip())]
    found = fitted(line, width).split("\n")
    assert len(found) > 1
    assert all(part.startswith(indent) and columns(part) <= width for part in found)
    assert " ".join(part.removeprefix(indent) for part in found) == line.strip()


def test_code_between_backticks_stays_whole():
    text = "another threshold: `python -m pipeline.register --name x` registers the model after the search"
    found = fitted(text, 50).split("\n")
    assert any("`python -m pipeline.register --name x`" in line for line in found)
    assert len(found) > 2


def test_wide_characters_count_twice():
    assert columns("酒评 2024") == 9
    assert columns("é") == columns("e\u0301") == 1
    assert fitted("评论 评论 评论", 10) == "评论 评论\n评论"


def test_only_a_terminal_gets_lines_that_are_cut(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "10")
    assert fit("one two three", Terminal()) == "one two\nthree"
    assert fit("one two three", io.StringIO()) == "one two three"
    assert fit("one two three", None) == "one two three"


@pytest.mark.parametrize("stated", ["", "0", "wide"])
def test_a_terminal_that_does_not_say_how_wide_it_is_has_80_columns(
    stated: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", stated)
    assert terminal.width_of(Terminal()) == 80


@pytest.mark.parametrize(
    ("text", "width", "found"),
    [
        ("short", 5, "short"),
        ("longer", 5, "lo..."),
        ("酒评酒评", 7, "酒评..."),
        ("looking for the rival", 15, "looking for..."),
        ("looking for the rival", 18, "looking for the..."),
        ("a verylongword", 10, "a veryl..."),
    ],
)
def test_a_line_that_is_too_long_ends_with_dots_between_words_if_it_can(text: str, width: int, found: str):
    assert cut(text, width) == found


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3725, "1:02:05"), (360000, "100:00:00")]
)
def test_hours_are_shown_as_hours(seconds: float, text: str):
    assert clock(seconds) == text


# --------------------------------------------------------------------------------------- on a terminal


class Screened:
    """A process on a terminal of its own, and what that shows."""

    def __init__(self, script: str, *arguments: str, width: int = 80, **environment: str) -> None:
        self.screen = pyte.HistoryScreen(width, 24, history=1000)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.main, other = pty.openpty()
        modes = termios.tcgetattr(other)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(other, termios.TCSANOW, modes)
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        stated = ("COLUMNS", "LINES", "NO_COLOR")
        kept = {name: value for name, value in os.environ.items() if name not in stated}
        self.process = subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            cwd=ROOT,
            env={**kept, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **environment},
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
        )
        os.close(other)

    def until(self, holds: Callable[[str], Any]) -> str:
        """What stands there as soon as it is so."""
        end = time.monotonic() + 60
        while time.monotonic() < end:
            try:
                some = os.read(self.main, 65536)
            except OSError:  # nobody writes any more
                some = b""
            self.raw += some
            self.stream.feed(some)
            if holds(self.text):
                return self.text
            if not some:
                break
        raise AssertionError(f"never shown:\n{self.text}\n{self.raw!r}")

    def end(self) -> str:
        """What stands there at the end."""
        while True:
            try:
                some = os.read(self.main, 65536)
            except OSError:
                some = b""
            self.raw += some
            self.stream.feed(some)
            if not some:
                break
        self.process.wait(60)
        os.close(self.main)
        return self.text

    @property
    def text(self) -> str:
        above = [
            "".join(line[i].data for i in range(self.screen.columns)) for line in self.screen.history.top
        ]
        return "\n".join(line.rstrip() for line in [*above, *self.screen.display]).rstrip()


SCRIPT = """
import logging, sys, time
from feature_store import terminal

class Board:
    calls = 0
    def __call__(self, width, height, *, is_over):
        Board.calls += 1
        head = "a search that is over" if is_over else "a search, about 3 min left"
        rows = [(f"trial {i:02d} " + "x" * width, "bold" if i == 1 else "") for i in range(4)]
        return [(head, ""), *rows]

def work():
    terminal.log_to_stderr()
    log = logging.getLogger("pipeline.test")
    log.info("results: here")
    with terminal.opened():
        with terminal.step("preparing the data"):
            time.sleep(0.6)
            log.info("note: a sentence of many words that has to be cut where a line of the terminal ends, "
                     "not in the midst of one; to go on: python -m pipeline.search --resume --name first "
                     "--tracking-uri sqlite:////a/rather/long/path/to/mlflow.db "
                     "--data-dir /another/rather/long/path")
            print("from a library", file=sys.stderr)
        with terminal.showing(Board()), terminal.step("searching"):
            for i in range(4):
                time.sleep(0.3)
                log.info("line %d", i)
            log.info("ready")
            if "error" in sys.argv:
                raise SystemExit("error: broken")
            if "told" in sys.argv:
                sys.stdin.readline()
            time.sleep(60 if "wait" in sys.argv else 0.5)
    terminal.answer("the result")
"""
RUN = f"{SCRIPT}\nwork()"
AS_COMMAND = f"""{SCRIPT}
from pipeline.base.errors import run_command

def command(arguments):
    try:
        work()
    except KeyboardInterrupt:
        print("cleaned", file=sys.stderr)
        if "slow" in arguments:
            time.sleep(60)
        raise
    return 0

sys.exit(run_command(command, sys.argv[1:]))
"""


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_part_that_moves_stands_below_and_leaves_no_trace(width: int):
    one = Screened(RUN, "told", width=width)
    shown = one.until(
        lambda text: "about 3 min left" in text and re.search(r"ready\n.*searching  0:\d\d", text, re.S)
    )
    assert shown.count("trial 01 ") == 1
    os.write(one.main, b"\n")
    text = one.end()
    assert one.process.returncode == 0
    assert text.endswith("line 3\nready\nthe result")
    assert "searching" not in text and "trial 01" not in text
    lines = text.split("\n")
    assert lines.count("from a library") == 1
    assert [line for line in lines if line.startswith("line ")] == [f"line {i}" for i in range(4)]
    # the sentence is cut between words, and the command stands on a line of its own, in one piece
    prose = " ".join(lines[1 : next(i for i, line in enumerate(lines) if line.startswith("  python -m"))])
    assert prose.startswith(
        "note: a sentence of many words that has to be cut where a line of the terminal ends"
    )
    assert prose.endswith("; to go on:")
    assert "/to/mlflow.db --data-dir /another/rather/long/path" in text.replace("\n", "")
    assert not one.screen.cursor.hidden


@pytest.mark.parametrize("narrower", [80, 50, 31])
def test_what_wraps_in_a_terminal_that_became_narrower_is_taken_back_whole(narrower: int):
    """A terminal breaks lines that have become too long, and the rows of the parts are to be erased too."""
    out = io.StringIO()
    screen = terminal._Screen(out)
    texts = ["a search, about 3 min left", *("x" * wide for wide in (97, 60, 31, 1)), "", "界" * 40]
    screen.board = lambda width, height, *, is_over: [(text, "") for text in texts]
    screen.console.size = ConsoleDimensions(100, 30)
    screen.live.auto_refresh = False
    screen.live.start(refresh=True)
    out.truncate(0)
    screen.console.size = ConsoleDimensions(narrower, 30)
    screen.live.refresh()
    erased = out.getvalue().split("a search")[0]
    shown = [terminal.columns(terminal.cut(text, 97)) for text in texts]
    rows = sum(max(1, math.ceil(wide / narrower)) for wide in shown)
    assert erased.count("\x1b[1A") == rows - 1
    assert erased.count("\x1b[2K") == rows
    out.truncate(0)
    screen.say("a line above")
    again = out.getvalue().split("a line above")[0]
    assert again.count("\x1b[1A") == len(texts) - 1, "drawn for this width since"
    screen.end(stays=True)


def test_something_moves_before_there_is_a_board():
    one = Screened(RUN)
    one.until(lambda text: "preparing the data  0:00" in text)
    signs = set(re.findall(r"(.) preparing the data", one.raw.decode()))
    one.end()
    signs |= set(re.findall(r"(.) preparing the data", one.raw.decode()))
    assert len(signs) > 1


def test_after_an_error_the_board_stays_above_it():
    one = Screened(RUN, "error")
    text = one.end()
    assert re.search(r"ready\na search that is over\ntrial 00 x+\.\.\.\n(trial .*\n){3}error: broken$", text)
    assert "searching" not in text
    assert not one.screen.cursor.hidden


def test_an_interrupt_is_shown_in_the_table_and_gives_the_cursor_back():
    one = Screened(AS_COMMAND, "wait")
    one.until(lambda text: "ready" in text and "trial 03" in text and one.screen.cursor.hidden)
    one.process.send_signal(signal.SIGINT)
    text = one.end()
    assert one.process.returncode == 130
    assert text.endswith("cleaned\nerror: interrupted")
    assert text.count("trial 03") == 1
    assert not one.screen.cursor.hidden


SLOW = AS_COMMAND.replace(
    'time.sleep(60 if "wait" in sys.argv else 0.5)',
    """
            try:
                time.sleep(60)
            finally:
                log.info("cleaning")
                time.sleep(60)
""",
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_while_a_command_cleans_up_the_table_says_so_and_a_second_signal_gives_the_cursor_back(number: int):
    one = Screened(SLOW)
    one.until(lambda text: "ready" in text and "trial 03" in text)
    one.process.send_signal(number)
    end = "stopping ... (press Ctrl-C again to stop at once)"
    shown = one.until(lambda text: text.endswith(end) and "cleaning" in text)
    assert shown.count("trial 03") == 1, "nothing is torn"
    assert one.screen.cursor.hidden
    one.process.send_signal(number)
    text = one.end()
    assert one.process.returncode == 128 + number
    assert text.endswith("stopped at once")
    assert not one.screen.cursor.hidden


@pytest.mark.parametrize("name", ["dumb", "unknown"])
def test_on_a_terminal_that_cannot_go_back_nothing_moves(name: str):
    one = Screened(RUN, TERM=name)
    text = one.end()
    assert b"\033" not in one.raw
    assert text.endswith("ready\nthe result")
    assert "trial 01" not in text


COLOURS = SCRIPT.replace('"bold" if i == 1', '"bold green" if i == 1') + "\nwork()"


def test_no_color_means_no_color():
    coloured, plain = Screened(COLOURS), Screened(COLOURS, NO_COLOR="1")
    for one in (coloured, plain):
        one.end()
    assert b"\033[1;32m" in coloured.raw
    assert not re.search(rb"\033\[[0-9;]*3[0-7]m", plain.raw)


def test_a_terminal_without_unicode_gets_a_sign_that_it_can_show():
    one = Screened(RUN, PYTHONIOENCODING="ascii:backslashreplace")
    one.end()
    assert re.search(rb"[-|/\\] searching", one.raw)
    assert b"\\u" not in one.raw


def test_a_file_gets_plain_lines_as_long_as_they_are(tmp_path: Path):
    with (tmp_path / "err").open("w") as err:
        done = subprocess.run(
            [sys.executable, "-c", RUN], cwd=ROOT, stdout=subprocess.PIPE, stderr=err, text=True, check=True
        )
    said = (tmp_path / "err").read_text()
    assert done.stdout == "the result\n"
    assert "\033" not in said and "searching" not in said
    assert len(said.splitlines()) == 8
    assert any(len(line) > 200 for line in said.splitlines())


def test_without_a_part_that_moves_steps_and_boards_do_nothing(capsys: pytest.CaptureFixture[str]):
    with terminal.opened(), terminal.step("one"), terminal.showing(lambda *_, **__: []):
        assert not terminal.is_open()
        terminal.notice("nothing")
    assert capsys.readouterr() == ("", "")


def test_only_messages_of_ours_are_shown_from_info_on():
    script = """
import logging
from feature_store import terminal
terminal.log_to_stderr()
for name in ("pipeline.search", "feature_store.words", "torch._subclasses.fake_tensor", "a_library"):
    logging.getLogger(name).info("info of %s", name)
    logging.getLogger(name).warning("warning of %s", name)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert [line.partition(" of ")[0] for line in done.stderr.splitlines()] == [
        *["info", "warning"] * 2,
        *["warning"] * 2,
    ]

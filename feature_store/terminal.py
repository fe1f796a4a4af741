"""What a person at a terminal sees of a command: lines cut between words, and below them one part that moves.

Where stderr is no terminal, or TERM is `dumb`, nothing moves. The lines of a stream that is no terminal stay
as long as they are.
"""

import contextlib
import io
import logging
import os
import re
import sys
import time
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Protocol, TextIO, cast

from feature_store.errors import takes_every_character

if TYPE_CHECKING:
    from rich.console import Group

SHOW_CURSOR = b"\033[?25h"
"""What a process writes that ends while a part moves, which hides the cursor."""
_OURS = ("benchmarks", "feature_store", "infocal", "pipeline", "search_spaces")
"""Packages of this project, by which their loggers are called."""
_STANDARD_WIDTH = 80
_MARGIN = 3
"""Columns at the right that stay free: a terminal writes `^C` at the end of the last line."""
_FRAMES = ("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏", "-\\|/")
"""Of the sign that turns; the second for a terminal without these characters."""
_PER_SECOND = 4
_UNIT = re.compile(r"(?:`[^`]*`|\S)+")
"""What stays whole where a line is cut: a word, or code between backticks."""
_COMMAND = re.compile(r"(?<=:) (?=(?:[A-Z_]+=\S+ )*(?:python -m|mlflow|make) )")
"""Where the rest of a line is a command."""
_COMMAND_ALONE = re.compile(r"  +(?:[A-Z_]+=|(?:python|mlflow|make) )")
"""How a line begins that is a command."""

Line = tuple[str, str]
"""A line and its style, as rich names styles; empty: plain."""


class Board(Protocol):
    """Something that is drawn anew several times a second."""

    def __call__(self, width: int, height: int, *, is_over: bool) -> Sequence[Line]:
        """At most `height` lines of at most `width` columns; where `is_over`, they are the last, and stay."""
        ...


# --------------------------------------------------------------------------------------- lines that fit


def width_of(stream: TextIO | None) -> int | None:
    """Columns of the terminal that a stream is; None where it is none."""
    original = stream.original if isinstance(stream, _Above) else stream
    if original is None or not original.isatty():
        return None
    stated = os.environ.get("COLUMNS", "")
    if stated.isdecimal() and int(stated):
        return int(stated)
    try:
        return os.get_terminal_size(original.fileno()).columns or _STANDARD_WIDTH
    except (OSError, ValueError):
        return _STANDARD_WIDTH


def fit(text: str, stream: TextIO | None) -> str:
    """A text for a stream: where that is a terminal, long lines are cut between words; see `fitted`."""
    width = width_of(stream)
    return text if width is None else fitted(text, width)


def answer(text: str) -> None:
    """Print what a command was asked for."""
    print(fit(text, sys.stdout))


def fitted(text: str, width: int) -> str:
    """A text whose lines are cut between words, so that none is wider than so many columns.

    Code between backticks stays whole, and so does an indented line that is a command: what is pasted may not
    be cut. A command at the end of a line that is too long gets such a line of its own. Every part of another
    indented line is indented.
    """
    return "\n".join(part for line in text.split("\n") for part in _parts(line, width))


def _parts(line: str, width: int) -> list[str]:
    if columns(line) <= width or _COMMAND_ALONE.match(line):
        return [line]
    indent = line[: len(line) - len(line.lstrip(" "))]
    prose, *command = _COMMAND.split(line, maxsplit=1)
    parts, end = [""], 0
    for unit in _UNIT.finditer(prose):
        longer = parts[-1] + prose[end : unit.start()] + unit[0]
        if parts[-1] and columns(longer) > width:
            parts.append(indent + unit[0])
        else:
            parts[-1] = longer
        end = unit.end()
    return [*parts, *(f"  {one}" for one in command)]


def columns(text: str) -> int:
    """Columns that a text takes: two for a Chinese character, none for an accent that stands alone."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) > 0 for c in text)


def cut(text: str, width: int) -> str:
    """The start of a text, no wider than so many columns; with whole words if these fill half of them."""
    if columns(text) <= width:
        return text
    start = text
    while start and columns(start) > width - 3:
        start = start[:-1]
    if not text[len(start)].isspace():
        words = start.rpartition(" ")[0]
        start = words if 2 * columns(words) >= width else start
    return f"{start.rstrip()}..."


def _beside(text: str, end: str, width: int) -> str:
    """A text and what stands behind it, for which the text is cut."""
    return f"{cut(text, width - columns(end) - 2)}  {end}"


def clock(seconds: float) -> str:
    """A time as `H:MM:SS` or `M:SS`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Log(logging.StreamHandler[TextIO]):
    """Writes each record to what stderr is just then, as lines that fit."""

    def __init__(self) -> None:
        super().__init__(io.StringIO())

    @property
    def stream(self) -> TextIO:
        """Stderr as it is now: it is another one while something moves."""
        return sys.stderr

    @stream.setter
    def stream(self, value: TextIO) -> None:
        """There is no other."""

    def format(self, record: logging.LogRecord) -> str:
        """The message alone."""
        return fit(super().format(record), sys.stderr)


def log_to_stderr() -> None:
    """Show our messages from INFO on, and warnings of others, on stderr, unless logging is set up already.

    A library that logs at INFO, as torch does when a process ends, does not speak to who reads a command.
    """
    if logging.root.handlers:
        return
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[Log()])
    for package in _OURS:
        logging.getLogger(package).setLevel(logging.INFO)


# ------------------------------------------------------------------------------------- the part that moves


class _Step:
    def __init__(self, text: str) -> None:
        self.text, self.started = text, time.monotonic()


class _Screen:
    """The part that moves, at the bottom of a terminal: the steps under way, then what a board draws."""

    def __init__(self, stream: TextIO) -> None:
        from rich.console import Console  # 0.1 s that a command without a terminal need not wait for
        from rich.live import Live

        self.steps: list[_Step] = []
        self.board: Board | None = None
        self.notice = ""
        self.is_over = False
        self._drawn: list[int] = []
        self._width = 0
        self.frames = _FRAMES[0 if takes_every_character(stream) else 1]
        self.console = Console(
            file=stream, force_terminal=True, force_interactive=True, highlight=False, markup=False
        )
        self.live = Live(
            get_renderable=self.drawn,
            console=self.console,
            refresh_per_second=_PER_SECOND,
            redirect_stdout=False,
            redirect_stderr=False,
            vertical_overflow="crop",
        )

    def drawn(self) -> "Group":
        from rich.console import Group
        from rich.text import Text

        self._take_back_what_wrapped()
        lines = self.lines(self.console.width - _MARGIN, self.console.height - 1)
        self._drawn = [columns(text) for text, _ in lines]
        return Group(*(Text(text, style, no_wrap=True, overflow="crop") for text, style in lines))

    def _take_back_what_wrapped(self) -> None:
        """Erase the rows that the last drawing has taken in addition since the terminal became narrower.

        A terminal breaks the lines that are too long now, but rich goes back as many rows as it has drawn.
        """
        from rich.control import Control
        from rich.segment import ControlType

        before, self._width = self._width, self.console.width
        if self._width < before:
            added = sum(max(0, wide - 1) // self._width for wide in self._drawn)
            self.console.control(
                Control(*((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1)) * added)
            )

    def lines(self, width: int, height: int) -> list[Line]:
        """All of it: no more lines than `height`, none wider than `width`."""
        now = time.monotonic()
        sign = self.frames[int(now * 2 * _PER_SECOND) % len(self.frames)]
        steps = [] if self.is_over else self.steps
        found = [
            (_beside(f"{'  ' * i}{sign} {step.text}", clock(now - step.started), width), "bold")
            for i, step in enumerate(steps)
        ]
        below = [(self.notice, "bold")] if self.notice and not self.is_over else []
        if self.board is not None:
            found += self.board(width, height - len(found) - len(below), is_over=self.is_over)
        return [(cut(text, width), style) for text, style in [*found, *below]]

    def say(self, line: str) -> None:
        """Write a line above."""
        from rich.text import Text

        self._take_back_what_wrapped()
        # the terminal breaks what is still too long: a break of ours would end up in what is pasted
        self.console.print(Text.from_ansi(line), soft_wrap=True)

    def end(self, *, stays: bool) -> None:
        self.is_over, self.live.transient = True, not stays
        self.live.stop()


class _Above(io.TextIOBase):
    """A stream whose lines stand above what moves."""

    def __init__(self, screen: _Screen, original: TextIO) -> None:
        self.screen, self.original = screen, original
        self._begun = ""

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self.original.encoding

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.original.fileno()

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self.screen.say(line)
        return len(text)

    def finish(self) -> None:
        """Write the line that has no end yet."""
        if self._begun:
            self.write("\n")


_screen: list[_Screen] = []
"""The one that is open, if one is."""


def moves(stream: TextIO | None) -> bool:
    """Whether a part of a stream can move: it is a terminal that can go back to lines above."""
    is_dumb = os.environ.get("TERM", "").lower() in ("dumb", "unknown")
    return stream is not None and stream.isatty() and not is_dumb


def is_open() -> bool:
    """Whether a part moves now; then nobody else may write to the terminal."""
    return bool(_screen)


def notice(text: str) -> None:
    """Show a last line while a part moves."""
    for screen in _screen:
        screen.notice = text


@contextlib.contextmanager
def opened() -> Iterator[None]:
    """Let a part at the bottom of the terminal move; what is written to stderr stands above it.

    It is taken away at the end. Where an error ends the body, the board stays as it was last.
    """
    if _screen or not moves(sys.stderr):
        yield
        return
    before = sys.stderr
    screen = _Screen(before)
    above = _Above(screen, before)
    stream = cast(TextIO, above)
    _screen.append(screen)
    sys.stderr = stream
    stays = True
    try:
        screen.live.start()
        yield
        stays = False
    finally:
        try:
            above.finish()
        finally:
            screen.end(stays=stays)
            _screen.clear()
            if sys.stderr is stream:
                sys.stderr = before


@contextlib.contextmanager
def step(text: str) -> Iterator[None]:
    """Show what is done now, and for how long; nothing where no part moves. Steps may lie in others."""
    one = _Step(text)
    for screen in _screen:
        screen.steps.append(one)
    try:
        yield
    finally:
        for screen in _screen:
            if one in screen.steps:  # not where the part has begun to move since
                screen.steps.remove(one)


@contextlib.contextmanager
def showing(board: Board) -> Iterator[None]:
    """Show a board below the steps; where an error ends the body, it stays."""
    for screen in _screen:
        screen.board = board
    yield
    for screen in _screen:
        screen.board = None

"""Texts from the command line, a file or a pipe: one text a line, as many at once as are there."""

import argparse
import dataclasses
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from pipeline.base.errors import PipelineError

if TYPE_CHECKING:
    from io import BufferedReader, BytesIO

logger = logging.getLogger("pipeline.cli.text_input")

WINDOW = 1024
"""Most texts that are explained and printed together: in one, texts of like length share a pass."""
_CHUNK = 1 << 20
"""Bytes that are asked for at once; a pipe gives what it holds."""
MAX_LINE_BYTES = 1 << 24
"""Of a line; and of the lines that are answered at once, but for the last of them."""


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A text and where it stands."""

    text: str
    where: str | None
    """File and number of the line; None on the command line."""


def texts(given: argparse.Namespace) -> Iterator[list[Line]]:
    """The texts to explain; a missing file is found here, before the model is loaded."""
    if given.text:
        empty = [i for i, text in enumerate(given.text) if not text.strip()]
        if empty:
            raise PipelineError(f"text {empty[0] + 1} of {len(given.text)} is empty", where="--text")
        return iter([[Line(text, None) for text in given.text]])
    if given.input in (None, "-"):
        if given.input is None and sys.stdin.isatty():
            raise PipelineError("no text was given", hint='add `--text "..."`, or `--input FILE`')
        return windows(cast("BufferedReader", sys.stdin.buffer), "standard input")
    try:
        return _closed_after(Path(given.input).open("rb"), given.input)
    except OSError as error:
        raise PipelineError(
            f"cannot read the file: {error.strerror}", where=f"--input {given.input}"
        ) from error


def _closed_after(file: "BufferedReader", where: str) -> Iterator[list[Line]]:
    with file:
        yield from windows(file, where)


def windows(stream: "BufferedReader | BytesIO", where: str) -> Iterator[list[Line]]:
    """The lines of a stream that hold a text, as many at once as there are without waiting for more.

    So a file is read in large pieces, and whoever writes slowly into a pipe gets each answer at once.

    Raises:
        PipelineError: at a line that is not UTF-8 or too long, after the lines before it.
    """
    window: list[Line] = []
    num_bytes = 0
    for number, raw, is_last in _lines(stream):
        if len(raw) > MAX_LINE_BYTES:
            yield window
            raise PipelineError(
                f"expected lines of at most {MAX_LINE_BYTES} bytes, but this line is longer",
                where=f"{where}:{number}",
                hint="check that this is a text file with one text on each line",
            )
        try:
            text = raw.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            yield window
            raise PipelineError(
                f"the line is not UTF-8: {error.reason}",
                where=f"{where}:{number}",
                hint="`iconv -f ENCODING -t UTF-8 FILE > NEW` converts a file to UTF-8",
            ) from error
        if text.strip():
            window.append(Line(text, f"{where}:{number}"))
            num_bytes += len(raw)
        elif raw:
            logger.warning("%s:%d: empty line skipped", where, number)
        if window and (is_last or len(window) == WINDOW or num_bytes > MAX_LINE_BYTES):
            yield window
            window, num_bytes = [], 0


def _lines(stream: "BufferedReader | BytesIO") -> Iterator[tuple[int, bytes, bool]]:
    """Number and bytes of each line, and whether the next one may have to be waited for.

    Of a line that is too long it gives as much as shows that, and ends.
    """
    number, begun = 0, list[bytes]()
    while chunk := stream.read1(_CHUNK):
        *whole, rest = chunk.split(b"\n")
        for position, line in enumerate(whole, start=1):
            number += 1
            yield number, b"".join([*begun, line, b"\n"]), position == len(whole)
            begun = []
        begun.append(rest)
        if sum(map(len, begun)) > MAX_LINE_BYTES:
            break
    yield number + 1, b"".join(begun), True

"""Text in, prediction and rationale out.

python -m pipeline.explain --model models:/infocal-beer-palate@champion --text "a smooth and creamy body ."
"""

import argparse
import dataclasses
import json
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from feature_store import terminal
from feature_store.errors import takes_every_character
from pipeline.base.errors import PipelineError, run_command
from pipeline.training import settings

if TYPE_CHECKING:
    from io import BufferedReader, BytesIO

    from pipeline.training.checkpoints import Package
    from pipeline.training.explainer import Explainer, Explanation

logger = logging.getLogger("pipeline.explain")

BATCH = 64
"""Most texts of one forward pass."""
WINDOW = 1024
"""Most texts that are explained and printed together: in one, texts of like length share a pass."""
_CHUNK = 1 << 20
"""Bytes that are asked for at once; a pipe gives what it holds."""
MAX_LINE_BYTES = 1 << 24
"""Of a line; and of the lines that are answered at once, but for the last of them."""
_BOLD, _PLAIN = ("\033[1m", "\033[0m"), ("[", "]")


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.explain`."""
    parser = settings.parser("pipeline.explain", "Predict from text and mark the words that decide.")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", metavar="URI", help="models:/NAME@ALIAS or models:/NAME/VERSION")
    which.add_argument(
        "--package", metavar="DIR", help="folder of a model that `pipeline.train` or a search wrote"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--text", action="append", help="a text; may be repeated")
    what.add_argument(
        "--input", metavar="FILE", help="file with one text a line, `-` for standard input (default)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line, with every token")
    parser.add_argument("--sample", action="store_true", help="look in runs/sample for results, not in runs")
    settings.add_storage_arguments(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    texts = _texts(given)
    with terminal.opened(), terminal.step("loading the model"):
        package = _package(given)
        from pipeline.training.explainer import Explainer

        explainer = Explainer(package, batch_size=BATCH)
    if not given.json:
        logger.info("%s", how_marked(explainer.model.threshold))
    marks = _BOLD if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else _PLAIN
    for window in texts:
        for text, explanation in explained(window, explainer):
            print(as_json(text, explanation) if given.json else line(text, explanation, marks))
        sys.stdout.flush()
    return 0


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """A text and where it stands."""

    text: str
    where: str | None
    """File and number of the line; None on the command line."""


def explained(window: Sequence[Line], explainer: "Explainer") -> Iterator[tuple[str, "Explanation"]]:
    """Each text with what the model says; lines without a token are named and left out.

    Raises:
        NoTokenError: if a text of the command line has no token.
    """
    from pipeline.training.explainer import NoTokenError

    try:
        found = explainer.explain([given.text for given in window])
    except NoTokenError as error:
        if window[0].where is None:
            raise
        for position in error.positions:
            logger.warning("%s: line without a token left out", window[position].where)
        empty = set(error.positions)
        window = [given for position, given in enumerate(window) if position not in empty]
        found = explainer.explain([given.text for given in window])
    for given, explanation in zip(window, found, strict=True):
        yield given.text, explanation


def _texts(given: argparse.Namespace) -> Iterator[list[Line]]:
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
                f"a line of more than {MAX_LINE_BYTES} bytes",
                where=f"{where}:{number}",
                hint="is it a text file, with one text a line?",
            )
        try:
            text = raw.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            yield window
            raise PipelineError(
                f"the line is not UTF-8: {error.reason}", where=f"{where}:{number}"
            ) from error
        if text.strip():
            window.append(Line(text, f"{where}:{number}"))
            num_bytes += len(raw)
        elif raw:
            logger.warning("%s:%d: empty line left out", where, number)
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


def _package(given: argparse.Namespace) -> "Package":
    """The model, from a folder or from the registry."""
    if given.package:
        from pipeline.training.checkpoints import load_package

        return load_package(Path(given.package))
    from pipeline.cli import models

    return models.registered(models.tracker_of(given, [given.model]), given.model)[0]


def how_marked(held_threshold: float) -> str:
    """Which tokens are marked, in a line.

    Args:
        held_threshold: the model's; the probabilities that are shown are moved so that it is 0.5.
    """
    from infocal.nn.rationalizer import HALF

    moved = "" if held_threshold == HALF else f" (moved from the model's own threshold, {held_threshold:.3g})"
    return f"marked: tokens with p >= {HALF:g}{moved}"


def line(text: str, explanation: "Explanation", marks: tuple[str, str]) -> str:
    """The prediction, and the text with its rationale marked, on one line."""
    return f"{explanation.said}\t{' '.join(marked(text, explanation, marks).splitlines())}"


def marked(text: str, explanation: "Explanation", marks: tuple[str, str]) -> str:
    """The text with a mark around each run of selected tokens."""
    spans: list[tuple[int, int]] = []
    follows = False
    for token in explanation.tokens:
        if token.selected and follows:
            spans[-1] = (spans[-1][0], token.end)
        elif token.selected:
            spans.append((token.start, token.end))
        follows = token.selected
    parts, last = [], 0
    for start, end in spans:
        parts += [text[last:start], marks[0], text[start:end], marks[1]]
        last = end
    return "".join([*parts, text[last:]])


def as_json(text: str, explanation: "Explanation") -> str:
    """One line of JSON."""
    from infocal.nn.rationalizer import HALF

    answer: dict[str, Any] = {
        "text": text,
        "prediction": explanation.prediction,
        "probabilities": explanation.probabilities,
        "label": explanation.label,
        "num_unknown": explanation.num_unknown,
        "threshold": HALF,
        "held_threshold": explanation.held_threshold,
        "rationale": [token.token for token in explanation.rationale],
        "tokens": [dataclasses.asdict(token) for token in explanation.tokens],
    }
    return json.dumps(answer, ensure_ascii=not takes_every_character(sys.stdout))


if __name__ == "__main__":
    sys.exit(run_command(main))

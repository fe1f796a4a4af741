"""Text in, prediction and rationale out.

python -m pipeline.explain --model models:/infocal-beer-palate@champion --text "a smooth and creamy body ."
"""

import argparse
import dataclasses
import itertools
import json
import logging
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from pipeline import settings
from pipeline.errors import PipelineError, run_command

if TYPE_CHECKING:
    from pipeline.checkpoints import Package
    from pipeline.explainer import Explanation

logger = logging.getLogger("pipeline.explain")

_BATCH = 64
"""Texts read, explained and printed together."""
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
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    texts = _texts(given)
    package = _package(given)
    from pipeline.explainer import Explainer

    explainer = Explainer(package, batch_size=_BATCH)
    marks = _BOLD if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else _PLAIN
    while batch := list(itertools.islice(texts, _BATCH)):
        for text, explanation in zip(batch, explainer.explain(batch), strict=True):
            print(as_json(text, explanation) if given.json else line(text, explanation, marks))
    return 0


def _texts(given: argparse.Namespace) -> Iterator[str]:
    """The texts to explain; a missing file is found here, before the model is loaded."""
    if given.text:
        empty = [i for i, text in enumerate(given.text) if not text.strip()]
        if empty:
            raise PipelineError(f"text {empty[0] + 1} of {len(given.text)} is empty", where="--text")
        return iter(given.text)
    if given.input in (None, "-"):
        if given.input is None and sys.stdin.isatty():
            raise PipelineError("no text was given", hint='add `--text "..."`, or `--input FILE`')
        return lines(sys.stdin.buffer, "standard input")
    try:
        return _closed_after(Path(given.input).open("rb"), given.input)
    except OSError as error:
        raise PipelineError(
            f"cannot read the file: {error.strerror}", where=f"--input {given.input}"
        ) from error


def _closed_after(file: BinaryIO, where: str) -> Iterator[str]:
    with file:
        yield from lines(file, where)


def lines(stream: Iterable[bytes], where: str) -> Iterator[str]:
    """The lines of a stream that hold a text.

    Raises:
        PipelineError: at a line that is not UTF-8.
    """
    for number, raw in enumerate(stream, start=1):
        try:
            text = raw.decode("utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise PipelineError(
                f"the line is not UTF-8: {error.reason}", where=f"{where}:{number}"
            ) from error
        if text.strip():
            yield text
        else:
            logger.warning("%s:%d: empty line left out", where, number)


def _package(given: argparse.Namespace) -> "Package":
    """The model, from a folder or from the registry."""
    from pipeline.checkpoints import load_package

    if given.package:
        return load_package(Path(given.package))
    from pipeline import registry
    from pipeline.tracking import Tracker

    name, which = registry.parse_uri(given.model)
    storage = settings.storage(given.storage, given.sample)
    tracker = Tracker(settings.tracking_uri(given.tracking_uri, storage), create=False)
    with tempfile.TemporaryDirectory() as folder:
        return load_package(registry.load_version_package(tracker, name, which, Path(folder)))


def line(text: str, explanation: "Explanation", marks: tuple[str, str]) -> str:
    """The prediction, and the text with its rationale marked, on one line."""
    if explanation.label:
        said = f"{explanation.label} ({max(explanation.probabilities):.3f})"
    else:
        said = f"{explanation.prediction:.3f}"
    return f"{said}\t{' '.join(marked(text, explanation, marks).splitlines())}"


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
    answer: dict[str, Any] = {
        "text": text,
        "prediction": explanation.prediction,
        "probabilities": explanation.probabilities,
        "label": explanation.label,
        "rationale": [token.token for token in explanation.rationale],
        "tokens": [dataclasses.asdict(token) for token in explanation.tokens],
    }
    return json.dumps(answer, ensure_ascii=False)


if __name__ == "__main__":
    sys.exit(run_command(main))

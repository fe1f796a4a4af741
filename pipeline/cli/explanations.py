"""What a model says of texts, as `pipeline.explain` prints it: text with marks, or JSON."""

import dataclasses
import json
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from feature_store.errors import takes_every_character
from pipeline.cli.text_input import Line

if TYPE_CHECKING:
    from pipeline.training.explainer import ExplainedToken, Explainer, Explanation

logger = logging.getLogger("pipeline.cli.explanations")

BATCH = 64
"""Most texts of one forward pass."""
PLAIN, BOLD = ("[", "]"), ("\033[1m[", "]\033[0m")
"""Marks around the words of a rationale: brackets, on a terminal in bold, which a copied screen loses."""


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
            logger.warning("%s: the line has no token and is skipped", window[position].where)
        empty = set(error.positions)
        window = [given for position, given in enumerate(window) if position not in empty]
        found = explainer.explain([given.text for given in window])
    for given, explanation in zip(window, found, strict=True):
        yield given.text, explanation


def how_marked(held_threshold: float) -> str:
    """Which tokens are marked, in a line.

    Args:
        held_threshold: the model's; the probabilities that are shown are moved so that it is 0.5.
    """
    from infocal.nn.rationalizer import HALF

    shown = f"marked: tokens with p >= {HALF:g}"
    if held_threshold == HALF:
        return shown
    return f"{shown}; p is rescaled: the model's own threshold, {held_threshold:.3g}, is shown as {HALF:g}"


def line(text: str, explanation: "Explanation", marks: tuple[str, str]) -> str:
    """The prediction, and the text with its rationale marked, on one line.

    Where each of several targets has its own rationale, a line for each.
    """
    every = [(explanation.said_of(name), tokens) for name, tokens in explanation.tokens_of.items()]
    return "\n".join(
        f"{said}\t{' '.join(marked(text, tokens, marks).splitlines())}"
        for said, tokens in every or [(explanation.said, explanation.tokens)]
    )


def marked(text: str, tokens: Sequence["ExplainedToken"], marks: tuple[str, str]) -> str:
    """The text with a mark around each run of selected tokens."""
    spans: list[tuple[int, int]] = []
    follows = False
    for token in tokens:
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


def _targets(explanation: "Explanation") -> dict[str, Any]:
    """The prediction of each target, where there are several, with its rationale where it has its own."""
    found: dict[str, Any] = {name: dataclasses.asdict(one) for name, one in explanation.targets.items()}
    for name, tokens in explanation.tokens_of.items():
        found[name] |= _rationale(tokens)
    return {"targets": found} if found else {}


def _rationale(tokens: Sequence["ExplainedToken"]) -> dict[str, Any]:
    """The selected tokens, and every token with its probability."""
    return {
        "rationale": [token.token for token in tokens if token.selected],
        "tokens": [dataclasses.asdict(token) for token in tokens],
    }


def as_json(text: str, explanation: "Explanation") -> str:
    """One line of JSON."""
    from infocal.nn.rationalizer import HALF

    answer: dict[str, Any] = {
        "text": text,
        "prediction": explanation.prediction,
        "probabilities": explanation.probabilities,
        "label": explanation.label,
        **_targets(explanation),
        "num_unknown": explanation.num_unknown,
        "threshold": HALF,
        "held_threshold": explanation.held_threshold,
        **_rationale(explanation.tokens),
    }
    return json.dumps(answer, ensure_ascii=not takes_every_character(sys.stdout))

"""A token of a free text, as every tokenizer gives it out."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

JOINER = "\u200d"
"""Joins two emojis into one picture."""
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
"""Characters without width: soft hyphen, zero-width blanks and joiners, marks of direction."""
_JOINER_ALONE = re.compile(rf"(?<!\S){JOINER}(?!\S)")


@dataclass(frozen=True, slots=True)
class Token:
    """A token and where it stands: `original[start:end]` is what it was made from."""

    text: str
    """As the tokenizer writes it: lower-cased, or with its own quotation marks or placeholders."""

    start: int
    end: int


def touched(spans: Sequence[Sequence[int]], tokens: Sequence[Token]) -> list[int]:
    """Ascending positions of the tokens that a span of characters touches.

    Args:
        spans: [start, end) of characters, in any order.
    """
    marked = bytearray(max([0, *(end for _, end in spans)]))
    for start, end in spans:
        marked[start:end] = b"\1" * (end - start)
    return [i for i, token in enumerate(tokens) if any(marked[token.start : token.end])]


def visible(text: str) -> str:
    """The text without characters that have no width."""
    return _INVISIBLE.sub("", text)


def without_invisible(
    tokenize: Callable[[str], list[Token]], text: str, *, keep_joiners: bool = False
) -> list[Token]:
    """Tokens of a text in which characters without width split no word and stand in none.

    Args:
        tokenize: gets the text without them.
        text: offsets refer to it as it is.
        keep_joiners: keep a joiner that stands between blanks.
    """
    dropped = {match.start() for match in _INVISIBLE.finditer(text)}
    if keep_joiners:
        dropped -= {match.start() for match in _JOINER_ALONE.finditer(text)}
    if not dropped:
        return tokenize(text)
    places = [place for place in range(len(text)) if place not in dropped]
    tokens = tokenize("".join(text[place] for place in places))
    return [Token(token.text, places[token.start], places[token.end - 1] + 1) for token in tokens]

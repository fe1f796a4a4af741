"""Splits free text of social media into tokens in the style of the HateXplain posts, with offsets.

The corpus is lower-cased and has no ASCII punctuation; names, numbers and the like are placeholders, and
contractions are written out: "Can't wait, @ann: 20% off!" is `can not wait <user> <percent> off`. Other
symbols (emoji, curly quotes) are tokens of their own. A text in that form comes out unchanged, but for a few
numbers: so do 98 % of the posts of the real corpus. Differs: the words of a hashtag are not split from one
another, which the corpus did with word statistics that are not published with it.
"""

import re
from collections.abc import Iterator

from feature_store.tokens import Token, without_invisible

_PLACEHOLDERS = {
    "url": r"(?:https?://|www\.)\S+",
    "email": r"[\w.+-]+@[\w-]+\.[\w.-]*\w",
    "user": r"@\w+",
    "percent": r"\d+(?:[.,]\d+)*\s?%",
    "money": r"[$€£]\s?\d+(?:[.,]\d+)*[km]?\b",
    "date": r"\d{1,2}[/.-]\d{1,2}[/.-]\d{2,4}\b",
    "time": r"\d{1,2}:\d{2}(?:\s?[ap]m\b)?|\d{1,2}\s?[ap]m\b",
    "number": r"\d+(?:[.,]\d+)*(?!\w)",
    "happy": r"[:;=]-?[)\]]",
    "sad": r"[:=]-?[(\[]",
    "laugh": r"[:=]-?D\b",
}
"""What becomes a placeholder of that name; the earlier name wins."""

_CLITICS = {"n't": "not", "'re": "are", "'ve": "have", "'ll": "will", "'m": "am", "'d": "would", "'s": ""}
"""How the end of a word is written out; the corpus leaves `'s` out, and every `s` that stands alone."""

_STEMS = {"ca": "can", "wo": "will", "sha": "shall"}
"""What stands before `n't` and is no word by itself."""

_CLITIC = r"(?:n't|'(?:re|ve|ll|m|d|s))(?!\w)"
_PIECE = re.compile(
    rf"""
    (?P<tag> <[a-z]+> )
    | {"|".join(f"(?P<{name}> {pattern} )" for name, pattern in _PLACEHOLDERS.items())}
    | (?P<clitic> {_CLITIC} )
    | (?P<stem> (?:ca|wo|sha) (?=n't(?!\w)) )
    | (?P<word> (?:\w\.){{2,}} | \w (?: (?!{_CLITIC}) (?: \w | [*.]+(?=\w) ) )* )
    | (?P<symbol> [^\x00-\x7f\s]\ufe0f? )
    """,
    re.VERBOSE | re.IGNORECASE,
)


def tokenize(text: str) -> list[Token]:
    """Tokens of a text in order; white space and ASCII punctuation are dropped."""
    # the corpus keeps the joiner of an emoji as a token of its own
    return without_invisible(lambda plain: list(_tokens(plain)), text, keep_joiners=True)


def _tokens(text: str) -> Iterator[Token]:
    for match in _PIECE.finditer(text):
        kind, piece = match.lastgroup, match[0].lower()
        if kind in _PLACEHOLDERS:
            piece = f"<{kind}>"
        elif kind == "clitic":
            piece = _CLITICS[piece]
        elif kind == "stem":
            piece = _STEMS[piece]
        if piece and piece != "s":
            yield Token(piece, *match.span())

"""Do spans of characters begin and end where words do? Else another form of the text may be meant."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from feature_store.tokens import Token
from feature_store.wording import counted


@dataclass(frozen=True, slots=True)
class _Form:
    """Another way to count the characters of a text."""

    name: str
    differs: re.Pattern[str]
    """What counts otherwise than as one character each."""

    width: Callable[[str, int], int]
    """What the character at a position counts."""

    def offsets(self, text: str) -> dict[int, int]:
        """Offset in this form -> position in the text, its end included."""
        found: dict[int, int] = {}
        offset = 0
        for position in range(len(text)):
            found.setdefault(offset, position)
            offset += self.width(text, position)
        found[offset] = len(text)
        return found


_FORMS = (
    _Form(
        r"a line end counted as two characters (`\r\n`)",
        re.compile(r"(?<!\r)\n"),
        lambda text, i: 1 + (text[i] == "\n" and text[i - 1 : i] != "\r"),
    ),
    _Form(
        r"a line end `\r\n` counted as one character",
        re.compile(r"\r\n"),
        lambda text, i: int(text[i : i + 2] != "\r\n"),
    ),
    _Form(
        "characters were counted as UTF-16 units (Java, JavaScript, C#)",
        re.compile("[\U00010000-\U0010ffff]"),
        lambda text, i: 1 + (text[i] > "\uffff"),
    ),
    _Form(
        "bytes of UTF-8 were counted (Go, Rust, C)",
        re.compile(r"[^\x00-\x7f]"),
        lambda text, i: len(text[i].encode()),
    ),
)


class SpanCheck:
    """Counts the spans of one file that do not begin and end with words, as given and in other forms."""

    def __init__(self) -> None:
        self._num_spans = self._num_misplaced = 0
        self._misplaced_in: Counter[str] = Counter()

    def add(self, spans: Sequence[tuple[int, int]], text: str, pieces: Sequence[Token]) -> None:
        """Enter the spans of one text, which lie inside it, and its tokens."""
        spans = [(start, end) for start, end in spans if start < end]
        if not spans:
            return
        inside = {place for piece in pieces for place in range(piece.start + 1, piece.end)}
        num_misplaced = sum(_is_misplaced(start, end, text, inside) for start, end in spans)
        self._num_spans += len(spans)
        self._num_misplaced += num_misplaced
        for form in _FORMS:
            if not form.differs.search(text):
                self._misplaced_in[form.name] += num_misplaced
                continue
            offsets = form.offsets(text)
            self._misplaced_in[form.name] += sum(
                _is_misplaced(offsets.get(start), offsets.get(end), text, inside) for start, end in spans
            )

    def note(self, name: str) -> str | None:
        """What must be said of the file of that name; None where every span fits."""
        if not self._num_misplaced:
            return None
        total = f"of {self._num_spans} spans"
        misplaced = counted(self._num_misplaced, f"{total} begins or ends", f"{total} begin or end")
        said = f"{name}: {misplaced} inside a word or on a blank"
        form, fewest = min(self._misplaced_in.items(), key=lambda item: item[1])
        if fewest * 4 > self._num_misplaced:
            return said + "; every token that a span touches counts as marked"
        fits = "all spans fit"
        if fewest:
            fits = f"only {counted(fewest, f'{total} does this', f'{total} do this')}"
        return f"{said}. If {form}, {fits}. Count the characters of the text as it is in the file"


def form_that_fits(spans: object, text: str) -> str | None:
    """A hint for spans that reach beyond the text, where they would not in another form; else None."""
    pairs = [span for span in spans if isinstance(span, list)] if isinstance(spans, list) else []
    edges = [edge for pair in pairs for edge in pair if isinstance(edge, int | float)]
    for form in _FORMS:
        if edges and form.differs.search(text) and set(edges) <= form.offsets(text).keys():
            return (
                f"count the characters of the text as it is in the file: these spans would fit if {form.name}"
            )
    return None


def _is_misplaced(start: int | None, end: int | None, text: str, inside: set[int]) -> bool:
    if start is None or end is None or start >= end:
        return True
    return start in inside or end in inside or text[start].isspace() or text[end - 1].isspace()

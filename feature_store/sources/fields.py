"""Checks of what raw records hold, shared by the sources; each error names the field and the place."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import cast

from feature_store.errors import BadInputError, did_you_mean, nearest, quoted, shown
from feature_store.sources.base import SPLITS, Report
from feature_store.wording import counted

_SHOWN = 60
"""Characters of a wrong value that a message quotes."""

MAX_TOKENS = 2**20
"""Most tokens of a text whose length is stated, or follows from spans, but whose tokens are not in the file.

Memory is taken for each of them, so a slip in one number must not take it all.
"""

_MAX_UNREAD = 10
"""Most unknown keys that are named."""


def whole(value: object) -> int | None:
    """The whole number that a value is, True, False and floats such as 2.0 included; None for anything else.

    Programs that keep numbers with gaps write whole ones as floats.
    """
    if isinstance(value, int):
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else None


def check_id(value: object, key: str, where: str) -> str:
    """A whole number or a text that names something, as text; 2.0 is `2`.

    Raises:
        BadInputError: for anything else.
    """
    number = None if isinstance(value, bool) else whole(value)
    if number is None and (not isinstance(value, str) or value == ""):
        raise BadInputError(
            f"expected a whole number or text as `{key}`, but got {shown(value)}", where=where
        )
    return check_encodable(str(value if number is None else number), f"`{key}`", where)


def check_encodable(text: str, what: str, where: str) -> str:
    """The text, which JSON escapes may have given half a character.

    Raises:
        BadInputError: if it cannot be written as UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadInputError(f"{what} is not valid text: {error}", where=where) from error
    return text


def check_text(value: object, key: str, where: str) -> str:
    """A text that is not blank.

    Raises:
        BadInputError: for anything else.
    """
    if not isinstance(value, str):
        raise BadInputError(f"expected text as `{key}`, but got {shown(value)}", where=where)
    if not value.strip():
        raise BadInputError(f"expected a text as `{key}`, but it is empty", where=where)
    return check_encodable(value, f"`{key}`", where)


def check_tokens(tokens: object, name: str, where: str) -> list[str]:
    """The tokens of a text: words without an empty one, at least one.

    Raises:
        BadInputError: if it holds something else.
    """
    if not isinstance(tokens, list) or not (set(map(type, tokens)) <= {str} and all(tokens)):
        raise BadInputError(f"expected a list of words as `{name}`, but got {shown(tokens)}", where=where)
    if not tokens:
        raise BadInputError(f"no tokens in `{name}`", where=where)
    check_encodable("".join(tokens), f"a token of `{name}`", where)
    return tokens


def check_spans(
    spans: object, size: int | None, key: str, where: str, unit: str = "tokens"
) -> list[tuple[int, int]]:
    """[start, end) spans inside a text; a name behind one, as in doccano's [start, end, label], is not read.

    Args:
        size: length of the text; None: it is not known here, and no span may end beyond `MAX_TOKENS`.
        key: what the list is called, with its quotation marks.
        unit: what `size` counts.

    Raises:
        BadInputError: for anything else, or a span beyond the text.
    """
    if not isinstance(spans, list):
        raise BadInputError(
            f"expected a list of [start, end) spans as {key}, but got {shown(spans)}", where=where
        )
    checked: list[tuple[int, int]] = []
    for span in spans:
        pair = span[:2] if isinstance(span, list) and len(span) == 3 and isinstance(span[2], str) else span
        edges = [None if isinstance(e, bool) else whole(e) for e in pair] if isinstance(pair, list) else []
        if len(edges) != 2 or None in edges:
            raise BadInputError(f"expected a span [start, end) in {key}, but got {shown(span)}", where=where)
        start, end = cast("list[int]", edges)
        if size is not None and not 0 <= start <= end <= size:
            backwards = ": it ends before it begins" if end < start else ""
            raise BadInputError(
                f"span {shown(span)} of {key} does not fit the text's {size} {unit}{backwards}",
                where=where,
                hint=f"a span is [start, end): start counts from 0, and end is at most {size}",
            )
        if not 0 <= start <= end:
            raise BadInputError(
                f"expected 0 <= start <= end in a span of {key}, but got {shown(span)}", where=where
            )
        # whether the spans fit shows where the length is known
        if size is None and end > MAX_TOKENS:
            raise BadInputError(
                f"a span of {key} ends at token {shown(end)}, but a text has at most {MAX_TOKENS:,} tokens",
                where=where,
                hint="spans count tokens, not characters; a longer text needs its `tokens` in the file",
            )
        checked.append((start, end))
    return checked


def positions(spans: Sequence[tuple[int, int]]) -> list[int]:
    """Ascending positions inside [start, end) spans, each once."""
    found: list[int] = []
    following = 0
    for start, end in sorted(spans):
        found.extend(range(max(start, following), end))
        following = max(following, end)
    return found


def mask_positions(mask: Sequence[float], size: int, where: str) -> list[int]:
    """Ascending positions of the ones of a 0/1 mask over a text's tokens.

    Args:
        mask: whole numbers (see `whole`), the field `rationale`.

    Raises:
        BadInputError: if it has another length than the text, or another number.
    """
    if len(mask) != size and len(mask) == 2 and max(mask) > 1:
        raise BadInputError(
            f"expected spans or a 0/1 mask as `rationale`, but got {list(mask)}",
            where=where,
            hint=f"a single span is written in a list, too: [{list(mask)}]",
        )
    if len(mask) != size:
        raise BadInputError(
            f"expected one 0 or 1 for each token as `rationale`, but got {len(mask)} for "
            f"{counted(size, 'token')}",
            where=where,
        )
    if not set(mask) <= {0, 1}:
        wrong = next(entry for entry in mask if entry not in (0, 1))
        raise BadInputError(f"expected 0 or 1 in the mask `rationale`, but got {wrong}", where=where)
    return [position for position, entry in enumerate(mask) if entry]


def is_mask(value: object) -> bool:
    """Whether a `rationale` is a mask and no list of spans; an empty list counts as the latter."""
    if not isinstance(value, list) or not value:
        return False
    # most masks hold nothing but whole numbers: their types are told apart without a call for each
    return set(map(type, value)) <= {int, bool} or all(whole(entry) is not None for entry in value)


def class_number(name: str, numbers: dict[str, int], where: str) -> int:
    """Number of a class.

    Raises:
        BadInputError: if there is no class of that name.
    """
    if name not in numbers:
        raise BadInputError(
            f"expected one of the {len(numbers)} classes {quoted(numbers, 20)}, but got `{name[:_SHOWN]}`",
            where=where,
            hint=did_you_mean(name, numbers),
        )
    return numbers[name]


def unread_keys(counts: Counter[str], known: Sequence[str]) -> str:
    """A note that names the keys nothing was read from, how often, and what may have been meant by them."""
    parts = []
    for key, count in counts.most_common(_MAX_UNREAD):
        near = nearest(key, known, 0.75)
        meant = f", did you mean `{near}`?" if near else ""
        parts.append(f"{key[:40]!r} ({counted(count, 'line')}{meant})")
    return "keys that are not read: " + ", ".join(parts) + (", ..." if len(counts) > _MAX_UNREAD else "")


class SeenExamples:
    """What was read so far: ids, which must differ, and texts, which may stand in several splits."""

    def __init__(self) -> None:
        self._places: dict[str, str] = {}
        self._owners: dict[bytes, str] = {}
        self._shared: Counter[tuple[str, str]] = Counter()

    def add(self, example_id: str, split: str, tokens: Sequence[str], where: str) -> None:
        """Enter one example.

        Raises:
            BadInputError: if its id was entered before; names the place.
        """
        if example_id in self._places:
            raise BadInputError(
                f"the id `{example_id[:_SHOWN]}` is in {self._places[example_id]} already", where=where
            )
        self._places[example_id] = where
        owner = self._owners.setdefault(hashlib.sha256("\0".join(tokens).encode()).digest(), split)
        if owner != split:
            # the texts of val and test are the ones that were seen before, whatever the files' order
            learnt, scored = sorted((owner, split), key=SPLITS.index)
            self._shared[scored, learnt] += 1

    def tell(self, report: Report) -> None:
        """Count and say which texts stand in several splits."""
        for (split, owner), count in sorted(self._shared.items()):
            report.counts[f"texts_of_{split}_in_{owner}"] = count
            report.notes.append(
                counted(
                    count,
                    f"text of `{split}` is also in `{owner}`: it is kept",
                    f"texts of `{split}` are also in `{owner}`: they are kept",
                )
                + f", so the scores on `{split}` are too high"
            )

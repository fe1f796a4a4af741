"""What a mask file says of one text."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from feature_store.errors import BadInputError, shown

_LARGEST = sys.float_info.max


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskRecord:
    """One text's rationale as a file states it."""

    where: str
    """File and line."""
    example_id: str | None
    tokens: list[str] | None
    num_tokens: int | None
    """How many tokens the text has; None where the file does not say."""
    positions: list[int] | None
    """Ascending positions of selected or marked tokens; None where nobody annotated the text."""
    scores: list[float] | None = None
    """One for each token."""
    last_span: list[int] | None = None
    """The span with the largest end, as the file has it, where the file does not say how long the text is."""
    text: str | None = None
    """Where the file gives this in place of the tokens, which are then its pieces between blanks."""
    characters: Sequence[Sequence[int]] = ()
    """[start, end) spans of the text that are selected or marked."""
    document: str | None = None
    """Name of the document, where a file of ERASER gives one beside the id."""

    @property
    def label(self) -> str:
        """How the text is called in messages: its id, else where it stands."""
        return self.where if self.example_id is None else self.example_id


def check_scores(value: object, size: int | None, where: str, key: str = "scores") -> list[float] | None:
    """A finite number for each token of a text; None where there are no scores.

    Args:
        size: tokens of the text; None: it is not known, and there can be no scores.

    Raises:
        BadInputError: for anything else.
    """
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != size:
        given = f"{len(value)}" if isinstance(value, list) else shown(value)
        expected = "a list of numbers" if size is None else f"{size} numbers"
        raise BadInputError(f"expected {expected} as `{key}`, but got {given}", where=where)
    if set(map(type, value)) == {float} and all(map(math.isfinite, value)):
        return list(value)  # as most files have them
    for score in value:
        if isinstance(score, bool) or not isinstance(score, int | float) or not abs(score) <= _LARGEST:
            raise BadInputError(f"expected numbers as `{key}`, but got {shown(score)}", where=where)
    return [float(score) for score in value]

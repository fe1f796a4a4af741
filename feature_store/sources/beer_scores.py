"""The five scores of a review of beer."""

from feature_store.errors import BadInputError, shown

NUM_SCORES = 5
"""Appearance, smell, palate, taste, overall."""


def check_scores(values: list[str] | object, where: str) -> list[float]:
    """Five numbers in [0, 1], from the words of a line or the list of a JSON record.

    Raises:
        BadInputError: for anything else.
    """
    if not isinstance(values, list) or len(values) != NUM_SCORES:
        given = f"{len(values)}: {values}" if isinstance(values, list) else repr(values)
        raise BadInputError(f"expected {NUM_SCORES} scores, but got {given}", where=where)
    scores = []
    for value in values:
        try:
            score = float("nan" if isinstance(value, bool) else value)
        except (TypeError, ValueError, OverflowError) as error:
            raise BadInputError(f"expected a score in [0, 1], but got {shown(value)}", where=where) from error
        if not 0 <= score <= 1:  # also refuses NaN
            given = value if isinstance(value, str) else shown(value)
            raise BadInputError(f"expected a score in [0, 1], but got {given}", where=where)
        scores.append(score)
    return scores

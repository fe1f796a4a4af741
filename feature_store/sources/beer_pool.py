"""Further texts for an aspect of beer: the reviews of the other two aspects' held-out files, its pool.

Every review has all five scores, but each file was chosen so that the scores of *its* aspect depend little on
the others' [Lei et al. 2016]. In the pool the aspect's score follows the others', so a model may learn from
what is said of another aspect.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl

    Scores = npt.NDArray[np.float64]

NO_POOL, RESIDUAL, VECTORS, ADJUSTED = "none", "residual", "vectors", "adjusted"

KEY_TOKENS = 10
"""Reviews that begin with the same ten tokens count as one: users post a text again with small changes."""


@dataclass(slots=True)
class Known:
    """What the pool must not repeat, and what it is compared with: the aspect's own reviews."""

    aspect: int
    """Number of the aspect's score."""
    keys: set[str] = field(default_factory=set)
    """How their texts begin."""
    scores: list[list[float]] = field(default_factory=list)

    def add_texts(self, texts: "pl.Series") -> None:
        """Remember how texts begin."""
        self.keys.update(beginnings(texts))

    def add(self, reviews: "pl.DataFrame") -> None:
        """Remember the aspect's own reviews, as `read_reviews` gives them."""
        self.add_texts(reviews["text"])
        self.scores += reviews["scores"].to_list()


def beginnings(texts: "pl.Series") -> "pl.Series":
    """The first `KEY_TOKENS` tokens of each text, by which it is known again."""
    return texts.str.split(" ").list.head(KEY_TOKENS).list.join(" ")


@dataclass(frozen=True, slots=True)
class Pool:
    """The reviews that are no repetition."""

    places: dict[str, int]
    """Where each stands; its row in `scores`."""
    scores: "Scores"
    """Of each review, [N, 5]."""
    num_equal: int
    """Reviews that begin as one before them, an annotated one or one of the aspect's own."""


def unknown_reviews(read: "Callable[[], Iterable[pl.DataFrame]]", known: Known) -> Pool:
    """The reviews that begin as none before them, in their order and among the `known` ones."""
    import polars as pl  # takes time that a list of the sources need not wait for

    reviews = pl.concat(
        frame.select("place", "scores", beginnings(frame["text"]).alias("key")) for frame in read()
    )
    is_known = pl.col("key").is_in(pl.Series(list(known.keys), dtype=pl.String).implode())
    found = reviews.filter(pl.col("key").is_first_distinct() & ~is_known)
    places = {place: row for row, place in enumerate(found["place"])}
    return Pool(places, found["scores"].to_numpy(), len(reviews) - len(found))


def chosen(pool: Pool, known: Known) -> Collection[str]:
    """Places of the reviews whose score the others predict worst, after [Lei et al. 2016].

    The aspect's score is regressed on the other four over the pool, by least squares. The reviews with the
    largest absolute residual are taken, as many as keep the mean absolute correlation of the aspect's
    score with the other four no higher than in the aspect's own reviews.

    Differs: [Lei et al. 2016] pick reviews "until the sentiment correlation increases dramatically".
    """
    import numpy as np

    if len(pool.places) < 2:
        return ()
    residual = np.abs(pool.scores[:, known.aspect] - predicted(pool.scores, known.aspect))
    # rounded, so that equal scores rank equally on every machine; the first line wins
    order = np.argsort(-residual.round(9), kind="stable")
    limit = mean_correlations(np.array(known.scores), known.aspect)[-1]
    is_low = mean_correlations(pool.scores[order], known.aspect) <= limit
    num_kept = int(np.flatnonzero(is_low)[-1]) + 1 if is_low.any() else 0
    rows = set(order[:num_kept].tolist())
    return {place for place, row in pool.places.items() if row in rows}


def predicted(scores: "Scores", aspect: int) -> "Scores":
    """What the other four scores tell of an aspect's, by least squares over these reviews.

    Args:
        scores: of the reviews, [N, 5].
        aspect: column of the aspect's score.

    Returns:
        Predictions, [N].
    """
    import numpy as np

    target, others = _apart(scores, aspect)
    inputs = np.column_stack([np.ones(len(target)), others])
    fitted: Scores = inputs @ np.linalg.lstsq(inputs, target, rcond=None)[0]
    return fitted


def adjusted(scores: "Scores", aspect: int) -> "Scores":
    """An aspect's score without what the other four tell of it, in [0, 1].

        clamp(y - (y^ - mean y^), 0, 1),   y^ = `predicted`

    Args:
        scores: of the training reviews, [N, 5].
        aspect: column of the aspect's score.

    Returns:
        Targets, [N], whose mean is about that of the scores.
    """
    told = predicted(scores, aspect)
    # rounded, so that the last digit is the same on every machine
    without: Scores = (scores[:, aspect] - (told - told.mean())).clip(0, 1).round(6)
    return without


def mean_correlations(scores: "Scores", aspect: int) -> "Scores":
    """Mean absolute correlation of an aspect's score with the other four, over the first 1, 2, ... N reviews.

    Args:
        scores: of the reviews, [N, 5].
        aspect: column of the aspect's score.

    Returns:
        Means in [0, 1], [N]; NaN as long as a score does not vary.
    """
    import numpy as np

    target, others = _apart(scores, aspect)
    count = np.arange(1, len(target) + 1)

    def covariance(a: "Scores", b: "Scores") -> "Scores":
        return np.cumsum(a * b, axis=0) / column - np.cumsum(a, axis=0) * np.cumsum(b, axis=0) / column**2

    column = count[:, None]
    own = target[:, None]
    variance = covariance(own, own) * covariance(others, others)
    with np.errstate(divide="ignore", invalid="ignore"):
        # a variance of rounding errors is none
        found = np.abs(covariance(own, others)) / np.sqrt(np.where(variance > 1e-12, variance, np.nan))
    means: Scores = found.mean(axis=1)
    return means


def _apart(scores: "Scores", aspect: int) -> tuple["Scores", "Scores"]:
    import numpy as np

    return scores[:, aspect], np.delete(scores, aspect, axis=1)


def note(how: str, aspect: str, counts: Mapping[str, int], files: Sequence[str]) -> str:
    """What is said of a pool wherever its features are used."""
    said = f"`pool={how}`: {counts['pool']} reviews of {' and '.join(files)}"
    equal = f"{counts['pool_equal']} with the same beginning as another review are left out"
    if how == VECTORS:
        return f"{said} are used only for the word vectors and the language model; {equal}"
    if how == ADJUSTED:
        return (
            f"{said} are added to the training texts; {equal}. The target of every training text is its "
            f"score for {aspect} minus the part that a linear regression on the other scores predicts; the "
            "other splits keep the original scores"
        )
    if how == RESIDUAL:
        return (
            f"{said} are added to the training texts, selected as the reviews whose score for {aspect} is "
            "predicted worst from the other scores (linear regression). Their number is limited: in them, "
            f"the score for {aspect} is no more correlated with the other scores than in the reviews of "
            f"{aspect} itself; the {counts['pool_correlated']} reviews above this limit are left out; {equal}"
        )
    return (
        f"{said} are added to the training texts; in these reviews, the score for {aspect} is correlated "
        f"with the other scores; {equal}"
    )

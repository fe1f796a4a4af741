"""Beer reviews as two classes, as rationale models since 2020 are compared: `--option target=polar`.

A review with a score of at most .4 is negative, one with a score of at least .6 is positive, and the reviews
between them are left out of every split. In `train`, the larger class is cut to the size of the smaller one.
The papers of FR, MGR, DR, MCD and N2R do so, and read only the first 256 tokens of a review, which is the
default of `max_length` here.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from feature_store.fingerprint import unit_interval
from feature_store.sources.base import POOL, Report

if TYPE_CHECKING:
    import polars as pl

SCORE, POLAR = "score", "polar"
"""Values of the option: the score itself, or its class."""
CLASS_NAMES = ("negative", "positive")
MOST_NEGATIVE, LEAST_POSITIVE = 0.4, 0.6
"""Highest score of a negative review, lowest score of a positive one; both included."""
NOT_POLAR, UNBALANCED = "score between .4 and .6", "more reviews than the other class has"
"""Why a review is left out."""


def polar(read: "Callable[[Report], Iterator[pl.DataFrame]]", report: Report) -> "Iterator[pl.DataFrame]":
    """The reviews of either class, with the class as target: 0 negative, 1 positive.

    Which training reviews of the larger class are kept is decided by a hash of their ids.

    Args:
        read: gives the reviews of all splits with scores as targets. It is called twice, and notes what it
            finds in the report that it is given.
        report: counts the reviews that are left out.
    """
    import polars as pl

    kept = pl.Series(_balanced(read(Report())), dtype=pl.String).implode()
    for frame in read(report):
        classes = frame.with_columns(target=_class())
        is_class = pl.col("target").is_not_null() | (pl.col("split") == POOL)
        is_kept = (pl.col("split") != "train") | pl.col("example_id").is_in(kept)
        _count(report, NOT_POLAR, classes.filter(~is_class))
        _count(report, UNBALANCED, classes.filter(is_class & ~is_kept))
        yield classes.filter(is_class & is_kept).with_columns(pl.col("target").fill_null(0))


def _class() -> "pl.Expr":
    """The class of a score; null between the two."""
    import polars as pl

    score = pl.col("target").cast(pl.Float64)
    # scores have 32 bits, in which .4 is a little more than .4
    negative, positive = score <= MOST_NEGATIVE + 1e-6, score >= LEAST_POSITIVE - 1e-6
    return pl.when(negative).then(0).when(positive).then(1).otherwise(None).cast(pl.Int32)


def _balanced(frames: "Iterator[pl.DataFrame]") -> list[str]:
    """Ids of the training reviews to keep, the same number of each class."""
    import polars as pl

    train = pl.concat(
        frame.filter(pl.col("split") == "train").select("example_id", target=_class()) for frame in frames
    )
    ids = [train.filter(pl.col("target") == number)["example_id"].to_list() for number in (0, 1)]
    size = min(map(len, ids))
    return [one for of_class in ids for one in sorted(of_class, key=unit_interval)[:size]]


def _count(report: Report, reason: str, left_out: "pl.DataFrame") -> None:
    for split, number in left_out["split"].value_counts().iter_rows():
        report.drop(reason, split, number)

"""Scores that people gave, and what can be said of them: means, differences and agreement, with intervals.

The texts are the sample: a method's score of a text is the mean over its judges, and intervals are
percentiles over texts drawn again (bootstrap). Repeated showings count in nothing but the agreement of people
with themselves.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np
import numpy.typing as npt

from pipeline.base.errors import PipelineError
from pipeline.judging.book import Book
from pipeline.judging.guide import SCALES
from pipeline.judging.sheet import Sheet
from pipeline.reporting.significance import holm

NUM_DRAWS = 2000
"""Of the bootstrap; the ends of a 95 % interval then rest on fifty draws each."""
NUM_FLIPS = 20_000
"""Of the sign-flip test, where all of them would be more; p is then right to about 0.003."""
SEED = 0
_ENDS = (2.5, 97.5)

Level = Literal["nominal", "ordinal", "interval"]
"""Of measurement, as the package `krippendorff` names them."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Rating:
    """What one person said of one showing."""

    judge: int
    text: int
    method: int
    is_repeat: bool
    scores: Mapping[str, float]
    """By scale; those that were given."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its 95 % interval; None where it is not defined."""

    value: float | None
    low: float | None = None
    high: float | None = None
    count: int = 0
    """Texts, or showings, that it rests on."""


@dataclass(frozen=True, slots=True)
class PairDifference:
    """Two methods on the texts that were scored for both."""

    first: int
    second: int
    mean: Estimate
    """First less second."""
    p: float | None
    """Two-sided, of the sign-flip test; None where fewer than two texts were scored for both."""
    p_holm: float | None = None
    """The same, corrected by Holm for all pairs on this scale."""


@dataclass(frozen=True, slots=True)
class Repeats:
    """How far people agree with themselves when a showing comes back."""

    count: int
    equal: float | None
    """Share of equal scores."""
    within_one: float | None
    mean_distance: float | None


def ratings_of(sheet: Sheet, book: Book) -> list[Rating]:
    """Every answer that has a score.

    Raises:
        PipelineError: if nobody answered anything.
    """
    found = []
    for judge, plan in enumerate(sheet.plan):
        for number, answer in book.answers(judge).items():
            slot = plan[number]
            given = {s: float(answer.content[s]) for s in SCALES if answer.content.get(s) is not None}
            if given:
                found.append(Rating(judge, slot.text, slot.method, slot.is_repeat, given))
    if not found:
        raise PipelineError(
            "nobody has answered anything yet",
            where=str(book.path),
            hint="`python -m pipeline.judge --sheet DIR` serves the sheet",
        )
    return found


def text_means(ratings: Sequence[Rating], method: int, scale: str) -> dict[int, float]:
    """The mean over judges, by text."""
    given: dict[int, list[float]] = {}
    for one in ratings:
        if one.method == method and not one.is_repeat and scale in one.scores:
            given.setdefault(one.text, []).append(one.scores[scale])
    return {text: fmean(scores) for text, scores in sorted(given.items())}


def mean(values: Sequence[float]) -> Estimate:
    """Mean over texts; without an interval where there is but one."""
    if not values:
        return Estimate(None)
    if len(values) == 1:
        return Estimate(values[0], count=1)
    sample = np.asarray(values)
    low, high = _interval(len(values), lambda rows: float(sample[rows].mean()))
    return Estimate(float(sample.mean()), low, high, len(values))


def _interval(size: int, statistic: Callable[[npt.NDArray[np.int64]], float | None]) -> tuple[float, float]:
    chance = np.random.default_rng(SEED)
    drawn = (statistic(chance.integers(size, size=size)) for _ in range(NUM_DRAWS))
    low, high = np.percentile([value for value in drawn if value is not None], _ENDS)
    return float(low), float(high)


def differences(ratings: Sequence[Rating], num_methods: int, scale: str) -> list[PairDifference]:
    """Every pair of methods, with the p of both tests."""
    means = [text_means(ratings, method, scale) for method in range(num_methods)]
    found = []
    for first, second in itertools.combinations(range(num_methods), 2):
        both = [text for text in means[first] if text in means[second]]
        gaps = [means[first][text] - means[second][text] for text in both]
        found.append(PairDifference(first, second, mean(gaps), sign_flip_p(gaps)))
    corrected = holm({(one.first, one.second): one.p for one in found if one.p is not None})
    return [PairDifference(d.first, d.second, d.mean, d.p, corrected.get((d.first, d.second))) for d in found]


def sign_flip_p(gaps: Sequence[float]) -> float | None:
    """Two-sided p that the mean difference is 0: how often one with signs at random is as far from it.

    Every way to give the signs is counted where these are no more than `NUM_FLIPS`, else as many are drawn,
    and the one that was seen is counted with them. None for fewer than two differences.
    """
    if len(gaps) < 2:
        return None
    values = np.asarray(gaps, dtype=np.float64)
    seen, close = abs(values.sum()), 1e-9 * max(float(np.abs(values).sum()), 1.0)
    if 2 ** len(values) <= NUM_FLIPS:
        signs = np.array(list(itertools.product((-1.0, 1.0), repeat=len(values))))
        return float(np.mean(np.abs(signs @ values) >= seen - close))
    chance = np.random.default_rng(SEED)
    extreme = 1
    for _ in range(NUM_FLIPS // 1000):  # a thousand at once: of 300 texts 2 MB
        signs = chance.choice((-1.0, 1.0), size=(1000, len(values)))
        extreme += int(np.sum(np.abs(signs @ values) >= seen - close))
    return extreme / (NUM_FLIPS + 1)


def reliability(ratings: Sequence[Rating], num_judges: int, scale: str) -> Floats:
    """Scores [judge, showing] of everything that at least two people scored; NaN where one did not."""
    units: dict[tuple[int, int], dict[int, float]] = {}
    for one in ratings:
        if not one.is_repeat and scale in one.scores:
            units.setdefault((one.text, one.method), {})[one.judge] = one.scores[scale]
    shared = [given for _, given in sorted(units.items()) if len(given) > 1]
    table = np.full((num_judges, len(shared)), np.nan)
    for column, given in enumerate(shared):
        for judge, score in given.items():
            table[judge, column] = score
    return table


def alpha(table: Floats, level: Level = "interval") -> Estimate:
    """Krippendorff's alpha, with an interval over showings drawn again.

    Args:
        table: scores [judge, showing], NaN where one is missing.

    Returns:
        The value None where no showing has two scores, or all scores are equal: then it is not defined.
    """
    return alpha_of_groups(np.hsplit(table, table.shape[1]) if table.shape[1] else [], level)


def alpha_of_groups(groups: Sequence[Floats], level: Level) -> Estimate:
    """Krippendorff's alpha over all columns; groups of them, not single ones, are drawn again.

    Args:
        groups: values [judge, unit], NaN where one is missing; the units of a group go together.
    """
    if not groups:
        return Estimate(None)
    values = np.unique(np.concatenate([group[~np.isnan(group)] for group in groups]))
    counts = [np.stack([(group == value).sum(axis=0) for value in values], axis=1) for group in groups]
    value = _alpha(counts, values, level)
    if value is None or len(groups) < 2:
        return Estimate(value, count=len(groups))
    low, high = _interval(len(groups), lambda rows: _alpha([counts[row] for row in rows], values, level))
    return Estimate(value, low, high, len(groups))


def _alpha(groups: Sequence[npt.NDArray[np.int64]], values: Floats, level: Level) -> float | None:
    """Of how often each value stands in each unit; None where fewer than two values are there."""
    import krippendorff

    counts = np.concatenate(groups)
    there = counts.sum(axis=0) > 0
    if there.sum() < 2:
        return None
    return float(
        krippendorff.alpha(
            value_counts=counts[:, there], value_domain=values[there], level_of_measurement=level
        )
    )


def repeats(ratings: Sequence[Rating], scale: str) -> Repeats:
    """The scores of showings that came back, against those that the same person gave first."""
    first = {
        (one.judge, one.text, one.method): one.scores[scale]
        for one in ratings
        if not one.is_repeat and scale in one.scores
    }
    gaps = [
        abs(one.scores[scale] - first[one.judge, one.text, one.method])
        for one in ratings
        if one.is_repeat and scale in one.scores and (one.judge, one.text, one.method) in first
    ]
    if not gaps:
        return Repeats(0, None, None, None)
    return Repeats(len(gaps), fmean(gap == 0 for gap in gaps), fmean(gap <= 1 for gap in gaps), fmean(gaps))

"""How far a score would move with other texts, or with other seeds: the bootstrap over both.

Every score here is a function of sums over texts, so a draw of texts is a row of counts, and all draws of a
block are one product of matrices. Shapes: D texts, K sums, R draws, S seeds.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from infocal.metrics.overlap import Counts, Golds, Mask, Masks, Values, lay_out_golds, sum_by_document

NUM_DRAWS = 1000
LEVEL = 0.95
"""Share of the draws between the ends of an interval."""
_BLOCK = 4_000_000
"""Counts of texts that are held at once, 32 MB."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextCounts:
    """What a model's rationales and predictions come to, text by text."""

    lengths: Counts
    """(D,) tokens of each text whose rationale is scored."""
    annotated: Mask
    """(D,) whether a human annotated it."""
    selected: Counts
    """(D,) selected tokens."""
    marked: Counts
    """(D,) tokens marked by a human; 0 where nobody annotated."""
    hits: Counts
    """(D,) tokens both selected and marked."""
    predicted: NDArray[np.generic]
    """(N,) class number or score predicted for each text whose prediction is scored."""
    target: NDArray[np.generic]
    """(N,) its class number or score."""

    @classmethod
    def of(
        cls, masks: Masks, golds: Golds, predicted: NDArray[np.generic], target: NDArray[np.generic]
    ) -> "TextCounts":
        """Count tokens.

        Args:
            masks: bool (T_i,) for each of D texts.
            golds: bool (T_i,) or None for each.
            predicted, target: (N,), classes as whole numbers, scores as floating point.
        """
        lengths = np.array([len(mask) for mask in masks], dtype=np.int64)
        gold, annotated = lay_out_golds(golds, lengths, "masks")
        mask = np.concatenate(masks)
        selected, marked, hits = (sum_by_document(flat, lengths) for flat in (mask, gold, mask & gold))
        return cls(
            lengths=lengths,
            annotated=annotated,
            selected=selected,
            marked=marked,
            hits=hits,
            predicted=predicted,
            target=target,
        )

    def as_lists(self) -> dict[str, list[int] | list[float]]:
        """Plain lists by name, for JSON; `of_lists` is the inverse."""
        what = "score" if np.issubdtype(self.target.dtype, np.floating) else "class"
        named = {name: getattr(self, name) for name in ("lengths", "annotated", "selected", "marked", "hits")}
        named |= {f"predicted_{what}": self.predicted, f"target_{what}": self.target}
        return {name: (1 * values).tolist() for name, values in named.items()}

    @classmethod
    def of_lists(cls, lists: Mapping[str, Sequence[int] | Sequence[float]]) -> "TextCounts":
        """The counts that `as_lists` gave.

        Raises:
            KeyError: if a list is missing.
        """
        what, kind = ("score", np.float64) if "target_score" in lists else ("class", np.int64)
        counts = ("lengths", "selected", "marked", "hits")
        return cls(
            **{name: np.array(lists[name], dtype=np.int64) for name in counts},
            annotated=np.array(lists["annotated"], dtype=np.bool_),
            predicted=np.array(lists[f"predicted_{what}"], dtype=kind),
            target=np.array(lists[f"target_{what}"], dtype=kind),
        )


def _ratio(part: NDArray[Any], whole: NDArray[Any]) -> Values:
    """Quotients, 0 where the whole is 0."""
    quotients: Values = np.divide(part, whole, out=np.zeros(np.shape(part)), where=whole != 0)
    return quotients


def _beside(*columns: NDArray[Any]) -> NDArray[np.float64]:
    return np.stack(columns, axis=1).astype(np.float64)


def _of_annotated(c: TextCounts) -> tuple[Counts, Counts, Counts]:
    return c.hits * c.annotated, c.selected * c.annotated, c.marked * c.annotated


def _micro(c: TextCounts) -> NDArray[np.float64]:
    return _beside(*_of_annotated(c))


def _macro(c: TextCounts) -> NDArray[np.float64]:
    """Precision, recall and F1 of each text that has anything selected or marked, and whether it has."""
    hits, selected, marked = _of_annotated(c)
    some = selected + marked > 0
    return _beside(_ratio(hits, selected), _ratio(hits, marked), _ratio(2.0 * hits, selected + marked), some)


def _rate(c: TextCounts) -> NDArray[np.float64]:
    return _beside(c.selected, c.lengths)


def _rate_of_annotated(c: TextCounts) -> NDArray[np.float64]:
    return _beside(c.selected * c.annotated, c.lengths * c.annotated)


def _right(c: TextCounts) -> NDArray[np.float64]:
    return _beside(c.predicted == c.target, np.ones(len(c.target)))


@dataclass(frozen=True, slots=True)
class _Memberships:
    """Columns (D, K) of zeros and ones of which each text has a few: there may be hundreds of classes."""

    rows: NDArray[np.intp]
    columns: NDArray[np.intp]
    shape: tuple[int, int]

    def summed(self, block: Values) -> Values:
        """(R, D) -> (R, K)."""
        order = np.argsort(self.columns, kind="stable")
        present, starts = np.unique(self.columns[order], return_index=True)
        sums = np.zeros((len(block), self.shape[1]))
        if len(present):
            sums[:, present] = np.add.reduceat(block[:, self.rows[order]], starts, axis=1)
        return sums


_Sums = NDArray[np.float64] | _Memberships
"""What is summed over D texts: K columns."""


def _by_class(c: TextCounts) -> _Memberships:
    """Three columns a class: predicted and target, predicted, target."""
    classes, codes = np.unique(np.concatenate((c.predicted, c.target)), return_inverse=True)
    p, t = np.split(codes, 2)
    texts, right, num = np.arange(len(p)), p == t, len(classes)
    rows = np.concatenate((texts[right], texts, texts))
    return _Memberships(rows, np.concatenate((p[right], num + p, 2 * num + t)), (len(p), 3 * num))


def _summed(block: Values, columns: _Sums) -> Values:
    """(R, D), (D, K) -> (R, K)."""
    sums: Values = columns.summed(block) if isinstance(columns, _Memberships) else block @ columns
    return sums


def _errors(c: TextCounts) -> NDArray[np.float64]:
    target = c.target.astype(np.float64)
    error = c.predicted.astype(np.float64) - target
    return _beside(error**2, target, target**2, np.ones(len(target)))


def _macro_f1(sums: Values) -> Values:
    hits, predicted, target = np.split(sums, 3, axis=-1)
    occurs = predicted + target > 0
    f1: Values = _ratio(_ratio(2 * hits, predicted + target).sum(axis=-1), occurs.sum(axis=-1).astype(float))
    return f1


def _explained(sums: Values) -> Values:
    squares, target, target_squares, count = np.moveaxis(sums, -1, 0)
    variance = target_squares / count - (target / count) ** 2
    rate: Values = np.where(
        variance > 1e-15, np.maximum(0.0, 1 - _ratio(squares / count, np.maximum(variance, 1e-15))), 0.0
    )
    return rate


_Columns = Callable[[TextCounts], _Sums]
_Score = Callable[[Values], Values]


def _part(numerator: int, denominator: int) -> _Score:
    return lambda sums: _ratio(sums[..., numerator], sums[..., denominator])


_F1: tuple[_Columns, _Score] = _micro, lambda s: _ratio(2 * s[..., 0], s[..., 1] + s[..., 2])

SCORES: dict[str, tuple[_Columns, _Score]] = {
    "token_precision": (_micro, _part(0, 1)),
    "token_recall": (_micro, _part(0, 2)),
    "token_f1": _F1,
    "token_precision_macro": (_macro, _part(0, 3)),
    "token_recall_macro": (_macro, _part(1, 3)),
    "token_f1_macro": (_macro, _part(2, 3)),
    "hatexplain_token_f1": (_macro, _part(2, 3)),
    "selection_rate": (_rate, _part(0, 1)),
    "selection_rate_annotated": (_rate_of_annotated, _part(0, 1)),
    "accuracy": (_right, _part(0, 1)),
    "macro_f1": (_by_class, _macro_f1),
    "mse": (_errors, _part(0, 3)),
    "explained_rate": (_errors, _explained),
}
"""Scores that can be drawn again, by their flat names: what is summed over texts, and what follows."""
_OF_TASK = (_right, _by_class, _errors)


def score(name: str, counts: TextCounts) -> float:
    """A score of all texts at once, as `infocal.metrics.scores` has it."""
    columns, of_sums = SCORES[name]
    return float(of_sums(_all(columns(counts)))[0])


def _all(columns: _Sums) -> Values:
    """(D, K) -> (1, K): the sums of all texts."""
    return _summed(np.ones((1, columns.shape[0])), columns)


def _size(name: str, counts: TextCounts) -> int:
    return len(counts.target if SCORES[name][0] in _OF_TASK else counts.lengths)


def draws(size: int, num_draws: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Blocks of rows (R, D): how often each text is drawn where D texts are drawn with replacement."""
    generator = np.random.default_rng(seed)
    step = max(1, _BLOCK // max(1, size))
    for first in range(0, num_draws, step):
        rows = min(step, num_draws - first)
        drawn = generator.integers(size, size=(rows, size)) + size * np.arange(rows)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=rows * size).reshape(rows, size)
        yield counts.astype(np.float64)


@dataclass(frozen=True, slots=True)
class Interval:
    """How far an estimate moves over draws."""

    low: float
    high: float
    """The ends between which `LEVEL` of the draws lie."""
    error: float
    """Standard deviation of the draws: the standard error."""


def interval_of(drawn: Values) -> Interval:
    """Standard error, and the ends between which `LEVEL` of the draws (R,) lie."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail])
    return Interval(float(low), float(high), float(drawn.std(ddof=1)))


def intervals(
    counts: TextCounts, names: Sequence[str], *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> dict[str, Interval]:
    """The interval of each score over draws of as many texts, with replacement (the percentile bootstrap).

    Args:
        counts: of one model.
        names: of `SCORES`; others are left out, and where no text is annotated those of rationales, too.
        num_draws: R.
        seed: of the draws: equal texts and seed give equal intervals.
    """
    known = [name for name in dict.fromkeys(names) if name in SCORES and is_defined(name, counts)]
    found: dict[str, Interval] = {}
    for size in dict.fromkeys(_size(name, counts) for name in known):
        of_size = [name for name in known if _size(name, counts) == size]
        columns = {name: SCORES[name][0](counts) for name in of_size}
        drawn: dict[str, list[Values]] = {name: [] for name in of_size}
        for block in draws(size, num_draws, seed):
            for name in of_size:
                drawn[name].append(SCORES[name][1](_summed(block, columns[name])))
        found |= {name: interval_of(np.concatenate(blocks)) for name, blocks in drawn.items()}
    return {name: found[name] for name in known}


def interval_over_targets(
    every: Sequence[TextCounts], name: str, *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> Interval | None:
    """The interval of the mean of one score over several targets of the same texts.

    Args:
        every: the counts of each target.
        name: of `SCORES`.
        num_draws: R.
        seed: of the draws, which are of texts: each takes the same texts for all targets.

    Returns:
        None where the score is none of `SCORES`, or fewer than two targets have it.
    """
    having = [counts for counts in every if name in SCORES and is_defined(name, counts)]
    if len(having) < 2:
        return None
    columns, of_sums = SCORES[name]
    found = [columns(counts) for counts in having]
    drawn = [
        np.mean([of_sums(_summed(block, one)) for one in found], axis=0)
        for block in draws(_size(name, having[0]), num_draws, seed)
    ]
    return interval_of(np.concatenate(drawn))


def is_defined(name: str, counts: TextCounts) -> bool:
    """Whether there are texts that the score is of."""
    if SCORES[name][0] in (_micro, _macro, _rate_of_annotated):
        return bool(counts.annotated.any())
    is_score = np.issubdtype(counts.target.dtype, np.floating)
    if SCORES[name][0] is _errors:
        return is_score and len(counts.target) > 0
    return not (is_score and SCORES[name][0] in _OF_TASK) and _size(name, counts) > 0


@dataclass(frozen=True, slots=True)
class Difference:
    """One method's score less another's, over the seeds that both have."""

    estimate: float
    interval: Interval
    p_value: float
    """Two-sided: twice the smaller share of draws on one side of 0, in (0, 1]."""


def paired_difference(
    name: str,
    theirs: Sequence[TextCounts],
    ours: Sequence[TextCounts],
    *,
    num_draws: int = 2000,
    seed: int = 0,
) -> Difference:
    """Mean score of one method over seeds less another's, with its interval over draws of texts and seeds.

    Hierarchical and paired: a draw takes S seeds and D texts with replacement, the same for both methods, and
    the same texts for every seed.

    Args:
        name: of `SCORES`.
        theirs, ours: the two methods, S seeds each in one order, on the same texts.
        num_draws: R.
        seed: of the draws.

    Raises:
        ValueError: if there are no seeds, or the two have not equally many.
    """
    if not theirs or len(theirs) != len(ours):
        raise ValueError(
            f"expected two methods with the same number of seeds, but got {len(theirs)} and {len(ours)}"
        )
    values, scores = _over_seeds(name, (theirs, ours), num_draws, seed)
    sides = [(int((values <= 0).sum()) + 1), (int((values >= 0).sum()) + 1)]
    gap = (math.fsum(scores[0]) - math.fsum(scores[1])) / len(theirs)
    return Difference(gap, interval_of(values), min(1.0, 2 * min(sides) / (len(values) + 1)))


def mean_interval(
    name: str, seeds: Sequence[TextCounts], *, num_draws: int = NUM_DRAWS, seed: int = 0
) -> Interval:
    """The interval of a method's mean score over seeds, over draws of texts and seeds.

    Hierarchical: a draw takes S seeds and D texts with replacement, the same texts for every seed.

    Args:
        name: of `SCORES`.
        seeds: counts of S seeds on the same texts.
        num_draws: R.
        seed: of the draws.

    Raises:
        ValueError: if there are no seeds, or they are of different numbers of texts.
    """
    if not seeds:
        raise ValueError("expected the counts of at least one seed, but got none")
    return interval_of(_over_seeds(name, (seeds,), num_draws, seed)[0])


def _over_seeds(
    name: str, groups: Sequence[Sequence[TextCounts]], num_draws: int, seed: int
) -> tuple[Values, list[list[float]]]:
    """Draws (R,) of a mean over S seeds, less that of a second group where there is one; and all scores."""
    columns, of_sums = SCORES[name]
    every = [columns(one) for group in groups for one in group]
    size, num_seeds = every[0].shape[0], len(groups[0])
    sizes = {one.shape[0] for one in every}
    if sizes != {size}:
        raise ValueError(f"expected the same texts, but got {sorted(sizes)} of them")
    seeds = np.random.default_rng([seed, 1])
    drawn = []
    for block in draws(size, num_draws, seed):
        scores = np.stack([of_sums(_summed(block, one)) for one in every], axis=1)
        gaps = scores[:, :num_seeds] - (scores[:, num_seeds:] if len(groups) > 1 else 0.0)
        taken = seeds.integers(num_seeds, size=(len(block), num_seeds))
        drawn.append(np.take_along_axis(gaps, taken, axis=1).mean(axis=1))
    estimates = [float(of_sums(_all(one))[0]) for one in every]
    of_groups = [estimates[first : first + num_seeds] for first in range(0, len(every), num_seeds)]
    return np.concatenate(drawn), of_groups

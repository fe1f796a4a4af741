"""The final choice: the best epoch of all trials, by the criterion."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from pipeline.base.storage import Location
from search_spaces import lookup
from search_spaces.base import Bound, Criterion

if TYPE_CHECKING:
    from feature_store.store import Features

CRITERION_TAG = "criterion_json"
"""Tag of a run and of a model version: the criterion as `search_spaces.base.Criterion.to_json` writes it."""
JUDGED_TAG = "test_criterion_json"
"""Tag of a model version: the criterion that test was judged by, in terms of test scores."""
RIVAL_TAG = "rival_json"
"""Tag of a model version: the rival whose precision its criterion reads, as `Rival.as_tag` gives it."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A trial with its best epoch."""

    trial_id: str
    config: Mapping[str, Any]
    checkpoint: Location
    """Last checkpoint; holds the best epoch's weights."""
    epoch: int
    value: float
    """The criterion's value: the metric where the bounds hold, else minus the violation."""
    violation: float
    scores: Mapping[str, float]
    degenerate: str | None = None
    """Name of the trivial mask that the best epoch has, which meets no criterion."""
    intervals: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Score -> low end, high end and standard error over draws of validation texts; empty in what older
    versions stored."""
    lower_bound: float | None = None
    """The low end of what the criterion maximises; None where it was not drawn."""

    @property
    def is_met(self) -> bool:
        """Whether the bounds hold."""
        return self.violation == 0


_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Standing:
    """What a trial's best epoch is ranked by."""

    value: float
    """The criterion's: the metric where the bounds hold, else minus the violation, below 0."""
    lower_bound: float | None
    """The low end of the metric's interval over draws of validation texts; None: not drawn."""
    epoch: int


def standing_of(numbers: Mapping[str, Any]) -> Standing:
    """What the numbers that a trial reported last say of its best epoch."""
    return Standing(
        numbers["best_objective"], numbers.get("best_lower_bound"), int(numbers.get("best_epoch", 0))
    )


def best_first(trials: Iterable[_T], standing: Callable[[_T], Standing]) -> list[_T]:
    """Trials in order, the best first: here alone it is said which is the best.

    Those that meet the criterion's bounds come first, by the lower bound of what it maximises: a figure that
    could as well be luck counts for less. Bounds are met by the figures themselves. The others follow by
    their violation. Of equal ones the higher value comes first, then the earlier epoch, then the order given,
    which is that in which trials were begun: their ids say nothing, Tune draws them at random.

    Where a trial that meets the bounds has no lower bound (an older version trained it), all are ranked by
    their values.
    """
    found = [(standing(one), one) for one in trials]
    by_bound = all(one.lower_bound is not None for one, _ in found if one.value >= 0)

    def key(one: Standing) -> tuple[bool, float, float, int]:
        is_met = one.value >= 0
        first = one.lower_bound if is_met and by_bound and one.lower_bound is not None else one.value
        return not is_met, -first, -one.value, one.epoch

    return [one for _, one in sorted(found, key=lambda pair: key(pair[0]))]


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Best first, as `best_first` has it."""
    return best_first(candidates, lambda one: Standing(one.value, one.lower_bound, one.epoch))


_NEAR = 0.05
"""How far below the best value of a bound's score a trial may lie to count as near the bound."""
_F1 = ("val_calibrated_token_f1", "val_token_f1")
"""F1 at the held selection rate, where the data set has one, or of the tokens selected."""


def judged(candidates: Iterable[Candidate], criterion: Criterion) -> list[Candidate]:
    """The trials by another criterion, best first; each keeps its epoch, whose weights are all that is left.

    A trivial mask meets no criterion.
    """
    found = []
    for one in candidates:
        violation = criterion.violation(one.scores) + (one.degenerate is not None)
        value = one.scores[criterion.metric] if violation == 0 else -violation
        low = next(iter(one.intervals.get(criterion.metric, ())), None)
        found.append(dataclasses.replace(one, violation=violation, value=value, lower_bound=low))
    return ranked(found)


def within_reach(candidates: Sequence[Candidate], criterion: Criterion) -> tuple[Criterion, Candidate] | None:
    """The criterion with limits that a useful trial keeps, and the trial that it then chooses.

    Useful is the trial of the highest F1 among those whose broken bounds are nearly kept as well as by any.

    Returns:
        None where every trial has a trivial mask.
    """
    usable = [one for one in candidates if one.degenerate is None]
    if not usable:
        return None
    least = min(criterion.violation(one.scores) for one in usable)
    near = [one for one in usable if criterion.violation(one.scores) <= least + _NEAR]
    chosen = max(near, key=lambda one: _usefulness(one, criterion))
    relaxed = dataclasses.replace(
        criterion, bounds=tuple(_kept(bound, chosen.scores) for bound in criterion.bounds)
    )
    return relaxed, judged(candidates, relaxed)[0]


def _usefulness(one: Candidate, criterion: Criterion) -> float:
    for name in _F1:
        if name in one.scores:
            return one.scores[name]
    return one.scores[criterion.metric]


def _kept(bound: Bound, scores: Mapping[str, float]) -> Bound:
    """A bound that these scores keep: as it is, or at the next hundredth."""
    if bound.violation(scores) == 0:
        return bound
    value = 100 * scores[bound.metric]
    limit = math.floor(value + 1e-9) if bound.kind == "at_least" else math.ceil(value - 1e-9)
    return dataclasses.replace(bound, limit=limit / 100)


def criterion_of(features: "Features") -> Criterion:
    """By what models on these features are chosen; for data of one's own, that depends on what they hold."""
    import pyarrow.compute as pc

    lengths = pc.list_value_length(features.annotated_validation()["rationale"])
    has_rationales = (pc.max(lengths).as_py() or 0) > 0
    aspect = features.aspect or ""
    return lookup.settled_criterion(features.dataset, aspect, features.task.kind, has_rationales)

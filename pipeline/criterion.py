"""The final choice: the best epoch of all trials, by the criterion."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipeline.storage import Location
from search_spaces.base import Bound, Criterion

CRITERION_TAG = "criterion_json"
"""Tag of a run and of a model version: the criterion as `search_spaces.base.Criterion.to_json` writes it."""


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

    @property
    def is_met(self) -> bool:
        """Whether the bounds hold."""
        return self.violation == 0


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Best first; of equal values the earlier epoch, then the order given, which is that of the trials.

    A trial's id says nothing: Tune draws it at random.
    """
    return sorted(candidates, key=lambda c: (-c.value, c.epoch))


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
        found.append(dataclasses.replace(one, violation=violation, value=value))
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

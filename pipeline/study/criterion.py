"""The trials of a study by the criterion, or by another one; `pipeline.training.best` has the order."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.base.storage import Location
from pipeline.training import best
from pipeline.training.best import best_first
from pipeline.training.epochs import BestEpoch
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate(BestEpoch):
    """The best epoch of a trial, with the trial that it is of."""

    trial_id: str
    config: Mapping[str, Any]
    checkpoint: Location
    """Last checkpoint; holds the best epoch's weights."""
    ended: str = ""
    """How its training ended before its last epoch, such as `stopped after 6`; empty: it did not."""


def ranked(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Best first."""
    return best_first(candidates, lambda one: one.standing)


_NEAR = 0.05
"""How far below the best value of a bound's score a trial may lie to count as near the bound."""
_F1 = ("val_calibrated_token_f1", "val_token_f1")
"""F1 at the held selection rate, where the data set has one, or of the tokens selected."""


def judged(candidates: Iterable[Candidate], criterion: Criterion) -> list[Candidate]:
    """The trials by another criterion, best first; each keeps its epoch, whose weights are all that is left.

    A trivial mask, and an epoch before the end of the start phase, meet no criterion.
    """
    found = []
    for one in candidates:
        violation, value = best.judged(criterion, one.scores, is_result=_is_usable(one))
        drawn = one.intervals.get(criterion.metric)
        low = None if drawn is None else drawn.low
        found.append(dataclasses.replace(one, violation=violation, value=value, lower_bound=low))
    return ranked(found)


def within_reach(candidates: Sequence[Candidate], criterion: Criterion) -> tuple[Criterion, Candidate] | None:
    """The criterion with limits that a useful trial keeps, and the trial that it then chooses.

    Useful is the trial of the highest F1 among those whose broken bounds are nearly kept as well as by any.

    Returns:
        None where every trial has a trivial mask, or has not come to the end of its start phase.
    """
    usable = list(filter(_is_usable, candidates))
    if not usable:
        return None
    least = min(criterion.violation(one.scores) for one in usable)
    near = [one for one in usable if criterion.violation(one.scores) <= least + _NEAR]
    chosen = max(near, key=lambda one: _usefulness(one, criterion))
    relaxed = dataclasses.replace(
        criterion, bounds=tuple(_kept(bound, chosen.scores) for bound in criterion.bounds)
    )
    return relaxed, judged(candidates, relaxed)[0]


def _is_usable(one: Candidate) -> bool:
    return one.is_result and one.degenerate is None


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

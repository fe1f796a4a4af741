"""Which epoch of a trial, and which trial, is the best: nothing else in this project decides it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from search_spaces.base import Criterion

_T = TypeVar("_T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Standing:
    """What an epoch is ranked by, among those of its trial or among the best epochs of other trials."""

    value: float
    """The criterion's: the metric where the bounds hold, else minus the violation, below 0."""
    epoch: int
    """Counted from 0."""
    lower_bound: float | None = None
    """The low end of the metric's interval over bootstrap resamples of validation texts; None: not drawn."""
    prediction: float | None = None
    """How good the prediction is, the higher the better; None: not known. See `prediction_of`."""


def best_first(found: Iterable[_T], standing: Callable[[_T], Standing]) -> list[_T]:
    """Epochs or trials in order, the best first.

    Those that meet the criterion's bounds come first, by the lower bound of what it maximises: a figure that
    could as well be luck counts for less. Bounds are met by the figures themselves. The others follow by
    their violation. Of equal ones the higher value comes first, then the better prediction (the mask of FRESH
    or of a dense model has the same rationale scores in each epoch), then the earlier epoch, then the order
    given. Trials are given in the order in which they were begun: Tune draws their ids at random.

    A lower bound counts only where each epoch that meets the bounds has one, a prediction only where each
    epoch has one: an older version may have trained some of them, and within a trial the lower bound is drawn
    for the best epoch alone.
    """
    every = [(standing(one), one) for one in found]
    has_bounds = all(one.lower_bound is not None for one, _ in every if one.value >= 0)
    has_predictions = all(one.prediction is not None for one, _ in every)

    def key(one: Standing) -> tuple[bool, float, float, float, int]:
        is_met = one.value >= 0
        first = one.lower_bound if is_met and has_bounds and one.lower_bound is not None else one.value
        prediction = one.prediction if has_predictions and one.prediction is not None else 0.0
        return not is_met, -first, -one.value, -prediction, one.epoch

    return [one for _, one in sorted(every, key=lambda pair: key(pair[0]))]


def prediction_of(scores: Mapping[str, float], prefix: str = "val_") -> float | None:
    """How good the prediction of an epoch is: macro F1, or minus the mean squared error; None: not known."""
    if f"{prefix}macro_f1" in scores:
        return scores[f"{prefix}macro_f1"]
    error = scores.get(f"{prefix}mse")
    return None if error is None else -error


def judged(criterion: Criterion, scores: Mapping[str, float], *, is_result: bool) -> tuple[float, float]:
    """The violation and the value of a criterion for an epoch.

    Args:
        is_result: False where the epoch can be no result: its mask is trivial, or its start is not over. It
            meets no criterion.
    """
    violation = criterion.violation(scores) + (not is_result)
    return violation, scores[criterion.metric] if violation == 0 else -violation

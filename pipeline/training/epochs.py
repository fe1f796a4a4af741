"""What an epoch gave, from the trainer to MLflow: typed here, and plain only where it is stored or sent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infocal.metrics.resampling import Interval
from pipeline.training.best import Standing, prediction_of


@dataclass(frozen=True, kw_only=True, slots=True)
class BestEpoch:
    """The best epoch of a trial, as `best/scores.json` has it."""

    epoch: int
    """Counted from 0."""
    value: float
    """The criterion's value: the metric where the bounds hold, else minus the violation."""
    violation: float
    scores: Mapping[str, float]
    """Every validation score of the epoch, by its flat name."""
    degenerate: str | None = None
    """Name of the trivial mask that the epoch has, which meets no criterion."""
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """Score -> its interval over draws of validation texts; empty in what older versions stored."""
    lower_bound: float | None = None
    """The low end of what the criterion maximises; None where it was not drawn."""

    @property
    def is_met(self) -> bool:
        """Whether the criterion's bounds hold."""
        return self.violation == 0

    @property
    def standing(self) -> Standing:
        """What the epoch is ranked by."""
        return Standing(
            value=self.value,
            epoch=self.epoch,
            lower_bound=self.lower_bound,
            prediction=prediction_of(self.scores),
        )

    def as_json(self) -> dict[str, Any]:
        """The epoch as it is stored."""
        found = {
            "epoch": self.epoch,
            "value": self.value,
            "violation": self.violation,
            "is_met": self.is_met,
            "degenerate": self.degenerate,
            "scores": dict(self.scores),
        }
        if not self.intervals:
            return found
        drawn = {name: [one.low, one.high, one.error] for name, one in self.intervals.items()}
        return found | {"intervals": drawn, "lower_bound": self.lower_bound}

    @classmethod
    def of_json(cls, found: Any) -> "BestEpoch":
        """The epoch that `as_json` wrote, or an older version; what else stands there is left out.

        Raises:
            ValueError: if it is something else.
        """
        if not isinstance(found, Mapping) or not isinstance(found.get("scores"), Mapping):
            raise ValueError("expected an epoch with its `scores`")
        scores, low, drawn = found["scores"], found.get("lower_bound"), found.get("intervals", {})
        numbers = [found.get("value"), found.get("violation"), *scores.values()]
        if type(found.get("epoch")) is not int or not all(map(_is_number, numbers)):
            raise ValueError("expected the number of an epoch, and numbers")
        if not isinstance(found.get("degenerate", 0), str | None):
            raise ValueError("expected a name as `degenerate`")
        if not (low is None or _is_number(low)) or not _are_intervals(drawn):
            raise ValueError("expected intervals of three numbers")
        return cls(
            epoch=found["epoch"],
            value=found["value"],
            violation=found["violation"],
            scores=dict(scores),
            degenerate=found.get("degenerate"),
            intervals={name: Interval(*ends) for name, ends in drawn.items()},
            lower_bound=low,
        )


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _are_intervals(found: object) -> bool:
    return isinstance(found, Mapping) and all(
        isinstance(one, list) and len(one) == 3 and all(map(_is_number, one)) for one in found.values()
    )

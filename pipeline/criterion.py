"""The final choice: the best epoch of all trials, by the criterion."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pipeline.storage import Location

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

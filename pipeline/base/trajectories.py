"""Whether two trainings of one configuration came to the same: epoch by epoch, metric by metric."""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from feature_store.wording import counted
from pipeline.base import text_tables

TOLERANCE = 1e-3
"""Largest difference of what agrees, relative for values beyond 1. Rounding stays below it until training has
made it grow; another seed is above it in the first epoch: docs/reproducing.md has the figures."""

_LEFT_OUT = frozenset({"epoch", "epochs", "epoch_s", "train_s", "tokens_per_s"})
"""What counts the epochs, and what a clock decides."""
_LATER = ("test_", "annotated_")
"""Begin the metrics that a reading of the test split adds to a run, after training."""

_MAX_ROWS = 24
"""Of the table that people read."""

BIT_FOR_BIT, WITHIN, DIFFERS = "bit_for_bit", "within_tolerance", "differs"


_EPOCH = re.compile(r"^epoch \d+: ")


@dataclass(frozen=True, slots=True)
class Failure:
    """How a training failed."""

    epoch: int
    """The first one that did not come to its end, counted from 0."""
    reason: str
    message: str

    def __str__(self) -> str:
        # the message of a failure that has a name repeats both; an older version counted from 0 in it
        message = _EPOCH.sub("", self.message.removeprefix(f"{self.reason}: "))
        return f"{self.reason} at epoch {self.epoch + 1} ({message})"


@dataclass(frozen=True, slots=True)
class Trajectory:
    """What a training reported."""

    epochs: dict[int, dict[str, float]]
    """Epoch, counted from 0 -> metric -> value, a finite number."""
    failure: Failure | None = None

    @property
    def num_epochs(self) -> int:
        """Epochs up to the last one that is there."""
        return max(self.epochs, default=-1) + 1


def compared(values: Mapping[str, Any]) -> dict[str, float]:
    """Those numbers of an epoch that training alone decides, and that MLflow can hold."""
    return {
        name: float(value)
        for name, value in values.items()
        if is_compared(name)
        and isinstance(value, int | float)
        and not isinstance(value, bool)
        and math.isfinite(value)
    }


def is_compared(metric: str) -> bool:
    """Whether training alone decides a metric: it is no time, no later reading, no number of the epoch."""
    return metric not in _LEFT_OUT and not metric.startswith(_LATER)


@dataclass(frozen=True, slots=True)
class MetricPair:
    """One metric of one epoch, in both trainings."""

    epoch: int
    metric: str
    recorded: float | None
    """None where there was no finite number."""
    again: float | None

    @property
    def gap(self) -> float:
        """Size of the difference, relative to values beyond 1; infinite where one of the two is missing."""
        if self.recorded is None or self.difference is None:
            return 0.0 if self.recorded is self.again else math.inf
        return abs(self.difference) / max(1.0, abs(self.recorded))

    @property
    def difference(self) -> float | None:
        """What was added to the recorded value; None where one of the two is missing."""
        if self.recorded is None or self.again is None:
            return None
        return self.again - self.recorded

    def as_json(self) -> dict[str, Any]:
        """For machines; the gap is null where it is infinite."""
        gap = self.gap if math.isfinite(self.gap) else None
        return {
            "epoch": self.epoch,
            "metric": self.metric,
            "recorded": self.recorded,
            "again": self.again,
            "gap": gap,
        }


@dataclass(frozen=True, slots=True)
class TrajectoryComparison:
    """Two trainings, compared."""

    cells: list[MetricPair]
    """By epoch; within one, in the order of the metrics' names."""
    recorded: Failure | None
    again: Failure | None
    tolerance: float
    """Largest gap of what agrees."""
    not_logged: list[int] = field(default_factory=list)
    """Epochs that the record lacks though it has later ones."""
    new: list[str] = field(default_factory=list)
    """Metrics that only the second training has."""

    @property
    def same_failure(self) -> bool:
        """Whether both or neither failed, for the same reason in the same epoch."""
        if self.recorded is None or self.again is None:
            return self.recorded is self.again
        return (self.recorded.epoch, self.recorded.reason) == (self.again.epoch, self.again.reason)

    @property
    def verdict(self) -> str:
        """BIT_FOR_BIT, WITHIN or DIFFERS."""
        largest = max((cell.gap for cell in self.cells), default=0.0)
        if not self.same_failure or largest > self.tolerance:
            return DIFFERS
        return WITHIN if largest else BIT_FOR_BIT

    @property
    def agrees(self) -> bool:
        """Whether the verdict is a good one."""
        return self.verdict != DIFFERS

    def first(self) -> MetricPair | None:
        """The largest gap of the first epoch that has one above the tolerance."""
        wrong = [cell for cell in self.cells if cell.gap > self.tolerance]
        return max((c for c in wrong if c.epoch == wrong[0].epoch), key=lambda c: c.gap) if wrong else None

    def worst(self) -> list[MetricPair]:
        """Each metric at the epoch of its largest gap; at the last one where it has none."""
        found: dict[str, MetricPair] = {}
        for cell in self.cells:
            if cell.metric not in found or cell.gap >= found[cell.metric].gap:
                found[cell.metric] = cell
        return list(found.values())

    def growth(self) -> list[tuple[int, float]]:
        """Each epoch with the largest gap in it."""
        found: dict[int, float] = {}
        for cell in self.cells:
            found[cell.epoch] = max(cell.gap, found.get(cell.epoch, 0.0))
        return list(found.items())

    def sentence(self) -> str:
        """The verdict, in words."""
        metrics, epochs = {c.metric for c in self.cells}, {c.epoch for c in self.cells}
        compared = f"{counted(len(metrics), 'metric')} over {counted(len(epochs), 'epoch')}"
        if not self.cells:
            compared = "both trainings failed in the same way before the end of the first epoch"
        elif self.recorded is not None:
            compared += ", and the failure is the same"
        if self.verdict == BIT_FOR_BIT:
            return f"agrees bit for bit: {compared}"
        if self.verdict == WITHIN:
            worst = max(self.cells, key=lambda cell: cell.gap)
            at = f"{worst.gap:.2g} at epoch {worst.epoch + 1} in {worst.metric}"
            return f"agrees within {self.tolerance:g}: {compared}; the largest difference is {at}"
        first = self.first()
        if first is None or (first.again is None and not self.same_failure):
            return (
                f"differs: the recorded training had {self.recorded or 'no failure'}, the repeated training "
                f"had {self.again or 'no failure'}"
            )
        apart = f"recorded training {_shown(first.recorded)}, repeated training {_shown(first.again)}"
        return f"differs: first at epoch {first.epoch + 1} in {first.metric} ({apart})"

    def aligned(self, shown: Sequence[str]) -> str:
        """Metrics at their largest difference, aligned.

        Args:
            shown: metrics to begin with, where they are recorded; of the others those that differ follow,
                the largest difference first.
        """
        worst = {cell.metric: cell for cell in self.worst()}
        first = [worst.pop(name) for name in shown if name in worst]
        others = sorted((c for c in worst.values() if c.gap), key=lambda cell: -cell.gap)
        rows = [*first, *others[: max(0, _MAX_ROWS - len(first))]]
        lines = [("metric", "epoch", "recorded", "repeated", "difference")]
        for cell in rows:
            apart = "-" if cell.difference is None else f"{cell.difference:.2g}"
            lines.append((cell.metric, str(cell.epoch + 1), _shown(cell.recorded), _shown(cell.again), apart))
        left = len(first) + len(worst) - len(rows)
        more = f"... and {counted(left, 'metric')} more: `--json` writes every metric for every epoch"
        return "\n".join([text_tables.aligned(lines), *([more] if left else [])])

    def as_json(self) -> dict[str, Any]:
        """For machines: the verdict and every cell; epochs are counted from 0, as MLflow's steps are."""
        first = self.first()
        return {
            "verdict": self.verdict,
            "agrees": self.agrees,
            "tolerance": self.tolerance,
            "first_difference": None if first is None else first.as_json(),
            "failure": {"recorded": _plain(self.recorded), "again": _plain(self.again)},
            "epochs_not_logged": self.not_logged,
            "metrics_not_recorded": self.new,
            "cells": [cell.as_json() for cell in self.cells],
        }


def compare(recorded: Trajectory, again: Trajectory, tolerance: float = TOLERANCE) -> TrajectoryComparison:
    """Compare a recorded training with its repetition, at the recorded metrics and epochs."""
    metrics = _names(recorded.epochs.values())
    cells = [
        MetricPair(epoch, metric, values.get(metric), again.epochs.get(epoch, {}).get(metric))
        for epoch, values in sorted(recorded.epochs.items())
        for metric in metrics
    ]
    return TrajectoryComparison(
        cells=cells,
        recorded=recorded.failure,
        again=again.failure,
        tolerance=tolerance,
        not_logged=[n for n in range(recorded.num_epochs) if n not in recorded.epochs],
        new=[name for name in _names(again.epochs.values()) if name not in metrics],
    )


def _names(epochs: Iterable[Mapping[str, float]]) -> Sequence[str]:
    return sorted({name for values in epochs for name in values})


def _shown(value: float | None) -> str:
    return "none" if value is None else f"{value:.9g}"


def _plain(failure: Failure | None) -> dict[str, Any] | None:
    return (
        None
        if failure is None
        else {"epoch": failure.epoch, "reason": failure.reason, "message": failure.message}
    )

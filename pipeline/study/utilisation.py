"""How much of the cores' time a search spent in training steps, and what a trial costs besides its epochs."""

import itertools
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ray.tune.experiment import Trial

from pipeline.study.recorder import UnsavedCallback


@dataclass(frozen=True, slots=True)
class TimedEpoch:
    """One epoch as the driver heard of it; times in seconds of one clock."""

    trial_id: str
    worker: str
    """The process that ran it; trials that follow one another share it."""
    reported: float
    epoch_s: float
    """Training and evaluation."""
    train_s: float
    """Training steps alone, the first part of `epoch_s`."""

    @property
    def started(self) -> float:
        """When its first step was done."""
        return self.reported - self.epoch_s


@dataclass(frozen=True, slots=True)
class Utilisation:
    """What a search made of its cores."""

    useful_rate: float
    """Share of the cores' time between the first and the last report that was spent in training steps."""
    trial_overhead_s: float | None
    """Median time between the last report of a trial and the first epoch of the next one on the same worker;
    None where no worker ran two."""

    def __str__(self) -> str:
        text = (
            f"training used {self.useful_rate:.0%} of the CPU time between the first and the last "
            f"finished epoch"
        )
        if self.trial_overhead_s is not None:
            text += f"; starting another trial on the same worker took {self.trial_overhead_s:.2f} s"
        return text

    def metrics(self) -> dict[str, float]:
        """As metrics of the study's run."""
        found = {"useful_rate": self.useful_rate}
        return found if self.trial_overhead_s is None else found | {"trial_overhead_s": self.trial_overhead_s}


def utilisation(epochs: Sequence[TimedEpoch], num_cores: float, threads: int) -> Utilisation | None:
    """What became of the cores' time; None where there are not two reports to measure between.

    Args:
        num_cores: cores that the search may use.
        threads: cores that a trial keeps busy.
    """
    if len(epochs) < 2:
        return None
    first, last = min(e.reported for e in epochs), max(e.reported for e in epochs)
    if last <= first:
        return None
    trained = sum(max(0.0, min(e.started + e.train_s, last) - max(e.started, first)) for e in epochs)
    gaps = _gaps(epochs)
    return Utilisation(
        useful_rate=trained * threads / (num_cores * (last - first)),
        trial_overhead_s=statistics.median(gaps) if gaps else None,
    )


def _gaps(epochs: Sequence[TimedEpoch]) -> list[float]:
    """Seconds from the end of a trial to the first epoch of the next one, worker by worker."""
    by_worker: dict[str, list[TimedEpoch]] = defaultdict(list)
    for epoch in sorted(epochs, key=lambda e: e.reported):
        by_worker[epoch.worker].append(epoch)
    return [
        after.started - before.reported
        for row in by_worker.values()
        for before, after in itertools.pairwise(row)
        if before.trial_id != after.trial_id
    ]


class Stopwatch(UnsavedCallback):
    """Tune callback on the driver: notes when each epoch was reported."""

    def __init__(self) -> None:
        self.epochs: list[TimedEpoch] = []

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Note an epoch; a failed trial's last result is none."""
        if "epoch_s" in result:
            worker = f"{result['hostname']}:{result['pid']}"
            self.epochs.append(
                TimedEpoch(trial.trial_id, worker, time.monotonic(), result["epoch_s"], result["train_s"])
            )

"""How MLflow counts the epochs of a run: from 1, as pages and the terminal do; from 0 in runs of before.

In the code an epoch is counted from 0 throughout.
"""

from collections import Counter

from pipeline.tracking.tracking import TrackedRun, Tracker
from pipeline.training.epochs import Epoch

FIRST_TAG = "first_epoch"
"""Tag of a run: the step of its first epoch."""
FROM_ONE = {FIRST_TAG: "1"}
"""Tags of a run that is begun now."""


def first_step(run: TrackedRun) -> int:
    """The step at which MLflow has a run's first epoch."""
    return int(run.tags.get(FIRST_TAG) == FROM_ONE[FIRST_TAG])


def log(tracker: Tracker, run_id: str, epoch: Epoch, at: float | None = None) -> Counter[str]:
    """Log what an epoch gave.

    Args:
        epoch: that has ended.
        at: when they were measured, in seconds since 1970; None: now.

    Returns:
        What was left out, as `Tracker.log_metrics`.
    """
    return tracker.log_metrics(run_id, epoch.numbers, epoch.number + first_step(tracker.run(run_id)), at)


def history(tracker: Tracker, run: TrackedRun, metric: str) -> list[tuple[int, float]]:
    """Epoch, counted from 0, and value of a metric, in the order of the epochs.

    What was logged before the first epoch's step is of the run as a whole, and left out.
    """
    first = first_step(run)
    return [(step - first, value) for step, value in tracker.history(run.run_id, metric) if step >= first]

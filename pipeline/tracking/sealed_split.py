"""What MLflow records of the sealed test split: how often it was read with a run's model, and when."""

import datetime
from collections.abc import Mapping

from pipeline.tracking.tracking import Tracker, translated, warn_skipped

READINGS_TAG, READING_TIME_TAG = "test_readings", "test_reading_time"


def log_test_reading(tracker: Tracker, run_id: str, scores: Mapping[str, float]) -> int:
    """Record one reading of the sealed test split: its scores, its time and which reading it is.

    Returns:
        The number of readings of this run, this one included.
    """
    count = int(tracker.run(run_id).tags.get(READINGS_TAG, "0")) + 1
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    with translated(f"cannot record the reading of the test split in run {run_id}"):
        tracker.set_tags(run_id, {READINGS_TAG: str(count), READING_TIME_TAG: now})
        warn_skipped(tracker.log_metrics(run_id, scores, step=count))
    return count

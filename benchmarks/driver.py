"""What the driver of a search bears: many trials at once that train nothing and only report.

All else is that of a search: Tune, the proposals of Optuna, early stopping, the ledger, and MLflow in a
database of its own. The cores are logical, so that the trials run at once on any machine.
"""

import dataclasses
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

from benchmarks import idle
from benchmarks.timing import Figure
from pipeline import search
from pipeline.base import uris
from pipeline.base.storage import Storage
from pipeline.cli import search_settings
from pipeline.study import cluster, study_folder
from pipeline.study.recorder import UnsavedCallback
from pipeline.study.study_folder import TUNE, StudyFolder
from pipeline.study.study_settings import StudySettings

_NUM_TRIALS, _EPOCHS = (1, 8, 64), 20
_MIB = 2**20
_PATIENCE_S = 600.0
"""How long MLflow may take to catch up."""
_COMMAND = ("--dataset", "beer", "--aspect", "palate", "--sample", "--sampler", "tpe")


class _Reports(UnsavedCallback):
    """When the driver heard of each epoch, by a clock that only runs forward."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any
    ) -> None:
        """An epoch was reported."""
        self.times.append(time.perf_counter())


def run(work: Path, num_trials: Sequence[int] = _NUM_TRIALS, num_epochs: int = _EPOCHS) -> Iterator[Figure]:
    """Figures of one search for each number of trials.

    Args:
        work: folder for features and results.
        num_trials: of each search; all of them run at once.
        num_epochs: that each trial reports.
    """
    for number in num_trials:
        prepared = _settings(work, number, num_epochs)
        storage = Storage(str(work / "runs"))
        with study_folder.opened(storage, prepared.name, resume=False) as folder:
            yield from _search(prepared, folder, work)


def _settings(work: Path, num_trials: int, num_epochs: int) -> StudySettings:
    """Those of a search on the made-up corpus, its features built."""
    flags = [
        *_COMMAND,
        "--trials",
        str(num_trials),
        "--epochs",
        str(num_epochs),
        "--name",
        f"idle-{num_trials}",
    ]
    flags += ["--cache-dir", str(work / "cache"), "--embedding", "random", "--cpus-per-trial", "1"]
    given = search.build_parser().parse_args(flags)
    return search_settings.with_features(given, search_settings.new_study(given, flags))


def _search(prepared: StudySettings, folder: StudyFolder, work: Path) -> Iterator[Figure]:
    from pipeline.study.conduct import save, tracked
    from pipeline.study.mirror import Mirror
    from pipeline.study.study import Study
    from pipeline.tracking.tracking import Tracker
    from pipeline.training import feature_copies

    save(prepared, folder)
    _keep_an_epoch(prepared, folder.directory / idle.FOLDER)
    study = Study.in_folder(prepared, folder)
    tracker = Tracker(uris.of_sqlite(work / "mlflow.db"))
    tracking = tracked(prepared, folder, study.ledger, tracker, feature_copies.features_of(prepared.run))
    mirror, reports = Mirror(tracking, "pipeline.sync"), _Reports()
    study.notify = mirror.notify
    engine = dataclasses.replace(study.engine, trainable=idle.report_epochs)
    before = psutil.Process().memory_info().rss
    with cluster.session(None, num_cpus=prepared.num_trials):
        with mirror.running():
            engine.train(TUNE, study.searcher([]), prepared.num_trials, [reports])
        mirror.drain(patience_s=_PATIENCE_S)
        caught_up = time.perf_counter()
    yield from _figures(prepared, reports.times, caught_up, psutil.Process().memory_info().rss - before)


def _keep_an_epoch(prepared: StudySettings, kept: Path) -> None:
    """Train one epoch, and keep what it reported for the trials that train none."""
    from pipeline.study import outcome
    from pipeline.training import feature_copies
    from pipeline.training.trainable import train

    run = dataclasses.replace(prepared.run, num_epochs=1)
    outcome.prepare_derived(run, feature_copies.features_of(run))
    working = kept / "working"
    working.mkdir(parents=True)

    def keep(result: Any, checkpoint: Path) -> None:
        shutil.copytree(checkpoint, kept / idle.CHECKPOINT)
        (kept / idle.EPOCH).write_text(json.dumps(result.as_json()), encoding="utf-8")

    train(prepared.first_points[0], run, keep, working)
    shutil.rmtree(working)


def _figures(
    prepared: StudySettings, times: Sequence[float], caught_up: float, memory: int
) -> Iterator[Figure]:
    number, expected = prepared.num_trials, prepared.num_trials * prepared.run.num_epochs
    if len(times) != expected:
        raise RuntimeError(f"expected {expected} reports, but got {len(times)}")
    note = f"{number} idle trials at once, {prepared.run.num_epochs} epochs each"
    rate = (len(times) - 1) / (times[-1] - times[0])
    yield Figure(f"driver_reports_per_s_{number}", rate, None, None, "reports/s", note)
    yield Figure(f"driver_memory_{number}", memory / _MIB, None, None, "MiB", f"that it grew by, {note}")
    lag = caught_up - times[-1]
    yield Figure(
        f"mlflow_lag_s_{number}", lag, None, None, "s", "after the last report, until MLflow has all"
    )

"""A tracked trial of a small model: trained for real, and logged as a study logs it."""

import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from feature_store.store import Features
from pipeline.base.trajectories import Failure
from pipeline.tracking.tracking import CONFIG_ARTIFACT, MAX_TAG, Tracker
from pipeline.training.epochs import FAILURE, FAILURE_MESSAGE, Epoch
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import train
from tests.small_store import sample_features

Change = Callable[[Epoch], Mapping[str, float]]
"""An epoch -> the numbers that are logged of it."""


def record_trial(
    tracker: Tracker,
    run: RunSettings,
    values: Mapping[str, Any] | None = None,
    *,
    stop_after: int | None = None,
    change: Change = lambda epoch: epoch.numbers,
    features: Features | None = None,
    tags: Mapping[str, str] | None = None,
) -> str:
    """Train and log; returns the run's id.

    Args:
        tracker: where to log.
        run: settings of the study.
        values: hyper-parameters of the trial.
        stop_after: epochs after which a scheduler stops it.
        change: the numbers that are logged of an epoch.
        features: that `run` names; the sample features by default.
        tags: of the run, over those of a trial.
    """
    chosen = dict(values or {})
    config = run.config(**{k: v for k, v in chosen.items() if k != "seed"}).to_dict() | chosen
    all_tags = {
        "data_fingerprint": (features or sample_features()).fingerprint,
        "seed": str(chosen.get("seed", run.seed)),
        "corpus": "sample",
        "git_commit": "0" * 40,
        **(tags or {}),
    }
    run_id = tracker.start_run(tracker.experiment(run.dataset, run.aspect), "trial-00", config, all_tags)
    ended: dict[str, str] = {}

    def report(result: Epoch | Failure, checkpoint: Path) -> None:
        if isinstance(result, Failure):
            ended.update({FAILURE: result.reason, FAILURE_MESSAGE: result.message[:MAX_TAG]})
        else:
            tracker.log_metrics(run_id, change(result), result.number)

    with tempfile.TemporaryDirectory() as folder:
        trained = dataclasses.replace(run, num_epochs=stop_after or run.num_epochs)
        train(chosen, trained, report, Path(folder))
        document = {"config": config, "run": dataclasses.asdict(run)}
        artifacts: dict[str, str | Path] = {CONFIG_ARTIFACT: json.dumps(document)}
        if (Path(folder) / "best").is_dir():
            artifacts["best"] = Path(folder) / "best"
        status = "FAILED" if ended else "FINISHED"
        if stop_after is not None:
            ended["early_stopped"] = "true"
        tracker.finish(run_id, status, tags=ended, artifacts=artifacts)
    return run_id

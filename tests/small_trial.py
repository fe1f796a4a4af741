"""A tracked trial of a small model: trained for real, and logged as a study logs it."""

import dataclasses
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from feature_store.store import Features
from pipeline.tracking.tracking import CONFIG_ARTIFACT, MAX_TAG, Tracker
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import EPOCHS, Result, train
from tests.small_store import sample_features

Change = Callable[[Result], Mapping[str, Any]]
"""An epoch's result -> what is logged of it."""


def record_trial(
    tracker: Tracker,
    run: RunSettings,
    values: Mapping[str, Any] | None = None,
    *,
    stop_after: int | None = None,
    change: Change = dict,
    features: Features | None = None,
    tags: Mapping[str, str] | None = None,
) -> str:
    """Train and log; returns the run's id.

    Args:
        tracker: where to log.
        run: settings of the study.
        values: hyper-parameters of the trial.
        stop_after: epochs after which a scheduler stops it.
        change: what is logged in place of an epoch's result.
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
    last: Result = {}

    def report(result: Result, checkpoint: Path) -> None:
        last.update(result)
        if "failure" not in result:
            numbers = {name: value for name, value in change(result).items() if name not in ("epoch", EPOCHS)}
            tracker.log_metrics(run_id, numbers, result["epoch"])

    with tempfile.TemporaryDirectory() as folder:
        trained = dataclasses.replace(run, num_epochs=stop_after or run.num_epochs)
        train(chosen, trained, report, Path(folder))
        document = {"config": config, "run": dataclasses.asdict(run)}
        artifacts: dict[str, str | Path] = {CONFIG_ARTIFACT: json.dumps(document)}
        if (Path(folder) / "best").is_dir():
            artifacts["best"] = Path(folder) / "best"
        ended = {n: str(last[n])[:MAX_TAG] for n in ("failure", "failure_message") if n in last}
        if stop_after is not None:
            ended["early_stopped"] = "true"
        tracker.finish(run_id, "FAILED" if "failure" in last else "FINISHED", tags=ended, artifacts=artifacts)
    return run_id

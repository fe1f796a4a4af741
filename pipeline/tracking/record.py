"""What MLflow holds of a finished trial: all that it takes to train it again, and to compare the outcome."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.base import trajectories
from pipeline.base.errors import PipelineError
from pipeline.base.stored_files import copied, read_settings
from pipeline.base.trajectories import Failure, Trajectory
from pipeline.tracking import epoch_steps, model_registry
from pipeline.tracking.studies import config_of
from pipeline.tracking.tracking import COMPARISON_TAG, CONFIG_ARTIFACT, TrackedRun, Tracker
from pipeline.training import checkpoints
from pipeline.training.epochs import FAILURE, FAILURE_MESSAGE
from pipeline.training.settings import RunSettings

GIVE_A_TRIAL = "give the ID of a trial's run; the MLflow UI lists them below the run of their study"
"""Hint where a run is not that of a trial."""
_FINGERPRINT = "data_fingerprint"


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """The content of `config.json`."""

    config: dict[str, Any]
    """Every hyper-parameter; `seed` too where the trial has one of its own."""
    run: RunSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A trial as it was."""

    tracked: TrackedRun
    config: dict[str, Any]
    run: RunSettings
    seed: int
    fingerprint: str
    """Of the features."""
    is_sample: bool
    trajectory: Trajectory
    environment: dict[str, Any]
    """Where its best epoch was trained, as `pipeline.base.environment` says it; empty where not recorded."""
    best_digest: str | None
    """SHA-256 of the best epoch's weights; None where there are none."""

    @property
    def num_epochs(self) -> int:
        """Epochs to train: as many as were logged, and the one that failed."""
        failure = self.trajectory.failure
        return self.trajectory.num_epochs if failure is None else failure.epoch + 1


def read_record(tracker: Tracker, run_id: str) -> Record:
    """Read a trial's run.

    Raises:
        PipelineError: if it is a study, no trial of this pipeline, still running, ended before its settings
            were stored, logged nothing, or contradicts itself.
        StateError: if its `config.json` is not what a trial stores.
    """
    run = tracker.run(run_id)
    config_of(run)  # refuses a study
    _check_is_trial(run)
    with tempfile.TemporaryDirectory() as folder:
        stored = read_stored(tracker, run, Path(folder))
        with copied(Path(folder), f"run {run_id}"):
            environment, digest = _best(tracker, run_id, Path(folder))
    found = Record(
        tracked=run,
        config=stored.config,
        run=stored.run,
        seed=int(stored.config.get("seed", stored.run.seed)),
        fingerprint=run.tags[_FINGERPRINT],
        is_sample=model_registry.is_sample(run.tags),
        trajectory=_trajectory(tracker, run),
        environment=environment,
        best_digest=digest,
    )
    _check_agrees_with_itself(found)
    return found


def _check_is_trial(run: TrackedRun) -> None:
    named = f"run {run.run_id} (`{run.name}`)"
    if COMPARISON_TAG in run.tags:
        raise PipelineError(
            f"{named} is a comparison", hint="give the run of one of the comparison's trainings"
        )
    if _FINGERPRINT not in run.tags:
        raise PipelineError(
            f"{named} is not a trial of a search or a comparison: it has no `{_FINGERPRINT}`",
            hint=GIVE_A_TRIAL,
        )
    if run.status == "RUNNING":
        raise PipelineError(f"{named} is still running", hint="wait until it has ended")


def read_stored(tracker: Tracker, run: TrackedRun, folder: Path) -> Stored:
    """The settings of a trial, as its run has them.

    Args:
        folder: where they may be copied to.

    Raises:
        PipelineError: if the run ended before they were stored.
        StateError: if they are something else; names the run.
    """
    if CONFIG_ARTIFACT not in tracker.artifact_paths(run.run_id):
        raise PipelineError(
            f"run {run.run_id} (`{run.name}`, {run.status}) holds no `{CONFIG_ARTIFACT}`: the run ended "
            "before its settings were stored",
            hint="train a model with its hyper-parameters: `python -m pipeline.train --from-run "
            f"{run.run_id}{' --sample' if model_registry.is_sample(run.tags) else ''}`; add the flags that "
            "name its data",
        )
    path = tracker.download(run.run_id, CONFIG_ARTIFACT, folder)
    with copied(folder, f"run {run.run_id}"):
        return read_settings(Stored, path, "the settings of a trial")


def _best(tracker: Tracker, run_id: str, folder: Path) -> tuple[dict[str, Any], str | None]:
    """Where the best epoch was trained, and the digest of its weights, as far as they are recorded."""
    inside = tracker.artifact_paths(run_id, checkpoints.BEST)

    def content(name: str) -> Mapping[str, Any]:
        path = f"{checkpoints.BEST}/{name}"
        if path not in inside:
            return {}
        found = checkpoints.read_json(tracker.download(run_id, path, folder))
        return found if isinstance(found, dict) else {}

    environment = content(checkpoints.BEST_SCORES).get("environment")
    digest = content(checkpoints.DIGESTS).get(checkpoints.WEIGHTS)
    return environment if isinstance(environment, dict) else {}, digest


def _trajectory(tracker: Tracker, run: TrackedRun) -> Trajectory:
    epochs: dict[int, dict[str, float]] = {}
    for metric in filter(trajectories.is_compared, run.metrics):
        for epoch, value in epoch_steps.history(tracker, run, metric):
            known = epochs.setdefault(epoch, {}).setdefault(metric, value)
            if known != value:
                raise PipelineError(
                    f"run {run.run_id} logged two values of `{metric}` in epoch {epoch + 1}: "
                    f"{known} and {value}"
                )
    failure = None
    if reason := run.tags.get(FAILURE):
        # the epoch that failed is the one that was not logged any more
        failure = Failure(max(epochs, default=-1) + 1, reason, run.tags.get(FAILURE_MESSAGE, ""))
    elif not epochs:
        raise PipelineError(f"run {run.run_id} (`{run.name}`) logged no epoch: there is nothing to compare")
    return Trajectory(epochs, failure)


def _check_agrees_with_itself(found: Record) -> None:
    """Refuse a run whose tags and parameters are not those of its settings: neither could be trusted."""
    tag = found.tracked.tags.get("seed")
    if tag is not None and tag != str(found.seed):
        raise PipelineError(
            f"the tags of run {found.tracked.run_id} give seed {tag}, but its `{CONFIG_ARTIFACT}` gives seed "
            f"{found.seed}"
        )
    logged = config_of(found.tracked)
    for name in sorted(logged.keys() & found.config.keys()):
        if logged[name] != found.config[name]:
            raise PipelineError(
                f"the parameters of run {found.tracked.run_id} give {name} = {logged[name]}, but its "
                f"`{CONFIG_ARTIFACT}` gives {found.config[name]}"
            )

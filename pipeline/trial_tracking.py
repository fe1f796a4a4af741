"""Tune's side of tracking: a child run for each trial, logged on the driver."""

import contextlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.experiment import Trial
from ray.tune.result import AUTO_RESULT_KEYS, DEBUG_METRICS

from pipeline.checkpoints import BEST, HISTORY
from pipeline.errors import USER_ERRORS
from pipeline.storage import Location
from pipeline.tracking import CONFIG_ARTIFACT, MAX_TAG, PARENT_TAG, TRIAL_TAG, Tracker, warn_skipped, written

logger = logging.getLogger("pipeline.tracking")

FAILURE, FAILURE_MESSAGE = "failure", "failure_message"

_STEP_METRIC = "objective"
"""Stands in every result of a trial that has not failed, so its steps are the epochs logged."""
_NO_METRICS = {*AUTO_RESULT_KEYS, *DEBUG_METRICS, "epoch", "done", "should_checkpoint"}

Render = Callable[[Path, Mapping[str, Any]], Mapping[str, str]]
"""Makes a trial's pages from the folder of its checkpoint and its config: file in the run -> text."""


class TrialTracking(tune.Callback):
    """Tune callback on the driver: a child run for each trial, however the trial or the driver ends.

    Runs are found by their tag `tune_trial_id`, and what is logged already by its step, so a search that
    was killed and restored makes no run and no step twice. Where MLflow fails, the search goes on.

    Args:
        tracker: where to log.
        study_run_id: the parent run.
        base: hyper-parameters that the search does not vary; a trial's own are laid over them.
        settings: what else decides a trial, as JSON; stored beside its config.
        tags: of every trial: data_fingerprint, git_commit, seed, metric_mode, corpus.
        num_epochs: epochs of a trial that is not stopped early.
        render: makes the pages. Tune pickles it, so it must be a function of a module.
    """

    def __init__(
        self,
        tracker: Tracker,
        study_run_id: str,
        *,
        base: Mapping[str, Any],
        settings: Mapping[str, Any],
        tags: Mapping[str, str],
        num_epochs: int,
        render: Render | None = None,
    ) -> None:
        self.tracker, self.study_run_id = tracker, study_run_id
        self.base, self.settings, self.tags = dict(base), dict(settings), dict(tags)
        self.num_epochs, self.render = num_epochs, render
        self.runs: dict[str, str] = {}
        """Trial id -> run id."""
        self.last_step: dict[str, int] = {}
        """Trial id -> last epoch that was logged."""
        self.skipped: Counter[str] = Counter()
        self._warned: set[str] = set()

    def resolved(self, trial: Trial) -> dict[str, Any]:
        """Every hyper-parameter of a trial."""
        return self.base | dict(trial.config)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Open the trial's run, again where it was open before."""
        with self._going_on("open a trial's run"):
            self.tracker.reopen(self._run(trial))

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """Log an epoch's numbers; a failed trial's last result holds none."""
        if FAILURE in result:
            return
        with self._going_on("log an epoch"):
            run_id, step = self._run(trial), int(result["epoch"])
            if step <= self.last_step.get(trial.trial_id, -1):
                return
            numbers = {name: value for name, value in result.items() if name not in _NO_METRICS}
            skipped = self.tracker.log_metrics(run_id, numbers, step)
            if skipped.keys() - self.skipped.keys():
                names = ", ".join(sorted(skipped))
                logger.warning("trial %s epoch %d: not a finite number: %s", trial.trial_id, step, names)
            self.skipped += skipped
            self.last_step[trial.trial_id] = step

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """End the run of a trial that reached its last epoch, was stopped early or failed in a named way."""
        last = trial.last_result or {}
        if FAILURE in last:
            tags = {FAILURE: str(last[FAILURE]), FAILURE_MESSAGE: str(last.get(FAILURE_MESSAGE, ""))}
            self._end(trial, "FAILED", tags)
        elif int(last.get("epoch", -1)) + 1 < self.num_epochs:
            self._end(trial, "FINISHED", {"early_stopped": "true"})
        else:
            self._end(trial, "FINISHED", {})

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """End the run of a trial that an exception ended."""
        # the driver's own copy: the one that `Trial.get_error` reads is not in the storage yet
        file = Path(trial.error_file) if trial.error_file else None
        text = file.read_text(encoding="utf-8").strip() if file is not None and file.is_file() else ""
        message = text.splitlines()[-1] if text else "no message"
        self._end(trial, "FAILED", {FAILURE: "error", FAILURE_MESSAGE: message})

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Say how many numbers could not be logged."""
        warn_skipped(self.skipped)

    def get_state(self) -> dict[str, Any]:
        """What Tune stores with its snapshot."""
        return {"runs": dict(self.runs), "skipped": Counter(self.skipped)}

    def set_state(self, state: dict[str, Any]) -> None:
        """Take a stored state over; what was logged since it was stored is looked up in MLflow."""
        self.runs, self.skipped = dict(state["runs"]), Counter(state["skipped"])
        self.last_step = {}

    def _run(self, trial: Trial) -> str:
        """Id of the trial's run: known, found by its tag, or new; sets where its steps go on."""
        trial_id = trial.trial_id
        if trial_id in self.runs and trial_id in self.last_step:
            return self.runs[trial_id]
        siblings = self.tracker.children(self.study_run_id)
        found = [run.run_id for run in siblings if run.tags.get(TRIAL_TAG) == trial_id]
        if found:
            steps = [step for step, _ in self.tracker.history(found[0], _STEP_METRIC)]
            self.runs[trial_id], self.last_step[trial_id] = found[0], max(steps, default=-1)
        else:
            self.runs[trial_id], self.last_step[trial_id] = self._new_run(trial, number=len(siblings)), -1
        return self.runs[trial_id]

    def _new_run(self, trial: Trial, number: int) -> str:
        config = self.resolved(trial)
        tags = {**self.tags, PARENT_TAG: self.study_run_id, TRIAL_TAG: trial.trial_id}
        if "seed" in trial.config:
            tags["seed"] = written(trial.config["seed"])
        experiment_id = self.tracker.run(self.study_run_id).experiment_id
        return self.tracker.start_run(experiment_id, f"trial-{number:02d}", config, tags)

    def _end(self, trial: Trial, status: str, tags: Mapping[str, str]) -> None:
        with self._going_on("end a trial's run"):
            run_id = self._run(trial)
            with self._going_on("store a trial's artifacts"):
                self._log_artifacts(run_id, trial)
            short = {name: value[:MAX_TAG] for name, value in tags.items()}
            self.tracker.finish(run_id, status, tags=short)

    def _log_artifacts(self, run_id: str, trial: Trial) -> None:
        config = self.resolved(trial)
        document = {"config": config, "run": self.settings}
        self.tracker.log_artifact(run_id, json.dumps(document, indent=1, default=str) + "\n", CONFIG_ARTIFACT)
        if trial.checkpoint is None:
            return
        # not Ray's `as_directory`, which fetches the state of training as well
        with Location.of(trial.checkpoint).localised(BEST, HISTORY) as checkpoint:
            if (checkpoint / BEST).is_dir():
                self.tracker.log_artifact(run_id, checkpoint / BEST, BEST)
            for name, text in (self.render(checkpoint, config) if self.render else {}).items():
                self.tracker.log_artifact(run_id, text, name)

    @contextlib.contextmanager
    def _going_on(self, action: str) -> Iterator[None]:
        """Let a failure of the tracking store cost its entry, not the search; say each kind once."""
        try:
            yield
        except (OSError, *USER_ERRORS) as error:
            if action not in self._warned:
                self._warned.add(action)
                logger.warning("could not %s (%s); the search goes on", action, " ".join(str(error).split()))

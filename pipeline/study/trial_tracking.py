"""MLflow's picture of a study: a child run for each trial of the ledger, made to agree with it."""

import contextlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.base.errors import USER_ERRORS
from pipeline.base.storage import Location
from pipeline.study.ledger import Ledger, TrialRecord
from pipeline.tracking import epoch_steps
from pipeline.tracking.epoch_steps import FROM_ONE
from pipeline.tracking.studies import end_children
from pipeline.tracking.tracked_dataset import TrackedDataset
from pipeline.tracking.tracking import (
    CONFIG_ARTIFACT,
    MAX_TAG,
    NOTE_TAG,
    PARENT_TAG,
    TRIAL_TAG,
    Tracker,
    written,
)
from pipeline.training.checkpoints import BEST, HISTORY
from pipeline.training.epochs import FAILURE, FAILURE_MESSAGE, Epoch

logger = logging.getLogger("pipeline.study.trial_tracking")

_STEP_METRIC = "epoch_s"
"""Stands in every epoch and is always finite, so its steps are the epochs that MLflow knows."""
_ENDED = ("FINISHED", "FAILED")

Render = Callable[[Path], Mapping[str, str]]
"""Makes a trial's pages from the folder of its checkpoint: file in the run -> text."""

Describe = Callable[[Epoch], str]
"""Says in Markdown what came of a trial, of its last epoch."""


@dataclass(slots=True)
class _Mirrored:
    """How much of a trial MLflow has."""

    run_id: str
    first_step: int
    """Step of the first epoch."""
    last_epoch: int
    """Counted from 0; -1 where there is none."""
    is_open: bool
    """Whether the run is RUNNING."""
    is_closed: bool
    """Whether all of the trial is there."""
    has_config: bool = False
    """Whether its hyper-parameters are known to be there: a run that a killed process made may lack some."""


class TrialTracking:
    """Writes what the ledger has and MLflow has not; may be called at any time, however often.

    Runs are found by their tag `tune_trial_id` and epochs by their step, so nothing is written twice.

    Args:
        place: folder of the study, below which the checkpoints are.
        base: hyper-parameters that the search does not vary; a trial's own are laid over them.
        settings: what else decides a trial, as JSON; stored beside its config.
        tags: of every trial: data_fingerprint, git_commit, seed, metric_mode, corpus.
        num_epochs: epochs of a trial that is not stopped early.
        dataset: that the trials are trained on; None: not known.
    """

    def __init__(
        self,
        tracker: Tracker,
        study_run_id: str,
        ledger: Ledger,
        place: Location,
        *,
        base: Mapping[str, Any],
        settings: Mapping[str, Any],
        tags: Mapping[str, str],
        num_epochs: int,
        render: Render | None = None,
        dataset: TrackedDataset | None = None,
        describe: Describe | None = None,
    ) -> None:
        self.tracker, self.study_run_id, self.ledger, self.place = tracker, study_run_id, ledger, place
        self.base, self.settings, self.tags = dict(base), dict(settings), dict(tags)
        self.num_epochs, self.render = num_epochs, render
        self.dataset, self.describe = dataset, describe
        self.skipped: Counter[str] = Counter()
        """Numbers that were left out, since they were not finite, and how often."""
        self._known: dict[str, _Mirrored] | None = None
        self._failed: Counter[str] = Counter()

    @property
    def runs(self) -> dict[str, str]:
        """Trial id -> run id of what is mirrored so far."""
        return {trial_id: one.run_id for trial_id, one in (self._known or {}).items()}

    # what is of one kind of study: another kind replaces these

    key_tag = TRIAL_TAG
    """Tag of a trial's run: its id in the ledger."""

    def titled(self, record: TrialRecord) -> tuple[str, dict[str, str]]:
        """Name and tags of a trial's run."""
        tags = {**self.tags, TRIAL_TAG: record.trial_id}
        if "seed" in record.begin.config:
            tags["seed"] = written(record.begin.config["seed"])
        return f"trial-{record.begin.number:02d}", tags

    def described(self, record: TrialRecord) -> dict[str, Any]:
        """What decided a trial, as JSON: its hyper-parameters, `config`, and all else, `run`."""
        return {"config": self.base | record.begin.config, "run": self.settings}

    def dataset_of(self, record: TrialRecord) -> TrackedDataset | None:
        """What a trial is trained on; None: not known."""
        return self.dataset

    def rendered(self, record: TrialRecord, checkpoint: Path) -> Mapping[str, str]:
        """A trial's pages, by file name."""
        return {} if self.render is None else self.render(checkpoint)

    def conclude(self, record: TrialRecord, run_id: str) -> dict[str, str]:
        """Do what is done once a trial has ended, before its run does; returns tags of the run.

        It is done again where the process dies before the run has ended.
        """
        if record.last is None or self.describe is None:
            return {}
        return {NOTE_TAG: self.describe(record.last.epoch)}

    def sync(self, *, is_running: bool) -> None:
        """Make MLflow agree with the ledger.

        Args:
            is_running: whether trials that have not ended are training now; else their runs become KILLED.

        Raises:
            PipelineError: if MLflow refuses something, or is away; what is written by then stays.
        """
        if self._known is None:
            known = self._mirrored()
            self._end_unknown(known)
            self._known = known
        # a trial that MLflow will not take comes after all the others
        for record in sorted(self.ledger.trials(), key=lambda r: (self._failed[r.trial_id], r.begin.number)):
            self._failed[record.trial_id] += 1
            self._mirror(record, self._there(record, self._known), is_running=is_running)
            self._failed[record.trial_id] -= 1

    @contextlib.contextmanager
    def closing(self) -> Iterator[None]:
        """End the trials' runs that are open as KILLED where the body does not come to its end."""
        try:
            yield
        except BaseException:
            # MLflow may be away, which is what the body says
            with contextlib.suppress(OSError, *USER_ERRORS):
                end_children(self.tracker, self.study_run_id)
            raise

    def _mirror(self, record: TrialRecord, there: _Mirrored, *, is_running: bool) -> None:
        if there.is_closed:
            return
        if not there.has_config:
            self._log_config(record, there.run_id)
            there.has_config = True
        for number in sorted(record.epochs):
            if number > there.last_epoch:
                one = record.epochs[number]
                step = number + there.first_step
                skipped = self.tracker.log_metrics(there.run_id, one.epoch.numbers, step, one.time)
                if skipped.keys() - self.skipped.keys():
                    names = ", ".join(sorted(skipped))
                    logger.warning(
                        "trial %s epoch %d: not logged, because the value is not finite: %s",
                        record.trial_id,
                        number + 1,
                        names,
                    )
                self.skipped += skipped
                there.last_epoch = number
        if record.is_over:
            self._close(record, there.run_id)
            there.is_closed = True
        elif is_running != there.is_open:
            if is_running:
                self.tracker.reopen(there.run_id)
            else:
                self.tracker.finish(there.run_id, "KILLED", ended=record.last_heard)
            there.is_open = is_running

    def _mirrored(self) -> dict[str, _Mirrored]:
        """What MLflow has, by the trials' ids."""
        return {
            run.tags[self.key_tag]: _Mirrored(
                run.run_id,
                first_step=epoch_steps.first_step(run),
                last_epoch=max(
                    (epoch for epoch, _ in epoch_steps.history(self.tracker, run, _STEP_METRIC)), default=-1
                ),
                is_open=run.status == "RUNNING",
                is_closed=run.status in _ENDED,
            )
            for run in self.tracker.children(self.study_run_id)
            if self.key_tag in run.tags
        }

    def _end_unknown(self, known: Mapping[str, _Mirrored]) -> None:
        """End runs of trials that the ledger does not know: somebody has taken their files away."""
        for trial_id in sorted(known.keys() - {record.trial_id for record in self.ledger.trials()}):
            logger.warning(
                "MLflow has a run of trial %s, but the trial's ledger file is missing: if the study is "
                "resumed, a new trial replaces it",
                trial_id,
            )
            if known[trial_id].is_open:
                self.tracker.finish(known[trial_id].run_id, "KILLED")

    def _there(self, record: TrialRecord, known: dict[str, _Mirrored]) -> _Mirrored:
        if record.trial_id not in known:
            known[record.trial_id] = _Mirrored(self._new_run(record), 1, -1, is_open=True, is_closed=False)
        return known[record.trial_id]

    def _new_run(self, record: TrialRecord) -> str:
        name, own = self.titled(record)
        tags = {**own, **FROM_ONE, PARENT_TAG: self.study_run_id, self.key_tag: record.trial_id}
        experiment_id = self.tracker.run(self.study_run_id).experiment_id
        return self.tracker.start_run(experiment_id, name, {}, tags, started=record.begin.time)

    def _close(self, record: TrialRecord, run_id: str) -> None:
        """End the run of a trial that reached its last epoch, was stopped early or failed."""
        self._log_artifacts(record, run_id)
        tags = {}
        if record.failure is not None:
            tags = {FAILURE: record.failure.reason, FAILURE_MESSAGE: record.failure.message[:MAX_TAG]}
        elif record.last is not None and record.last.number + 1 < self.num_epochs:
            tags = {"early_stopped": "true"}
        tags |= self.conclude(record, run_id)
        self.tracker.finish(
            run_id, "FAILED" if record.failure else "FINISHED", tags=tags, ended=record.last_heard
        )

    def _log_config(self, record: TrialRecord, run_id: str) -> None:
        """At once, so that a trial that is killed can be trained again as well."""
        document, dataset = self.described(record), self.dataset_of(record)
        self.tracker.complete_params(run_id, document["config"])
        if dataset is not None:
            self.tracker.log_dataset(run_id, dataset)
        self.tracker.log_artifact(run_id, json.dumps(document, indent=1, default=str) + "\n", CONFIG_ARTIFACT)

    def _log_artifacts(self, record: TrialRecord, run_id: str) -> None:
        if record.last is None:
            return
        # not Ray's `as_directory`, which fetches the state of training as well
        with (self.place / record.checkpoints[0]).localised(BEST, HISTORY) as checkpoint:
            if (checkpoint / BEST).is_dir():
                self.tracker.log_artifact(run_id, checkpoint / BEST, BEST)
            for name, text in self._pages(record, checkpoint).items():
                self.tracker.log_artifact(run_id, text, name)

    def _pages(self, record: TrialRecord, checkpoint: Path) -> Mapping[str, str]:
        """A trial's pages; none where they cannot be made, which costs nothing else."""
        if not (checkpoint / BEST).is_dir():
            return {}
        try:
            return self.rendered(record, checkpoint)
        except USER_ERRORS as error:
            logger.warning("could not make the pages of a trial (%s)", error)
            return {}

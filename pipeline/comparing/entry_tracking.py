"""A comparison in MLflow: a child run for each training, whose best epoch is read on test before it ends."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from infocal.errors import StateError
from infocal.metrics.scores import apply_threshold, degenerate_kind
from pipeline.base.stored_files import read_settings, write_json_whole
from pipeline.comparing.comparison_settings import ComparisonSettings, entries
from pipeline.comparing.comparison_table import features_of
from pipeline.comparing.places import OUTCOMES
from pipeline.reporting.standings import Outcome
from pipeline.study import outcome
from pipeline.study.ledger import Ledger, TrialRecord
from pipeline.study.lone_run import tags_of
from pipeline.study.recorder import ERROR
from pipeline.study.study_folder import StudyFolder
from pipeline.study.trial_tracking import TrialTracking
from pipeline.tracking import assessment
from pipeline.tracking.assessment import Subject
from pipeline.tracking.tracked_dataset import TrackedDataset, dataset_of
from pipeline.tracking.tracking import TRIAL_TAG, Tracker
from pipeline.training import checkpoints
from pipeline.training.loaders import embeddings_of
from pipeline.training.settings import RUN, RunSettings
from search_spaces import lookup

_HALF = 0.5


class EntryTracking(TrialTracking):
    """Keeps MLflow up to the ledger of a comparison, and writes each outcome when its training has ended.

    An entry may have several trials, one after the other: another one is begun where an exception ended the
    last one, or where somebody has removed the outcome.

    Args:
        prepared: what to do; its parent run is started.
    """

    key_tag = "ledger_trial"

    def __init__(
        self, prepared: ComparisonSettings, folder: StudyFolder, ledger: Ledger, tracker: Tracker
    ) -> None:
        parent, num_epochs = prepared.run_id, prepared.runs[0].num_epochs
        super().__init__(
            tracker, parent, ledger, folder.place, base={}, settings={}, tags={}, num_epochs=num_epochs
        )
        self.folder, self.is_sample, self.name = folder, prepared.sample, prepared.name
        self._entries = {entry.name: entry for entry in entries(prepared)}

    def outcome(self, entry: RunSettings) -> Outcome | None:
        """What an entry came to; None where it has not."""
        path = self.folder.directory / OUTCOMES / f"{entry.name}.json"
        return read_settings(Outcome, path, "an outcome") if path.is_file() else None

    def trials(self, entry: RunSettings) -> list[TrialRecord]:
        """The trials that trained an entry, in the order in which they were begun."""
        return [record for record in self.ledger.trials() if record.begin.config.get(RUN) == entry.name]

    # ------------------------------------------------------------------------- what MLflow is told of a trial

    def titled(self, record: TrialRecord) -> tuple[str, dict[str, str]]:
        """Name and tags of an entry's run."""
        run = self._entry(record)
        return run.name, {
            **tags_of(run, features_of(run), sample=self.is_sample, comparison=self.name),
            TRIAL_TAG: run.name,
            "git_commit": outcome.git_commit(),
        }

    def described(self, record: TrialRecord) -> dict[str, Any]:
        """The hyper-parameters of an entry, and all else that decided it."""
        run = self._entry(record)
        return {"config": run.config().to_dict(), "run": dataclasses.asdict(run)}

    def dataset_of(self, record: TrialRecord) -> TrackedDataset:
        """What an entry is trained on."""
        run = self._entry(record)
        return dataset_of(features_of(run), run.own_title)

    def rendered(self, record: TrialRecord, checkpoint: Path) -> Mapping[str, str]:
        """An entry's pages."""
        return outcome.render_trial(checkpoint, self._entry(record))

    def conclude(self, record: TrialRecord, run_id: str) -> dict[str, str]:
        """Read an entry on test, write its outcome, and remove its checkpoints."""
        entry = self._entry(record)
        every = self.trials(entry)
        if record.trial_id != every[-1].trial_id or is_broken(record):
            return {}
        if self.outcome(entry) is None:
            name = f"{OUTCOMES}/{entry.name}.json"
            path = self.folder.directory / name
            path.parent.mkdir(exist_ok=True)
            title = lookup.title_with(entry.method, entry.config())
            found = Outcome(method=entry.method, seed=entry.seed, run_id=run_id, title=title)
            if record.failure is None or is_whole(record):
                found = self._read(record, entry, found)
            else:
                failure = record.failure
                found = dataclasses.replace(found, failure=failure.reason, failure_message=failure.message)
            write_json_whole(path, dataclasses.asdict(found))
            self.folder.publish(name)
        for folder in {PurePosixPath(name).parent for one in every for name in one.checkpoints}:
            (self.place / str(folder)).remove()
        return {}

    def _entry(self, record: TrialRecord) -> RunSettings:
        try:
            return self._entries[record.begin.config[RUN]]
        except KeyError as error:
            raise StateError(
                f"expected trials of {', '.join(self._entries)}, but got one of {record.begin.config}",
                where=str(self.ledger.directory),
            ) from error

    def _read(self, record: TrialRecord, entry: RunSettings, found: Outcome) -> Outcome:
        """The outcome with the scores on test of the best epoch."""
        features, config = features_of(entry), entry.config()
        with (self.place / record.checkpoints[0]).localised(checkpoints.BEST) as folder:
            best = folder / checkpoints.BEST
            scores = checkpoints.load_scores(best)
            model = checkpoints.load_best(best, embeddings_of(features))
        subject = Subject(
            label=entry.name,
            model=model,
            features=features,
            calibrated_threshold=scores.scores.get("val_calibrated_threshold"),
            run_id=found.run_id,
            metadata={},
        )
        reading = assessment.read_test(self.tracker, subject)
        probabilities = [prediction.select_probability for prediction in reading.predictions]
        on_test = degenerate_kind(apply_threshold(probabilities, _HALF))
        plain = {n.removeprefix("test_"): v for n, v in reading.scores.items() if n.startswith("test_")}
        return dataclasses.replace(
            found,
            epoch=scores.epoch,
            scores=plain,
            validation=dict(scores.scores),
            degenerate=None if config.is_dense else scores.degenerate or on_test,
            is_dense=config.is_dense,
            is_finished=config.is_dense or scores.epoch >= config.start_epochs,
            texts={} if reading.counts is None else reading.counts.as_lists(),
        )


def is_broken(record: TrialRecord) -> bool:
    """Whether an exception without a name ended a trial before its last epoch: it is trained again."""
    return record.failure is not None and record.failure.reason == ERROR and not is_whole(record)


def is_whole(record: TrialRecord) -> bool:
    """Whether a trial has its last epoch, whatever happened then."""
    return record.last is not None and record.last.is_last

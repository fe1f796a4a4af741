"""A comparison under way: every method with every seed, trained in parallel and read on test once each.

Ray workers train and know nothing of MLflow; the driver logs, reads the test split and writes each outcome,
whole, into the comparison's folder when it is there. What lies there is not trained again.
"""

import dataclasses
import logging
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ray
import torch

from feature_store import terminal
from feature_store.store import Features
from infocal.metrics.scores import apply_threshold, degenerate_kind
from pipeline.base.stored_files import read_settings
from pipeline.comparing.comparison_board import ComparisonBoard
from pipeline.comparing.comparison_settings import ComparisonSettings, Entry, entries
from pipeline.comparing.comparison_table import (
    TABLE,
    features_in,
    masks_of_others,
    metrics,
    published_masks,
)
from pipeline.comparing.entry_worker import LAST, train_entry
from pipeline.reporting import pages, typeset
from pipeline.reporting.standings import Outcome, Standings, standings, trivial_rows
from pipeline.study import cluster, outcome
from pipeline.study.criterion import CRITERION_TAG
from pipeline.study.progress import epoch_line
from pipeline.tracking import assessment, epoch_steps, model_registry
from pipeline.tracking.assessment import Subject
from pipeline.tracking.studies import end_children, reconcile
from pipeline.tracking.tracked_dataset import dataset_of
from pipeline.tracking.tracking import CONFIG_ARTIFACT, MAX_TAG, NAME_TAG, PARENT_TAG, TRIAL_TAG, Tracker
from pipeline.training import checkpoints, data_options
from pipeline.training.epochs import FAILURE, FAILURE_MESSAGE
from pipeline.training.loaders import embeddings_of
from pipeline.training.naming import title
from pipeline.training.scoring import trivial_test

logger = logging.getLogger("pipeline.comparing.comparison")

OUTCOMES, _WORKING = "outcomes", "working"
"""In a comparison's folder: what came of the entries, and where they are trained."""
_POLL_S = 2.0
_HALF = 0.5


@dataclass(slots=True)
class Comparison:
    """Trains what is missing and keeps the books.

    Args:
        prepared: what to do; its parent run is started.
        directory: the comparison's folder.
        tracker: where to log.
    """

    prepared: ComparisonSettings
    directory: Path
    tracker: Tracker
    broken: dict[str, str] = field(default_factory=dict)
    """Entries that an exception ended, with its last line; they are trained again on resuming."""
    _epochs_seen: int = 0

    def outcome(self, entry: Entry) -> Outcome | None:
        """What an entry came to; None where it has not."""
        path = self.directory / OUTCOMES / f"{entry.name}.json"
        if not path.is_file():
            return None
        return read_settings(Outcome, path, "an outcome")

    def run(self) -> None:
        """Train every entry without an outcome, several at once."""
        missing = [entry for entry in entries(self.prepared) if self.outcome(entry) is None]
        num_all = len(self.prepared.runs) * len(self.prepared.seeds)
        if len(missing) < num_all:
            logger.info("%d of %d are done already", num_all - len(missing), num_all)
        if not missing:
            return
        prepared = self.prepared
        # the workers are this machine's: they share the folder of features and the comparison's
        with cluster.session(cluster.LOCAL):
            cluster.check_resources(cluster.LOCAL, prepared.cpus_per_run, prepared.gpus_per_run, what="run")
            task = ray.remote(num_cpus=prepared.cpus_per_run, num_gpus=prepared.gpus_per_run, max_retries=0)(
                train_entry
            )
            running = {task.remote(entry.run, str(self._folder(entry))): entry for entry in missing}
            run, slots = prepared.runs[0], cluster.num_slots(prepared.cpus_per_run, prepared.gpus_per_run)
            names = [entry.name for entry in missing]
            board = ComparisonBoard(run.dataset, names, run.num_epochs, slots)
            with terminal.showing(board), terminal.step(f"training on {title(run.dataset, run.aspect)}"):
                self._follow(running, board)

    def _follow(self, running: dict[Any, Entry], board: ComparisonBoard) -> None:
        while running:
            ended, _ = ray.wait(list(running), timeout=_POLL_S)
            for entry in running.values():
                self._log_epochs(entry, board)
            for reference in ended:
                entry = running.pop(reference)
                try:
                    failure = ray.get(reference)
                except ray.exceptions.RayError as error:
                    self._break(entry, error)
                    board.end(entry.name, "broke")
                    continue
                self._log_epochs(entry, board)
                self._conclude(entry, failure)
                board.end(entry.name, "failed" if failure else "done")

    def _folder(self, entry: Entry) -> Path:
        """The folder of an entry, with nothing in it but the checkpoint that an interrupted training left."""
        folder = (self.directory / _WORKING / entry.name).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.iterdir():
            if path.is_dir() and path.name != LAST:
                shutil.rmtree(path)
            elif not path.is_dir():
                path.unlink()
        return folder

    def _log_epochs(self, entry: Entry, board: ComparisonBoard) -> None:
        """Log and say the epochs that a worker has written since the last time."""
        folder = self.directory / _WORKING / entry.name
        if not (folder / checkpoints.HISTORY).is_file():
            return
        self._start_run(entry)
        new = checkpoints.load_history(folder)[entry.num_epochs :]
        board.epochs(entry.name, new)
        for epoch in new:
            entry.num_epochs += 1
            self._epochs_seen += 1
            epoch_steps.log(self.tracker, entry.run_id, epoch)
            if terminal.is_open():
                continue
            logger.info("%s", epoch_line(epoch, entry.run.num_epochs, entry.name))
            if self._epochs_seen % 10 == 0:
                logger.info("comparison: %s", board.summary())

    def _start_run(self, entry: Entry) -> None:
        if entry.run_id:
            return
        run, features = entry.run, self._features(entry)
        tags = {
            **epoch_steps.FROM_ONE,
            PARENT_TAG: self.prepared.run_id,
            TRIAL_TAG: entry.name,
            "method": run.method,
            "seed": str(run.seed),
            "data_fingerprint": features.fingerprint,
            "git_commit": outcome.git_commit(),
            "criterion": str(run.criterion),
            CRITERION_TAG: run.criterion.to_json(),
            **data_options.tags(run.dataset, run.options),
            **model_registry.corpus_tag(self.prepared.sample),
        }
        experiment = self.tracker.experiment(run.dataset, run.aspect)
        entry.run_id = self.tracker.start_run(experiment, entry.name, run.config().to_dict(), tags)
        self.tracker.log_dataset(entry.run_id, dataset_of(features))

    def _features(self, entry: Entry) -> Features:
        return features_in(entry.run.features_dir)

    def _break(self, entry: Entry, error: Exception) -> None:
        """Keep what ended a worker; the others go on."""
        self._start_run(entry)
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
        self.broken[entry.name] = reason
        logger.warning("%s broke: %s", entry.name, reason)
        tags = {"failure": "error", "failure_message": reason[:MAX_TAG]}
        self.tracker.finish(entry.run_id, "FAILED", tags=tags)

    def _conclude(self, entry: Entry, failure: Mapping[str, str]) -> None:
        """Read an entry on test, end its run and write its outcome."""
        self._start_run(entry)
        folder = self.directory / _WORKING / entry.name
        if failure:
            found = Outcome(
                method=entry.run.method,
                seed=entry.run.seed,
                run_id=entry.run_id,
                failure=failure[FAILURE],
                failure_message=failure[FAILURE_MESSAGE],
            )
            logger.warning("%s failed: %s", entry.name, found.failure_message)
            tags = {name: str(value)[:MAX_TAG] for name, value in failure.items()}
            self.tracker.finish(entry.run_id, "FAILED", tags=tags, artifacts=self._artifacts(entry, folder))
        else:
            found = self._read(entry, folder / checkpoints.BEST)
            self.tracker.finish(entry.run_id, artifacts=self._artifacts(entry, folder))
        target = self.directory / OUTCOMES
        target.mkdir(exist_ok=True)
        checkpoints.write_json_whole(target / f"{entry.name}.json", dataclasses.asdict(found))
        shutil.rmtree(folder)

    def _artifacts(self, entry: Entry, folder: Path) -> dict[str, str | Path]:
        config = folder / CONFIG_ARTIFACT
        run = entry.run
        document = {"config": run.config().to_dict(), "run": dataclasses.asdict(run)}
        checkpoints.write_json(config, document)
        found: dict[str, str | Path] = {CONFIG_ARTIFACT: config}
        if (folder / checkpoints.BEST).is_dir():
            found[checkpoints.BEST] = folder / checkpoints.BEST
            found |= outcome.render_trial(folder, document["config"], run)
        return found

    def _read(self, entry: Entry, best: Path) -> Outcome:
        features, scores = self._features(entry), checkpoints.load_scores(best)
        config = entry.run.config()
        subject = Subject(
            label=entry.name,
            model=checkpoints.load_best(best, embeddings_of(features)),
            features=features,
            calibrated_threshold=scores.scores.get("val_calibrated_threshold"),
            run_id=entry.run_id,
            metadata={},
        )
        reading = assessment.read_test(self.tracker, subject)
        probabilities = [prediction.select_probability for prediction in reading.predictions]
        on_test = degenerate_kind(apply_threshold(probabilities, _HALF))
        plain = {n.removeprefix("test_"): v for n, v in reading.scores.items() if n.startswith("test_")}
        return Outcome(
            method=entry.run.method,
            seed=entry.run.seed,
            run_id=entry.run_id,
            epoch=scores.epoch,
            scores=plain,
            validation=dict(scores.scores),
            degenerate=None if config.is_dense else scores.degenerate or on_test,
            is_dense=config.is_dense,
            is_finished=config.is_dense or scores.epoch >= config.start_epochs,
            texts={} if reading.counts is None else reading.counts.as_lists(),
        )

    def table(self) -> Standings:
        """The standings of what is done so far."""
        run, features = self.prepared.runs[0], features_in(self.prepared.runs[0].features_dir)
        every = [self.outcome(entry) for entry in entries(self.prepared)]
        order = [run.method for run in self.prepared.runs]
        found = sorted((o for o in every if o is not None), key=lambda o: (order.index(o.method), o.seed))
        lines = trivial_test(features, self.prepared.target_rate)
        beside, notes = list(published_masks(self.prepared, features)), list(features.notes)
        notes += [f"{name} broke and is not in the table: {reason}" for name, reason in self.broken.items()]
        published = masks_of_others(self.prepared)
        if published is not None and not beside:
            notes.append(
                f"the masks of {published.title} are left out: no test text of {published.file} is here"
            )
        return standings(
            run.dataset,
            run.aspect,
            found,
            target_rate=self.prepared.target_rate,
            options=run.options,
            beside=[*beside, *trivial_rows(lines)],
            notes=notes,
        )

    def write(self, table: Standings) -> dict[str, Path]:
        """Write the table in every format; returns the files by their names."""
        prepared = self.prepared
        texts = {
            f"{TABLE}.md": typeset.markdown(table) + "\n",
            f"{TABLE}.tex": typeset.latex(table),
            f"{TABLE}.html": pages.comparison_page(
                table, command=prepared.command, is_sample=prepared.sample
            ),
        }
        files = {name: self.directory / name for name in texts}
        for name, text in texts.items():
            files[name].write_text(text, encoding="utf-8")
        files[f"{TABLE}.json"] = self.directory / f"{TABLE}.json"
        checkpoints.write_json(files[f"{TABLE}.json"], table.as_json())
        return files


def conduct(
    prepared: ComparisonSettings, directory: Path, uri: str, width: int | None = None
) -> tuple[str, Mapping[str, str]]:
    """Run or resume a comparison to its end.

    Args:
        prepared: what to do, the features built.
        directory: its folder.
        uri: MLflow's.
        width: characters of a line of the table that is returned; None: as many as are needed.

    Returns:
        The table as Markdown, and what broke, by entry.
    """
    torch.set_num_threads(prepared.runs[0].num_threads)
    for run in prepared.runs:
        with terminal.step("training the language model, or finding its scores"):
            outcome.prepare_language_model(run, features_in(run.features_dir))
    tracker = Tracker(uri)
    prepared = _with_parent(prepared, tracker)
    prepared.save(directory)
    comparison = Comparison(prepared, directory, tracker)
    known = [entry for entry in entries(prepared) if comparison.outcome(entry) is not None]
    # runs of a process that died: their entries go on from their last epoch, in runs of their own
    reconcile(tracker, prepared.run_id, {entry.name for entry in known})
    status = "FAILED"
    try:
        comparison.run()
        table = comparison.table()
        files: dict[str, str | Path] = dict(comparison.write(table))
        for name, path in files.items():
            tracker.log_artifact(prepared.run_id, path, name)
        tracker.log_metrics(prepared.run_id, metrics(table), step=0)
        status = "FAILED" if comparison.broken else "FINISHED"
    except (KeyboardInterrupt, SystemExit):
        status = "KILLED"
        end_children(tracker, prepared.run_id)
        raise
    finally:
        tracker.finish(prepared.run_id, status)
    return typeset.markdown(table, width), comparison.broken


def _with_parent(prepared: ComparisonSettings, tracker: Tracker) -> ComparisonSettings:
    """The settings with the parent run, which is started or opened again."""
    if prepared.run_id:
        tracker.run(prepared.run_id)
        tracker.reopen(prepared.run_id)
        return prepared
    run = prepared.runs[0]
    parameters = {
        "methods": ",".join(one.method for one in prepared.runs),
        "seeds": ",".join(map(str, prepared.seeds)),
        "target_selection_rate": prepared.target_rate,
        "num_epochs": run.num_epochs,
        "command": prepared.command,
    }
    # no study's tag: `pipeline.report` would take it for the latest one
    tags = {"comparison": prepared.name, NAME_TAG: prepared.name}
    tags |= data_options.tags(run.dataset, run.options)
    experiment = tracker.experiment(run.dataset, run.aspect)
    return dataclasses.replace(
        prepared, run_id=tracker.start_run(experiment, prepared.name, parameters, tags)
    )

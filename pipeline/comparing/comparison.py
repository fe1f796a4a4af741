"""A comparison under way: every method with every seed, trained in parallel and read on test once each.

It is a study whose trials are listed: the engine trains them and writes the ledger. A thread of the driver
writes MLflow from there, reads the test split and writes each outcome, whole, into the comparison's folder.
What lies there is not trained again.
"""

import dataclasses
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from feature_store import terminal
from pipeline.base.locations import make_folder
from pipeline.base.stored_files import write_json
from pipeline.comparing.comparison_board import ComparisonBoard
from pipeline.comparing.comparison_settings import ComparisonSettings, entries
from pipeline.comparing.comparison_table import (
    TABLE,
    features_of,
    masks_of_others,
    metrics,
    published_masks,
    remarks,
)
from pipeline.comparing.entry_tracking import EntryTracking, is_broken
from pipeline.comparing.places import SETTINGS
from pipeline.reporting import pages, typeset
from pipeline.reporting.standings import Standings, standings, trivial_rows
from pipeline.study import cluster, gpus, outcome
from pipeline.study.engine import Engine
from pipeline.study.ledger import Ledger
from pipeline.study.mirror import Mirror
from pipeline.study.progress import Plan
from pipeline.study.scheduler import Listed, resumed
from pipeline.study.study_folder import TUNE, StudyFolder
from pipeline.tracking import descriptions
from pipeline.tracking.studies import end_children
from pipeline.tracking.tracking import COMPARISON_TAG, NAME_TAG, NOTE_TAG, Tracker
from pipeline.training import data_options, feature_copies, midway
from pipeline.training.scoring import trivial_test
from pipeline.training.settings import RUN, RunSettings
from pipeline.training.trainable import RESUMED

logger = logging.getLogger("pipeline.comparing.comparison")

_OLD_WORKING = "working"
"""In the folder of a comparison that an older version began: what it was training."""


class Comparison:
    """Trains what is missing and keeps the books.

    Args:
        prepared: what to do; its parent run is started.
    """

    def __init__(self, prepared: ComparisonSettings, folder: StudyFolder, tracker: Tracker) -> None:
        self.prepared, self.folder = prepared, folder
        self.ledger = Ledger(folder.directory, folder.publish)
        self.tracking = EntryTracking(prepared, folder, self.ledger, tracker)

    @property
    def broken(self) -> dict[str, str]:
        """Entries without an outcome, with what ended them; they are trained again on resuming."""
        missing = {entry.name: self.tracking.trials(entry) for entry in self._missing()}
        ended = {name: trials[-1].failure if trials else None for name, trials in missing.items()}
        return {name: end.message if end else "the training did not finish" for name, end in ended.items()}

    def run(self, address: str | None, command: str) -> None:
        """Train every entry without an outcome, several at once.

        Args:
            address: Ray cluster; None: RAY_ADDRESS, else a private local one.
            command: that resumes the comparison.
        """
        mirror = Mirror(self.tracking, command)
        if self.ledger.trials():
            with terminal.step("writing to MLflow the results that it lacks"):
                mirror.drain(is_running=True)
        missing, num_all = self._missing(), len(entries(self.prepared))
        if len(missing) < num_all:
            logger.info("%d of %d trainings are already done", num_all - len(missing), num_all)
        if not missing:
            return
        run = self.prepared.runs[0]
        with cluster.session(address):
            engine = self._engine(address, mirror)
            slots = cluster.num_slots(engine.cpus_per_trial, engine.gpus_per_trial)
            configs = [self._config(entry) for entry in missing]
            plan = Plan(
                dataset=run.dataset,
                criterion=run.criterion,
                num_trials=len(missing),
                num_epochs=run.num_epochs,
                slots=slots,
            )
            board = ComparisonBoard(self.ledger, plan, [entry.name for entry in missing])
            with (
                mirror.running(),
                terminal.showing(board),
                terminal.step(f"training on {data_options.target_of_run(run)}"),
            ):
                engine.train(TUNE, Listed(configs), len(configs), [board])
        self.ledger.flush()
        with terminal.step("writing to MLflow the results that it lacks"):
            mirror.drain()

    def _missing(self) -> list[RunSettings]:
        return [entry for entry in entries(self.prepared) if self.tracking.outcome(entry) is None]

    def _engine(self, address: str | None, mirror: Mirror) -> Engine:
        """What trains, with the GPUs that the connected Ray has."""
        prepared, flag = self.prepared, "--gpus-per-run"
        runs, num_gpus = {entry.name: entry for entry in entries(prepared)}, prepared.gpus_per_run
        if prepared.chooses_gpus:
            num_gpus = float(gpus.are_usable(prepared.runs[0].device))
            device = prepared.runs[0].device if num_gpus else "cpu"
            runs = {name: dataclasses.replace(run, device=device) for name, run in runs.items()}
        elif num_gpus:
            gpus.check_usable(prepared.runs[0].device, num_gpus, flag=flag)
        cluster.check_resources(address, prepared.cpus_per_run, num_gpus, what="run")
        return Engine(
            folder=self.folder,
            ledger=self.ledger,
            runs=runs,
            cpus_per_trial=prepared.cpus_per_run,
            gpus_per_trial=num_gpus,
            notify=mirror.notify,
        )

    def _config(self, entry: RunSettings) -> dict[str, Any]:
        """With which Tune trains an entry: from its start, or from where it was interrupted or broke."""
        config, earlier = {RUN: entry.name}, self.tracking.trials(entry)
        if earlier and not earlier[-1].is_over:
            return resumed(config, earlier[-1])
        trial_id, names = f"{entry.name}-{len(earlier) + 1}" if earlier else entry.name, list[str]()
        if earlier and is_broken(earlier[-1]):
            names = earlier[-1].checkpoints
            self.ledger.begin(trial_id, config, None)
            for _, one in sorted(earlier[-1].epochs.items()):
                self.ledger.epoch(trial_id, one.epoch, one.checkpoint, is_last=False)
        return {**config, RESUMED: {"trial_id": trial_id, "checkpoints": names}}

    def table(self) -> Standings:
        """The standings of what is done so far."""
        run, features = self.prepared.runs[0], features_of(self.prepared.runs[0])
        every = [self.tracking.outcome(entry) for entry in entries(self.prepared)]
        order = [run.method for run in self.prepared.runs]
        found = sorted((o for o in every if o is not None), key=lambda o: (order.index(o.method), o.seed))
        lines = trivial_test(features, self.prepared.target_rate)
        beside, notes = list(published_masks(self.prepared, features)), list(features.notes)
        notes += [
            f"training {name} failed and is not in the table: {reason}"
            for name, reason in self.broken.items()
        ]
        notes += remarks(self.prepared)
        published = masks_of_others(self.prepared)
        if published is not None and not beside:
            notes.append(
                f"the masks of {published.title} are left out: none of the texts in {published.file} is in "
                "this test split"
            )
        return standings(
            run.dataset,
            run.aspect,
            found,
            target_rate=self.prepared.target_rate,
            options=run.options,
            beside=[*beside, *trivial_rows(lines)],
            notes=notes,
            chosen_by=run.criterion.metric,
            own_title=run.own_title,
        )

    def write(self, table: Standings) -> dict[str, Path]:
        """Write the table in every format; returns the files by their names."""
        prepared = self.prepared
        texts = {
            f"{TABLE}.md": typeset.markdown(table, is_sample=prepared.sample) + "\n",
            f"{TABLE}.tex": typeset.latex(table, is_sample=prepared.sample),
            f"{TABLE}.html": pages.comparison_page(
                table, command=prepared.command, is_sample=prepared.sample
            ),
        }
        files = {name: self.folder.directory / name for name in (*texts, f"{TABLE}.json")}
        for name, text in texts.items():
            files[name].write_text(text, encoding="utf-8")
        write_json(files[f"{TABLE}.json"], table.as_json())
        self.folder.publish(*files)
        return files

    def sweep(self) -> None:
        """Remove what nobody needs where every entry has its outcome."""
        place = self.folder.place
        midway.clear(place)
        for name in place.names():
            if name.partition("-")[0] == TUNE:
                (place / name).remove()


def conduct(
    prepared: ComparisonSettings,
    folder: StudyFolder,
    uri: str,
    address: str | None,
    command: str,
    width: int | None = None,
) -> tuple[str, Mapping[str, str]]:
    """Run or resume a comparison to its end.

    Args:
        prepared: what to do, the features built.
        address: Ray cluster; None: RAY_ADDRESS, else a private local one.
        command: that resumes it.
        width: characters of a line of the table that is returned; None: as many as are needed.

    Returns:
        The table as Markdown, and what broke, by entry.
    """
    torch.set_num_threads(prepared.runs[0].num_threads)
    prepared = _with_derived(prepared, folder, address)
    tracker = Tracker(uri)
    prepared = _with_parent(prepared, tracker)
    make_folder(folder.directory, "--storage")
    prepared.save(folder.directory)
    folder.publish(SETTINGS)
    if (old := folder.directory / _OLD_WORKING).is_dir():
        logger.warning(
            "an older version of this project started some trainings: those that did not finish are "
            "trained from the beginning"
        )
        shutil.rmtree(old)
    comparison = Comparison(prepared, folder, tracker)
    with _ending(tracker, prepared.run_id, comparison):
        comparison.run(address, command)
        table = comparison.table()
        files: dict[str, str | Path] = dict(comparison.write(table))
        for name, path in files.items():
            tracker.log_artifact(prepared.run_id, path, name)
        tracker.log_metrics(prepared.run_id, metrics(table), step=0)
        if not comparison.broken:
            comparison.sweep()
    return typeset.markdown(table, width, is_sample=prepared.sample), comparison.broken


@contextmanager
def _ending(tracker: Tracker, run_id: str, comparison: Comparison) -> Iterator[None]:
    """End the parent run, and those of the entries that are open, however the body ends."""
    status = "FAILED"
    try:
        # runs of a process that died; the trials of the ledger are opened again
        end_children(tracker, run_id)
        with comparison.tracking.closing():
            yield
        status = "FAILED" if comparison.broken else "FINISHED"
    except (KeyboardInterrupt, SystemExit):
        status = "KILLED"
        raise
    finally:
        tracker.finish(run_id, status)


def _with_derived(
    prepared: ComparisonSettings, folder: StudyFolder, address: str | None
) -> ComparisonSettings:
    """The settings once what methods read beside the features is there; behind a URI, sent with them."""
    derived: dict[str, list[Path]] = {}
    with terminal.step(outcome.DERIVING):
        for run in prepared.runs:
            known = derived.setdefault(run.features_dir, [])
            found = outcome.prepare_derived(cluster.here(run, address), features_of(run))
            known += [one for one in found if one not in known]
    if folder.remote is None or prepared.runs[0].features_uri:
        return prepared
    home = folder.storage.opened()
    runs = [
        dataclasses.replace(
            run,
            features_uri=feature_copies.send(features_of(run), derived[run.features_dir], home).portable,
        )
        for run in prepared.runs
    ]
    return dataclasses.replace(prepared, runs=runs)


def _with_parent(prepared: ComparisonSettings, tracker: Tracker) -> ComparisonSettings:
    """The settings with the parent run, which is started or opened again."""
    if prepared.run_id:
        tracker.run(prepared.run_id)
        tracker.reopen(prepared.run_id)
        return prepared
    run, methods = prepared.runs[0], [one.method for one in prepared.runs]
    parameters = {
        "methods": ",".join(methods),
        "seeds": ",".join(map(str, prepared.seeds)),
        "target_selection_rate": prepared.target_rate,
        "num_epochs": run.num_epochs,
        "command": prepared.command,
    }
    # no study's tag: `pipeline.report` would take it for the latest one
    tags = {COMPARISON_TAG: prepared.name, NAME_TAG: prepared.name}
    target = data_options.target_of_run(run)
    tags[NOTE_TAG] = descriptions.of_comparison(target, methods, prepared.seeds, run.num_epochs)
    tags |= data_options.tags(run.dataset, run.options)
    experiment = tracker.experiment(run.dataset, run.aspect)
    return dataclasses.replace(
        prepared, run_id=tracker.start_run(experiment, prepared.name, parameters, tags)
    )

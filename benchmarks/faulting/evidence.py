"""What a study left behind, counted against what it should have: MLflow's database, Optuna's, checkpoints.

MLflow's tables are read as they are: a row that is there twice does not show through its client.
"""

import contextlib
import math
import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna

from benchmarks.faulting.frame import Counts
from benchmarks.faulting.reference import TIMES, Reference, state_differs
from pipeline.base.storage import STAGED
from pipeline.study.ledger import Ledger
from pipeline.study.study_folder import OPTUNA_DB, STUDIES
from pipeline.study.study_settings import StudySettings
from pipeline.tracking.epoch_steps import first_step
from pipeline.tracking.sections import flat, flat_value
from pipeline.tracking.studies import config_of
from pipeline.tracking.tracking import PARENT_TAG, STUDY_TAG, TRIAL_TAG, TrackedRun, Tracker
from pipeline.training import checkpoints
from pipeline.training.epochs import EPOCHS

_ENDED = ("FINISHED", "FAILED")
_ARTIFACTS = frozenset({"config.json", "best", "rationales.html", "curve.html"})
"""Of a trial that has finished."""
_NO_METRICS = ("epoch", EPOCHS)
"""Numbers of a result that say which epoch it is of."""
_PENDING_MODEL, _READY_MODEL = 1, 2
"""MLflow's status of a logged model whose files are not all there, and of one whose are."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What a study should have come to."""

    trials: int
    epochs: int
    statuses: tuple[str, ...] = ("FINISHED",)
    """How its trials may have ended."""
    versions: int = 1
    """Versions of its winner that are registered."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a study is."""

    runs: Path
    """Its storage."""
    name: str
    database: Path | None = None
    """MLflow's; None: the storage's own."""
    uri: str | None = None
    """Of the server that keeps it; None: there is none."""

    @property
    def folder(self) -> Path:
        return self.runs / STUDIES / self.name

    @property
    def tracked(self) -> Path:
        return self.database or self.runs / "mlflow.db"


@contextlib.contextmanager
def _rows(database: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=60)
    try:
        yield connection
    finally:
        connection.close()


def count_study(counts: Counts, place: Place, expected: Expected, reference: Reference | None = None) -> None:
    """Count everything that can be wrong with a study that has ended.

    Args:
        counts: where it is counted.
        place: the study.
        expected: what there should be.
        reference: trains the trials again without a break, to compare numbers and state; None: do not.
    """
    tracker = Tracker(place.uri or f"sqlite:///{place.tracked}", create=False)
    parents = _parents(tracker, place)
    counts.add("trials_lost", int(not parents), f"no run of study {place.name}")
    counts.add("duplicates", len(parents) - 1, f"{len(parents)} runs of study {place.name}")
    if not parents:
        return
    children = [child for parent in parents for child in tracker.children(parent.run_id)]
    half = [path.name for path in place.folder.iterdir() if path.name.startswith(STAGED)]
    counts.add("zombies", len(half), f"half written: {half}")
    _count_runs(counts, parents, children, expected)
    _count_rows(counts, place.tracked, [*parents, *children])
    _count_optuna(counts, place, expected, children)
    _count_versions(counts, place.tracked, children, expected)
    _count_epochs(counts, tracker, place, children, expected, reference)


def _parents(tracker: Tracker, place: Place) -> list[TrackedRun]:
    with _rows(place.tracked) as connection:
        found = connection.execute(
            "SELECT r.run_uuid FROM runs r JOIN tags t USING (run_uuid) "
            "WHERE t.key = ? AND t.value = ? AND r.lifecycle_stage = 'active'",
            (STUDY_TAG, place.name),
        ).fetchall()
    runs = [tracker.run(run_id) for (run_id,) in found]
    return [run for run in runs if PARENT_TAG not in run.tags]


def _count_runs(
    counts: Counts, parents: list[TrackedRun], children: list[TrackedRun], expected: Expected
) -> None:
    trials = Counter(child.tags.get(TRIAL_TAG, "no tag") for child in children)
    ended = {child.tags.get(TRIAL_TAG) for child in children if child.status in expected.statuses}
    counts.add("trials_lost", expected.trials - len(ended), f"{len(ended)} of {expected.trials} trials")
    counts.add("duplicates", len(trials) - expected.trials, f"{len(trials)} trials for {expected.trials}")
    twice = {trial: count for trial, count in trials.items() if count > 1}
    counts.add("duplicates", sum(twice.values()) - len(twice), f"several runs of a trial: {twice}")
    running = [run.name for run in (*parents, *children) if run.status not in (*_ENDED, "KILLED")]
    counts.add("zombies", len(running), f"runs that are not ended: {running}")
    killed = [run.name for run in (*parents, *children) if run.status == "KILLED"]
    counts.add("trials_lost", len(killed), f"runs that are KILLED: {killed}")
    failed = [run.name for run in parents if run.status == "FAILED" and expected.versions]
    counts.add("trials_lost", len(failed), f"studies with a winner that are FAILED: {failed}")


def _count_rows(counts: Counts, database: Path, runs: list[TrackedRun]) -> None:
    names = {run.run_id: run.name for run in runs}
    marks = ", ".join("?" * len(names))
    with _rows(database) as connection:
        found = connection.execute(
            f"SELECT run_uuid, key, step, COUNT(*) FROM metrics WHERE run_uuid IN ({marks}) "
            "GROUP BY run_uuid, key, step HAVING COUNT(*) > 1",
            list(names),
        ).fetchall()
    shown = sorted({(names[run_id], step) for run_id, _, step, _ in found})[:5]
    counts.add("duplicates", sum(row[3] - 1 for row in found), f"metrics twice in (run, step) {shown}")


def _count_optuna(counts: Counts, place: Place, expected: Expected, children: list[TrackedRun]) -> None:
    path = place.folder / OPTUNA_DB
    if not path.is_file():
        counts.add("trials_lost", expected.trials, f"no {OPTUNA_DB}")
        return
    study = optuna.load_study(study_name=place.name, storage=f"sqlite:///{path}")
    states = Counter(trial.state.name for trial in study.trials)
    ended = states["COMPLETE"] + states["FAIL"] + states["PRUNED"]
    counts.add("trials_lost", expected.trials - ended, f"Optuna knows {dict(states)}")
    counts.add("duplicates", states.total() - expected.trials, f"Optuna knows {dict(states)}")
    failed = sum(child.status == "FAILED" for child in children)
    counts.add(
        "trials_lost", abs(states["FAIL"] - failed), f"Optuna knows {dict(states)}, MLflow {failed} FAILED"
    )
    counts.add("zombies", states["RUNNING"] + states["WAITING"], f"Optuna knows {dict(states)}")


def _count_versions(counts: Counts, database: Path, children: list[TrackedRun], expected: Expected) -> None:
    marks, ids = ", ".join("?" * len(children)), [child.run_id for child in children]
    with _rows(database) as connection:
        versions = connection.execute(
            f"SELECT name, version FROM model_versions WHERE run_id IN ({marks}) "
            "AND current_stage != 'Deleted_Internal'",
            ids,
        ).fetchall()
        models = connection.execute(
            f"SELECT status FROM logged_models WHERE source_run_id IN ({marks}) "
            "AND lifecycle_stage = 'active'",
            ids,
        ).fetchall()
    counts.add("trials_lost", expected.versions - len(versions), "the winner is not registered")
    counts.add("duplicates", len(versions) - expected.versions, f"registered {versions}")
    statuses = Counter(status for (status,) in models)
    counts.add("zombies", statuses[_PENDING_MODEL], "logged models that are half written")
    more = statuses[_READY_MODEL] - max(expected.versions, len(versions))
    counts.add("duplicates", more, "logged models besides those that are registered")
    with _rows(database) as connection:
        newest = connection.execute("SELECT MAX(version) FROM registered_model_aliases").fetchone()[0]
    behind = [version for _, version in versions if newest is None or int(newest) < version]
    counts.add("trials_lost", len(behind), f"versions {behind} without the alias, which {newest} has")


def _count_epochs(
    counts: Counts,
    tracker: Tracker,
    place: Place,
    children: list[TrackedRun],
    expected: Expected,
    reference: Reference | None,
) -> None:
    run = StudySettings.load(place.folder, place.name).run
    for child in children:
        if child.status != "FINISHED":
            continue
        wanted = range(expected.epochs)
        logged = _logged(place.tracked, child.run_id, first_step(child))
        steps = {step for (_, step) in logged}
        counts.add("metrics_lost", len(set(wanted) - steps), f"{child.name}: epochs {sorted(steps)}")
        counts.add("duplicates", len(steps - set(wanted)), f"{child.name}: epochs {sorted(steps)}")
        artifacts = tracker.artifact_paths(child.run_id)
        missing = sorted(_ARTIFACTS - artifacts)
        counts.add("metrics_lost", len(missing), f"{child.name}: no artifacts {missing}")
        if reference is None:
            continue
        values = config_of(child) | {"seed": int(child.tags.get("seed", run.seed))}
        history, state = reference.trained(run, values)
        counts.add("metrics_lost", *_differences(child.name, history, logged))
        last = last_checkpoint(place.folder, child.tags[TRIAL_TAG])
        other = "no checkpoint" if last is None else state_differs(last / checkpoints.STATE, state)
        counts.add("metrics_lost", int(other is not None), f"{child.name}: {other} is not as without a break")


def _logged(database: Path, run_id: str, first: int) -> dict[tuple[str, int], float]:
    """What a run logged, by flat name and epoch from 0; `first` is the step of the first epoch."""
    with _rows(database) as connection:
        rows = connection.execute("SELECT key, step, value FROM metrics WHERE run_uuid = ?", (run_id,))
        return {(flat(key), int(step) - first): flat_value(key, float(value)) for key, step, value in rows}


def _differences(
    name: str, history: list[dict[str, Any]], logged: Mapping[tuple[str, int], float]
) -> tuple[int, str]:
    """How many of the numbers of uninterrupted training were not logged as they are, and which."""
    wrong = []
    for step, result in enumerate(history):
        for metric, value in result.items():
            is_number = (
                isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            )
            if not is_number or metric in _NO_METRICS:
                continue
            found = logged.get((metric, step))
            if found is None or (metric not in TIMES and found != value):
                wrong.append(f"{metric} of epoch {step + 1}: {found} for {value}")
    return len(wrong), f"{name}: {'; '.join(wrong[:3])}"


def last_checkpoint(study: Path, trial_id: str) -> Path | None:
    """The one after a trial's last epoch, whichever of the driver's lives wrote it; None where it is gone."""
    found = [record for record in Ledger(study).trials() if record.trial_id == trial_id]
    if not found or not found[0].checkpoints:
        return None
    path = study / found[0].checkpoints[0]
    return path if (path / checkpoints.STATE).is_file() else None


Finished = dict[str, list[float]]
"""Trial id -> seconds that each epoch took: another training takes others."""


def finished(place: Place) -> Finished:
    """The trials that have ended, with the times of their epochs; none where there is no database yet."""
    try:
        with _rows(place.tracked) as connection:
            rows = connection.execute(
                "SELECT t.value, m.value FROM runs r JOIN tags t USING (run_uuid) "
                "JOIN metrics m USING (run_uuid) WHERE r.status = 'FINISHED' AND t.key = ? "
                "AND m.key = 'epoch_s' AND r.run_uuid IN "
                "(SELECT run_uuid FROM tags WHERE key = ? AND value IN "
                "(SELECT run_uuid FROM tags WHERE key = ? AND value = ?)) ORDER BY m.step",
                (TRIAL_TAG, PARENT_TAG, STUDY_TAG, place.name),
            ).fetchall()
    except sqlite3.OperationalError:  # killed before there was one, or its tables
        return {}
    times: Finished = {}
    for trial_id, seconds in rows:
        times.setdefault(trial_id, []).append(float(seconds))
    return times


def count_trained_again(counts: Counts, place: Place, before: Finished) -> None:
    """Count trials that had ended and whose checkpoint has epochs of other times now."""
    for trial_id, times in before.items():
        last = last_checkpoint(place.folder, trial_id)
        if last is None:
            continue  # counted as lost
        again = [epoch.epoch_s for epoch in checkpoints.load_history(last)] != times
        counts.add("duplicates", int(again), f"trial {trial_id} was trained again")

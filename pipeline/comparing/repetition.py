"""A recorded trial, trained again: without Ray, and without a trace in MLflow."""

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feature_store import terminal
from feature_store.store import Features
from infocal.trainer import resolve_device
from pipeline.base import environment
from pipeline.base.trajectories import (
    BIT_FOR_BIT,
    Failure,
    Trajectory,
    TrajectoryComparison,
    compare,
    compared,
)
from pipeline.study.lone_board import LoneBoard
from pipeline.study.outcome import git_commit, pack, package_metadata
from pipeline.study.recorder import ERROR
from pipeline.tracking.record import Record
from pipeline.training import checkpoints, columns
from pipeline.training.data_options import target
from pipeline.training.epochs import Epoch
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import train

logger = logging.getLogger("pipeline.comparing.repetition")

_NUM_SHOWN = 6
"""First epochs whose differences are said: rounding starts small and grows, all else is large at once."""


@dataclass(frozen=True, slots=True)
class Repetition:
    """What came of it."""

    record: Record
    comparison: TrajectoryComparison
    warnings: list[str]
    """What is not as it was when the trial was recorded, a line each."""
    environment: dict[str, Any]
    commit: str
    """Of the code that trained again."""
    weights: bool | None
    """Whether the best epoch's weights have the recorded digest; None where one of the two has none."""

    def describe(self) -> str:
        """For people: every metric, what differs around it, and the verdict as the last line."""
        tracked, run = self.record.tracked, self.record.run
        of = target(run.dataset, run.aspect, run.options)
        head = f"run {tracked.name} ({tracked.run_id}): {run.method} on {of}"
        lines = [f"{head}, seed {self.record.seed}", ""]
        if self.comparison.cells:
            scores = (f"val_{name}" for name in columns.shown(run.dataset))
            lines += [self.comparison.aligned(["objective", "train_objective", *scores]), ""]
        lines += [f"note: {text}" for text in [*self._notes(), *self.warnings]]
        return "\n".join([*lines, self.comparison.sentence()])

    def _notes(self) -> list[str]:
        found = []
        if self.comparison.verdict != BIT_FOR_BIT and self.comparison.cells:
            first = [
                f"{gap:.1e} at epoch {epoch + 1}" for epoch, gap in self.comparison.growth()[:_NUM_SHOWN]
            ]
            found.append(f"largest difference by epoch: {', '.join(first)}")
        if self.comparison.recorded is not None and self.comparison.same_failure:
            found.append(
                f"recorded training: {self.comparison.recorded}; repeated training: {self.comparison.again}"
            )
        if self.comparison.not_logged:
            epochs = ", ".join(str(epoch + 1) for epoch in self.comparison.not_logged)
            found.append(f"not compared, because the run did not log them: epochs {epochs}")
        if self.comparison.new:
            found.append(
                f"not compared, because the run has no such metrics: {', '.join(self.comparison.new)}"
            )
        if self.weights is not None:
            same = "are identical" if self.weights else "differ"
            found.append(f"the weights of the best epoch {same} (byte comparison)")
        return found

    def as_json(self) -> dict[str, Any]:
        """For machines."""
        record, run = self.record, self.record.run
        return {
            "run_id": record.tracked.run_id,
            "name": record.tracked.name,
            "dataset": run.dataset,
            "aspect": run.aspect,
            "method": run.method,
            "seed": record.seed,
            "data_fingerprint": record.fingerprint,
            "git_commit": {"recorded": record.tracked.tags.get("git_commit"), "again": self.commit},
            "environment": {"recorded": record.environment, "again": self.environment},
            "same_weights": self.weights,
            "warnings": self.warnings,
            **self.comparison.as_json(),
        }


def repeat(record: Record, run: RunSettings, directory: Path, tolerance: float) -> Repetition:
    """Train a recorded trial again and compare.

    Args:
        run: its settings, with features of this machine.
        directory: an empty working folder; the best epoch is left in it.
        tolerance: largest difference of what agrees.
    """
    here, commit = environment.facts(resolve_device(run.device)), git_commit()
    here["num_threads"] = run.num_threads
    warnings = _warnings(record, run, here, commit)
    for warning in warnings:
        logger.warning("warning: %s", warning)
    again = _train(record, dataclasses.replace(run, num_epochs=record.num_epochs), directory)
    best = directory / checkpoints.BEST / checkpoints.DIGESTS
    digest = checkpoints.read_json(best)[checkpoints.WEIGHTS] if best.is_file() else None
    known = record.best_digest is not None and digest is not None
    return Repetition(
        record=record,
        comparison=compare(record.trajectory, again, tolerance),
        warnings=warnings,
        environment=here,
        commit=commit,
        weights=record.best_digest == digest if known else None,
    )


def _warnings(record: Record, run: RunSettings, here: dict[str, Any], commit: str) -> list[str]:
    found = []
    recorded = record.tracked.tags.get("git_commit", "unknown")
    if recorded != commit:
        found.append(f"the code differs: commit {recorded} in the recorded training, {commit} now")
    elif commit == "unknown" or commit.endswith("-dirty"):
        found.append(
            f"the current code is {commit}; the run does not record the exact code with which it was trained"
        )
    if not record.environment:
        found.append("the run does not record on which machine it was trained")
        if run.num_threads != record.run.num_threads:
            found.append(
                f"num_threads was {record.run.num_threads} in the recorded training and is "
                f"{run.num_threads} now"
            )
    return [*found, *environment.differences(record.environment, here)]


def _train(record: Record, run: RunSettings, directory: Path) -> Trajectory:
    epochs: dict[int, dict[str, float]] = {}
    failures: list[Failure] = []
    board = LoneBoard(run.dataset, run.num_epochs, logger, decisive=run.criterion.metrics)

    def report(result: Epoch | Failure, folder: Path) -> None:
        if isinstance(result, Failure):
            failures.append(result)
            logger.info("epoch %d/%d  failed: %s", result.epoch + 1, run.num_epochs, result.message)
            return
        number = result.number
        epochs[number] = compared(result.numbers)
        board.take(result, _beside(record, number, epochs[number]))

    try:
        with terminal.showing(board):
            train(record.config, run, report, directory)
    except Exception as error:
        recorded = record.trajectory.failure
        if recorded is None or recorded.reason != ERROR:
            raise
        failures.append(Failure(len(epochs), ERROR, f"{type(error).__name__}: {error}"))
    return Trajectory(epochs, failures[-1] if failures else None)


def _beside(record: Record, epoch: int, values: dict[str, float]) -> str:
    """How an epoch stands beside the recorded one."""
    known = record.trajectory.epochs.get(epoch)
    if known is None:
        return "(not recorded)"
    gap = max(cell.gap for cell in compare(Trajectory({epoch: known}), Trajectory({epoch: values})).cells)
    return "as recorded" if gap == 0 else f"largest difference {gap:.2g}"


def keep_package(
    found: Repetition, run: RunSettings, features: Features, directory: Path, output: Path
) -> None:
    """Write the best epoch of a repetition as a package, as `pipeline.train` does.

    Args:
        features: that `run` names.
    """
    if not (directory / checkpoints.BEST).is_dir():
        logger.warning("no model to keep: no epoch was finished")
        return
    best = checkpoints.load_scores(directory / checkpoints.BEST)
    metadata = package_metadata(run, features, best.epoch, best.scores)
    metadata |= {"sample": found.record.is_sample, "study": None, "run_id": found.record.tracked.run_id}
    pack(directory / checkpoints.BEST, output, features, metadata)

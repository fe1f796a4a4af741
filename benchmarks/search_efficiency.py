"""Searches replayed on a table of trained points: the compute that a sampler and a way to stop early need.

python -m benchmarks.search_efficiency TABLE --replays 100

The table comes from `benchmarks.search_table`. A replay runs the product's own search and early stopping, but
reads the training from the table. Compute is counted in epochs, those of stopped trials included.
"""

import argparse
import itertools
import json
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pyarrow as pa

from benchmarks.search_table import EPOCH, ERROR, LEVELS, OBJECTIVE, POINT, VIOLATION
from feature_store.errors import BadInputError
from pipeline.base.errors import run_command
from pipeline.cli import common_flags, flag_values
from pipeline.study.scheduler import ConstrainedOptunaSearch, Halving, sampler
from pipeline.training import epochs
from pipeline.training.settings import SAMPLERS
from search_spaces.space import Range, Space

NUM_RANDOM = 100
"""Random trials, none stopped early, whose best one the others have to reach."""
_NEAR = 0.01


@dataclass(frozen=True, slots=True)
class Reached:
    """What a point has after one of its epochs."""

    objective: float
    """Of its best epoch so far."""
    violation: float
    error: float
    """Standard error of the objective over draws of validation texts."""


@dataclass(frozen=True, slots=True)
class Table:
    """Every epoch of every point of a grid."""

    name: str
    space: Space
    """The number of the level of each hyper-parameter, from 0."""
    points: dict[tuple[int, ...], list[Reached]]
    """What each point has after each epoch; the training of one with fewer epochs has failed in the last."""

    @property
    def num_epochs(self) -> int:
        """Epochs of a point whose training did not fail."""
        return max(map(len, self.points.values()))

    @property
    def best(self) -> Reached:
        """The last epoch of the best point."""
        return max((reached[-1] for reached in self.points.values()), key=lambda one: one.objective)

    @property
    def targets(self) -> dict[str, float]:
        """Objectives that a search should reach: within 1 % of the table's best, and within its error."""
        best = self.best
        return {"near": best.objective - _NEAR * abs(best.objective), "noise": best.objective - best.error}


def read(path: Path) -> Table:
    """The table that `benchmarks.search_table` wrote.

    Raises:
        BadInputError: if the file is something else.
    """
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            found = reader.read_all()
        metadata = found.schema.metadata or {}
        levels = json.loads(metadata[LEVELS])
    except (OSError, pa.ArrowInvalid, KeyError, ValueError) as error:
        raise BadInputError(
            f"cannot be read as a table of trained points: {error}",
            where=str(path),
            hint="`python -m benchmarks.search_table --out FILE` makes one",
        ) from error
    space = tuple(
        Range(name=name, low=0, high=len(values) - 1, is_integer=True, why="number of the level")
        for name, values in levels.items()
    )
    points: dict[tuple[int, ...], list[Reached]] = {}
    for row in found.sort_by([(POINT, "ascending"), (EPOCH, "ascending")]).to_pylist():
        key = tuple(values.index(row[name]) for name, values in levels.items())
        points.setdefault(key, []).append(Reached(row[OBJECTIVE], row[VIOLATION], row[ERROR]))
    return Table(path.stem, space, points)


@dataclass(frozen=True, slots=True)
class Setting:
    """How a search draws points and stops trials."""

    sampler: str = "tpe"
    reduction: int | None = 3
    """One trial of so many goes on from a rung; None: no trial is stopped early."""
    grace: int = 4
    """Epochs before a trial may be stopped."""
    is_pruned: bool = True
    """Whether Optuna is told that a stopped trial was pruned; otherwise its last value is its result."""

    def __str__(self) -> str:
        if self.reduction is None:
            return f"{self.sampler}, no stop"
        told = "pruned" if self.is_pruned else "complete"
        return f"{self.sampler}, 1 of {self.reduction} after {self.grace}, told {told}"


def replay(table: Table, setting: Setting, seed: int, num_trials: int, workers: int = 2) -> list[float]:
    """The best objective so far after each epoch of a search.

    Args:
        table: gives what training would give.
        setting: of the search.
        seed: of the sampler.
        num_trials: trials of the search.
        workers: trials at once; each takes as long for an epoch as the others.
    """
    search = ConstrainedOptunaSearch(
        table.space,
        sampler(setting.sampler, table.space, seed),
        [],
        num_epochs=table.num_epochs if setting.is_pruned else 0,
    )
    stopping = Halving(
        grace_period=min(setting.grace, table.num_epochs),
        max_t=table.num_epochs,
        past=[],
        reduction_factor=setting.reduction or 2,
    )
    best, curve = -np.inf, list[float]()
    running: list[tuple[Any, list[Reached], int]] = []
    names = map(str, itertools.count())
    left = min(num_trials, len(table.points))
    while running or left:
        while left and len(running) < workers:
            left -= 1
            trial: Any = SimpleNamespace(trial_id=next(names), config={})
            point = search.suggest(trial.trial_id)
            stopping.on_trial_add(None, trial)
            running.append((trial, table.points[tuple(point[one.name] for one in table.space)], 0))
        trial, rows, number = running.pop(0)
        reached = rows[number]
        result = {
            epochs.OBJECTIVE: reached.objective,
            epochs.VIOLATION: reached.violation,
            epochs.EPOCHS: number + 1,
        }
        best = max(best, reached.objective)
        curve.append(best)
        search.on_trial_result(trial.trial_id, result)
        is_over = number + 1 == len(rows)
        if setting.reduction is not None:
            is_over |= stopping.on_trial_result(None, trial, result) == stopping.STOP
        if is_over:
            search.on_trial_complete(trial.trial_id, result)
        else:
            running.append((trial, rows, number + 1))
    return curve


def epochs_to(curve: Sequence[float], target: float) -> float:
    """Epochs until a search has reached the target; infinite where it never has."""
    return next((i + 1.0 for i, best in enumerate(curve) if best >= target), np.inf)


def best_of_random(table: Table, replays: int) -> float:
    """Median of the best objective of `NUM_RANDOM` random trials that are not stopped."""
    setting = Setting(sampler="random", reduction=None)
    return statistics.median(replay(table, setting, seed, NUM_RANDOM)[-1] for seed in range(replays))


@dataclass(frozen=True, slots=True)
class Needed:
    """Epochs that replays needed to reach a target: the median, and where nine of ten lie."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        ends = (f"{value:.0f}" if np.isfinite(value) else "not reached" for value in (self.low, self.high))
        median = f"{self.median:.0f}" if np.isfinite(self.median) else "not reached"
        return f"{median} [{', '.join(ends)}]"


def needed(curves: Sequence[Sequence[float]], target: float) -> Needed:
    """What searches needed to reach a target."""
    found = sorted(epochs_to(curve, target) for curve in curves)
    low, high = (found[round(share * (len(found) - 1))] for share in (0.05, 0.95))
    return Needed(found[(len(found) - 1) // 2], low, high)


def settings_of(table: Table, samplers: Sequence[str] = SAMPLERS) -> Iterator[Setting]:
    """The product's setting with each sampler, and the one with `tpe` changed in one way at a time."""
    for name in samplers:
        yield Setting(sampler=name)
    yield Setting(is_pruned=False)
    for reduction in (2, 4, None):
        yield Setting(reduction=reduction)
    for grace in range(1, table.num_epochs):
        if grace != Setting().grace:
            yield Setting(grace=grace)


def main(arguments: Sequence[str]) -> int:
    """Print a table of what each setting needs; returns the exit code."""
    parser = common_flags.parser("benchmarks.search_efficiency", "Replay searches on a table of points.")
    parser.add_argument("table", type=Path, help="Arrow file of `benchmarks.search_table`")
    parser.add_argument("--replays", type=flag_values.positive_int, default=100, help="default: %(default)s")
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=SAMPLERS, help="default: all")
    given: argparse.Namespace = parser.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    table = read(given.table)
    targets = table.targets | {"best of 100 random": best_of_random(table, given.replays)}
    said = ", ".join(f"{name}: {value:.4f}" for name, value in targets.items())
    print(f"{len(table.points)} points of {table.num_epochs} epochs; {said}\n")
    print(f"| search | {' | '.join(targets)} |\n|---|{'---|' * len(targets)}")
    for setting in settings_of(table, given.samplers):
        curves = [replay(table, setting, seed, len(table.points)) for seed in range(given.replays)]
        cells = " | ".join(str(needed(curves, target)) for target in targets.values())
        print(f"| {setting} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))

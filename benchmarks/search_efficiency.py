"""Searches replayed on a table of trained points: the compute that a sampler and a way to stop early need.

python -m benchmarks.search_efficiency --replays 100

The table comes from `benchmarks.search_table`. A replay runs the product's own search and early stopping, but
reads the training from the table. It ends with the last target. Compute is counted in epochs, those of
stopped and failed trials included.
"""

import argparse
import itertools
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pyarrow as pa

from benchmarks.search_table import EPOCH, ERROR, FIRST, LEVELS, OBJECTIVE, POINT, VIOLATION
from benchmarks.timing import Figure
from feature_store.errors import BadInputError
from infocal.config import InfoCalConfig
from pipeline.base.errors import run_command
from pipeline.base.trajectories import Failure
from pipeline.cli import common_flags, flag_values
from pipeline.study.scheduler import (
    REDUCTION_FACTOR,
    ConstrainedOptunaSearch,
    Halving,
    grace_epochs,
    sampler,
)
from pipeline.training import epochs
from pipeline.training.settings import SAMPLERS
from search_spaces.space import Range, Space

TABLE = Path(__file__).with_name("tables") / "beer-palate-sample.arrow"
NUM_RANDOM = 100
"""Random trials, none stopped early, whose best one the others have to reach."""
NUM_BASELINES = 100
"""Random searches over which the median best is taken."""
_NEAR = 0.01
_FAILURE = epochs.report_of(Failure(0, "failed", "the training failed"))


@dataclass(frozen=True, slots=True)
class Reached:
    """What a point has after one of its epochs."""

    objective: float
    """Of its best epoch so far."""
    violation: float
    error: float
    """Standard error of the objective over draws of validation texts."""

    def report(self, number: int) -> dict[str, Any]:
        """What a worker reports of it.

        Args:
            number: of epochs so far.
        """
        if self.objective == _FAILURE[epochs.OBJECTIVE]:
            return _FAILURE | {epochs.EPOCHS: number}
        return {epochs.OBJECTIVE: self.objective, epochs.VIOLATION: self.violation, epochs.EPOCHS: number}


@dataclass(frozen=True, slots=True)
class Table:
    """Every epoch of every point of a grid."""

    name: str
    space: Space
    """The number of the level of each hyper-parameter, from 0."""
    points: dict[tuple[int, ...], list[Reached]]
    """What each point has after each epoch; the training of one with fewer epochs has failed in the last."""
    first: tuple[dict[str, int], ...] = ()
    """Points with which the product's search begins."""

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

    def num_reaching(self, target: float) -> int:
        """How many points reach an objective."""
        return sum(max(one.objective for one in reached) >= target for reached in self.points.values())


def read(path: Path) -> Table:
    """The table that `benchmarks.search_table` wrote.

    Raises:
        BadInputError: if the file is something else.
    """
    try:
        with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
            found = reader.read_all()
        metadata = found.schema.metadata or {}
        levels, first = json.loads(metadata[LEVELS]), json.loads(metadata[FIRST])
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
    begun = tuple({name: levels[name].index(value) for name, value in point.items()} for point in first)
    return Table(path.stem, space, points, begun)


@dataclass(frozen=True, slots=True)
class Setting:
    """How a search draws points and stops trials."""

    sampler: str = "tpe"
    reduction: int | None = REDUCTION_FACTOR
    """One trial of so many goes on from a rung; None: no trial is stopped early."""
    grace: int = grace_epochs(InfoCalConfig())
    """Epochs before a trial may be stopped."""
    is_pruned: bool = True
    """Whether Optuna is told that a stopped trial was pruned; otherwise its last value is its result."""
    starts_known: bool = True
    """Whether the first point is the product's own first one."""

    def __str__(self) -> str:
        start = "" if self.starts_known else ", no first point"
        if self.reduction is None:
            return f"{self.sampler}, no stop{start}"
        told = "pruned" if self.is_pruned else "complete"
        return f"{self.sampler}, 1 of {self.reduction} after {self.grace}, told {told}{start}"


def replay(
    table: Table,
    setting: Setting,
    seed: int,
    num_trials: int,
    workers: int = 2,
    until: float = math.inf,
) -> list[float]:
    """The best objective so far after each epoch of a search.

    Args:
        table: gives what training would give.
        setting: of the search.
        seed: of the sampler.
        num_trials: trials of the search.
        workers: trials at once; each takes as long for an epoch as the others.
        until: an objective that ends the search.
    """
    search = ConstrainedOptunaSearch(
        table.space,
        sampler(setting.sampler, table.space, seed),
        [dict(point) for point in table.first] if setting.starts_known else [],
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
    while (running or left) and best < until:
        while left and len(running) < workers:
            left -= 1
            trial: Any = SimpleNamespace(trial_id=next(names), config={})
            point = search.suggest(trial.trial_id)
            stopping.on_trial_add(None, trial)
            running.append((trial, table.points[tuple(point[one.name] for one in table.space)], 0))
        trial, rows, number = running.pop(0)
        reached = rows[number]
        result = reached.report(number + 1)
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


RANDOM = Setting(sampler="random", reduction=None, starts_known=False)
"""What searches are compared with."""


def epochs_to(curve: Sequence[float], target: float) -> float:
    """Epochs until a search has reached the target; infinite where it never has."""
    return next((i + 1.0 for i, best in enumerate(curve) if best >= target), np.inf)


def targets_of(table: Table) -> dict[str, float]:
    """Objectives to reach: the table's own, and the median best of `NUM_RANDOM` random trials."""
    best = [replay(table, RANDOM, seed, NUM_RANDOM)[-1] for seed in range(NUM_BASELINES)]
    return table.targets | {"random": statistics.median(best)}


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


def curves_of(
    table: Table, setting: Setting, replays: int, until: float, seconds: float = math.inf, first_seed: int = 0
) -> list[list[float]]:
    """Replays of one setting, each with a seed of its own.

    Args:
        first_seed: of the first replay; each further one has the next.
        until: an objective that ends a replay.
        seconds: after which no further replay begins; the first one always does.
    """
    began, curves = time.monotonic(), list[list[float]]()
    while len(curves) < replays and (not curves or time.monotonic() - began < seconds):
        seed = first_seed + len(curves)
        curves.append(replay(table, setting, seed, len(table.points), until=until))
    return curves


def settings_of(table: Table, samplers: Sequence[str] = SAMPLERS) -> Iterator[Setting]:
    """The baseline, the product's setting with each sampler, and the one with `tpe` changed in one way."""
    yield RANDOM
    for name in samplers:
        yield Setting(sampler=name)
    yield Setting(is_pruned=False)
    yield Setting(starts_known=False)
    for reduction in (2, 4, None):
        yield Setting(reduction=reduction)
    for grace in range(1, table.num_epochs):
        if grace != Setting().grace:
            yield Setting(grace=grace)


def run(rounds: int) -> Iterator[Figure]:
    """Epochs that the product's setting needs on the stored table, beside those of a random search.

    Args:
        rounds: three replays for each.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    table = read(TABLE)
    targets = targets_of(table)
    ours, random = (
        curves_of(table, setting, 3 * rounds, max(targets.values())) for setting in (Setting(), RANDOM)
    )
    for name, target in targets.items():
        found, reference = _median_epochs(ours, target), _median_epochs(random, target)
        reached = sum(np.isfinite(epochs_to(curve, target)) for curve in ours)
        note = f"{Setting()}; reference: {RANDOM}; {reached} of {len(ours)} replays reached {target:.4f}"
        yield Figure(f"search_epochs_{name}", found, reference, reference / found, "epochs", note)


def _median_epochs(curves: Sequence[Sequence[float]], target: float) -> float:
    """Median over searches; one that has not reached the target counts as all epochs that it took."""
    return statistics.median(min(epochs_to(curve, target), len(curve)) for curve in curves)


def main(arguments: Sequence[str]) -> int:
    """Print a table of what each setting needs; returns the exit code."""
    parser = common_flags.parser("benchmarks.search_efficiency", "Replay searches on a table of points.")
    parser.add_argument(
        "table", type=Path, nargs="?", default=TABLE, help="Arrow file of `benchmarks.search_table`"
    )
    parser.add_argument("--replays", type=flag_values.positive_int, default=100, help="default: %(default)s")
    parser.add_argument(
        "--first-seed", type=flag_values.seed, default=0, help="of the replays (default: %(default)s)"
    )
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=SAMPLERS, help="default: all")
    parser.add_argument(
        "--seconds",
        type=flag_values.positive_float,
        default=math.inf,
        help="for each setting: no further replay begins after that (default: no limit)",
    )
    given: argparse.Namespace = parser.parse_args(arguments)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    table = read(given.table)
    targets = targets_of(table)
    print(f"{len(table.points)} points of {table.num_epochs} epochs")
    for name, target in targets.items():
        print(f"{name}: {target:.4f}, reached by {table.num_reaching(target)} points")
    print(f"\n| search | replays | {' | '.join(targets)} |\n|---|{'---|' * (len(targets) + 1)}")
    for setting in settings_of(table, given.samplers):
        curves = curves_of(
            table, setting, given.replays, max(targets.values()), given.seconds, given.first_seed
        )
        cells = " | ".join(str(needed(curves, target)) for target in targets.values())
        print(f"| {setting} | {len(curves)} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))

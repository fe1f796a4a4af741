"""Train every point of a grid for every epoch, as a table on which searches can be replayed.

python -m benchmarks.search_table --dataset beer --aspect palate --sample --epochs 10 --levels 4 4 4 3 \
    --out benchmarks/tables/beer-palate-sample.arrow

The grid has the given number of levels of each range of the space, at equal distances, or equal ratios on a
log scale. Nothing is stopped early. A command that was stopped continues where it ended.
"""

import argparse
import concurrent.futures
import functools
import itertools
import json
import logging
import math
import multiprocessing
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from feature_store import terminal
from pipeline.base import command_text
from pipeline.base.errors import PipelineError, run_command
from pipeline.base.trajectories import Failure
from pipeline.cli import common_flags, flag_values, search_flags, search_settings
from pipeline.training import epochs
from pipeline.training.epochs import Epoch, report_of
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import train
from search_spaces.space import Point, Range, Space, without_noise

logger = logging.getLogger("benchmarks.search_table")

OBJECTIVE, VIOLATION, ERROR = "objective", "violation", "error"
"""Columns: of the best epoch so far, as early stopping reads it; `error` is its standard error."""
POINT, EPOCH, SECONDS = "point", "epoch", "seconds"
COMMAND, LEVELS, FIRST = b"command", b"levels", b"first_points"
"""Metadata of the table's schema: the command, the levels of each range, and the points of the grid that are
nearest to those with which a search begins."""

_ROOT = Path(__file__).parents[1]
_PLACES = ("--out", "--storage", "--cache-dir", "--data-dir", "--tracking-uri", "--optuna-storage", "--jobs")
"""Flags without which the command gives the same table; they describe the machine."""


def levels_of(one: Range, number: int) -> list[float]:
    """Values of a range, its ends included.

    Args:
        one: the range.
        number: of values, at least 2.
    """
    shares = [i / (number - 1) for i in range(number)]
    if one.log:
        return [without_noise(one.low * (one.high / one.low) ** share) for share in shares]
    return [without_noise(one.low + (one.high - one.low) * share) for share in shares]


def points(space: Space, numbers: Sequence[int]) -> list[dict[str, float]]:
    """Every point of the grid, the last hyper-parameter running fastest.

    Raises:
        PipelineError: if there is not one number for each range, or something else than ranges is varied.
    """
    ranges = [one for one in space if isinstance(one, Range)]
    if len(ranges) != len(space) or len(numbers) != len(space):
        raise PipelineError(
            f"expected a number of levels for each of {', '.join(one.name for one in space)}, "
            f"but got {len(numbers)}",
            where="--levels",
        )
    levels = [levels_of(one, number) for one, number in zip(ranges, numbers, strict=True)]
    names = [one.name for one in ranges]
    return [dict(zip(names, values, strict=True)) for values in itertools.product(*levels)]


def rows_of(values: Mapping[str, float], number: int, run: RunSettings) -> list[dict[str, float | int]]:
    """Train one point; returns a row for each epoch, the last of them where the training failed."""
    rows: list[dict[str, float | int]] = []
    metric = run.criterion.metric

    def report(result: Epoch | Failure, folder: Path) -> None:
        told = report_of(result)
        error = seconds = math.nan
        if isinstance(result, Epoch):
            error, seconds = result.best.errors.get(metric, error), result.epoch_s or seconds
        rows.append(
            {
                POINT: number,
                EPOCH: len(rows) + 1,
                OBJECTIVE: told[epochs.OBJECTIVE],
                VIOLATION: told[epochs.VIOLATION],
                ERROR: error,
                SECONDS: seconds,
            }
        )

    with tempfile.TemporaryDirectory(prefix="infocal-table-") as folder:
        train(dict(values), run, report, Path(folder))
    return rows


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = common_flags.parser("benchmarks.search_table", "Train a grid of points for every epoch.")
    common_flags.add_data_arguments(parser)
    common_flags.add_training_arguments(parser)
    common_flags.add_storage_arguments(parser)
    search_flags.add(parser)
    parser.set_defaults(space="wide")
    parser.add_argument(
        "--levels", type=flag_values.positive_int, nargs="+", required=True, help="of each range, at least 2"
    )
    parser.add_argument("--jobs", type=flag_values.positive_int, default=1, help="trainings at once")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="Arrow file to write")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    prepared = search_settings.with_features(given, search_settings.new_study(given, arguments))
    grid = points(prepared.space, given.levels)
    from feature_store.store import load_features
    from pipeline.study.outcome import prepare_derived

    prepare_derived(prepared.run, load_features(Path(prepared.run.features_dir)))
    given.out.parent.mkdir(parents=True, exist_ok=True)
    part = given.out.with_name(given.out.name + ".part")
    done = _done(part)
    logger.info("%d of %d points are done", len(done), len(grid))
    described = metadata(prepared.space, prepared.first_points, grid, arguments)
    missing = [number for number in range(len(grid)) if number not in done]
    context = multiprocessing.get_context("spawn")
    with (
        part.open("a", encoding="utf-8") as stream,
        concurrent.futures.ProcessPoolExecutor(given.jobs, context) as pool,
    ):
        running = [pool.submit(rows_of, grid[number], number, prepared.run) for number in missing]
        try:
            for ended in concurrent.futures.as_completed(running):
                stream.write(json.dumps(ended.result()) + "\n")
                stream.flush()
        except BaseException:
            # the pool waits at its end for what has begun, and would for everything
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    _write(given.out, grid, list(_done(part).values()), described)
    part.unlink()
    return 0


def metadata(
    space: Space,
    first_points: Sequence[Point],
    grid: Sequence[Mapping[str, float]],
    arguments: Sequence[str],
) -> dict[bytes, bytes]:
    """What the table says of itself.

    Args:
        first_points: with which a search over the space begins.
        grid: every point of the table.
        arguments: of the command.
    """
    levels = {one.name: sorted({point[one.name] for point in grid}) for one in space}
    first = [nearest(space, levels, point) for point in first_points]
    return {
        COMMAND: portable_command(arguments).encode(),
        LEVELS: json.dumps(levels).encode(),
        FIRST: json.dumps(first).encode(),
    }


def nearest(space: Space, levels: Mapping[str, Sequence[float]], point: Point) -> dict[str, float]:
    """The point of a grid that is nearest to another point, on the scale of each range."""

    def distance(one: Range, level: float) -> float:
        value = float(point[one.name])
        return abs(math.log(level / value)) if one.log else abs(level - value)

    ranges = [one for one in space if isinstance(one, Range)]
    return {one.name: min(levels[one.name], key=functools.partial(distance, one)) for one in ranges}


def portable_command(arguments: Sequence[str]) -> str:
    """The command that makes the same table elsewhere: without the places of this machine.

    The table's own file is named as in this repository; another file outside the working folder by its name.
    """
    given, others = command_text.bare_parser(*_PLACES).parse_known_args(list(arguments))
    words = list[str]()
    for argument in others:
        name, equals, value = argument.rpartition("=")
        words.append(name + equals + (_short(Path(value)) if Path(value).is_absolute() else value))
    if given.out is not None:
        words += ["--out", f"benchmarks/tables/{Path(given.out).name}"]
    return shlex.join(["python", "-m", "benchmarks.search_table", *words])


def _short(path: Path) -> str:
    """A file as it is named from the root of the repository, or its name alone."""
    return str(path.relative_to(_ROOT)) if path.is_relative_to(_ROOT) else path.name


def _done(part: Path) -> dict[int, list[dict[str, float]]]:
    """Rows of the points that were trained before, by number; a line that was not finished is left out."""
    if not part.exists():
        return {}
    lines = part.read_text(encoding="utf-8").split("\n")[:-1]
    return {rows[0][POINT]: rows for rows in map(json.loads, lines)}


def _write(
    out: Path,
    grid: Sequence[Mapping[str, float]],
    found: Sequence[Sequence[Mapping[str, float]]],
    described: Mapping[bytes, bytes],
) -> None:
    store(pa.Table.from_pylist(list(_rows(grid, found))).replace_schema_metadata(dict(described)), out)


def store(table: pa.Table, out: Path) -> None:
    """Write a table, compressed: its columns of levels repeat themselves."""
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.OSFile(str(out), "wb") as sink, pa.ipc.new_file(sink, table.schema, options=options) as writer:
        writer.write_table(table)


def _rows(
    grid: Sequence[Mapping[str, float]], found: Sequence[Sequence[Mapping[str, float]]]
) -> Iterator[dict[str, float]]:
    for rows in sorted(found, key=lambda one: one[0][POINT]):
        for row in rows:
            yield {**grid[int(row[POINT])], **row}


if __name__ == "__main__":
    sys.exit(run_command(main))

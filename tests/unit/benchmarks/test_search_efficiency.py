"""Replays of searches: what they count, what they reach, and that they run the product's own search."""

import itertools
import json
import math
import shlex
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks import __main__ as command
from benchmarks import search_efficiency, search_table
from benchmarks.search_efficiency import (
    RANDOM,
    Needed,
    Reached,
    Setting,
    Table,
    epochs_to,
    needed,
    read,
    replay,
)
from benchmarks.timing import Figure
from feature_store.errors import BadInputError
from infocal.config import InfoCalConfig
from pipeline.base.errors import PipelineError
from pipeline.base.trajectories import Failure
from pipeline.study.scheduler import asha
from search_spaces.space import Choice, Range
from tests.small_ledger import an_epoch
from tests.small_study import run_settings

LEVELS = {"a": [1.0, 2.0, 3.0], "b": [0.1, 1.0, 10.0, 100.0]}
NUM_EPOCHS = 9


def objective(a: int, b: int, epoch: int) -> float:
    """Best at a = 2, b = 3; each point comes closer to its own value with each epoch."""
    return (0.9 - 0.1 * (2 - a) - 0.05 * (3 - b)) * (1 - 0.5**epoch)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    space = (Range(name="a", low=1, high=3, why=""), Range(name="b", low=0.1, high=100, log=True, why=""))
    grid = search_table.points(space, [3, 4])
    found = [
        [
            {
                search_table.POINT: number,
                search_table.EPOCH: epoch,
                search_table.OBJECTIVE: objective(number // 4, number % 4, epoch),
                search_table.VIOLATION: 0.0,
                search_table.ERROR: 0.02,
                search_table.SECONDS: 1.0,
            }
            for epoch in range(1, NUM_EPOCHS + 1)
        ]
        for number in reversed(range(len(grid)))
    ]
    out = tmp_path / "small.arrow"
    described = search_table.metadata(space, [{"a": 2.4, "b": 0.4}], grid, ["--out", "FILE"])
    search_table._write(out, grid, found, described)
    return out


@pytest.fixture
def table(path: Path) -> Table:
    return read(path)


def test_levels_have_equal_distances_or_ratios():
    linear = Range(name="a", low=0, high=2, step=0.5, why="")
    assert search_table.levels_of(linear, 3) == [0, 1, 2]
    log = Range(name="b", low=0.01, high=100, log=True, why="")
    assert search_table.levels_of(log, 5) == pytest.approx([0.01, 0.1, 1, 10, 100])


def test_a_grid_needs_a_number_for_each_range():
    space = (Range(name="a", low=0, high=1, why=""), Range(name="b", low=0, high=1, why=""))
    assert len(search_table.points(space, [2, 3])) == 6
    with pytest.raises(PipelineError, match="a number of levels for each of a, b, but got 1"):
        search_table.points(space, [2])
    with pytest.raises(PipelineError, match="a number of levels for each of a, c, but got 2"):
        search_table.points((space[0], Choice(name="c", choices=("x", "y"), why="")), [2, 2])


def test_a_table_is_read_as_it_was_written(path: Path, table: Table):
    assert list(table.points) == list(itertools.product(range(3), range(4)))
    assert table.points[1, 2] == [Reached(objective(1, 2, e), 0.0, 0.02) for e in range(1, NUM_EPOCHS + 1)]
    assert (table.num_epochs, table.best) == (NUM_EPOCHS, table.points[2, 3][-1])
    assert table.targets["near"] == pytest.approx(0.99 * objective(2, 3, NUM_EPOCHS))
    assert table.targets["noise"] == pytest.approx(objective(2, 3, NUM_EPOCHS) - 0.02)
    with pa.memory_map(str(path)) as source:
        metadata = pa.ipc.open_file(source).schema.metadata
    assert json.loads(metadata[search_table.LEVELS]) == LEVELS
    assert metadata[search_table.COMMAND] == b"python -m benchmarks.search_table --out benchmarks/tables/FILE"
    assert table.first == ({"a": 1, "b": 1},), "0.4 is nearer to 1 than to 0.1 by ratio, and not by distance"


def test_the_stored_command_names_no_place_of_the_machine(tmp_path: Path):
    root = Path(search_table.__file__).parents[1]
    arguments = [
        *("--dataset", "jsonl", f"--data-dir={tmp_path}", "--levels", "4", "3"),
        *("--storage", f"{tmp_path}/runs", "--cache-dir", str(tmp_path), "--jobs", "2"),
        *(f"--space={tmp_path}/own.toml", "--out", f"{tmp_path}/own.arrow"),
        *("--config", f"{root}/docs/a.toml", "--set", f"language_model={tmp_path}/m"),
    ]
    assert search_table.portable_command(arguments) == (
        "python -m benchmarks.search_table --dataset jsonl --levels 4 3 --space=own.toml "
        "--config docs/a.toml --set language_model=m --out benchmarks/tables/own.arrow"
    )


def test_the_table_of_the_repository_is_what_its_command_makes():
    stored = read(search_efficiency.TABLE)
    with pa.memory_map(str(search_efficiency.TABLE)) as source:
        metadata = pa.ipc.open_file(source).schema.metadata
    command = shlex.split(metadata[search_table.COMMAND].decode())
    assert command[:3] == ["python", "-m", "benchmarks.search_table"]
    given = search_table.build_parser().parse_args(command[3:])
    study = search_table.search_settings.new_study(given, command[3:])
    grid = search_table.points(study.space, given.levels)
    assert metadata == search_table.metadata(study.space, study.first_points, grid, command[3:])
    assert len(stored.points) == len(grid) and stored.num_epochs == given.epochs


def test_another_file_is_refused(tmp_path: Path):
    (tmp_path / "x.arrow").write_bytes(b"no table")
    with pytest.raises(BadInputError, match="cannot be read as a table of trained points"):
        read(tmp_path / "x.arrow")


@pytest.mark.parametrize("sampler", ["tpe", "random", "grid"])
@pytest.mark.parametrize("reduction", [None, 3])
def test_a_whole_search_finds_the_best_point_and_counts_every_epoch(table, sampler, reduction):
    curve = replay(table, Setting(sampler=sampler, reduction=reduction, grace=2), 0, 100)
    assert curve == sorted(curve)
    whole = len(table.points) * NUM_EPOCHS
    if reduction is None:
        assert len(curve) == whole
        assert curve[-1] == table.best.objective
    else:
        assert 2 * len(table.points) <= len(curve) < whole, "each trial has its grace; some are stopped"


def test_a_point_whose_training_fails_ends_with_that_epoch(monkeypatch: pytest.MonkeyPatch):
    """Its failure used to keep every later point of the grid from being written."""

    one = an_epoch(0)

    def train(values, run, report, folder):
        report(one, folder)
        report(Failure(1, "degenerate_all", "degenerate_all: epoch 2: all"), folder)

    monkeypatch.setattr(search_table, "train", train)
    first, last = search_table.rows_of({"a": 1.0}, 7, run_settings())
    assert (first[search_table.EPOCH], first[search_table.OBJECTIVE]) == (1, one.best.value)
    assert (last[search_table.POINT], last[search_table.EPOCH]) == (7, 2)
    assert last[search_table.OBJECTIVE] < -100 and last[search_table.VIOLATION] > 100


def test_a_replayed_trial_that_fails_takes_no_more_epochs(table: Table):
    points = {key: [*rows[:1], Reached(-1e3, 1e3, math.nan)] for key, rows in table.points.items()}
    points[2, 3] = table.points[2, 3]
    failing = Table("failing", table.space, points)
    curve = replay(failing, Setting(sampler="grid", reduction=None), 0, 100, until=2.0)
    assert len(curve) == 2 * (len(points) - 1) + NUM_EPOCHS
    assert curve[-1] == failing.best.objective == table.best.objective


def test_optuna_hears_of_a_failed_trial_what_it_hears_in_a_search(table: Table, monkeypatch):
    """A failure was told as a result of -1e9 before, from which a sampler learns something else."""
    studies = []

    class Seen(search_efficiency.ConstrainedOptunaSearch):
        def __init__(self, *args, **more):
            super().__init__(*args, **more)
            studies.append(self)

    monkeypatch.setattr(search_efficiency, "ConstrainedOptunaSearch", Seen)
    points = {key: [*rows[:-1], Reached(-1e9, 1e9, math.nan)] for key, rows in table.points.items()}
    points[2, 3] = table.points[2, 3]
    replay(Table("failing", table.space, points), Setting(sampler="random", reduction=None), 0, 100)
    (study,) = (one.study for one in studies)
    trained = [trial for trial in study.trials if trial.intermediate_values]
    assert sorted(trial.state.name for trial in trained) == ["COMPLETE", *["FAIL"] * (len(points) - 1)]
    assert all(min(trial.intermediate_values.values()) >= 0 for trial in trained)
    assert {len(trial.intermediate_values) for trial in trained} == {NUM_EPOCHS - 1, NUM_EPOCHS}


def test_a_replay_ends_where_the_last_target_is_reached(table: Table):
    whole = replay(table, Setting(sampler="random", reduction=None), 3, 100)
    ended = replay(table, Setting(sampler="random", reduction=None), 3, 100, until=0.8)
    assert ended == whole[: len(ended)]
    assert ended[-1] >= 0.8 > ended[-2]


def test_a_search_begins_with_the_products_own_point(table: Table):
    for sampler in ("tpe", "random"):
        first = replay(table, Setting(sampler=sampler), 0, 1)
        assert first == [objective(1, 1, epoch) for epoch in range(1, NUM_EPOCHS + 1)]
    others = [replay(table, Setting(starts_known=False), seed, 1)[-1] for seed in range(5)]
    assert set(others) != {objective(1, 1, NUM_EPOCHS)}


def test_the_products_setting_is_what_the_product_does():
    made = asha(InfoCalConfig(), num_epochs=100)
    assert min(rung for rung, _ in made._brackets[0]._rungs) == Setting().grace
    assert made._reduction_factor == Setting().reduction


def test_the_first_rung_is_where_the_best_points_are_ahead():
    """An epoch earlier, the best points are in the lower half of the table: searches stopped all of them."""
    table = read(search_efficiency.TABLE)
    grace, needed = Setting().grace, table.targets["noise"]
    best = [key for key, rows in table.points.items() if rows[-1].objective >= needed]

    def share_above(key: tuple[int, ...], number: int) -> float:
        reached = [rows[number - 1].objective for rows in table.points.values() if len(rows) >= number]
        return sum(value > table.points[key][number - 1].objective for value in reached) / len(reached)

    assert len(best) == 5
    assert all(share_above(key, grace - 1) > 1 / 2 for key in best)
    assert all(share_above(key, grace) < 1 / 3 for key in best)


def test_a_limit_of_time_leaves_one_replay(table: Table):
    assert len(search_efficiency.curves_of(table, RANDOM, 4, 2.0)) == 4
    assert len(search_efficiency.curves_of(table, RANDOM, 4, 2.0, seconds=1e-9)) == 1
    second = search_efficiency.curves_of(table, RANDOM, 1, 2.0, first_seed=1)
    assert second == search_efficiency.curves_of(table, RANDOM, 2, 2.0)[1:]


def test_a_replay_is_repeatable(table: Table):
    first, second = (replay(table, Setting(), 5, 10) for _ in range(2))
    assert first == second != replay(table, Setting(), 6, 10)


def test_stopped_trials_are_told_as_the_setting_says(table, monkeypatch):
    told: list[dict[str, int]] = []
    ended = search_efficiency.ConstrainedOptunaSearch

    class Seen(ended):
        def on_trial_complete(self, trial_id, result=None, error=False):
            number = self._ot_trials[trial_id].number
            super().on_trial_complete(trial_id, result, error)
            state = self.study.get_trials(deepcopy=False)[number].state.name
            told[-1][state] = told[-1].get(state, 0) + 1

    monkeypatch.setattr(search_efficiency, "ConstrainedOptunaSearch", Seen)
    for is_pruned in (True, False):
        told.append({})
        replay(table, Setting(sampler="random", grace=1, is_pruned=is_pruned), 1, 12)
    pruned, complete = told
    assert pruned["PRUNED"] > 0 and pruned["PRUNED"] + pruned["COMPLETE"] == 12
    assert complete == {"COMPLETE": 12}


def test_needed_epochs_are_a_median_and_where_nine_of_ten_lie():
    curves = [[0.0] * i + [1.0] for i in range(21)]
    assert epochs_to(curves[4], 1.0) == 5
    assert needed(curves, 1.0) == Needed(11, 2, 20)
    assert math.isinf(epochs_to([0.5], 0.6))
    assert str(needed([[0.5], [0.7], [0.5]], 0.6)) == "not reached [1, not reached]"


def test_the_command_compares_settings(path: Path, capsys):
    assert search_efficiency.main([str(path), "--replays", "3", "--samplers", "tpe", "random"]) == 0
    printed = capsys.readouterr().out
    near = 0.99 * objective(2, 3, NUM_EPOCHS)
    assert f"12 points of 9 epochs\nnear: {near:.4f}, reached by 1 points\n" in printed
    grace = Setting().grace
    for line in (
        f"| tpe, 1 of 3 after {grace}, told pruned | 3 | ",
        f"| random, 1 of 3 after {grace}, told pruned | 3 | ",
        "| random, no stop, no first point | 3 | ",
        "told complete | ",
        "| tpe, no stop | ",
        "told pruned, no first point | ",
    ):
        assert line in printed


def test_the_benchmark_compares_the_product_with_a_random_search(path: Path, monkeypatch):
    monkeypatch.setattr(search_efficiency, "TABLE", path)
    monkeypatch.setattr(search_efficiency, "NUM_BASELINES", 5)
    figures = {one.name: one for one in search_efficiency.run(1)}
    assert list(figures) == ["search_epochs_near", "search_epochs_noise", "search_epochs_random"]
    for one in figures.values():
        assert one.ratio == pytest.approx(one.reference / one.ours) and one.unit == "epochs"
        assert 0 < one.ours <= len(search_efficiency.read(path).points) * NUM_EPOCHS
        assert "of 3 replays reached" in one.note


def test_a_search_that_reaches_nothing_counts_with_all_its_epochs():
    curves = [[0.1, 0.9], [0.1, 0.2, 0.3, 0.4], [0.1] * 9]
    assert search_efficiency._median_epochs(curves, 0.8) == 4


def test_the_benchmark_needs_no_texts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """It asked for `--data-dir` or `--sample`, and built features, for every part."""
    monkeypatch.delenv("INFOCAL_DATA", raising=False)
    one = Figure("search_epochs_near", 1.0, 2.0, 2.0, "epochs")
    monkeypatch.setattr(search_efficiency, "run", lambda rounds: iter([one]))
    given = command.build_parser().parse_args(["--only", "search-efficiency"])
    assert list(command._figures(given, tmp_path)) == [one]
    with pytest.raises(PipelineError, match="on which texts"):
        next(command._figures(command.build_parser().parse_args([]), tmp_path))

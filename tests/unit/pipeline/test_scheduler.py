import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState

from infocal.config import InfoCalConfig
from infocal.methods.fresh import FreshConfig
from pipeline.base.errors import PipelineError
from pipeline.study.ledger import Begin, Ledger, Proposal, Reported, TrialRecord
from pipeline.study.scheduler import (
    ConstrainedOptunaSearch,
    asha,
    distributions,
    grace_epochs,
    rungs,
    sampler,
)
from pipeline.training.epochs import EPOCHS, FAILURE, OBJECTIVE, VIOLATION, Epoch
from pipeline.training.settings import SAMPLERS
from pipeline.training.trainable import RESUMED
from search_spaces.infocal import PAPER_BEER, PAPER_BEER_BEST, WIDE_BEER
from search_spaces.space import Choice, Range, num_points
from tests.small_ledger import checkpoint, train

SPACE = (
    Range(name="lambda_mi", low=0.0, high=1.0, step=0.1, why="a test"),
    Range(name="lambda_lm", low=0.0, high=0.01, step=0.001, why="a test"),
)


def search(**changes: Any) -> ConstrainedOptunaSearch:
    drawn = sampler("random", SPACE, 0)
    values = {"space": SPACE, "optuna_sampler": drawn, "first_points": [], "num_epochs": 2}
    return ConstrainedOptunaSearch(**{**values, **changes})


def result(objective: float = 0.5, violation: float = 0.0, **more: Any) -> dict[str, Any]:
    """The last result of a trial; of two epochs unless another number is given."""
    return {OBJECTIVE: objective, VIOLATION: violation, EPOCHS: 2, **more}


def trial(trial_id: str, config: dict[str, Any] | None = None) -> Any:
    """As much of Tune's Trial as the scheduler reads."""
    return SimpleNamespace(trial_id=trial_id, config=config or {})


# ------------------------------------------------------------------------------------------- stopping


@pytest.mark.parametrize(
    ("dense", "ramp", "grace"), [(0.0, 0.0, 1), (1.0, 1.5, 5), (1.0, 1.0, 4), (0.5, 0.5, 3), (2.0, 0.1, 5)]
)
def test_no_trial_is_stopped_before_all_weights_have_acted_for_two_epochs(
    dense: float, ramp: float, grace: int
):
    assert grace_epochs(InfoCalConfig(dense_epochs=dense, ramp_epochs=ramp)) == grace


def test_no_trial_is_stopped_before_the_longest_start_that_is_searched():
    def support(low: float, high: float) -> Range:
        return Range(name="support_epochs", low=low, high=high, why="tested")

    assert grace_epochs(FreshConfig(), (support(1.0, 7.5),)) == 10
    assert grace_epochs(FreshConfig(support_epochs=9.0), (support(1.0, 2.0),)) == 4
    starts = tuple(
        Range(name=f"{part}_epochs", low=0.5, high=2.0, why="tested") for part in ("dense", "ramp")
    )
    assert grace_epochs(InfoCalConfig(), (*starts, *PAPER_BEER)) == 6
    rungs = asha(FreshConfig(), num_epochs=30, space=(support(1.0, 7.5),))._brackets[0]._rungs
    assert min(rung for rung, _ in rungs) == 10


def test_asha_compares_the_best_objective_so_far():
    scheduler = asha(InfoCalConfig(), num_epochs=9)
    assert (scheduler._metric, scheduler._mode) == (OBJECTIVE, "max")
    rungs = [rung for rung, _ in scheduler._brackets[0]._rungs]
    assert min(rungs) == grace_epochs(InfoCalConfig())
    assert scheduler._max_t == 9


def test_a_study_shorter_than_the_ramp_can_be_run():
    assert asha(InfoCalConfig(dense_epochs=5.0), num_epochs=2)._max_t == 2


# --------------------------------------------------------------------------------------------- points


def test_distributions_have_the_bounds_of_the_ranges():
    found = distributions(PAPER_BEER)
    assert list(found) == [r.name for r in PAPER_BEER]
    for r in PAPER_BEER:
        distribution = found[r.name]
        assert (distribution.low, distribution.high, distribution.step) == (r.low, r.high, r.step)
        assert not distribution.log
    assert all(d.log and d.step is None for d in distributions(WIDE_BEER).values())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("tpe", optuna.samplers.TPESampler),
        ("random", optuna.samplers.RandomSampler),
        ("grid", optuna.samplers.GridSampler),
        ("gp", optuna.samplers.GPSampler),
    ],
)
def test_samplers_by_name(name: str, kind: type):
    assert name in SAMPLERS
    with np.errstate(all="ignore"):
        assert isinstance(sampler(name, PAPER_BEER, 0), kind)


@pytest.mark.parametrize("name", ["tpe", "random", "grid"])
def test_points_follow_from_the_seed(name: str):
    def points(seed: int) -> list[dict[str, float] | None]:
        made = search(optuna_sampler=sampler(name, SPACE, seed))
        return [made.suggest(str(i)) for i in range(5)]

    assert points(1) == points(1)
    assert points(1) != points(2)


def test_an_unknown_sampler_is_answered_with_the_known_ones():
    with pytest.raises(PipelineError, match="no sampler `tpee`; the samplers are tpe, random, grid, gp$"):
        sampler("tpee", PAPER_BEER, 0)


def test_a_grid_of_a_continuous_space_is_refused():
    with pytest.raises(
        PipelineError, match="^--sampler grid: range of `lambda_ib` is continuous and has no grid"
    ) as caught:
        sampler("grid", WIDE_BEER, 0)
    assert caught.value.hint == "use `--space paper`"


def test_the_first_point_is_suggested_first():
    point = {"lambda_mi": 0.3, "lambda_lm": 0.007}
    made = search(first_points=[point])
    assert made.suggest("a") == point
    assert made.suggest("b") != point


def test_the_papers_best_is_a_point_of_its_space():
    made = ConstrainedOptunaSearch(PAPER_BEER, sampler("tpe", PAPER_BEER, 0), [PAPER_BEER_BEST], num_epochs=2)
    assert made.suggest("a") == PAPER_BEER_BEST


def test_grid_values_carry_no_floating_point_noise():
    made = search()
    values = {made.suggest(str(i))["lambda_mi"] for i in range(11 * 11)}  # type: ignore[index]
    assert values == {i / 10 for i in range(11)}
    assert 0.1 + 0.2 not in values, "the noise that is meant"


# ------------------------------------------------------------------------------------- what Optuna is told


def told(*results: dict[str, Any] | None, error: bool = False) -> list[optuna.trial.FrozenTrial]:
    made = search()
    for i, one in enumerate(results):
        made.suggest(str(i))
        made.on_trial_complete(str(i), one, error=error)
    return made.study.get_trials()


def test_value_and_constraint_reach_optuna():
    met, missed = told(result(0.5, 0.0), result(-0.2, 0.2))
    assert [(t.state, t.value) for t in (met, missed)] == [
        (TrialState.COMPLETE, 0.5),
        (TrialState.COMPLETE, -0.2),
    ]
    assert [t.constraints for t in (met, missed)] == [{VIOLATION: 0.0}, {VIOLATION: 0.2}]


def test_the_best_trial_is_one_that_meets_the_constraint():
    made = search()
    # a higher value that violates loses against a lower one that does not
    for i, one in enumerate([result(0.9, 0.1), result(0.2, 0.0)]):
        made.suggest(str(i))
        made.on_trial_complete(str(i), one)
    assert made.study.best_trial.number == 1


@pytest.mark.parametrize(
    "last",
    [
        result(math.nan),
        result(math.inf),
        result(-1e9, 1e9, **{FAILURE: "degenerate_all"}),
        {"loss": 0.3},
    ],
    ids=["nan", "inf", "failure", "no objective"],
)
def test_a_result_without_a_usable_objective_is_a_failure(last: dict[str, Any]):
    (trial,) = told(last)
    assert trial.state == TrialState.FAIL
    assert trial.value is None


def test_a_crash_is_a_failure():
    (trial,) = told(result(), error=True)
    assert trial.state == TrialState.FAIL
    (trial,) = told(None, error=True)
    assert trial.state == TrialState.FAIL


def test_a_trial_that_never_reported_is_pruned():
    (trial,) = told(None)
    assert trial.state == TrialState.PRUNED


def test_no_trial_is_left_running():
    states = {t.state for t in told(result(), result(math.nan), None, result(0.1, **{FAILURE: "non_finite"}))}
    assert TrialState.RUNNING not in states
    assert TrialState.WAITING not in states


def test_a_second_completion_changes_nothing():
    # Tune may report a trial's end twice around a restore; Optuna refuses to alter a finished trial
    made = search()
    made.suggest("a")
    made.on_trial_complete("a", result(0.5))
    made.on_trial_complete("a", result(0.9, 0.3))
    (trial,) = made.study.get_trials()
    assert (trial.value, trial.constraints) == (0.5, {VIOLATION: 0.0})


def test_tpe_turns_to_points_that_meet_the_constraint():
    made = search(optuna_sampler=optuna.samplers.TPESampler(seed=0, n_startup_trials=10))
    met = []
    for i in range(40):
        point = made.suggest(str(i))
        assert point is not None
        value = point["lambda_mi"]
        # the objective alone draws to 1, the constraint keeps below 0.3
        made.on_trial_complete(str(i), result(value, max(0.0, value - 0.3)))
        met.append(value <= 0.3)
    assert sum(met[20:]) >= 10, f"{sum(met[:10])} of the first ten, {sum(met[20:])} of the last twenty"


def test_the_study_is_there_once_the_space_is_set():
    assert search().study.direction == optuna.study.StudyDirection.MAXIMIZE
    waiting = search()
    waiting._ot_study = None
    with pytest.raises(PipelineError, match="the search over lambda_mi, lambda_lm has not started"):
        waiting.study  # noqa: B018


# ------------------------------------------------------------------------------------- a driver that died


def past(folder: Path, *trials: tuple[str, int, dict[str, float]]) -> list[TrialRecord]:
    """Trials of four epochs that came as far as they say."""
    ledger = Ledger(folder)
    for trial_id, num_epochs, point in trials:
        train(ledger, trial_id, num_epochs, of=4, config=point)
    return ledger.trials()


def points(num: int) -> list[dict[str, float]]:
    return [{"lambda_mi": round(0.1 * i, 1), "lambda_lm": 0.002} for i in range(num)]


def test_optuna_learns_of_what_has_ended_and_goes_on_with_the_rest(tmp_path: Path):
    first, second, third = points(3)
    records = past(tmp_path, ("open", 1, first), ("over", 4, second))
    made = search(past=records, first_points=[second, first, third])
    over, waiting, queued = made.study.get_trials()
    assert (over.state, over.value, over.params) == (TrialState.COMPLETE, pytest.approx(0.4), second)
    assert (over.constraints, list(over.intermediate_values)) == ({VIOLATION: 0.0}, [1, 2, 3, 4])
    assert {waiting.state, queued.state} == {TrialState.WAITING}
    again = made.suggest("new id")
    assert again == {**first, RESUMED: {"trial_id": "open", "checkpoints": [checkpoint("open", 0)]}}
    assert made.study.get_trials()[1].intermediate_values == {1: pytest.approx(0.1)}
    assert made.suggest("next") == third, "a first point that was tried is not tried again"
    fresh = made.suggest("fresh")
    assert fresh is not None
    assert RESUMED not in fresh
    assert len(made.study.get_trials()) == 4
    made.on_trial_result("new id", result(0.2, **{EPOCHS: 1}))  # an epoch that was trained again
    made.on_trial_result("new id", result(0.3, **{EPOCHS: 2}))
    made.on_trial_complete("new id", result(0.3))
    assert made.study.get_trials()[1].intermediate_values == {1: pytest.approx(0.1), 2: 0.3}
    assert made.study.get_trials()[1].value == 0.3


def test_a_search_can_be_built_from_a_ledger_again_and_again(tmp_path: Path):
    ledger, point = Ledger(tmp_path), points(1)[0]
    ledger.begin("a", point, Proposal(point, {"fixed_params": point}))
    train(ledger, "a", 2, of=2, config=point)
    for _ in range(2):  # a warning of Optuna's would fail it
        (found,) = search(past=ledger.trials()).study.get_trials()
        assert found.constraints == {VIOLATION: 0.0}
    assert VIOLATION not in str(ledger.trials()[0].begin), "what was noted is as it was"


def test_a_trial_that_failed_is_a_failure_again(tmp_path: Path):
    ledger = Ledger(tmp_path)
    train(ledger, "a", 2, of=4, config=points(1)[0], failure=("non_finite", "nan"))
    train(ledger, "b", 0, of=4, config=points(1)[0], failure=("error", "boom"))
    train(ledger, "c", 1, of=1, config=points(1)[0], best_objective=math.nan)
    found = search(past=ledger.trials()).study.get_trials()
    assert [(t.state, t.value) for t in found] == [(TrialState.FAIL, None)] * 3


@pytest.mark.parametrize("name", ["tpe", "random", "grid"])
def test_points_are_not_drawn_again(tmp_path: Path, name: str):
    made = search(optuna_sampler=sampler(name, SPACE, 0))
    ledger, drawn = Ledger(tmp_path), []
    for i in range(5):
        drawn.append(made.suggest(str(i)))
        ledger.begin(str(i), drawn[-1], made.proposal(str(i)))
        if i < 3:
            epoch = Epoch.of_numbers(0, {OBJECTIVE: 0.1 * i, VIOLATION: 0.0})
            ledger.epoch(str(i), epoch, "c", is_last=True)
            made.on_trial_complete(str(i), result(0.1 * i))
    again = search(optuna_sampler=sampler(name, SPACE, 0, num_past=5), past=ledger.trials())
    resumed = [again.suggest(f"r{i}") for i in range(2)]
    assert [{n: v for n, v in p.items() if n != RESUMED} for p in resumed] == drawn[3:]
    further = [again.suggest(f"n{i}") for i in range(4)]
    assert not any(point in drawn for point in further)


def test_rungs_are_what_they_were(tmp_path: Path):
    config = InfoCalConfig(dense_epochs=0.0, ramp_epochs=0.0)
    records = past(tmp_path, ("a", 3, points(1)[0]), ("b", 1, points(1)[0]))
    fresh, again = asha(config, 9), asha(config, 9, records)
    trials = {name: trial(name) for name in "ab"}
    for one in trials.values():
        fresh.on_trial_add(None, one)
    every = [(one.time, record.trial_id, one) for record in records for one in record.epochs.values()]
    for _, name, reported in sorted(every, key=lambda row: row[0]):
        fresh.on_trial_result(None, trials[name], reported.epoch.as_json())
    assert again._brackets[0]._rungs == fresh._brackets[0]._rungs


def test_a_resumed_trial_stands_on_its_rungs_already(tmp_path: Path):
    config = InfoCalConfig(dense_epochs=0.0, ramp_epochs=0.0)
    made = asha(config, 9, past(tmp_path, ("a", 3, points(1)[0]), ("b", 1, points(1)[0])))
    before = [dict(recorded) for _, recorded in made._brackets[0]._rungs]
    again = trial("z", {RESUMED: {"trial_id": "b", "checkpoints": []}})
    made.on_trial_add(None, again)
    assert made.on_trial_result(None, again, result(-1.0, **{EPOCHS: 2, OBJECTIVE: -1.0})) == "CONTINUE"
    assert [dict(recorded) for _, recorded in made._brackets[0]._rungs] == before
    assert made.on_trial_result(None, again, result(-1.0, **{EPOCHS: 3})) == "STOP"
    made.on_trial_complete(None, again, result(-1.0, **{EPOCHS: 3}))


def test_a_failure_stands_on_no_rung():
    made = asha(InfoCalConfig(dense_epochs=0.0, ramp_epochs=0.0), 9)
    one = trial("a")
    made.on_trial_add(None, one)
    last = result(-1e9, 1e9, **{FAILURE: "degenerate_all"})
    assert made.on_trial_result(None, one, last) == "CONTINUE"
    made.on_trial_complete(None, one, last)
    assert [recorded for _, recorded in made._brackets[0]._rungs] == [{}, {}, {}]


# ---------------------------------------------------------------------------------- points tried once

ONE_RANGE = (Range(name="target_selection_rate", low=0.0, high=1.0, step=0.1, why="a test"),)
every_sampler = pytest.mark.parametrize("name", SAMPLERS)


@every_sampler
@pytest.mark.parametrize("at_once", [1, 4])
def test_each_point_is_tried_once_and_then_the_search_ends(name: str, at_once: int):
    made = search(
        space=ONE_RANGE,
        optuna_sampler=sampler(name, ONE_RANGE, 3),
        first_points=[{"target_selection_rate": 0.3}],
    )
    found, running = [], []
    for i in range(11):
        point = made.suggest(str(i))
        assert isinstance(point, dict)
        found.append(point["target_selection_rate"])
        running.append(str(i))
        if len(running) == at_once:
            made.on_trial_complete(running.pop(0), result(found[-1]))
    assert sorted(found) == pytest.approx([i / 10 for i in range(11)])
    assert found[0] == 0.3
    assert made.suggest("one more") == "FINISHED"


@every_sampler
def test_a_resumed_search_tries_no_point_of_before(name: str, tmp_path: Path):
    ledger = Ledger(tmp_path)
    tried = [0.0, 0.1, 0.2, 0.5, 0.9, 1.0]
    for rate in tried:
        train(ledger, f"t{rate}", 2, config={"target_selection_rate": rate})
    made = search(
        space=ONE_RANGE, optuna_sampler=sampler(name, ONE_RANGE, 0, num_past=6), past=ledger.trials()
    )
    found = [made.suggest(str(i))["target_selection_rate"] for i in range(5)]
    assert sorted(found) == pytest.approx([0.3, 0.4, 0.6, 0.7, 0.8])
    assert made.suggest("one more") == "FINISHED"


def test_the_grid_of_the_papers_ranges_has_so_many_points():
    assert num_points(PAPER_BEER) == 10 * 10 * 11 * 11
    assert num_points(ONE_RANGE) == 11
    assert num_points(WIDE_BEER) is None


# ------------------------------------------------------------------------------- trials stopped early


def test_a_trial_that_was_stopped_early_is_pruned_with_its_epochs():
    made = search(num_epochs=9)
    made.suggest("a")
    for epoch, objective in enumerate((-0.4, -0.3, -0.2)):
        made.on_trial_result("a", result(objective, 0.2, **{EPOCHS: epoch + 1}))
    made.on_trial_complete("a", result(-0.2, 0.2, **{EPOCHS: 3}))
    (trial,) = made.study.trials
    assert (trial.state, trial.value) == (TrialState.PRUNED, -0.2)
    assert trial.intermediate_values == {1: -0.4, 2: -0.3, 3: -0.2}
    assert trial.constraints == {VIOLATION: 0.2}


def test_a_trial_of_all_epochs_is_complete():
    made = search(num_epochs=3)
    made.suggest("a")
    made.on_trial_complete("a", result(0.5, **{EPOCHS: 3}))
    assert made.study.trials[0].state == TrialState.COMPLETE


def test_the_ledger_gives_the_same_as_the_search_that_was_there(tmp_path: Path):
    """Of a trial stopped early, one of all epochs and one that failed."""
    ledger, made = Ledger(tmp_path), search(num_epochs=4)
    for name, epochs in (("a", 2), ("b", 4), ("c", 1)):
        point = made.suggest(name)
        failure = ("non_finite", "a test") if name == "c" else None
        train(ledger, name, epochs, of=epochs, config=point, failure=failure)
        (record,) = [r for r in ledger.trials() if r.trial_id == name]
        for reported in record.epochs.values():
            made.on_trial_result(name, reported.epoch.as_json())
        last = {**record.last.epoch.numbers, EPOCHS: epochs} | ({FAILURE: "non_finite"} if failure else {})
        made.on_trial_complete(name, last)
    again = search(num_epochs=4, past=ledger.trials())

    def told(one: ConstrainedOptunaSearch) -> list[tuple[object, ...]]:
        return [(t.state, t.value, t.intermediate_values, t.constraints) for t in one.study.trials]

    assert told(again) == told(made)
    assert [state for state, *_ in told(made)] == [TrialState.PRUNED, TrialState.COMPLETE, TrialState.FAIL]


@pytest.mark.parametrize("num_epochs", [1, 2, 3, 4, 9, 12, 13, 50, 200])
def test_the_rungs_are_those_of_asha(num_epochs: int):
    config = InfoCalConfig()
    there = sorted(rung for rung, _ in asha(config, num_epochs)._brackets[0]._rungs)
    assert rungs(config, num_epochs) == [rung for rung in there if rung < num_epochs]


# ------------------------------------------------------------------------ whole numbers, choices, conditions

MIXED = (
    Choice(name="encoder", choices=("rcnn", "lstm"), why="tested"),
    Range(name="hidden_size", low=2, high=4, is_integer=True, why="tested"),
    Choice(name="pooling", choices=("mean", "max"), when={"encoder": ("lstm",)}, why="tested"),
)
"""Nine points: three with the first encoder, six with the second."""


def records_of(points: list[dict[str, Any]], made: ConstrainedOptunaSearch) -> list[TrialRecord]:
    found = []
    for i, point in enumerate(points):
        begin = Begin(f"t{i}", i, point, made.proposal(f"t{i}"), 1e9 + i)
        record = TrialRecord(begin)
        if i % 2 == 0:
            numbers = {OBJECTIVE: 0.1 * i, VIOLATION: 0.0}
            record.epochs[1] = Reported(Epoch.of_numbers(1, numbers), f"tune/t{i}", True, 1e9 + i)
        found.append(record)
    return found


@pytest.mark.parametrize("name", ["tpe", "random", "grid", "gp"])
def test_every_sampler_draws_each_point_of_a_mixed_space_once(name: str):
    made = search(space=MIXED, optuna_sampler=sampler(name, MIXED, seed=3), first_points=[])
    points = []
    for i in range(9):
        points.append(made.suggest(f"t{i}"))
        made.on_trial_complete(f"t{i}", result(0.1 * i))
    assert made.suggest("t9") == made.FINISHED
    assert len({tuple(sorted(point.items())) for point in points}) == 9
    for point in points:
        assert set(point) == {"encoder", "hidden_size"} | (
            {"pooling"} if point["encoder"] == "lstm" else set()
        )
        assert type(point["hidden_size"]) is int


def test_a_first_point_of_a_mixed_space_is_tried_first():
    first = {"encoder": "lstm", "hidden_size": 3, "pooling": "max"}
    made = search(space=MIXED, optuna_sampler=sampler("tpe", MIXED, seed=3), first_points=[first])
    assert made.suggest("t0") == first


def test_a_search_of_a_mixed_space_is_resumed_with_its_points():
    made = search(space=MIXED, optuna_sampler=sampler("tpe", MIXED, seed=3), first_points=[])
    points = [made.suggest(f"t{i}") for i in range(5)]
    past = records_of(points, made)
    again = search(space=MIXED, optuna_sampler=sampler("tpe", MIXED, seed=3, num_past=5), past=past)
    resumed_points = [again.suggest(f"u{i}") for i in range(4)]
    assert [dict(p, **{RESUMED: None}) for p in resumed_points[:2]] == [
        dict(points[i], **{RESUMED: None}) for i in (1, 3)
    ]
    fresh = [tuple(sorted(p.items())) for p in resumed_points[2:]]
    assert not {*fresh} & {tuple(sorted(p.items())) for p in points}
    known = [t.params for t in again.study.get_trials(deepcopy=False) if t.state.name == "COMPLETE"]
    assert known == [points[0], points[2], points[4]]

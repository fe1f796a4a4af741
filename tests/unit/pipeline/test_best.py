"""Which epoch or trial is the best: one order, whoever asks."""

import ast
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infocal.metrics.resampling import Interval
from pipeline.reporting.results import TrialResult
from pipeline.study import findings
from pipeline.study.criterion import ranked
from pipeline.training.best import Standing, best_first, judged, prediction_of
from pipeline.training.epochs import BestEpoch, Epoch
from tests.small_study import candidate, criterion

ROOT = Path(__file__).resolve().parents[3]

STANDINGS = st.builds(
    Standing,
    value=st.sampled_from([-0.5, -0.1, 0.0, 0.25, 0.5]),
    epoch=st.integers(0, 3),
    lower_bound=st.sampled_from([None, 0.1, 0.2]),
    prediction=st.sampled_from([None, -0.02, 0.7]),
)


def order(*standings: Standing) -> list[int]:
    return [i for i, _ in best_first(enumerate(standings), lambda pair: pair[1])]


def complete(standing: Standing) -> Standing:
    """With all that it is ranked by, and no more."""
    low = None if standing.value < 0 else standing.lower_bound or 0.0
    return dataclasses.replace(standing, lower_bound=low, prediction=standing.prediction or 0.0)


@given(st.lists(STANDINGS.map(complete), max_size=6), st.randoms())
def test_the_order_given_decides_only_between_equals(standings: list[Standing], chance: Any):
    shuffled = list(standings)
    chance.shuffle(shuffled)
    assert best_first(shuffled, lambda one: one) == best_first(standings, lambda one: one)


@given(st.lists(STANDINGS, min_size=1, max_size=6))
def test_one_that_meets_the_bounds_comes_before_any_that_does_not(standings: list[Standing]):
    are_met = [one.value >= 0 for one in best_first(standings, lambda one: one)]
    assert are_met == sorted(are_met, reverse=True)


def test_of_trials_whose_masks_score_alike_the_better_prediction_is_best():
    worse, better = (
        Standing(value=0.5, lower_bound=0.4, epoch=epoch, prediction=prediction)
        for epoch, prediction in ((1, -0.04), (8, -0.02))
    )
    assert order(worse, better) == [1, 0]
    assert order(worse, dataclasses.replace(better, prediction=None)) == [0, 1], "else the earlier epoch"
    assert order(worse, dataclasses.replace(better, lower_bound=0.41, prediction=None)) == [1, 0]


@pytest.mark.parametrize(
    ("scores", "prefix", "expected"),
    [
        ({"val_macro_f1": 0.7, "val_mse": 0.1}, "val_", 0.7),
        ({"val_mse": 0.1}, "val_", -0.1),
        ({"best_val_mse": 0.1}, "best_val_", -0.1),
        ({"mse": 0.1}, "", -0.1),
        ({"val_token_f1": 0.1}, "val_", None),
    ],
)
def test_a_prediction_is_as_good_as_its_score(scores: dict[str, float], prefix: str, expected: float | None):
    assert prediction_of(scores, prefix) == expected


@pytest.mark.parametrize(("is_result", "expected"), [(True, (0.0, 0.3)), (False, (1.0, -1.0))])
def test_what_can_be_no_result_meets_no_criterion(is_result: bool, expected: tuple[float, float]):
    scores = {"val_token_precision": 0.9, "val_token_recall": 0.3}
    assert judged(criterion(0.5), scores, is_result=is_result) == expected


def test_the_ledger_the_checkpoint_and_mlflow_name_the_same_best_trial():
    """Two trials whose rationales score alike; the second predicts better, at a later epoch."""
    numbers = [
        {"best_objective": 0.5, "best_epoch": epoch, "best_lower_bound": 0.4, "best_val_mse": error}
        for epoch, error in ((1, 0.04), (8, 0.02))
    ]
    epochs = [Epoch.of_numbers(9, one | {"criterion_violation": 0.0}) for one in numbers]
    assert order(*(epoch.best.standing for epoch in epochs)) == [1, 0]
    candidates = [
        candidate(str(i), epoch=int(one["best_epoch"]), value=0.5, lower_bound=0.4, scores=scores)
        for i, one in enumerate(numbers)
        if (scores := {"val_mse": one["best_val_mse"]})
    ]
    assert [one.trial_id for one in ranked(candidates)] == ["1", "0"]
    results = [
        TrialResult(
            run_id=str(i),
            name=str(i),
            status="FINISHED",
            objective=0.5,
            lower_bound=0.4,
            epoch=int(one["best_epoch"]),
            scores={"mse": one["best_val_mse"]},
        )
        for i, one in enumerate(numbers)
    ]
    assert [one.name for one in findings.ranked(results)] == ["1", "0"]


def test_nothing_else_orders_by_the_criterion():
    """No `max`, `min` or `sorted` outside of this module whose key reads a value of the criterion."""
    names = {"value", "objective", "lower_bound", "best_objective"}
    found = []
    for path in (ROOT / "pipeline").rglob("*.py"):
        if path.name == "best.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            keys = [one.value for one in node.keywords if one.arg == "key"]
            read = {part.attr for key in keys for part in ast.walk(key) if isinstance(part, ast.Attribute)}
            if node.func.id in ("max", "min", "sorted") and read & names:
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []


# ------------------------------------------------------------------------------------ the best epoch, stored

BEST = BestEpoch(
    epoch=3,
    value=0.5,
    violation=0.0,
    scores={"val_mse": 0.02, "val_token_recall": 0.5},
    intervals={"val_token_recall": Interval(0.4, 0.6, 0.05)},
    lower_bound=0.4,
)


def test_the_best_epoch_is_stored_as_before():
    """As versions without this type wrote it: each of them reads the checkpoints of the other."""
    assert json.dumps(BEST.as_json()) == (
        '{"epoch": 3, "value": 0.5, "violation": 0.0, "is_met": true, "degenerate": null, '
        '"scores": {"val_mse": 0.02, "val_token_recall": 0.5}, '
        '"intervals": {"val_token_recall": [0.4, 0.6, 0.05]}, "lower_bound": 0.4}'
    )


@pytest.mark.parametrize("best", [BEST, dataclasses.replace(BEST, intervals={}, lower_bound=None)])
def test_what_is_stored_is_read_back(best: BestEpoch):
    assert BestEpoch.of_json(json.loads(json.dumps(best.as_json() | {"environment": {}}))) == best


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epoch": "3"}, "a whole number as `epoch` and numbers as scores"),
        ({"epoch": True}, "a whole number as `epoch` and numbers as scores"),
        ({"value": None}, "a whole number as `epoch` and numbers as scores"),
        ({"scores": [0.5]}, "an epoch with its `scores`"),
        ({"scores": {"val_mse": "low"}}, "a whole number as `epoch` and numbers as scores"),
        ({"degenerate": 1}, "text or null as `degenerate`"),
        ({"intervals": {"val_mse": [0.1, 0.2]}}, "intervals of three numbers"),
        ({"intervals": [0.1]}, "intervals of three numbers"),
        ({"lower_bound": "low"}, "intervals of three numbers"),
    ],
)
def test_something_else_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=f"expected {message}"):
        BestEpoch.of_json(BEST.as_json() | changes)


@pytest.mark.parametrize("found", [None, [], {}, {"epoch": 1}])
def test_what_is_no_epoch_is_refused(found: Any):
    with pytest.raises(ValueError, match="expected an epoch with its `scores`"):
        BestEpoch.of_json(found)


@pytest.mark.parametrize(("violation", "is_result"), [(0.0, True), (0.4, True), (1.0, False), (1.6, False)])
def test_whether_an_epoch_can_be_a_result_is_kept_and_known_of_an_older_version(
    violation: float, is_result: bool
):
    one = dataclasses.replace(BEST, violation=violation, is_result=is_result)
    stored = one.as_json()
    assert BestEpoch.of_json(stored).is_result is is_result
    stored.pop("is_result", None)
    assert BestEpoch.of_json(stored).is_result is is_result


def test_a_lower_bound_counts_only_if_each_epoch_that_meets_the_bounds_has_one():
    drawn = Standing(value=0.5, epoch=1, lower_bound=0.3)
    assert order(drawn, Standing(value=0.4, epoch=0)) == [0, 1]
    assert order(drawn, Standing(value=0.4, epoch=0, lower_bound=0.35)) == [1, 0]
    assert order(drawn, Standing(value=0.0, epoch=0), Standing(value=0.4, epoch=0, lower_bound=0.35)) == [
        0,
        2,
        1,
    ]
    assert order(drawn, Standing(value=-0.1, epoch=0), Standing(value=0.4, epoch=0, lower_bound=0.35)) == [
        2,
        0,
        1,
    ]


def test_a_value_of_zero_meets_the_bounds():
    worse = Standing(value=0.0, epoch=0, lower_bound=-0.5)
    assert order(worse, Standing(value=0.0, epoch=1, lower_bound=-0.1)) == [1, 0]

import math
from typing import Any

import pytest

from pipeline.base.trajectories import (
    BIT_FOR_BIT,
    DIFFERS,
    TOLERANCE,
    WITHIN,
    Failure,
    Trajectory,
    TrajectoryComparison,
    compare,
    compared,
)

TWO = {0: {"a": 1.0, "b": 0.5}, 1: {"a": 2.0, "b": 0.25}}
LOST = Failure(2, "degenerate_none", "degenerate_none: epoch 2: selection rate 0.000")


def again(**changes: float) -> dict[int, dict[str, float]]:
    """TWO, with changes in its second epoch."""
    return {0: dict(TWO[0]), 1: TWO[1] | changes}


def agreement(other: dict[int, dict[str, float]], tolerance: float = TOLERANCE) -> TrajectoryComparison:
    return compare(Trajectory(TWO), Trajectory(other), tolerance)


def test_equal_numbers_agree_bit_for_bit():
    found = agreement(again())
    assert (found.verdict, found.agrees, found.first()) == (BIT_FOR_BIT, True, None)
    assert found.sentence() == "agrees bit for bit: 2 metrics over 2 epochs"


def test_the_last_bit_counts():
    found = agreement(again(b=math.nextafter(0.25, 1)))
    assert (found.verdict, found.agrees) == (WITHIN, True)
    assert found.sentence() == (
        "agrees within 0.001: 2 metrics over 2 epochs; the largest difference is 5.6e-17 at epoch 2 in b"
    )
    assert agreement(again(b=math.nextafter(0.25, 1)), tolerance=0).verdict == DIFFERS


@pytest.mark.parametrize(
    ("recorded", "value", "agrees"),
    [
        (0.5, 0.509, True),
        (0.5, 0.511, False),
        (200.0, 201.9, True),
        (200.0, 202.1, False),
        (-200.0, -201.9, True),
    ],
)
def test_a_difference_is_relative_beyond_1_alone(recorded: float, value: float, agrees: bool):
    found = compare(Trajectory({0: {"a": recorded}}), Trajectory({0: {"a": value}}), tolerance=0.01)
    assert found.agrees is agrees


def test_the_first_epoch_that_differs_is_named_with_its_largest_difference():
    other = {0: {"a": 1.0, "b": 0.6}, 1: {"a": 9.0, "b": 0.25}}
    found = agreement(other)
    assert found.sentence() == "differs: first at epoch 1 in b (recorded training 0.5, repeated training 0.6)"
    first = found.first()
    assert first is not None
    assert (first.epoch, first.metric, first.recorded, first.again) == (0, "b", 0.5, 0.6)


def test_the_growth_of_the_difference_is_known_by_epoch():
    found = agreement({0: {"a": 1.0, "b": 0.75}, 1: {"a": 3.0, "b": 0.5}})
    assert found.growth() == [(0, 0.25), (1, 0.5)]


def test_a_number_on_one_side_alone_is_a_difference():
    found = agreement({0: TWO[0], 1: {"a": 2.0}})
    assert (
        found.sentence() == "differs: first at epoch 2 in b (recorded training 0.25, repeated training none)"
    )
    missing = compare(Trajectory({0: {"a": 1.0}, 1: {}}), Trajectory({0: {"a": 1.0}, 1: {"a": 1.0}}))
    assert (
        missing.sentence() == "differs: first at epoch 2 in a (recorded training none, repeated training 1)"
    )
    assert missing.as_json()["first_difference"]["gap"] is None, "infinity is no JSON"


def test_what_was_finite_in_neither_agrees():
    recorded = Trajectory({0: {"a": 1.0}, 1: {"a": 1.0, "b": 1.0}})
    assert compare(recorded, recorded).verdict == BIT_FOR_BIT


def test_epochs_and_metrics_without_a_record_are_named_and_not_compared():
    found = compare(
        Trajectory({0: {"a": 1.0}, 2: {"a": 3.0}}),
        Trajectory({0: {"a": 1.0, "new": 1.0}, 1: {"a": 2.0}, 2: {"a": 3.0}}),
    )
    assert found.verdict == BIT_FOR_BIT
    assert (found.not_logged, found.new) == ([1], ["new"])


@pytest.mark.parametrize(
    ("other", "agrees"),
    [
        (LOST, True),
        (Failure(2, "degenerate_none", "said otherwise"), True),
        (Failure(1, "degenerate_none", ""), False),
        (Failure(2, "non_finite", ""), False),
        (None, False),
    ],
)
def test_a_failure_agrees_where_reason_and_epoch_do(other: Failure | None, agrees: bool):
    found = compare(Trajectory(TWO, LOST), Trajectory(again(), other))
    assert found.agrees is agrees
    assert compare(Trajectory(TWO), Trajectory(again(), other)).agrees is (other is None)


def test_failures_are_told_apart_in_words():
    end = "the recorded training had degenerate_none at epoch 3 (selection rate 0.000)"
    assert compare(Trajectory(TWO, LOST), Trajectory(TWO, LOST)).sentence() == (
        "agrees bit for bit: 2 metrics over 2 epochs, and the failure is the same"
    )
    assert compare(Trajectory(TWO, LOST), Trajectory(TWO)).sentence() == (
        f"differs: {end}, the repeated training had no failure"
    )
    at_once = Failure(0, "non_finite", "x")
    assert compare(Trajectory(TWO), Trajectory({}, at_once)).sentence() == (
        "differs: the recorded training had no failure, the repeated training had non_finite at epoch 1 (x)"
    )
    assert compare(Trajectory({}, at_once), Trajectory({}, at_once)).sentence() == (
        "agrees bit for bit: both trainings failed in the same way before the end of the first epoch"
    )


def test_a_number_that_differs_is_named_before_the_failure_that_it_led_to():
    found = compare(Trajectory(TWO), Trajectory({0: {"a": 1.5, "b": 0.5}}, Failure(1, "non_finite", "x")))
    assert found.sentence() == "differs: first at epoch 1 in a (recorded training 1, repeated training 1.5)"


def test_times_readings_of_test_and_what_is_no_finite_number_are_left_out():
    values: dict[str, Any] = {
        **{
            "epoch": 3,
            "epochs": 4,
            "epoch_s": 1.0,
            "train_s": 1.0,
            "tokens_per_s": 5.0,
            "test_token_f1": 0.5,
            "annotated_auprc": 0.5,
        },
        **{"val_mse": 0.25, "best_epoch": 2, "flag": True, "name": "x", "a": math.nan, "b": math.inf},
    }
    assert compared(values) == {"val_mse": 0.25, "best_epoch": 2.0}


def test_the_table_begins_with_what_is_asked_for_and_goes_on_with_what_differs_most():
    recorded = Trajectory({0: {"a": 0.5, "b": 0.5, "c": 0.5, "d": 0.5}})
    other = Trajectory({0: {"a": 0.5, "b": 0.6, "c": 0.7, "d": 0.5}})
    table = compare(recorded, other).aligned(["d", "unknown"]).splitlines()
    assert table == [
        "metric  epoch  recorded  repeated  difference",
        "d           1       0.5       0.5           0",
        "c           1       0.5       0.7         0.2",
        "b           1       0.5       0.6         0.1",
        "... and 1 metric more: `--json` writes every metric for every epoch",
    ]


def test_a_table_stays_short():
    names = [f"m{i:02d}" for i in range(40)]
    found = compare(Trajectory({0: dict.fromkeys(names, 0.5)}), Trajectory({0: dict.fromkeys(names, 0.6)}))
    table = found.aligned([]).splitlines()
    assert len(table) == 26
    assert table[-1].startswith("... and 16 metrics more")


def test_a_metric_is_shown_at_its_largest_difference_or_else_at_its_last_epoch():
    found = agreement({0: {"a": 1.25, "b": 0.5}, 1: {"a": 2.125, "b": 0.25}})
    assert [(cell.metric, cell.epoch) for cell in found.worst()] == [("a", 0), ("b", 1)]

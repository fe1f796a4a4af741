"""An epoch as it is stored and sent: what older versions wrote is read, and nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infocal.metrics.resampling import Interval
from pipeline.base.trajectories import Failure
from pipeline.training.epochs import BestEpoch, BestSoFar, Epoch, report_of, reported

WRITTEN = (
    '{"epoch": 2, "epochs": 3, "best_val_token_recall": 0.5, "best_val_mse": 0.02, '
    '"best_val_token_recall_se": 0.05, "best_lower_bound": 0.4, "objective": 0.25, "best_objective": 0.5, '
    '"best_epoch": 1, "criterion_violation": 0.0, "val_token_recall": 0.25, "val_mse": 0.03, '
    '"train_objective": 0.1, "train_s_of_a_rival": 0.7, "gradient_share_ib": 0.2, "learning_rate": 0.01, '
    '"epoch_s": 2.0, "train_s": 1.5, "tokens_per_s": 800.0}'
)
"""An epoch as the version before there was a type wrote it."""
EPOCH = Epoch(
    number=2,
    best=BestSoFar(
        value=0.5,
        violation=0.0,
        epoch=1,
        lower_bound=0.4,
        scores={"val_token_recall": 0.5, "val_mse": 0.02},
        errors={"val_token_recall": 0.05},
    ),
    objective=0.25,
    metrics={
        **{"val_token_recall": 0.25, "val_mse": 0.03, "train_objective": 0.1, "train_s_of_a_rival": 0.7},
        "gradient_share_ib": 0.2,
    },
    learning_rate=0.01,
    epoch_s=2.0,
    train_s=1.5,
    tokens_per_s=800.0,
)


def test_it_is_stored_as_before_and_read_back():
    assert json.dumps(EPOCH.as_json()) == WRITTEN
    assert Epoch.of_json(json.loads(WRITTEN)) == EPOCH
    assert reported(report_of(EPOCH)) == EPOCH


def test_an_older_version_reported_less():
    found = Epoch.of_json({"epoch": 0, "best_objective": -0.1, "criterion_violation": 0.1, "val_mse": 0.02})
    assert found.metrics == {"val_mse": 0.02}
    assert (found.objective, found.best.epoch, found.epoch_s) == (None, None, None)
    assert found.best.standing.epoch == 0
    assert found.numbers == {"best_objective": -0.1, "criterion_violation": 0.1, "val_mse": 0.02}


NAMES = st.sampled_from(
    [
        "best_val_mse",
        "best_val_mse_se",
        "best_lower_bound",
        "objective",
        "val_mse",
        "train_a",
        "epoch_s",
        "other",
    ]
)


@given(st.dictionaries(NAMES, st.floats(allow_nan=False)), st.floats(allow_nan=False), st.integers(0, 99))
def test_no_number_is_lost(numbers: dict[str, float], value: float, best: int):
    given_ = {**numbers, "best_objective": value, "criterion_violation": 0.0, "best_epoch": float(best)}
    assert Epoch.of_numbers(7, given_).numbers == given_


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epoch": None}, "expected an epoch with its number"),
        ({"epoch": "2"}, "expected an epoch with its number"),
        ({"epoch": True}, "expected an epoch with its number"),
        ({"best_epoch": 1.5}, "expected the number of an epoch as `best_epoch`, but got 1.5"),
        ({"best_epoch": float("nan")}, "expected the number of an epoch as `best_epoch`, but got nan"),
        ({"val_mse": "low"}, "expected a number as `val_mse`, but got low"),
        ({"best_val_mse": None}, "expected a number as `best_val_mse`, but got None"),
        ({"train_s": [1.0]}, r"expected a number as `train_s`, but got \[1.0\]"),
    ],
)
def test_something_else_is_refused(changes: dict[str, Any], message: str):
    with pytest.raises(ValueError, match=message):
        Epoch.of_json(json.loads(WRITTEN) | changes)


@pytest.mark.parametrize("name", ["best_objective", "criterion_violation"])
def test_what_the_search_reads_has_to_be_there(name: str):
    less = {key: value for key, value in json.loads(WRITTEN).items() if key != name}
    with pytest.raises(ValueError, match=f"an epoch without `{name}`"):
        Epoch.of_json(less)


@pytest.mark.parametrize("found", [None, 3, [], "epoch", {}])
def test_what_is_no_epoch_is_refused(found: Any):
    with pytest.raises(ValueError, match="expected an epoch with its number"):
        Epoch.of_json(found)


def test_a_failure_is_reported_below_all_epochs():
    """Tune compares both numbers, and refuses a report without them."""
    failure = Failure(3, "non_finite", "non_finite: epoch 3: the loss is nan")
    assert report_of(failure) == {
        "epoch": 3,
        "failure": "non_finite",
        "failure_message": "non_finite: epoch 3: the loss is nan",
        "objective": -1e9,
        "best_objective": -1e9,
        "criterion_violation": 1e9,
    }
    assert reported(report_of(failure)) == failure


def test_of_the_best_epoch_each_epoch_repeats_what_reports_show():
    best = BestEpoch(
        epoch=1,
        value=0.5,
        violation=0.0,
        scores={"val_mse": 0.02, "val_token_recall": 0.5, "val_auprc": 0.6},
        intervals={"val_token_recall": Interval(0.4, 0.6, 0.05)},
        lower_bound=0.4,
    )
    assert BestSoFar.of(best, ["val_token_recall", "val_mse"]) == EPOCH.best
    assert BestSoFar.of(best, ["val_token_recall", "val_mse"]).standing == best.standing

"""Ranges, bounds and criteria."""

import math

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.base import Bound, Criterion
from search_spaces.space import Range, without_noise

few = settings(max_examples=30)
numbers = st.floats(-1, 1)


def stepped(low=0.0, high=1.0, step=0.25, name="lambda_x"):
    return Range(name=name, low=low, high=high, step=step, why="a test")


def criterion(limit=0.9, rate=0.5):
    return Criterion(
        metric="recall",
        bounds=(
            Bound(metric="precision", limit=limit, kind="at_least"),
            Bound(metric="selection_rate", limit=rate, kind="at_most"),
        ),
        why="a test",
    )


def scores(precision=0.95, rate=0.1, recall=0.6):
    return {"precision": precision, "selection_rate": rate, "recall": recall}


# ---------------------------------------------------------------- ranges


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"low": 1.0, "high": 1.0}, "range of `lambda_x`: low 1.0 must be below high 1.0"),
        ({"low": 2.0, "high": 1.0}, "range of `lambda_x`: low 2.0 must be below high 1.0"),
        ({"low": math.nan, "high": 1.0}, "range of `lambda_x`: low nan must be below high 1.0"),
        (
            {"low": 0.0, "high": 1.0, "log": True},
            "range of `lambda_x`: a log scale needs low > 0 and no step, but got low 0.0, step None",
        ),
        (
            {"low": 0.1, "high": 1.0, "log": True, "step": 0.1},
            "range of `lambda_x`: a log scale needs low > 0 and no step, but got low 0.1, step 0.1",
        ),
        (
            {"low": 0.0, "high": 1.0, "step": 0.3},
            "range of `lambda_x`: the width of 0.0..1.0 is not a multiple of the step 0.3",
        ),
        (
            {"low": 0.0, "high": 1.0, "step": 0.0},
            "range of `lambda_x`: the width of 0.0..1.0 is not a multiple of the step 0.0",
        ),
        ({"low": 0.0, "high": 1.0, "step": -0.5}, "0.0..1.0 is not a multiple of the step -0.5"),
    ],
)
def test_range_errors(values, message):
    with pytest.raises(ValueError, match=message):
        Range(name="lambda_x", why="a test", **values)


def test_a_grid_has_both_ends_and_no_noise():
    assert stepped(0.0, 1.0, 0.1).grid == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


def test_a_continuous_range_has_no_grid():
    continuous = Range(name="lambda_x", low=0.1, high=1.0, log=True, why="a test")
    with pytest.raises(
        ValueError, match="range of `lambda_x` is continuous and has no grid; choose a stepped"
    ):
        _ = continuous.grid


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, True), (0.25, True), (1.0, True), (0.3, False), (-0.25, False), (1.25, False)],
)
def test_a_stepped_range_contains_its_grid(value, expected):
    assert stepped().contains(value) is expected


@pytest.mark.parametrize(
    ("value", "expected"), [(0.1, True), (0.7, True), (1.0, True), (0.09, False), (1.1, False)]
)
def test_a_continuous_range_contains_what_lies_between(value, expected):
    assert Range(name="lambda_x", low=0.1, high=1.0, why="a test").contains(value) is expected


@few
@given(st.integers(1, 40), st.sampled_from([0.0001, 0.001, 0.1, 0.25, 3.0]), st.integers(0, 5))
def test_whatever_is_drawn_stands_on_the_grid(steps, step, first):
    low, middle, high = (without_noise(i * step) for i in (first, first + steps // 2, first + steps))
    grid = stepped(low, high, step)
    trial = optuna.trial.FixedTrial({"lambda_x": middle})
    assert grid.suggest(trial) in grid.grid
    assert len(set(grid.grid)) == steps + 1
    assert all(grid.contains(point) for point in grid.grid)


def test_a_trial_is_asked_for_name_ends_step_and_scale():
    asked = []

    class Trial:
        def suggest_float(self, name, low, high, *, step=None, log=False):
            asked.append((name, low, high, step, log))
            return 0.30000000000000004

    assert stepped(0.0, 1.0, 0.1).suggest(Trial()) == 0.3
    assert Range(name="y", low=0.1, high=10.0, log=True, why="a test").suggest(Trial()) == 0.3
    assert asked == [("lambda_x", 0.0, 1.0, 0.1, False), ("y", 0.1, 10.0, None, True)]


# ---------------------------------------------------------------- bounds and criteria


@pytest.mark.parametrize(
    ("kind", "value", "violation"),
    [
        ("at_least", 0.9, 0.0),
        ("at_least", 0.5, 0.0),
        ("at_least", 0.3, 0.2),
        ("at_most", 0.3, 0.0),
        ("at_most", 0.8, 0.3),
    ],
)
def test_a_bound_is_broken_by_the_distance(kind, value, violation):
    bound = Bound(metric="precision", limit=0.5, kind=kind)
    assert bound.violation({"precision": value}) == pytest.approx(violation)


@pytest.mark.parametrize("kind", ["at_lest", "", ">=", None])
def test_a_bound_of_an_unknown_kind_is_refused(kind):
    with pytest.raises(
        ValueError, match=f"^bound on `precision`: kind must be one of at_least, at_most, but got {kind!r}$"
    ):
        Bound(metric="precision", limit=0.5, kind=kind)


def test_a_criterion_reads_as_a_sentence():
    assert str(criterion()) == "best recall with precision >= 0.9, selection_rate <= 0.5"


@few
@given(st.floats(0.9, 1), st.floats(0, 0.5), st.floats(0, 1))
def test_the_value_is_the_metric_where_the_bounds_hold(precision, rate, recall):
    point = scores(precision, rate, recall)
    assert criterion().is_met(point)
    assert criterion().value(point) == recall


def test_the_value_is_minus_the_sum_of_violations_elsewhere():
    point = scores(precision=0.7, rate=0.6)
    assert not criterion().is_met(point)
    assert criterion().violation(point) == pytest.approx(0.3)
    assert criterion().value(point) == pytest.approx(-0.3)


@few
@given(numbers, numbers, numbers, numbers)
def test_less_violation_is_never_worth_less(a, b, c, d):
    first, second = scores(a, b, recall=0.0), scores(c, d, recall=0.0)
    if criterion().violation(first) < criterion().violation(second):
        assert criterion().value(first) > criterion().value(second)
        assert criterion().value(second) < 0


@few
@given(numbers, st.floats(0, 1))
def test_the_feasible_beat_the_infeasible(precision, recall):
    worst_feasible = criterion().value(scores(recall=0.0))
    point = scores(precision=precision, recall=recall)
    assert criterion().is_met(point) or criterion().value(point) < worst_feasible


def test_an_empty_selection_is_infeasible():
    # nothing selected: precision counts as 0
    empty = scores(precision=0.0, rate=0.0, recall=0.0)
    assert not criterion().is_met(empty)
    assert criterion().value(empty) == -0.9


@pytest.mark.parametrize("name", ["precision", "selection_rate", "recall"])
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_score_that_is_not_finite_is_refused(name, value):
    with pytest.raises(ValueError, match=f"the criterion reads `{name}`, which is {value}"):
        criterion().value(scores() | {name: value})


def test_a_limit_can_be_changed():
    other = criterion().with_limit("precision", 0.5, "asked for")
    assert str(other) == "best recall with precision >= 0.5, selection_rate <= 0.5"
    assert other.why == "asked for"
    assert other.with_limit("precision", 0.5, "asked for again") is other, "nothing has changed"
    assert str(criterion()) == "best recall with precision >= 0.9, selection_rate <= 0.5"


def test_a_limit_on_what_is_not_bounded_is_refused():
    with pytest.raises(ValueError, match="no bound on `recall`: best recall with precision >= 0.9"):
        criterion().with_limit("recall", 0.5, "asked for")


@given(
    st.lists(
        st.builds(
            Bound,
            metric=st.sampled_from(["val_token_precision", "val_accuracy", "val_selection_rate"]),
            limit=st.floats(0, 1),
            kind=st.sampled_from(["at_least", "at_most"]),
        ),
        max_size=3,
    ),
    st.text(max_size=20),
)
def test_a_criterion_is_the_same_after_json(bounds: list[Bound], why: str):
    stated = Criterion(metric="val_token_recall", bounds=tuple(bounds), why=why)
    assert Criterion.from_json(stated.to_json()) == stated


@pytest.mark.parametrize(
    "text",
    [
        "",
        "best recall with precision >= 0.9",
        "[]",
        "{}",
        '{"metric": "recall", "bounds": [{"metric": "precision"}], "why": ""}',
        '{"metric": "recall", "bounds": [{"metric": "p", "limit": 0.9, "kind": "more"}], "why": ""}',
        "[" * 100_000,
    ],
)
def test_what_is_no_criterion_is_refused(text: str):
    with pytest.raises(ValueError, match="expected a criterion as JSON, but got"):
        Criterion.from_json(text)


def test_a_criterion_without_bounds_is_a_sentence():
    assert str(Criterion(metric="recall", bounds=(), why="a test")) == "best recall"


@pytest.mark.parametrize(
    "text",
    [
        "best val_recall with val_precision >= 0.878",
        "best val_f1 with val_accuracy >= 0.61, val_selection_rate <= 0.5",
        "best val_f1",
    ],
)
def test_a_criterion_is_read_from_its_own_sentence(text: str):
    assert str(Criterion.parse(text)) == text
    assert str(Criterion.parse(text.removeprefix("best "))) == text
    assert str(Criterion.parse(text.replace(">= ", ">=").replace(", ", ","))) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "best",
        "best x with",
        "x with y > 1",
        "x with y >= z",
        "x with y >= 1,",
        "x y",
        "best x with y >= 1 2",
    ],
)
def test_another_sentence_is_no_criterion(text: str):
    with pytest.raises(ValueError, match="expected `best NAME with NAME >= NUMBER, NAME <= NUMBER`, but got"):
        Criterion.parse(text)


# --------------------------------------------------------------------------------- at one selection rate


def of_rate(*bounds: Bound) -> Criterion:
    return Criterion(metric="val_token_recall", bounds=bounds, why="a test")


def rate_bound(limit: float, kind: str) -> Bound:
    return Bound(metric="val_selection_rate", limit=limit, kind=kind)


@pytest.mark.parametrize(
    ("rate", "said"), [(0.08, "8"), (0.5, "50"), (0.125, "12.5"), (0.0075, "0.75"), (1 / 3, "33.3333")]
)
def test_a_criterion_says_at_which_rate_models_are_judged(rate: float, said: str):
    bound = Bound(metric="val_token_precision", limit=0.74, kind="at_least")
    text = str(of_rate(bound).at_rate(rate))
    assert text == f"best val_token_recall with val_token_precision >= 0.74, at {said} % of the tokens"
    assert str(of_rate().at_rate(rate)) == f"best val_token_recall, at {said} % of the tokens"
    for one in (text, str(of_rate().at_rate(rate))):
        assert str(Criterion.parse(one)) == one
        assert Criterion.parse(one).rate == pytest.approx(rate, abs=1e-6)


def test_the_rate_is_the_same_after_json_and_older_json_has_none():
    one = of_rate(rate_bound(0.3, "at_most")).at_rate(0.08)
    assert Criterion.from_json(one.to_json()) == one
    older = one.to_json().replace(', "rate": 0.08', "")
    assert Criterion.from_json(older).rate is None
    with pytest.raises(ValueError, match="expected a criterion as JSON"):
        Criterion.from_json(one.to_json().replace('"rate": 0.08', '"rate": [8]'))


@pytest.mark.parametrize(
    ("given", "kind", "rate", "limit"),
    [
        (0.5, "at_most", 0.5, 0.52),  # a held rate of .5003 would miss it by rounding
        (0.3, "at_most", 0.4, 0.42),
        (0.14, "at_most", 0.13, 0.14),
        (0.01, "at_least", 0.08, 0.01),
        (0.01, "at_least", 0.01, 0.005),
    ],
)
def test_a_bound_that_a_held_rate_cannot_keep_moves_aside(given: float, kind: str, rate: float, limit: float):
    assert of_rate(rate_bound(given, kind)).at_rate(rate).bounds == (rate_bound(limit, kind),)


def test_a_held_rate_leaves_other_bounds():
    precision = Bound(metric="val_token_precision", limit=0.05, kind="at_least")
    assert of_rate(precision).at_rate(0.2).bounds == (precision,)


def test_another_limit_keeps_the_rate():
    bound = Bound(metric="val_token_precision", limit=0.74, kind="at_least")
    assert of_rate(bound).at_rate(0.08).with_limit("val_token_precision", 0.5, "a test").rate == 0.08

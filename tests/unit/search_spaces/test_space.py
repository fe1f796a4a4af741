"""Search spaces of numbers, whole numbers, choices and conditions."""

import random

import optuna
import pytest

from search_spaces import space as spaces
from search_spaces.space import Choice, Parameter, Range, Space

ENCODER = Choice(name="encoder", choices=("rcnn", "lstm"), why="tested")
SIZE = Range(name="hidden_size", low=50, high=200, step=50, is_integer=True, why="tested")
DEPTH = Range(name="layers", low=1, high=3, is_integer=True, when={"encoder": ("lstm",)}, why="tested")
WEIGHT = Range(name="lambda_ib", low=0.0, high=0.3, step=0.1, why="tested")
RATE = Range(name="learning_rate", low=1e-5, high=1e-2, log=True, why="tested")
FLAG = Choice(name="train_embeddings", choices=(False, True), when={"layers": (2, 3)}, why="tested")
MIXED: Space = (ENCODER, SIZE, DEPTH, WEIGHT, FLAG)


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setattr(optuna.logging.get_logger("optuna.study.study"), "disabled", True)


def asked(space: Space, count: int) -> list[dict]:
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [spaces.suggest(space, study.ask()) for _ in range(count)]


def drawn(space: Space, count: int) -> list[dict]:
    chance = random.Random(0)
    return [spaces.draw(space, chance) for _ in range(count)]


@pytest.mark.parametrize("points", [asked(MIXED, 1500), drawn(MIXED, 1500)], ids=["optuna", "random"])
def test_a_point_has_a_value_for_each_hyper_parameter_that_applies(points):
    seen = set()
    for point in points:
        wanted = {"encoder", "hidden_size", "lambda_ib"}
        wanted |= {"layers"} if point["encoder"] == "lstm" else set()
        wanted |= {"train_embeddings"} if point.get("layers") in (2, 3) else set()
        assert set(point) == wanted
        assert spaces.restricted(MIXED, point) == point
        assert type(point["hidden_size"]) is int and point["hidden_size"] in (50, 100, 150, 200)
        assert type(point.get("train_embeddings", False)) is bool
        seen.add(tuple(sorted(point.items())))
    # rcnn: 4 sizes x 4 weights; lstm: those with one layer, and with two or three and the flag on or off
    assert len(seen) == spaces.num_points(MIXED) == 16 + 16 * (1 + 2 * 2)


def test_a_continuous_range_leaves_a_space_without_a_number_of_points():
    assert spaces.num_points((*MIXED, RATE)) is None
    assert RATE.is_continuous and not DEPTH.is_continuous
    assert DEPTH.grid == (1, 2, 3)
    assert all(RATE.contains(point["learning_rate"]) for point in drawn((RATE,), 50))


@pytest.mark.parametrize(
    ("point", "kept"),
    [
        ({"encoder": "rcnn", "hidden_size": 50, "lambda_ib": 0.1, "layers": 2}, {"layers"}),
        ({"encoder": "rcnn", "hidden_size": 50, "lambda_ib": 0.1, "other": 1}, {"other"}),
        ({"encoder": "gru", "hidden_size": 50, "lambda_ib": 0.1}, None),
        ({"encoder": "rcnn", "hidden_size": 75, "lambda_ib": 0.1}, None),
        ({"encoder": "lstm", "hidden_size": 50, "lambda_ib": 0.1}, None),
        ({"encoder": "lstm", "hidden_size": 50, "lambda_ib": 0.1, "layers": 2, "train_embeddings": 1}, None),
    ],
)
def test_a_point_is_restricted_to_what_a_space_varies(point, kept):
    found = spaces.restricted(MIXED, point)
    assert found == (None if kept is None else {n: v for n, v in point.items() if n not in kept})


@pytest.mark.parametrize("space", [MIXED, (RATE, *MIXED), (WEIGHT,)])
def test_a_space_survives_json(space):
    assert spaces.from_json(spaces.to_json(space)) == space


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"name": "x"}]', '[{"when": {}, "choices": ["a"]}]'])
def test_what_is_no_space_is_refused(text):
    with pytest.raises(ValueError, match="expected a search space as JSON, but got|missing"):
        if not spaces.from_json(text):
            raise ValueError("expected a search space as JSON, but got none")


@pytest.mark.parametrize(
    ("space", "reason"),
    [
        ((WEIGHT, WEIGHT), "`lambda_ib` is searched twice"),
        ((DEPTH, ENCODER), "the condition of `layers` names `encoder`, which must be searched too"),
        (
            (ENCODER, Range(name="x", low=0, high=1, when={"encoder": ("gru",)}, why="")),
            "the condition of `x` needs encoder = gru, which is not among the values of `encoder`",
        ),
    ],
)
def test_names_and_conditions_that_do_not_fit_are_refused(space, reason):
    with pytest.raises(ValueError, match=reason):
        spaces.check(space)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Range(name="n", low=1.5, high=3, is_integer=True, why=""), "whole numbers, but got 1.5"),
        (lambda: Range(name="n", low=1, high=3, step=0.5, is_integer=True, why=""), "but got 0.5"),
        (
            lambda: Choice(name="c", choices=("a",), why=""),
            "expected at least two values, all different, but got a",
        ),
        (lambda: Choice(name="c", choices=("a", "b", "a"), why=""), "but got a, b, a"),
    ],
)
def test_a_hyper_parameter_that_cannot_be_searched_is_refused(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (SIZE, "50 .. 200, step 50"),
        (DEPTH, "1 .. 3, whole numbers where encoder is lstm"),
        (RATE, "1e-05 .. 0.01, log scale"),
        (Range(name="x", low=0, high=1, why=""), "0 .. 1, continuous"),
        (ENCODER, "rcnn, lstm"),
        (FLAG, "False, True where layers is 2 or 3"),
    ],
)
def test_a_hyper_parameter_says_what_it_may_be(one: Parameter, text: str):
    assert str(one) == text

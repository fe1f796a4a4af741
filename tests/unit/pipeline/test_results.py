"""How numbers are written, and which trials stand on the front."""

import dataclasses

import pytest

from pipeline.reporting.results import (
    Findings,
    TrialResult,
    number,
    percent,
    rough,
    rough_percent,
    setting,
)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.12345, "0.123"),
        (0.0, "0.000"),
        (None, "–"),
        (float("nan"), "–"),
        (float("inf"), "–"),
        (-0.0004, "0.000"),
        (-0.0, "0.000"),
        (-0.0006, "-0.001"),
    ],
)
def test_number(value, shown):
    assert number(value) == shown


def test_number_with_other_places_and_another_sign_for_missing():
    assert number(0.5, 1) == "0.5"
    assert number(None, 4, "") == ""


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0714, "7.1\N{NO-BREAK SPACE}%"),
        (1, "100.0\N{NO-BREAK SPACE}%"),
        (None, "–"),
        (float("nan"), "–"),
        (-0.0001, "0.0\N{NO-BREAK SPACE}%"),
    ],
)
def test_percent(value, shown):
    assert percent(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (0.0123, "0.012"),
        (0.2, "0.2"),
        (1.0, "1"),
        (9.96, "10"),
        (12.6, "13"),
        (100, "100"),
        (300.4, "300"),
        (15234.0, "15234"),
        (0.00001234, "0.000012"),
        (3e-9, "< 0.000001"),
        (None, "–"),
        (float("nan"), "–"),
    ],
)
def test_a_size_has_few_digits_and_no_exponent(value, shown):
    assert rough(value) == shown


def test_a_share_may_be_far_above_one():
    spaced = [rough_percent(value) for value in (3.0, 1.5, 0.03, 0.00012, None)]
    assert [text.replace("\N{NO-BREAK SPACE}", " ") for text in spaced] == [
        "300 %",
        "150 %",
        "3 %",
        "0.012 %",
        "–",
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (20000.0, "20000"),
        (12345, "12345"),
        (1e-5, "1e-05"),
        (0.123456, "0.1235"),
        (True, "True"),
        (3e12, "3e+12"),
    ],
)
def test_a_setting_that_is_whole_keeps_its_digits(value, shown):
    assert setting(value) == shown


def trial(name, precision, recall, objective=None) -> TrialResult:
    scores = {"token_precision": precision, "token_recall": recall}
    return TrialResult(
        run_id=name,
        name=name,
        status="FINISHED",
        scores={key: value for key, value in scores.items() if value is not None},
        objective=objective,
    )


def front(*trials: TrialResult) -> list[str]:
    made = Findings(
        study="s",
        run_id="p",
        dataset="beer",
        aspect="palate",
        status="FINISHED",
        is_sample=False,
        criterion=None,
        notes=[],
        facts={},
        searched=[],
        trials=trials,
        winner=None,
    )
    return [one.name for one in made.front]


def test_front_holds_what_no_other_beats():
    trials = [trial("a", 0.9, 0.2), trial("b", 0.8, 0.5), trial("c", 0.7, 0.4), trial("d", 0.3, 0.9)]
    assert front(*trials) == ["a", "b", "d"]


def test_front_leaves_out_failed_trials_and_keeps_one_of_equals():
    assert front(trial("x", None, None), trial("a", 0.5, 0.5), trial("b", 0.5, 0.5)) == ["a"]
    assert front() == []


@pytest.mark.parametrize(("objective", "is_met"), [(0.4, True), (0.0, True), (-0.01, False), (None, False)])
def test_criterion_is_met_from_zero_on(objective, is_met):
    assert trial("a", 0.5, 0.5, objective).is_met is is_met


def test_front_leaves_out_trials_that_were_stopped_early():
    stopped = dataclasses.replace(trial("x", 0.95, 0.95), is_stopped_early=True)
    assert front(stopped, trial("a", 0.5, 0.5)) == ["a"]

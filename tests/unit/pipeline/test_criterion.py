import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infocal.metrics.resampling import Interval
from pipeline.study import criterion as criterion_module
from pipeline.study.criterion import Candidate, judged, ranked, within_reach
from search_spaces.base import Bound, Criterion
from tests.small_study import candidate, criterion


def test_the_highest_value_comes_first_and_of_equals_the_earlier_epoch():
    order = [
        candidate("d", value=0.5, epoch=9),
        candidate("c", value=0.25, epoch=1),
        candidate("a", value=0.25, epoch=2),
        candidate("e", value=-0.1, epoch=0),
    ]
    for shuffled in itertools.permutations(order):
        assert ranked(shuffled) == order


def test_of_equals_the_trial_that_started_first_comes_first_whatever_its_id():
    for ids in itertools.permutations("abc"):
        started = [candidate(trial_id, value=0.25, epoch=2) for trial_id in ids]
        assert [c.trial_id for c in ranked(started)] == list(ids)


def test_a_candidate_meets_the_criterion_where_nothing_is_violated():
    assert candidate(violation=0.0).is_met
    assert not candidate(violation=1e-9, value=-1e-9).is_met


def test_nothing_ranks_to_nothing():
    assert ranked([]) == []


# ---------------------------------------------------------------------------- judged by another criterion


def scored(name: str, precision: float, recall: float, **more: Any) -> Candidate:
    f1 = 2 * precision * recall / (precision + recall)
    scores = {"val_token_precision": precision, "val_token_recall": recall, "val_token_f1": f1}
    return candidate(name, scores=scores, **more)


TRIALS = [scored("a", 0.86, 0.10), scored("b", 0.83, 0.44), scored("c", 0.60, 0.80), scored("d", 0.82, 0.45)]


def test_trials_are_judged_anew():
    assert [one.trial_id for one in judged(TRIALS, criterion(0.8))] == ["d", "b", "a", "c"]
    assert [one.trial_id for one in judged(TRIALS, criterion(0.5))] == ["c", "d", "b", "a"]
    assert [one.is_met for one in judged(TRIALS, criterion(0.83))] == [True, True, False, False]


def test_a_trivial_mask_meets_no_criterion():
    trivial = scored("t", 0.99, 0.99, degenerate="degenerate_all")
    assert [one.trial_id for one in judged([trivial, *TRIALS], criterion(0.5))][-1] == "t"
    assert within_reach([trivial], criterion(0.5)) is None


def test_within_reach_is_the_most_useful_trial_near_the_bound():
    """Neither the most precise one, which finds a tenth of the tokens, nor the one far from the bound."""
    relaxed, chosen = within_reach(TRIALS, criterion(0.9))
    assert (relaxed, chosen.trial_id) == (dataclasses.replace(criterion(0.82), why=relaxed.why), "d")
    assert chosen.is_met


@given(st.lists(st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)), min_size=1, max_size=6), st.floats(0, 1))
def test_what_is_within_reach_is_met(points: list[tuple[float, float]], limit: float):
    trials = [scored(str(i), *point) for i, point in enumerate(points)]
    relaxed, chosen = within_reach(trials, criterion(limit))
    assert chosen.is_met
    assert relaxed.is_met(chosen.scores)
    assert relaxed.bounds[0].limit <= max(limit, 0)


def test_bounds_that_hold_stay_as_they_are():
    both = Criterion.parse("best val_f1 with val_accuracy >= 0.61, val_selection_rate <= 0.5")
    trial = candidate(scores={"val_f1": 0.4, "val_accuracy": 0.587, "val_selection_rate": 0.3})
    relaxed, _ = within_reach([trial], both)
    assert str(relaxed) == "best val_f1 with val_accuracy >= 0.58, val_selection_rate <= 0.5"
    trial = candidate(scores={"val_f1": 0.4, "val_accuracy": 0.7, "val_selection_rate": 0.613})
    assert str(within_reach([trial], both)[0]).endswith("val_accuracy >= 0.61, val_selection_rate <= 0.62")


# ------------------------------------------------------ by the lower bound, among those that meet


def drawn(name: str, value: float, low: float | None, **more: Any) -> Candidate:
    return candidate(name, value=value, violation=max(0.0, -value), lower_bound=low, **more)


def names(found: list[Candidate]) -> list[str]:
    return [one.trial_id for one in found]


def test_of_trials_that_meet_the_criterion_the_one_whose_interval_begins_highest_is_best():
    lucky, steady, missed = drawn("l", 0.64, 0.50), drawn("s", 0.62, 0.57), drawn("m", -0.01, 0.60)
    for shuffled in itertools.permutations([lucky, steady, missed]):
        assert names(ranked(shuffled)) == ["s", "l", "m"], (
            "no bound of luck makes up for a bound that is missed"
        )


def test_of_equal_lower_bounds_the_higher_value_comes_first_then_the_earlier_epoch():
    order = [drawn("a", 0.64, 0.5, epoch=9), drawn("b", 0.6, 0.5, epoch=1), drawn("c", 0.6, 0.5, epoch=2)]
    for shuffled in itertools.permutations(order):
        assert names(ranked(shuffled)) == ["a", "b", "c"]


def test_where_an_older_version_drew_nothing_all_are_ranked_by_their_values():
    assert names(ranked([drawn("new", 0.62, 0.6), drawn("old", 0.64, None)])) == ["old", "new"]
    assert names(ranked([drawn("low", 0.64, 0.5), drawn("high", 0.62, 0.6), drawn("old", -0.1, None)])) == [
        *("high", "low", "old")
    ]


def test_another_criterion_takes_the_interval_of_what_it_maximises():
    scores = {"val_token_precision": 0.9, "val_token_recall": 0.5, "val_token_f1": 0.6}
    one = candidate(
        "a", scores=scores, intervals={"val_token_f1": Interval(0.55, 0.66, 0.03)}, lower_bound=0.4
    )
    f1 = Criterion(metric="val_token_f1", bounds=(), why="a test")
    assert judged([one], f1)[0].lower_bound == 0.55
    assert judged([one], criterion(0.5))[0].lower_bound is None, "that of recall was not drawn"


@pytest.mark.parametrize(
    ("kind", "found", "limit"), [("at_most", 0.35, 0.35), ("at_most", 0.351, 0.36), ("at_least", 0.29, 0.29)]
)
def test_a_bound_is_relaxed_to_the_next_hundredth_and_no_further(kind: str, found: float, limit: float):
    bound = Bound(metric="val_selection_rate", limit=0.3, kind=kind)  # type: ignore[arg-type]
    relaxed = criterion_module._kept(bound, {"val_selection_rate": found})
    assert relaxed == dataclasses.replace(bound, limit=limit)

import dataclasses
import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pipeline.criterion import Candidate, judged, ranked, within_reach
from search_spaces.base import Criterion
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

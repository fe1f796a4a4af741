import itertools

from pipeline.criterion import ranked
from tests.small_study import candidate


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

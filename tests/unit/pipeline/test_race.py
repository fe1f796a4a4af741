"""The race of the best trials over seeds: who is trained again, who wins, and what a failure counts."""

import itertools
from collections.abc import Mapping
from typing import Any

import pytest

from pipeline.study import race
from pipeline.study.criterion import Candidate
from pipeline.study.race import Race, SeedOutcome, stands
from tests.small_study import POINT, candidate

FIRST_SEED = 7


def trial(name: str, value: float, **changes: Any) -> Candidate:
    """A trial with a config of its own, told by lambda_ib."""
    config = {**POINT, "lambda_ib": float(ord(name))}
    return candidate(name, value=value, config=config, **({"violation": max(0.0, -value)} | changes))


def ran(trials: list[Candidate], values: Mapping[tuple[str, int], float | None]) -> tuple[Race, list[str]]:
    """The race to its end, and what was trained in it, such as `a8`; None: the training fails."""
    names = {one.config["lambda_ib"]: one.trial_id for one in trials}
    trained: dict[str, Candidate | None] = {}

    def key(config: Mapping[str, Any]) -> tuple[str, int]:
        return names[config["lambda_ib"]], config["seed"]

    def again(config: Mapping[str, Any]) -> SeedOutcome:
        name = "{}{}".format(*key(config))
        return SeedOutcome(is_over=name in trained, result=trained.get(name))

    for _ in range(10):
        found = stands(trials, FIRST_SEED, again)
        if not found.missing:
            return found, list(trained)
        for config in found.missing:
            value = values.get(key(config), 0.0)
            name = "{}{}".format(*key(config))
            trained[name] = None if value is None else candidate(name, value=value, config=config)
    raise AssertionError("the race has no end")


def names_of(found: Race) -> str:
    return "".join(racer.trial.trial_id for racer in found.racers)


def test_four_trials_get_a_seed_and_the_better_half_two_more():
    trials = [trial(name, 0.5 - 0.01 * i) for i, name in enumerate("abcdef")]
    values = {("a", 8): 0.1, ("b", 8): 0.2, ("c", 8): 0.5, ("d", 8): 0.4}
    values |= {("c", 9): 0.2, ("c", 10): 0.2, ("d", 9): 0.6, ("d", 10): 0.6}
    found, trained = ran(trials, values)
    assert trained == ["a8", "b8", "c8", "d8", "c9", "c10", "d9", "d10"]
    assert len(trained) == race.most_trainings(6)
    assert names_of(found) == "dcba", "b and a are out, b with the better mean"
    assert found.racers[0].mean == pytest.approx((0.47 + 0.4 + 0.6 + 0.6) / 4)
    assert [one.trial_id for one in found.racers[0].results] == ["d8", "d9", "d10"]


@pytest.mark.parametrize(("num_trials", "most"), [(1, 0), (2, 6), (3, 7), (4, 8), (9, 8)])
def test_few_trials_take_fewer_trainings(num_trials: int, most: int):
    trials = [trial(name, 0.5) for name in "abcdefghi"[:num_trials]]
    _, trained = ran(trials, {})
    assert len(trained) == race.most_trainings(num_trials) == most


def test_the_luckiest_trial_does_not_win():
    """The search's best was lucky: with other seeds, the second one is better."""
    trials = [trial("a", 0.60), trial("b", 0.58), trial("c", 0.57), trial("d", 0.56)]
    values = {(name, 8 + i): 0.50 for name, i in itertools.product("acd", range(3))}
    found, _ = ran(trials, values | {("b", 8 + i): 0.57 for i in range(3)})
    assert found.racers[0].trial.trial_id == "b"


def test_a_failed_training_counts_as_no_result_at_all():
    found, _ = ran([trial("a", 0.9), trial("b", 0.1)], {("a", 8): None, ("b", 8): 0.1})
    assert names_of(found) == "ba"
    assert found.racers[1].mean == pytest.approx((0.9 - 1 + 0 + 0) / 4)
    assert [one.trial_id for one in found.racers[1].results] == ["a9", "a10"]


def test_equal_means_keep_the_order_of_the_search():
    found, _ = ran([trial(name, 0.5) for name in "abcd"], {})
    assert names_of(found)[:2] == "ab"


def test_equal_means_at_the_end_keep_it_too_where_the_first_round_had_another_order():
    trials = [trial("a", 0.5), trial("b", 0.25)]
    values = {("a", 8): 0.0, ("b", 8): 0.5}
    values |= {("a", 9): 0.25, ("a", 10): 0.25, ("b", 9): 0.125, ("b", 10): 0.125}
    found, _ = ran(trials, values)
    assert [racer.mean for racer in found.racers] == [0.25, 0.25]
    assert names_of(found) == "ab"


def test_trials_that_miss_the_criterion_race_only_where_none_meets_it():
    met, missed = [trial("a", 0.5), trial("b", 0.4)], [trial("c", -0.1), trial("d", -0.2)]
    found, _ = ran([*met, *missed], {})
    assert set(names_of(found)) == {"a", "b"}
    found, _ = ran(missed, {})
    assert set(names_of(found)) == {"c", "d"}
    trivial = trial("e", -1.2, degenerate="degenerate_all")
    assert names_of(ran([missed[0], trivial], {})[0]) == "c"
    assert names_of(ran([trivial], {})[0]) == "e"


def test_one_trial_wins_without_a_race():
    found, trained = ran([trial("a", 0.5)], {})
    assert (names_of(found), trained) == ("a", [])


def test_a_race_that_is_interrupted_asks_for_what_is_missing_alone():
    trials = [trial("a", 0.5), trial("b", 0.4)]
    done = {(ord("a"), 8)}
    found = stands(
        trials, FIRST_SEED, lambda config: SeedOutcome((int(config["lambda_ib"]), config["seed"]) in done)
    )
    assert [(chr(int(one["lambda_ib"])), one["seed"]) for one in found.missing] == [("b", 8)]

"""Statistics of judged sheets against values worked out by hand."""

import itertools
import random

import numpy as np
import pytest
from scipy.stats import permutation_test

from pipeline.judging import ratings
from pipeline.judging.ratings import Rating, Repeats

U = "usefulness"


def rating(judge: int, text: int, method: int, score: float, is_repeat: bool = False) -> Rating:
    return Rating(judge, text, method, is_repeat, {U: score})


def test_a_texts_score_is_the_mean_over_its_judges_without_what_came_back():
    given = [
        rating(0, 7, 0, 2),
        rating(1, 7, 0, 5),
        rating(1, 3, 0, 1),
        rating(1, 7, 0, 1, True),
        rating(0, 7, 1, 4),
    ]
    assert ratings.text_means(given, 0, U) == {3: 1.0, 7: 3.5}
    assert ratings.text_means(given, 0, "fluency") == {}


def test_a_mean_has_an_interval_about_it_unless_there_is_one_text():
    found = ratings.mean([1.0, 2.0, 3.0, 4.0])
    assert (found.value, found.count) == (2.5, 4)
    assert found.low is not None and found.high is not None
    assert 1.0 <= found.low < 2.5 < found.high <= 4.0
    assert ratings.mean([3.0]) == ratings.Estimate(3.0, count=1)
    assert ratings.mean([]) == ratings.Estimate(None)


def test_an_interval_of_a_mean_is_nearly_that_of_the_normal_law_for_many_texts():
    values = np.random.default_rng(1).normal(3.0, 1.0, 400)
    found = ratings.mean(values.tolist())
    half = 1.96 * values.std() / 20
    assert found.low == pytest.approx(values.mean() - half, abs=0.02)
    assert found.high == pytest.approx(values.mean() + half, abs=0.02)


@pytest.mark.parametrize(
    ("gaps", "p"),
    [
        ([1.0, 1.0, 1.0], 2 / 8),  # only +++ and --- are as far from 0
        ([1.0, 2.0], 2 / 4),
        ([1.0, -1.0], 1.0),
        ([0.0, 0.0, 0.0], 1.0),
        ([3.0, 2.0, -1.0], 4 / 8),  # |sum| 4: ++-, +++ (6), and their mirror images
        ([1.0], None),
        ([], None),
    ],
)
def test_p_counts_the_signs_that_are_as_extreme(gaps: list[float], p: float | None):
    assert ratings.sign_flip_p(gaps) == p


def test_p_of_many_texts_is_that_of_scipys_test():
    gaps = np.random.default_rng(3).normal(0.15, 1.0, 60)
    theirs = permutation_test(
        (gaps,), np.mean, permutation_type="samples", n_resamples=20_000, rng=np.random.default_rng(5)
    )
    assert ratings.sign_flip_p(gaps.tolist()) == pytest.approx(theirs.pvalue, abs=0.02)


def test_differences_are_of_texts_that_both_methods_have():
    given = [rating(0, t, m, s) for t, m, s in [(0, 0, 5), (0, 1, 3), (1, 0, 4), (1, 1, 4), (2, 0, 1)]]
    (found,) = ratings.differences(given, 2, U)
    assert (found.mean.value, found.mean.count, found.p) == (1.0, 2, 1.0)


# Krippendorff's own example of 2011, with missing values: nominal .743, ordinal .815, interval .849
EXAMPLE = [
    "1 2 3 3 2 1 4 1 2 - - -",
    "1 2 3 3 2 2 4 1 2 5 - 3",
    "- 3 3 3 2 3 4 2 2 5 1 -",
    "1 2 3 3 2 4 4 1 2 5 1 -",
]


@pytest.mark.parametrize(("level", "expected"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_krippendorffs_example(level: ratings.Level, expected: float):
    given = [
        rating(judge, unit, 0, float(score))
        for judge, line in enumerate(EXAMPLE)
        for unit, score in enumerate(line.split())
        if score != "-"
    ]
    found = ratings.alpha(ratings.reliability(given, 4, U), level)
    assert found.value == pytest.approx(expected, abs=5e-4)
    assert found.count == 11  # the last one has a single score
    assert found.low is not None and found.high is not None
    assert found.low < expected < found.high


def test_alpha_is_not_defined_without_two_different_scores():
    same = [rating(judge, text, 0, 3) for judge in range(2) for text in range(4)]
    assert ratings.alpha(ratings.reliability(same, 2, U)).value is None
    alone = [rating(0, text, 0, text) for text in range(4)]
    assert ratings.alpha(ratings.reliability(alone, 2, U)) == ratings.Estimate(None)


def test_what_came_back_is_held_against_what_was_said_first_by_the_same_judge():
    given = [rating(0, 0, 0, 3), rating(0, 0, 0, 3, True), rating(0, 1, 0, 2), rating(0, 1, 0, 4, True)]
    given += [rating(1, 0, 0, 1), rating(1, 5, 0, 1, True)]
    assert ratings.repeats(given, U) == Repeats(2, 0.5, 0.5, 1.0)
    assert ratings.repeats(given, "fluency") == Repeats(0, None, None, None)


def test_judges_at_random_have_an_alpha_about_zero():
    chance = random.Random(0)
    given = [rating(j, t, 0, chance.randint(1, 5)) for j, t in itertools.product(range(3), range(300))]
    found = ratings.alpha(ratings.reliability(given, 3, U))
    assert found.low is not None and found.high is not None
    assert found.low < 0 < found.high

"""One definition of perplexity: its value by hand, what is scored, and how far it moves."""

import math

import numpy as np
import pytest

from infocal.metrics import perplexity
from infocal.metrics.perplexity import TextLogP, frequencies, of_texts, uniform

TEXTS = [np.array([2, 3, 4]), np.array([5, 2]), np.array([3])]


@pytest.mark.parametrize("num_words", [1, 4, 1000])
def test_a_model_that_knows_nothing_has_the_size_of_the_vocabulary(num_words):
    assert uniform(TEXTS, num_words).perplexity == pytest.approx(num_words, rel=1e-12)


def test_golden_value():
    # 3 scored tokens with p = 1/2, 1/4, 1/8: exp((1 + 2 + 3) ln 2 / 3) = 4
    log_p = [np.log([0.5, 0.25]), np.log([0.125]), np.empty(0)]
    found = of_texts(TEXTS, log_p)
    assert found.num_scored.tolist() == [2, 1, 0]
    assert found.perplexity == pytest.approx(4.0, rel=1e-12)


def test_the_first_token_is_not_scored():
    assert of_texts([np.array([2, 3])], [np.log([0.5])]).num_scored.tolist() == [1]


def test_an_unknown_word_is_not_scored_whatever_a_model_says_of_it():
    texts = [np.array([2, 1, 3])]
    for of_unknown in (0.0, -1e9, -np.inf, np.nan):
        found = of_texts(texts, [np.array([of_unknown, math.log(0.25)])])
        assert found.num_scored.tolist() == [1]
        assert found.perplexity == pytest.approx(4.0, rel=1e-12)


def test_frequencies_by_hand():
    # words 2 and 3 stand 3 times and once: p = 3/4 and 1/4; the tokens 2, 3 are scored
    found = frequencies([np.array([3, 2, 3])], np.array([0, 9, 3, 1]))
    assert found.perplexity == pytest.approx((3 / 4 * 1 / 4) ** -0.5, rel=1e-12)


def test_a_known_word_that_no_training_text_has_counts_once():
    share = np.exp(perplexity.log_frequencies(np.array([0, 0, 3, 0])))
    assert share.tolist() == pytest.approx([0, 0, 3 / 4, 1 / 4])


def test_no_scored_token_has_no_perplexity():
    with pytest.raises(ValueError, match="at least one scored token, but got 2 without"):
        _ = of_texts([np.array([2]), np.array([3, 1])], [np.empty(0), np.zeros(1)]).perplexity


def test_a_value_for_each_token_from_the_second_on_is_needed():
    with pytest.raises(ValueError, match="expected 2 values for a text of 3 tokens, got 3"):
        of_texts([np.array([2, 3, 4])], [np.zeros(3)])
    with pytest.raises(ValueError, match="shorter|longer"):
        of_texts(TEXTS, [np.zeros(2)])


def test_equal_texts_have_an_interval_of_no_width_and_others_one_around_the_value():
    same = TextLogP(np.full(30, -4.0), np.full(30, 2))
    ends = same.interval()
    assert (ends.low, ends.high, ends.error) == pytest.approx((math.exp(2), math.exp(2), 0.0))
    mixed = TextLogP(np.arange(-30.0, 0.0), np.full(30, 10))
    ends = mixed.interval()
    assert ends.low < mixed.perplexity < ends.high

"""Kneser-Ney: a bigram by hand, a naive form, nltk, and that probabilities sum to 1."""

import itertools
import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infocal.language_models.kneser_ney import FALLBACK, KneserNey, estimated
from infocal.metrics.perplexity import of_texts

TEXTS = [np.array(text) for text in ([2, 3, 2, 4], [3, 2, 3], [2, 3, 4, 4, 2, 3])]


def test_a_bigram_by_hand():
    # one text: a b a, with a = 2 and b = 3; V = 2, discount 1/2 in both orders
    model = KneserNey([np.array([2, 3, 2])], 4, order=2, discounts=[(0.5,) * 3] * 2)
    # tokens to the left: a has {start, b}, b has {a}: p_1(a) = 1.5 / 3 + gamma_1 / 2, where gamma_1 = 1 / 3
    p1_a = 1.5 / 3 + 1 / 3 * 1 / 2
    p1_b = 0.5 / 3 + 1 / 3 * 1 / 2
    # a is followed by b once: p_2(b | a) = .5 / 1 + .5 p_1(b), p_2(a | a) = .5 p_1(a)
    (after_a,) = model.log_p([np.array([2, 3])])
    (again,) = model.log_p([np.array([2, 2])])
    assert after_a[0] == pytest.approx(math.log(0.5 + 0.5 * p1_b), abs=1e-12)
    assert again[0] == pytest.approx(math.log(0.5 * p1_a), abs=1e-12)


def test_an_unseen_history_leaves_the_shorter_one():
    model = KneserNey([np.array([2, 3, 2])], 5, order=2, discounts=[(0.5,) * 3] * 2)
    # word 4 occurs nowhere: after it, p_1 alone; V = 3
    (found,) = model.log_p([np.array([4, 2])])
    assert found[0] == pytest.approx(math.log(1.5 / 3 + 1 / 3 * 1 / 3), abs=1e-12)


def naive(texts, size, order, discounts):
    """The recursion of the docstring, with dictionaries."""
    occurrences = [Counter() for _ in range(order + 1)]
    left = [defaultdict(set) for _ in range(order + 1)]
    for text in texts:
        tokens = (0, *map(int, text))
        for k in range(1, order + 1):
            for end in range(k - 1, len(tokens)):
                gram = tokens[end - k + 1 : end + 1]
                occurrences[k][gram] += 1
                if end - k >= 0:
                    left[k][gram].add(tokens[end - k])

    def count(gram):
        if gram[-1] < 2:
            return 0
        k = len(gram)
        return occurrences[k][gram] if k == order or gram[0] == 0 else len(left[k][gram])

    def p(word, history):
        k = len(history) + 1
        below = 1 / (size - 2) if k == 1 else p(word, history[1:])
        counts = {w: count((*history, w)) for w in range(2, size)}
        total = sum(counts.values())
        if not total:
            return below
        amount = [0.0, *discounts[k - 1]]
        freed = sum(min(c, amount[min(c, 3)]) for c in counts.values())
        return max(counts[word] - amount[min(counts[word], 3)], 0) / total + freed / total * below

    return p


@pytest.mark.parametrize("order", [1, 2, 3, 5])
def test_equals_the_naive_form(order):
    texts = [*TEXTS, np.array([2, 1, 3])]  # an unknown word is a history, and never predicted
    discounts = [(0.25, 0.75, 1.5)] * order
    model, p = KneserNey(texts, 6, order, discounts), naive(texts, 6, order, discounts)
    for text in ([2, 3, 2, 4, 2], [5, 2, 3], [4, 1, 2, 3], [3, 3, 3, 3]):
        tokens = (0, *text)
        wanted = [
            p(tokens[i], tokens[max(0, i - order + 1) : i]) for i in range(2, len(tokens)) if tokens[i] >= 2
        ]
        ids = np.array(text)
        (found,) = model.log_p([ids])
        assert np.exp(found[ids[1:] >= 2]) == pytest.approx(wanted, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=9), min_size=1, max_size=6),
    st.lists(st.integers(1, 6), min_size=1, max_size=6),
    st.integers(1, 4),
)
def test_probabilities_sum_to_1_over_the_known_words(training, history, order):
    texts = [np.array(text) for text in training]
    if not any((text >= 2).any() for text in texts):
        return
    model = KneserNey(texts, 7, order)
    found = model.log_p([np.array([*history, word]) for word in range(2, 7)])
    assert sum(math.exp(values[-1]) for values in found) == pytest.approx(1.0, abs=1e-9)


def test_agrees_with_nltk():
    nltk_lm = pytest.importorskip("nltk.lm")
    from nltk.util import everygrams

    generator = np.random.default_rng(0)
    texts = [generator.integers(2, 9, size=12) for _ in range(20)]
    order, discount = 3, 0.75
    theirs = nltk_lm.KneserNeyInterpolated(order, discount=discount)
    padded = [["<s>", *map(str, text)] for text in texts]
    theirs.fit(
        [[tuple(g) for g in everygrams(text, max_len=order)] for text in padded],
        vocabulary_text=itertools.chain.from_iterable(padded),
    )
    # nltk discounts no single words; behind a start its lower orders count otherwise, so the third place on
    ours = KneserNey(texts, 9, order, [(0.0,) * 3, (discount,) * 3, (discount,) * 3])
    for text in texts[:5]:
        shuffled = generator.permutation(text)
        (found,) = ours.log_p([shuffled])
        words = [str(word) for word in shuffled]
        wanted = [theirs.score(words[i], words[i - 2 : i]) for i in range(2, len(words))]
        assert np.exp(found[1:]) == pytest.approx(wanted, rel=1e-9)


def test_texts_do_not_run_into_each_other():
    model = KneserNey(TEXTS, 6, 3)
    together = model.log_p(TEXTS)
    for text, found in zip(TEXTS, together, strict=True):
        (alone,) = model.log_p([text])
        assert np.array_equal(found, alone) and len(found) == len(text) - 1


def test_what_was_seen_is_more_likely_than_its_words_alone():
    texts = [np.array([2, 3, 4, 5, 6, 7] * 3)] * 4
    five, one = (of_texts(texts, KneserNey(texts, 8, order).log_p(texts)).perplexity for order in (5, 1))
    assert five < 1.5 < 5 < one


def test_discounts_by_hand():
    # n = 4, 2, 1, 1: Y = 4 / 8; D = 1 - 2 Y 2/4, 2 - 3 Y 1/2, 3 - 4 Y 1/1
    counts = np.array([1.0] * 4 + [2.0] * 2 + [3.0, 4.0, 0.0, 9.0])
    assert estimated(counts) == pytest.approx((0.5, 1.25, 1.0))
    assert estimated(np.array([1.0, 1.0, 3.0])) == FALLBACK
    assert estimated(np.array([*[1.0] * 10, 2.0, *[3.0] * 5])) == FALLBACK, "D_2 < 0"


@pytest.mark.parametrize(
    ("texts", "order", "error"),
    [
        (TEXTS, 0, "`order` must be at least 1, but got 0"),
        ([np.array([1, 1])], 2, "a known word, but got 1 without"),
        ([], 2, "a known word, but got 0 without"),
    ],
)
def test_what_gives_no_model_is_refused(texts, order, error):
    with pytest.raises(ValueError, match=error):
        KneserNey(texts, 6, order)

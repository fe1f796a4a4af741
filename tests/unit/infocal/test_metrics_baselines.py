"""Trivial lines: they select what they say, and the oracle is a ceiling."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infocal.metrics.scores import MODES, rationale_scores, token_scores
from infocal.metrics.trivial import (
    all_tokens,
    expected_random_k,
    first_k,
    no_tokens,
    oracle_k,
    random_k,
    tokens_per_text,
    trivial_in_modes,
    trivial_lines,
    trivial_masks,
    trivial_scores,
)

few = settings(max_examples=20)
LINES = {"all_tokens", "no_tokens", "random_k", "first_k", "oracle_k"}


@st.composite
def annotated_corpora(draw):
    """Golds, their lengths and a rate; the last text may be without gold."""
    lengths = draw(st.lists(st.integers(1, 30), min_size=1, max_size=6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    golds = [rng.random(n) < draw(st.sampled_from([0.0, 0.15, 0.5, 1.0])) for n in lengths]
    if len(golds) > 1 and draw(st.booleans()):
        golds[-1] = None
    return golds, lengths, draw(st.floats(0, 1))


def num_selected(masks, golds):
    """Selected tokens of annotated texts."""
    return sum(int(mask.sum()) for mask, gold in zip(masks, golds, strict=True) if gold is not None)


# ---------------------------------------------------------------- how much is selected


@few
@given(st.lists(st.integers(0, 200), min_size=1, max_size=8), st.floats(0, 1))
def test_the_rate_holds_over_all_texts_and_nearly_in_each(lengths, rate):
    k = tokens_per_text(lengths, rate)
    total = sum(lengths)
    assert int(k.sum()) == round(rate * total)
    assert np.all(k <= lengths)
    if total:
        share = round(rate * total) / total
        assert np.all(np.abs(k - share * np.array(lengths)) < 1)


def test_short_texts_take_turns():
    # a tenth of each text is less than half a token, and yet a tenth of all tokens is selected
    assert tokens_per_text([4] * 10, 0.1).tolist() == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("rate", [-0.1, 1.2])
def test_an_impossible_rate_is_refused(rate):
    with pytest.raises(ValueError, match=rf"`rate` must lie in \[0, 1\], but got {rate}"):
        first_k([3], rate)


@few
@given(annotated_corpora(), st.integers(0, 99))
def test_lines_with_a_rate_select_equally_many(corpus, seed):
    golds, lengths, rate = corpus
    masks = trivial_masks(golds, lengths, rate, seed=seed)
    assert set(masks) == LINES
    assert all([len(mask) for mask in line] == lengths for line in masks.values())
    counts = {name: sum(int(mask.sum()) for mask in line) for name, line in masks.items()}
    assert counts["first_k"] == counts["random_k"] == counts["oracle_k"] == round(rate * sum(lengths))
    assert (counts["all_tokens"], counts["no_tokens"]) == (sum(lengths), 0)


# ---------------------------------------------------------------- which tokens


def test_all_none_and_first_by_hand():
    assert [mask.tolist() for mask in all_tokens([2, 1])] == [[True, True], [True]]
    assert [mask.tolist() for mask in no_tokens([1, 0])] == [[False], []]
    assert [mask.tolist() for mask in first_k([4, 2], 0.5)] == [[True, True, False, False], [True, False]]


def test_random_k_is_seeded_and_differs_between_seeds():
    lengths = [50, 3, 80]
    one, again, other = (np.concatenate(random_k(lengths, 0.2, seed)) for seed in (7, 7, 8))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


def test_oracle_by_hand():
    golds, lengths = [np.array([False, True, True, False]), np.array([True, False]), None], [4, 2, 2]
    # a quarter is 2 of 8 tokens, which fall to the first two texts: 2 of the 3 marked ones
    two = oracle_k(golds, lengths, 0.25)
    assert [mask.tolist() for mask in two] == [[False, True, False, False], [True, False], [False, False]]
    # three quarters are 6, of which 5 in annotated texts: all 3 marked ones, and one more of each text
    six = oracle_k(golds, lengths, 0.75)
    assert [mask.tolist() for mask in six] == [[True, True, True, False], [True, True], [True, False]]


@few
@given(annotated_corpora(), st.integers(0, 99))
def test_no_masks_of_that_size_beat_the_oracle(corpus, seed):
    golds, lengths, rate = corpus
    if all(gold is None for gold in golds):
        return
    oracle = oracle_k(golds, lengths, rate)
    ceiling = token_scores(oracle, golds)
    rng = np.random.default_rng(seed)
    annotated = np.concatenate([np.full(n, g is not None) for n, g in zip(lengths, golds, strict=True)])
    for _ in range(5):  # as many tokens of annotated texts, wherever they stand
        flat = np.zeros(len(annotated), dtype=np.bool_)
        flat[rng.permutation(np.flatnonzero(annotated))[: num_selected(oracle, golds)]] = True
        scores = token_scores(np.split(flat, np.cumsum(lengths)[:-1]), golds)
        assert all(s <= c + 1e-12 for s, c in zip(scores.micro, ceiling.micro, strict=True))


@few
@given(annotated_corpora())
def test_the_oracle_wastes_nothing(corpus):
    golds, lengths, rate = corpus
    masks = oracle_k(golds, lengths, rate)
    marked = sum(int(gold.sum()) for gold in golds if gold is not None)
    hits = sum(int((m & g).sum()) for m, g in zip(masks, golds, strict=True) if g is not None)
    assert hits == min(marked, num_selected(masks, golds))


def test_a_gold_of_another_length_is_named():
    golds = [np.zeros(3, dtype=np.bool_), np.zeros(2, dtype=np.bool_)]
    for line in (oracle_k, expected_random_k):
        with pytest.raises(
            ValueError, match=r"golds\[1\] must have the 4 tokens of lengths\[1\], but it has 2"
        ):
            line(golds, [3, 4], 0.5)


# ---------------------------------------------------------------- their scores


def test_random_k_in_expectation_is_the_mean_over_all_subsets():
    gold, k = np.array([True, False, True, False, False]), 2
    subsets = [np.isin(np.arange(5), chosen) for chosen in itertools.combinations(range(5), k)]
    expected = expected_random_k([gold], [5], k / 5)
    for level in ("micro", "macro"):
        mean = np.mean([getattr(token_scores([mask], [gold]), level) for mask in subsets], axis=0)
        assert getattr(expected, level) == pytest.approx(mean, abs=1e-12)


def test_random_k_in_expectation_is_near_the_mean_over_draws():
    rng = np.random.default_rng(0)
    lengths = [3, 40, 25, 60]
    golds = [rng.random(n) < 0.3 for n in lengths]
    expected = expected_random_k(golds, lengths, 0.2)
    draws = [token_scores(random_k(lengths, 0.2, seed), golds) for seed in range(100)]
    assert expected.f1 == pytest.approx(np.mean([draw.f1 for draw in draws]), abs=0.02)
    assert expected.macro.f1 == pytest.approx(np.mean([draw.macro.f1 for draw in draws]), abs=0.03)
    assert expected.selection_rate == draws[0].selection_rate


@few
@given(annotated_corpora())
def test_the_lines_bound_one_another(corpus):
    golds, lengths, rate = corpus
    if all(gold is None for gold in golds):
        return
    lines = trivial_lines(golds, lengths, rate)
    assert set(lines) == LINES
    density = lines["all_tokens"].gold_density
    assert lines["all_tokens"].precision == pytest.approx(density)
    assert lines["all_tokens"].recall == (1.0 if density > 0 else 0.0)
    assert lines["no_tokens"].f1 == 0.0
    ceiling = lines["oracle_k"].f1
    equal = lines["oracle_k"].selection_rate_annotated == lines["first_k"].selection_rate_annotated
    assert equal
    assert max(lines["first_k"].f1, lines["random_k"].f1) <= ceiling + 1e-12


def test_oracle_ceiling_in_numbers():
    # 1,000 tokens, 200 marked: at 10 % the oracle has P 1 and R 1/2, at 40 % P 1/2 and R 1
    golds = [np.arange(100) < 20 for _ in range(10)]
    low, high = (trivial_lines(golds, [100] * 10, rate)["oracle_k"] for rate in (0.1, 0.4))
    assert (low.precision, low.recall) == (1.0, 0.5)
    assert (high.precision, high.recall) == (0.5, 1.0)


def test_trivial_scores_have_spans_and_rankings():
    golds = [np.arange(30) // 5 % 3 == 1 for _ in range(6)]
    scores = trivial_scores(golds, [30] * 6, 0.3, num_draws=3, mode="hatexplain")
    assert set(scores) == LINES
    assert scores["all_tokens"]["iou_f1"] == 0.0
    assert scores["all_tokens"]["auprc"] == pytest.approx((1 + 1 / 3) / 2)
    assert scores["oracle_k"]["iou_f1"] > scores["random_k"]["iou_f1"]
    assert scores["oracle_k"]["hatexplain_auprc"] > scores["first_k"]["hatexplain_auprc"]
    assert scores["no_tokens"]["selection_rate"] == 0.0


def test_the_modes_are_scored_at_once_as_one_by_one():
    golds = [np.arange(30) % 7 < 2, None, np.arange(30) > 26]
    found = trivial_in_modes(golds, [30] * 3, 0.3, num_draws=2)
    for mode in MODES:
        alone = trivial_scores(golds, [30] * 3, 0.3, num_draws=2, mode=mode)
        assert {line: of_modes[mode] for line, of_modes in found.items()} == alone
        masks = [mask.astype(np.float64) for mask in trivial_masks(golds, [30] * 3, 0.3, seed=0)["oracle_k"]]
        assert alone["oracle_k"] == rationale_scores(masks, golds, mode=mode)


def test_random_k_is_a_mean_over_draws():
    rng = np.random.default_rng(3)
    golds = [rng.random(20) < 0.3 for _ in range(4)]
    mean = trivial_scores(golds, [20] * 4, 0.25, seed=5, num_draws=2)["random_k"]["token_f1"]
    draws = [token_scores(random_k([20] * 4, 0.25, seed), golds).f1 for seed in (5, 6)]
    assert mean == pytest.approx(sum(draws) / 2)
    with pytest.raises(ValueError, match="`num_draws` must be at least 1, but got 0"):
        trivial_scores(golds, [20] * 4, 0.25, num_draws=0)

"""The bootstrap over texts and seeds, against closed forms and against scores computed draw by draw."""

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infocal.metrics import resampling
from infocal.metrics import scores as metrics
from infocal.metrics.overlap import token_scores
from infocal.metrics.resampling import TextCounts, intervals, paired_difference, score


def corpus(seed: int, num_texts: int, *, classes: int = 0, shift: float = 0.0) -> tuple[Any, ...]:
    """Masks, golds (every fourth missing), predictions and targets; `shift` makes more right."""
    generator = np.random.default_rng(seed)
    texts = np.random.default_rng(99)  # the same for every seed
    lengths = texts.integers(1, 9, num_texts)
    golds = [texts.random(n) < 0.3 if i % 4 else None for i, n in enumerate(lengths)]
    masks = [
        np.where(
            generator.random(n) < 0.6 + shift, gold if gold is not None else False, generator.random(n) < 0.3
        )
        for n, gold in zip(lengths, golds, strict=True)
    ]
    if classes:
        target = texts.integers(classes, size=num_texts)
        predicted = np.where(generator.random(num_texts) < 0.6 + shift, target, generator.integers(classes))
    else:
        target = texts.random(num_texts)
        predicted = target + generator.normal(0, 0.2, num_texts)
    return [mask.astype(bool) for mask in masks], golds, predicted, target


def counts(*given: Any, **more: Any) -> TextCounts:
    return TextCounts.of(*corpus(*given, **more))


@given(st.integers(0, 1000), st.integers(1, 30), st.sampled_from([0, 2, 5]))
@settings(max_examples=60, deadline=None)
def test_a_score_of_counts_is_the_score(seed: int, num_texts: int, classes: int):
    masks, golds, predicted, target = corpus(seed, num_texts, classes=classes)
    one = TextCounts.of(masks, golds, predicted, target)
    tokens = token_scores(masks, golds)
    expected = {"selection_rate": tokens.selection_rate}
    if tokens.num_skipped < len(golds):
        expected |= metrics.mask_scores(masks, golds, mode="hatexplain")
    if classes:
        expected |= metrics.classification_scores(predicted, target)
    else:
        expected |= metrics.regression_scores(predicted, target)
    known = [name for name in expected if name in resampling.SCORES]
    assert len(known) >= 3
    for name in known:
        assert score(name, one) == pytest.approx(expected[name], abs=1e-9), name


def test_draws_are_scores_of_texts_drawn_with_replacement():
    masks, golds, predicted, target = corpus(3, 12, classes=3)
    one = TextCounts.of(masks, golds, predicted, target)
    found = intervals(one, ["token_f1", "macro_f1", "token_f1_macro"], num_draws=400, seed=5)
    (block,) = resampling.draws(12, 400, 5)
    assert block.shape == (400, 12) and (block.sum(axis=1) == 12).all()
    drawn: dict[str, list[float]] = {name: [] for name in found}
    for row in block.astype(int):
        rows = np.repeat(np.arange(12), row)
        again = TextCounts.of(
            [masks[i] for i in rows], [golds[i] for i in rows], predicted[rows], target[rows]
        )
        for name, values in drawn.items():
            values.append(score(name, again))
    for name, interval in found.items():
        low, high = np.quantile(drawn[name], [0.025, 0.975])
        assert (interval.low, interval.high) == (pytest.approx(low), pytest.approx(high)), name
        assert interval.error == pytest.approx(np.std(drawn[name], ddof=1)), name


def test_the_interval_of_a_share_is_that_of_the_binomial():
    # accuracy of 80 of 100 texts: the bootstrap's error is sqrt(p (1 - p) / n), its ends binomial quantiles
    target = np.zeros(100, np.int64)
    predicted = (np.arange(100) >= 80).astype(np.int64)
    empty = [np.zeros(1, bool)] * 100
    one = TextCounts.of(empty, [None] * 100, predicted, target)
    found = intervals(one, ["accuracy"], num_draws=20_000)["accuracy"]
    assert found.error == pytest.approx(math.sqrt(0.8 * 0.2 / 100), rel=0.02)
    assert (found.low, found.high) == (pytest.approx(0.72, abs=0.011), pytest.approx(0.87, abs=0.011))


def test_the_seed_fixes_the_draws_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch):
    one = counts(1, 40)
    first = intervals(one, ["token_f1", "mse"], seed=7)
    assert intervals(one, ["token_f1", "mse"], seed=7) == first
    assert intervals(one, ["token_f1", "mse"], seed=8) != first
    monkeypatch.setattr(resampling, "_BLOCK", 90)
    assert intervals(one, ["token_f1", "mse"], seed=7) == first


def test_what_no_text_is_of_has_no_interval():
    masks, _, predicted, target = corpus(1, 6)
    none = TextCounts.of(masks, [None] * 6, predicted, target)
    names = ["token_f1", "selection_rate", "mse", "accuracy", "unheard_of"]
    assert list(intervals(none, names)) == ["selection_rate", "mse"]


def test_equal_texts_leave_no_doubt():
    masks = [np.array([True, False, True])] * 5
    one = TextCounts.of(masks, [np.array([True, True, False])] * 5, np.ones(5, int), np.ones(5, int))
    found = intervals(one, ["token_f1", "accuracy"])
    assert (found["token_f1"].low, found["token_f1"].high, found["token_f1"].error) == (0.5, 0.5, 0.0)


# ------------------------------------------------------------------------------------ paired differences


def accuracies(*right: list[int]) -> list[TextCounts]:
    """One entry a seed: which texts are right."""
    size = len(right[0])
    empty = [np.zeros(1, bool)] * size
    target = np.ones(size, np.int64)
    return [TextCounts.of(empty, [None] * size, np.array(one, np.int64), target) for one in right]


def test_a_difference_of_one_seed_has_the_error_of_paired_texts():
    # per text the gap is 1 for ten, -1 for five, 0 for 85: mean .05, variance .15 - .0025
    theirs, ours = [1] * 10 + [0] * 5 + [1] * 85, [0] * 10 + [1] * 5 + [1] * 85
    found = paired_difference("accuracy", accuracies(theirs), accuracies(ours), num_draws=20_000)
    assert found.estimate == pytest.approx(0.05)
    error = math.sqrt((0.15 - 0.0025) / 100)
    assert found.interval.error == pytest.approx(error, rel=0.02)
    assert found.p_value == pytest.approx(2 * NormalDist().cdf(-0.05 / error), abs=0.06)


def test_seeds_add_their_own_spread():
    # every text of a seed has the same gap, so texts add nothing: the error is the seeds' sd / sqrt(S)
    gaps = [1, 0, 0, 1]
    theirs = accuracies(*([gap] * 50 for gap in gaps))
    ours = accuracies(*([0] * 50 for _ in gaps))
    found = paired_difference("accuracy", theirs, ours, num_draws=20_000)
    assert found.estimate == 0.5
    assert found.interval.error == pytest.approx(np.std(gaps) / math.sqrt(4), rel=0.02)


def test_a_clear_difference_is_told_from_none():
    same = [counts(seed, 60) for seed in range(8)]
    better = [counts(seed + 50, 60, shift=0.3) for seed in range(8)]
    clear = paired_difference("token_f1", better, same)
    assert clear.interval.low > 0 and clear.p_value == pytest.approx(2 / 2001)
    none = paired_difference("token_f1", same, same)
    assert (none.estimate, none.interval.error, none.p_value) == (0.0, 0.0, 1.0)
    assert paired_difference("token_f1", same, better).estimate == pytest.approx(-clear.estimate)


def test_methods_that_are_not_paired_are_refused():
    with pytest.raises(ValueError, match="the same number of seeds, but got 2 and 1"):
        paired_difference("token_f1", [counts(0, 5), counts(1, 5)], [counts(0, 5)])
    with pytest.raises(ValueError, match=r"the same texts, but got \[5, 6\] of them"):
        paired_difference("token_f1", [counts(0, 5)], [counts(0, 6)])

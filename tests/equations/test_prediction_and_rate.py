"""L_sp and L_guide, Eq. (5) and (9); the fused lasso and the expected share of selected tokens."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from infocal.config import Task
from infocal.losses import coherence, mean_selection_rate, prediction_loss

few = settings(max_examples=25)

shares = st.floats(0.01, 0.99)


def regression(logit, target, variance=0.05):
    output = torch.tensor([[logit]], dtype=torch.float64)
    return prediction_loss(
        output, torch.tensor([target], dtype=torch.float64), Task(kind="regression", target_variance=variance)
    ).item()


def fused(mask, is_token=None):
    real = torch.ones(1, len(mask), dtype=torch.bool) if is_token is None else torch.tensor([is_token])
    return coherence(torch.tensor([mask], dtype=torch.float64), real).item()


def rate(logits, is_token):
    return mean_selection_rate(torch.tensor(logits, dtype=torch.float64), torch.tensor(is_token)).item()


def test_regression_golden_value():
    # logit 0 predicts .5 for .8: .3^2 / (2 * .05) = .9
    assert regression(0.0, 0.8) == pytest.approx(0.9, abs=1e-12)


@few
@given(shares, shares, st.floats(0.01, 1))
def test_regression_is_the_squared_error_by_twice_the_variance(predicted, target, variance):
    value = regression(math.log(predicted / (1 - predicted)), target, variance)
    assert value == pytest.approx((predicted - target) ** 2 / (2 * variance), abs=1e-9)


def test_predicting_the_mean_costs_half_a_nat():
    # E (y - mean)^2 = Var: one scale with the terms in nats, whatever the spread of the scores
    targets = torch.tensor([0.1, 0.4, 0.7], dtype=torch.float64)
    task = Task(kind="regression", target_variance=targets.var(correction=0).item())
    mean = torch.logit(targets.mean()).expand(3, 1)
    assert prediction_loss(mean, targets, task).item() == pytest.approx(0.5, abs=1e-12)


def test_classification_golden_value():
    # softmax(ln 3, 0) = (3/4, 1/4): ln(4/3) for the first class, ln 4 for the second
    output = torch.tensor([[math.log(3), 0.0], [math.log(3), 0.0]], dtype=torch.float64)
    task = Task(kind="classification", num_classes=2)
    value = prediction_loss(output, torch.tensor([0, 1]), task).item()
    assert value == pytest.approx(0.5 * (math.log(4 / 3) + math.log(4)), abs=1e-12)


def test_coherence_golden_value():
    assert fused([1, 0, 0, 1, 1]) == 2.0
    assert fused([0.25, 1, 0.5]) == 1.25


def test_coherence_ends_with_the_text():
    assert fused([1, 1, 0], [True, True, False]) == 0.0


@few
@given(st.lists(st.booleans(), min_size=1, max_size=12))
def test_coherence_counts_the_ends_of_runs(mask):
    changes = sum(a != b for a, b in itertools.pairwise(mask))
    assert fused([float(m) for m in mask]) == changes


def test_rate_golden_value():
    # p = 3/4 and 1/4 in a text, 1/2 in another: a share of the batch's tokens, not a mean of texts
    logits = [[math.log(3), -math.log(3)], [0.0, 60.0]]
    assert rate(logits, [[True, True], [True, False]]) == pytest.approx(0.5, abs=1e-12)
    logits[1][0] = math.log(3)
    assert rate(logits, [[True, True], [True, False]]) == pytest.approx(1.75 / 3, abs=1e-12)

"""L_ib, Eq. (11): the KL from the selector's Bernoulli to the prior."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from infocal.losses import information_bottleneck

few = settings(max_examples=25)


def ib(logits, is_token=None, prior=0.2, dtype=torch.float64):
    real = torch.ones(1, len(logits), dtype=torch.bool) if is_token is None else torch.tensor([is_token])
    return information_bottleneck(torch.tensor([logits], dtype=dtype), real, prior).item()


def test_golden_value():
    # By hand: p = 1/2, prior = 1/5. KL = .5 ln(.5/.2) + .5 ln(.5/.8)
    assert ib([0.0]) == pytest.approx(0.5 * math.log(2.5) + 0.5 * math.log(0.625), abs=1e-12)


def test_golden_value_of_the_papers_prior():
    # p = 9/10, r = 1/1000: .9 ln 900 + .1 ln(.1/.999), what every token costs at the dense start
    expected = 0.9 * math.log(900) + 0.1 * math.log(0.1 / 0.999)
    assert ib([math.log(9)], prior=0.001) == pytest.approx(expected, abs=1e-12)


def test_zero_at_the_prior():
    assert ib([math.log(0.2 / 0.8)]) == pytest.approx(0.0, abs=1e-12)


def test_sums_over_tokens():
    assert ib([0.0, 0.0, 0.0]) == pytest.approx(3 * ib([0.0]), rel=1e-14)


def test_padding_adds_nothing():
    assert ib([0.0, 9.0], [True, False]) == ib([0.0])


def test_a_certain_selection_costs_the_surprise_of_the_prior():
    # p -> 1: KL -> -ln r; p -> 0: KL -> -ln(1 - r)
    assert ib([500.0]) == pytest.approx(-math.log(0.2), rel=1e-12)
    assert ib([-500.0]) == pytest.approx(-math.log(0.8), rel=1e-12)


@few
@given(st.lists(st.floats(-500, 500), min_size=1, max_size=8), st.floats(1e-6, 1 - 1e-6))
def test_never_negative_and_always_finite(logits, prior):
    value = ib(logits, prior=prior)
    assert math.isfinite(value)
    assert value >= -1e-12


@few
@given(st.floats(-500, 500, width=32), st.floats(1e-3, 0.999))
def test_finite_in_single_precision(logit, prior):
    assert math.isfinite(ib([logit], prior=prior, dtype=torch.float32))


@few
@given(st.floats(-8, 8), st.floats(0.01, 0.99))
def test_gradient_pulls_towards_the_prior(logit, prior):
    x = torch.tensor([[logit]], dtype=torch.float64, requires_grad=True)
    information_bottleneck(x, torch.tensor([[True]]), prior).backward()
    distance = logit - math.log(prior / (1 - prior))
    assert x.grad.item() * distance >= -1e-12  # downhill is always towards the prior's logit

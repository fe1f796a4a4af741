"""L_mi, L_d and L_g, Eq. (12) to (14): what guider and predictor are calibrated by."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from infocal.losses import discriminator_loss, generator_loss, mutual_information

few = settings(max_examples=25)

logits = st.floats(-500, 500)


def row(*values):
    return torch.tensor(values, dtype=torch.float64)


def d(guider, predictor, form="standard"):
    return discriminator_loss(row(guider), row(predictor), form).item()


def mi(mu, sigma):
    return mutual_information(row(*mu)[None], row(*sigma)[None]).item()


# ---------------------------------------------------------------- L_mi


def test_mutual_information_golden_value():
    # mu = 1, sigma = 2: .5 (1 + 4 - 1 - 2 ln 2) = 2 - ln 2
    assert mi([1.0], [2.0]) == pytest.approx(2 - math.log(2), abs=1e-12)


def test_mutual_information_is_zero_at_the_standard_normal():
    assert mi([0.0, 0.0], [1.0, 1.0]) == 0.0


def test_mutual_information_sums_over_dimensions():
    assert mi([1.0, -1.0, 0.0], [2.0, 2.0, 1.0]) == pytest.approx(2 * (2 - math.log(2)), abs=1e-12)


def test_mutual_information_as_a_mean_over_dimensions():
    # 2 - ln 2 in two of three dimensions, 0 in the third
    found = mutual_information(row(1.0, -1.0, 0.0)[None], row(2.0, 2.0, 1.0)[None], "mean").item()
    assert found == pytest.approx(2 * (2 - math.log(2)) / 3, abs=1e-12)


@few
@given(st.lists(st.tuples(st.floats(-20, 20), st.floats(1e-4, 50)), min_size=1, max_size=4))
def test_mutual_information_is_torchs_divergence(pairs):
    mu, sigma = ([pair[i] for pair in pairs] for i in (0, 1))
    reference = torch.distributions.kl_divergence(
        torch.distributions.Normal(row(*mu), row(*sigma)), torch.distributions.Normal(row(0.0), row(1.0))
    )
    value = mi(mu, sigma)
    assert value >= -1e-12
    assert value == pytest.approx(reference.sum().item(), abs=1e-9)


# ---------------------------------------------------------------- L_d


def test_discriminator_golden_value():
    # D(z) = 3/4 and D(z~) = 1/3: -ln(3/4) - ln(2/3) = ln 2
    assert d(math.log(3), -math.log(2)) == pytest.approx(math.log(2), abs=1e-12)


def test_printed_discriminator_golden_value():
    # the same D: -ln(3/4) + ln(1/3) = ln(4/9)
    assert d(math.log(3), -math.log(2), "printed") == pytest.approx(math.log(4 / 9), abs=1e-12)


def test_printed_discriminator_is_unbounded_below():
    # -log D(z) >= 0, so the second term alone does it: log sigmoid(-x) is -x to the last digit
    assert d(0.0, -500.0, "printed") == pytest.approx(math.log(2) - 500, abs=1e-9)
    assert d(0.0, -5000.0, "printed") < -4999


@few
@given(logits, logits)
def test_standard_discriminator_is_bounded_below(guider, predictor):
    value = d(guider, predictor)
    assert math.isfinite(value)
    assert value >= 0


@few
@given(logits)
def test_forms_differ_in_the_predictors_term_alone(guider):
    # log D(z~) against -log(1 - D(z~)) at D = 1/2: -ln 2 against ln 2
    assert d(guider, 0.0) - d(guider, 0.0, "printed") == pytest.approx(2 * math.log(2), abs=1e-9)


def test_an_ignorant_discriminator_costs_two_bits():
    assert d(0.0, 0.0) == pytest.approx(2 * math.log(2), abs=1e-12)


# ---------------------------------------------------------------- L_g


def test_generator_golden_value():
    # D(z~) = 1/4: ln 4; D(z~) = 1/2: ln 2; their mean is 1.5 ln 2
    assert generator_loss(row(-math.log(3), 0.0)).item() == pytest.approx(1.5 * math.log(2), abs=1e-12)


@few
@given(logits)
def test_generator_loss_is_never_negative_and_finite(logit):
    value = generator_loss(row(logit)).item()
    assert math.isfinite(value)
    assert value >= 0


def test_generator_still_learns_from_a_certain_discriminator():
    # d(-log sigmoid(x))/dx = -sigmoid(-x): -1 where D is sure that the feature is the predictor's
    logit = row(-40.0).requires_grad_()
    generator_loss(logit).backward()
    assert logit.grad.item() == pytest.approx(-1.0, abs=1e-12)

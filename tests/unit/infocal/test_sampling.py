"""Gumbel noise and masks, Eq. (1) and (2)."""

import math

import pytest
import torch

from infocal.nn.sampling import gumbel_noise, sample_mask

LOGITS = (-3.0, -0.7, 0.0, 0.4, 2.0)
NUM_DRAWS = 40_000


def draw(logit, *, temperature=1.0, straight_through=True, seed=0):
    torch.manual_seed(seed)
    return sample_mask(logit, temperature, straight_through)


def constant_uniform(monkeypatch, value):
    """Let the uniform draw be `value`; returns the types it was drawn in."""
    dtypes = []

    def rand(shape, *, dtype, device):
        dtypes.append(dtype)
        return torch.full(shape, value, dtype=dtype, device=device)

    monkeypatch.setattr(torch, "rand", rand)
    return dtypes


def test_noise_has_the_gumbel_distributions_moments():
    torch.manual_seed(0)
    noise = gumbel_noise(torch.empty(200_000, dtype=torch.float64))
    # mean is Euler's constant, variance pi^2 / 6; four standard errors
    assert noise.mean().item() == pytest.approx(0.5772157, abs=4 * math.pi / math.sqrt(6 * 200_000))
    assert noise.var().item() == pytest.approx(math.pi**2 / 6, rel=0.03)


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_noise_is_finite_at_the_ends_of_the_uniform(monkeypatch, value, dtype):
    drawn_in = constant_uniform(monkeypatch, value)
    noise = gumbel_noise(torch.empty(2, 3, dtype=dtype))
    assert noise.dtype == dtype
    assert noise.isfinite().all()
    assert drawn_in == [torch.float32]
    # the far tails: -ln 16.6 and 16.6
    assert noise[0, 0].item() == pytest.approx({0.0: -2.81, 1.0: 16.6}[value], rel=0.01)


def test_golden_value_of_the_median_noise(monkeypatch):
    constant_uniform(monkeypatch, 0.5)
    assert gumbel_noise(torch.empty(1)).item() == pytest.approx(-math.log(math.log(2)), rel=1e-6)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_golden_value_without_noise(monkeypatch, temperature):
    # equal noise on both sides cancels: sigmoid(logit / tau)
    constant_uniform(monkeypatch, 0.5)
    mask = sample_mask(torch.tensor([[math.log(3) * temperature]]), temperature, False)
    assert mask.item() == pytest.approx(0.75, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("temperature", [0.1, 1.0, 5.0])
def test_straight_through_masks_are_zero_or_one_exactly(dtype, temperature):
    mask = draw(torch.randn(50, 200, dtype=dtype), temperature=temperature)
    assert mask.dtype == dtype
    assert set(mask.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("temperature", [0.3, 1.0, 3.0])
def test_straight_through_rounds_the_relaxed_mask_and_keeps_its_gradient(temperature):
    logit = torch.randn(3, 7, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(3, 7, dtype=torch.float64)
    hard, relaxed = (draw(logit, temperature=temperature, straight_through=s) for s in (True, False))
    assert torch.equal(hard, (relaxed >= 0.5).double())
    gradients = [torch.autograd.grad((mask * weight).sum(), logit)[0] for mask in (hard, relaxed)]
    assert torch.equal(*gradients)
    by_hand = relaxed * (1 - relaxed) / temperature * weight  # d sigmoid(x / tau) = m (1 - m) / tau dx
    assert torch.allclose(gradients[0], by_hand, rtol=1e-12)


@pytest.mark.parametrize("logit", LOGITS)
@pytest.mark.parametrize("temperature", [0.2, 4.0])
def test_a_token_is_selected_with_its_probability(logit, temperature):
    # P(logit + g_1 - g_0 >= 0) = sigmoid(logit): the temperature changes the gradient, not the share
    mask = draw(torch.full((1, NUM_DRAWS), logit), temperature=temperature)
    p = 1 / (1 + math.exp(-logit))
    assert mask.mean().item() == pytest.approx(p, abs=4 * math.sqrt(p * (1 - p) / NUM_DRAWS))


def test_tokens_are_drawn_apart_from_one_another():
    first, second = draw(torch.zeros(NUM_DRAWS, 2)).T
    # independent fair coins agree half of the time; four standard errors
    assert (first == second).float().mean().item() == pytest.approx(0.5, abs=4 * 0.5 / math.sqrt(NUM_DRAWS))


def test_several_tokens_can_be_selected():
    # unlike Eq. (2) as printed, whose masks of one text sum to 1
    assert draw(torch.full((1, 10), 8.0)).sum().item() == 10


def test_temperature_sharpens():
    logit = torch.zeros(1, 1000)
    spread = [
        draw(logit, temperature=t, straight_through=False).sub(0.5).abs().mean() for t in (0.1, 1.0, 9.0)
    ]
    assert spread[0] > 0.45
    assert spread[0] > spread[1] > spread[2]
    assert spread[2] < 0.1


def test_draws_follow_the_seed():
    logit = torch.zeros(2, 50)
    assert torch.equal(draw(logit, seed=3), draw(logit, seed=3))
    assert not torch.equal(draw(logit, seed=3), draw(logit, seed=4))

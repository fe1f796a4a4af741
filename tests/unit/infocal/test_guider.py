"""Pred_G, Eq. (6) and (7): a Gaussian over the feature, from the whole text."""

import pytest
import torch

from infocal.methods.infocal.guider import Gaussian, Guider
from infocal.nn.encoders import Embedded, build_encoder
from tests.small_encoder import WORD_ENCODERS
from tests.small_model import EMBEDDING_SIZE, random_batch, random_embeddings, small_config

BATCH = random_batch([5, 3])
WORDS = Embedded(random_embeddings(), BATCH.token_ids)


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


def guider(**changes):
    torch.manual_seed(0)
    config = small_config(**changes)
    return Guider(config, build_encoder(config, EMBEDDING_SIZE))


@pytest.mark.parametrize("bias", [-1000.0, -5.0, 0.0, 5.0])
def test_sigma_is_positive_and_has_a_logarithm(bias):
    model = guider()
    torch.nn.init.constant_(model.sigma.bias, bias)
    sigma = model(WORDS, BATCH.is_token).sigma
    assert (sigma > 0).all()
    assert sigma.log().isfinite().all()


def test_sigma_golden_value():
    # softplus(0) = ln 2, plus the floor of 1e-4
    model = guider()
    for parameter in model.sigma.parameters():
        torch.nn.init.zeros_(parameter)
    sigma = model(WORDS, BATCH.is_token).sigma
    assert torch.allclose(sigma, torch.full_like(sigma, 0.6931472 + 1e-4), atol=1e-6)


@pytest.mark.parametrize("pooling", ["mean", "max", "last"])
def test_the_noise_starts_far_below_the_priors(pooling):
    # at a sigma of 1 the noise would hide a mu that starts near 0
    sigma = guider(pooling=pooling, hidden_size=8, feature_size=64)(WORDS, BATCH.is_token).sigma
    assert 0.1 < sigma.median().item() < 0.16
    assert sigma.max().item() < 0.7


def test_a_sample_is_the_mean_plus_noise_times_sigma():
    mu, sigma = torch.tensor([[1.0, -2.0]]), torch.tensor([[0.5, 3.0]])
    torch.manual_seed(3)
    z = Gaussian(mu, sigma).sample()
    torch.manual_seed(3)
    assert torch.equal(z, mu + sigma * torch.randn(1, 2))


def test_samples_have_the_gaussians_moments():
    torch.manual_seed(0)
    shape = (100_000, 1)
    z = Gaussian(torch.full(shape, 2.0), torch.full(shape, 0.5)).sample()
    # four standard errors
    assert z.mean().item() == pytest.approx(2.0, abs=4 * 0.5 / 100_000**0.5)
    assert z.std().item() == pytest.approx(0.5, abs=4 * 0.5 / (2 * 100_000) ** 0.5)


def test_the_gradient_passes_through_the_sample():
    # z = u sigma + mu: dz/dmu = 1, dz/dsigma = u = (z - mu) / sigma
    mu = torch.randn(2, 3, requires_grad=True)
    sigma = torch.rand(2, 3).add(0.5).requires_grad_()
    z = Gaussian(mu, sigma).sample()
    z.sum().backward()
    assert torch.equal(mu.grad, torch.ones(2, 3))
    assert torch.allclose(sigma.grad, ((z - mu) / sigma).detach(), atol=1e-5)


@pytest.mark.parametrize("encoder", WORD_ENCODERS)
def test_every_token_reaches_the_guider(encoder):
    model = guider(encoder=encoder, hidden_size=8)
    mu = model(WORDS, BATCH.is_token).mu
    for position in range(5):
        token_ids = BATCH.token_ids.clone()
        token_ids[0, position] = token_ids[0, position] % 11 + 1
        other = model(Embedded(WORDS.vectors, token_ids), BATCH.is_token).mu
        assert not torch.allclose(other[0], mu[0])
        assert torch.equal(other[1], mu[1])

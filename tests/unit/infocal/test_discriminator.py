"""D: two layers of bounded slope whose logit tells a guider's feature from a predictor's."""

import pytest
import torch

from infocal.losses import discriminator_loss
from infocal.methods.infocal.discriminator import Discriminator


def train(model, real, fake, updates):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(updates):
        optimizer.zero_grad()
        discriminator_loss(model(real), model(fake), "standard").backward()
        optimizer.step()


def power_iterations(model, count=50):
    """Each pass in training takes one step towards the layers' true norms."""
    for _ in range(count):
        model(torch.zeros(1, model.hidden.in_features))
    return model


def set_weights(model, hidden, output):
    with torch.no_grad():
        model.hidden.parametrizations.weight.original.copy_(torch.tensor(hidden))
        model.output.parametrizations.weight.original.copy_(torch.tensor(output))


@pytest.mark.parametrize("slope", [0.1, 1.0])
def test_golden_value(slope):
    # W = diag(2, 1) / 2, b = (0, 1); output (3 a - 4 b) / 5 + 4, all times the slope
    model = Discriminator(2, slope)
    set_weights(model, [[2.0, 0.0], [0.0, 1.0]], [[3.0, -4.0]])
    with torch.no_grad():
        model.hidden.bias.copy_(torch.tensor([0.0, 1.0]))
        model.output.bias.fill_(4.0)
    logit = power_iterations(model)(torch.tensor([[0.0, -2.0], [100.0, 100.0]]))
    # tanh(0), tanh(0) give 4; tanh -> 1, 1 give -1/5 + 4
    assert logit.tolist() == pytest.approx([slope * 4.0, slope * 3.8], rel=1e-5)


@pytest.mark.parametrize("slope", [0.05, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("size_of_weights", [0.01, 1.0, 100.0])
def test_the_logits_slope_never_exceeds_the_bound(slope, size_of_weights):
    torch.manual_seed(0)
    model = Discriminator(8, slope)
    with torch.no_grad():
        for layer in (model.hidden, model.output):
            layer.parametrizations.weight.original.mul_(size_of_weights)
    power_iterations(model).eval()
    near = torch.randn(2000, 8)
    far = near + torch.randn(2000, 8) * torch.logspace(-2, 1, 2000)[:, None]
    steepness = (model(near) - model(far)).abs() / (near - far).norm(dim=1)
    assert steepness.max().item() <= slope * 1.001
    # and the bound is one of the layers' norms, not a crushed logit
    assert steepness.max().item() > 0.1 * slope


def test_the_slope_stays_bounded_after_training_on_what_is_easy_to_tell_apart():
    torch.manual_seed(0)
    model = Discriminator(4, slope=0.5)
    real, fake = torch.randn(64, 4) + 3, torch.randn(64, 4) - 3
    train(model, real, fake, updates=60)
    model.eval()
    point = torch.randn(500, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(model(point).sum(), point)
    assert gradient.norm(dim=1).max().item() <= 0.5 * 1.02


def test_starts_undecided_on_an_empty_feature():
    torch.manual_seed(0)
    assert Discriminator(6, slope=1.0)(torch.zeros(3, 6)).tolist() == [0.0, 0.0, 0.0]


def test_starts_nearly_undecided_on_any_feature():
    torch.manual_seed(0)
    p = torch.sigmoid(Discriminator(6, slope=0.1)(torch.randn(200, 6)))
    assert torch.allclose(p, torch.full_like(p, 0.5), atol=0.06)


@pytest.mark.parametrize("slope", [0.1, 1.0])
def test_learns_to_tell_two_clouds_apart(slope):
    torch.manual_seed(0)
    model = Discriminator(4, slope)
    real, fake = torch.randn(64, 4) + 1, torch.randn(64, 4) - 1
    train(model, real, fake, updates=40)
    assert (model(real) > 0).float().mean().item() > 0.9
    assert (model(fake) < 0).float().mean().item() > 0.9


def test_state_survives():
    torch.manual_seed(0)
    model = Discriminator(4, slope=0.5)
    real, fake = torch.randn(16, 4) + 1, torch.randn(16, 4) - 1
    train(model, real, fake, updates=3)
    other = Discriminator(4, slope=0.5)
    other.load_state_dict(model.state_dict())
    # the vectors of the power iteration are part of the state: both take the same next steps
    for _ in range(2):
        assert torch.equal(other(real), model(real))
        train(model, real, fake, updates=1)
        train(other, real, fake, updates=1)
    assert torch.equal(other.eval()(fake), model.eval()(fake))

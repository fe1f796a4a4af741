"""D: two layers whose logit tells a guider's feature from a predictor's."""

import torch

from infocal.discriminator import Discriminator
from infocal.losses import discriminator_loss


def test_golden_value():
    # W = identity, b = (0, 1); output 2 a - 3 b + 4
    model = Discriminator(2)
    with torch.no_grad():
        model.hidden.weight.copy_(torch.eye(2))
        model.hidden.bias.copy_(torch.tensor([0.0, 1.0]))
        model.output.weight.copy_(torch.tensor([[2.0, -3.0]]))
        model.output.bias.fill_(4.0)
    logit = model(torch.tensor([[0.0, -1.0], [100.0, 100.0]]))
    # tanh(0), tanh(0) give 4; tanh -> 1, 1 give 2 - 3 + 4
    assert logit.tolist() == [4.0, 3.0]


def test_starts_undecided_on_an_empty_feature():
    torch.manual_seed(0)
    assert Discriminator(6)(torch.zeros(3, 6)).tolist() == [0.0, 0.0, 0.0]


def test_learns_to_tell_two_clouds_apart():
    torch.manual_seed(0)
    model = Discriminator(4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    real, fake = torch.randn(64, 4) + 1, torch.randn(64, 4) - 1
    for _ in range(40):
        optimizer.zero_grad()
        discriminator_loss(model(real), model(fake), "standard").backward()
        optimizer.step()
    assert (model(real) > 0).float().mean().item() > 0.9
    assert (model(fake) < 0).float().mean().item() > 0.9

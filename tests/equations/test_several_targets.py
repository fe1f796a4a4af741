"""Losses over several targets: sums over heads with their weights."""

import math

import pytest
import torch

from infocal import losses
from tests.small_model import SEVERAL

TASK = SEVERAL.weighted({"charge": 2.0, "term": 0.5, "article": 0.25})
# two texts: three classes, a score, two classes
OUTPUT = [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0], [math.log(2), 0.0, 0.0, math.log(3), 0.0, math.log(4)]]
TARGET = [[1.0, 0.5, 0.0], [0.0, 1.0, 1.0]]


def draw(seed, rows=4):
    generator = torch.Generator().manual_seed(seed)
    output = torch.randn(rows, 6, generator=generator, dtype=torch.float64)
    classes = torch.randint(0, 2, (rows, 2), generator=generator).double()
    score = torch.rand(rows, 1, generator=generator, dtype=torch.float64)
    return output, torch.cat([classes[:, :1], score, classes[:, 1:]], dim=1)


def test_prediction_loss_by_hand():
    found = losses.prediction_loss(torch.tensor(OUTPUT), torch.tensor(TARGET), TASK, reduction="none")
    # charge: ln 3, -ln(2 / 4); term: (1/2 - 1/2)^2, (3/4 - 1)^2, each / (2 * 0.05); article: ln 2, -ln(4/5)
    first = 2 * math.log(3) + 0.5 * 0 + 0.25 * math.log(2)
    second = 2 * math.log(2) + 0.5 * (1 / 16) / 0.1 + 0.25 * math.log(5 / 4)
    assert found.tolist() == pytest.approx([first, second], rel=1e-6)
    assert losses.prediction_loss(torch.tensor(OUTPUT), torch.tensor(TARGET), TASK).item() == pytest.approx(
        (first + second) / 2, rel=1e-6
    )


def test_prediction_loss_is_the_sum_of_its_heads():
    output, target = draw(0)
    found = 0.0
    for number, (head, columns) in enumerate(zip(TASK.heads, TASK.columns, strict=True)):
        own = target[:, number].long() if head.kind == "classification" else target[:, number]
        found += head.weight * losses.prediction_loss(output[:, columns], own, head).item()
    assert losses.prediction_loss(output, target, TASK).item() == pytest.approx(found, rel=1e-12)


def test_divergence_is_the_sum_of_its_heads():
    (full, _), (selected, _) = draw(1), draw(2)
    found = sum(
        head.weight * losses.prediction_divergence(full[:, its], selected[:, its], head).item()
        for head, its in zip(TASK.heads, TASK.columns, strict=True)
    )
    assert losses.prediction_divergence(full, selected, TASK).item() == pytest.approx(found, rel=1e-12)
    assert losses.prediction_divergence(full, full, TASK).item() == 0


def test_difference_of_predictor_and_guider_is_the_sum_of_its_heads():
    (mine, target), (guided, _) = draw(3), draw(4)
    found = sum(
        head.weight
        * losses.invase_calibration(
            mine[:, its],
            guided[:, its],
            target[:, i].long() if head.kind == "classification" else target[:, i],
            head,
        ).item()
        for i, (head, its) in enumerate(zip(TASK.heads, TASK.columns, strict=True))
    )
    assert losses.invase_calibration(mine, guided, target, TASK).item() == pytest.approx(found, rel=1e-12)


def test_gradients():
    output, target = draw(5)
    output.requires_grad_()
    other = draw(6)[0].requires_grad_()
    assert torch.autograd.gradcheck(lambda o: losses.prediction_loss(o, target, TASK), (output,))
    assert torch.autograd.gradcheck(lambda o: losses.prediction_divergence(other, o, TASK), (output,))


def test_a_target_of_weight_0_has_no_gradient():
    output, target = draw(7)
    output.requires_grad_()
    losses.prediction_loss(output, target, TASK.weighted({"term": 0.0})).backward()
    assert output.grad[:, 3].abs().max() == 0 < output.grad[:, :3].abs().max()

"""REINFORCE [Lei2016]: probabilities of masks, and a gradient that is right in expectation."""

import itertools
import math

import pytest
import torch
from torch.nn import functional

from infocal import losses
from infocal.methods.bernoulli import BernoulliConfig, BernoulliTrainer, RunningMean
from infocal.objective import total
from infocal.policy_gradient import mask_log_probability as log_probability
from infocal.policy_gradient import reinforce
from tests.small_model import CLASSES, REGRESSION, random_batch, random_embeddings

IS_TOKEN = torch.tensor([[True, True, True, False], [True, True, False, False]])


def logits(seed=0, shape=(2, 4)):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).double()


def test_golden_probability():
    # p = sigmoid(0) = 1/2 and sigmoid(log 3) = 3/4: the mask 1, 0 has 1/2 * 1/4
    found = log_probability(
        torch.tensor([[0.0, math.log(3)]]), torch.tensor([[1.0, 0.0]]), torch.tensor([[True, True]])
    )
    assert found.tolist() == pytest.approx([math.log(1 / 8)])


def test_golden_surrogate():
    # ((2 - 1) * -1 + (5 - 1) * -2) / 2
    log_p, cost = torch.tensor([-1.0, -2.0]), torch.tensor([2.0, 5.0])
    assert reinforce(log_p, cost, torch.tensor(1.0)).item() == -4.5


@pytest.mark.parametrize("seed", range(3))
def test_equals_the_naive_form(seed):
    logit = logits(seed)
    mask = (logits(seed + 10) > 0).double()
    for row, length in enumerate((3, 2)):
        p = [1 / (1 + math.exp(-x)) for x in logit[row, :length].tolist()]
        naive = sum(math.log(q if m else 1 - q) for q, m in zip(p, mask[row, :length].tolist(), strict=True))
        assert log_probability(logit, mask, IS_TOKEN)[row].item() == pytest.approx(naive, rel=1e-12)


def test_gradient():
    mask = (logits(3) > 0).double()
    cost, baseline = torch.tensor([0.3, 2.0]).double(), torch.tensor(0.5).double()
    assert torch.autograd.gradcheck(
        lambda logit: reinforce(log_probability(logit, mask, IS_TOKEN), cost, baseline),
        logits().requires_grad_(),
    )


def test_the_cost_gets_no_gradient():
    cost = torch.tensor([1.0, 2.0], requires_grad=True)
    log_p = torch.tensor([-1.0, -2.0], requires_grad=True)
    reinforce(log_p, cost, torch.tensor(0.0)).backward()
    assert cost.grad is None
    assert log_p.grad.tolist() == [0.5, 1.0]


def test_padding_changes_nothing():
    logit, mask = logits(), torch.ones(2, 4).double()
    found = log_probability(logit, mask, IS_TOKEN)
    other = torch.where(IS_TOKEN, logit, 9.0)
    assert torch.equal(log_probability(other, mask * IS_TOKEN, IS_TOKEN), found)
    longer = [functional.pad(x, (0, 3), value=v) for x, v in ((logit, -7.0), (mask, 0.0), (IS_TOKEN, False))]
    assert torch.allclose(log_probability(*longer), found, rtol=1e-14)


@pytest.mark.parametrize("baseline", [0.0, 0.7, -3.0])
def test_its_gradient_is_that_of_the_exact_expectation(baseline):
    """Over all eight masks of a text of three tokens: sum of p(m) times the estimate is grad E[cost]."""
    logit = torch.tensor([[0.4, -1.1, 0.2]], dtype=torch.float64, requires_grad=True)
    is_token = torch.ones(1, 3, dtype=torch.bool)
    masks = [torch.tensor([m], dtype=torch.float64) for m in itertools.product((0.0, 1.0), repeat=3)]
    config = BernoulliConfig(lambda_sparsity=0.3, lambda_coherence=0.2)

    def cost(mask):
        target, output = torch.tensor([0.9]).double(), (mask @ torch.tensor([[0.8], [-0.4], [0.1]]).double())
        each = {
            "sp": losses.prediction_loss(output, target, REGRESSION, reduction="none"),
            "sparsity": mask.sum(dim=1),
            "coherence": losses.coherence(mask, is_token, reduction="none"),
        }
        return total(each, config, 1.0)

    p = [log_probability(logit, mask, is_token).exp() for mask in masks]
    assert sum(p).item() == pytest.approx(1, rel=1e-12)
    expectation = sum(q * cost(mask) for q, mask in zip(p, masks, strict=True))
    (exact,) = torch.autograd.grad(expectation, logit)
    estimate = torch.zeros_like(logit)
    for mask in masks:
        log_p = log_probability(logit, mask, is_token)
        loss = reinforce(log_p, cost(mask), torch.tensor(baseline).double())
        (gradient,) = torch.autograd.grad(loss, logit)
        estimate += log_p.exp().item() * gradient
    assert exact.abs().min() > 0.01
    assert torch.allclose(estimate, exact, rtol=1e-10)


def test_a_baseline_lowers_the_variance():
    generator = torch.Generator().manual_seed(0)
    logit = torch.zeros(4000, 3, dtype=torch.float64, requires_grad=True)
    is_token = torch.ones(4000, 3, dtype=torch.bool)
    mask = torch.bernoulli(torch.full((4000, 3), 0.5).double(), generator=generator)
    cost = 5 + mask @ torch.tensor([1.0, -1.0, 0.0]).double()
    variance = []
    for baseline in (0.0, 5.0):
        loss = reinforce(log_probability(logit, mask, is_token), cost, torch.tensor(baseline).double())
        (gradient,) = torch.autograd.grad(loss, logit)
        variance.append((gradient * 4000).var(dim=0).sum().item())
    assert variance[1] < variance[0] / 10


def test_the_running_mean_is_one_of_what_it_has_seen():
    mean = RunningMean(0.9)
    assert mean.value.item() == 0
    mean.update(torch.tensor([1.0, 3.0]))
    assert mean.value.item() == pytest.approx(2.0)  # not pulled to the zero it started from
    mean.update(torch.tensor([4.0]))
    assert mean.value.item() == pytest.approx((0.9 * 2 + 4) / 1.9)


@pytest.mark.parametrize("baseline", ["none", "mean"])
@pytest.mark.parametrize("task", [REGRESSION, CLASSES], ids=["score", "classes"])
def test_one_step_is_that_of_the_formula(baseline, task):
    config = BernoulliConfig(
        hidden_size=3, baseline=baseline, lambda_sparsity=0.1, lambda_coherence=0.2, dense_epochs=0.0,
        ramp_epochs=0.0, embedding_dropout=0.0,
    )  # fmt: skip
    trainer = BernoulliTrainer(
        config, task, random_embeddings(), steps_per_epoch=3, seed=0, device=torch.device("cpu")
    )
    trainer.mean_cost.update(torch.tensor([0.25]))
    batch = random_batch([6, 3, 2, 5], task=task)
    torch.manual_seed(1)
    forward = trainer.model(batch.words, batch.is_token)
    torch.manual_seed(1)
    terms, mask, _ = trainer.step_terms(batch)
    assert torch.equal(mask, forward.mask)
    assert set(mask[batch.is_token].tolist()) <= {0.0, 1.0}
    sp = losses.prediction_loss(forward.output, batch.target, task, reduction="none")
    changes = (mask.diff(dim=1).abs() * batch.is_token[:, 1:]).sum(dim=1)
    cost = sp + 0.1 * mask.sum(dim=1) + 0.2 * changes
    log_p = log_probability(forward.select_logit, mask, batch.is_token)
    expected = ((cost - (0.25 if baseline == "mean" else 0.0)) * log_p).mean()
    assert terms["reinforce"].item() == pytest.approx(expected.item(), rel=1e-5)
    assert terms["sp"].item() == pytest.approx(sp.mean().item())


@pytest.mark.parametrize("task", [REGRESSION, CLASSES], ids=["score", "classes"])
def test_another_draw_is_a_baseline_for_each_text(task):
    config = BernoulliConfig(
        hidden_size=3, baseline="draw", lambda_sparsity=0.1, lambda_coherence=0.2, dense_epochs=0.0,
        ramp_epochs=0.0, start_selection_rate=0.5,
    )  # fmt: skip
    trainer = BernoulliTrainer(
        config, task, random_embeddings(), steps_per_epoch=3, seed=0, device=torch.device("cpu")
    )
    batch = random_batch([6, 3, 2, 5], task=task)
    torch.manual_seed(1)
    forward = trainer.model(batch.words, batch.is_token)
    other = trainer.model.draw(forward.select_logit, batch.is_token)
    torch.manual_seed(1)
    terms, mask, _ = trainer.step_terms(batch)
    assert torch.equal(mask, forward.mask)
    assert not torch.equal(mask, other)

    def cost(drawn):
        output = trainer.model.respond(forward.embedded, drawn, batch.is_token)
        sp = losses.prediction_loss(output, batch.target, task, reduction="none")
        changes = (drawn.diff(dim=1).abs() * batch.is_token[:, 1:]).sum(dim=1)
        return sp + 0.1 * drawn.sum(dim=1) + 0.2 * changes

    log_p = log_probability(forward.select_logit, mask, batch.is_token)
    expected = ((cost(mask) - cost(other)).detach() * log_p).mean()
    assert terms["reinforce"].item() == pytest.approx(expected.item(), rel=1e-5)


def test_a_draw_of_the_same_text_lowers_the_variance_further_than_the_mean_cost():
    """Texts whose masks all cost 1 and texts whose masks all cost 9 teach nothing, and need not add noise."""
    generator = torch.Generator().manual_seed(0)
    logit = torch.zeros(4000, 3, dtype=torch.float64, requires_grad=True)
    is_token = torch.ones(4000, 3, dtype=torch.bool)
    drawn = [torch.bernoulli(torch.full((4000, 3), 0.5).double(), generator=generator) for _ in range(2)]
    hardness = torch.where(torch.arange(4000) % 2 == 0, 1.0, 9.0).double()
    cost, other = (hardness + 0.1 * mask[:, 0] for mask in drawn)
    variance, mean = [], []
    for baseline in (cost.mean(), other):
        loss = reinforce(log_probability(logit, drawn[0], is_token), cost, baseline)
        (gradient,) = torch.autograd.grad(loss, logit)
        variance.append((gradient * 4000).var(dim=0).sum().item())
        mean.append(gradient.sum(dim=0)[0].item())
    assert variance[1] < variance[0] / 100
    # E[grad] by the first token: 0.1 p (1 - p)
    assert mean[1] == pytest.approx(0.025, abs=0.002)

"""INVASE's reward [Yoon2018] in InfoCal: policy gradient, with the guider as baseline."""

import itertools

import pytest
import torch

from infocal import losses
from infocal.errors import ConfigError
from infocal.methods.infocal import trainer as method
from infocal.policy_gradient import mask_log_probability
from tests.small_model import CLASSES, REGRESSION, random_batch, small_config, small_trainer

every_task = pytest.mark.parametrize("task", [REGRESSION, CLASSES], ids=["score", "classes"])


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


def invase(task=REGRESSION, **changes):
    trainer = small_trainer(task, calibration_loss="policy_gradient", start_selection_rate=0.4, **changes)
    trainer.model.double()
    trainer.discriminator.double()
    return trainer


def doubled(batch):
    object.__setattr__(batch, "lm_logit", batch.lm_logit.double())
    if batch.target.is_floating_point():
        object.__setattr__(batch, "target", batch.target.double())
    return batch


def all_masks(length):
    return [torch.tensor([m], dtype=torch.float64) for m in itertools.product((0.0, 1.0), repeat=length)]


@every_task
def test_its_mean_over_all_masks_is_the_exact_gradient(task, monkeypatch):
    """A text of four tokens: sum over the 16 masks of p(m) times the estimate is grad E[L_sp(m)]."""
    trainer, batch = invase(task), doubled(random_batch([4], 1, task))
    logit = trainer.model.selector(trainer.model.embed(batch.words), batch.is_token)
    probability = {
        tuple(m[0].tolist()): mask_log_probability(logit, m, batch.is_token).exp() for m in all_masks(4)
    }
    expectation, estimate = 0.0, torch.zeros_like(logit)
    for mask in all_masks(4):
        monkeypatch.setattr("infocal.methods.infocal.model.sample_mask", lambda *_, mask=mask: mask)
        terms, _, forward = trainer.step_terms(batch)
        p = probability[tuple(mask[0].tolist())]
        expectation = expectation + (p * terms["sp"].detach()).sum()
        (gradient,) = torch.autograd.grad(terms["g"], forward.select_logit)
        estimate += p.item() * gradient
    assert sum(probability.values()).item() == pytest.approx(1, rel=1e-12)
    (exact,) = torch.autograd.grad(expectation, logit)
    assert exact.abs().min() > 1e-6
    assert torch.allclose(estimate, exact, rtol=1e-8, atol=1e-12)


@every_task
def test_golden_reward(task):
    """(L_sp - L_guide) log p(m | x) of each text, by hand; the guider predicts from its mean."""
    trainer, batch = invase(task), doubled(random_batch([4, 2, 3], 2, task))
    torch.manual_seed(3)
    terms, mask, forward = trainer.step_terms(batch)
    guided = trainer.model.output(forward.gaussian.mu)
    by_hand = 0.0
    for row, length in enumerate((4, 2, 3)):
        p = torch.sigmoid(forward.select_logit[row, :length])
        log_p = sum(torch.log(q if m else 1 - q).item() for q, m in zip(p, mask[row, :length], strict=True))
        difference = [
            losses.prediction_loss(output[[row]], batch.target[[row]], task).item()
            for output in (forward.predictor_output, guided)
        ]
        by_hand += (difference[0] - difference[1]) * log_p / 3
    assert terms["g"].item() == pytest.approx(by_hand, rel=1e-10)


@every_task
def test_no_gradient_passes_from_the_prediction_to_the_selector(task):
    trainer, batch = invase(task), doubled(random_batch([4, 2, 3], 2, task))
    terms, _, forward = trainer.step_terms(batch)
    (of_sp,) = torch.autograd.grad(terms["sp"], forward.select_logit, retain_graph=True, allow_unused=True)
    assert of_sp is None
    parameters = dict(trainer.model.named_parameters())
    found = torch.autograd.grad(terms["g"], list(parameters.values()), allow_unused=True)
    reached = {name.split(".")[0] for name, grad in zip(parameters, found, strict=True) if grad is not None}
    assert reached == {"selector"}, "the reward is a constant to predictor and guider"


def test_the_other_terms_reach_the_selector_as_ever():
    batch = doubled(random_batch([4, 2, 3], 2))
    gradients = []
    for loss in ("policy_gradient", "discriminator"):
        trainer = invase(coherence_form="drawn", lm_form="drawn")
        object.__setattr__(trainer.config, "calibration_loss", loss)
        torch.manual_seed(4)
        terms, _, forward = trainer.step_terms(batch)
        gradients.append(
            [
                torch.autograd.grad(terms[n], forward.select_logit, retain_graph=True)[0]
                for n in ("lm", "ib", "coherence")
            ]
        )
    for mine, theirs in zip(*gradients, strict=True):
        assert mine.abs().max() > 0
        assert torch.equal(mine, theirs)


def test_the_baseline_takes_out_how_hard_a_text_is(monkeypatch):
    """Where guider and predictor lose alike, nothing is learnt from the mask."""
    trainer, batch = invase(), doubled(random_batch([4, 2], 2))
    monkeypatch.setattr(
        method.losses, "prediction_loss", lambda *_, reduction="mean": torch.tensor([3.0, 5.0]).double()
    )
    forward = trainer.model(batch.words, batch.is_token)
    assert trainer._reward(batch, forward).item() == 0.0


def test_it_needs_masks_that_are_drawn_hard():
    with pytest.raises(
        ConfigError, match=r"policy_gradient needs hard masks .* `sampling` is relaxed"
    ) as caught:
        small_config(calibration_loss="policy_gradient", sampling="relaxed")
    assert caught.value.hint == "set `sampling` to straight_through"


def test_the_row_of_before_is_the_losss_own_gradient_once_more():
    """`invase`: L_sp at weight 1 + lambda_g, to the bit but for rounding; why the row was replaced."""
    batch = random_batch([4, 2, 3], 2)
    trainer = small_trainer(calibration_loss="invase")
    terms, _, forward = trainer.step_terms(batch)
    of_g, of_sp = (
        torch.autograd.grad(terms[name], forward.select_logit, retain_graph=True)[0] for name in ("g", "sp")
    )
    assert torch.allclose(of_g, of_sp, rtol=1e-6, atol=0)

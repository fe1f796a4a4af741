"""RNP and MCD: which loss reaches which part, and what each variant adds."""

import dataclasses
import math

import pytest
import torch

from infocal import losses
from infocal.config import Task
from infocal.methods.mcd import McdConfig, McdTrainer
from infocal.methods.rnp import SLOWEST, RnpConfig, RnpTrainer, predictor_pace
from tests.small_model import CLASSES, REGRESSION, random_batch, random_batches, random_embeddings

TRAINERS = {RnpConfig: RnpTrainer, McdConfig: McdTrainer}
BATCH = random_batch([6, 3, 2, 5])
every_task = pytest.mark.parametrize("task", [REGRESSION, CLASSES], ids=["score", "classes"])


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


def trainer_of(kind, task=REGRESSION, **changes):
    start = {"dense_epochs": 0.0, "ramp_epochs": 0.0, "start_selection_rate": 0.5, "embedding_dropout": 0.0}
    config = kind(hidden_size=3, target_selection_rate=0.3, **start | changes)
    return TRAINERS[kind](
        config, task, random_embeddings(), steps_per_epoch=3, seed=0, device=torch.device("cpu")
    )


def gradients(trainer, term):
    """Which parts of the model a term reaches: names of the first level."""
    trainer.model.zero_grad()
    term.backward(retain_graph=True)
    return {
        name.split(".")[0]
        for name, value in trainer.model.named_parameters()
        if value.grad is not None and value.grad.any()
    }


# ------------------------------------------------------------------------------------------------- RNP, MGR


@every_task
@pytest.mark.parametrize("num_selectors", [1, 3])
def test_the_objective_is_the_sum_over_the_selectors(task, num_selectors):
    trainer = trainer_of(RnpConfig, task, num_selectors=num_selectors)
    batch = random_batch([6, 3, 2, 5], task=task)
    torch.manual_seed(1)
    terms, mask, passes = trainer.step_terms(batch)
    assert len(passes) == num_selectors
    assert torch.equal(mask, passes[0].mask)
    expected = 0.0
    for one in passes:
        assert set(one.mask.unique().tolist()) <= {0.0, 1.0}
        predicted = trainer.model.respond(trainer.model.embed(batch.words), one.mask, batch.is_token)
        p = torch.sigmoid(one.select_logit)
        excess = losses.mean_selection_rate(one.select_logit, batch.is_token) - 0.3
        # the multiplier has made one step from 0
        expected += losses.prediction_loss(predicted, batch.target, task).item()
        expected += 0.03 * losses.expected_coherence(p, batch.is_token).item()
        expected += (0.1 * excess * excess + 10 * excess * excess).item()
    assert trainer.objective(terms).item() == pytest.approx(expected, rel=1e-5)


def test_every_selector_learns_and_the_first_one_selects():
    trainer = trainer_of(RnpConfig, num_selectors=3, learning_rate=0.01)
    before = {name: value.clone() for name, value in trainer.model.named_parameters()}
    for epoch in range(2):
        trainer.train_epoch(random_batches(3, seed=epoch))
    assert all(not torch.equal(value, before[name]) for name, value in trainer.model.named_parameters())
    model = trainer.model.eval()
    with torch.no_grad():
        found = model.infer(BATCH.words, BATCH.is_token).mask
        logit = model.selector(model.embed(BATCH.words), BATCH.is_token)
        others = [one(model.embed(BATCH.words), BATCH.is_token) for one in model.others]
    assert torch.equal(found, ((logit >= 0) & BATCH.is_token).float())
    assert all(not torch.equal(other, logit) for other in others)


# ------------------------------------------------------------------------------------------------- FR


def test_one_encoder_is_trained_by_both_parts_and_counts_once():
    trainer = trainer_of(RnpConfig, shared_encoder=True)
    model = trainer.model
    assert model.selector.encoder is model.predictor.encoder
    terms, _, _ = trainer.step_terms(BATCH)
    of_selector = torch.autograd.grad(terms["rate"], model.selector.encoder.input_weight, retain_graph=True)
    of_both = torch.autograd.grad(terms["sp"], model.selector.encoder.input_weight)
    assert of_selector[0].any() and of_both[0].any()
    trained = [id(p) for group in trainer.optimizer.param_groups for p in group["params"]]
    assert len(trained) == len(set(trained)) == len(list(model.parameters()))


def test_a_shared_encoder_has_the_selectors_pace():
    trainer = trainer_of(RnpConfig, shared_encoder=True, pace="sparsity")
    (follower,) = (group for group in trainer.optimizer.param_groups if group["follows_sparsity"])
    encoder = {id(p) for p in trainer.model.predictor.encoder.parameters()}
    assert not encoder & {id(p) for p in follower["params"]}


# ------------------------------------------------------------------------------------------------- DR


@pytest.mark.parametrize(("rate", "share"), [(0.0, SLOWEST), (0.04, SLOWEST), (0.2, 0.2), (1.0, 1.0)])
def test_the_predictor_is_as_slow_as_the_masks_are_short(rate, share):
    assert predictor_pace(rate) == share


def test_the_predictors_learning_rate_follows_the_masks():
    trainer = trainer_of(RnpConfig, pace="sparsity", learning_rate=0.01)
    names = {id(value): name.split(".")[0] for name, value in trainer.model.named_parameters()}
    for seed in range(3):
        torch.manual_seed(seed)
        trainer.train_step(BATCH)
        torch.manual_seed(seed)
        found = {}
        for group in trainer.optimizer.param_groups:
            for parameter in group["params"]:
                found[names[id(parameter)]] = group["lr"]
        assert set(found) == {"selector", "predictor", "output"}
        assert found["selector"] == 0.01
        assert found["predictor"] == found["output"] < 0.01
    torch.manual_seed(7)
    _, mask, _ = trainer.step_terms(BATCH)
    rate = mask.sum().item() / BATCH.is_token.sum().item()
    (follower,) = (group for group in trainer.optimizer.param_groups if group["follows_sparsity"])
    assert follower["lr"] == pytest.approx(0.01 * max(rate, SLOWEST), rel=1e-6)


def test_without_it_there_is_one_learning_rate():
    assert len(trainer_of(RnpConfig).optimizer.param_groups) == 1


# ------------------------------------------------------------------------------------------------- N2R


def test_the_norm_reaches_the_selector_alone():
    trainer = trainer_of(RnpConfig, lambda_norm=1.0)
    torch.manual_seed(0)
    terms, _, passes = trainer.step_terms(BATCH)
    assert gradients(trainer, terms["norm"]) == {"selector"}
    assert gradients(trainer, terms["sp"]) == {"selector", "predictor", "output"}
    model = trainer.model
    feature = model.predictor(model.embed(BATCH.words), mask=passes[0].mask, is_token=BATCH.is_token)
    assert terms["norm"].item() == pytest.approx(losses.representation_norm(feature).item(), rel=1e-5)
    assert all(value.requires_grad for value in model.parameters())


def test_golden_norm():
    # rows of length 5 and 10: -(ln 5 + ln 10) / 2
    feature = torch.tensor([[3.0, 4.0], [6.0, -8.0]])
    assert losses.representation_norm(feature).item() == pytest.approx(-(math.log(5) + math.log(10)) / 2)


def test_the_norm_of_an_empty_rationale_counts_as_the_smallest():
    feature = torch.zeros(2, 3, requires_grad=True)
    loss = losses.representation_norm(feature)
    assert loss.item() == pytest.approx(-math.log(1e-6))
    loss.backward()
    assert torch.equal(feature.grad, torch.zeros(2, 3))


def test_golden_divergence():
    # p = (1/4, 3/4), q = (1/2, 1/2): KL = 3/4 ln 3 - ln 2
    full, selected = torch.tensor([[0.0, math.log(3.0)]]), torch.tensor([[1.0, 1.0]])
    found = losses.prediction_divergence(full, selected, Task(kind="classification", num_classes=2))
    assert found.item() == pytest.approx(0.75 * math.log(3.0) - math.log(2.0))
    # scores .8 and .5, variance of the targets .09: .09 / .18
    full, selected = torch.tensor([[math.log(4.0)]]), torch.tensor([[0.0]])
    found = losses.prediction_divergence(full, selected, Task(kind="regression", target_variance=0.09))
    assert found.item() == pytest.approx(0.5)


def test_without_weight_there_is_no_norm():
    assert "norm" not in trainer_of(RnpConfig).step_terms(BATCH)[0]


# ------------------------------------------------------------------------------------------------- MCD


@every_task
def test_each_loss_reaches_its_half(task):
    trainer = trainer_of(McdConfig, task)
    batch = random_batch([6, 3, 2, 5], task=task)
    torch.manual_seed(0)
    terms, mask, forward = trainer.step_terms(batch)
    assert gradients(trainer, terms["kl"]) == {"selector"}
    for name in ("sp", "guide"):
        assert gradients(trainer, terms[name]) == {"predictor", "output"}
    assert gradients(trainer, terms["rate"]) == {"selector"}
    assert torch.allclose(forward.output, forward.through, atol=1e-6)
    everything = batch.is_token.float()
    whole = trainer.model.respond(trainer.model.embed(batch.words), everything, batch.is_token)
    assert torch.allclose(forward.full, whole, atol=1e-6)
    assert terms["kl"].item() == pytest.approx(
        losses.prediction_divergence(whole, forward.output, task).item(), rel=1e-4, abs=1e-9
    )
    assert mask.unique().tolist() == [0.0, 1.0]


def test_a_dense_row_has_nothing_to_diverge():
    trainer = trainer_of(McdConfig)
    dense = dataclasses.replace(trainer.config, target_selection_rate=1.0)
    trainer = McdTrainer(
        dense, REGRESSION, random_embeddings(), steps_per_epoch=3, seed=0, device=torch.device("cpu")
    )
    terms, mask, _ = trainer.step_terms(BATCH)
    assert torch.equal(mask, BATCH.is_token.float())
    assert terms["kl"].item() == pytest.approx(0.0, abs=1e-9)

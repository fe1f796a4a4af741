"""What every registered method must keep where a model predicts several targets."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch

from infocal.errors import ConfigError
from infocal.methods.registry import METHODS, method
from infocal.objective import Terms
from infocal.trainer import Trainer, predict
from pipeline.training.checkpoints import Package, load_package, save_package
from pipeline.training.explainer import Explainer
from tests.contracts.test_methods import CPU, assert_same_state, same_answers, small, trainer_of
from tests.small_model import CLASSES, LAW, NUM_WORDS, SEVERAL, fit, random_batch, random_batches

SEVERAL_METHODS = [name for name in METHODS if method(name).config_class().predicts_several]
ONE_TARGET = [name for name in METHODS if name not in SEVERAL_METHODS]
BOTH = [name for name in SEVERAL_METHODS if method(name).config_class().predicts_one]
SEVERAL_ALONE = [name for name in SEVERAL_METHODS if name not in BOTH]
every_method = pytest.mark.parametrize("name", SEVERAL_METHODS)
FIRST_ALONE = "term=0,article=0"
INFOCAL = ["discriminator", "policy_gradient", "invase"]


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


@every_method
def test_it_trains_every_head(name):
    task = fit(name, SEVERAL)
    trainer = trainer_of(name, task, dropout_free=True)
    before = {n: p.detach().clone() for n, p in trainer.model.named_parameters()}
    while trainer.epoch < math.ceil(trainer.config.start_epochs) + 2:
        means = trainer.train_epoch(random_batches(3, task, seed=trainer.epoch))
        assert all(np.isfinite(value) for value in means.values())
    now = dict(trainer.model.named_parameters())
    if name == "mpbfn_wca":  # each target has layers of its own
        assert not any(torch.equal(now[n], value) for n, value in before.items() if "forward_layers" in n)
        return
    for columns in task.columns:
        assert not torch.equal(now["output.weight"][columns], before["output.weight"][columns])


def step(trainer: Trainer, batch) -> tuple[Terms, dict[str, torch.Tensor]]:
    """The terms of one pass past the start, and the gradient of each parameter."""
    trainer.epoch = math.ceil(trainer.config.start_epochs)
    torch.manual_seed(1)
    terms, _, _ = trainer.step_terms(batch)
    trainer.model.zero_grad()
    trainer.objective(terms).backward()
    return terms, {n: p.grad for n, p in trainer.model.named_parameters() if p.grad is not None}


def alike(name, **changes) -> tuple[Trainer, Trainer]:
    """A trainer of one target, and one of several of which that one alone has a weight; equal weights."""
    single = trainer_of(name, CLASSES, dropout_free=True, **changes)
    several = trainer_of(name, SEVERAL, dropout_free=True, target_weights=FIRST_ALONE, **changes)
    mine, theirs = single.model.state_dict(), several.model.state_dict()
    for key, value in theirs.items():
        value[: len(mine[key])] = mine[key]
    if hasattr(single, "discriminator"):
        several.discriminator.load_state_dict(single.discriminator.state_dict())
    return single, several


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *((name, {}) for name in BOTH),
        *(("infocal", {"calibration_loss": form, "lambda_g": 0.5}) for form in INFOCAL),
        ("fresh", {"saliency": "gradient", "support_epochs": 1.0}),
    ],
)
def test_a_target_of_weight_0_changes_no_gradient_of_what_is_shared(name, changes):
    single, several = alike(name, **changes)
    expected, mine = step(single, random_batch([6, 3, 2, 5], task=CLASSES))
    found, theirs = step(several, random_batch([6, 3, 2, 5], task=SEVERAL))
    assert {n: v.item() for n, v in found.items() if "/" not in n} == pytest.approx(
        {n: v.item() for n, v in expected.items()}
    )
    assert found["charge/sp"].item() == pytest.approx(found["sp"].item()), "the targets' own shares are named"
    assert {"term/sp", "article/sp"} <= found.keys()
    assert mine.keys() == theirs.keys()
    for key, gradient in mine.items():
        own = theirs[key][: len(gradient)]
        assert torch.allclose(own, gradient, rtol=1e-4, atol=1e-7), key
        assert not theirs[key][len(gradient) :].any(), f"{key}: the heads of weight 0 have a gradient"


@every_method
def test_a_prediction_holds_each_target(name):
    task = fit(name, SEVERAL)
    trainer = trainer_of(name, task)
    batch = random_batch([6, 3, 2, 5], task=task)
    with torch.no_grad():
        inference = trainer.model.eval().infer(batch.words, batch.is_token)
    assert inference.output.shape == (4, task.num_outputs)
    for row, found in enumerate(predict(trainer.model, [batch], CPU)):
        every = (found, *found.sides)
        assert [one.target for one in every] == pytest.approx(batch.target[row].tolist())
        assert np.concatenate([one.output for one in every]) == pytest.approx(inference.output[row].numpy())
        for one, head in zip(every, task.heads, strict=True):
            assert head.kind == "regression" or one.output.sum() == pytest.approx(1)
            assert 0 <= one.output.min() <= one.output.max() <= 1


@pytest.mark.parametrize("name", BOTH)
def test_a_package_answers_for_each_target_by_its_name(name, tmp_path):
    trainer = trainer_of(name, SEVERAL, target_weights="term=0.5")
    model = trainer.evaluated_model.eval()
    targets = [{"name": head.name, "score_range": [0.0, 4.0]} for head in SEVERAL.heads]
    words = [f"w{i}" for i in range(NUM_WORDS)]
    package = Package(
        model, words, {"tokenizer": "whitespace", "aspect": "charge+term+article", "targets": targets}
    )
    save_package(tmp_path / "model", package)
    loaded = load_package(tmp_path / "model")
    assert loaded.model.task == SEVERAL.weighted({"term": 0.5})
    assert same_answers(loaded.model, model, random_batch([5, 3], task=SEVERAL))
    (found,) = Explainer(loaded).explain(["w3 w4 w5"])
    assert list(found.targets) == ["charge", "term", "article"]
    assert found.targets["charge"].probabilities == found.probabilities
    assert 0 < found.targets["term"].prediction < 4
    assert found.said.startswith(f"predicted charge: {found.label} (")


@every_method
def test_it_goes_on_exactly_from_a_state(name):
    task = fit(name, SEVERAL)
    trainer, other = trainer_of(name, task), trainer_of(name, task, seed=5)
    batches = random_batches(3, task)
    trainer.train_epoch(batches)
    state = copy.deepcopy(trainer.state_dict())
    trainer.train_epoch(batches)
    other.load_state_dict(state)
    other.train_epoch(batches)
    assert_same_state(other.model.state_dict(), trainer.model.state_dict())


def test_the_main_target_is_explained():
    single, several = alike("attention", explainer="gradient_x_input")
    batch = random_batch([6, 3, 2, 5], task=SEVERAL)
    mine, theirs = (t.model.eval() for t in (single, several))
    expected, found = (m.importance(m.embed(batch.words), batch.is_token) for m in (mine, theirs))
    assert torch.allclose(found, expected, atol=1e-7)
    assert expected.any()


@pytest.mark.parametrize("name", SEVERAL_ALONE)
def test_a_package_of_several_targets_alone_answers_for_each(name, tmp_path):
    model = trainer_of(name, LAW).evaluated_model.eval()
    package = Package(
        model,
        [f"w{i}" for i in range(NUM_WORDS)],
        {"tokenizer": "whitespace", "aspect": "law", "targets": [{"name": h.name} for h in LAW.heads]},
    )
    save_package(tmp_path / "model", package)
    loaded = load_package(tmp_path / "model")
    assert same_answers(loaded.model, model, random_batch([5, 3], task=LAW))
    (found,) = Explainer(loaded).explain(["w3 w4 w5"])
    assert list(found.targets) == ["charges", "articles", "terms"]


@pytest.mark.parametrize("name", SEVERAL_ALONE)
def test_a_method_of_several_targets_refuses_one_before_it_trains(name):
    message = "this method predicts several targets, but got one"
    with pytest.raises(ConfigError, match=message) as caught:
        small(name).weighted(CLASSES)
    assert "--task charges,articles,terms" in (caught.value.hint or "")
    with pytest.raises(ConfigError, match=message):
        trainer_of(name, CLASSES)
    with pytest.raises(ConfigError, match="several targets, but got `terms`"):
        small(name).weighted(LAW.sides[1])


@pytest.mark.parametrize("name", ONE_TARGET)
def test_a_method_of_one_target_refuses_several_before_it_trains(name):
    with pytest.raises(ConfigError, match="this method predicts one target, but got `charge`, `term`"):
        small(name).weighted(SEVERAL)
    with pytest.raises(ConfigError, match="this method predicts one target"):
        trainer_of(name, SEVERAL, **({"encoder": "transformer"} if name.startswith("bert") else {}))


def test_the_selectors_of_rationales_have_several_targets():
    assert {"infocal", "rnp", "mcd", "hardkuma", "bernoulli", "fresh"} <= set(SEVERAL_METHODS)


def test_no_method_has_another_default_for_the_weights():
    for name in METHODS:
        fields = {field.name: field.default for field in dataclasses.fields(small(name))}
        assert fields["target_weights"] == ""

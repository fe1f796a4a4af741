"""Explanations after training: what is known of linear models, and what every explanation must keep."""

import dataclasses
import importlib.util
import re

import numpy as np
import pytest
import torch
from captum.attr import InputXGradient
from sklearn.linear_model import Ridge
from torch.nn import functional

from infocal import explainers
from infocal.errors import ConfigError
from infocal.methods.registry import METHODS, method
from infocal.nn.captum_explaining import (
    KERNEL_WIDTH,
    NUM_FEATURES,
    kernel,
    lime_samples,
    linear_weights,
)
from infocal.nn.encoders import Embedded
from infocal.nn.explained import Explained
from infocal.nn.explaining import contributions
from tests.small_encoder import given_to, naming
from tests.small_model import CLASSES, REGRESSION, fit, random_batch

BATCH = random_batch([9, 3, 1, 7], task=CLASSES)
CLASSIFIERS = [name for name in METHODS if hasattr(method(name).config_class()(), "explainer")]
every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)
every_explainer = pytest.mark.parametrize("explainer", explainers.AFTER_TRAINING)
every_task = pytest.mark.parametrize("task", [REGRESSION, CLASSES], ids=["score", "classes"])


@pytest.fixture(autouse=True)
def kernel_form(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


def model_of(name, task=CLASSES, **changes):
    torch.manual_seed(0)
    found = method(name)
    values = {"hidden_size": 5, **naming((found.encoders or ("lstm",))[0]), **changes}
    config = found.config_class().from_mapping(values)
    return found.trainer_class().model_class(config, fit(name, task), given_to(config.encoder)).eval()


def importance(model, batch=BATCH):
    with torch.no_grad():
        return model.importance(model.embed(batch.words), batch.is_token)


def linear(weights, constant=0.3):
    """Texts of words with these weights; the logits of two classes are 0 and their sum with a constant."""
    weights = torch.tensor(weights, dtype=torch.float64)
    index = torch.arange(len(weights))[None]

    def logits(embedded, gate, is_token):
        score = constant + (functional.embedding(embedded.index, embedded.vectors)[..., 0] * gate).sum(dim=1)
        return torch.stack([torch.zeros_like(score), score], dim=1)

    embedded = Embedded(weights[:, None], index)
    is_token = torch.ones(1, len(weights), dtype=torch.bool)
    return Explained(logits, logits, embedded, is_token, 4000, is_score=False)


WEIGHTS = [0.0, 2.0, 0.0, -1.0, 0.5, 0.0, 1.0]


# ------------------------------------------------------------------------------------------ linear models


@pytest.mark.parametrize("name", [explainers.GRADIENT_X_INPUT, explainers.INTEGRATED_GRADIENTS])
def test_the_gradients_of_a_linear_model_are_its_weights(name):
    assert contributions(name, linear(WEIGHTS))[0].tolist() == pytest.approx(WEIGHTS, abs=1e-6)


def test_the_lime_weights_of_a_linear_model_are_its_weights():
    samples = lime_samples(7, 4000).double()
    found = linear_weights(samples, 0.1 + samples @ torch.tensor(WEIGHTS).double(), kernel(samples).double())
    # six tokens are explained; the penalty of 1 beside some 400 of the samples takes less than a hundredth
    assert found.tolist() == pytest.approx(WEIGHTS, rel=0.01, abs=1e-3)
    assert (found == 0).sum() == 1


def test_lime_finds_the_words_of_a_linear_logit():
    found = contributions(explainers.LIME, linear(WEIGHTS))[0]
    order = found.argsort(descending=True)[:3].tolist()
    assert order == [1, 6, 4]
    # what speaks against the class counts as nothing
    assert found[3] == 0
    assert (found >= 0).all()


def test_lime_is_ridge_regression_on_the_tokens_of_forward_selection():
    """By scikit-learn, as the package lime does it."""
    samples = lime_samples(9, 60).double().numpy()
    rng = np.random.default_rng(0)
    target, weight = rng.random(60), kernel(torch.from_numpy(samples)).numpy()
    chosen: list[int] = []
    for _ in range(NUM_FEATURES):
        scores = {}
        for token in set(range(9)) - set(chosen):
            columns = samples[:, [*chosen, token]]
            fitted = Ridge(alpha=0.01).fit(columns, target, sample_weight=weight)
            scores[token] = fitted.score(columns, target, sample_weight=weight)
        chosen.append(max(scores, key=scores.__getitem__))
    fitted = Ridge(alpha=1.0).fit(samples[:, chosen], target, sample_weight=weight)
    expected = np.zeros(9)
    expected[chosen] = fitted.coef_
    found = linear_weights(*map(torch.from_numpy, (samples, target, weight)))
    assert found.tolist() == pytest.approx(expected.tolist(), rel=1e-8)


# ---------------------------------------------------------------------------------------------- the samples


def test_golden_kernel():
    # one of four tokens kept: cosine 1 / (1 * 2), distance 50; nothing kept: distance 100
    sample = torch.tensor([[1.0, 1, 1, 1], [1, 0, 0, 0], [0, 0, 0, 0]]).double()
    expected = [1.0, np.exp(-((50 / KERNEL_WIDTH) ** 2) / 2), np.exp(-((100 / KERNEL_WIDTH) ** 2) / 2)]
    assert kernel(sample).tolist() == pytest.approx(expected, rel=1e-9)


def test_the_samples_begin_with_the_text_and_leave_out_any_number_of_its_tokens():
    samples = lime_samples(5, 2000)
    assert samples[0].tolist() == [1.0] * 5
    removed = (5 - samples[1:].sum(dim=1)).int().bincount(minlength=6).tolist()
    assert removed[0] == 0
    assert all(340 < count < 460 for count in removed[1:])
    assert samples[1:].mean(dim=0).tolist() == pytest.approx([0.4] * 5, abs=0.04)
    assert torch.equal(samples, lime_samples(5, 2000))


# -------------------------------------------------------------------------------------------- every model


@every_classifier
@every_explainer
@every_task
def test_a_text_is_explained_alike_alone_and_among_others(name, explainer, task):
    model = model_of(name, task, explainer=explainer, lime_samples=30)
    together = importance(model)
    assert not together[~BATCH.is_token].any()
    assert (together[BATCH.is_token] != 0).any()
    assert model.task.kind == "classification" or (together >= 0).all()
    for row, n in enumerate((9, 3, 1, 7)):
        ids = BATCH.token_ids[row : row + 1, :n]
        alone = dataclasses.replace(random_batch([n], task=CLASSES), token_ids=ids)
        assert torch.allclose(importance(model, alone)[0], together[row, :n], rtol=1e-3, atol=1e-6)


@every_classifier
def test_integrated_gradients_add_up_to_what_all_tokens_change(name):
    model = model_of(name, explainer=explainers.INTEGRATED_GRADIENTS)
    found = importance(model).sum(dim=1)
    embedded, gate = model.embed(BATCH.words), BATCH.is_token.float()
    with torch.no_grad():
        whole = model.of_main(model.logits)(embedded, gate, BATCH.is_token)
        empty = model.of_main(model.logits)(embedded, torch.zeros_like(gate), BATCH.is_token)
    predicted = whole.argmax(dim=1, keepdim=True)
    expected = (whole - empty).gather(1, predicted).squeeze(1)
    # maxima have kinks, where the quadrature is coarser
    assert torch.allclose(found, expected, rtol=0.05, atol=2e-3)


@every_classifier
def test_gradient_times_input_is_captums(name):
    model = model_of(name, explainer=explainers.GRADIENT_X_INPUT)
    embedded = model.embed(BATCH.words)
    gate = BATCH.is_token.float().requires_grad_()
    with torch.no_grad():
        predicted = model.of_main(model.logits)(embedded, gate, BATCH.is_token).argmax(dim=1)
    method = InputXGradient(lambda g: model.of_main(model.logits)(embedded, g, BATCH.is_token))
    theirs = method.attribute(gate, target=predicted)
    assert torch.allclose(importance(model), theirs.detach(), atol=1e-6)


@pytest.mark.parametrize("name", ["birnn", "bert"])
def test_copies_of_a_batch_are_read_as_it_is(name):
    model = model_of(name, **({"window_size": 6, "window_stride": 2} if name == "bert" else {}))
    embedded, gate = model.embed(BATCH.words), BATCH.is_token.float()
    with torch.no_grad():
        once = model.logits(embedded, gate, BATCH.is_token)
        thrice = model.logits(embedded.repeated(3), gate.repeat(3, 1), BATCH.is_token.repeat(3, 1))
        assert torch.allclose(thrice, once.repeat(3, 1), atol=1e-6)
        for row, n in enumerate((9, 3, 1, 7)):
            one = BATCH.is_token[row : row + 1, :n]
            alone = model.logits(embedded.text(row, n), one.float(), one)
            assert torch.allclose(alone[0], once[row], atol=1e-6)


def test_without_captum_two_explanations_are_refused_and_two_work(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    for name in (explainers.INTEGRATED_GRADIENTS, explainers.LIME):
        message = re.escape(f"`explainer` {name} needs the package captum, which is not installed")
        with pytest.raises(ConfigError, match=message) as caught:
            model_of("birnn", explainer=name)
        assert caught.value.hint == "pip install 'infocal-pipeline[explain]'"
    assert importance(model_of("birnn")).any()
    assert importance(model_of("birnn_attn")).any()

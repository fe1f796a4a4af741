"""The regularizers' expectations over masks of independent tokens equal the sum over all masks."""

import itertools
import math

import pytest
import torch

from infocal.losses import (
    coherence,
    expected_coherence,
    expected_language_model_regularizer,
    language_model_regularizer,
)
from tests.small_model import random_batch, small_trainer

IS_TOKEN = torch.ones(1, 4, dtype=torch.bool)
LM_LOGIT = torch.tensor([[0.7, -1.3, 2.5, 0.0]], dtype=torch.float64)
PROBABILITIES = ([0.1, 0.8, 0.5, 0.3], [0.0, 1.0, 1.0, 0.0], [0.99, 0.01, 0.6, 0.5])
some_probabilities = pytest.mark.parametrize("p", PROBABILITIES)


def row(values):
    return torch.tensor([values], dtype=torch.float64)


def mean_over_masks(p, loss):
    """The loss of each of the 16 masks, weighted by the mask's probability."""
    total = 0.0
    for mask in itertools.product((0.0, 1.0), repeat=len(p)):
        weight = math.prod(q if m else 1 - q for m, q in zip(mask, p, strict=True))
        total += weight * loss(row(mask)).item()
    return total


@some_probabilities
def test_the_fused_lasso_is_the_mean_over_all_masks(p):
    expected = mean_over_masks(p, lambda mask: coherence(mask, IS_TOKEN))
    assert expected_coherence(row(p), IS_TOKEN).item() == pytest.approx(expected, abs=1e-12)


@some_probabilities
def test_the_language_model_term_is_the_mean_over_all_masks(p):
    expected = mean_over_masks(p, lambda mask: language_model_regularizer(mask, LM_LOGIT, IS_TOKEN))
    found = expected_language_model_regularizer(row(p), LM_LOGIT, IS_TOKEN).item()
    assert found == pytest.approx(expected, abs=1e-12)


def test_golden_fused_lasso():
    # .2 (1 - .5) + .8 * .5 = .5, then .5 (1 - 1) + .5 * 1 = .5; the last token is padding
    is_token = torch.tensor([[True, True, True, False]])
    assert expected_coherence(row([0.2, 0.5, 1.0, 0.3]), is_token).item() == pytest.approx(1.0)


def test_golden_language_model_term():
    # p = 1/2, then 1/4; sigmoid(s) = 3/4: 1/2 ( 1/4 ln(4/3) + 3/4 ln 2 )
    found = expected_language_model_regularizer(
        row([0.5, 0.25]), row([9.0, math.log(3)]), torch.ones(1, 2, dtype=torch.bool)
    )
    assert found.item() == pytest.approx(0.5 * (0.25 * math.log(4 / 3) + 0.75 * math.log(2)), abs=1e-12)


@pytest.mark.parametrize("name", ["lm", "coherence"])
def test_the_config_chooses_the_form(name):
    """Only the expected form depends on p alone: another draw of the same batch gives the same value."""
    values = {}
    for form in ("drawn", "expected"):
        for seed in range(4):
            trainer = small_trainer(**{f"{name}_form": form}, embedding_dropout=0.0, dense_epochs=0.0)
            torch.manual_seed(seed)
            values.setdefault(form, []).append(trainer.train_step(random_batch([6, 5, 3]))[name].item())
    assert len({round(value, 6) for value in values["expected"]}) == 1
    assert len({round(value, 6) for value in values["drawn"]}) > 1


def test_a_dense_row_has_no_changes_in_either_form():
    for form in ("drawn", "expected"):
        trainer = small_trainer(coherence_form=form, target_selection_rate=1.0)
        assert trainer.train_step(random_batch([6, 5]))["coherence"].item() == 0

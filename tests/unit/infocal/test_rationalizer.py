"""What every model does alike: where the rationale begins, with and without a threshold of its own."""

import math

import numpy as np
import pytest
import torch

from infocal.batch import Words
from infocal.metrics.scores import apply_threshold, threshold_for_rate
from infocal.nn.rationalizer import Rationalizer, shifted
from tests.small_model import REGRESSION, random_embeddings, small_config

IS_TOKEN = torch.tensor([[True] * 4, [True, True, False, False]])
WORDS = Words.of(torch.tensor([[1, 2, 3, 4], [5, 6, 0, 0]]))
P = torch.tensor([[0.5, 0.4999999, 0.9, math.nan], [0.1, 0.5000001, 0.9, 0.9]])


class Fixed(Rationalizer):
    """Selects by the probabilities above and predicts how many tokens it reads."""

    def select_probability(self, embedded, is_token):
        return P

    def respond(self, embedded, mask, is_token):
        return mask.sum(dim=1, keepdim=True)


def fixed(**changes):
    return Fixed(small_config(**changes), REGRESSION, random_embeddings()).eval()


def test_selects_from_one_half_on_and_never_padding():
    found = fixed().infer(WORDS, IS_TOKEN)
    assert found.mask.tolist() == [[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 0.0]]
    assert found.mask.dtype == torch.float32
    assert torch.logit(found.output).flatten().tolist() == pytest.approx([2, 1], rel=1e-6)


def test_selects_from_its_threshold_on():
    model = fixed()
    model.threshold = P[1, 0].item()
    assert model.infer(WORDS, IS_TOKEN).mask.tolist() == [[1.0, 1.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]]
    model.threshold = P[0, 2].item()
    assert model.infer(WORDS, IS_TOKEN).mask.tolist() == [[0.0, 0.0, 1.0, 0.0], [0.0] * 4]


def test_a_dense_model_selects_every_token():
    found = fixed(target_selection_rate=1.0).infer(WORDS, IS_TOKEN)
    assert torch.equal(found.mask, IS_TOKEN.float())
    assert torch.equal(found.select_probability, IS_TOKEN.float())


def test_a_mask_that_is_given_is_predicted_from():
    given = torch.tensor([[0.0, 0.0, 0.0, 1.0], [0.0] * 4])
    found = fixed().predict_from(WORDS, IS_TOKEN, given)
    assert torch.logit(found).flatten().tolist() == pytest.approx([1, 0], abs=1e-6)


def test_nothing_is_selected_where_a_mask_is_given():
    class Blind(Fixed):
        def select_probability(self, embedded, is_token):
            raise AssertionError("the selector ran")

    model = Blind(small_config(), REGRESSION, random_embeddings()).eval()
    assert model.predict_from(WORDS, IS_TOKEN, IS_TOKEN.float()).shape == (2, 1)


def test_a_model_has_no_guider_unless_it_says_so():
    assert fixed().guide(WORDS, IS_TOKEN) is None


def test_shifted_odds():
    # odds of .2 are 1/4, of the threshold 1/9: 9/4 of it, hence 9/13
    found = shifted(torch.tensor([[0.2, 0.1, 0.0, 1.0]], dtype=torch.float64), 0.1)
    assert found.flatten().tolist() == pytest.approx([9 / 13, 0.5, 0.0, 1.0], rel=1e-15)


@pytest.mark.parametrize("rate", [0.01, 0.07, 0.5, 0.99])
@pytest.mark.parametrize("scale", [0.5, 8.0, 30.0])
def test_a_half_of_the_shifted_selects_what_the_threshold_does(rate, scale):
    logits = scale * torch.randn(20, 40, generator=torch.Generator().manual_seed(0))
    rows = list(torch.sigmoid(logits).numpy())
    threshold = threshold_for_rate(rows, rate)
    by_shift = shifted(torch.sigmoid(logits), threshold).numpy() >= 0.5
    # odds that differ in the last digit may fall together
    assert (np.stack(apply_threshold(rows, threshold)) != by_shift).mean() < 2e-3
    assert np.isfinite(by_shift).all()


def test_the_order_stays():
    p = torch.rand(1, 1000, generator=torch.Generator().manual_seed(0))
    moved = shifted(p, 0.03)
    assert (moved.flatten()[p.flatten().argsort()].diff() >= 0).all()

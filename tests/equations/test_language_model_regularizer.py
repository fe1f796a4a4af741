"""L_lm, Eq. (15) and (18), and the theorem of [Sha2023]: adjacent tokens are cheaper than scattered ones."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from infocal.losses import language_model_regularizer

few = settings(max_examples=25)


def lm(mask, logits, is_token=None):
    real = torch.ones(1, len(mask), dtype=torch.bool) if is_token is None else torch.tensor([is_token])
    numbers = (torch.tensor([values], dtype=torch.float64) for values in (mask, logits))
    return language_model_regularizer(*numbers, real).item()


def selection(chosen, length):
    return [1.0 if i in chosen else 0.0 for i in range(length)]


def test_golden_value():
    # m = 1 1 0, sigmoid(s_2) = 3/4, s_3 without effect: -ln(3/4) - ln sigmoid(0) = ln(4/3) + ln 2
    assert lm([1, 1, 0], [0.0, math.log(3), 5.0]) == pytest.approx(math.log(8 / 3), abs=1e-12)


def test_golden_value_of_a_soft_mask():
    # -1/2 ln sigmoid(1/4 * 4 ln 3) = -1/2 ln(3/4)
    assert lm([0.5, 0.25], [0.0, 4 * math.log(3)]) == pytest.approx(-0.5 * math.log(0.75), abs=1e-12)


def test_the_empty_mask_costs_nothing():
    assert lm([0, 0, 0], [3.0, -2.0, 1.0]) == 0.0


def test_the_first_score_has_no_effect():
    assert lm([1, 1], [-9.0, 1.0]) == lm([1, 1], [9.0, 1.0])


def test_the_last_real_token_has_no_successor():
    assert lm([0, 1, 1], [0.0, 1.0, 1.0], [True, True, False]) == 0.0


@few
@given(st.integers(0, 5), st.integers(2, 5), st.floats(1e-3, 50))
def test_adjacent_tokens_cost_less_than_apart_ones(first, gap, s):
    # both selections have two tokens with a successor each: [-ln sigmoid(s)] + ln 2 against 2 ln 2
    length = first + gap + 2
    adjacent = lm(selection({first, first + 1}, length), [s] * length)
    apart = lm(selection({first, first + gap}, length), [s] * length)
    assert adjacent < apart
    assert apart == pytest.approx(2 * math.log(2), abs=1e-9)
    assert adjacent == pytest.approx(math.log(2) + math.log1p(math.exp(-s)), abs=1e-9)


def test_the_theorem_turns_round_for_negative_scores():
    # hence the mean over negatives in L_pre: a shift of every s by -log K would end here
    assert lm([1, 1, 0, 0, 0], [-1.0] * 5) > lm([1, 0, 1, 0, 0], [-1.0] * 5)


def test_the_gradient_reaches_both_neighbours():
    # L = -a ln sigmoid(b s): dL/da = -ln sigmoid(b s), dL/db = -a s sigmoid(-b s)
    mask = torch.tensor([[0.8, 0.5]], dtype=torch.float64, requires_grad=True)
    language_model_regularizer(
        mask, torch.tensor([[0.0, 2.0]], dtype=torch.float64), torch.tensor([[True, True]])
    ).backward()
    before, here = mask.grad[0].tolist()
    assert before == pytest.approx(math.log1p(math.exp(-1.0)), abs=1e-12)
    assert here == pytest.approx(-0.8 * 2.0 / (1 + math.exp(1.0)), abs=1e-12)


def test_the_gradient_reaches_an_unselected_successor():
    # m = 1 0: the successor's weight is drawn up by -s/2, so that it can be selected at all
    mask = torch.tensor([[1.0, 0.0]], dtype=torch.float64, requires_grad=True)
    language_model_regularizer(
        mask, torch.tensor([[0.0, 3.0]], dtype=torch.float64), torch.tensor([[True, True]])
    ).backward()
    assert mask.grad[0, 1].item() == pytest.approx(-1.5, abs=1e-12)


@few
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(-500, 500)), min_size=1, max_size=6))
def test_never_negative_and_always_finite(pairs):
    value = lm([m for m, _ in pairs], [s for _, s in pairs])
    assert math.isfinite(value)
    assert value >= 0

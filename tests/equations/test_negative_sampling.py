"""L_pre, Eq. (19), by negative sampling."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from infocal.losses import negative_sampling

few = settings(max_examples=25)


def pre(positive, negatives):
    """L_pre of one text; `negatives` are the same at each position."""
    rows = torch.tensor([positive], dtype=torch.float64)
    spread = torch.tensor(negatives, dtype=torch.float64).expand(1, len(positive), -1)
    return negative_sampling(rows, spread, torch.ones(1, len(positive), dtype=torch.bool)).item()


def test_golden_value():
    # sigmoid(s) = 3/4; sigmoid(-s_1) = 1/2, sigmoid(-s_2) = 1/3: ln(4/3) + (ln 2 + ln 3) / 2
    expected = math.log(4 / 3) + 0.5 * math.log(6)
    assert pre([math.log(3)], [0.0, math.log(2)]) == pytest.approx(expected, abs=1e-12)


def test_the_mean_is_over_real_tokens():
    rows = torch.tensor([[1.0, 5.0], [2.0, 3.0]]).double()
    keep = torch.tensor([[True, False], [True, True]])
    expected = sum(math.log1p(math.exp(-s)) + math.log(2) for s in (1.0, 2.0, 3.0)) / 3
    zeros = torch.zeros(2, 2, 4).double()
    assert negative_sampling(rows, zeros, keep).item() == pytest.approx(expected, abs=1e-12)


@few
@given(st.floats(-20, 20), st.floats(-20, 20), st.integers(2, 64))
def test_copies_of_a_negative_change_nothing(positive, negative, copies):
    once = pre([positive], [negative])
    assert pre([positive], [negative] * copies) == pytest.approx(once, rel=1e-12)


@pytest.mark.parametrize("num_negatives", [10, 100])
def test_the_best_score_is_the_log_ratio_for_any_number_of_negatives(num_negatives):
    # A word that follows in 5 of 10 contexts and makes up 1 of 10 negatives: its best s is ln(.5/.1).
    score = torch.tensor(math.log(5), dtype=torch.float64, requires_grad=True)
    other = torch.zeros(1, dtype=torch.float64)
    positive = torch.cat([score.repeat(5), other.repeat(5)])[None]
    share = num_negatives // 10
    negative = torch.cat([score.repeat(share), other.repeat(num_negatives - share)]).expand(1, 10, -1)
    negative_sampling(positive, negative, torch.ones(1, 10, dtype=torch.bool)).backward()
    assert score.grad.item() == pytest.approx(0.0, abs=1e-12)


@few
@given(st.floats(-500, 500), st.lists(st.floats(-500, 500), min_size=1, max_size=5))
def test_never_negative_and_always_finite(positive, negatives):
    value = pre([positive], negatives)
    assert math.isfinite(value)
    assert value >= 0

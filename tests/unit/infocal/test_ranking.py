"""Rationales that are a share of each text."""

import pytest
import torch

from infocal.nn.ranking import num_taken, quantiles, top_share

IS_TOKEN = torch.tensor([[True, True, True, True], [True, True, False, False]])
SCORE = torch.tensor([[0.1, 9.0, -3.0, 9.0], [2.0, 1.0, 5.0, 5.0]])


def test_golden_quantiles():
    # ranks 3, 1, 4, 2 of four (the earlier of equals first), then 1, 2 of two
    found = quantiles(SCORE, IS_TOKEN)
    assert found[0].tolist() == pytest.approx([0.375, 0.875, 0.125, 0.625], abs=1e-4)
    assert found[1, :2].tolist() == pytest.approx([0.75, 0.25], abs=1e-4)


def test_tokens_of_one_rank_are_told_apart_by_their_scores():
    first = quantiles(torch.tensor([[0.5, 0.0], [0.4, 0.1]]), torch.ones(2, 2, dtype=torch.bool))
    assert first[0, 0] > first[1, 0] > first[1, 1] > first[0, 1]


@pytest.mark.parametrize("rate", [0.07, 0.1, 0.25, 0.35, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("length", [1, 2, 10, 37, 100])
def test_as_many_tokens_as_the_rate_says(rate, length):
    score = torch.randn(1, length, generator=torch.Generator().manual_seed(length))
    is_token = torch.ones(1, length, dtype=torch.bool)
    chosen = top_share(score, is_token, rate) >= 0.5
    taken = int(num_taken(is_token, rate).item())
    assert int(chosen.sum()) == taken
    assert abs(taken - rate * length) <= 0.5
    assert set(chosen[0].nonzero().flatten().tolist()) == set(score[0].topk(taken).indices.tolist())


@pytest.mark.parametrize("rate", [0.07, 0.13, 0.18, 1 / 3])
def test_texts_of_every_length_give_as_many_tokens_as_the_rate_says(rate):
    """Whatever the scores: high ones stand close to the threshold in texts of hundreds of tokens."""
    for length in range(1, 400):
        is_token = torch.ones(1, length, dtype=torch.bool)
        wanted = int(num_taken(is_token, rate).item())
        for score in (
            torch.full((1, length), 40.0),
            torch.arange(length).float()[None],
            torch.zeros(1, length),
        ):
            chosen = top_share(score, is_token, rate) >= 0.5
            assert int(chosen.sum()) == wanted, (length, rate)


def test_padding_is_never_taken_and_changes_nothing():
    found = top_share(SCORE, IS_TOKEN, 0.5)
    assert (found >= 0.5).tolist() == [[False, True, False, True], [True, False, False, False]]
    assert torch.equal(top_share(SCORE[1:, :2], IS_TOKEN[1:, :2], 0.5), found[1:, :2])


def test_a_half_is_rounded_up_whatever_floating_point_makes_of_it():
    assert 0.145 * 100 < 14.5, "the noise that is meant"
    assert num_taken(torch.ones(1, 100, dtype=torch.bool), 0.145).item() == 15


def test_tokens_next_to_the_threshold_are_still_told_apart():
    """Of 207 tokens 14 are taken at 7 %: the next one keeps its place among those of other texts."""
    score = torch.linspace(3, -3, 207).expand(2, -1) + torch.tensor([[0.0], [1.0]])
    found = top_share(score, torch.ones(2, 207, dtype=torch.bool), 0.07)
    assert (found >= 0.5).sum(dim=1).tolist() == [14, 14]
    assert found[0, 14] < found[1, 14] < 0.5
    assert (found.diff(dim=1) < 0).all()

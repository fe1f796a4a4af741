"""Rationales that are a share of each text: the tokens that rank highest in it."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from infocal.nn.rationalizer import HALF, shifted

_APART = 1e-4
"""Less than the distance between ranks in a text of some thousand tokens."""


def quantiles(score: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Where each token stands among those of its text, float64 in (0, 1), the highest score next to 1.

        1 - (rank - 1/2) / n,  rank = 1 ... n

    Of equal scores the earlier token ranks higher. A ten-thousandth of the score's sigmoid is added, so that
    a threshold can take some and leave others of the tokens that have one rank in texts of one length. At
    padding the value means nothing.
    """
    return _quantile(_ranks(score, is_token), is_token) + _APART * torch.sigmoid(score.double())


def _quantile(rank: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    return 1 - (rank - 0.5) / is_token.sum(dim=1, keepdim=True)


def _ranks(score: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """Place of each token among those of its text, float64, 1 for the highest; earlier equals first."""
    order = score.masked_fill(~is_token, -torch.inf).argsort(dim=1, descending=True, stable=True)
    place = torch.arange(1, score.shape[1] + 1, device=score.device, dtype=torch.float64).expand_as(score)
    return torch.empty_like(place).scatter(1, order, place)


def top_share(
    score: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"], rate: float
) -> Float[Tensor, "B T"]:
    """Probabilities that are 0.5 or more for the top `rate` of each text's tokens, rounded to whole tokens.

    They rank the tokens of a text as the score does, and texts alike: another threshold takes another share
    of each text. `num_taken` says how many tokens reach 0.5. No gradient passes.

    Args:
        score: any numbers, the higher the more important.
        is_token: where tokens stand.
        rate: share to take, in (0, 1].
    """
    score = score.detach()
    rank = _ranks(score, is_token)
    is_taken, quantile = rank <= num_taken(is_token, rate), _quantile(rank, is_token)
    # what tells equal ranks apart must not lift a token over the threshold
    room = torch.where(is_taken, _APART, ((1 - rate - quantile) / 2).clamp(0, _APART))
    found = shifted(quantile + room * torch.sigmoid(score.double()), 1 - rate).to(torch.float32)
    half = torch.tensor(HALF, device=found.device)
    below = torch.nextafter(half, torch.zeros_like(half))
    return torch.where(is_taken, found.maximum(half), found.minimum(below)) * is_token


def top_tokens(score: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"], num: int) -> Float[Tensor, "B T"]:
    """Probabilities that are 0.5 or more for the `num` tokens of each text that rank highest.

    Above 0.5 and below it, tokens rank by their quantile among those of their text, so that another threshold
    takes another share of the tokens. No gradient passes.

    Args:
        score: any numbers, the higher the more important.
        is_token: where tokens stand.
        num: tokens to take, >= 1; a shorter text is taken whole.
    """
    score = score.detach()
    is_taken = _ranks(score, is_token) <= num
    return ((quantiles(score, is_token) + is_taken) / 2).to(torch.float32) * is_token


def num_taken(is_token: Bool[Tensor, "B T"], rate: float) -> Float[Tensor, "B 1"]:
    """How many tokens of each text `top_share` takes: the rate of its length, rounded, halves up."""
    # 0.145 x 100 is a little below 14.5 in floating point, and a half all the same
    return torch.floor(rate * is_token.sum(dim=1, keepdim=True).double() + 0.5 + 1e-9)

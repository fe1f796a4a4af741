"""A reader that weighs the states of a text by attention, and so says what it looked at."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from infocal.config import MethodConfig
from infocal.nn.encoders import Embedded, Encoder

_LEAST = 1e-12
"""Keeps a text of which nothing is seen from 0 / 0; its feature is that of the zero state."""


class AttentionReader(nn.Module):
    """Encoder, additive attention and a feature.

        e_t = v' tanh(W h_t + b),  alpha_t = g_t exp(e_t) / sum_s g_s exp(e_s),  U sum_t alpha_t h_t + c

    with g the gates: 1 where a token is seen.

    Args:
        config: the hyper-parameters.
        encoder: reads the seen tokens.
        has_feature: whether there is the last linear layer; without it, `attend` is all there is.
    """

    def __init__(self, config: MethodConfig, encoder: Encoder, *, has_feature: bool = True) -> None:
        super().__init__()
        width = encoder.output_size
        self.encoder = encoder
        self.key = nn.Linear(width, config.hidden_size)
        self.query = nn.Linear(config.hidden_size, 1, bias=False)
        features = [nn.Linear(width, config.feature_size)] if has_feature else []
        for layer in (self.key, self.query, *features):
            nn.init.xavier_uniform_(layer.weight)
        for layer in (self.key, *features):
            nn.init.zeros_(layer.bias)
        if has_feature:
            (self.feature,) = features

    def forward(
        self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B Z"], Float[Tensor, "B T"]]:
        """Feature and weights of each text; the weights are zero where the gate is, and sum to 1.

        Args:
            embedded: the words of the batch.
            gate: 1 where a token is seen; must be zero at padding. The gradient by it is defined everywhere.
            is_token: where tokens stand.
        """
        pooled, weight = self.attend(embedded, gate, is_token)
        feature: Tensor = self.feature(pooled)
        return feature, weight

    def attend(
        self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B S"], Float[Tensor, "B T"]]:
        """The weighted mean of the states, before the last linear layer, and the weights; see `forward`."""
        states = self.encoder(embedded, gate)
        energy = self.query(torch.tanh(self.key(states))).squeeze(-1)
        energy = energy.masked_fill(~is_token, -torch.inf)
        share = gate * torch.exp(energy - energy.amax(dim=1, keepdim=True).detach())
        weight = share / share.sum(dim=1, keepdim=True).clamp(min=_LEAST)
        return (weight.unsqueeze(-1) * states).sum(dim=1), weight

"""Pred_G(x): the dense model that sees the whole text and shows the selector what it misses."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from infocal.config import InfoCalConfig
from infocal.nn.encoders import Embedded, Encoder, pool

# keeps log sigma of Eq. (12) finite
_MIN_SIGMA = 1e-4
# sigma starts at softplus(-2) = 0.13: from 0.7 the noise hides the target from the output layer for epochs
_START_BIAS = -2.0


class Gaussian(NamedTuple):
    """q(z_nero | x), one independent Gaussian a dimension."""

    mu: Float[Tensor, "B Z"]
    sigma: Float[Tensor, "B Z"]
    """Standard deviation, > 0."""

    def sample(self) -> Float[Tensor, "B Z"]:
        """z_nero = u sigma + mu with u ~ N(0, 1), Eq. (7) of [Sha2023]; differentiable in mu and sigma."""
        return self.mu + self.sigma * torch.randn_like(self.sigma)


class Guider(nn.Module):
    """h = Pred_G(x), mu = W_m h + b_m, sigma of Eq. (6) of [Sha2023].

    Differs: sigma = softplus(W_s h + b_s); the printed one may be negative, and Eq. (12) takes its logarithm.

    Args:
        config: the hyper-parameters.
        encoder: reads the whole text.
    """

    def __init__(self, config: InfoCalConfig, encoder: Encoder) -> None:
        super().__init__()
        self.pooling = config.pooling
        width = encoder.output_size
        self.encoder = encoder
        self.mu = nn.Linear(width, config.feature_size)
        self.sigma = nn.Linear(width, config.feature_size)
        for layer in (self.mu, self.sigma):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        nn.init.constant_(self.sigma.bias, _START_BIAS)

    def forward(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Gaussian:
        """The distribution of z_nero given the whole text."""
        return self.of_states(self.encoder(embedded, is_token.to(embedded.vectors.dtype)), is_token)

    def of_states(self, states: Float[Tensor, "B T S"], is_token: Bool[Tensor, "B T"]) -> Gaussian:
        """The same from the states of the whole text."""
        hidden = pool(states, is_token.float(), is_token, self.pooling)
        return Gaussian(self.mu(hidden), functional.softplus(self.sigma(hidden)) + _MIN_SIGMA)

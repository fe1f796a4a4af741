"""Pred_G(x): the dense model that sees the whole text and shows the selector what it misses."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from infocal.config import InfoCalConfig
from infocal.nn.encoders import Embedded, Encoder, pool
from infocal.nn.selector import by_rationale, start_alone

# keeps log sigma of Eq. (12) finite
_MIN_SIGMA = 1e-4
# sigma starts at softplus(-2) = 0.13: from 0.7 the noise hides the target from the output layer for epochs
_START_BIAS = -2.0


class Gaussian(NamedTuple):
    """q(z_nero | x), one independent Gaussian a dimension."""

    mu: Float[Tensor, "R Z"]
    sigma: Float[Tensor, "R Z"]
    """Standard deviation, > 0."""

    def sample(self) -> Float[Tensor, "R Z"]:
        """z_nero = u sigma + mu with u ~ N(0, 1), Eq. (7) of [Sha2023]; differentiable in mu and sigma."""
        return self.mu + self.sigma * torch.randn_like(self.sigma)


class Guider(nn.Module):
    """h = Pred_G(x), mu = W_m h + b_m, sigma of Eq. (6) of [Sha2023].

    Differs: sigma = softplus(W_s h + b_s); the printed one may be negative, and Eq. (12) takes its logarithm.

    Where each of several targets has its own rationale, it has its own mu and sigma, too: the predictor's
    feature of that rationale is brought near to these.

    Args:
        config: the hyper-parameters.
        encoder: reads the whole text.
        num_rationales: of each text.
    """

    def __init__(self, config: InfoCalConfig, encoder: Encoder, num_rationales: int = 1) -> None:
        super().__init__()
        self.pooling = config.pooling
        self.encoder, self.num_rationales = encoder, num_rationales
        width, num_outputs = encoder.output_size, config.feature_size * num_rationales
        self.mu = nn.Linear(width, num_outputs)
        self.sigma = nn.Linear(width, num_outputs)
        for layer in (self.mu, self.sigma):
            start_alone(layer, config.feature_size)
            nn.init.zeros_(layer.bias)
        nn.init.constant_(self.sigma.bias, _START_BIAS)

    def forward(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Gaussian:
        """The distribution of z_nero given the whole text, for each of R rationales (see `infocal.heads`)."""
        return self.of_states(self.encoder(embedded, is_token.to(embedded.vectors.dtype)), is_token)

    def of_states(self, states: Float[Tensor, "B T S"], is_token: Bool[Tensor, "B T"]) -> Gaussian:
        """The same from the states of the whole text."""
        hidden = pool(states, is_token.float(), is_token, self.pooling)
        mu, sigma = (by_rationale(layer(hidden), self.num_rationales) for layer in (self.mu, self.sigma))
        return Gaussian(mu, functional.softplus(sigma) + _MIN_SIGMA)

"""Sel(z~_sym | x): which tokens form the rationale."""

import math

from jaxtyping import Bool, Float
from torch import Tensor, nn

from infocal.config import SelectorConfig
from infocal.nn.encoders import Embedded, build_encoder


class Selector(nn.Module):
    """One logit a token; its sigmoid is the probability p_i that the token is selected.

    The bias starts at the logit of `start_selection_rate`.
    Differs: [Sha2023] is silent; from p = 1/2 and full weights the mask empties before the predictor
    has learnt anything (docs/experiments.md), so training starts dense.
    """

    def __init__(self, config: SelectorConfig, embedding_size: int) -> None:
        super().__init__()
        self.encoder = build_encoder(config.encoder, embedding_size, config.hidden_size)
        self.output = nn.Linear(2 * config.hidden_size, 1)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.constant_(
            self.output.bias, math.log(config.start_selection_rate / (1 - config.start_selection_rate))
        )

    def forward(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Logits of selection; at padding their value means nothing."""
        gate = is_token.to(embedded.vectors.dtype)
        states = self.encoder(embedded, gate)
        logit: Tensor = self.output(states).squeeze(-1)
        return logit

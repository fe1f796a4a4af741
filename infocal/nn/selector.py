"""Sel(z~_sym | x): which tokens form the rationale."""

import math

from jaxtyping import Bool, Float
from torch import Tensor, nn

from infocal.config import SelectorConfig
from infocal.nn.encoders import Embedded, Encoder


class Selector(nn.Module):
    """One logit a token; its sigmoid is the probability p_i that the token is selected.

    The bias starts at the logit of `start_selection_rate`.
    Differs: [Sha2023] is silent; from p = 1/2 and full weights the mask empties before the predictor
    has learnt anything (docs/experiments.md), so training starts dense.

    Args:
        config: the hyper-parameters.
        encoder: reads the whole text.
    """

    def __init__(self, config: SelectorConfig, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.output = nn.Linear(encoder.output_size, 1)
        nn.init.xavier_uniform_(self.output.weight)
        nn.init.constant_(
            self.output.bias, math.log(config.start_selection_rate / (1 - config.start_selection_rate))
        )

    def forward(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Logits of selection; at padding their value means nothing."""
        return self.of_states(self.encoder(embedded, is_token.to(embedded.vectors.dtype)))

    def of_states(self, states: Float[Tensor, "B T Z"]) -> Float[Tensor, "B T"]:
        """The same from the states of the whole text."""
        logit: Tensor = self.output(states).squeeze(-1)
        return logit

"""Sel(z~_sym | x): which tokens form the rationale."""

import math

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from infocal.config import SelectorConfig
from infocal.nn.encoders import Embedded, Encoder


def start_alone(layer: nn.Linear, num_each: int) -> None:
    """Draw the weights of a layer; the `num_each` outputs of every rationale as if there were no other."""
    for rows in layer.weight.data.split(num_each):
        nn.init.xavier_uniform_(rows)


def by_rationale(values: Float[Tensor, "B *S V"], num: int) -> Float[Tensor, "R *S W"]:
    """The outputs of one rationale below those of the other, V = `num` W beside one another before."""
    return values if num == 1 else torch.cat(values.chunk(num, dim=-1))


class Selector(nn.Module):
    """One logit a token; its sigmoid is the probability p_i that the token is selected.

    Where each of several targets has its own rationale, a token has a logit for each of them.

    The bias starts at the logit of `start_selection_rate`.
    Differs: [Sha2023] is silent; from p = 1/2 and full weights the mask empties before the predictor
    has learnt anything (docs/experiments.md), so training starts dense.

    Args:
        config: the hyper-parameters.
        encoder: reads the whole text.
        num_rationales: of each text.
    """

    def __init__(self, config: SelectorConfig, encoder: Encoder, num_rationales: int = 1) -> None:
        super().__init__()
        self.encoder, self.num_rationales = encoder, num_rationales
        self.output = nn.Linear(encoder.output_size, num_rationales)
        start_alone(self.output, 1)
        nn.init.constant_(
            self.output.bias, math.log(config.start_selection_rate / (1 - config.start_selection_rate))
        )

    def forward(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "R T"]:
        """Logits of selection, of R rationales (see `infocal.heads`); at padding they mean nothing."""
        return self.of_states(self.encoder(embedded, is_token.to(embedded.vectors.dtype)))

    def of_states(self, states: Float[Tensor, "B T Z"]) -> Float[Tensor, "R T"]:
        """The same from the states of the whole text."""
        return by_rationale(self.output(states), self.num_rationales).squeeze(-1)

"""A convolution over words: each state knows its word's neighbours, and nothing further off.

Shapes: B texts, T positions, U distinct words, E embedding dimensions, Z = 2 H filters, W = `WINDOW`.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from infocal.config import MethodConfig
from infocal.nn.encoders import Embedded, Encoder

WINDOW = 5
"""Words that a filter sees, an odd number; the largest of the three windows of [Kim2014]."""


class CNN(Encoder):
    """One layer of filters [Kim2014], as wide as a bidirectional recurrent layer of `hidden_size`.

        output_t = gate_t tanh( sum_k W_k gate_{t+k} x_{t+k} + b ),   k = -2 ... 2

    A word that is gated off is a gap: its neighbours do not move up. As with every encoder, the gradient by
    its gate says what it would have changed. Differs: [Kim2014] has windows of 3, 4 and 5 words side by side.

    Args:
        embedding_size: E, dimensions of a word vector.
        hidden_size: H, half the filters.
    """

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.output_size = 2 * hidden_size
        self.input_weight = nn.Parameter(torch.empty(embedding_size, WINDOW * self.output_size))
        # Glorot's bound for a convolution, whose fans count the words of a window
        bound = math.sqrt(6 / (WINDOW * (embedding_size + self.output_size)))
        nn.init.uniform_(self.input_weight, -bound, bound)
        self.bias = nn.Parameter(torch.zeros(self.output_size))

    @classmethod
    def of(cls, config: MethodConfig, embedding_size: int) -> "CNN":
        """The encoder of this config for word vectors of this size."""
        return cls(embedding_size, config.hidden_size)

    def forward(self, embedded: Embedded, gate: Float[Tensor, "B T"]) -> Float[Tensor, "B T Z"]:
        """See `Encoder.forward`. The filters are applied once to each distinct word, then gathered."""
        projected = functional.embedding(embedded.index, embedded.vectors @ self.input_weight)
        seen = projected * gate.unsqueeze(-1)
        length, reach = gate.shape[1], WINDOW // 2
        # the part of a filter for the word k places on stands k places on
        around = functional.pad(seen, (0, 0, reach, reach)).split(self.output_size, dim=-1)
        total = torch.stack([part[:, k : k + length] for k, part in enumerate(around)]).sum(dim=0)
        return torch.tanh(total + self.bias) * gate.unsqueeze(-1)

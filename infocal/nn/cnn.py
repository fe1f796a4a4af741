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
from infocal.nn.pieces import Pretrained

WINDOW = 5
"""Words that a filter sees, an odd number; the largest of the three windows of [Kim2014]."""


class CNN(Encoder):
    """One layer of filters [Kim2014], as wide as a bidirectional recurrent layer of `hidden_size`.

        output_t = gate_t tanh( W_0 x_t + sum_k W_k gate_{t+k} x_{t+k} + b ),   k = -2, -1, 1, 2

    A word that is gated off is a gap: its neighbours do not move up. In its own state its word is not gated
    once more, so that the gradient by a closed gate knows it.
    Differs: [Kim2014] has windows of 3, 4 and 5 words side by side.

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
    def of(cls, config: MethodConfig, embedding_size: int, pretrained: Pretrained | None) -> "CNN":
        """See `Encoder.of`."""
        return cls(embedding_size, config.hidden_size)

    def forward(self, embedded: Embedded, gate: Float[Tensor, "B T"]) -> Float[Tensor, "B T Z"]:
        """See `Encoder.forward`. The filters are applied once to each distinct word, then gathered."""
        projected = functional.embedding(embedded.index, embedded.vectors @ self.input_weight)
        length, reach, open_gate = gate.shape[1], WINDOW // 2, gate.unsqueeze(-1)
        total: Tensor = self.bias
        for k, part in enumerate(projected.split(self.output_size, dim=-1)):
            seen = part if k == reach else part * open_gate
            # the part of a filter for the word k places on stands k places on
            total = total + functional.pad(seen, (0, 0, reach, reach))[:, k : k + length]
        return torch.tanh(total) * open_gate

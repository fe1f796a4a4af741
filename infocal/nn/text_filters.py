"""Filters over two to five words, and the largest value of each filter in a text.

Shapes: B texts, T positions, E embedding dimensions, F filters of a width, C = 4 F.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from infocal.nn.encoders import Embedded

WIDTHS = (2, 3, 4, 5)
"""Words that a filter sees [Zhong2018]."""


class TextFilters(nn.Module):
    """One vector of a text, C dimensions.

        z_f = max_t a( sum_k W_{f,k} g_{t+k} x_{t+k} + b_f ),   k = 0 ... width - 1

    with g the gates: 1 where a token is seen. A word that is gated off is a gap of zeros.

    Differs: the published filters also read the padding that makes all texts equally long. Here a window
    may pass the end of its text, where it reads zeros, and starts at each of its words: so padding changes
    nothing, and a text of one word has a place.

    Args:
        embedding_size: E, dimensions of a word vector.
        num_filters: F, filters of each width.
        activation: a.
    """

    def __init__(self, embedding_size: int, num_filters: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.output_size = len(WIDTHS) * num_filters
        self.activation = activation
        self.filters = nn.ModuleList(nn.Conv1d(embedding_size, num_filters, width) for width in WIDTHS)

    def forward(
        self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B C"]:
        """The vector of each text, which has at least one token; differentiable by the gates."""
        words = functional.embedding(embedded.index, embedded.vectors) * gate.unsqueeze(-1)
        columns = words.transpose(1, 2)
        is_place = is_token.unsqueeze(1)
        largest = []
        for width, filters in zip(WIDTHS, self.filters, strict=True):
            values = self.activation(filters(functional.pad(columns, (0, width - 1))))
            largest.append(values.masked_fill(~is_place, -torch.inf).amax(dim=2))
        return torch.cat(largest, dim=1)

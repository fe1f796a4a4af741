"""Pred(z~_sym): the prediction from the selected tokens alone."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from infocal.config import MethodConfig
from infocal.nn.encoders import Embedded, Encoder, pool


def selected_only(
    embedded: Embedded, mask: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
) -> tuple[Embedded, Float[Tensor, "B S"], Bool[Tensor, "B S"]]:
    """The same texts without most of their unselected tokens, for an encoder that `carries_state`.

    To it they change nothing in a prediction.

    S is one more than the most tokens selected of a text, where there are as many: `pool` by maximum
    sees whether a text has an unselected token at all.
    """
    seen = mask > 0
    length = min(mask.shape[1], int(seen.sum(dim=1).max()) + 1)
    # stable: selected tokens in their order, then unselected ones, then padding
    order = (~seen).to(torch.uint8).argsort(dim=1, stable=True)[:, :length]
    index = embedded.index.gather(1, order)
    return Embedded(embedded.vectors, index), mask.gather(1, order), is_token.gather(1, order)


class Predictor(nn.Module):
    """Feature z~_nero of the rationale, Eq. (3) of [Sha2023]; the output layer is the model's, Eq. (4).

    Args:
        config: the hyper-parameters.
        encoder: reads the selected tokens.
    """

    def __init__(self, config: MethodConfig, encoder: Encoder) -> None:
        super().__init__()
        self.pooling = config.pooling
        self.encoder = encoder
        self.feature = nn.Linear(encoder.output_size, config.feature_size)
        nn.init.xavier_uniform_(self.feature.weight)
        nn.init.zeros_(self.feature.bias)

    def forward(
        self, embedded: Embedded, *, mask: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B Z"]:
        """z~_nero of each text; `mask` must be zero at padding."""
        states = self.encoder(embedded, mask)
        feature: Tensor = self.feature(pool(states, mask, is_token, self.pooling))
        return feature

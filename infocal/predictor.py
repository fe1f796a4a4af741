"""Pred(z~_sym): the prediction from the selected tokens alone."""

from jaxtyping import Bool, Float
from torch import Tensor, nn

from infocal.config import InfoCalConfig
from infocal.encoders import Embedded, build_encoder, pool


class Predictor(nn.Module):
    """Feature z~_nero of the rationale, Eq. (3) of [Sha2023]; the output layer is the model's, Eq. (4)."""

    def __init__(self, config: InfoCalConfig, embedding_size: int) -> None:
        super().__init__()
        self.pooling = config.pooling
        self.encoder = build_encoder(config.encoder, embedding_size, config.hidden_size)
        self.feature = nn.Linear(2 * config.hidden_size, config.feature_size)
        nn.init.xavier_uniform_(self.feature.weight)
        nn.init.zeros_(self.feature.bias)

    def forward(
        self, embedded: Embedded, *, mask: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B Z"]:
        """z~_nero of each text; `mask` must be zero at padding."""
        states = self.encoder(embedded, mask)
        feature: Tensor = self.feature(pool(states, mask, is_token, self.pooling))
        return feature

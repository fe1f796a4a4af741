"""D: tells the guider's feature (label 1) from the predictor's (label 0)."""

from jaxtyping import Float
from torch import Tensor, nn


class Discriminator(nn.Module):
    """Two layers; returns the logit of D(z), since the losses are computed from logits.

    [Sha2023]: "any differentiable neural network".
    """

    def __init__(self, feature_size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(feature_size, feature_size)
        self.output = nn.Linear(feature_size, 1)
        for layer in (self.hidden, self.output):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, feature: Float[Tensor, "B Z"]) -> Float[Tensor, " B"]:
        """Logit that `feature` came from the guider."""
        logit: Tensor = self.output(self.hidden(feature).tanh()).squeeze(-1)
        return logit

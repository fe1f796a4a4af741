"""D: tells the guider's feature (label 1) from the predictor's (label 0)."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm


class Discriminator(nn.Module):
    """Two layers with a bounded slope; returns the logit of D(z), since the losses are computed from logits.

    Differs: [Sha2023] allows "any differentiable neural network". Layers of spectral norm 1 [Miyato2018]
    times `slope` bound the gradient of L_g by any feature; unbounded, L_g at lambda_g = 1 drowns L_sp, and
    the selector ends on tokens that say nothing about the target (docs/experiments.md).

    Args:
        feature_size: Z, dimensions of the features.
        slope: Lipschitz constant of the logit, > 0.
    """

    def __init__(self, feature_size: int, slope: float) -> None:
        super().__init__()
        self.slope = slope
        hidden, output = nn.Linear(feature_size, feature_size), nn.Linear(feature_size, 1)
        for layer in (hidden, output):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.hidden, self.output = spectral_norm(hidden), spectral_norm(output)

    def forward(self, feature: Float[Tensor, "B Z"]) -> Float[Tensor, " B"]:
        """Logit that `feature` came from the guider."""
        logit: Tensor = self.slope * self.output(self.hidden(feature).tanh()).squeeze(-1)
        return logit


class Discriminators(nn.Module):
    """One for each of several targets that have rationales of their own.

    Args:
        num: targets.
        feature_size: Z, dimensions of the features.
        slope: Lipschitz constant of each logit, > 0.
    """

    def __init__(self, num: int, feature_size: int, slope: float) -> None:
        super().__init__()
        self.of_targets = nn.ModuleList(Discriminator(feature_size, slope) for _ in range(num))

    def forward(self, feature: Float[Tensor, "R Z"]) -> Float[Tensor, " R"]:
        """Logits of the features of each target's rationales (see `infocal.heads`) by its discriminator."""
        rows = feature.chunk(len(self.of_targets))
        return torch.cat([own(part) for own, part in zip(self.of_targets, rows, strict=True)])

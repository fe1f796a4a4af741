"""What each token does to a classifier's prediction, computed after training.

Shapes: B texts, T positions.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from infocal import explainers
from infocal.nn import captum_explaining
from infocal.nn.explained import Explained, gradients_in_evaluation, logit_of


def contributions(name: str, explained: Explained) -> Float[Tensor, "B T"]:
    """How far each token speaks for what is predicted; of a score, how far it moves it, up or down.

    Args:
        name: one of `explainers.AFTER_TRAINING`.
        explained: the texts and the model, in evaluation mode.

    Returns:
        Numbers of either sign for a classification, >= 0 for a regression; zero at padding.

    Raises:
        ConfigError: if the package of this explanation is not installed.
    """
    explainers.check_installed(name)
    with torch.no_grad():
        logit = explained.logits(explained.embedded, explained.gate, explained.is_token)
    predicted = logit.argmax(dim=1)
    if name == explainers.GRADIENT_X_INPUT:
        found = gradient_x_input(explained, predicted)
    else:
        compute = {
            explainers.INTEGRATED_GRADIENTS: captum_explaining.integrated_gradients,
            explainers.LIME: captum_explaining.lime,
        }[name]
        found = compute(explained, predicted)
    found = found.to(explained.gate.dtype) * explained.is_token
    return found.abs() if explained.is_score else found


def gradient_x_input(explained: Explained, predicted: Tensor) -> Float[Tensor, "B T"]:
    """g_t df / dg_t at the whole text, g_t = 1.

    A gate multiplies what its token adds, so this is gradient times input.
    """
    gate = explained.gate
    with gradients_in_evaluation():
        gate.requires_grad_()
        value = logit_of(explained, gate, predicted)
        (slope,) = torch.autograd.grad(value.sum(), gate)
    found: Tensor = slope
    return found

"""What each token does to a classifier's prediction, computed after training.

To an explanation a model is a function of gates, f(g): the logit of what it predicts from the whole text,
where g_t = 1 shows token t and g_t = 0 removes it. So word vectors and pieces are explained alike.

Shapes: B texts, T positions, C classes.
"""

import contextlib
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from infocal.nn.encoders import Embedded

AFTER_TRAINING = ("gradient_x_input",)
"""Explanations that any classifier has."""
ATTENTION = "attention"
"""The explanation of a classifier that has attention."""

Respond = Callable[[Embedded, Tensor, Tensor], Tensor]
"""Logits [B C] from (words, gates [B T], is_token [B T]); differentiable by the gates."""


def gradient_x_input(
    respond: Respond, embedded: Embedded, is_token: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """g_t df / dg_t at the whole text, g_t = 1; zero at padding.

    A gate multiplies what its token adds, so this is gradient times input.
    """
    gate = is_token.to(embedded.vectors.dtype)
    with gradients_in_evaluation():
        gate.requires_grad_()
        (slope,) = torch.autograd.grad(predicted(respond(embedded, gate, is_token)).sum(), gate)
    return towards_prediction(slope * is_token, respond, embedded, is_token)


def predicted(logit: Float[Tensor, "B C"]) -> Float[Tensor, " B"]:
    """The logit of the likeliest class, or of the score."""
    return logit.max(dim=1).values


def towards_prediction(
    contribution: Float[Tensor, "B T"], respond: Respond, embedded: Embedded, is_token: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """How far each token speaks for what is predicted; of a score, how far it moves it, up or down."""
    with torch.no_grad():
        num_outputs = respond(embedded, is_token.to(contribution.dtype), is_token).shape[1]
    return contribution.abs() if num_outputs == 1 else contribution


@contextlib.contextmanager
def gradients_in_evaluation() -> Iterator[None]:
    """Gradients where none are kept; cuDNN's recurrent layers have none in evaluation mode."""
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        yield

"""A classifier whose prediction is explained, and its texts.

To an explanation a model is a function of gates, f(g): the logit of what it predicts from the whole text,
where g_t = 1 shows token t and g_t = 0 removes it. So word vectors and pieces are explained alike.

Shapes: B texts, T positions, C classes, K copies of a text with gates of their own.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from infocal.nn.encoders import Embedded

STEPS = 32
"""Points of the path of integrated gradients, by Gauss-Legendre quadrature; captum's default is 50."""
_MAX_TEXTS = 512
"""Texts read at once where a text is read with many gates."""

Respond = Callable[[Embedded, Tensor, Tensor], Tensor]
"""Logits [B C] from (words, gates [B T], is_token [B T])."""


@dataclass(frozen=True, slots=True)
class Explained:
    """The texts of a batch, and the model that is explained."""

    logits: Respond
    """Differentiable by the gates."""
    respond: Respond
    """As at inference, where words with gate 0 are not there; no gradient."""
    embedded: Embedded
    is_token: Bool[Tensor, "B T"]
    num_samples: int
    """Of LIME."""
    is_score: bool
    """Whether a score is predicted, and no class."""

    @property
    def gate(self) -> Float[Tensor, "B T"]:
        """Every token is seen."""
        return self.is_token.to(self.embedded.vectors.dtype)


def logit_of(explained: Explained, gate: Float[Tensor, "KB T"], predicted: Tensor) -> Float[Tensor, " KB"]:
    """Value of f at these gates; differentiable by them.

    Args:
        explained: B texts and the model.
        gate: gates of all texts, then of all texts again, K times.
        predicted: class of each text.
    """
    num_copies = len(gate) // len(explained.is_token)
    logit = explained.logits(
        explained.embedded.repeated(num_copies), gate, explained.is_token.repeat(num_copies, 1)
    )
    return logit.gather(1, predicted.repeat(num_copies).unsqueeze(1)).squeeze(1)


def texts_at_once(explained: Explained) -> int:
    """Texts to read in one pass where each is read with many gates, >= B."""
    return max(_MAX_TEXTS, len(explained.is_token))


@contextlib.contextmanager
def gradients_in_evaluation() -> Iterator[None]:
    """Gradients where none are kept; cuDNN's recurrent layers have none in evaluation mode."""
    with torch.enable_grad(), torch.backends.cudnn.flags(enabled=False):
        yield

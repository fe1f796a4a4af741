"""Integrated gradients and LIME by captum, which is imported where one is computed.

Shapes: B texts, T positions, S samples, N tokens of one text.
"""

import math
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from infocal.nn.explained import STEPS, Explained, gradients_in_evaluation, logit_of, texts_at_once

NUM_FEATURES = 6
"""Tokens of a text to which LIME gives a weight; [Mathew2021]'s number."""
KERNEL_WIDTH = 25.0
"""Of LIME's kernel over text, in hundredths of cosine distance; the default of the package lime."""
SELECTION_PENALTY, PENALTY = 0.01, 1.0
"""Ridge penalties of lime's forward selection, and of its last fit."""
_SEED = 333
"""[Mathew2021]'s, for LIME's samples."""


def integrated_gradients(explained: Explained, predicted: Tensor) -> Float[Tensor, "B T"]:
    """The integral of df / dg_t from the empty text, g = 0, to the whole one [Sundararajan2017].

    Its sum over the tokens of a text is f(1) - f(0).
    """
    from captum.attr import IntegratedGradients

    method = IntegratedGradients(lambda gate: logit_of(explained, gate, predicted))
    with gradients_in_evaluation():
        found: Tensor = method.attribute(
            explained.gate.requires_grad_(), n_steps=STEPS, internal_batch_size=texts_at_once(explained)
        )
    return found.detach()


@torch.no_grad()
def lime(explained: Explained, predicted: Tensor) -> Float[Tensor, "B T"]:
    """Weights of a linear model of the predicted class's probability near the text [Ribeiro2016].

    Samples, kernel, selection of `NUM_FEATURES` tokens and fit are those of the package lime with
    `bow=False`. Texts of one length are explained by the same samples. Weights below zero speak against the
    class, and count as none, as in [Mathew2021].

    Differs: lime puts a word that nobody knows in the place of a removed one; here it is removed.
    """
    found = torch.zeros_like(explained.gate)
    for row, length in enumerate(explained.is_token.sum(dim=1).tolist()):
        weights = _lime_of_text(explained, row, length, int(predicted[row]))
        found[row, :length] = weights if explained.is_score else weights.clamp(min=0)
    return found


def _lime_of_text(explained: Explained, row: int, length: int, predicted: int) -> Float[Tensor, " N"]:
    from captum.attr import LimeBase

    text = explained.embedded.text(row, length)
    everything = explained.is_token.new_ones(1, length)

    def probability(gate: Tensor) -> Tensor:
        num = len(gate)
        logit = explained.respond(text.repeated(num), gate, everything.expand(num, -1))
        shares = torch.sigmoid(logit) if logit.shape[1] == 1 else logit.softmax(dim=1)
        return shares[:, predicted]

    samples = iter(lime_samples(length, explained.num_samples).to(explained.gate).unsqueeze(1))
    method = LimeBase(
        probability,
        Surrogate(),
        similarity_func=lambda whole, sample, *_, **__: kernel(sample),
        perturb_func=lambda whole, **_: next(samples),
        perturb_interpretable_space=False,
        from_interp_rep_transform=None,
        to_interp_rep_transform=lambda sample, *_, **__: sample,
    )
    found: Tensor = method.attribute(
        everything.to(explained.gate.dtype),
        n_samples=explained.num_samples,
        perturbations_per_eval=texts_at_once(explained),
    )
    return found


def lime_samples(length: int, num_samples: int) -> Float[Tensor, "S N"]:
    """The text itself, then samples without 1 to all of its tokens, of which 1 stands for one that is kept.

    How many are removed is drawn first, then which; the same numbers for texts of one length.
    """
    generator = torch.Generator().manual_seed(_SEED + length)
    num_removed = torch.randint(1, length + 1, (num_samples - 1, 1), generator=generator)
    rank = torch.rand(num_samples - 1, length, generator=generator).argsort(dim=1).argsort(dim=1)
    return torch.cat([torch.ones(1, length), (rank >= num_removed).float()])


def kernel(sample: Float[Tensor, "S N"]) -> Float[Tensor, " S"]:
    """sqrt(exp(-d^2 / width^2)), d a sample's cosine distance from the whole text in hundredths."""
    similarity = sample.sum(dim=1) / (sample.norm(dim=1) * math.sqrt(sample.shape[1])).clamp(min=1e-12)
    return torch.exp(-((100 * (1 - similarity)) ** 2) / KERNEL_WIDTH**2).sqrt()


class Surrogate:
    """The linear model that LIME fits: ridge regression on the tokens that forward selection takes.

    It has the two methods that captum's `LimeBase` calls.
    """

    def __init__(self) -> None:
        self.weights = torch.empty(0)

    def fit(self, train_data: Any, **_: Any) -> None:
        """Fit to batches of (samples, probabilities, kernel weights); captum gives all in one."""
        ((samples, target, weight),) = list(train_data)
        self.weights = linear_weights(samples.double(), target.double(), weight.double())

    def representation(self) -> Tensor:
        """Weight of each token."""
        return self.weights


def linear_weights(
    samples: Float[Tensor, "S N"], target: Float[Tensor, " S"], weight: Float[Tensor, " S"]
) -> Float[Tensor, " N"]:
    """Weights of the last ridge regression; zero for tokens that are not selected."""
    share = weight / weight.sum()
    inputs = samples - share @ samples
    output = target - share @ target
    gram = inputs.T @ (weight.unsqueeze(1) * inputs)
    moment = inputs.T @ (weight * output)
    chosen: list[int] = []
    for _ in range(min(NUM_FEATURES, samples.shape[1])):
        chosen.append(_next_token(gram, moment, chosen))
    found = torch.zeros_like(moment)
    found[chosen] = _ridge(gram[chosen][:, chosen], moment[chosen], PENALTY)
    return found


def _ridge(gram: Tensor, moment: Tensor, penalty: float) -> Tensor:
    found: Tensor = torch.linalg.solve(gram + penalty * torch.eye(gram.shape[-1]).to(gram), moment)
    return found


def _next_token(gram: Tensor, moment: Tensor, chosen: list[int]) -> int:
    """The token that leaves the least squared error, beside those that are chosen."""
    rest = [token for token in range(len(moment)) if token not in chosen]
    sets = torch.tensor([[*chosen, token] for token in rest])
    grams = gram[sets.unsqueeze(2), sets.unsqueeze(1)]
    moments = moment[sets]
    fits = _ridge(grams, moments.unsqueeze(2), SELECTION_PENALTY).squeeze(2)
    # sum of squares less what is explained: a constant, - 2 w'b + w'Gw
    error = ((grams @ fits.unsqueeze(2)).squeeze(2) * fits).sum(dim=1) - 2 * (fits * moments).sum(dim=1)
    return rest[int(error.argmin())]

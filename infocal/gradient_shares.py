"""How loud each term of an objective is, where the part that it trains has its output.

A weight that is hardly heard beside the prediction's loss decides nothing, whatever is searched over it.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

EVERY = 50
"""Batches of which one is measured; the first of an epoch always is."""

LEAST = 0.03
"""Share from which on a weight may matter. Below it lay every weight over which searches of beer had found no
difference beyond their seeds' (docs/experiments.md)."""


class Heard(NamedTuple):
    """What a part of a model is trained by."""

    at: tuple[Tensor, ...]
    """The part's output, of the pass in which the terms were computed."""
    reference: str
    """Name of the term that the others are compared with: the loss of the prediction."""
    terms: dict[str, Tensor]
    """The terms with their weights, scalars; those that do not reach the part may be among them."""


def shares(heard: Heard) -> dict[str, Tensor]:
    """Norm of each term's gradient at the part's output, as a share of the reference's, >= 0.

        |d (lambda_k L_k) / d output| / |d L_reference / d output|

    of one pass: with the noise of the mask that was drawn in it. The graph stays for the update that follows,
    and no random number is drawn.

    Returns:
        Scalars on the device by the name of the term, without the reference and without terms that do not
        reach the output. NaN where the reference has no gradient.
    """
    norms = {name: norm for name, term in heard.terms.items() if (norm := _norm(term, heard.at)) is not None}
    reference = norms.pop(heard.reference, None)
    if reference is None:
        return {}
    return {name: torch.where(reference > 0, norm / reference, torch.nan) for name, norm in norms.items()}


def _norm(term: Tensor, at: Sequence[Tensor]) -> Tensor | None:
    """Norm of a term's gradient; None where it does not reach."""
    if not term.requires_grad:
        return None
    found = torch.autograd.grad(term, at, retain_graph=True, allow_unused=True)
    reached = [gradient.float().flatten() for gradient in found if gradient is not None]
    return torch.cat(reached).norm() if reached else None


def medians(measured: dict[str, list[Tensor]]) -> dict[str, float]:
    """The median of what was measured of each term; without terms of which nothing was."""
    found = {}
    for name, values in measured.items():
        finite = [value for value in torch.stack(values).tolist() if math.isfinite(value)]
        if finite:
            found[name] = float(np.median(finite))
    return found

"""J_total: the only place where weights are applied, Eq. (20) and (21) of [Sha2023]."""

import functools

import torch
from jaxtyping import Float
from torch import Tensor

from infocal.config import MethodConfig, RateConfig, SelectorConfig

Terms = dict[str, Tensor]

_UNWEIGHTED = ("sp", "guide", "rate", "reinforce")
"""Terms that count in full from the first step on; `rate` brings its own multiplier."""

OF_TARGET = "/"
"""Stands between the name of one of several targets and that of its share of a term."""


def total(terms: Terms, config: MethodConfig, pressure: float) -> Float[Tensor, "*S"]:
    """J_total = L_sp + lambda_ib L_ib + lambda_g L_g + L_guide + lambda_mi L_mi + lambda_lm L_lm.

    A method has those terms of it, or others, that it names: the weight of `NAME` is `lambda_NAME`.

    Args:
        terms: the losses by name; for InfoCal `sp`, `guide`, `g`, `mi`, `ib`, `lm`, `coherence`, `rate`.
        config: the weights.
        pressure: share of the weights in force, in [0, 1].

    Differs: every weight is scaled by `pressure`, 0 while training is dense and 1 after the ramp. From the
    first step on, L_ib and L_lm would empty the mask, L_g drives it full (selecting all is the easiest way
    to look like the guider) and L_mi collapses the guider to its prior, before anything is learnt
    (docs/experiments.md). `coherence` and the two-sided rate control `rate` are not in the paper.
    """
    return functools.reduce(torch.add, weighted(terms, config, pressure).values())


def weighted(terms: Terms, config: MethodConfig, pressure: float) -> Terms:
    """The terms times their weights in force, those that have no weight first; see `total`.

    Parts of a term that are of one of several targets, `TARGET/NAME`, are to watch: they are in `NAME`.
    """
    found = {name: terms[name] for name in _UNWEIGHTED if name in terms}
    for name, term in terms.items():
        if name not in _UNWEIGHTED and OF_TARGET not in name:
            found[name] = pressure * getattr(config, f"lambda_{name}") * term
    return found


def pressure(config: SelectorConfig, epochs_done: float) -> float:
    """Share of the weights in force after `epochs_done` (fractional) epochs, in [0, 1]."""
    if epochs_done < config.dense_epochs:
        return 0.0
    if config.ramp_epochs == 0:
        return 1.0
    return min(1.0, (epochs_done - config.dense_epochs) / config.ramp_epochs)


class RateControl(torch.nn.Module):
    """Holds the mean selection rate at a target from both sides; of several rationales, each by itself.

        multiplier (rate - target) + rate_penalty (rate - target)^2,
        multiplier <- clamp(multiplier + rate_step_size (rate - target))

    an augmented Lagrangian. The target falls from `start_selection_rate` to `target_selection_rate`
    as the pressure rises; a target of 1 while training is dense would drive every p_i to 1, where it has
    no gradient. Without the control the weights of [Sha2023] end at the empty or at the full rationale
    (docs/experiments.md).
    """

    # Eight nats a unit of rate already outweigh L_sp; the clamp only stops a run-away.
    LIMIT = 30.0

    multiplier: Tensor

    def __init__(self, config: RateConfig, num_rationales: int = 1) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("multiplier", torch.zeros(() if num_rationales == 1 else num_rationales))

    def forward(self, rate: Float[Tensor, "*K"], pressure: float) -> Float[Tensor, "*K"]:
        """The control's loss at this mean selection rate; updates the multiplier. Zero when off."""
        if self.config.target_selection_rate == 0 or self.config.is_dense:
            return torch.zeros_like(rate)
        start = self.config.start_selection_rate
        target = start + pressure * (self.config.target_selection_rate - start)
        excess = rate - target
        with torch.no_grad():
            step = self.multiplier + self.config.rate_step_size * excess
            self.multiplier.copy_(step.clamp(-self.LIMIT, self.LIMIT))
        return self.multiplier.clone() * excess + self.config.rate_penalty * excess.square()

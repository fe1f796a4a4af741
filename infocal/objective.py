"""J_total: the only place where weights are applied, Eq. (20) and (21) of [Sha2023]."""

import torch
from jaxtyping import Float
from torch import Tensor

from infocal.config import InfoCalConfig

Terms = dict[str, Tensor]

_WEIGHTS = {
    "ib": "lambda_ib",
    "g": "lambda_g",
    "mi": "lambda_mi",
    "lm": "lambda_lm",
    "coherence": "lambda_coherence",
}
"""Weight of each term besides L_sp and L_guide."""


def total(terms: Terms, config: InfoCalConfig, pressure: float) -> Float[Tensor, ""]:
    """J_total = L_sp + lambda_ib L_ib + lambda_g L_g + L_guide + lambda_mi L_mi + lambda_lm L_lm.

    Args:
        terms: the losses by name: `sp`, `guide`, `g`, `mi`, `ib`, `lm`, `coherence`, `rate`.
        config: the weights.
        pressure: share of the weights in force, in [0, 1].

    Differs: every weight is scaled by `pressure`, 0 while training is dense and 1 after the ramp. From the
    first step on, L_ib and L_lm would empty the mask, L_g drives it full (selecting all is the easiest way
    to look like the guider) and L_mi collapses the guider to its prior, before anything is learnt
    (docs/experiments.md). `coherence` and the two-sided rate control `rate` are not in the paper.
    """
    objective = terms["sp"] + terms["guide"] + terms["rate"]
    for name, weight in _WEIGHTS.items():
        objective = objective + pressure * getattr(config, weight) * terms[name]
    return objective


def pressure(config: InfoCalConfig, epochs_done: float) -> float:
    """Share of the weights in force after `epochs_done` (fractional) epochs, in [0, 1]."""
    if epochs_done < config.dense_epochs:
        return 0.0
    if config.ramp_epochs == 0:
        return 1.0
    return min(1.0, (epochs_done - config.dense_epochs) / config.ramp_epochs)


class RateControl(torch.nn.Module):
    """Holds the mean selection rate at a target from both sides.

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

    def __init__(self, config: InfoCalConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("multiplier", torch.zeros(()))

    def forward(self, rate: Float[Tensor, ""], pressure: float) -> Float[Tensor, ""]:
        """The control's loss at this mean selection rate; updates the multiplier. Zero when off."""
        if self.config.target_selection_rate == 0:
            return torch.zeros_like(rate)
        start = self.config.start_selection_rate
        target = start + pressure * (self.config.target_selection_rate - start)
        excess = rate - target
        with torch.no_grad():
            step = self.multiplier + self.config.rate_step_size * excess
            self.multiplier.copy_(step.clamp(-self.LIMIT, self.LIMIT))
        return self.multiplier.clone() * excess + self.config.rate_penalty * excess.square()

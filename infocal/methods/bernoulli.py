"""Bernoulli [Lei2016]: a mask is drawn from the selector, which learns by REINFORCE what each mask cost.

Shapes: B texts, T positions.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from infocal import losses
from infocal.batch import Batch, Words
from infocal.config import RateConfig, Task, half_open_unit, non_negative
from infocal.gradient_shares import Heard
from infocal.nn.encoders import Embedded
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import SelectorPredictor, output_layer
from infocal.objective import Terms, total, weighted
from infocal.policy_gradient import mask_log_probability, reinforce
from infocal.trainer import RateTrainer

Baseline = Literal["none", "mean", "draw"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BernoulliConfig(RateConfig):
    """Hyper-parameters of Bernoulli.

    Differs: the rate is held by the control that all methods share (`target_selection_rate`), so that
    `lambda_sparsity` is 0 by default; [Lei2016] has the weight alone, and finds the rate by trying.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    lambda_coherence: float = non_negative(0.02)
    """Weight of the fused lasso on the masks drawn, >= 0; lambda_2 of [Lei2016]."""

    lambda_sparsity: float = non_negative(0.0)
    """Cost of a selected token, >= 0; lambda_1 of [Lei2016]."""

    baseline: Baseline = "draw"
    """What a mask's cost is compared with: nothing (`none`), the moving `mean` of costs, or what another
    `draw` for the same text costs, which takes out how hard the text is."""

    baseline_decay: float = half_open_unit(0.9)
    """Decay of that mean, in [0, 1)."""


class Forward(NamedTuple):
    """What one training pass over a batch produces."""

    embedded: Embedded
    select_logit: Float[Tensor, "B T"]
    mask: Float[Tensor, "B T"]
    output: Float[Tensor, "B C"]


class Costs(NamedTuple):
    """What a batch's masks cost, part by part."""

    select_logit: Float[Tensor, "B T"]
    log_probability: Float[Tensor, " B"]
    """Of the masks drawn."""
    each: Terms
    """Costs of each text's mask, [B], unweighted."""
    other: Terms | None
    """The same of another draw; None where the baseline is none."""


class BernoulliModel(SelectorPredictor):
    """Selector and predictor, joined by a mask that no gradient passes."""

    config: BernoulliConfig

    def __init__(
        self, config: BernoulliConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__(config, task, embeddings)
        self.output = output_layer(config.feature_size, task)

    def draw(self, select_logit: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """A mask of each text: each token by itself, with its probability."""
        if self.config.is_dense:
            return is_token.to(select_logit.dtype)
        return torch.bernoulli(torch.sigmoid(select_logit.detach())) * is_token

    def forward(self, words: Words, is_token: Bool[Tensor, "B T"]) -> Forward:
        """Draw a mask of each text and predict from it."""
        embedded = self.embed(words)
        select_logit = self.selector(embedded, is_token)
        mask = self.draw(select_logit, is_token)
        return Forward(embedded, select_logit, mask, self.respond(embedded, mask, is_token))


class RunningMean(nn.Module):
    """A moving mean, zero before the first value; its bias to zero is corrected."""

    total: Tensor
    weight: Tensor

    def __init__(self, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("total", torch.zeros(()))
        self.register_buffer("weight", torch.zeros(()))

    @property
    def value(self) -> Float[Tensor, ""]:
        """The mean of what was seen so far."""
        return self.total / self.weight.clamp(min=1e-12)

    @torch.no_grad()
    def update(self, values: Float[Tensor, " B"]) -> None:
        """Take the mean of further values in."""
        self.total.mul_(self.decay).add_((1 - self.decay) * values.mean())
        self.weight.mul_(self.decay).add_(1 - self.decay)


class BernoulliTrainer(RateTrainer):
    """The predictor learns by the loss of the masks drawn, the selector by REINFORCE on their cost."""

    model_class = BernoulliModel
    config: BernoulliConfig
    model: BernoulliModel

    def __init__(
        self, config: BernoulliConfig, task: Task, embeddings: Tensor | Pretrained, **rest: Any
    ) -> None:
        super().__init__(config, task, embeddings, **rest)
        self.mean_cost = RunningMean(config.baseline_decay).to(self.device)

    def step_terms(self, batch: Batch) -> tuple[Terms, Tensor, Any]:
        """Costs of the masks drawn, and REINFORCE on them.

        The cost of a text is L_sp + lambda_sparsity |m| + lambda_coherence sum_t |m_t - m_{t-1}|.
        """
        forward = self.model(batch.words, batch.is_token)
        each = self._costs(forward.output, forward.mask, batch)
        cost = total(each, self.config, self.pressure).detach()
        log_p = mask_log_probability(forward.select_logit, forward.mask, batch.is_token)
        rate = losses.mean_selection_rate(forward.select_logit, batch.is_token)
        other = self._other_costs(forward, batch) if self.config.baseline == "draw" else None
        terms = {name: value.mean() for name, value in each.items()}
        terms["reinforce"] = reinforce(log_p, cost, self._baseline(other))
        terms["rate"] = self.rate_control(rate, self.pressure)
        self.mean_cost.update(cost)
        return terms, forward.mask, Costs(forward.select_logit, log_p, each, other)

    def heard(self, terms: Terms, rest: Any) -> list[Heard]:
        """REINFORCE of each cost by itself, and the rate control, at the selector's logits.

        Where one number is the baseline of all costs, each is measured against its mean over the batch.
        """
        mine = weighted(rest.each, self.config, self.pressure)
        theirs = (
            {name: cost.mean() for name, cost in mine.items()}
            if rest.other is None
            else weighted(rest.other, self.config, self.pressure)
        )
        parts = {name: reinforce(rest.log_probability, mine[name], theirs[name]) for name in mine}
        return [Heard((rest.select_logit,), "sp", parts | {"rate": terms["rate"]})]

    def _costs(self, output: Tensor, mask: Tensor, batch: Batch) -> Terms:
        """What the mask of each text costs, by its parts."""
        return {
            "sp": losses.prediction_loss(output, batch.target, self.task, reduction="none"),
            "sparsity": mask.sum(dim=1),
            "coherence": losses.coherence(mask, batch.is_token, reduction="none"),
        }

    def _baseline(self, other: Terms | None) -> Float[Tensor, "*S"]:
        """What costs are compared with; no part of it depends on the masks that are."""
        if other is not None:
            return total(other, self.config, self.pressure)
        if self.config.baseline == "none":
            return torch.zeros((), device=self.device)
        return self.mean_cost.value.clone()

    @torch.no_grad()
    def _other_costs(self, forward: Forward, batch: Batch) -> Terms:
        """Costs of another mask of each text."""
        mask = self.model.draw(forward.select_logit, batch.is_token)
        output = self.model.respond(forward.embedded, mask, batch.is_token)
        return self._costs(output, mask, batch)

    def parts(self) -> dict[str, Any]:
        """With the mean of costs."""
        return super().parts() | {"mean_cost": self.mean_cost}

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
from infocal.heads import repeated
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
    select_logit: Float[Tensor, "R T"]
    mask: Float[Tensor, "R T"]
    output: Float[Tensor, "B C"]


class Costs(NamedTuple):
    """What a batch's masks cost, part by part."""

    select_logit: Float[Tensor, "R T"]
    log_probability: Float[Tensor, " R"]
    """Of the masks drawn."""
    each: Terms
    """Costs of each mask, [R], unweighted."""
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

    def draw(self, select_logit: Float[Tensor, "R T"], is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "R T"]:
        """A mask of each text, and target that has its own: each token by itself, with its probability."""
        is_real = repeated(is_token, self.num_rationales)
        if self.config.is_dense:
            return is_real.to(select_logit.dtype)
        return torch.bernoulli(torch.sigmoid(select_logit.detach())) * is_real

    def forward(self, words: Words, is_token: Bool[Tensor, "B T"]) -> Forward:
        """Draw a mask of each text and predict from it."""
        embedded = self.embed(words)
        select_logit = self.selector(embedded, is_token)
        mask = self.draw(select_logit, is_token)
        return Forward(embedded, select_logit, mask, self.respond(embedded, mask, is_token))


class RunningMean(nn.Module):
    """A moving mean, zero before the first value; its bias to zero is corrected.

    Args:
        decay: in [0, 1).
        num: means beside one another; the values of each are a part of those given, one part after the other.
    """

    total: Tensor
    weight: Tensor

    def __init__(self, decay: float, num: int = 1) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("total", torch.zeros(() if num == 1 else num))
        self.register_buffer("weight", torch.zeros(()))

    @property
    def value(self) -> Float[Tensor, "*K"]:
        """The mean of what was seen so far."""
        return self.total / self.weight.clamp(min=1e-12)

    @torch.no_grad()
    def update(self, values: Float[Tensor, " R"]) -> None:
        """Take the mean of further values in."""
        mean = values.mean() if self.total.dim() == 0 else values.view(len(self.total), -1).mean(dim=1)
        self.total.mul_(self.decay).add_((1 - self.decay) * mean)
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
        num = self.model.num_rationales
        self.mean_cost = RunningMean(config.baseline_decay, num).to(self.device)

    def step_terms(self, batch: Batch) -> tuple[Terms, Tensor, Any]:
        """Costs of the masks drawn, and REINFORCE on them.

        The cost of a text is L_sp + lambda_sparsity |m| + lambda_coherence sum_t |m_t - m_{t-1}|.
        """
        forward = self.model(batch.words, batch.is_token)
        each = self._costs(forward.output, forward.mask, batch)
        cost = total(each, self.config, self.pressure).detach()
        is_real = repeated(batch.is_token, self.model.num_rationales)
        log_p = mask_log_probability(forward.select_logit, forward.mask, is_real)
        other = self._other_costs(forward, batch) if self.config.baseline == "draw" else None
        terms = {name: self.over_rationales(torch.mean, value) for name, value in each.items()}
        terms |= self.terms_of_targets(forward.output, batch, "sp")
        baseline = self._baseline(other, len(cost))
        terms["reinforce"] = self.over_rationales(reinforce, log_p, cost, baseline.expand_as(cost))
        terms["rate"] = self.held(
            self.rate_control,
            lambda logit: losses.mean_selection_rate(logit, batch.is_token),
            forward.select_logit,
        )
        self.mean_cost.update(cost)
        return terms, forward.mask, Costs(forward.select_logit, log_p, each, other)

    def heard(self, terms: Terms, rest: Any) -> list[Heard]:
        """REINFORCE of each cost by itself, and the rate control, at the selector's logits.

        Where one number is the baseline of all costs, each is measured against its mean over the batch.
        """
        mine = weighted(rest.each, self.config, self.pressure)
        theirs = None if rest.other is None else weighted(rest.other, self.config, self.pressure)
        parts = {
            name: self.over_rationales(
                lambda log_p, cost, *other: reinforce(log_p, cost, *(other or (cost.mean(),))),
                rest.log_probability,
                mine[name],
                *(() if theirs is None else (theirs[name],)),
            )
            for name in mine
        }
        return [Heard((rest.select_logit,), "sp", parts | {"rate": terms["rate"]})]

    def _costs(self, output: Tensor, mask: Tensor, batch: Batch) -> Terms:
        """What each mask costs, by its parts."""
        is_real = repeated(batch.is_token, self.model.num_rationales)
        return {
            "sp": self.costs_of_rationales(output, batch),
            "sparsity": mask.sum(dim=1),
            "coherence": losses.coherence(mask, is_real, reduction="none"),
        }

    def _baseline(self, other: Terms | None, num_rows: int) -> Float[Tensor, "*S"]:
        """What costs are compared with; no part of it depends on the masks that are."""
        if other is not None:
            return total(other, self.config, self.pressure)
        if self.config.baseline == "none":
            return torch.zeros((), device=self.device)
        means = self.mean_cost.value.clone()
        # of each target's masks one, for each text
        return means if means.dim() == 0 else means.repeat_interleave(num_rows // len(means))

    @torch.no_grad()
    def _other_costs(self, forward: Forward, batch: Batch) -> Terms:
        """Costs of another mask of each text."""
        mask = self.model.draw(forward.select_logit, batch.is_token)
        output = self.model.respond(forward.embedded, mask, batch.is_token)
        return self._costs(output, mask, batch)

    def parts(self) -> dict[str, Any]:
        """With the mean of costs."""
        return super().parts() | {"mean_cost": self.mean_cost}

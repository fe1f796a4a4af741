"""RNP: selector and predictor joined by a straight-through mask [Lei2016], and four ways to help it.

FR shares the encoder, DR slows the predictor down, MGR has several selectors, N2R rewards the norm of the
rationale's representation. Each is one hyper-parameter, so that they can be told apart and combined.

Sources: [Liu2022] FR (NeurIPS 2022), [Liu2023a] MGR (ACL 2023), [Liu2023b] DR (KDD 2023),
[Liu2025] N2R (ICLR 2025).

Shapes: B texts, T positions, Z dimensions of a feature.
"""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from infocal import losses
from infocal.batch import Batch, Words
from infocal.config import RateConfig, Task, non_negative, positive
from infocal.gradient_shares import Heard
from infocal.heads import repeated
from infocal.nn.frozen import frozen
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import SelectorPredictor, output_layer
from infocal.nn.sampling import sample_mask
from infocal.nn.selector import Selector
from infocal.objective import Terms, weighted
from infocal.trainer import RateTrainer

Pace = Literal["selector", "sparsity"]

SLOWEST = 0.05
"""Least share of the selector's learning rate that the predictor has with `pace=sparsity` [Liu2023b]."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RnpConfig(RateConfig):
    """Hyper-parameters of RNP and of what builds on it.

    Differs: the published codes hold the rate by |rate - target| times a weight of about 10, and take the
    fused lasso of the drawn mask. Here the rate has the control that all methods share, and the fused lasso
    is the expectation over masks, whose gradient has no noise (docs/experiments.md).

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    lambda_coherence: float = non_negative(0.03)
    """Weight of the expected fused lasso, >= 0."""

    temperature: float = positive(1.0)
    """Temperature of the Gumbel-softmax, > 0."""

    num_selectors: int = positive(1)
    """Selectors that one predictor learns from, >= 1; at inference the first one selects [Liu2023a]."""

    pace: Pace = "selector"
    """Learning rate of the predictor: the `selector`'s, or that times the share of the tokens selected
    (`sparsity`), so that the predictor does not settle on what a poor selector shows it [Liu2023b]."""

    lambda_norm: float = non_negative(0.0)
    """Weight of the representation's norm in the selector's objective, >= 0 [Liu2025]."""


def predictor_pace(rate: float) -> float:
    """Share of the selector's learning rate that the predictor has, in [`SLOWEST`, 1] [Liu2023b].

    Args:
        rate: share of a batch's tokens that is selected, in [0, 1].
    """
    return max(rate, SLOWEST)


class Pass(NamedTuple):
    """What one selector and the predictor make of a batch in training."""

    select_logit: Float[Tensor, "R T"]
    mask: Float[Tensor, "R T"]
    output: Float[Tensor, "B C"]
    frozen_feature: Float[Tensor, "R Z"] | None
    """Feature of the rationale, whose gradient reaches the selector alone; None where no loss reads it."""


class RnpModel(SelectorPredictor):
    """Selector and predictor; in training there may be further selectors, which inference leaves out."""

    config: RnpConfig

    def __init__(self, config: RnpConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained) -> None:
        super().__init__(config, task, embeddings)
        num = self.num_rationales
        others = [Selector(config, self.new_encoder(), num) for _ in range(config.num_selectors - 1)]
        self.others = nn.ModuleList(others)
        self.output = output_layer(config.feature_size, task)

    def forward(self, words: Words, is_token: Bool[Tensor, "B T"]) -> list[Pass]:
        """Let each selector draw a mask of each text, and predict from it; the model's own selector first."""
        embedded, is_real = self.embed(words), repeated(is_token, self.num_rationales)
        passes = []
        for selector in (self.selector, *self.others):
            select_logit = selector(embedded, is_token)
            if self.config.is_dense:
                mask = is_real.to(select_logit.dtype)
            else:
                mask = sample_mask(select_logit, self.config.temperature, True) * is_real
            feature = None
            if self.config.lambda_norm > 0:
                with frozen(self.predictor):
                    feature = self.feature(embedded.detached(), mask, is_token)
            output = self.respond_through(embedded, mask, is_token)
            passes.append(Pass(select_logit, mask, output, feature))
        return passes


class RnpTrainer(RateTrainer):
    """One loss for the predictor and every selector, summed over the selectors [Liu2023a]."""

    model_class = RnpModel
    config: RnpConfig
    model: RnpModel

    def __init__(self, config: RnpConfig, task: Task, embeddings: Any, **rest: Any) -> None:
        super().__init__(config, task, embeddings, **rest)
        self.other_rate_controls = nn.ModuleList(self.new_rate_control() for _ in self.model.others)

    def step_terms(self, batch: Batch) -> tuple[Terms, Tensor, Any]:
        """The prediction's loss, the expected fused lasso and the rate control of each selector, summed."""
        passes = self.model(batch.words, batch.is_token)
        controls = (self.rate_control, *self.other_rate_controls)
        parts: list[Terms] = []
        for one, control in zip(passes, controls, strict=True):
            part = {
                **self.prediction_terms(one.output, batch),
                **self.selection_terms(one.select_logit, control, batch),
            }
            if one.frozen_feature is not None:
                part["norm"] = self.over_rationales(losses.representation_norm, one.frozen_feature)
            parts.append(part)
        terms = {name: torch.stack([part[name] for part in parts]).sum() for name in parts[0]}
        self._set_pace(self.sampled_rates(passes[0].mask.detach(), batch)["sampled_selection_rate"])
        return terms, passes[0].mask, passes

    def heard(self, terms: Terms, rest: Any) -> list[Heard]:
        """Every other term at the logits of the selectors, beside L_sp."""
        logits = tuple(one.select_logit for one in rest)
        return [Heard(logits, "sp", weighted(terms, self.config, self.pressure))]

    def parameter_groups(self, part: nn.Module) -> list[dict[str, Any]]:
        """With groups for the predictor's parameters, where its learning rate follows the masks."""
        groups = super().parameter_groups(part)
        if self.config.pace == "selector":
            return groups
        readers = (self.model.predictor, self.model.output)
        selectors = {id(p) for one in (self.model.selector, *self.model.others) for p in one.parameters()}
        theirs = {id(p) for reader in readers for p in reader.parameters()} - selectors
        found = []
        for group in groups:
            for is_predictor in (False, True):
                some = [p for p in group["params"] if (id(p) in theirs) == is_predictor]
                if some:
                    found.append(group | {"params": some, "follows_sparsity": is_predictor})
        return found

    def _set_pace(self, rate: Float[Tensor, ""]) -> None:
        """Give the predictor its learning rate for the update that follows: see `pace`."""
        if self.config.pace == "selector":
            return
        share = predictor_pace(float(rate))
        for schedule in self.schedulers:
            for group, rate_now in zip(
                schedule.optimizer.param_groups, self.learning_rates(schedule), strict=True
            ):
                if group["follows_sparsity"]:
                    group["lr"] = share * rate_now

    def parts(self) -> dict[str, Any]:
        """With the rate controls of further selectors."""
        more = {"other_rate_controls": self.other_rate_controls} if len(self.other_rate_controls) else {}
        return super().parts() | more

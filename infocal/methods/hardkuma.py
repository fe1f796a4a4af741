"""HardKuma [Bastings2019]: gates from a stretched and rectified Kumaraswamy distribution.

Shapes: B texts, T positions.
"""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from infocal import losses
from infocal.batch import Batch, Words
from infocal.config import RateConfig, Task, non_negative
from infocal.gradient_shares import Heard
from infocal.heads import repeated
from infocal.nn.encoders import Embedded, Encoder
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import SelectorPredictor, output_layer
from infocal.nn.selector import by_rationale, start_alone
from infocal.objective import Terms, weighted
from infocal.trainer import RateTrainer

SUPPORT = (-0.1, 1.1)
"""Ends of the stretched distribution [Bastings2019]: what falls below 0 is 0, what falls above 1 is 1."""

_ZERO, _ONE = ((end - SUPPORT[0]) / (SUPPORT[1] - SUPPORT[0]) for end in (0.0, 1.0))
"""Where 0 and 1 lie before stretching."""
_SHAPES = (0.01, 100.0)
"""Between them a and b are kept, as in the published code, where 1 / a is still finite in float32."""
_CLAMP = 1e-6


@dataclass(frozen=True, kw_only=True, slots=True)
class HardKumaConfig(RateConfig):
    """Hyper-parameters of HardKuma: those that every method with a rate control has.

    Differs: [Bastings2019] multiplies its Lagrange multipliers by exp(excess) and gives the fused lasso
    one of its own; here the rate has the augmented Lagrangian of all methods, which is two-sided from the
    first step, and the fused lasso a weight, `lambda_coherence`.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    lambda_coherence: float = non_negative(0.03)
    """Weight of the expected fused lasso, >= 0; at 0.1 the mask dies on beer (docs/experiments.md)."""


class Kuma(NamedTuple):
    """Shapes of Kumaraswamy distributions, F(k) = 1 - (1 - k^a)^b on (0, 1)."""

    a: Float[Tensor, "*S"]
    b: Float[Tensor, "*S"]


def kuma_cdf(kuma: Kuma, k: float) -> Float[Tensor, "*S"]:
    """F(k) = 1 - (1 - k^a)^b, for k in (0, 1)."""
    return -torch.expm1(kuma.b * torch.log1p(-torch.exp(kuma.a * math.log(k))))


def p_zero(kuma: Kuma) -> Float[Tensor, "*S"]:
    """P(z = 0) of the stretched and rectified distribution: F at -l / (r - l) [Bastings2019]."""
    return kuma_cdf(kuma, _ZERO)


def p_one(kuma: Kuma) -> Float[Tensor, "*S"]:
    """P(z = 1): 1 - F at (1 - l) / (r - l) [Bastings2019]."""
    return 1 - kuma_cdf(kuma, _ONE)


def kuma_quantile(kuma: Kuma, u: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
    """The k with F(k) = u, for u in (0, 1): (1 - (1 - u)^(1/b))^(1/a); differentiable in a and b."""
    inner = -torch.expm1(torch.log1p(-u) / kuma.b)
    return torch.exp(torch.log(inner) / kuma.a)


def rectified(k: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
    """Z = min(1, max(0, l + (r - l) k)) [Bastings2019]."""
    low, high = SUPPORT
    return (low + (high - low) * k).clamp(0, 1)


def expected_l0(zero: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Float[Tensor, ""]:
    """E[L0] as a share: expected share of the batch's real tokens whose gate is not 0, in [0, 1].

    sum_t (1 - P(z_t = 0)) / number of tokens    [Bastings2019]
    """
    return ((1 - zero) * is_token).sum() / is_token.sum()


class KumaSelector(nn.Module):
    """Shapes a and b of each token's gate, the softplus of two outputs.

    Before training b is 1 and a is such that P(z > 0) is `start_selection_rate`.
    Differs: [Bastings2019] starts where its biases of zero lead; see `infocal.nn.selector.Selector`.

    Args:
        config: the hyper-parameters.
        encoder: reads the whole text.
        num_rationales: of each text.
    """

    def __init__(self, config: HardKumaConfig, encoder: Encoder, num_rationales: int = 1) -> None:
        super().__init__()
        self.encoder, self.num_rationales = encoder, num_rationales
        self.output = nn.Linear(encoder.output_size, 2 * num_rationales)
        start_alone(self.output, 2)
        # with b = 1, F(k) = k^a
        shapes = (math.log(1 - config.start_selection_rate) / math.log(_ZERO), 1.0)
        with torch.no_grad():
            biases = torch.tensor([math.log(math.expm1(shape)) for shape in shapes])
            self.output.bias.copy_(biases.repeat(num_rationales))

    def forward(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Kuma:
        """Each token's distribution, [R T] (see `infocal.heads`); at padding it means nothing."""
        states = self.encoder(embedded, is_token.to(embedded.vectors.dtype))
        outputs = by_rationale(self.output(states), self.num_rationales)
        a, b = functional.softplus(outputs).float().clamp(*_SHAPES).unbind(dim=-1)
        return Kuma(a, b)


class Forward(NamedTuple):
    """What one training pass over a batch produces."""

    kuma: Kuma
    p_zero: Float[Tensor, "R T"]
    mask: Float[Tensor, "R T"]
    """Gates drawn, in [0, 1], zero at padding."""
    output: Float[Tensor, "B C"]


class HardKumaModel(SelectorPredictor):
    """A selector of gates and a predictor that reads through them.

    Differs: [Bastings2019] takes at test time the likeliest of 0, 1 and the mean of what lies between. Here a
    token is in the rationale or not, at P(z > 0) >= 0.5, and read whole, as with every other method.
    """

    config: HardKumaConfig
    selector: KumaSelector
    selector_class = KumaSelector

    def __init__(
        self, config: HardKumaConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__(config, task, embeddings)
        self.output = output_layer(config.feature_size, task)

    def select_probability(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "R T"]:
        """P(z > 0)."""
        return 1 - p_zero(self.selector(embedded, is_token))

    def forward(self, words: Words, is_token: Bool[Tensor, "B T"]) -> Forward:
        """Draw a gate for each token and predict through them."""
        embedded = self.embed(words)
        kuma = self.selector(embedded, is_token)
        u = torch.rand(kuma.a.shape, device=kuma.a.device).clamp(_CLAMP, 1 - _CLAMP)
        gates = torch.ones_like(u) if self.config.is_dense else rectified(kuma_quantile(kuma, u))
        mask = gates * repeated(is_token, self.num_rationales)
        # a gate that is exactly 0 was clamped there: nothing is lost by leaving its token out
        return Forward(kuma, p_zero(kuma), mask, self.respond(embedded, mask, is_token))


class HardKumaTrainer(RateTrainer):
    """One loss for selector and predictor: the gates let the gradient through."""

    model_class = HardKumaModel
    config: HardKumaConfig
    model: HardKumaModel

    def step_terms(self, batch: Batch) -> tuple[Terms, Tensor, Any]:
        """The prediction's loss, the expected fused lasso, and the control of the expected L0."""
        forward = self.model(batch.words, batch.is_token)
        is_token = batch.is_token
        terms: Terms = {
            **self.prediction_terms(forward.output, batch),
            "coherence": self.over_rationales(
                lambda zero: losses.expected_coherence(1 - zero, is_token), forward.p_zero
            ),
            "rate": self.held(self.rate_control, lambda zero: expected_l0(zero, is_token), forward.p_zero),
        }
        return terms, (forward.mask > 0).float(), forward

    def heard(self, terms: Terms, rest: Any) -> list[Heard]:
        """Fused lasso and rate control at the shapes a and b of the gates, beside L_sp."""
        return [Heard(tuple(rest.kuma), "sp", weighted(terms, self.config, self.pressure))]

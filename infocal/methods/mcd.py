"""MCD [Liu2023c]: the selector brings the prediction from the rationale near that from the whole text.

Source: [Liu2023c] MCD (NeurIPS 2023).

Shapes: B texts, T positions.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from infocal import losses
from infocal.batch import Batch, Words
from infocal.config import RateConfig, Task, non_negative, positive
from infocal.gradient_shares import Heard
from infocal.heads import repeated
from infocal.nn.frozen import frozen
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import SelectorPredictor, output_layer
from infocal.nn.sampling import sample_mask
from infocal.objective import Terms, weighted
from infocal.trainer import RateTrainer


@dataclass(frozen=True, kw_only=True, slots=True)
class McdConfig(RateConfig):
    """Hyper-parameters of MCD.

    Differs: rate and fused lasso as in `infocal.methods.rnp.RnpConfig`.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    dense_epochs: float = non_negative(4.0)
    """Epochs trained dense before the selector learns, >= 0.

    It learns from the prediction from the whole text alone. While that is worth nothing (after 1 epoch of the
    sample corpus), it settles on words that say nothing, for these change the prediction least.
    """

    lambda_coherence: float = non_negative(0.03)
    """Weight of the expected fused lasso, >= 0."""

    temperature: float = positive(1.0)
    """Temperature of the Gumbel-softmax, > 0."""

    lambda_kl: float = non_negative(1.0)
    """Weight of the divergence between the two predictions, the selector's own loss, >= 0."""


class Forward(NamedTuple):
    """What one training pass over a batch produces."""

    select_logit: Float[Tensor, "R T"]
    mask: Float[Tensor, "R T"]
    output: Float[Tensor, "B C"]
    """From the rationale; its gradient does not reach the selector."""
    full: Float[Tensor, "B C"]
    """From the whole text."""
    through: Float[Tensor, "B C"]
    """From the rationale; its gradient reaches the selector alone."""


class McdModel(SelectorPredictor):
    """Selector and predictor, which reads rationales and whole texts."""

    config: McdConfig

    def __init__(self, config: McdConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained) -> None:
        super().__init__(config, task, embeddings)
        self.output = output_layer(config.feature_size, task)

    def forward(self, words: Words, is_token: Bool[Tensor, "B T"]) -> Forward:
        """Draw a mask of each text, and predict from it and from the whole text."""
        embedded = self.embed(words)
        select_logit = self.selector(embedded, is_token)
        everything = is_token.to(select_logit.dtype)
        is_real = repeated(is_token, self.num_rationales)
        mask = is_real.to(select_logit.dtype)
        if not self.config.is_dense:
            mask = sample_mask(select_logit, self.config.temperature, True) * is_real
        with frozen(self.predictor, self.output):
            through = self.respond_through(embedded.detached(), mask, is_token)
        return Forward(
            select_logit,
            mask,
            output=self.respond(embedded, mask.detach(), is_token),
            full=self.respond(embedded, everything, is_token),
            through=through,
        )


class McdTrainer(RateTrainer):
    """The predictor learns from rationale and whole text, the selector from the divergence between them.

        predictor:  L(y, p(z~)) + L(y, p(x))
        selector:   KL( p(x) || p(z~) ), the predictor frozen, with rate control and fused lasso

    Differs: both are updated at once, where the published code updates the predictor, then the selector.
    """

    model_class = McdModel
    config: McdConfig
    model: McdModel

    def step_terms(self, batch: Batch) -> tuple[Terms, Tensor, Any]:
        """The predictor's two losses, the divergence, the expected fused lasso and the rate control."""
        forward = self.model(batch.words, batch.is_token)
        terms: Terms = {
            **self.prediction_terms(forward.output, batch),
            **self.prediction_terms(forward.full, batch, "guide"),
            "kl": losses.prediction_divergence(forward.full.detach(), forward.through, self.task),
            **self.selection_terms(forward.select_logit, self.rate_control, batch),
        }
        return terms, forward.mask, forward

    def heard(self, terms: Terms, rest: Any) -> list[Heard]:
        """Fused lasso and rate control at the selector's logits, beside the divergence."""
        return [Heard((rest.select_logit,), "kl", weighted(terms, self.config, self.pressure))]

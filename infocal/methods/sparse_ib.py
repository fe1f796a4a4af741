"""Sparse IB [Paranjape2020]: an information bottleneck on the mask, whose prior is the selection rate."""

from dataclasses import dataclass
from typing import Any, NamedTuple

from jaxtyping import Bool, Float
from torch import Tensor

from infocal import losses
from infocal.batch import Batch, Words
from infocal.config import Sampling, SelectorConfig, Task, non_negative, positive, positive_unit
from infocal.gradient_shares import Heard
from infocal.heads import repeated
from infocal.nn.encoders import Embedded
from infocal.nn.pieces import Pretrained
from infocal.nn.ranking import top_share
from infocal.nn.rationalizer import SelectorPredictor, output_layer
from infocal.nn.sampling import sample_mask
from infocal.objective import Terms, weighted
from infocal.trainer import SelectorTrainer


@dataclass(frozen=True, kw_only=True, slots=True)
class SparseIBConfig(SelectorConfig):
    """Hyper-parameters of Sparse IB.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    target_selection_rate: float = positive_unit(0.1)
    """Prior probability pi of a token, and the share of a text's tokens taken at inference, in (0, 1]."""

    lambda_ib: float = non_negative(0.001)
    """Weight of the bottleneck, a sum over tokens, >= 0; beta of [Paranjape2020].

    At 0.01 every p of a review settles at the prior, and the order of tokens is lost (docs/experiments.md).
    """

    temperature: float = positive(1.0)
    """Temperature of the relaxed Bernoulli, > 0."""

    sampling: Sampling = "relaxed"
    """`relaxed`: masks in (0, 1) in training, as in [Paranjape2020]; `straight_through`: hard ones."""


class Forward(NamedTuple):
    """What one training pass over a batch produces."""

    select_logit: Float[Tensor, "R T"]
    mask: Float[Tensor, "R T"]
    output: Float[Tensor, "B C"]


class SparseIBModel(SelectorPredictor):
    """Selector and predictor, joined by a relaxed mask; the top pi of a text's tokens at inference."""

    config: SparseIBConfig

    def __init__(
        self, config: SparseIBConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__(config, task, embeddings)
        self.output = output_layer(config.feature_size, task)

    def select_probability(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "R T"]:
        """0.5 and more for the top pi of each text by the selector's logit; see `top_share`."""
        logit = self.selector(embedded, is_token)
        is_real = repeated(is_token, self.num_rationales)
        return top_share(logit, is_real, self.config.target_selection_rate)

    def forward(self, words: Words, is_token: Bool[Tensor, "B T"]) -> Forward:
        """Draw a mask of each text and predict from it."""
        embedded = self.embed(words)
        select_logit = self.selector(embedded, is_token)
        is_real = repeated(is_token, self.num_rationales)
        mask = (
            sample_mask(select_logit, self.config.temperature, self.config.sampling == "straight_through")
            * is_real
        )
        if self.config.is_dense:
            mask = is_real.to(mask.dtype)
        return Forward(select_logit, mask, self.respond_through(embedded, mask, is_token))


class SparseIBTrainer(SelectorTrainer):
    """One loss for selector and predictor.

        L_sp + lambda_ib sum_t KL( Bern(p_t) || Bern(pi) )    [Paranjape2020]

    Differs: it starts dense and presses by and by, as every method with a selector does here.
    """

    model_class = SparseIBModel
    config: SparseIBConfig
    model: SparseIBModel

    @property
    def is_presentable(self) -> bool:
        """Not before the bottleneck acts in full: until then this is a soft attention, whatever it scores."""
        return self.config.is_dense or self.epoch - 1 >= self.config.start_epochs

    def step_terms(self, batch: Batch) -> tuple[Terms, Tensor, Any]:
        """The prediction's loss and the bottleneck."""
        forward = self.model(batch.words, batch.is_token)
        terms: Terms = self.prediction_terms(forward.output, batch)
        if not self.config.is_dense:  # whose prior has no room for another mask
            prior = self.config.target_selection_rate
            terms["ib"] = self.over_rationales(
                lambda logit: losses.information_bottleneck(logit, batch.is_token, prior),
                forward.select_logit,
            )
        return terms, forward.mask, forward

    def heard(self, terms: Terms, rest: Any) -> list[Heard]:
        """The bottleneck at the selector's logits, beside L_sp."""
        return [Heard((rest.select_logit,), "sp", weighted(terms, self.config, self.pressure))]

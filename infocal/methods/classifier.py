"""What the classifiers of [Mathew2021] share: they read whole texts, and are explained afterwards.

Source: [Mathew2021] HateXplain (AAAI 2021).

Shapes: B texts, T positions, C classes, H attention heads.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from infocal import explainers, losses
from infocal.batch import Batch
from infocal.config import (
    MethodConfig,
    Task,
    closed_unit,
    half_open_unit,
    non_negative,
    one_of,
    positive,
    positive_unit,
)
from infocal.errors import ConfigError, StateError
from infocal.nn.encoders import Embedded
from infocal.nn.explained import Explained
from infocal.nn.explaining import contributions
from infocal.nn.pieces import Pretrained
from infocal.nn.ranking import top_share, top_tokens
from infocal.nn.rationalizer import Rationalizer
from infocal.objective import Terms
from infocal.trainer import Trainer

ClassWeights = Literal["balanced", "equal"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClassifierConfig(MethodConfig):
    """Hyper-parameters of a classifier of whole texts, with the defaults of [Mathew2021].

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    predicts_several: ClassVar[bool] = False

    explainer: str = one_of("gradient_x_input", explainers.AFTER_TRAINING)
    """What ranks the tokens of a text; see `infocal.nn.explaining`."""

    lime_samples: int = positive(100)
    """Samples of a text by which `explainer` lime explains it, >= 1."""

    num_top_tokens: int = non_negative(5)
    """Tokens of a text, those that rank highest, that are its rationale, >= 0; 0: `target_selection_rate`."""

    target_selection_rate: float = closed_unit(0.0)
    """Share of a text's tokens that is its rationale where `num_top_tokens` is 0, in [0, 1].

    Where it is above 0 and the pipeline holds it, this share of the tokens of all texts is selected, whatever
    `num_top_tokens`; 0: none is held.
    """

    class_weights: ClassWeights = "balanced"
    """Weight of a text in the loss: `balanced` by the share of its class in training texts, or `equal`.

    Differs: the published code takes the shares from the labels of the test texts.
    """

    fc_dropout: float = half_open_unit(0.2)
    """Share of the units before each linear layer that is set to zero in training, in [0, 1).

    The published hidden dropout is left out: torch applies it between recurrent layers,
    and there is one.
    """

    learning_rate: float = positive(0.001)
    """AdamW's step size, > 0."""

    learning_rate_decay: float = positive_unit(1.0)
    """Factor on the learning rate at each milestone (epochs 25, 50, 75), in (0, 1]."""

    weight_decay: float = non_negative(0.0)
    """AdamW's weight decay, >= 0."""

    clip_norm: float = positive(1.0)
    """Largest norm of the model's gradient, > 0."""

    batch_size: int = positive(32)
    """Texts per update, >= 1."""

    def _check_together(self) -> None:
        # not super(): a dataclass with slots is another class than the one that it was written as
        MethodConfig._check_together(self)
        if self.num_top_tokens == 0 and self.target_selection_rate == 0:
            raise ConfigError(
                "one of `num_top_tokens` and `target_selection_rate` must be above 0, but both are 0",
                hint="add `--set num_top_tokens=N` (the N highest-ranked tokens are selected) or "
                "`--target-selection-rate RATE` (this share of the tokens is selected)",
            )


class Reading(NamedTuple):
    """What a classifier makes of the texts of a batch."""

    logit: Float[Tensor, "B C"]
    log_attention: Float[Tensor, "B H T"] | None = None
    """Logarithm of the share of each token in the attention of each head; at padding it means nothing."""


class Classifier(Rationalizer):
    """A reader of whole texts: its prediction does not rest on the rationale.

    A mask that is given is another matter: then it reads these tokens alone.
    """

    config: ClassifierConfig

    def __init__(
        self, config: ClassifierConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__(config, task, embeddings)
        explainers.check_installed(config.explainer)

    def read(self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Reading:
        """Logits and attention where a gate says how far its token is seen; differentiable by the gates."""
        raise NotImplementedError(f"{type(self).__name__} reads nothing")

    def drop(self, values: Float[Tensor, "*S"]) -> Float[Tensor, "*S"]:
        """Dropout before a linear layer."""
        return functional.dropout(values, self.config.fc_dropout, self.training)

    def logits(
        self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B C"]:
        """The logits of `read`."""
        return self.read(embedded, gate, is_token).logit

    def importance(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """How much each token of the whole text matters, by the explainer; zero at padding."""
        if self.config.explainer == explainers.ATTENTION:
            log_attention = self.read(embedded, is_token.to(embedded.vectors.dtype), is_token).log_attention
            assert log_attention is not None  # its config has this choice
            return log_attention.exp().mean(dim=1) * is_token
        is_score = self.task.kind == "regression"  # of several targets, the main one is explained
        logits, respond = (self.of_main(read) for read in (self.logits, self.respond))
        explained = Explained(logits, respond, embedded, is_token, self.config.lime_samples, is_score)
        return contributions(self.config.explainer, explained)

    def select_probability(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """0.5 and more for the tokens that rank highest; see `top_tokens` and `top_share`."""
        score = self.importance(embedded, is_token)
        if self.config.num_top_tokens:
            return top_tokens(score, is_token, self.config.num_top_tokens)
        return top_share(score, is_token, self.config.target_selection_rate)

    def respond(
        self, embedded: Embedded, mask: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B C"]:
        """Logits from the tokens of the mask."""
        return self.logits(self.hiding(embedded), mask, is_token)

    def seen(self, mask: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Every token, whatever is selected."""
        return is_token.to(mask.dtype)


def balanced_class_weights(class_counts: Int[Tensor, " C"]) -> Float[Tensor, " C"]:
    """N / (C n_c): weights that let each class count alike, whatever its share of the n texts.

    A class without a text counts as one with one text.
    """
    num_classes = len(class_counts)
    return class_counts.sum() / (num_classes * class_counts.clamp(min=1).float())


def supervision(batch: Batch, reading: Reading, sharpness: float, num_heads: int = 1) -> Float[Tensor, ""]:
    """`losses.attention_supervision` of the first heads of a reading, summed over them."""
    assert reading.log_attention is not None
    heads = reading.log_attention.unbind(dim=1)[:num_heads]
    each = [
        losses.attention_supervision(head, batch.human_rationale, batch.is_token, sharpness) for head in heads
    ]
    return torch.stack(each).sum()


class ClassifierTrainer(Trainer):
    """The prediction's loss by AdamW: nothing asks for a rationale.

    Raises:
        StateError: if classes are to be balanced, and nobody says how many texts each of them has.
    """

    optimizer_class: ClassVar[type[torch.optim.Adam]] = torch.optim.AdamW
    config: ClassifierConfig
    model: Classifier

    def __init__(
        self,
        config: ClassifierConfig,
        task: Task,
        embeddings: Tensor | Pretrained,
        **rest: Any,
    ) -> None:
        super().__init__(config, task, embeddings, **rest)
        self.class_weight: Tensor | None = None
        if task.kind == "classification" and config.class_weights == "balanced":
            if self.class_counts is None:
                raise StateError("`class_weights` balanced needs the number of training texts of each class")
            self.class_weight = balanced_class_weights(torch.tensor(self.class_counts)).to(self.device)

    def step_terms(self, batch: Batch) -> tuple[Terms, Tensor, Any]:
        """L_sp of the whole text."""
        embedded = self.model.embed(batch.words)
        everything = batch.is_token.to(embedded.vectors.dtype)
        reading = self.model.read(embedded, everything, batch.is_token)
        return self.terms(batch, reading), everything, None

    def terms(self, batch: Batch, reading: Reading) -> Terms:
        """What the reading of a batch costs; of several targets, beside it the loss of each, to watch."""
        loss = losses.prediction_loss(reading.logit, batch.target, self.task, class_weight=self.class_weight)
        return {"sp": loss} | self.terms_of_targets(reading.logit, batch, "sp")

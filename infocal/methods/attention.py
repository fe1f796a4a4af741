"""Attention: a model of the whole text, whose rationale is where its attention lies."""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Bool, Float
from torch import Tensor

from infocal import explainers
from infocal.batch import Batch
from infocal.config import MethodConfig, Task, one_of, positive, positive_unit
from infocal.nn.attention_reader import AttentionReader
from infocal.nn.encoders import Embedded
from infocal.nn.explained import Explained
from infocal.nn.explaining import contributions
from infocal.nn.pieces import Pretrained
from infocal.nn.ranking import top_share
from infocal.nn.rationalizer import Rationalizer, output_layer
from infocal.objective import Terms
from infocal.trainer import Trainer


@dataclass(frozen=True, kw_only=True, slots=True)
class AttentionConfig(MethodConfig):
    """Hyper-parameters of attention; `pooling` has no effect, for the attention pools.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    target_selection_rate: float = positive_unit(0.1)
    """Share of a text's tokens, those that rank highest, that are its rationale, in (0, 1]."""

    explainer: str = one_of(explainers.ATTENTION, explainers.EXPLAINERS)
    """What ranks the tokens of a text: its `attention`, or what `infocal.nn.explaining` computes."""

    lime_samples: int = positive(100)
    """Samples of a text by which `explainer` lime explains it, >= 1."""


class AttentionModel(Rationalizer):
    """A reader of the whole text with attention [DeYoung2020]: its prediction does not rest on the rationale.

    A mask that is given is another matter: then it reads these tokens alone.
    """

    config: AttentionConfig

    def __init__(
        self, config: AttentionConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__(config, task, embeddings)
        explainers.check_installed(config.explainer)
        self.reader = AttentionReader(config, self.new_encoder())
        self.output = output_layer(config.feature_size, task)

    def weights(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """The attention of each token of the whole text; zero at padding."""
        weight: Tensor
        _, weight = self.reader(embedded, is_token.to(embedded.vectors.dtype), is_token)
        return weight

    def select_probability(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """0.5 and more for the tokens that rank highest; see `top_share`."""
        score = self.importance(embedded, is_token)
        return top_share(score, is_token, self.config.target_selection_rate)

    def importance(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """How much each token of the whole text matters, by the explainer; zero at padding."""
        config = self.config
        if config.explainer == explainers.ATTENTION:
            return self.weights(embedded, is_token)
        is_score = self.task.kind == "regression"  # of several targets, the main one is explained
        logits, respond = (self.of_main(read) for read in (self.logits, self.respond))
        explained = Explained(logits, respond, embedded, is_token, config.lime_samples, is_score)
        return contributions(config.explainer, explained)

    def respond(
        self, embedded: Embedded, mask: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B C"]:
        """Logits from the tokens of the mask."""
        return self.logits(self.hiding(embedded), mask, is_token)

    def logits(
        self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B C"]:
        """Logits where each token is seen as far as its gate says; differentiable by the gates."""
        feature, _ = self.reader(embedded, gate, is_token)
        logit: Tensor = self.output(feature)
        return logit

    def seen(self, mask: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Every token, whatever is selected."""
        return is_token.to(mask.dtype)


class AttentionTrainer(Trainer):
    """The prediction's loss alone: nothing asks for a rationale."""

    model_class = AttentionModel
    config: AttentionConfig
    model: AttentionModel

    def step_terms(self, batch: Batch) -> tuple[Terms, Tensor, Any]:
        """L_sp of the whole text."""
        embedded = self.model.embed(batch.words)
        everything = batch.is_token.to(embedded.vectors.dtype)
        output = self.model.respond(embedded, everything, batch.is_token)
        terms: Terms = self.prediction_terms(output, batch)
        return terms, everything, None

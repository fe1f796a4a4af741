"""FRESH [Jain2020]: a support model says which tokens matter, an extractor cuts, a classifier reads the cut.

Shapes: B texts, T positions.
"""

import dataclasses
import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from infocal.batch import Batch, Words
from infocal.config import MethodConfig, Task, positive, positive_unit
from infocal.nn.attention_reader import AttentionReader
from infocal.nn.encoders import Embedded
from infocal.nn.pieces import Pretrained
from infocal.nn.predictor import Predictor, selected_only
from infocal.nn.ranking import num_taken, quantiles, top_share
from infocal.nn.rationalizer import HALF, Rationalizer, output_layer
from infocal.objective import Terms
from infocal.trainer import Trainer

Saliency = Literal["attention", "gradient"]
Extractor = Literal["top_k", "contiguous"]


@dataclass(frozen=True, kw_only=True, slots=True)
class FreshConfig(MethodConfig):
    """Hyper-parameters of FRESH.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    target_selection_rate: float = positive_unit(0.1)
    """Share of a text's tokens that is extracted, in (0, 1]."""

    support_epochs: float = positive(3.0)
    """Epochs in which the support model is trained, > 0; the classifier has those that follow."""

    saliency: Saliency = "attention"
    """What ranks tokens: the support model's `attention`, or the `gradient` of what it predicts."""

    extractor: Extractor = "top_k"
    """`top_k`: the tokens that rank highest; `contiguous`: the one span of that length that sums highest."""

    @property
    def start_epochs(self) -> float:
        """Epochs until there is a classifier to train."""
        return self.support_epochs


def best_span(
    score: Float[Tensor, "B T"], length: Float[Tensor, "B 1"], is_token: Bool[Tensor, "B T"]
) -> Bool[Tensor, "B T"]:
    """The span of `length` tokens whose scores sum highest, the first of equals [Jain2020].

    Args:
        score: of each token.
        length: of each text's span, from 0 to the text's own.
        is_token: where tokens stand.
    """
    sums = functional.pad((score * is_token).double().cumsum(dim=1), (1, 0))
    start = torch.arange(score.shape[1], device=score.device).expand_as(score)
    end = start + length.long()
    fits = end <= is_token.sum(dim=1, keepdim=True)
    inside = sums.gather(1, end.clamp(max=score.shape[1])) - sums[:, :-1]
    best = inside.masked_fill(~fits, -torch.inf).argmax(dim=1, keepdim=True)
    return (start >= best) & (start < best + length)


class FreshModel(Rationalizer):
    """Support model and classifier, with a word table in common; no gradient passes between them."""

    config: FreshConfig

    def __init__(
        self, config: FreshConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__(config, task, embeddings)
        self.support = AttentionReader(config, self.new_encoder())
        self.support_output = output_layer(config.feature_size, task)
        self.classifier = Predictor(config, self.new_encoder())
        self.output = output_layer(config.feature_size, task)

    def read_whole(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B C"]:
        """The support model's logits from the whole text."""
        feature, _ = self.support(embedded, is_token.to(embedded.vectors.dtype), is_token)
        logit: Tensor = self.support_output(feature)
        return logit

    def saliency(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """How much each token matters to the support model, >= 0; zero at padding.

        By gradient: |d y / d g_t| at g_t = 1, the gate that shows a token, y the logit of what is predicted;
        of several targets y is the sum over heads h of w_h y_h.
        A gate multiplies what its token adds, so this is gradient times input, with its state for input.
        """
        gate = is_token.to(embedded.vectors.dtype)
        if self.config.saliency == "attention":
            with torch.no_grad():
                weight: Tensor = self.support(embedded, gate, is_token)[1]
            return weight
        with torch.enable_grad():
            gate.requires_grad_()
            feature, _ = self.support(embedded, gate, is_token)
            heads = self.by_head(self.support_output(feature))
            each = [head.weight * logit.max(dim=1).values.sum() for head, logit in heads]
            predicted = torch.stack(each).sum()
            (slope,) = torch.autograd.grad(predicted, gate)
        return slope.abs() * is_token

    def select_probability(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """0.5 and more for what is extracted; within it, and outside of it, tokens rank by their saliency."""
        score, rate = self.saliency(embedded, is_token), self.config.target_selection_rate
        if self.config.extractor == "top_k":
            return top_share(score, is_token, rate)
        inside = best_span(score, num_taken(is_token, rate), is_token)
        return ((quantiles(score, is_token) + inside) / 2).to(torch.float32) * is_token

    def extract(self, words: Words, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """The mask that the classifier is trained on: as at inference, without dropout."""
        if self.config.is_dense:
            return is_token.float()
        with torch.no_grad():
            plain = self.embed(words, without_dropout=True)
        was_training = self.support.training
        self.support.eval()  # an encoder may have dropout of its own
        probability = self.select_probability(plain, is_token)
        self.support.train(was_training)
        return ((probability >= HALF) & is_token).float()

    def respond(
        self, embedded: Embedded, mask: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B C"]:
        """The classifier's logits from the tokens of the mask."""
        embedded = self.hiding(embedded)
        if self.classifier.encoder.carries_state:
            embedded, mask, is_token = selected_only(embedded, mask, is_token)
        logit: Tensor = self.output(self.classifier(embedded, mask=mask, is_token=is_token))
        return logit


class FreshTrainer(Trainer):
    """First the support model, on whole texts; then the classifier, on what is extracted by it.

    The support model and the word vectors stand still while the classifier learns, as in [Jain2020], whose
    classifier sees nothing but the extracted text. `sp` is the loss of what is being trained. Where weights
    are averaged, the averaged support model extracts. So the classifier is trained on the masks with which it
    is evaluated.
    """

    model_class = FreshModel
    config: FreshConfig
    model: FreshModel

    @property
    def is_presentable(self) -> bool:
        """Not before the classifier has learnt something."""
        return self.num_steps_done > self.num_support_steps

    @property
    def num_support_steps(self) -> int:
        """Updates of the support model, >= 1; the classifier has those that follow.

        Exact for epochs with up to six decimal places, in studies of up to 10^9 updates.
        """
        # rounded first: 0.7 epochs of 10 steps are 7.000000000000001 in floating point
        return max(1, math.ceil(round(self.config.support_epochs * self.steps_per_epoch, 6)))

    @property
    def num_steps_done(self) -> int:
        """Updates so far, of both models."""
        return self.epoch * self.steps_per_epoch + self.position

    def _settle_support(self) -> None:
        """Go on with the averaged weights; the classifier has had no update yet, so its own stay."""
        if self.average is not None:
            self.model.load_state_dict(self.average.module.state_dict())

    def step_terms(self, batch: Batch) -> tuple[Terms, Tensor, Any]:
        """The loss of the model whose turn it is."""
        if self.num_steps_done == self.num_support_steps:
            self._settle_support()
        embedded = self.model.embed(batch.words)
        if self.num_steps_done < self.num_support_steps:
            mask = batch.is_token.to(embedded.vectors.dtype)
            output = self.model.read_whole(embedded, batch.is_token)
        else:
            mask = self.model.extract(batch.words, batch.is_token)
            still = dataclasses.replace(embedded, vectors=embedded.vectors.detach())
            output = self.model.respond(still, mask, batch.is_token)
        terms: Terms = self.prediction_terms(output, batch)
        return terms, mask, None

"""A model that predicts and shows its rationale: what the models of all methods have in common."""

import dataclasses
import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from infocal.batch import Words
from infocal.config import MethodConfig, SelectorConfig, Task
from infocal.heads import own_columns, repeated
from infocal.nn.encoders import GIVEN, Embedded, Encoder, build_encoder
from infocal.nn.pieces import Lexicon, Pretrained
from infocal.nn.predictor import Predictor, selected_only
from infocal.nn.selector import Selector
from infocal.splitting import Splitter

_OUTPUT_GAIN = 0.1
"""Scale of the output layer before training: predictions start at the mean target, whatever the feature."""

HALF = 0.5
"""Probability from which on a token is selected."""


class Inference(NamedTuple):
    """What the model says about a batch without sampling.

    R = B; where each of several targets has its own rationale, see `infocal.heads`.
    """

    select_probability: Float[Tensor, "R T"]
    """p_i, zero at padding."""
    mask: Float[Tensor, "R T"]
    output: Float[Tensor, "B C"]
    """Prediction from the rationale: the score in (0, 1), or the class probabilities; of several targets
    one beside the other, at `Task.columns`."""

    def rationales(self) -> list[tuple[Tensor, Tensor]]:
        """Probability and mask, each [B T], of every rationale of a text; that of the main target first."""
        num = len(self.mask) // len(self.output)
        return list(zip(self.select_probability.chunk(num), self.mask.chunk(num), strict=True))


def output_layer(feature_size: int, task: Task) -> nn.Linear:
    """From a feature to the logit of the score, or of each class; each head starts as it would alone."""
    layer = nn.Linear(feature_size, task.num_outputs)
    with torch.no_grad():
        for head, columns in zip(task.heads, task.columns, strict=True):
            nn.init.xavier_uniform_(layer.weight[columns], gain=_OUTPUT_GAIN)
            nn.init.constant_(layer.bias[columns], _prior_logit(head))
    return layer


def _prior_logit(task: Task) -> float:
    """Bias with which a model that knows nothing predicts the mean score; 0 for classes."""
    if task.kind == "classification":
        return 0.0
    mean = min(max(task.target_mean, 0.01), 0.99)
    return math.log(mean / (1 - mean))


class Rationalizer(nn.Module):
    """One embedding table, a probability of being selected for each token, and a prediction.

    Where the encoders are pretrained, the pieces of the words stand in place of the table.

    A method's model says in `select_probability` which tokens count, and in `respond` what they predict.

    Args:
        config: the hyper-parameters.
        task: regression or classification.
        embeddings: word vectors, row 0 the padding's; or a pretrained encoder.
    """

    embeddings: Tensor
    """Word vectors; of a model whose encoders are pretrained a table of no columns."""

    threshold: float
    """Probability from which on a token is selected, in (0, 1]; `infer` moves the odds so that it is 0.5."""

    side_thresholds: list[float]
    """The same of the rationale of each side target, where each target has its own; else empty."""

    def __init__(
        self, config: MethodConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__()
        self.config = config
        self.task = task
        self.num_rationales = config.num_rationales(task)
        self.threshold, self.side_thresholds = HALF, [HALF] * (self.num_rationales - 1)
        self.lexicon: Lexicon | None = None
        self.pretrained: Pretrained | None = None
        self._shared: list[Encoder] = []  # not a module of its own: its names are those of the parts
        if isinstance(embeddings, Pretrained):
            self.pretrained = embeddings
            self.lexicon = Lexicon(embeddings, config)
            self.register_buffer("embeddings", torch.zeros(embeddings.num_words, 0), persistent=False)
        elif config.train_embeddings:
            self.embeddings = nn.Parameter(embeddings.clone())
        else:
            # not persistent: a checkpoint does not repeat a table that the features hold already
            self.register_buffer("embeddings", embeddings, persistent=False)

    def new_encoder(self) -> Encoder:
        """An encoder for a part of the model, as the config has it; the same for all where they share one."""
        if self._shared:
            return self._shared[0]
        made = build_encoder(self.config, self.embeddings.shape[1], self.pretrained)
        if self.config.shared_encoder:
            self._shared.append(made)
        return made

    @property
    def splitter(self) -> Splitter | None:
        """What splits words that the vocabulary lacks; None: all of them are one word to the model."""
        return None if self.pretrained is None else self.pretrained.splitter

    def given_weights(self) -> dict[str, list[str]]:
        """Encoders of which nothing is trained: start of their names in `state_dict` -> their own names."""
        found = {}
        for part, module in self.named_modules(remove_duplicate=False):
            if isinstance(module, Encoder) and (names := module.given_weights()):
                found[f"{part}.{GIVEN}"] = names
        return found

    def forget_weights(self) -> None:
        """Let go of the weights that a pretrained encoder started from; there is no further encoder."""
        if self.pretrained is not None:
            self.pretrained = self.pretrained.without_weights()

    def embed(self, words: Words, *, without_dropout: bool = False) -> Embedded:
        """Look the batch's distinct words up once for all encoders.

        Dropout falls on the vector of a word type, so a word looks the same wherever it stands in a batch.

        Args:
            words: of the batch.
            without_dropout: give the vectors as they are in training, too.
        """
        ids = words.ids
        if words.further is not None:
            ids = ids.clamp(max=len(self.embeddings) - 1)  # a table of no columns
        vectors = functional.embedding(ids, self.embeddings)
        if not without_dropout:
            vectors = functional.dropout(vectors, self.config.embedding_dropout, self.training)
        pieces = None if self.lexicon is None else self.lexicon(words)
        return Embedded(vectors, words.index, pieces)

    def hiding(self, embedded: Embedded) -> Embedded:
        """The words, for a prediction whose mask has no gradient; see `unselected` of the config."""
        return dataclasses.replace(embedded, hides_unselected=self.config.unselected == "removed")

    def select_probability(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "R T"]:
        """p_i of each token, before any threshold; at padding its value means nothing."""
        raise NotImplementedError(f"{type(self).__name__} selects nothing")

    def respond(
        self, embedded: Embedded, mask: Float[Tensor, "R T"], is_token: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B C"]:
        """Logits of the prediction from the tokens of a mask, which is zero at padding."""
        raise NotImplementedError(f"{type(self).__name__} predicts nothing")

    def seen(self, mask: Float[Tensor, "R T"], is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "R T"]:
        """The tokens that the prediction is made from where the model selects `mask`: these alone."""
        return mask

    def infer(self, words: Words, is_token: Bool[Tensor, "B T"]) -> Inference:
        """Rationale and prediction, without sampling.

        Args:
            words: of the texts.
            is_token: where they have tokens.
        """
        embedded, is_real = self.embed(words), repeated(is_token, self.num_rationales)
        if self.config.is_dense:
            probability = is_real.to(embedded.vectors.dtype)
        else:
            rows = self.select_probability(embedded, is_token).chunk(self.num_rationales)
            thresholds = (self.threshold, *self.side_thresholds)
            probability = torch.cat([shifted(own, t) for own, t in zip(rows, thresholds, strict=True)])
            probability = probability * is_real
        chosen = ((probability >= HALF) & is_real).to(torch.float32)
        output = self.activate(self.respond(embedded, self.seen(chosen, is_token), is_token))
        return Inference(probability, chosen, output)

    def predict_from(
        self, words: Words, is_token: Bool[Tensor, "B T"], mask: Float[Tensor, "R T"]
    ) -> Float[Tensor, "B C"]:
        """The prediction from the tokens of a given mask, which is zero at padding; nothing is selected.

        Args:
            words: of the texts.
            is_token: where they have tokens.
            mask: one for all targets, R = B; or one for each target, if the model selects these.

        Returns:
            As `Inference.output`.
        """
        return self.activate(self.respond(self.embed(words), mask, is_token))

    def guide(self, words: Words, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B C"] | None:
        """The prediction of a guider that reads the whole text; None: this model has no guider."""
        return None

    def activate(self, output: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """Scores in (0, 1) or class probabilities from the output layer's logits, Eq. (4) of [Sha2023].

        Differs: a sigmoid stands for the softmax where the task is a regression, as the paper does for beer.
        """
        heads = [
            torch.sigmoid(logit) if head.kind == "regression" else logit.softmax(dim=-1)
            for head, logit in self.by_head(output)
        ]
        return heads[0] if len(heads) == 1 else torch.cat(heads, dim=-1)

    def of_main(self, read: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """What gives logits, or the same for the main one of several targets alone."""
        if not self.task.sides:
            return read
        return lambda *given: read(*given)[..., self.task.columns[0]]

    def by_head(self, output: Float[Tensor, "B C"]) -> list[tuple[Task, Tensor]]:
        """Each target with its columns of an output; the output itself where there is one target."""
        if not self.task.sides:
            return [(self.task, output)]
        columns = zip(self.task.heads, self.task.columns, strict=True)
        return [(head, output[..., its]) for head, its in columns]


class SelectorPredictor(Rationalizer):
    """A selector, and a predictor of what it selects; a subclass makes `output`, after its own parts."""

    selector_class: ClassVar[type[nn.Module]] = Selector
    """Made of (config, encoder, rationales of a text); maps (embedded, is_token) to what says which tokens
    count."""

    config: SelectorConfig
    output: nn.Linear

    def __init__(
        self, config: SelectorConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__(config, task, embeddings)
        self.selector = self.selector_class(config, self.new_encoder(), self.num_rationales)
        self.predictor = Predictor(config, self.new_encoder())

    def select_probability(self, embedded: Embedded, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "R T"]:
        """The sigmoid of the selector's logit."""
        return torch.sigmoid(self.selector(embedded, is_token))

    def respond(
        self, embedded: Embedded, mask: Float[Tensor, "R T"], is_token: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B C"]:
        """The predictor on the selected tokens alone: the gradient by the mask of all others is lost."""
        num_texts = len(is_token)
        embedded, is_token = for_each(self.hiding(embedded), mask, is_token)
        if self.predictor.encoder.carries_state:
            embedded, mask, is_token = selected_only(embedded, mask, is_token)
        return self.logits_of(self.predictor(embedded, mask=mask, is_token=is_token), num_texts)

    def respond_through(
        self, embedded: Embedded, mask: Float[Tensor, "R T"], is_token: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B C"]:
        """The same, for training through the mask: every token has its gradient, selected or not."""
        return self.logits_of(self.feature(embedded, mask, is_token), len(is_token))

    def feature(
        self, embedded: Embedded, mask: Float[Tensor, "R T"], is_token: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "R Z"]:
        """The predictor's feature of each rationale, for training through the mask."""
        embedded, is_token = for_each(embedded, mask, is_token)
        feature: Tensor = self.predictor(embedded, mask=mask, is_token=is_token)
        return feature

    def logits_of(self, feature: Float[Tensor, "R Z"], num_texts: int) -> Float[Tensor, "B C"]:
        """Logits from the features of rationales: each target's from its own, where it has one."""
        logit: Tensor = self.output(feature)
        return logit if len(feature) == num_texts else own_columns(logit, self.task)


def for_each(
    embedded: Embedded, mask: Float[Tensor, "R T"], is_token: Bool[Tensor, "B T"]
) -> tuple[Embedded, Bool[Tensor, "R T"]]:
    """The texts of a batch, once for each rationale that the mask has of them."""
    num = len(mask) // len(is_token)
    return (embedded if num == 1 else embedded.repeated(num)), repeated(is_token, num)


def shifted(probability: Float[Tensor, "B T"], threshold: float) -> Float[Tensor, "B T"]:
    """The probabilities with their odds moved so that `threshold` becomes 0.5; their order stays.

        p (1 - t) / (p (1 - t) + (1 - p) t)

    In float64, and exactly 0.5 at p = t: a token at the threshold is selected.
    """
    if threshold == HALF:
        return probability
    p = probability.double()
    # at p = t both products are the same number; the clamp keeps 0 and 1 from 0 / 0
    t = p.new_tensor(min(max(threshold, 1e-300), 1 - 1e-16))
    chosen, other = p * (1 - t), (1 - p) * t
    return (chosen / (chosen + other)).to(probability.dtype)

"""InfoCal: selector, predictor and guider over one embedding table and one shared output layer."""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from infocal.batch import Words
from infocal.config import InfoCalConfig, Task
from infocal.encoders import Embedded
from infocal.guider import Gaussian, Guider
from infocal.predictor import Predictor, selected_only
from infocal.sampling import sample_mask
from infocal.selector import Selector, select

_OUTPUT_GAIN = 0.1
"""Scale of the output layer before training: predictions start at the mean target, whatever the feature."""


class Forward(NamedTuple):
    """Everything one training pass over a batch produces."""

    select_logit: Float[Tensor, "B T"]
    mask: Float[Tensor, "B T"]
    """Sampled selection, zero at padding."""
    predictor_feature: Float[Tensor, "B Z"]
    """z~_nero of Eq. (3)."""
    guider_feature: Float[Tensor, "B Z"]
    """z_nero of Eq. (7)."""
    gaussian: Gaussian
    predictor_output: Float[Tensor, "B C"]
    guider_output: Float[Tensor, "B C"]


class Inference(NamedTuple):
    """What the model says about a batch without sampling."""

    select_probability: Float[Tensor, "B T"]
    """p_i, zero at padding."""
    mask: Float[Tensor, "B T"]
    output: Float[Tensor, "B C"]
    """Prediction from the rationale: the score in (0, 1), or the class probabilities."""


def _prior_logit(task: Task) -> float:
    """Bias with which a model that knows nothing predicts the mean score; 0 for classes."""
    if task.kind == "classification":
        return 0.0
    mean = min(max(task.target_mean, 0.01), 0.99)
    return math.log(mean / (1 - mean))


class InfoCal(nn.Module):
    """The generator's side of [Sha2023]; the discriminator stands apart, for it has its own optimiser.

    Args:
        config: the hyper-parameters.
        task: regression or classification.
        embeddings: word vectors, row 0 the padding's.
    """

    embeddings: Tensor

    def __init__(self, config: InfoCalConfig, task: Task, embeddings: Float[Tensor, "V E"]) -> None:
        super().__init__()
        self.config = config
        self.task = task
        if config.train_embeddings:
            self.embeddings = nn.Parameter(embeddings.clone())
        else:
            # not persistent: a checkpoint does not repeat a table that the features hold already
            self.register_buffer("embeddings", embeddings, persistent=False)
        size = embeddings.shape[1]
        self.selector = Selector(config, size)
        self.predictor = Predictor(config, size)
        self.guider = Guider(config, size)
        self.output = nn.Linear(config.feature_size, task.num_classes)
        """W_p and b_p, shared by Eq. (4) and Eq. (8)."""
        nn.init.xavier_uniform_(self.output.weight, gain=_OUTPUT_GAIN)
        nn.init.constant_(self.output.bias, _prior_logit(task))

    def embed(self, words: Words) -> Embedded:
        """Look the batch's distinct words up once for all three encoders.

        Dropout falls on the vector of a word type, so a word looks the same wherever it stands in a batch.
        """
        vectors = functional.embedding(words.ids, self.embeddings)
        return Embedded(
            functional.dropout(vectors, self.config.embedding_dropout, self.training), words.index
        )

    def forward(self, words: Words, is_token: Bool[Tensor, "B T"]) -> Forward:
        """One training pass: sample a mask, predict from it, and guide from the whole text."""
        embedded = self.embed(words)
        select_logit = self.selector(embedded, is_token)
        straight_through = self.config.sampling == "straight_through"
        mask = sample_mask(select_logit, self.config.temperature, straight_through) * is_token
        predictor_feature = self.predictor(embedded, mask=mask, is_token=is_token)
        gaussian = self.guider(embedded, is_token)
        guider_feature = gaussian.sample()
        return Forward(
            select_logit,
            mask,
            predictor_feature,
            guider_feature,
            gaussian,
            self.output(predictor_feature),
            self.output(guider_feature),
        )

    def infer(
        self,
        words: Words,
        is_token: Bool[Tensor, "B T"],
        mask: Float[Tensor, "B T"] | None = None,
    ) -> Inference:
        """Rationale and prediction, by selector and predictor alone.

        Args:
            words: of the texts.
            is_token: where they have tokens.
            mask: predict from these tokens instead of the selected ones (zero at padding).
        """
        embedded = self.embed(words)
        select_logit = self.selector(embedded, is_token)
        chosen = select(select_logit, is_token) if mask is None else mask
        shortened, seen, stands = selected_only(embedded, chosen, is_token)
        feature = self.predictor(shortened, mask=seen, is_token=stands)
        return Inference(torch.sigmoid(select_logit) * is_token, chosen, self.activate(self.output(feature)))

    def guide(self, words: Words, is_token: Bool[Tensor, "B T"]) -> Float[Tensor, "B C"]:
        """The guider's prediction from the whole text, at the mean of z_nero."""
        gaussian = self.guider(self.embed(words), is_token)
        return self.activate(self.output(gaussian.mu))

    def activate(self, output: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """Scores in (0, 1) or class probabilities from the output layer's logits, Eq. (4) of [Sha2023].

        Differs: a sigmoid stands for the softmax where the task is a regression, as the paper does for beer.
        """
        return torch.sigmoid(output) if self.task.kind == "regression" else output.softmax(dim=-1)

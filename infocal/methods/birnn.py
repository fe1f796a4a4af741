"""BiRNN [Mathew2021]: the last state of each direction of a recurrent layer, and two linear layers.

Shapes: B texts, T positions.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from infocal.config import Pooling, Task, one_of, positive
from infocal.methods.classifier import Classifier, ClassifierConfig, ClassifierTrainer, Reading
from infocal.nn.encoders import Embedded, pool
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import output_layer


@dataclass(frozen=True, kw_only=True, slots=True)
class BirnnConfig(ClassifierConfig):
    """Hyper-parameters of BiRNN.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    encoder: str = one_of("lstm", ("lstm", "rcnn"))
    """Encoder of the texts, a recurrent one; that of [Mathew2021] is `lstm`."""

    pooling: Pooling = "last"
    """How a text is reduced to one vector: `mean`, `max` or `last` over the states of its seen tokens."""

    hidden_size: int = positive(128)
    """Hidden units of each direction of a recurrent encoder, half the filters of a `cnn`, >= 1."""

    feature_size: int = positive(128)
    """Units between the two linear layers, >= 1."""


class BirnnModel(Classifier):
    """Encoder, pooling and two linear layers with a rectifier between them."""

    config: BirnnConfig

    def __init__(
        self, config: BirnnConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__(config, task, embeddings)
        self.encoder = self.new_encoder()
        self.feature = nn.Linear(self.encoder.output_size, config.feature_size)
        self.output = output_layer(config.feature_size, task)

    def read(self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Reading:
        """See `Classifier.read`; there is no attention."""
        states = self.encoder(embedded, gate)
        pooled = self.drop(pool(states, gate, is_token, self.config.pooling))
        return Reading(self.output(self.drop(torch.relu(self.feature(pooled)))))


class BirnnTrainer(ClassifierTrainer):
    """See `ClassifierTrainer`."""

    model_class = BirnnModel

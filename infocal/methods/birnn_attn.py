"""BiRNN-Attn [Mathew2021]: attention over the states of a recurrent layer, and two linear layers.

Shapes: B texts, T positions.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from infocal import explainers
from infocal.config import Task, one_of, positive
from infocal.encoder_registry import ENCODERS
from infocal.methods.classifier import Classifier, ClassifierConfig, ClassifierTrainer, Reading
from infocal.nn.attention_reader import AttentionReader
from infocal.nn.encoders import Embedded
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import output_layer


@dataclass(frozen=True, kw_only=True, slots=True)
class BirnnAttnConfig(ClassifierConfig):
    """Hyper-parameters of BiRNN-Attn; `pooling` has no effect, for the attention pools.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    encoder: str = one_of("lstm", ENCODERS)
    """Encoder of the texts; that of [Mathew2021] is `lstm`."""

    explainer: str = one_of(explainers.ATTENTION, explainers.EXPLAINERS)
    """What ranks the tokens of a text: its `attention`, or what `infocal.nn.explaining` computes."""

    hidden_size: int = positive(128)
    """Hidden units of each direction of a recurrent encoder, half the filters of a `cnn`, >= 1."""


class BirnnAttnModel(Classifier):
    """Encoder, additive attention and two linear layers with a rectifier between them."""

    config: BirnnAttnConfig

    def __init__(
        self, config: BirnnAttnConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__(config, task, embeddings)
        self.reader = AttentionReader(config, self.new_encoder())
        self.output = output_layer(config.feature_size, task)

    def read(self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Reading:
        """See `Classifier.read`; the attention has one head."""
        pooled, weight = self.reader.attend(embedded, gate, is_token)
        feature = torch.relu(self.reader.feature(self.drop(pooled)))
        log_attention = weight.clamp(min=torch.finfo(weight.dtype).tiny).log()
        return Reading(self.output(self.drop(feature)), log_attention.unsqueeze(1))


class BirnnAttnTrainer(ClassifierTrainer):
    """See `ClassifierTrainer`."""

    model_class = BirnnAttnModel

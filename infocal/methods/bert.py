"""BERT as a classifier [Mathew2021]: the state of the special token before a text, and two linear layers.

Shapes: B texts, T positions.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from infocal import explainers
from infocal.config import Task, half_open_unit, non_negative, one_of, positive
from infocal.errors import ConfigError
from infocal.methods.classifier import Classifier, ClassifierConfig, ClassifierTrainer, ClassWeights, Reading
from infocal.nn.encoders import Embedded
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import output_layer
from infocal.nn.transformer import Transformer


@dataclass(frozen=True, kw_only=True, slots=True)
class BertConfig(ClassifierConfig):
    """Hyper-parameters of BERT; `pooling`, `hidden_size` and `feature_size` have no effect.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    encoder: str = one_of("transformer", ("transformer",))
    """`transformer`: the method reads the mark of a pretrained encoder, which `pretrained` names."""

    explainer: str = one_of(explainers.ATTENTION, explainers.EXPLAINERS)
    """What ranks the tokens of a text: the `attention` of the mark before it in the last block, the mean over
    heads, or what `infocal.nn.explaining` computes."""

    class_weights: ClassWeights = "equal"
    """Weight of a text in the loss: `balanced` by the share of its class in training texts, or `equal`."""

    fc_dropout: float = half_open_unit(0.1)
    """Share of the units before the last linear layer that is set to zero in training, in [0, 1)."""

    learning_rate: float = positive(5e-5)
    """AdamW's step size for the two linear layers, > 0."""

    encoder_learning_rate: float = positive(5e-5)
    """AdamW's step size for pretrained weights, > 0."""

    min_learning_rate: float = non_negative(0.0)
    """Floor of the learning rate, >= 0; never above `learning_rate`."""

    warmup_epochs: float = non_negative(0.5)
    """Epochs over which the learning rate first rises linearly from 0, >= 0: a tenth of the published 5."""

    decay_epochs: float = non_negative(5.0)
    """Epochs after which the learning rate has fallen linearly to its floor, >= 0: training ends here."""

    batch_size: int = positive(16)
    """Texts per update, >= 1."""


class BertModel(Classifier):
    """A pretrained encoder, a linear layer with tanh on the state of its first mark, and the output layer.

    Differs: the linear layer starts with fresh weights, where the published model has BERT's pooler.
    """

    config: BertConfig

    def __init__(self, config: BertConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained) -> None:
        super().__init__(config, task, embeddings)
        encoder = self.new_encoder()
        assert isinstance(encoder, Transformer)  # the config has no other choice
        if not isinstance(embeddings, Pretrained) or not embeddings.prefix:
            raise ConfigError(
                "BERT predicts from the special token before a text (such as [CLS]), but this tokenizer adds "
                "none there"
            )
        encoder.show_attention()
        self.encoder = encoder
        self.feature = nn.Linear(encoder.output_size, encoder.output_size)
        nn.init.xavier_uniform_(self.feature.weight)
        nn.init.zeros_(self.feature.bias)
        self.output = output_layer(encoder.output_size, task)

    def read(self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Reading:
        """See `Classifier.read`; the attention is that of the mark, as shares of what it gives to words."""
        mark = self.encoder.read_by_mark(embedded, gate)
        logit = self.output(self.drop(torch.tanh(self.feature(mark.state))))
        least = torch.finfo(mark.attention.dtype).tiny
        log_attention = mark.attention.clamp(min=least).log()
        inside = log_attention.masked_fill(~is_token.unsqueeze(1), -torch.inf)
        return Reading(logit, log_attention - inside.logsumexp(dim=-1, keepdim=True))


class BertTrainer(ClassifierTrainer):
    """See `ClassifierTrainer`."""

    model_class = BertModel

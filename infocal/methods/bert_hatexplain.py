"""BERT-HateXplain [Mathew2021]: BERT whose attention is supervised by the annotators' mean."""

from dataclasses import dataclass

from infocal.batch import Batch
from infocal.config import non_negative, positive
from infocal.methods.bert import BertConfig, BertTrainer
from infocal.methods.classifier import ClassWeights, Reading, supervision
from infocal.objective import Terms


@dataclass(frozen=True, kw_only=True, slots=True)
class BertHatexplainConfig(BertConfig):
    """Hyper-parameters of BERT-HateXplain.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    lambda_attention: float = non_negative(0.001)
    """Weight of the attention's supervision, summed over heads, >= 0."""

    target_sharpness: float = non_negative(1.0)
    """Factor on the annotators' mean before its softmax, >= 0; the published training script sets 1."""

    num_supervised_heads: int = positive(6)
    """Heads of the last block, from the first one on, that are supervised, >= 1; at most all."""

    class_weights: ClassWeights = "balanced"
    """Weight of a text in the loss: `balanced` by the share of its class in training texts, or `equal`."""

    learning_rate: float = positive(2e-5)
    """AdamW's step size for the two linear layers, > 0."""

    encoder_learning_rate: float = positive(2e-5)
    """AdamW's step size for pretrained weights, > 0."""


class BertHatexplainTrainer(BertTrainer):
    """The prediction's loss, and the cross-entropy of the attention to the human rationale.

    Differs: the published target and attention are those of pieces; here they are those of words, and
    attention to marks is left out.
    """

    config: BertHatexplainConfig

    def terms(self, batch: Batch, reading: Reading) -> Terms:
        """What the reading of a batch costs."""
        config = self.config
        term = supervision(batch, reading, config.target_sharpness, config.num_supervised_heads)
        return super().terms(batch, reading) | {"attention": term}

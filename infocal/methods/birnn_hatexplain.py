"""BiRNN-HateXplain [Mathew2021]: BiRNN-Attn whose attention is supervised by the annotators' mean."""

from dataclasses import dataclass

from infocal.batch import Batch
from infocal.config import half_open_unit, non_negative, positive
from infocal.methods.birnn_attn import BirnnAttnConfig, BirnnAttnTrainer
from infocal.methods.classifier import Reading, supervision
from infocal.objective import Terms


@dataclass(frozen=True, kw_only=True, slots=True)
class BirnnHatexplainConfig(BirnnAttnConfig):
    """Hyper-parameters of BiRNN-HateXplain.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    lambda_attention: float = non_negative(100.0)
    """Weight of the attention's supervision, >= 0."""

    target_sharpness: float = non_negative(1.0)
    """Factor on the annotators' mean before its softmax, >= 0; the published training script sets 1."""

    hidden_size: int = positive(64)
    """Hidden units of each direction of a recurrent encoder, half the filters of a `cnn`, >= 1."""

    embedding_dropout: float = half_open_unit(0.5)
    """Share of a word's embedding dimensions set to zero in training, in [0, 1); per word type of a batch."""

    train_embeddings: bool = True
    """Whether the word vectors are trained with the model."""


class BirnnHatexplainTrainer(BirnnAttnTrainer):
    """The prediction's loss, and the cross-entropy of the attention to the human rationale."""

    config: BirnnHatexplainConfig

    def terms(self, batch: Batch, reading: Reading) -> Terms:
        """What the reading of a batch costs."""
        return super().terms(batch, reading) | {
            "attention": supervision(batch, reading, self.config.target_sharpness)
        }

"""CNN-GRU [Mathew2021]: filters over two, three and four words, maxima of four places each, and a GRU.

Shapes: B texts, T positions, E embedding dimensions, F filters of a width, S steps after pooling.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from infocal.config import Task, half_open_unit, one_of, positive
from infocal.errors import ConfigError
from infocal.methods.classifier import Classifier, ClassifierConfig, ClassifierTrainer, Reading
from infocal.nn.encoders import Embedded
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import output_layer

WIDTHS = (2, 3, 4)
"""Words that a filter sees."""
POOLED = 4
"""Places of which the maximum is taken, both times."""


@dataclass(frozen=True, kw_only=True, slots=True)
class CnnGruConfig(ClassifierConfig):
    """Hyper-parameters of CNN-GRU; `pooling` and `feature_size` have no effect.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    encoder: str = one_of("cnn", ("cnn",))
    """`cnn`: the filters are the method's own."""

    hidden_size: int = positive(100)
    """Units of the GRU, >= 1."""

    num_filters: int = positive(100)
    """Filters of each width, >= 1."""

    fc_dropout: float = half_open_unit(0.1)
    """Share of the units before the linear layer that is set to zero in training, in [0, 1)."""


def pooled_maxima(values: Float[Tensor, "B T F"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B S F"]:
    """The maximum of each unit over every `POOLED` places of a text; the last ones may be fewer.

    Args:
        values: anything at and behind the end of a text.
        lengths: of the texts.

    Returns:
        S = T / `POOLED`, rounded up; zeros behind the end of a text.
    """
    width = values.shape[1]
    inside = (torch.arange(width, device=values.device) < lengths[:, None]).unsqueeze(-1)
    masked = values.masked_fill(~inside, -torch.inf)
    padded = functional.pad(masked, (0, 0, 0, -width % POOLED), value=-torch.inf)
    found = padded.unflatten(1, (-1, POOLED)).max(dim=2).values
    return torch.where(found.isinf(), 0.0, found)


class CnnGruModel(Classifier):
    """Filters, pooling, a GRU that reads towards the end, and a linear layer on its largest states.

    A word that is gated off is a gap of zeros.

    Differs: the published convolutions make n - 1, n and n + 1 places of n words and read the padding to 128
    words as well. Here each makes n, and pooling ends with the text, where it takes what is left over: so
    padding changes nothing, and a text of one word has a place.
    """

    config: CnnGruConfig

    def __init__(
        self, config: CnnGruConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__(config, task, embeddings)
        if isinstance(embeddings, Pretrained):
            raise ConfigError("CNN-GRU reads word vectors, but got a pretrained encoder")
        size = embeddings.shape[1]
        self.filters = nn.ModuleList(nn.Conv1d(size, config.num_filters, width) for width in WIDTHS)
        self.gru = nn.GRU(config.num_filters, config.hidden_size, batch_first=True)
        self.output = output_layer(config.hidden_size, task)

    def read(self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Reading:
        """See `Classifier.read`; there is no attention."""
        steps, num_steps = self._steps(embedded, gate, is_token.sum(dim=1))
        states, _ = self.gru(steps)
        inside = torch.arange(states.shape[1], device=states.device) < num_steps[:, None]
        largest = states.masked_fill(~inside.unsqueeze(-1), -torch.inf).max(dim=1).values
        return Reading(self.output(self.drop(largest)))

    def _steps(
        self, embedded: Embedded, gate: Float[Tensor, "B T"], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B S F"], Int[Tensor, " B"]]:
        """What the GRU reads, and the number of its steps in each text."""
        words = functional.embedding(embedded.index, embedded.vectors) * gate.unsqueeze(-1)
        columns = words.transpose(1, 2)
        parts = []
        for width, filters in zip(WIDTHS, self.filters, strict=True):
            around = functional.pad(columns, (width - 2, 1))  # as many places as words
            parts.append(pooled_maxima(filters(around).transpose(1, 2), lengths))
        num_places = -(-lengths // POOLED)
        place = torch.arange(parts[0].shape[1], device=lengths.device)
        is_place = (place < num_places[:, None]).repeat(1, len(WIDTHS))
        # the places of all widths one after the other, without the padding between them
        order = (~is_place).to(torch.uint8).argsort(dim=1, stable=True)
        joined = torch.cat(parts, dim=1)
        joined = joined.gather(1, order.unsqueeze(-1).expand_as(joined))
        num_joined = len(WIDTHS) * num_places
        return pooled_maxima(joined, num_joined), -(-num_joined // POOLED)


class CnnGruTrainer(ClassifierTrainer):
    """See `ClassifierTrainer`."""

    model_class = CnnGruModel

"""TOPJUDGE [Zhong2018]: filters over words, and an LSTM cell for each target, in the order of their graph.

Shapes: B texts, T positions, F dimensions of a text's vector, H hidden units.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from infocal.config import Task, non_negative, positive
from infocal.methods.classifier import Classifier, ClassifierTrainer, Reading
from infocal.methods.joint import GraphConfig, refuse_pretrained
from infocal.nn.encoders import Embedded
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import output_layer
from infocal.nn.text_filters import TextFilters
from infocal.task_graph import TaskGraph

State = tuple[Tensor, Tensor]
"""h [B H] and c [B H] of a cell."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TopjudgeConfig(GraphConfig):
    """Hyper-parameters of TOPJUDGE; `pooling` and `feature_size` have no effect.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    hidden_size: int = positive(256)
    """Units of the cell of each target, >= 1."""

    weight_decay: float = non_negative(0.001)
    """Adam's L2 penalty, >= 0."""

    batch_size: int = positive(128)
    """Texts per update, >= 1."""


class TargetCell(nn.Module):
    """The LSTM cell of one target, which starts from the states of the targets that it reads.

        [h0; c0] = sum_i ( W_i [h_i; c_i] + b_i )
        i, f, o = sigmoid(V d + U h0 + b),  g = tanh(V d + U h0 + b)
        c = f c0 + i g,   h = o tanh(c)

    with d the vector of the text. Without a target to read, h0 and c0 are zero.

    Args:
        input_size: F, dimensions of d.
        hidden_size: H.
        num_before: number of targets that are read.
    """

    def __init__(self, input_size: int, hidden_size: int, num_before: int) -> None:
        super().__init__()
        self.text_layer = nn.Linear(input_size, 4 * hidden_size)
        self.starts = nn.ModuleList(nn.Linear(2 * hidden_size, 2 * hidden_size) for _ in range(num_before))
        self.recurrent = nn.Linear(hidden_size, 4 * hidden_size, bias=False) if num_before else None

    def forward(self, text: Float[Tensor, "B F"], before: Sequence[State]) -> State:
        """The state of the target, from the vector of each text and the states that are read."""
        gates = self.text_layer(text)
        start_c: Tensor | float = 0.0
        if self.recurrent is not None:
            starts = [
                layer(torch.cat(state, dim=1)) for layer, state in zip(self.starts, before, strict=True)
            ]
            start_h, start_c = torch.stack(starts).sum(dim=0).chunk(2, dim=1)
            gates = gates + self.recurrent(start_h)
        write, keep, value, show = gates.chunk(4, dim=1)
        c = torch.sigmoid(keep) * start_c + torch.sigmoid(write) * torch.tanh(value)
        return torch.sigmoid(show) * torch.tanh(c), c


class TopjudgeModel(Classifier):
    """Filters, a cell for each target, and a linear layer on the state of each.

    Differs: the published code passes the state of the first target that is read on as it is, and only
    those of further ones through a linear layer; here each has one, as in the paper.
    """

    config: TopjudgeConfig

    def __init__(
        self, config: TopjudgeConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__(config, task, embeddings)
        refuse_pretrained("TOPJUDGE", embeddings)
        self.graph = TaskGraph.of(config.dependencies, [head.name for head in task.heads])
        self.filters = TextFilters(self.embeddings.shape[1], config.num_filters, torch.relu)
        self.cells = nn.ModuleList(
            TargetCell(self.filters.output_size, config.hidden_size, len(before))
            for before in self.graph.before
        )
        self.output = output_layer(config.hidden_size, task)

    def read(self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Reading:
        """See `Classifier.read`; there is no attention."""
        text = self.drop(self.filters(embedded, gate, is_token))
        states: dict[int, State] = {}
        for target in self.graph.order:
            states[target] = self.cells[target](text, [states[one] for one in self.graph.before[target]])
        logits = [
            functional.linear(self.drop(states[target][0]), self.output.weight[its], self.output.bias[its])
            for target, its in enumerate(self.task.columns)
        ]
        return Reading(torch.cat(logits, dim=1))


class TopjudgeTrainer(ClassifierTrainer):
    """See `ClassifierTrainer`; by Adam, whose decay is part of the gradient."""

    optimizer_class = torch.optim.Adam
    model_class = TopjudgeModel

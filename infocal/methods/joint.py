"""What the classifiers of legal cases share: they predict several targets, which may read one another.

Sources: [Zhong2018] TOPJUDGE (EMNLP 2018), [Yang2019] MPBFN-WCA (IJCAI 2019).
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from infocal import task_graph
from infocal.config import Task, closed_unit, half_open_unit, non_negative, one_of, positive
from infocal.errors import ConfigError
from infocal.methods.classifier import ClassifierConfig
from infocal.nn.pieces import Pretrained


@dataclass(frozen=True, kw_only=True, slots=True)
class JointConfig(ClassifierConfig):
    """Hyper-parameters of a classifier of several targets.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    predicts_several: ClassVar[bool] = True
    predicts_one: ClassVar[bool] = False

    class_weights: Literal["equal"] = "equal"
    """Weight of a text in the loss: that of all others."""

    num_top_tokens: int = non_negative(0)
    """Tokens of a text, those that rank highest, that are its rationale, >= 0; 0: `target_selection_rate`."""

    target_selection_rate: float = closed_unit(0.1)
    """Share of a text's tokens that is its rationale where `num_top_tokens` is 0, in [0, 1]."""

    learning_rate: float = positive(0.001)
    """Adam's step size, > 0."""

    weight_decay: float = non_negative(0.0)
    """Adam's L2 penalty, >= 0."""

    clip_norm: float = positive(5.0)
    """Largest norm of the model's gradient, > 0."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphConfig(JointConfig):
    """Hyper-parameters of one whose targets read one another.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    encoder: str = one_of("cnn", ("cnn",))
    """`cnn`: the filters are the method's own."""

    dependencies: str = "charges=articles,terms=articles+charges"
    """Which targets the prediction of each target reads, `TARGET=TARGET+TARGET,...`.

    A target that is not named reads the text alone. The default is the graph of [Zhong2018]: first articles,
    then charges, then terms.
    """

    num_filters: int = positive(64)
    """Filters of each of four widths, >= 1."""

    fc_dropout: float = half_open_unit(0.0)
    """Share of the units before each linear layer that is set to zero in training, in [0, 1)."""

    def _check_together(self) -> None:
        # not super(): a dataclass with slots is another class than the one that it was written as
        JointConfig._check_together(self)
        task_graph.parse(self.dependencies)

    def weighted(self, task: Task) -> Task:
        """See `MethodConfig.weighted`; the targets must be those of the graph.

        Raises:
            ConfigError: as there, and if `dependencies` does not fit the targets.
        """
        found = JointConfig.weighted(self, task)
        task_graph.TaskGraph.of(self.dependencies, [head.name for head in task.heads])
        return found


def refuse_pretrained(method: str, given: object) -> None:
    """Refuse a pretrained encoder for a method that has layers of its own for word vectors.

    Raises:
        ConfigError: if it is one.
    """
    if isinstance(given, Pretrained):
        raise ConfigError(f"{method} reads word vectors, but got a pretrained encoder")

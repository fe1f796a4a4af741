"""MPBFN-WCA [Yang2019]: predictions that feed later targets, later targets that verify earlier ones.

Shapes: B texts, T positions, U distinct words, E embedding dimensions, F dimensions of a text's vector,
H hidden units, C classes of a target.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional

from infocal.config import Task, half_open_unit, positive
from infocal.errors import ConfigError
from infocal.methods.classifier import Classifier, ClassifierTrainer, Reading
from infocal.methods.joint import GraphConfig, refuse_pretrained
from infocal.nn.encoders import Embedded
from infocal.nn.pieces import Pretrained
from infocal.nn.text_filters import TextFilters
from infocal.task_graph import TaskGraph

_LEAST = 1e-12
"""Keeps a text without a pair of words from 0 / 0; its pairs give the zero vector."""


@dataclass(frozen=True, kw_only=True, slots=True)
class MpbfnWcaConfig(GraphConfig):
    """Hyper-parameters of MPBFN-WCA; `pooling` and `feature_size` have no effect.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    hidden_size: int = positive(256)
    """Units of the LSTM over the two words of a pair, >= 1."""

    fc_dropout: float = half_open_unit(0.5)
    """Share of the units of a text's vector that is set to zero in training, in [0, 1)."""

    batch_size: int = positive(128)
    """Texts per update, >= 1."""


class Collocations(nn.Module):
    """States of pairs of words, and attention to them (WCA).

        p_t = LSTM(x_t, x_{t+1}),  e_t = q' tanh(K p_t),
        alpha_t = g_t g_{t+1} exp(e_t) / sum_s g_s g_{s+1} exp(e_s),  sum_t alpha_t p_t

    with q the query of a target and g the gates.

    Differs: [Yang2019] takes pairs that a tool finds, and reads numbers digit by digit. Here all neighbours
    are pairs, and numbers are words.

    Args:
        embedding_size: E.
        hidden_size: H.
        query_size: F, dimensions of the queries.
    """

    def __init__(self, embedding_size: int, hidden_size: int, query_size: int) -> None:
        super().__init__()
        self.word_layer = nn.Linear(embedding_size, 4 * hidden_size)
        self.recurrent = nn.Linear(hidden_size, 4 * hidden_size, bias=False)
        self.key = nn.Linear(hidden_size, query_size, bias=False)

    def states(self, embedded: Embedded) -> Float[Tensor, "B T H"]:
        """p_t of each position; at the last position it means nothing.

        What depends on one word is computed once for each distinct word of the batch.
        """
        projected = self.word_layer(embedded.vectors)
        write, _, value, show = projected.chunk(4, dim=1)
        c = torch.sigmoid(write) * torch.tanh(value)
        h = torch.sigmoid(show) * torch.tanh(c)
        following = embedded.index.roll(-1, dims=1)
        gates = functional.embedding(following, projected)
        gates = gates + functional.embedding(embedded.index, self.recurrent(h))
        write, keep, value, show = gates.chunk(4, dim=2)
        c = torch.sigmoid(keep) * functional.embedding(embedded.index, c) + torch.sigmoid(write) * torch.tanh(
            value
        )
        return torch.sigmoid(show) * torch.tanh(c)

    def forward(
        self,
        states: Float[Tensor, "B T H"],
        gate: Float[Tensor, "B T"],
        is_token: Bool[Tensor, "B T"],
        query: Float[Tensor, "B F"],
    ) -> Float[Tensor, "B H"]:
        """The attended pair of each text; zero where a text has no pair.

        Args:
            states: of the pairs.
            gate: 1 where a token is seen.
            is_token: where tokens stand.
            query: of the target.
        """
        is_pair = functional.pad(is_token[:, 1:], (0, 1))
        both = torch.where(is_pair, gate * gate.roll(-1, dims=1), 0.0)
        energy = torch.einsum("btf,bf->bt", torch.tanh(self.key(states)), query)
        energy = energy.masked_fill(~is_pair, torch.finfo(energy.dtype).min)
        share = both * torch.exp(energy - energy.amax(dim=1, keepdim=True).detach())
        weight = share / share.sum(dim=1, keepdim=True).clamp(min=_LEAST)
        return torch.einsum("bt,bth->bh", weight, states)


class MpbfnWcaModel(Classifier):
    """Filters, forward predictions by the graph, and backward verification.

    With d the vector of a text, for each target j in the order of the graph:

        p_j  ~  prod_{i read by j} softmax(W_ij (d m_i))           forward; softmax(W_j d) if it reads none
        s_j  =  sum_c p_j(c) e_jc,   m_j = elu(M_j s_j)             its meaning
        y_i  ~  p_i prod_{j reads i} sigmoid(V_ji s_j)              backward

    where `~` stands for a division by the sum over classes. A target that no other reads, and that reads some
    (the terms), has d m_i elu(A_i [d; w_i]) in place of d m_i, with w_i the pairs of words attended by m_i.

    Raises:
        ConfigError: if a target is a score.
    """

    config: MpbfnWcaConfig

    def __init__(
        self, config: MpbfnWcaConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained
    ) -> None:
        super().__init__(config, task, embeddings)
        refuse_pretrained("MPBFN-WCA", embeddings)
        for head in task.heads:
            if head.kind == "regression":
                raise ConfigError(f"MPBFN-WCA predicts classes, but the target `{head.name}` is a score")
        self.graph = graph = TaskGraph.of(config.dependencies, [head.name for head in task.heads])
        self.sizes = [head.num_classes for head in task.heads]
        self.filters = TextFilters(self.embeddings.shape[1], config.num_filters, functional.elu)
        size = self.filters.output_size
        self.forward_layers, self.label_vectors = nn.ModuleDict(), nn.ParameterDict()
        self.meanings, self.enriched, self.verifiers = nn.ModuleDict(), nn.ModuleDict(), nn.ModuleDict()
        for target, num_classes in enumerate(self.sizes):
            before, after = graph.before[target], graph.after[target]
            for one in before:
                self.forward_layers[f"{one}-{target}"] = nn.Linear(size, num_classes)
                self.verifiers[f"{target}-{one}"] = nn.Linear(size, self.sizes[one])
            if not before:
                self.forward_layers[f"{target}"] = nn.Linear(size, num_classes)
            if before or after:
                self.label_vectors[f"{target}"] = nn.Parameter(torch.randn(num_classes, size))
            if after:
                self.meanings[f"{target}"] = nn.Linear(size, size, bias=False)
        attended = sorted({one for target in self._last() for one in graph.before[target]})
        self.pairs = Collocations(self.embeddings.shape[1], config.hidden_size, size) if attended else None
        for one in attended:
            self.enriched[f"{one}"] = nn.Linear(size + config.hidden_size, size)

    def _last(self) -> list[int]:
        """Targets that read others, and that no other reads."""
        graph = self.graph
        return [j for j in range(len(self.sizes)) if graph.before[j] and not graph.after[j]]

    def read(self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Reading:
        """See `Classifier.read`; the logits are log-probabilities."""
        text = self.drop(self.filters(embedded, gate, is_token))
        pairs, last = None if self.pairs is None else self.pairs.states(embedded), self._last()
        log_p: dict[int, Tensor] = {}
        label: dict[int, Tensor] = {}
        meaning: dict[int, Tensor] = {}
        rich: dict[int, Tensor] = {}
        for target in self.graph.order:
            key, before = f"{target}", self.graph.before[target]
            votes = [] if before else [self.forward_layers[key](text)]
            for one in before:
                seen = text * meaning[one]
                if target in last:
                    if one not in rich:
                        assert self.pairs is not None
                        attended = self.pairs(pairs, gate, is_token, meaning[one])
                        rich[one] = functional.elu(
                            self.enriched[f"{one}"](torch.cat([text, attended], dim=1))
                        )
                    seen = seen * rich[one]
                votes.append(self.forward_layers[f"{one}-{target}"](seen))
            log_p[target] = product_of_experts(votes)
            if key in self.label_vectors:
                label[target] = log_p[target].exp() @ self.label_vectors[key]
            if key in self.meanings:
                meaning[target] = functional.elu(self.meanings[key](label[target]))
        found = []
        for target in range(len(self.sizes)):
            checks = [self.verifiers[f"{j}-{target}"](label[j]) for j in self.graph.after[target]]
            found.append(verified(log_p[target], checks))
        return Reading(torch.cat(found, dim=1))


def product_of_experts(logits: list[Tensor]) -> Float[Tensor, "B C"]:
    """Log of prod_i softmax(logit_i), divided by its sum over classes."""
    each = [logit.log_softmax(dim=1) for logit in logits]
    return torch.stack(each).sum(dim=0).log_softmax(dim=1)


def verified(log_p: Float[Tensor, "B C"], checks: list[Tensor]) -> Float[Tensor, "B C"]:
    """Log of p prod_j sigmoid(check_j), divided by its sum over classes; log p itself without a check."""
    if not checks:
        return log_p
    return (log_p + functional.logsigmoid(torch.stack(checks)).sum(dim=0)).log_softmax(dim=1)


class MpbfnWcaTrainer(ClassifierTrainer):
    """See `ClassifierTrainer`; by Adam."""

    optimizer_class = torch.optim.Adam
    model_class = MpbfnWcaModel

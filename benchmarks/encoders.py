"""The RCNN layer, forward and backward, on real batches, on one thread."""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from benchmarks.corpus import Corpus
from benchmarks.reference import TorchLSTM, as_loop, every_position
from benchmarks.timing import Figure, alternate, compare
from infocal import kernels
from infocal.batch import Batch
from infocal.nn.encoders import LSTM, RCNN, Embedded

HIDDEN_SIZE = 200
_SIZES = (64, 256)
_NUM_BATCHES = 3


@dataclass(frozen=True, slots=True)
class _Way:
    """A layer and how it is given its words."""

    layer: nn.Module
    embed: Callable[[Batch, torch.Tensor], Embedded]

    def run(self, batches: list[Batch], table: torch.Tensor, gradients: list[torch.Tensor]) -> None:
        """Forward and backward over the batches, from token numbers to the gradients of the weights."""
        for batch, gradient in zip(batches, gradients, strict=True):
            self.layer.zero_grad(set_to_none=True)
            self.layer(self.embed(batch, table), batch.is_token.float()).backward(gradient)


def _distinct(batch: Batch, table: torch.Tensor) -> Embedded:
    distinct, index = torch.unique(batch.token_ids, return_inverse=True)
    return Embedded(functional.embedding(distinct, table), index)


def _positions(batch: Batch, table: torch.Tensor) -> Embedded:
    return every_position(batch.token_ids, table)


def _batches(corpus: Corpus, size: int) -> list[Batch]:
    shuffled = corpus.loader.shuffled(size, seed=0, epoch=0)
    return [next(shuffled) for _ in range(_NUM_BATCHES)]


def run(corpus: Corpus, rounds: int) -> Iterator[Figure]:
    """Figures of batches of 64 and 256 texts."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    table = corpus.embeddings
    rcnn, lstm = RCNN(table.shape[1], HIDDEN_SIZE), LSTM(table.shape[1], HIDDEN_SIZE)
    ways = {
        "rcnn": _Way(rcnn, _distinct),
        "rcnn_positions": _Way(rcnn, _positions),
        "loop": _Way(as_loop(rcnn), _positions),
        "lstm": _Way(TorchLSTM(table.shape[1], HIDDEN_SIZE), _positions),
        "our_lstm": _Way(lstm, _distinct),
    }
    for size in _SIZES:
        batches = _batches(corpus, size)
        gradients = [torch.randn(*batch.token_ids.shape, 2 * HIDDEN_SIZE) for batch in batches]
        positions = sum(batch.token_ids.numel() for batch in batches)
        distinct = sum(len(torch.unique(batch.token_ids)) for batch in batches)
        passes = {name: functools.partial(way.run, batches, table, gradients) for name, way in ways.items()}
        seconds = alternate(passes, rounds)
        note = (
            f"{corpus.label}, {_NUM_BATCHES} batches of {size}: {positions} positions, {distinct} distinct "
            f"words, hidden {HIDDEN_SIZE}, kernel {kernels.choose(rcnn.input_weight, rcnn.recurrent_weight)}"
        )
        yield compare(f"rcnn_vs_plain_b{size}", seconds, "rcnn", "loop", note)
        yield compare(f"rcnn_vs_lstm_b{size}", seconds, "rcnn", "lstm", note)
        yield compare(f"rcnn_no_distinct_vs_plain_b{size}", seconds, "rcnn_positions", "loop", note)
        yield compare(f"our_lstm_vs_lstm_b{size}", seconds, "our_lstm", "lstm", note)

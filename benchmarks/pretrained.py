"""One training step of InfoCal with pretrained transformers, against one pass of the same encoder alone."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from benchmarks.timing import Figure, alternate, compare
from infocal.batch import Batch
from infocal.config import InfoCalConfig, Task
from infocal.errors import StateError
from infocal.methods.infocal.trainer import InfoCalTrainer
from infocal.nn.pieces import Pretrained

_MINILM: dict[str, Any] = {
    "model_type": "bert",
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
}
"""The architecture of MiniLM-L6. Weights are random: they do not change the time."""
_FIRST_PIECE = 1000
_CLS, _SEP = 101, 102
_NUM_WORDS = 5000
_NUM_TEXTS, _TEXT_LENGTH = 16, 64
_NUM_STEPS = 2


def run(rounds: int) -> Iterator[Figure]:
    """A step with three copies of the encoder and with a shared one, in float32 and bfloat16."""
    torch.set_num_threads(1)
    pretrained = _pretrained()
    batch = _batch()
    ways: dict[str, Any] = {
        "pass": _Pass(pretrained, batch),
        "copies": _Step(pretrained, batch, shared=False),
        "shared": _Step(pretrained, batch, shared=True),
    }
    try:
        ways["bf16"] = _Step(pretrained, batch, shared=True, bf16=True)
    except StateError as error:  # a CPU without instructions for it
        print(f"transformer_bf16 is not measured: {error}")
    seconds = alternate(ways, rounds)
    note = f"MiniLM-L6, {_NUM_TEXTS} texts of {_TEXT_LENGTH} words, {ways['pass'].num_pieces} pieces each, "
    against = note + "against forward and backward of `transformers`' own model"
    yield compare("transformer_step_vs_pass", seconds, "copies", "pass", f"{against}; three copies")
    yield compare("transformer_shared_vs_pass", seconds, "shared", "pass", f"{against}; one encoder for all")
    if "bf16" in ways:
        yield compare("transformer_bf16_vs_float32", seconds, "bf16", "shared", f"{note}one encoder for all")


def _pretrained() -> Pretrained:
    """Words of one, two or three pieces."""
    lengths = torch.tensor([0, 1, *(1 + word % 3 for word in range(2, _NUM_WORDS))])
    num_pieces = int(lengths.sum())
    return Pretrained(
        architecture=_MINILM,
        prefix=[_CLS],
        suffix=[_SEP],
        piece_ids=_FIRST_PIECE + torch.arange(num_pieces),
        first_piece=torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)]),
    )


def _batch() -> Batch:
    generator = torch.Generator().manual_seed(0)
    shape = (_NUM_TEXTS, _TEXT_LENGTH)
    # as many words of each number of pieces in each text, so that no position is padding
    number = torch.randint(1, _NUM_WORDS // 3, shape, generator=generator)
    return Batch(
        token_ids=3 * number + torch.arange(_TEXT_LENGTH) % 3,
        is_token=torch.ones(shape, dtype=torch.bool),
        target=torch.rand(_NUM_TEXTS, generator=generator),
        lm_logit=torch.randn(shape, generator=generator),
        human_rationale=torch.zeros(shape),
        index=torch.arange(_NUM_TEXTS),
    )


class _Step:
    """Training steps of InfoCal."""

    def __init__(self, pretrained: Pretrained, batch: Batch, *, shared: bool, bf16: bool = False) -> None:
        config = InfoCalConfig.from_mapping(
            {"encoder": "transformer", "pretrained": "MiniLM", "shared_encoder": shared}
        )
        self.batch = batch
        self.trainer = InfoCalTrainer(
            config,
            Task(kind="regression"),
            pretrained,
            steps_per_epoch=100,
            seed=0,
            device=torch.device("cpu"),
            bf16=bf16,
        )
        self.trainer.epoch = 5  # every weight is in force
        self.trainer.position = 1  # the first step of an epoch also measures gradient shares

    def __call__(self) -> None:
        for _ in range(_NUM_STEPS):
            self.trainer.train_step(self.batch)
        self.trainer.position = 1


class _Pass:
    """Forward and backward of `transformers`' own model over the pieces of the same texts."""

    def __init__(self, pretrained: Pretrained, batch: Batch) -> None:
        from transformers import BertConfig, BertModel

        self.pieces = torch.stack([self._pieces(pretrained, row) for row in batch.token_ids])
        self.num_pieces = self.pieces.shape[1]
        self.model = BertModel(BertConfig(**_MINILM), add_pooling_layer=False).train()

    @staticmethod
    def _pieces(pretrained: Pretrained, words: Tensor) -> Tensor:
        first = pretrained.first_piece
        own = [pretrained.piece_ids[first[word] : first[word + 1]] for word in words]
        return torch.cat([torch.tensor([_CLS]), *own, torch.tensor([_SEP])])

    def __call__(self) -> None:
        for _ in range(_NUM_STEPS):
            self.model.zero_grad(set_to_none=True)
            states = self.model(input_ids=self.pieces, attention_mask=torch.ones_like(self.pieces))
            states.last_hidden_state.square().mean().backward()

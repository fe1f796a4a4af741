"""A recurrent language model with a normalised output layer: what the tables call RNNLM.

Differs: [Sha2023] cites a simple recurrent network; here the layer is an LSTM, as in its own model. The
output layer is the adaptive softmax of Grave et al. (2017): an exact distribution over the known words that
costs less than a softmax over all of them.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from infocal.batch import Batch
from infocal.errors import ConfigError
from infocal.language_models.batches import of_rows
from infocal.metrics.perplexity import NUM_SPECIAL

_CUTOFFS = (1_000, 5_000)
"""Ranks of words, by falling frequency, at which the output layer changes to a smaller projection."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RecurrentConfig:
    """Hyper-parameters; the paper states none.

    Raises:
        ConfigError: if a value is out of its range.
    """

    embedding_size: int = 100
    """Units of a word's vector, which is trained."""
    hidden_size: int = 128
    """Units of the recurrent layer."""
    dropout: float = 0.3
    """Share of units dropped before and behind the recurrent layer, in [0, 1)."""
    num_epochs: int = 6
    """Most passes over the training texts; training ends after the first that lowers no validation loss."""
    batch_size: int = 32
    """Texts per update."""
    learning_rate: float = 0.003
    """Adam's step size."""
    clip_norm: float = 1.0
    """Largest norm of the gradient."""
    seed: int = 0
    """Seed of weights and dropout."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name == "dropout":
                if not 0 <= value < 1:
                    raise ConfigError(f"RNNLM: `dropout` must lie in [0, 1), but got {value}")
            elif field.name != "seed" and not value > 0:
                raise ConfigError(f"RNNLM: `{field.name}` must be > 0, but got {value}")


class RecurrentLanguageModel(nn.Module):
    """p(w_i | w_<i) from an LSTM over the tokens before.

    Args:
        config: the hyper-parameters.
        token_counts: how often each word stands in the training texts; at least two known words.
    """

    rank: Tensor

    def __init__(self, config: RecurrentConfig, token_counts: Int[Tensor, " V"]) -> None:
        super().__init__()
        known = token_counts[NUM_SPECIAL:]
        rank = torch.zeros(len(token_counts), dtype=torch.int64)
        rank[NUM_SPECIAL + torch.argsort(known, descending=True, stable=True)] = torch.arange(len(known))
        self.register_buffer("rank", rank, persistent=False)
        self.embedding = nn.Embedding(len(token_counts), config.embedding_size, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=0.1)
        self.dropout = nn.Dropout(config.dropout)
        self.recurrent = nn.LSTM(config.embedding_size, config.hidden_size, batch_first=True)
        cutoffs = [cut for cut in _CUTOFFS if cut < len(known)] or [len(known) - 1]
        self.output = nn.AdaptiveLogSoftmaxWithLoss(config.hidden_size, len(known), cutoffs)

    def forward(self, token_ids: Int[Tensor, "B T"], is_scored: Bool[Tensor, "B T"]) -> Float[Tensor, " N"]:
        """Log p of the N scored tokens, none of them the first of a text."""
        states = self.recurrent(self.dropout(self.embedding(token_ids)))[0]
        before = self.dropout(states[:, :-1])[is_scored[:, 1:]]
        log_p: Tensor = self.output(before, self.rank[token_ids[is_scored]]).output
        return log_p


class RecurrentTrainer:
    """Trains one.

    Args:
        config: the hyper-parameters.
        token_counts: as for the model.
        device: where to train.
    """

    def __init__(
        self, config: RecurrentConfig, token_counts: Int[Tensor, " V"], device: torch.device
    ) -> None:
        torch.manual_seed(config.seed)
        self.config, self.device = config, device
        self.model = RecurrentLanguageModel(config, token_counts).to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.learning_rate)

    def train(
        self, train: Callable[[int], Iterable[Batch]], val: Callable[[], Iterable[Batch]]
    ) -> Iterator[float]:
        """Train until the validation texts have no lower loss, and keep the weights of the best epoch.

        Args:
            train: batches of the training texts in an epoch.
            val: those of the validation texts.

        Yields:
            Mean loss of a scored validation token after each epoch, in nats.
        """
        best, kept = float("inf"), None
        for epoch in range(self.config.num_epochs):
            self._train_epoch(train(epoch))
            loss = self._loss(val())
            yield loss
            if not loss < best:
                break
            best, kept = loss, copy.deepcopy(self.model.state_dict())
        if kept is not None:
            self.model.load_state_dict(kept)
        self.model.eval()

    def _train_epoch(self, batches: Iterable[Batch]) -> None:
        self.model.train()
        for batch in batches:
            placed = batch.to(self.device)
            is_scored = _scored(placed)
            if not is_scored.any():
                continue
            loss = -self.model(placed.token_ids, is_scored).mean()
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
            self.optimizer.step()

    @torch.no_grad()
    def _loss(self, batches: Iterable[Batch]) -> float:
        self.model.eval()
        total, num = 0.0, 0
        for batch in batches:
            placed = batch.to(self.device)
            log_p = self.model(placed.token_ids, _scored(placed))
            total, num = total - float(log_p.sum()), num + len(log_p)
        return total / max(num, 1)

    @torch.no_grad()
    def log_p(self, batches: Iterable[Batch]) -> list[NDArray[np.float64]]:
        """Log p of each text's tokens from the second on, in nats; unknown words have 0.

        Returns:
            (T - 1,) values of each text, in the order of the table.
        """
        self.model.eval()

        def of_batch(batch: Batch) -> Float[Tensor, "B T"]:
            is_scored = _scored(batch)
            values = torch.zeros(batch.token_ids.shape, device=self.device)
            values[is_scored] = self.model(batch.token_ids, is_scored)
            return values

        return of_rows(batches, of_batch, self.device)


def _scored(batch: Batch) -> Bool[Tensor, "B T"]:
    is_scored = batch.is_token & (batch.token_ids >= NUM_SPECIAL)
    is_scored[:, 0] = False
    return is_scored

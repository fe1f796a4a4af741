"""The language model in continuous form, Eq. (17) to (19) of [Sha2023]: pre-trained, frozen, read once.

Its score of token i, s_i = h_i' M e_i, depends on the text alone, so it is computed once per corpus.
"""

from collections.abc import Iterable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from infocal.batch import Batch
from infocal.language_model_config import LanguageModelConfig
from infocal.losses import negative_sampling


class LanguageModel(nn.Module):
    """p(x_i | x_<i) = sigmoid(h_i' M e_i) over its own frozen word vectors.

    Args:
        config: the hyper-parameters.
        embeddings: e of every word, row 0 the padding's.
    """

    embeddings: Tensor

    def __init__(self, config: LanguageModelConfig, embeddings: Float[Tensor, "V E"]) -> None:
        super().__init__()
        self.register_buffer("embeddings", embeddings, persistent=False)
        size = embeddings.shape[1]
        self.recurrent = nn.LSTM(size, config.hidden_size, batch_first=True)
        self.bilinear = nn.Linear(config.hidden_size, size, bias=False)
        """M of Eq. (17), applied to h."""

    def query(self, token_ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T E"]:
        """h_i' M at each position i, from the tokens before it; h of the first token is the zero vector."""
        states = self.recurrent(functional.embedding(token_ids, self.embeddings))[0]
        before = functional.pad(states, (0, 0, 1, 0))[:, :-1]
        query: Tensor = self.bilinear(before)
        return query

    def forward(self, token_ids: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """s_i = h_i' M e_i of each token."""
        return (self.query(token_ids) * functional.embedding(token_ids, self.embeddings)).sum(dim=-1)

    def loss(
        self, token_ids: Int[Tensor, "B T"], is_token: Bool[Tensor, "B T"], negatives: Int[Tensor, " K"]
    ) -> Float[Tensor, ""]:
        """L_pre of a batch, with the same K negatives at every position."""
        query = self.query(token_ids)
        positive = (query * functional.embedding(token_ids, self.embeddings)).sum(dim=-1)
        negative = query @ functional.embedding(negatives, self.embeddings).T
        # the first token has no context: its score is 0 whatever the weights
        return negative_sampling(positive[:, 1:], negative[:, 1:], is_token[:, 1:])


class LanguageModelTrainer:
    """Pre-training by Eq. (19).

    Args:
        config: the hyper-parameters.
        embeddings: word vectors.
        token_counts: how often each word occurs in the training texts; p(x_j) of Eq. (19).
        device: where to train.
    """

    def __init__(
        self,
        config: LanguageModelConfig,
        embeddings: Float[Tensor, "V E"],
        token_counts: Int[Tensor, " V"],
        device: torch.device,
    ) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.device = device
        self.model = LanguageModel(config, embeddings).to(device)
        self.unigram = token_counts.to(device, torch.float32)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=config.learning_rate)

    def train_epoch(self, batches: Iterable[Batch]) -> float:
        """One pass over the texts; returns the mean loss in nats a token."""
        total, steps = torch.zeros((), device=self.device), 0
        for batch in batches:
            if batch.token_ids.shape[1] < 2:
                continue
            placed = batch.to(self.device)
            negatives = torch.multinomial(self.unigram, self.config.num_negatives, replacement=True)
            loss = self.model.loss(placed.token_ids, placed.is_token, negatives)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_norm)
            self.optimizer.step()
            total += loss.detach()
            steps += 1
        return (total / max(steps, 1)).item()

    @torch.no_grad()
    def score(self, batches: Iterable[Batch]) -> dict[int, Float[Tensor, " N"]]:
        """s_i of every token of each text, by the text's row; in nats."""
        self.model.eval()
        scores = {}
        for batch in batches:
            logit = self.model(batch.token_ids.to(self.device)).cpu()
            lengths = batch.is_token.sum(dim=1).tolist()
            for row, length, values in zip(batch.index.tolist(), lengths, logit, strict=True):
                scores[row] = values[:length].clone()
        self.model.train()
        return scores

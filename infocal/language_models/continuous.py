"""A perplexity of the language model in continuous form, whose scores are no probabilities.

Eq. (17) of [Sha2023], sigmoid(s_w) with s_w = h_i' M e_w, is no distribution over words, and the paper does
not say how its table of perplexities follows from it. Two readings give a distribution:

- `RATIO` takes the model by what it is trained for. The loss of Eq. (19) is least where sigmoid(s_w) = p(w
  | h) / (p(w | h) + p(w)), that is exp(s_w) = p(w | h) / p(w): the score says how many times more likely a
  word is after h than elsewhere. So p(w | h) is p(w) exp(s_w), normalised over the known words, with p(w)
  the word's frequency in the training texts.
- `SOFTMAX` normalises exp(s_w) alone, as a softmax does with its own output vectors.
"""

from collections.abc import Iterable
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from infocal.batch import Batch
from infocal.language_models.batches import of_rows
from infocal.methods.infocal.language_model import LanguageModel
from infocal.metrics.perplexity import NUM_SPECIAL

Reading = Literal["ratio", "softmax"]
RATIO: Reading = "ratio"
SOFTMAX: Reading = "softmax"

_NUM_SCORES = 1 << 25
"""Scores of all words that are held at once, 128 MB."""


@torch.no_grad()
def log_p(
    model: LanguageModel, batches: Iterable[Batch], log_frequency: Float[Tensor, " V"], reading: Reading
) -> list[NDArray[np.float64]]:
    """Log p of each text's tokens from the second on, in nats; unknown words have 0.

    Args:
        model: the language model.
        batches: of all texts, each once.
        log_frequency: log of every word's frequency in the training texts; read by `RATIO`.
        reading: how a distribution follows from scores.

    Returns:
        (T - 1,) values of each text, in the order of the table.
    """
    words = model.embeddings[NUM_SPECIAL:]
    bias = log_frequency[NUM_SPECIAL:].to(words) if reading == RATIO else words.new_zeros(len(words))

    def of_batch(batch: Batch) -> Float[Tensor, "B T"]:
        is_scored = batch.is_token & (batch.token_ids >= NUM_SPECIAL)
        is_scored[:, 0] = False
        query, targets = model.query(batch.token_ids)[is_scored], batch.token_ids[is_scored] - NUM_SPECIAL
        step = max(1, _NUM_SCORES // len(words))
        found = [
            -functional.cross_entropy(part @ words.T + bias, target, reduction="none")
            for part, target in zip(query.split(step), targets.split(step), strict=True)
        ]
        values = query.new_zeros(batch.token_ids.shape)
        values[is_scored] = torch.cat(found)
        return values

    return of_rows(batches, of_batch, words.device)

"""Perplexity, defined once for every language model.

    perplexity = exp( - (1 / N) sum_i log p(w_i | w_1 ... w_{i-1}) )

over the N scored tokens of all texts, with the natural logarithm. Scored is every known word from the
second token of a text on: the first token has no token before it, and a model of vectors says nothing of
it. An unknown word is not scored, for any model, because nobody can predict which word it is; it stays
among the tokens before the next one. p is a distribution over the V known words: it sums to 1 over them, so
a model that knows nothing has the perplexity V. The end of a text is no token.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from infocal.metrics.resampling import NUM_DRAWS, Interval, draws, interval_of

NUM_SPECIAL = 2
"""Ids below are no known words: 0 is padding, 1 is the unknown word."""


@dataclass(frozen=True, slots=True)
class TextLogP:
    """What a perplexity is made of, for D texts."""

    log_p: NDArray[np.float64]
    """(D,) sum of log p of the scored tokens of each text, in nats."""
    num_scored: NDArray[np.int64]
    """(D,) scored tokens of each text."""

    @property
    def perplexity(self) -> float:
        """E to the mean negative log p of a scored token, at least 1; infinite where a token has p = 0.

        Raises:
            ValueError: if no token is scored.
        """
        num = int(self.num_scored.sum())
        if not num:
            raise ValueError(
                f"expected texts with at least one scored token, but got {len(self.log_p)} without"
            )
        return float(np.exp(-self.log_p.sum() / num))

    def interval(self, num_draws: int = NUM_DRAWS, seed: int = 0) -> Interval:
        """How far the perplexity moves over draws of as many texts, with replacement."""
        sums = np.stack([self.log_p, self.num_scored.astype(np.float64)], axis=1)
        drawn = np.concatenate([block @ sums for block in draws(len(sums), num_draws, seed)])
        some = drawn[:, 1] > 0
        return interval_of(np.exp(-drawn[some, 0] / drawn[some, 1]))


def is_scored(token_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(T,) ids of one text -> (T - 1,) whether each token from the second on is scored."""
    return token_ids[1:] >= NUM_SPECIAL


def of_texts(texts: Iterable[NDArray[np.int64]], log_p: Iterable[NDArray[np.float64]]) -> TextLogP:
    """Sum over the scored tokens of each text.

    Args:
        texts: (T,) ids of each text, without padding.
        log_p: (T - 1,) log p of its tokens from the second on; what it has for unknown words is not read.

    Raises:
        ValueError: if a text and its log p differ in length, or there are more of one than of the other.
    """
    sums, nums = [], []
    for ids, values in zip(texts, log_p, strict=True):
        if len(values) != max(0, len(ids) - 1):
            raise ValueError(
                f"expected {len(ids) - 1} values for a text of {len(ids)} tokens, got {len(values)}"
            )
        scored = is_scored(ids)
        sums.append(float(values[scored].sum()))
        nums.append(int(scored.sum()))
    return TextLogP(np.array(sums), np.array(nums, dtype=np.int64))


def uniform(texts: Iterable[NDArray[np.int64]], num_words: int) -> TextLogP:
    """The model that knows nothing: p = 1 / V for each known word; its perplexity is V.

    Args:
        texts: as for `of_texts`.
        num_words: V.
    """
    every = list(texts)
    return of_texts(every, [np.full(max(0, len(ids) - 1), -np.log(num_words)) for ids in every])


def frequencies(texts: Iterable[NDArray[np.int64]], counts: NDArray[np.int64]) -> TextLogP:
    """The model that knows how often each word occurs, and nothing of the tokens before it.

    Args:
        texts: as for `of_texts`.
        counts: (V + 2,) how often each word stands in the training texts; a known word that stands in none
            counts as one that stands there once.
    """
    log_p = log_frequencies(counts)
    every = list(texts)
    return of_texts(every, [log_p[ids[1:]] for ids in every])


def log_frequencies(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """(V + 2,) counts -> log of each known word's share; the two special ids have -inf."""
    known = np.maximum(counts[NUM_SPECIAL:], 1).astype(np.float64)
    return np.concatenate([np.full(NUM_SPECIAL, -np.inf), np.log(known / known.sum())])

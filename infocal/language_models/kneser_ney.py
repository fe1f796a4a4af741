"""Interpolated Kneser-Ney with three discounts an order, as Chen and Goodman (1999) and KenLM have it.

    p_k(w | h) = max(c_k(h w) - D_k(c_k(h w)), 0) / c_k(h .)  +  gamma_k(h) p_{k-1}(w | h')
    p_0(w)     = 1 / V

h' is h without its first token. c_k counts occurrences in the highest order; below it, the distinct tokens
to the left (of n-grams that start a text, occurrences: nothing stands to their left). gamma_k(h) is the
mass that the discounts free, so p sums to 1 over the known words.

Own code, because no library does it at this size: KenLM's package on PyPI has no estimator, and nltk's
`KneserNeyInterpolated` reads every n-gram for each probability (docs/experiments.md has the measurement).
The tests compare with nltk.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from infocal.metrics.perplexity import NUM_SPECIAL

Ids = NDArray[np.int64]
Values = NDArray[np.float64]
Discounts = tuple[float, float, float]
"""Subtracted from counts of 1, of 2, and of 3 or more."""

FALLBACK: Discounts = (0.5, 1.0, 1.5)
"""Where the counts of counts give no discounts, as in small texts; those of KenLM's `--discount_fallback`."""
_START = 0
"""Stands before each text; padding's id, which no text has."""


@dataclass(frozen=True, slots=True)
class _Order:
    """The k-grams of the training texts."""

    keys: Ids
    """(M,) id of the first k - 1 tokens times the number of ids, plus the last token; ascending."""
    counts: Values
    """(M,) c_k; 0 where the last token is no known word."""
    discounts: Values
    """(4,) by min(count, 3)."""
    totals: Values
    """c_k(h .) of each history, by its id."""
    gammas: Values
    """gamma_k(h), by the history's id."""


class KneserNey:
    """The model of given texts.

    Args:
        texts: (T,) ids of each training text, at least one with a known word.
        vocabulary_size: V + 2, the special ids included.
        order: N >= 1, the longest n-gram.
        discounts: for each order from 1 to N; None: estimated from the counts of counts.

    Raises:
        ValueError: for an order below 1, or texts without a known word.
    """

    def __init__(
        self,
        texts: Sequence[Ids],
        vocabulary_size: int,
        order: int = 5,
        discounts: Sequence[Discounts] | None = None,
    ) -> None:
        if order < 1:
            raise ValueError(f"`order` must be at least 1, but got {order}")
        self.size, self.num_words, self.order = vocabulary_size, vocabulary_size - NUM_SPECIAL, order
        stream, place = _laid_out(texts)
        if not (stream >= NUM_SPECIAL).any():
            raise ValueError(f"expected texts with a known word, but got {len(texts)} without one")
        found: list[tuple[Ids, Ids, Values]] = []
        """Keys of each order, suffix of each k-gram in the order below, and occurrences."""
        grams = stream
        for k in range(1, order + 1):
            ends = np.flatnonzero(place >= k - 1)
            before = np.zeros(len(ends), np.int64) if k == 1 else grams[ends - 1]
            keys, first, inverse, num = np.unique(
                before * self.size + stream[ends], return_index=True, return_inverse=True, return_counts=True
            )
            suffix = grams[ends[first]] if k > 1 else np.zeros(len(keys), np.int64)
            starts = place[ends[first]] == k - 1
            found.append((keys, suffix, np.where(starts, num, -num).astype(np.float64)))
            grams = np.full(len(stream), -1, np.int64)
            grams[ends] = inverse
        self.orders = [
            self._order(found, k, None if discounts is None else discounts[k]) for k in range(order)
        ]

    def _order(self, found: list[tuple[Ids, Ids, Values]], k: int, discounts: Discounts | None) -> _Order:
        """Counts and masses of the (k + 1)-grams."""
        keys, _, signed = found[k]
        counts = np.abs(signed)
        if k + 1 < len(found):
            left = np.bincount(found[k + 1][1], minlength=len(keys)).astype(np.float64)
            counts = np.where(signed > 0, counts, left)
            if k == 0:  # a word alone starts no text: the start itself stands before it
                counts = left
        counts[keys % self.size < NUM_SPECIAL] = 0
        chosen = estimated(counts) if discounts is None else discounts
        by_count = np.array([0.0, *chosen])
        history = keys // self.size
        num_histories = 1 if k == 0 else len(found[k - 1][0])
        totals: Values = np.bincount(history, weights=counts, minlength=num_histories).astype(np.float64)
        freed = np.minimum(counts, by_count[_class_of(counts)])
        masses = np.bincount(history, weights=freed, minlength=num_histories)
        gammas = np.divide(masses, totals, out=np.ones_like(totals), where=totals > 0)
        return _Order(keys, counts, by_count, totals, gammas)

    def log_p(self, texts: Sequence[Ids]) -> list[Values]:
        """Log p of each text's tokens from the second on, in nats; values of unknown words have no meaning.

        Args:
            texts: (T,) ids of each text.

        Returns:
            (T - 1,) values of each text.
        """
        stream, place = _laid_out(texts)
        p = np.full(len(stream), 1.0 / self.num_words)
        # id of the k-gram that ends at each position; -1: it is in no training text
        ids, ends = np.zeros(len(stream), np.int64), np.arange(len(stream))
        for k, order in enumerate(self.orders):
            ends = np.flatnonzero(place >= k)
            history = ids[ends - 1] if k else np.zeros(len(ends), np.int64)
            gram = np.where(history >= 0, _found(order.keys, history * self.size + stream[ends]), -1)
            known = (history >= 0) & (order.totals[history] > 0)
            counts = np.where(gram >= 0, order.counts[gram], 0.0)
            rest = np.maximum(counts - order.discounts[_class_of(counts)], 0.0)
            share = np.divide(rest, order.totals[history], out=np.zeros(len(ends)), where=known)
            p[ends] = np.where(known, share + order.gammas[history] * p[ends], p[ends])
            ids = np.full(len(stream), -1, np.int64)
            ids[ends] = gram
        p[stream < NUM_SPECIAL] = 1.0  # may have no probability, and is not read
        log_p = np.log(p)
        # the second token of a text stands two places behind the start
        return [part[2:] for part in np.split(log_p, np.flatnonzero(place == 0)[1:])] if len(texts) else []


def estimated(counts: Values) -> Discounts:
    """The discounts of an order from how many n-grams have the counts 1 to 4: r - (r + 1) Y n_{r+1} / n_r.

    Y = n_1 / (n_1 + 2 n_2). `FALLBACK` where one of n_1 to n_3 is 0, or a discount would not lie in [0, r].
    """
    n1, n2, n3, n4 = (int((counts == r).sum()) for r in (1, 2, 3, 4))
    if not (n1 and n2 and n3):
        return FALLBACK
    y = n1 / (n1 + 2 * n2)
    found = (1 - 2 * y * n2 / n1, 2 - 3 * y * n3 / n2, 3 - 4 * y * n4 / n3)
    return found if all(0 <= d <= r for r, d in enumerate(found, start=1)) else FALLBACK


def _class_of(counts: Values) -> Ids:
    return np.minimum(counts, 3).astype(np.int64)


def _laid_out(texts: Sequence[Ids]) -> tuple[Ids, Ids]:
    """All texts in a row, each behind a start, and the place of each token in its text (the start: 0)."""
    if not len(texts):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    start = np.array([_START], np.int64)
    stream = np.concatenate([part for text in texts for part in (start, np.asarray(text, np.int64))])
    place = np.concatenate([np.arange(len(text) + 1) for text in texts])
    return stream, place


def _found(keys: Ids, wanted: Ids) -> Ids:
    """Place of each wanted key among the ascending keys; -1 where it is not there."""
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[at] == wanted, at, -1)

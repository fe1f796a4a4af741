"""Trivial rationales, the lines that every score stands beside: all, none, random-k, first-k and oracle-k.

They select a given share of all tokens, so that they compare at equal selection. Arrays are those of
`infocal.metrics.overlap`: one per text, without padding.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from infocal.metrics.overlap import (
    Counts,
    Golds,
    Mask,
    TokenScores,
    lay_out_golds,
    scores_of_counts,
    token_scores,
)
from infocal.metrics.scores import MODES, ranked_in_modes

Lengths = Sequence[int] | NDArray[np.integer]

_THRESHOLD = 0.5
"""Of `rationale_scores`, where masks are taken for probabilities."""


def all_tokens(lengths: Lengths) -> list[Mask]:
    """Masks that select every token."""
    return [np.ones(length, dtype=np.bool_) for length in lengths]


def no_tokens(lengths: Lengths) -> list[Mask]:
    """Masks that select nothing."""
    return [np.zeros(length, dtype=np.bool_) for length in lengths]


def _apportion(total: int, weights: Counts) -> Counts:
    """(D,) -> (D,): whole numbers in proportion to the weights that add up to the total.

    The largest remainders are rounded up, of equal ones the earlier. In integers throughout: no share
    exceeds its weight where the total does not exceed the sum of weights.
    """
    if not weights.sum():
        return np.zeros_like(weights)
    shares, remainders = np.divmod(total * weights, weights.sum())
    rest = total - int(shares.sum())
    shares[np.argsort(-remainders, kind="stable")[:rest]] += 1
    return shares


def tokens_per_text(lengths: Lengths, rate: float) -> Counts:
    """Tokens that a line selects in each text: rate x length, rounded so that the rate holds over all texts.

    Args:
        lengths: (D,), tokens of each text.
        rate: target selection rate over all tokens, in [0, 1].
    """
    if not 0 <= rate <= 1:
        raise ValueError(f"`rate` must lie in [0, 1], but got {rate}")
    sizes = np.asarray(lengths, dtype=np.int64)
    return _apportion(round(rate * int(sizes.sum())), sizes)


def first_k(lengths: Lengths, rate: float) -> list[Mask]:
    """Masks that select the first tokens of each text; arguments as for `tokens_per_text`."""
    return [np.arange(n) < k for n, k in zip(lengths, tokens_per_text(lengths, rate), strict=True)]


def random_k(lengths: Lengths, rate: float, seed: int) -> list[Mask]:
    """Masks that select tokens of each text at random, the same for the same seed.

    Arguments as for `tokens_per_text`.
    """
    rng = np.random.default_rng(seed)
    return [rng.permutation(n) < k for n, k in zip(lengths, tokens_per_text(lengths, rate), strict=True)]


def oracle_k(golds: Golds, lengths: Lengths, rate: float) -> list[Mask]:
    """Masks that know the human rationales: the highest micro F1 for as many tokens in annotated texts.

    The tokens that `tokens_per_text` gives to annotated texts are spent on marked tokens of all of them, in
    proportion, from the left; what is left over goes to unmarked ones. A text without annotation gets its
    first tokens. The ceiling holds for micro scores.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    flat, annotated = lay_out_golds(golds, sizes, "lengths")
    arrays = np.split(flat, np.cumsum(sizes)[:-1])
    marked = np.array([array.sum() for array in arrays], dtype=np.int64)
    budget = tokens_per_text(lengths, rate)
    total, all_marked = int(budget[annotated].sum()), int(marked.sum())
    from_marked = _apportion(min(total, all_marked), marked)
    from_rest = _apportion(total - int(from_marked.sum()), np.where(annotated, sizes - marked, 0))
    from_rest[~annotated] = budget[~annotated]
    return [
        (gold & (np.cumsum(gold) <= k)) | (~gold & (np.cumsum(~gold) <= r))
        for gold, k, r in zip(arrays, from_marked, from_rest, strict=True)
    ]


def ceiling_f1(rate: float, density: float) -> float:
    """The highest micro F1 of masks that select a share of all tokens: the oracle's, which wastes none.

    Args:
        rate: selection rate, in [0, 1].
        density: share of the tokens that humans marked, in (0, 1].
    """
    if not 0 <= rate <= 1 or not 0 < density <= 1:
        raise ValueError(f"`rate` must lie in [0, 1] and `density` in (0, 1], but got {rate} and {density}")
    return 2 * min(rate, density) / (rate + density)


def trivial_masks(golds: Golds, lengths: Lengths, rate: float, *, seed: int) -> dict[str, list[Mask]]:
    """Masks of the five lines by name: `all_tokens`, `no_tokens`, `random_k`, `first_k`, `oracle_k`.

    Args:
        golds: bool (T_i,) or None for each text.
        lengths: (D,), tokens of each text.
        rate: selection rate of the last three, in [0, 1].
        seed: of `random_k`.
    """
    return {
        "all_tokens": all_tokens(lengths),
        "no_tokens": no_tokens(lengths),
        "random_k": random_k(lengths, rate, seed),
        "first_k": first_k(lengths, rate),
        "oracle_k": oracle_k(golds, lengths, rate),
    }


def expected_random_k(golds: Golds, lengths: Lengths, rate: float) -> TokenScores:
    """Token scores of `random_k` in expectation over seeds, exactly.

    k of a text's n tokens at random hold k/n of its marked ones on average, and precision, recall and F1
    are linear in that number where k is fixed.
    """
    sizes = np.asarray(lengths, dtype=np.int64)
    flat, annotated = lay_out_golds(golds, sizes, "lengths")
    arrays = np.split(flat, np.cumsum(sizes)[:-1])
    marked = np.array([array.sum() for array in arrays], dtype=np.int64)
    selected = tokens_per_text(lengths, rate)
    return scores_of_counts(sizes, annotated, selected, marked, selected * marked / np.maximum(sizes, 1))


def trivial_lines(golds: Golds, lengths: Lengths, rate: float) -> dict[str, TokenScores]:
    """Token scores of the five lines; `random_k` is the exact expectation, so no seed is needed.

    Arguments as for `trivial_masks`.
    """
    lines = {
        name: token_scores(masks, golds)
        for name, masks in trivial_masks(golds, lengths, rate, seed=0).items()
        if name != "random_k"
    }
    return lines | {"random_k": expected_random_k(golds, lengths, rate)}


def trivial_scores(
    golds: Golds, lengths: Lengths, rate: float, *, seed: int = 0, num_draws: int = 10, mode: str = "eraser"
) -> dict[str, dict[str, float]]:
    """`rationale_scores` of the five lines, spans and rankings too; `random_k` is a mean over seeded draws.

    A line ranks tokens by its mask, 1 before 0, for `auprc` and `average_precision`.

    Args:
        golds, lengths, rate: as for `trivial_masks`.
        seed: of the first draw; the others follow.
        num_draws: draws of `random_k`, at least 1.
        mode: as for `rationale_scores`.
    """
    found = trivial_in_modes(golds, lengths, rate, seed=seed, num_draws=num_draws, modes=(mode,))
    return {name: of_modes[mode] for name, of_modes in found.items()}


def trivial_in_modes(
    golds: Golds,
    lengths: Lengths,
    rate: float,
    *,
    seed: int = 0,
    num_draws: int = 10,
    modes: Sequence[str] = MODES,
) -> dict[str, dict[str, dict[str, float]]]:
    """`trivial_scores` in several modes, at the cost of one: line -> mode -> flat name -> value."""
    if num_draws < 1:
        raise ValueError(f"`num_draws` must be at least 1, but got {num_draws}")

    def score(masks: list[Mask]) -> dict[str, dict[str, float]]:
        ranks = [mask.astype(np.float64) for mask in masks]
        found = ranked_in_modes(masks, ranks, golds, modes)
        return {mode: {"threshold": _THRESHOLD, **flat} for mode, flat in found.items()}

    lines = {name: score(m) for name, m in trivial_masks(golds, lengths, rate, seed=seed).items()}
    draws = [lines["random_k"]]
    draws += [score(random_k(lengths, rate, seed + i)) for i in range(1, num_draws)]
    lines["random_k"] = {
        mode: {name: float(np.mean([draw[mode][name] for draw in draws])) for name in flat}
        for mode, flat in draws[0].items()
    }
    return lines

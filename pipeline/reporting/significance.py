"""What a comparison of methods can claim: corrected p-values, and the smallest difference it can find."""

import math
from collections.abc import Hashable, Mapping
from statistics import NormalDist
from typing import TypeVar

ALPHA, POWER = 0.05, 0.8
"""Two-sided level of a test, and the chance with which it is to find a difference that is there."""
MIN_SEEDS = 8
"""Seeds from which a difference may be claimed: with 3 seeds and a deviation of 1.5 points, a test finds only
differences of 4.9 points and more."""

_Key = TypeVar("_Key", bound=Hashable)


def holm(p_values: Mapping[_Key, float]) -> dict[_Key, float]:
    """Corrected p-values (Holm 1979): alpha is the chance that any of the tests errs, not each.

    Args:
        p_values: of each test, in [0, 1].

    Returns:
        The corrected ones under the same names, in [0, 1].
    """
    corrected: dict[_Key, float] = {}
    highest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[name]))
        corrected[name] = highest
    return {name: corrected[name] for name in p_values}


def smallest_difference(error: float) -> float:
    """The smallest difference that a two-sided test at ALPHA finds with probability POWER.

    Args:
        error: standard error of the difference, >= 0; the test takes it for known.
    """
    normal = NormalDist()
    return (normal.inv_cdf(1 - ALPHA / 2) + normal.inv_cdf(POWER)) * error


def smallest_paired_difference(deviation: float, num_pairs: int) -> float:
    """The same for a paired t-test, which has to estimate the deviation.

    Args:
        deviation: of the pairs' differences, >= 0.
        num_pairs: at least 2.

    Raises:
        ValueError: for fewer pairs, of which no deviation follows.
    """
    from scipy import optimize, stats  # takes a second that --help need not wait for

    if num_pairs < 2:
        raise ValueError(f"a paired t-test needs at least 2 pairs, but got {num_pairs}")
    degrees = num_pairs - 1
    critical = stats.t.ppf(1 - ALPHA / 2, degrees)

    def lacks(effect: float) -> float:
        """How far the power at an effect, in standard errors, is from the one that is asked for."""
        # the square of a noncentral t is a noncentral F: both tails at once
        return float(stats.ncf.sf(critical**2, 1, degrees, effect**2)) - POWER

    effect = float(optimize.brentq(lacks, 1e-3, 2 * critical + 10))
    return effect * deviation / math.sqrt(num_pairs)

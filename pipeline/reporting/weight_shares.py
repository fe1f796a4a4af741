"""Which searched weights a study could hear: shares of the gradient, as its trials logged them."""

from collections.abc import Mapping, Sequence
from statistics import median

from feature_store.wording import counted
from infocal.gradient_shares import LEAST
from pipeline.reporting.results import Searched, TrialResult, percent

PREFIX = "gradient_share_"
"""Begins the metric of a term; its weight is `lambda_TERM`."""
PRESSURE = "train_pressure"
"""Mean share of the weights in force over an epoch; below 1 in the start."""
ACCURACY = "train_discriminator_accuracy"
"""Balanced accuracy of InfoCal's discriminator over an epoch."""
_WON = 0.995
"""From this balanced accuracy on, the discriminator tells all features apart."""


def of_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """A trial's shares by the name of the weight, in its last epoch; empty where that lies in the start."""
    if metrics.get(PRESSURE, 1.0) < 1:
        return {}
    shares = {name: share for name, share in metrics.items() if name.startswith(PREFIX)}
    return {f"lambda_{name.removeprefix(PREFIX)}": share for name, share in shares.items()}


def has_winner(metrics: Mapping[str, float]) -> bool:
    """Whether the discriminator told all features apart in the last epoch, with every weight in force."""
    return metrics.get(PRESSURE, 1.0) == 1 and metrics.get(ACCURACY, 0.0) > _WON


def won(trials: Sequence[TrialResult]) -> list[str]:
    """A sentence if the discriminator won in some trials; none if it did not."""
    num = sum(trial.is_won_by_discriminator for trial in trials)
    if not num:
        return []
    return [
        f"In {num} of {counted(len(trials), 'trial')}, the discriminator separated the guider's and the "
        f"predictor's features completely in the last epoch (balanced accuracy above {_WON}). `lambda_g` "
        "then shifts the features of all texts in the same direction, independent of their tokens."
    ]


def measured(name: str, trials: Sequence[TrialResult]) -> list[tuple[TrialResult, float, float]]:
    """Trials with their value of a weight and its share, both above 0: a weight of 0 has none."""
    found = [(trial, trial.searched.get(name, 0.0), trial.shares.get(name, 0.0)) for trial in trials]
    return [
        (trial, value, share)
        for trial, value, share in found
        if not isinstance(value, str) and value > 0 and share > 0
    ]


def summary(
    searched: Sequence[Searched], trials: Sequence[TrialResult]
) -> list[tuple[str, int, float, float, float]]:
    """Weight, number of trials, and the lowest, median and highest share; of weights that were measured."""
    found = {one.name: [share for _, _, share in measured(one.name, trials)] for one in searched}
    return [(name, len(some), min(some), median(some), max(some)) for name, some in found.items() if some]


def at_the_top(one: Searched, trials: Sequence[TrialResult]) -> float | None:
    """Share that a weight has at the highest value of its range; None where nobody measured it.

    The gradient of a term grows as its weight, so each trial says what it would be there: the median.
    """
    rates = [share / value for _, value, share in measured(one.name, trials)]
    return None if one.high is None or not rates else median(rates) * one.high


def unheard(
    searched: Sequence[Searched], trials: Sequence[TrialResult], wide: Mapping[str, float]
) -> list[str]:
    """A sentence for each weight that cannot matter, whatever value of its range it takes.

    Args:
        wide: top of the range of a weight in `--space wide`; empty where this was the space.
    """
    found = []
    for one in searched:
        share = at_the_top(one, trials)
        highest = max((share for _, _, share in measured(one.name, trials)), default=0.0)
        if share is None or max(share, highest) >= LEAST:
            continue
        part, loss = ("guider", "L_guide") if one.name == "lambda_mi" else ("selector", "L_sp")
        hint = " `--space wide` reaches further." if wide.get(one.name, 0.0) > (one.high or 0.0) else ""
        found.append(
            f"`{one.name}` has no effect in this search: even at {one.high:g}, the top of its range, its "
            f"gradient at the {part} is only {percent(share)} of the gradient of {loss}. Below "
            f"{percent(LEAST, 0)}, the trials differ by chance, not because of this weight.{hint}"
        )
    return found

"""The best trials are trained again with further seeds, and the best mean wins: `search --seeds auto`.

The best of many trials is partly the luckiest one. Sequential halving (Karnin, Koren and Somekh, ICML 2013)
spends a fixed number of trainings on the few best: each gets a further seed, then the better half gets
two more. Seeds of a trial count alike, its own included.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pipeline.study.criterion import Candidate

ROUNDS = ((4, 2), (2, 4))
"""Of each round: trials that are still in the race, and seeds that each of them has at its end."""
_NO_RESULT = -1.0
"""Value of a training that failed: as if its mask broke the criterion's bounds wholly."""

Again = Callable[[Mapping[str, Any]], "SeedOutcome"]
"""Tells of a config with a seed what became of its training."""


@dataclass(frozen=True, slots=True)
class SeedOutcome:
    """What became of a training with a further seed."""

    is_over: bool
    result: Candidate | None = None
    """Its best epoch; None where it has none, or none yet."""


@dataclass(frozen=True, slots=True)
class Racer:
    """A trial that is in the race, with the results of its further seeds."""

    trial: Candidate
    again: Sequence[Candidate | None] = ()
    """None of a training that failed."""

    @property
    def results(self) -> list[Candidate]:
        """Its further seeds that came to a result."""
        return [one for one in self.again if one is not None]

    @property
    def mean(self) -> float:
        """Mean over seeds of the criterion's value."""
        values = [_NO_RESULT if one is None else one.value for one in self.again]
        return fmean([self.trial.value, *values])


@dataclass(frozen=True, slots=True)
class Race:
    """How a race stands."""

    racers: Sequence[Racer]
    """Best first; those that are out stand behind those that are still in it."""
    missing: Sequence[Mapping[str, Any]] = ()
    """Configs, with their seeds, that have to be trained before the next round; empty: the first has won."""


def most_trainings(num_trials: int) -> int:
    """With further seeds, where every trial of a search has a result."""
    if num_trials < 2:
        return 0
    before = (1, *(seeds for _, seeds in ROUNDS))
    return sum(
        min(trials, num_trials) * (seeds - had) for (trials, seeds), had in zip(ROUNDS, before, strict=False)
    )


def stands(candidates: Sequence[Candidate], first_seed: int, again: Again) -> Race:
    """How a race stands after the trainings so far.

    Trials that do not meet the criterion are in it only where none meets it, and those of a trivial mask only
    where there is no other.

    Args:
        candidates: trials of the search, best first; at least one.
        again: tells of the trainings with further seeds.
    """
    usable = [one for one in candidates if one.is_met]
    usable = usable or [one for one in candidates if one.degenerate is None] or list(candidates)
    racers = [Racer(one) for one in usable[: ROUNDS[0][0]]]
    ranks = {racer.trial.trial_id: rank for rank, racer in enumerate(racers)}
    out: list[Racer] = []
    for number, seeds in ROUNDS:
        racers, out = racers[:number], [*racers[number:], *out]
        if len(racers) < 2:
            break
        found = {
            racer.trial.trial_id: [
                (config, again(config))
                for i in range(1, seeds)
                for config in [{**racer.trial.config, "seed": first_seed + i}]
            ]
            for racer in racers
        }
        missing = [config for tried in found.values() for config, outcome in tried if not outcome.is_over]
        if missing:
            return Race([*racers, *out], missing)
        racers = [
            Racer(racer.trial, [outcome.result for _, outcome in found[racer.trial.trial_id]])
            for racer in racers
        ]
        # of equal means the one that was better in the search, whatever the round before said
        racers.sort(key=lambda racer: (-racer.mean, ranks[racer.trial.trial_id]))
    return Race([*racers, *out])

"""How many trials share a GPU: arithmetic on what one trial was measured to need; no GPU is touched here."""

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.base.errors import PipelineError
from pipeline.training.settings import GPU_STEPS

SAFETY_RATE = 0.9
"""Share of a card's memory that is given out; the rest is for what a short measurement does not see: batches
with more distinct words, fragments, workspaces of kernels that start later. Chosen, not measured."""

MAX_TRIALS = 16
"""Trials that share a card at most. Each is a process with a context of its own, and their kernels take
turns: beyond some number a card gains nothing. Chosen, not measured: no GPU was at hand."""

_GIB = 2**30


@dataclass(frozen=True, kw_only=True, slots=True)
class Measurement:
    """What one trial needs of a card, in bytes, and what the card has."""

    card: str
    """Its name, to be shown."""
    total: int
    """Memory of the card."""
    reserved: int
    """Most that the trial's allocator held."""
    overhead: int
    """What stood on the card besides: context, libraries, kernels, and whatever other programs hold."""
    num_cpus: float
    """Cores of the node for each of its cards."""

    @property
    def peak(self) -> int:
        """All that the trial takes of the card."""
        return self.reserved + self.overhead


@dataclass(frozen=True, kw_only=True, slots=True)
class Packing:
    """How a card is shared."""

    num_trials: int
    """Trials on a card at once."""
    fraction: float
    """What Ray is told that a trial takes of a card: `num_trials` of them are 1 at most."""
    memory_rate: float
    """Share of a card's memory that a trial's allocator may hold, in (0, 1]."""


def smallest(measured: Sequence[Measurement]) -> Measurement:
    """The worst of several measurements: what fits it, fits every card."""
    card = min(measured, key=lambda one: one.total)
    return Measurement(
        card=card.card,
        total=card.total,
        reserved=max(one.reserved for one in measured),
        overhead=max(one.overhead for one in measured),
        num_cpus=max(one.num_cpus for one in measured),
    )


def packing(measured: Measurement, cpus_per_trial: float) -> Packing:
    """As many trials as fit the card's memory, its node's cores and `MAX_TRIALS`.

    The memory that is given out is shared equally, so that trials bounded by the cores or by `MAX_TRIALS` get
    more than was measured. What stands on the card besides the trials' own memory is counted once a trial: a
    card that other programs use is packed with fewer, never with too many.

    Args:
        cpus_per_trial: cores of a trial, > 0.

    Raises:
        PipelineError: if not even one trial fits.
    """
    if measured.peak > measured.total:
        raise PipelineError(
            f"one trial needs {measured.peak / _GIB:.1f} GiB, but the smallest GPU ({measured.card}) has "
            f"{measured.total / _GIB:.1f} GiB",
            where="--gpus-per-trial auto",
            hint="take smaller batches (`--set batch_size=16`) or cut texts earlier (`--set max_length=...`)",
        )
    by_memory = int(measured.total * SAFETY_RATE // measured.peak)
    by_cores = int(measured.num_cpus / cpus_per_trial + 1e-9)
    num_trials = max(1, min(by_memory, by_cores, MAX_TRIALS))
    if num_trials == 1:
        return Packing(num_trials=1, fraction=1.0, memory_rate=1.0)
    return Packing(
        num_trials=num_trials,
        fraction=GPU_STEPS // num_trials / GPU_STEPS,
        memory_rate=SAFETY_RATE / num_trials - measured.overhead / measured.total,
    )


def described(measured: Measurement, chosen: Packing) -> str:
    """One line that says what was measured and what follows."""
    trials = "trial has a card" if chosen.num_trials == 1 else f"{chosen.num_trials} trials share a card"
    return (
        f"GPUs: a trial takes {measured.peak / _GIB:.2f} GiB of {measured.total / _GIB:.1f} GiB "
        f"({measured.card}): {'each ' if chosen.num_trials == 1 else ''}{trials}"
    )

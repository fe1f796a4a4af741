"""What every fault is made of: a name, how often it is injected, and what was lost by it."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal

from benchmarks.faulting.reference import Reference

Column = Literal["trials_lost", "metrics_lost", "duplicates", "zombies"]
COLUMNS: tuple[Column, ...] = ("trials_lost", "metrics_lost", "duplicates", "zombies")


@dataclass
class Counts:
    """What became of one fault's injections.

    trials_lost: trials, or results, that were asked for and are not there; also a command that fails where
        it should not, and a build that does not end with what was asked.
    metrics_lost: numbers of an epoch that are missing or wrong; also content that is read wrong.
    duplicates: what is there twice or was done twice: metric rows, runs of a trial, trials beyond the asked
        number, versions of a model, finished trials and features that were made again.
    zombies: runs and trials left RUNNING, processes and half-written files left over.
    """

    injected: int = 0
    trials_lost: int = 0
    metrics_lost: int = 0
    duplicates: int = 0
    zombies: int = 0
    findings: list[str] = field(default_factory=list)
    """Each number above zero in words."""
    impossible: str = ""
    """Why the fault cannot be injected on this machine."""

    def add(self, column: Column, number: int, what: str) -> None:
        """Count a finding; nothing where the number is 0."""
        if number > 0:
            setattr(self, column, getattr(self, column) + number)
            self.findings.append(f"{column} {number}: {what}")

    @property
    def is_clean(self) -> bool:
        """Whether every figure is zero, though the fault was injected or cannot be here."""
        is_tried = self.injected > 0 or bool(self.impossible)
        return is_tried and not any(getattr(self, column) for column in COLUMNS)


@dataclass(frozen=True, slots=True)
class Bench:
    """Where and how often a fault is injected."""

    folder: Path
    """Empty; a short path, for Ray's sockets lie below it."""
    cache: Path
    """Features that all faults share which do not damage them."""
    random: Random
    times: int
    is_short: bool = False
    reference: Reference | None = None
    """Trains trials again without a break, for all faults, to compare numbers and state; None: do not."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kind of fault."""

    name: str
    inject: Callable[[Bench], Counts]
    what: str
    """One line on what is done."""
    share: float = 1.0
    """Of the moments asked for, how many it gets."""
    short: int = 0
    """How often in the short form; 0 leaves it out there."""

    def times(self, moments: int, is_short: bool) -> int:
        """How often it is injected."""
        return self.short if is_short else math.ceil(moments * self.share)


def as_row(fault: Fault, counts: Counts, seconds: float) -> dict[str, object]:
    """A row of the table, as JSON."""
    return {"fault": fault.name, **dataclasses.asdict(counts), "seconds": round(seconds, 1)}

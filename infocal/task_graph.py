"""Which targets the prediction of another target reads; torch is not needed here."""

import graphlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from infocal.errors import ConfigError, did_you_mean

FIELD = "dependencies"
"""The hyper-parameter that states a graph."""


@dataclass(frozen=True, slots=True)
class TaskGraph:
    """Targets by their numbers, and what the prediction of each of them reads."""

    before: tuple[tuple[int, ...], ...]
    """Of each target, those that its prediction reads; empty: the text alone."""
    order: tuple[int, ...]
    """Every target once, behind all that it reads; where two could follow, the first one of the task."""

    @classmethod
    def of(cls, text: str, names: Sequence[str]) -> "TaskGraph":
        """The graph that a text states.

        Args:
            text: as `parse` takes it.
            names: of all targets; one that the text does not name reads the text of the case alone.

        Raises:
            ConfigError: as `parse`, if the text names another target, or targets read each other in a circle.
        """
        stated = parse(text)
        for name in dict.fromkeys([*stated, *(one for some in stated.values() for one in some)]):
            if name not in names:
                there = ", ".join(f"`{known}`" for known in names)
                raise ConfigError(
                    f"`{FIELD}` {text} names the target `{name}`, but the targets are {there}",
                    hint=did_you_mean(name, names)
                    or f"state what these targets read: `--set {FIELD}=TARGET=TARGET+TARGET,...`",
                )
        try:
            graphlib.TopologicalSorter(stated).prepare()
        except graphlib.CycleError as error:
            circle = " reads ".join(f"`{name}`" for name in reversed(error.args[1]))
            raise ConfigError(
                f"`{FIELD}` {text} has a circle ({circle}), so no target can be predicted first",
                hint="remove one of these dependencies",
            ) from error
        before = tuple(tuple(names.index(one) for one in stated.get(name, ())) for name in names)
        order: list[int] = []
        while len(order) < len(names):
            order.append(
                next(
                    number
                    for number, read in enumerate(before)
                    if number not in order and set(read) <= set(order)
                )
            )
        return cls(before, tuple(order))

    @property
    def after(self) -> tuple[tuple[int, ...], ...]:
        """Of each target, those whose prediction reads it."""
        numbers = range(len(self.before))
        return tuple(tuple(j for j in numbers if i in self.before[j]) for i in numbers)


def parse(text: str) -> Mapping[str, tuple[str, ...]]:
    """What each target reads, from `TARGET=TARGET+TARGET,TARGET=TARGET`; nothing of an empty text.

    Raises:
        ConfigError: if the text is another one.
    """
    found: dict[str, tuple[str, ...]] = {}
    for part in text.split(",") if text else ():
        name, _, reads = part.partition("=")
        name, read = name.strip(), tuple(one.strip() for one in reads.split("+"))
        if not name or not all(read) or name in found or len(set(read)) < len(read):
            raise ConfigError(
                f"`{FIELD}` must be TARGET=TARGET+TARGET,TARGET=TARGET with each target at most once to the "
                f"left of a `=` and at most once in a sum, but got {text!r}"
            )
        found[name] = read
    return found

"""Times of several ways to do one thing, taken in turn, so that a busy machine is busy for all of them."""

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    name: str
    ours: float
    reference: float | None
    """The same of what it is compared with; None where it stands alone."""
    ratio: float | None
    """How many times better ours is, as the median of the rounds' ratios."""
    unit: str
    note: str = ""


def alternate(ways: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of each way in each round, after one round that is thrown away."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            started = time.perf_counter()
            way()
            if number:
                seconds[name].append(time.perf_counter() - started)
    return seconds


def compare(name: str, seconds: Mapping[str, list[float]], ours: str, reference: str, note: str) -> Figure:
    """How many times faster one way is than another, as the median over rounds; times in milliseconds."""
    ratios = [b / a for a, b in zip(seconds[ours], seconds[reference], strict=True)]
    return Figure(
        name,
        1000 * statistics.median(seconds[ours]),
        1000 * statistics.median(seconds[reference]),
        statistics.median(ratios),
        "ms",
        note,
    )

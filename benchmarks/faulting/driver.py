"""The driver of a search is killed with its process group, and the search resumed."""

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faulting.command import AGENT, LINGER_S, SHORT_LINGER_S, Command, Unexpected, search_arguments
from benchmarks.faulting.evidence import Expected, Place, count_study, count_trained_again, finished
from benchmarks.faulting.frame import Bench, Counts

TRIALS, EPOCHS = 3, 3
FLAGS = (
    *("--trials", str(TRIALS), "--epochs", str(EPOCHS), "--max-concurrent", "2"),
    *("--sampler", "random", "--seed", "1", "--min-precision", "0.0", "--checkpoint-every", "0.05"),
)
EXPECTED = Expected(trials=TRIALS, epochs=EPOCHS)
_NOTHING_THERE = re.compile(r"leave out `--resume`|without `--resume`, a new study starts")
"""What a resume says of a study that was killed before it held anything."""

_RESUME = re.compile(r"to resume: python (-m pipeline\.search --resume .*)")
_STARTS = 3
_RAY_IS_LATE = "The current node timed out during startup"
"""What Ray says on a machine with much other work; the search says so, and can be started again."""


@dataclass(slots=True)
class Window:
    """When things happen in a search that nothing befalls, in seconds."""

    first_epoch: float
    last_epoch: float
    end: float

    def shrink(self, end: float) -> None:
        """Take less time for everything: the machine has less other work than when it was measured."""
        rate = min(1.0, end / self.end)
        self.first_epoch, self.last_epoch, self.end = (
            rate * moment for moment in (self.first_epoch, self.last_epoch, self.end)
        )


@dataclass(slots=True)
class Searches:
    """The searches of one fault: commands, logs and places."""

    bench: Bench
    counts: Counts
    started: int = 0
    ended: list[Command] = field(default_factory=list)
    """Those whose processes are looked for at the end: agents of Ray take minutes to go."""

    def start(self, place: Place, *more: str, cache: Path | None = None) -> Command:
        """Start a search."""
        flags = (*FLAGS, "--name", place.name, *more)
        return self._start(place, search_arguments(place.runs, cache or self.bench.cache, *flags))

    def _start(self, place: Place, arguments: Sequence[str]) -> Command:
        self.started += 1
        log = self.bench.folder / f"{self.started:03d}-{place.name}.log"
        self.ended.append(Command(arguments, log, self.bench.folder / "tmp"))
        return self.ended[-1]

    def complete(
        self,
        place: Place,
        cache: Path | None = None,
        more: Sequence[str] = (),
        typed: Sequence[str] | None = None,
    ) -> None:
        """Resume a search to its end, or type what it printed; begin it anew where nothing is to resume."""
        for _ in range(_STARTS):
            if typed is None:
                resumed = self.start(place, "--resume", *more, cache=cache)
            else:
                resumed = self._start(place, typed)
            code = resumed.finish()
            if code != 2 or _RAY_IS_LATE not in resumed.said():
                break
        if code == 2:
            is_told = _NOTHING_THERE.search(resumed.said()) is not None
            self.counts.add("trials_lost", int(not is_told), f"no way out was named:\n{resumed.tail()}")
            resumed = self.start(place, *more, cache=cache)
            code = resumed.finish()
        self.counts.add("trials_lost", int(code != 0), f"exit code {code} when resumed:\n{resumed.tail()}")

    def close(self) -> None:
        """Count processes that all of them left behind."""
        limit_s = SHORT_LINGER_S if self.bench.is_short else LINGER_S
        for command in self.ended:
            left = command.survivors(limit_s)
            if self.bench.is_short:  # nobody waits for those here; they are ended all the same
                left = [name for name in left if not AGENT.search(name)]
            self.counts.add("zombies", len(left), f"processes left over: {left}")

    def window(self) -> Window:
        """Times of a search that nothing befalls; it has to come out right as well."""
        place = Place(self.bench.folder / "whole", "whole")
        search = self.start(place)
        search.wait_for_epochs(1)
        first = search.seconds()
        search.wait_for_epochs(TRIALS * EPOCHS)
        last = search.seconds()
        code = search.finish()
        self.counts.add("trials_lost", int(code != 0), f"exit code {code}:\n{search.tail()}")
        window = Window(first, last, search.seconds())
        count_study(self.counts, place, EXPECTED)
        return window


def printed_resume(search: Command) -> list[str] | None:
    """The interpreter's arguments of what a search has printed to go on with; None: it has not."""
    said = _RESUME.search(search.said())
    return None if said is None else shlex.split(said[1])


Kill = Callable[[Searches, Window, int, Place], list[Command]]
"""Kills a search, and perhaps its resumption, once each; returns those that did not end before."""


def _killed_at(search: Command, seconds: float) -> bool:
    """Kill a command some seconds after its start; False where it had ended."""
    if not search.wait_until(lambda: search.seconds() >= seconds):
        return False
    search.kill()
    return True


def _kill_anywhere(searches: Searches, window: Window, number: int, place: Place) -> list[Command]:
    # one in each equal part of the time, so that no phase is left out
    at = (number + searches.bench.random.random()) / searches.bench.times * window.end
    search = searches.start(place)
    return [search] * _killed_at(search, at)


def _kill_training(searches: Searches, window: Window, number: int, place: Place) -> list[Command]:
    search = searches.start(place)
    if not search.wait_for_epochs(searches.bench.random.randrange(1, TRIALS * EPOCHS)):
        return []
    search.kill()
    return [search]


def _kill_late(searches: Searches, window: Window, number: int, place: Place) -> list[Command]:
    search = searches.start(place)
    search.wait_for_epochs(TRIALS * EPOCHS)
    part = (number + searches.bench.random.random()) / searches.bench.times
    return [search] * _killed_at(search, search.seconds() + part * (window.end - window.last_epoch))


def _kill_twice(searches: Searches, window: Window, number: int, place: Place) -> list[Command]:
    random = searches.bench.random
    search = searches.start(place)
    killed = [search] * _killed_at(search, random.uniform(window.first_epoch, window.last_epoch))
    if killed:
        again = searches.start(place, "--resume")
        killed += [again] * _killed_at(again, random.uniform(0, window.end))
    return killed


def _inject(bench: Bench, kill: Kill) -> Counts:
    counts = Counts()
    searches = Searches(bench, counts)
    # the short form asks for no moment in seconds
    window = Window(0.0, 0.0, 1.0) if bench.is_short else searches.window()
    number = tries = 0
    while number < bench.times and tries < 2 * bench.times:
        tries += 1
        place = Place(bench.folder / "runs", f"killed-{tries:02d}")
        killed = kill(searches, window, number, place)
        if not killed:
            window.shrink(searches.ended[-1].seconds())  # it was faster this time
            continue
        number += 1
        counts.injected += len(killed)
        before = finished(place)
        searches.complete(place)
        count_study(counts, place, EXPECTED, bench.reference)
        count_trained_again(counts, place, before)
    searches.close()
    return counts


def anywhere(bench: Bench) -> Counts:
    """Kills at random moments of the whole search; in the short form, of the training."""
    return _inject(bench, _kill_training if bench.is_short else _kill_anywhere)


def late(bench: Bench) -> Counts:
    """Kills while the winner is chosen, packed and registered."""
    return _inject(bench, _kill_late)


def twice(bench: Bench) -> Counts:
    """Kills, and kills again while the search is resumed."""
    return _inject(bench, _kill_twice)


def early(bench: Bench) -> Counts:
    """Kills before the first trial, with empty caches and without a tracking database."""
    counts = Counts()
    searches = Searches(bench, counts)
    place = Place(bench.folder / "first", "first")
    search = searches.start(place, cache=bench.folder / "cache-first")
    if not search.wait_for_epochs(1):
        raise Unexpected(f"it ended before its first epoch:\n{search.tail()}")
    until = search.seconds()
    search.kill()
    counts.injected += 1
    searches.complete(place, bench.folder / "cache-first")
    count_study(counts, place, EXPECTED, bench.reference)
    for number in range(bench.times):
        place = Place(bench.folder / f"early-{number:02d}", "early")
        cache = bench.folder / f"cache-{number:02d}"
        search = searches.start(place, cache=cache)
        at = (number + bench.random.random()) / bench.times * until
        counts.injected += _killed_at(search, at)
        searches.complete(place, cache)
        count_study(counts, place, EXPECTED, bench.reference)
    searches.close()
    return counts

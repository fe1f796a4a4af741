"""The process that trains a trial is killed, and the trial goes on from its last checkpoint."""

import psutil

from benchmarks.faulting.command import Command
from benchmarks.faulting.driver import EPOCHS, TRIALS, Searches
from benchmarks.faulting.evidence import Expected, Place, count_study
from benchmarks.faulting.frame import Bench, Counts

KILLS = 2
"""Of a search: as often as a trial is started again, whichever it hits."""
_TITLE = "ray::ImplicitFunc"
"""Ray's title of a process that trains a trial."""


def trainers(search: Command) -> list[psutil.Process]:
    """The processes of a search that train its trials."""
    found = []
    for process in search.descendants():
        try:
            if process.cmdline()[0].startswith(_TITLE):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.ZombieProcess, IndexError):
            continue  # it has ended
    return found


def killed(bench: Bench) -> Counts:
    """Kills the worker at random moments; the trial has to equal one that nothing befell, bit for bit."""
    counts = Counts()
    searches = Searches(bench, counts)
    number = tries = 0
    while number < bench.times and tries < 2 * bench.times:
        tries += 1
        place = Place(bench.folder / "runs", f"worker-{tries:02d}")
        search = searches.start(place)
        hits = 0
        for _ in range(min(KILLS, bench.times - number)):
            hits += _kill_one(search, bench)
        number += hits
        code = search.finish()
        counts.add("trials_lost", int(code != 0), f"exit code {code}:\n{search.tail()}")
        count_study(counts, place, Expected(trials=TRIALS, epochs=EPOCHS), bench.reference)
    counts.injected = number
    searches.close()
    return counts


def _kill_one(search: Command, bench: Bench) -> bool:
    """Kill a worker up to one epoch from now; False where the search ends before."""
    if not search.wait_for_epochs(search.num_epochs() + 1):
        return False
    moment = search.seconds() + bench.random.uniform(0, 1.0)
    if not search.wait_until(lambda: search.seconds() >= moment and bool(trainers(search))):
        return False
    bench.random.choice(trainers(search) or [search.process]).kill()
    return True

"""The user, or who manages processes, asks a search to end."""

import os
import signal
from collections.abc import Callable

from benchmarks.faulting.command import Command, Unexpected
from benchmarks.faulting.driver import EPOCHS, EXPECTED, TRIALS, Searches, printed_resume
from benchmarks.faulting.evidence import Place, count_study, count_trained_again, finished
from benchmarks.faulting.frame import Bench, Counts
from pipeline.tracking.studies import latest_study
from pipeline.tracking.tracking import Tracker

STOP_S = 60.0
"""A search that is asked to end has ended after so long, its running trials kept."""
AT_ONCE_S = 3.0


def _inject(bench: Bench, interrupt: Callable[[Command, Bench], tuple[int, float]], limit_s: float) -> Counts:
    counts = Counts()
    searches = Searches(bench, counts)
    for number in range(bench.times):
        # of two words: what is printed has to work when it is typed
        place = Place(bench.folder / "all runs", f"interrupted-{number:02d}")
        search = searches.start(place)
        epochs = bench.random.randrange(1, TRIALS * EPOCHS - 2)
        if not search.wait_for_epochs(epochs):
            raise Unexpected(f"it ended before epoch {epochs}:\n{search.tail()}")
        before = finished(place)
        wanted, asked = interrupt(search, bench)
        counts.injected += 1
        code = search.finish()
        took = search.seconds() - asked
        counts.add("trials_lost", int(code != wanted), f"exit code {code}, not {wanted}:\n{search.tail()}")
        counts.add("zombies", int(took > limit_s), f"it took {took:.1f} s to end")
        typed = printed_resume(search)
        if limit_s == STOP_S:
            counts.add("trials_lost", int(typed is None), "it did not say how to go on")
            _count_stopped(counts, place)
        before |= finished(place)
        searches.complete(place, typed=typed)
        count_study(counts, place, EXPECTED, bench.reference)
        count_trained_again(counts, place, before)
    searches.close()
    return counts


def _count_stopped(counts: Counts, place: Place) -> None:
    """Count what a search that ended as asked should have closed."""
    tracker = Tracker(f"sqlite:///{place.tracked}", create=False)
    study = latest_study(tracker, tracker.experiment("beer", "palate"), place.name)
    runs = [study, *tracker.children(study.run_id)] if study else []
    counts.add("trials_lost", int(not runs), "no run of the study")
    running = [run.name for run in runs if run.status not in ("FINISHED", "FAILED", "KILLED")]
    counts.add("zombies", len(running), f"runs that are not closed: {running}")
    is_killed = study is not None and study.status == "KILLED"
    counts.add("trials_lost", int(not is_killed), f"the study's run is {study and study.status}")


def _signalled(search: Command, number: int, *, group: bool) -> float:
    at = search.seconds()
    if search.process.poll() is None:
        (os.killpg if group else os.kill)(search.process.pid, number)
    return at


def once(bench: Bench) -> Counts:
    """Ctrl-C, which a terminal sends to all processes of the command."""
    return _inject(bench, lambda search, _: (130, _signalled(search, signal.SIGINT, group=True)), STOP_S)


def terminated(bench: Bench) -> Counts:
    """SIGTERM to the driver, as from a service manager or a node that is taken away."""
    return _inject(bench, lambda search, _: (143, _signalled(search, signal.SIGTERM, group=False)), STOP_S)


def twice(bench: Bench) -> Counts:
    """Ctrl-C, and again a moment later."""

    def both(search: Command, bench: Bench) -> tuple[int, float]:
        first = _signalled(search, signal.SIGINT, group=True)
        wait = bench.random.uniform(0.2, 1.0)
        search.wait_until(lambda: search.seconds() > first + wait)
        return 130, _signalled(search, signal.SIGINT, group=True)

    return _inject(bench, both, AT_ONCE_S)

"""The disk of the whole storage fills in mid-search: ledger, checkpoints, MLflow's database and artifacts."""

from benchmarks.faulting.disk import NoDisk, small_disk
from benchmarks.faulting.driver import Searches, printed_resume
from benchmarks.faulting.evidence import Place, count_study
from benchmarks.faulting.frame import Bench, Counts
from benchmarks.faulting.tracking import EXPECTED, FLAGS, at_some_epoch

_DISK = 256 * 2**20
_LEFT = 2**20
"""Bytes that may be left at most when it is filled: the next checkpoint, page or line does not fit."""


def full(bench: Bench) -> Counts:
    """It stays full until the search has ended."""
    counts = Counts()
    searches = Searches(bench, counts)
    try:
        for number in range(bench.times):
            with small_disk(bench.folder / f"disk-{number}", _DISK) as disk:
                place = Place(disk.folder / "runs", f"filled-{number:02d}")
                search = searches.start(place, *FLAGS)
                at_some_epoch(search, bench)
                filler = disk.fill(left=bench.random.randrange(_LEFT))
                code = search.finish()
                filler.unlink()
                counts.injected += 1
                counts.add("trials_lost", int(code != 2), f"exit code {code}, not 2:\n{search.tail()}")
                typed = printed_resume(search)
                counts.add(
                    "trials_lost", int(typed is None), f"it did not say how to go on:\n{search.tail()}"
                )
                searches.complete(place, typed=typed)
                count_study(counts, place, EXPECTED, bench.reference)
    except NoDisk as error:
        counts.impossible = str(error)
    searches.close()
    return counts

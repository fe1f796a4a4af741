"""Trials whose training fails in a way that has a name."""

from collections import Counter
from collections.abc import Callable, Sequence

import optuna

from benchmarks.faulting.driver import EPOCHS, TRIALS, Searches
from benchmarks.faulting.evidence import Expected, Place, count_study
from benchmarks.faulting.frame import Bench, Counts
from pipeline.study.study_folder import OPTUNA_DB
from pipeline.tracking.studies import latest_study
from pipeline.tracking.tracking import Tracker
from pipeline.training.epochs import FAILURE

_EXPECTED = Expected(trials=TRIALS, epochs=EPOCHS, statuses=("FAILED",), versions=0)


def _failing(reason: str, *settings: str) -> Callable[[Bench], Counts]:
    """Searches with hyper-parameters of which each trial fails for that reason."""

    def inject(bench: Bench) -> Counts:
        counts = Counts()
        searches = Searches(bench, counts)
        flags = [part for setting in settings for part in ("--set", setting)]
        for number in range(bench.times):
            place = Place(bench.folder / "runs", f"failing-{number}")
            search = searches.start(place, *flags)
            code = search.finish()
            counts.injected += TRIALS
            is_told = code == 2 and f"none of the {TRIALS} trials finished an epoch" in search.said()
            counts.add("trials_lost", int(not is_told), f"exit code {code}:\n{search.tail()}")
            count_study(counts, place, _EXPECTED)
            _count_reasons(counts, place, reason)
        searches.close()
        return counts

    return inject


def _count_reasons(counts: Counts, place: Place, reason: str) -> None:
    """Count trials that failed for another reason, and those of which Optuna was told something else."""
    tracker = Tracker(f"sqlite:///{place.tracked}", create=False)
    experiment = tracker.experiment("beer", "palate")
    study = latest_study(tracker, experiment, place.name)
    children = tracker.children(study.run_id) if study else []
    tags = Counter(child.tags.get(FAILURE, "none") for child in children)
    counts.add("trials_lost", tags.total() - tags[reason], f"failure tags {dict(tags)}")
    path = place.folder / OPTUNA_DB
    if path.is_file():
        trials = optuna.load_study(study_name=place.name, storage=f"sqlite:///{path}").trials
        states = Counter(trial.state.name for trial in trials)
        counts.add("trials_lost", states.total() - states["FAIL"], f"Optuna was told {dict(states)}")


def _inject(reason: str, *settings: str) -> tuple[str, Callable[[Bench], Counts]]:
    return reason, _failing(reason, *settings)


REASONS: Sequence[tuple[str, Callable[[Bench], Counts]]] = (
    _inject("non_finite", "learning_rate=1e38"),
    _inject("degenerate_none", "ramp_epochs=0.0", "start_selection_rate=1e-6"),
    _inject("degenerate_all", "ramp_epochs=0.0", "start_selection_rate=0.999999"),
    _inject("discriminator_stuck", "discriminator_slope=1e-9"),
    # more than any machine can map: torch is refused by the kernel
    _inject("out_of_memory", "hidden_size=33554432"),
)
"""Name of a failure, and what provokes it."""

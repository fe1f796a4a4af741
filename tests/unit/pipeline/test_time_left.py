"""The time left of simulated searches, at many moments, against what they then took."""

import dataclasses
import heapq
import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import mean, median

import numpy as np
import pytest

from pipeline.study.time_left import Phase, Track, seconds_left, told

Seconds = Callable[[random.Random, int, int], float]
"""What an epoch takes: of a trial, by its number and that of the epoch."""


@dataclass
class Simulated:
    """A trial of a simulated search, with all that will happen to it."""

    begun: float
    reports: list[float] = field(default_factory=list)
    epoch_s: list[float] = field(default_factory=list)

    def at(self, now: float) -> Track | None:
        """What is known of it then."""
        if self.begun > now:
            return None
        known = [moment for moment in self.reports if moment <= now]
        is_over = len(known) == len(self.reports)
        return Track(self.begun, known, self.epoch_s[: len(known)], is_over, is_running=not is_over)


@dataclass
class Curve(Simulated):
    """A simulated trial with what ASHA compares."""

    final: float = 0.0
    objectives: list[float] = field(default_factory=list)


def search(
    *,
    trials: int,
    epochs: int,
    slots: int,
    seconds: Seconds,
    rungs: Sequence[int] = (),
    start: float = 3.0,
    seed: int = 0,
    improves: float = 0.0,
    begin: float = 0.0,
) -> list[Simulated]:
    """A search as ASHA conducts it, event by event."""
    chance = random.Random(seed)
    # ASHA's rule is worked out on the values of all trials that have come to a rung by then
    values: dict[int, list[float]] = {rung: [] for rung in rungs}
    free = [(begin, i, None, 0.0) for i in range(slots)]
    heapq.heapify(free)
    found: list[Simulated] = []
    order = slots
    while free:
        now, _, trial, quality = heapq.heappop(free)
        if trial is None:
            if len(found) == trials:
                continue
            trial = Simulated(begun=now)
            quality = chance.gauss(improves * len(found), 1)
            found.append(trial)
            took = seconds(chance, len(found) - 1, 0)
            trial.epoch_s.append(took)
            trial.reports.append(now + start + took)
        else:
            done = len(trial.reports)
            stops = done >= epochs
            if done in values:
                before = sorted(values[done])
                values[done].append(quality + chance.gauss(0, 0.3))
                if before:
                    place = (len(before) - 1) * 2 / 3
                    low = before[int(place)]
                    cutoff = low + (before[min(int(place) + 1, len(before) - 1)] - low) * (place % 1)
                    stops = stops or values[done][-1] < cutoff
            if stops:
                heapq.heappush(free, (now, order, None, 0.0))
                order += 1
                continue
            number = next(i for i, one in enumerate(found) if one is trial)
            trial.epoch_s.append(seconds(chance, number, done))
            trial.reports.append(now + trial.epoch_s[-1])
        heapq.heappush(free, (trial.reports[-1], order, trial, quality))
        order += 1
    return found


def even(chance: random.Random, trial: int, epoch: int) -> float:
    return 10.0 * chance.uniform(0.9, 1.1)


def uneven(chance: random.Random, trial: int, epoch: int) -> float:
    """Trials of which one takes up to four times as long as another."""
    return 10.0 * (1, 2, 4)[trial % 3] * chance.uniform(0.9, 1.1)


def ratios(
    trials: list[Simulated],
    *,
    num_trials: int,
    epochs: int,
    slots: int,
    rungs: Sequence[int] = (),
    since: float = 0.0,
    shares: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9),
) -> list[float]:
    """Estimate by truth at these shares of the way."""
    end = max(trial.reports[-1] for trial in trials)
    found = []
    for share in shares:
        now = since + share * (end - since)
        tracks = [track for trial in trials if (track := trial.at(now)) is not None]
        phases = [Phase(tracks, num_trials, rungs)]
        estimate = seconds_left(phases, num_epochs=epochs, slots=slots, now=now, since=since)
        assert estimate is not None
        found.append(estimate / (end - now))
    return found


def of_curves(*, trials: int, epochs: int, slots: int, rungs: Sequence[int], seed: int) -> list[Curve]:
    """A search as ASHA conducts it, of trials that begin low and differ more and more in the end."""
    chance = random.Random(seed)
    at_rung: dict[int, list[float]] = {rung: [] for rung in rungs}
    free: list[tuple[float, int, Curve | None]] = [(0.0, slot, None) for slot in range(slots)]
    heapq.heapify(free)
    found: list[Curve] = []
    for order in itertools.count(slots):
        if not free:
            return found
        now, _, trial = heapq.heappop(free)
        if trial is None:
            if len(found) == trials:
                continue
            trial = Curve(begun=now, final=chance.gauss(0, 1))
            found.append(trial)
        elif len(trial.reports) == epochs or _is_stopped(trial, at_rung):
            heapq.heappush(free, (now, order, None))
            continue
        trial.epoch_s.append(10 * chance.uniform(0.8, 1.2))
        trial.reports.append(now + trial.epoch_s[-1])
        risen = trial.final - 4 * math.exp(-len(trial.reports) / 3) + chance.gauss(0, 0.3)
        trial.objectives.append(max([risen, *trial.objectives[-1:]]))
        heapq.heappush(free, (trial.reports[-1], order, trial))
    raise AssertionError


def _is_stopped(trial: Curve, at_rung: dict[int, list[float]]) -> bool:
    before = at_rung.get(len(trial.reports))
    if before is None:
        return False
    before.append(trial.objectives[-1])
    return len(before) > 1 and trial.objectives[-1] < float(np.percentile(before[:-1], 200 / 3))


def wrong_by(shape: tuple[int, int, int, Sequence[int]], share: float, *, knows: bool) -> float:
    """The factor by which estimates are wrong on average, of 24 searches at a share of their way."""
    trials, epochs, slots, rungs = shape
    found = []
    for seed in range(24):
        made = of_curves(trials=trials, epochs=epochs, slots=slots, rungs=rungs, seed=seed)
        end = max(trial.reports[-1] for trial in made)
        now = share * end
        tracks = [track for trial in made if (track := trial.at(now)) is not None]
        if knows:
            tracks = [
                dataclasses.replace(track, objectives=trial.objectives[: len(track.reports)])
                for track, trial in zip(tracks, made, strict=False)
            ]
        estimate = seconds_left(
            [Phase(tracks, trials, rungs)], num_epochs=epochs, slots=slots, now=now, since=0.0
        )
        assert estimate is not None
        found.append(abs(math.log(estimate / (end - now))))
    return math.exp(mean(found))


PLAIN = [(4, 12, 1), (6, 6, 2), (30, 50, 2), (30, 20, 8), (100, 10, 16)]
RUNGS = (4, 12, 36)


@pytest.mark.parametrize(("trials", "epochs", "slots"), PLAIN)
@pytest.mark.parametrize("seed", range(3))
def test_without_early_stopping_it_is_right_within_a_seventh(trials: int, epochs: int, slots: int, seed: int):
    made = search(trials=trials, epochs=epochs, slots=slots, seconds=even, seed=seed)
    for ratio in ratios(made, num_trials=trials, epochs=epochs, slots=slots):
        assert 6 / 7 <= ratio <= 7 / 6


@pytest.mark.parametrize(("trials", "epochs", "slots"), PLAIN[2:])
@pytest.mark.parametrize("seed", range(3))
def test_with_many_trials_of_uneven_length_it_is_right_within_a_third(
    trials: int, epochs: int, slots: int, seed: int
):
    made = search(trials=trials, epochs=epochs, slots=slots, seconds=uneven, seed=seed)
    for ratio in ratios(made, num_trials=trials, epochs=epochs, slots=slots):
        assert 2 / 3 <= ratio <= 4 / 3


@pytest.mark.parametrize(("trials", "epochs", "slots"), PLAIN[:2])
@pytest.mark.parametrize("seed", range(3))
def test_with_few_trials_of_uneven_length_it_is_right_within_the_unevenness(
    trials: int, epochs: int, slots: int, seed: int
):
    # the first trials are the short ones, and nobody knows that others will take four times as long
    made = search(trials=trials, epochs=epochs, slots=slots, seconds=uneven, seed=seed)
    for ratio in ratios(made, num_trials=trials, epochs=epochs, slots=slots):
        assert 0.4 <= ratio <= 1.75


ASHA = [(30, 2), (30, 8), (60, 4), (100, 16)]
HALVES = (0.25, 0.5)


def halved(trials: int, slots: int, improves: float, seed: int, *, knows: bool = True) -> list[float]:
    """The ratios of a search of 50 epochs that ASHA conducts, at a quarter and at half of the way."""
    made = search(
        trials=trials, epochs=50, slots=slots, seconds=even, rungs=RUNGS, seed=seed, improves=improves
    )
    assert any(len(trial.reports) < 50 for trial in made)
    stated = RUNGS if knows else ()
    return ratios(made, num_trials=trials, epochs=50, slots=slots, rungs=stated, shares=HALVES)


@pytest.mark.parametrize(("trials", "slots"), ASHA)
@pytest.mark.parametrize("improves", [0.0, 0.03], ids=["chance", "learning"])
@pytest.mark.parametrize("seed", range(4))
def test_under_asha_it_is_right_within_a_factor_of_two_and_a_quarter(
    trials: int, slots: int, improves: float, seed: int
):
    for ratio in halved(trials, slots, improves, seed):
        assert 1 / 2.25 <= ratio <= 2.25


def test_under_asha_it_leans_to_no_side():
    every = [
        ratio
        for trials, slots in ASHA
        for improves in (0.0, 0.03)
        for seed in range(4)
        for ratio in halved(trials, slots, improves, seed)
    ]
    assert 4 / 5 <= median(every) <= 5 / 4
    naive = [ratio for trials, slots in ASHA for ratio in halved(trials, slots, 0.0, 0, knows=False)]
    assert median(naive) > 2, "as if ASHA stopped nothing"


SHAPES = [(12, 12, 2, (4,)), (30, 50, 2, (4, 12, 36)), (30, 50, 8, (4, 12, 36)), (12, 30, 2, (5, 15))]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_when_few_trials_are_left_under_asha_it_is_right_within_a_factor_of_two(
    shape: tuple[int, int, int, Sequence[int]],
):
    for share in (0.9, 0.95):
        assert wrong_by(shape, share, knows=True) < 2


def test_how_a_trial_stands_among_the_others_says_whether_it_ends_soon():
    late = [(wrong_by(shape, 0.95, knows=True), wrong_by(shape, 0.95, knows=False)) for shape in SHAPES]
    assert all(knowing < blind for knowing, blind in late)

    def left(objective: float) -> float:
        its = Track(0.0, [10.0, 20.0], [10.0, 10.0], is_running=True, objectives=[objective] * 2)
        peers = [Track(0.0, [10.0, 20.0, 30.0], is_over=True, objectives=[n / 9] * 3) for n in range(9)]
        found = seconds_left([Phase([*peers, its], 10, [3])], num_epochs=50, slots=1, now=20.0, since=0.0)
        assert found is not None
        return found

    assert left(0.1) < left(0.9) / 3


@pytest.mark.parametrize("seed", range(3))
def test_a_resumed_search_counts_its_own_pace_and_not_the_days_between(seed: int):
    made = search(trials=12, epochs=10, slots=2, seconds=even, seed=seed)
    half = max(trial.reports[-1] for trial in made) / 2
    pause = 3 * 86400.0
    for trial in made:
        moved = trial.begun > half
        trial.begun += pause if moved else 0
        trial.reports = [moment + pause if moment > half else moment for moment in trial.reports]
    shares = (0.1, 0.5, 0.9)
    for ratio in ratios(made, num_trials=12, epochs=10, slots=2, since=half + pause, shares=shares):
        assert 3 / 4 <= ratio <= 4 / 3


def test_at_the_first_moment_of_a_resumed_search_the_old_epochs_say_how_long_one_takes():
    open_one = Track(0.0, [10.0, 20.0], [9.0, 9.0])
    phases = [Phase([open_one], num_trials=2)]
    found = seconds_left(phases, num_epochs=4, slots=1, now=1e6, since=1e6)
    assert found == pytest.approx(6 * 9.0)


def test_further_seeds_come_after_the_search():
    running = Track(0.0, [12.0, 22.0], [10.0, 10.0], is_running=True)
    search_phase = Phase([running], num_trials=1)
    found = seconds_left([search_phase, Phase([], 3)], num_epochs=4, slots=2, now=22.0, since=0.0)
    # two epochs of the trial; then three trainings of 4 epochs and 2 s before them, two at once
    assert found == pytest.approx(2 * 10 + 2 * (4 * 10 + 2))


def test_an_epoch_under_way_counts_down_and_never_below_the_epochs_after_it():
    running = Track(0.0, [10.0, 20.0], [10.0, 10.0], is_running=True)
    phases = [Phase([running], 1)]

    def left(now: float) -> float | None:
        return seconds_left(phases, num_epochs=4, slots=1, now=now, since=0.0)

    assert left(20.0) == pytest.approx(20)
    assert left(26.0) == pytest.approx(14)
    assert left(95.0) == pytest.approx(10), "an epoch that takes longer than those before it"


def test_trials_that_fail_end_early():
    failed = [Track(0.0, [10.0], [10.0], is_over=True, has_failed=True)] * 10
    phases = [Phase([*failed, Track(100.0, [110.0], [10.0], is_running=True)], 50)]
    found = seconds_left(phases, num_epochs=100, slots=1, now=110.0, since=0.0)
    assert found is not None
    assert found < 50 * 100 * 10 / 20


@pytest.mark.parametrize("tracks", [[], [Track(0.0, is_running=True)]], ids=["no trial", "no epoch"])
def test_before_the_first_epoch_nothing_is_known(tracks: list[Track]):
    assert seconds_left([Phase(tracks, 4)], num_epochs=4, slots=2, now=50.0, since=0.0) is None


def test_where_all_is_over_nothing_is_left():
    over = Track(0.0, [10.0, 20.0], [10.0, 10.0], is_over=True)
    assert seconds_left([Phase([over], 1)], num_epochs=2, slots=2, now=21.0, since=0.0) == 0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "time left: known after the first epoch"),
        (0, "about 5 s left"),
        (44, "about 45 s left"),
        (95, "about 2 min left"),
        (3600, "about 60 min left"),
        (7100, "about 2 h 00 min left"),
        (40000, "about 11 h 05 min left"),
    ],
)
def test_it_is_told_no_finer_than_it_is_known(seconds: float | None, text: str):
    assert told(seconds) == text

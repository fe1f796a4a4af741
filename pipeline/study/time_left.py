"""How long trainings that are under way, and those that are still to be begun, will take.

An epoch takes as long as lies between two reports of its trial. What the whole took, divided by what is done,
would say something else: a start may be slow, and trials run side by side. How many trials ASHA stops at a
rung is taken from those that have come to it, and at first from what ASHA does to trials that are equally
good on average. Whether it will stop a trial that runs is taken the more from how the others stood at the
same epoch, the nearer the rung is. The rest is a simulation of the slots in which trials run.
"""

import heapq
import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

_REDUCTION = 3
"""ASHA's; see `pipeline.study.scheduler`."""
_PRIOR_TRIALS = 2.0
"""How many trials seen at a rung weigh as much as what is expected there."""
_DRAWS = 40
_SOON_S, _LONG_S = 90, 5400


@dataclass(frozen=True, slots=True)
class Track:
    """A trial as far as it is known; times in seconds of one clock."""

    begun: float | None
    """None where nobody knows."""
    reports: Sequence[float] = ()
    """When each epoch was reported, those of an earlier session included."""
    epoch_s: Sequence[float] = ()
    """What each epoch itself took."""
    is_over: bool = False
    is_running: bool = False
    has_failed: bool = False
    objectives: Sequence[float] = ()
    """What ASHA compares, after each epoch: the best so far."""

    def gaps(self, since: float) -> list[float]:
        """Times between reports of the present session."""
        return [after - before for before, after in itertools.pairwise(self.reports) if before >= since]


@dataclass(frozen=True, slots=True)
class Phase:
    """Trials that run side by side; the next phase begins when all have ended."""

    tracks: Sequence[Track]
    """Those that were begun."""
    num_trials: int
    rungs: Sequence[int] = ()
    """Numbers of epochs after which ASHA may stop a trial; empty: none is stopped."""


def seconds_left(
    phases: Sequence[Phase], *, num_epochs: int, slots: int, now: float, since: float
) -> float | None:
    """Seconds until the last phase is over; None where nothing is known yet of how long an epoch takes.

    Args:
        phases: one after the other.
        num_epochs: epochs of a trial that is not stopped.
        slots: trials that can run at once.
        since: when the present session began; gaps between reports that span it say nothing.
    """
    tracks = [track for phase in phases for track in phase.tracks]
    paces = _paces(tracks, since)
    if not paces:
        return None
    start = _start(tracks, since)
    chance = random.Random(0)

    def once() -> float:
        return sum(_span(phase, num_epochs, slots, now, since, paces, start, chance) for phase in phases)

    # the geometric mean: where a trial ends soon or late, twice too long is as wrong as half of it
    return round(math.expm1(fmean(math.log1p(once()) for _ in range(_DRAWS))), 3)


def _paces(tracks: Sequence[Track], since: float) -> list[float]:
    """Seconds of an epoch, of each trial that tells; empty where no epoch was reported."""
    own = [fmean(gaps) for track in tracks if (gaps := track.gaps(since))]
    if not own:
        own = [fmean(track.epoch_s) for track in tracks if track.epoch_s]
    return own


def _start(tracks: Sequence[Track], since: float) -> float:
    """Seconds of a trial before its first epoch."""
    found = [
        max(0.0, track.reports[0] - track.begun - track.epoch_s[0])
        for track in tracks
        if track.begun is not None and track.begun >= since and track.reports and track.epoch_s
    ]
    return median(found) if found else 0.0


def _span(
    phase: Phase,
    num_epochs: int,
    slots: int,
    now: float,
    since: float,
    paces: Sequence[float],
    start: float,
    chance: random.Random,
) -> float:
    """One way in which a phase may continue, in seconds."""
    rungs = _Rungs(phase, num_epochs)
    running = [track for track in phase.tracks if track.is_running and not track.is_over]
    free = []
    for track in running:
        gaps = track.gaps(since)
        own = (sum(gaps) + fmean(paces)) / (len(gaps) + 1)
        left = rungs.last_epoch(len(track.reports), chance, track) - len(track.reports)
        heard = max([since, *track.reports]) if track.reports else max(since, track.begun or since)
        first = 0.0 if track.reports else start
        free.append(first + left * own - min(max(now - heard, 0.0), first + own))
    free += [0.0] * (slots - len(free))
    heapq.heapify(free)
    waiting = [track for track in phase.tracks if not track.is_over and not track.is_running]
    reached = [len(track.reports) for track in waiting]
    reached += [0] * (phase.num_trials - len(phase.tracks))
    for epochs in reached:
        begin = heapq.heappop(free)
        left = rungs.last_epoch(epochs, chance) - epochs
        # another one of those there were: where trials differ, a long one may come last
        heapq.heappush(free, begin + start + left * chance.choice(paces))
    return max(free)


class _Rungs:
    """How likely ASHA stops a trial: at each rung a share of those that come to it."""

    def __init__(self, phase: Phase, num_epochs: int) -> None:
        self.num_epochs, self._tracks = num_epochs, phase.tracks
        over = [track for track in phase.tracks if track.is_over]
        self._failures = sum(track.has_failed for track in over) / max(
            1, sum(len(track.reports) for track in phase.tracks)
        )
        self._come = {r: sum(len(t.reports) >= r for t in phase.tracks) for r in phase.rungs}
        self._seen = dict(self._come)
        self._stopped = {r: sum(len(t.reports) == r and not t.has_failed for t in over) for r in phase.rungs}

    def last_epoch(self, reached: int, chance: random.Random, track: Track | None = None) -> int:
        """Epochs of a trial that has so many, when it ends; `track` is given where it runs."""
        for epoch in range(reached + 1, self.num_epochs):
            if epoch in self._come:
                if self._stops(epoch, chance, track):
                    return epoch
                track = None  # how it stands now says little of the rung after the next one
            if self._failures and chance.random() < self._failures:
                return epoch
        return self.num_epochs

    def _stops(self, rung: int, chance: random.Random, track: Track | None) -> bool:
        # ASHA keeps a trial that is among the best third of those before it
        before = self._come[rung]
        expected = (1 - 1 / _REDUCTION) * before / (before + 1 / _REDUCTION)
        self._come[rung] += 1
        rate = (self._stopped[rung] + _PRIOR_TRIALS * expected) / (self._seen[rung] + _PRIOR_TRIALS)
        if track is not None and (lags := self._lags(track, rung)) is not None:
            near = len(track.objectives) / rung
            rate = near * lags + (1 - near) * rate
        return chance.random() < rate

    def _lags(self, track: Track, rung: int) -> bool | None:
        """Whether a trial would be stopped if the rung were where it is now; None where nobody can tell."""
        now = len(track.objectives) - 1
        others = [t.objectives[now] for t in self._tracks if t is not track and len(t.objectives) >= rung]
        if now < 0 or not others:
            return None
        return track.objectives[now] < _upper_third(others)


def _upper_third(values: Sequence[float]) -> float:
    """What the best third of them reaches, between two of them where need be."""
    place = (1 - 1 / _REDUCTION) * (len(values) - 1)
    low, high = sorted(values)[math.floor(place)], sorted(values)[math.ceil(place)]
    return low + (high - low) * (place % 1)


def told(seconds: float | None) -> str:
    """A time left in words, no finer than it is known."""
    if seconds is None:
        return "time left: known after the first epoch"
    if seconds < _SOON_S:
        return f"about {max(5, 5 * round(seconds / 5))} s left"
    minutes = round(seconds / 60)
    if seconds < _LONG_S:
        return f"about {minutes} min left"
    hours, minutes = divmod(5 * round(minutes / 5), 60)
    return f"about {hours} h {minutes:02d} min left"

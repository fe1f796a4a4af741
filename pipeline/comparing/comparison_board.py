"""How far a comparison is: on a terminal a row for each method with each seed."""

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from feature_store import terminal
from pipeline.study import time_left, trial_table
from pipeline.study.time_left import Phase, Track
from pipeline.study.trial_table import RUNNING, STARTING, WAITING, Row
from pipeline.training.epochs import Epoch


@dataclass(slots=True)
class _Training:
    """One method with one seed."""

    state: str = WAITING
    """`waiting`, `running`, or how it ended."""
    reports: list[float] = field(default_factory=list)
    """When each epoch ended."""
    epoch_s: list[float] = field(default_factory=list)
    scores: Mapping[str, float] = field(default_factory=dict)
    """Of the last epoch."""

    @property
    def is_over(self) -> bool:
        return self.state not in (WAITING, RUNNING)

    @property
    def shown(self) -> str:
        """The state as its row has it."""
        return STARTING if self.state == RUNNING and not self.reports else self.state


class ComparisonBoard:
    """A board for a terminal.

    Args:
        dataset: whose scores are shown.
        names: of the trainings, in the order in which they are begun.
        num_epochs: of each.
        slots: that run at once.
    """

    def __init__(self, dataset: str, names: Sequence[str], num_epochs: int, slots: int) -> None:
        self.dataset, self.num_epochs, self.slots = dataset, num_epochs, slots
        self.since = time.time()
        self.trainings = {name: _Training() for name in names}
        self._mark()

    def epochs(self, name: str, epochs: Sequence[Epoch]) -> None:
        """Take in the epochs of a training since the last time: an interrupted one brings several at once."""
        one, now = self.trainings[name], time.time()
        seconds = [epoch.epoch_s or 0.0 for epoch in epochs]
        after = list(itertools.accumulate(reversed(seconds), initial=0.0))[: len(seconds)]
        one.reports += [now - later for later in reversed(after)]
        one.epoch_s += seconds
        if epochs:
            one.scores = epochs[-1].metrics

    def end(self, name: str, state: str) -> None:
        """A training has ended, in a state of that name."""
        self.trainings[name].state = state
        self._mark()

    def _mark(self) -> None:
        """Ray begins trainings in their order, as soon as there is room."""
        left = [one for one in self.trainings.values() if not one.is_over]
        for i, one in enumerate(left):
            one.state = RUNNING if i < self.slots else WAITING

    def summary(self) -> str:
        """How many trainings have ended, and how long the others will take."""
        now, every = time.time(), self.trainings.values()
        tracks = [
            Track(None, one.reports, one.epoch_s, is_over=one.is_over, is_running=one.state == RUNNING)
            for one in every
        ]
        seconds = time_left.seconds_left(
            [Phase(tracks, len(tracks))],
            num_epochs=self.num_epochs,
            slots=self.slots,
            now=now,
            since=self.since,
        )
        ended = sum(one.is_over for one in every)
        going = trial_table.under_way(one.shown for one in every)
        return f"{ended} of {len(every)} trainings ended, {going}; {time_left.told(seconds)}"

    def __call__(self, width: int, height: int, *, is_over: bool) -> list[terminal.Line]:
        """The state of the comparison, and a row for each training: those that run stand first."""
        text = self.summary()
        if is_over:
            text = text.rpartition(";")[0]
        found = [(line, "") for line in terminal.fitted(text, width).split("\n")]
        order = {RUNNING: 0, WAITING: 2}
        ordered = sorted(self.trainings.items(), key=lambda item: order.get(item[1].state, 1))
        rows = [
            Row(
                name,
                one.shown,
                len(one.reports),
                one.scores,
                is_running=one.state == RUNNING,
            )
            for name, one in ordered
        ]
        table = trial_table.lines(
            rows,
            what="training",
            num_epochs=self.num_epochs,
            dataset=self.dataset,
            decisive=(),
            width=width,
            height=height - len(found) - 1,
        )
        return [*found, *([("", ""), *table] if table else [])][: max(height, 0)]

"""What a comparison says while it runs: on a terminal a row for each training, elsewhere a line an epoch."""

import dataclasses
from collections.abc import Sequence
from typing import TextIO

from ray.tune.experiment import Trial

from pipeline.study import time_left, trial_table
from pipeline.study.ledger import Ledger, TrialRecord
from pipeline.study.progress import Plan, ProgressLines
from pipeline.study.time_left import Phase
from pipeline.study.trial_table import TrialRow
from pipeline.training.settings import RUN


class ComparisonBoard(ProgressLines):
    """What a search says, but of trainings that are listed and have names.

    Args:
        ledger: of the comparison; written before this is called.
        names: of the trainings, in the order in which they are begun.
        stream: where to write; None: stderr.
    """

    what = "training"

    def __init__(
        self, ledger: Ledger, plan: Plan, names: Sequence[str], stream: TextIO | None = None
    ) -> None:
        super().__init__(ledger, plan, stream)
        self.names = names

    def _name(self, trial: Trial) -> str:
        return str(trial.config[RUN])

    @property
    def _trials(self) -> dict[str, TrialRecord]:
        """The trial that trains each of them, or ended last, as far as there is one."""
        named = {record.begin.config[RUN]: record for record in self.records}
        return {name: named[name] for name in self.names if name in named}

    def summary(self) -> list[str]:
        """How many trainings have ended, and how long the others will take."""
        return [f"comparison: {self.counts()}; {time_left.told(self.seconds_left())}"]

    def counts(self) -> str:
        """How many trainings have ended."""
        trials = self._trials.values()
        going = trial_table.under_way(map(self._state, trials))
        return f"{sum(one.is_over for one in trials)} of {len(self.names)} trainings ended, {going}"

    def _phases(self) -> list[Phase]:
        return [Phase([self._track(one) for one in self._trials.values()], len(self.names))]

    def _heads(self, left: str) -> list[str]:
        return [f"{self.counts()}{left}"]

    def _rows(self) -> list[TrialRow]:
        trials = self._trials
        rows = [self._named(name, trials.get(name)) for name in self.names]
        return sorted(rows, key=lambda row: (not row.is_running, row.state == trial_table.WAITING))

    def _named(self, name: str, record: TrialRecord | None) -> TrialRow:
        if record is None:
            return TrialRow(name, trial_table.WAITING, 0, {})
        return dataclasses.replace(self._row(record, None), name=name, searched={})

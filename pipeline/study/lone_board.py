"""A training without a search as it is shown: on a terminal a table of one row, elsewhere a line an epoch."""

import logging
import time
from collections.abc import Collection

from feature_store import terminal
from pipeline.study import time_left, trial_table
from pipeline.study.progress import epoch_line
from pipeline.study.time_left import Phase, Track
from pipeline.study.trial_table import TrialRow
from pipeline.training.epochs import Epoch


class LoneBoard:
    """A board for a terminal.

    Args:
        logger: of the lines where no part of a terminal moves.
        decisive: flat names of the scores that decide, for which there is room before others.
        name: of what is trained; its lines begin with it.
    """

    def __init__(
        self,
        dataset: str,
        num_epochs: int,
        logger: logging.Logger,
        *,
        decisive: Collection[str],
        name: str = "",
    ) -> None:
        self.dataset, self.num_epochs, self.name, self.decisive = dataset, num_epochs, name, decisive
        self._logger = logger
        self._since = time.time()
        self._reports: list[float] = []
        self._last: Epoch | None = None
        self._beside = ""

    def take(self, epoch: Epoch, beside: str = "") -> None:
        """Take in an epoch.

        Args:
            epoch: that has ended.
            beside: what else is to be said of it.
        """
        self._reports.append(time.time())
        self._last, self._beside = epoch, beside
        if terminal.is_open():
            return
        line = "  ".join(filter(None, [epoch_line(epoch, self.num_epochs, self.decisive, self.name), beside]))
        is_last = epoch.number + 1 >= self.num_epochs
        self._logger.info("%s", line if is_last else f"{line}; {time_left.told(self._seconds_left())}")

    @property
    def _num_done(self) -> int:
        return 0 if self._last is None else self._last.number + 1

    def _seconds_left(self) -> float | None:
        last, now = self._last, time.time()
        epoch_s = [last.epoch_s] if last is not None and last.epoch_s is not None else []
        done = self._num_done
        if done >= self.num_epochs:
            return 0.0
        track = Track(None, self._reports, epoch_s, is_running=True)
        phase = Phase([track], 1)
        # an interrupted training continues: its epochs of before were not reported here
        remaining = self.num_epochs - done + len(self._reports)
        return time_left.seconds_left([phase], num_epochs=remaining, slots=1, now=now, since=self._since)

    def __call__(self, width: int, height: int, *, is_over: bool) -> list[terminal.Line]:
        """How long it will take, and a row with the last epoch."""
        last = self._last
        parts = [] if is_over else [time_left.told(self._seconds_left())]
        if self._beside:
            parts.insert(0, f"epoch {self._num_done}: {self._beside}")
        head = [(line, "") for line in terminal.fitted("; ".join(parts), width).split("\n") if line]
        row = TrialRow(
            self.name or "training",
            trial_table.not_ended(self._num_done, is_over=is_over),
            self._num_done,
            {} if last is None else last.metrics,
            is_running=True,
        )
        table = trial_table.lines(
            [row],
            what="",
            num_epochs=self.num_epochs,
            dataset=self.dataset,
            decisive=self.decisive,
            width=width,
            height=height - len(head),
        )
        return [*head, *table][: max(height, 0)]

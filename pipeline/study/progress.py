"""What a search says while it runs: on a terminal a table of its trials, elsewhere one line an epoch."""

import sys
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from ray.tune.experiment import Trial

from feature_store import terminal
from feature_store.wording import counted
from pipeline.base.trajectories import Failure
from pipeline.study import time_left, trial_table
from pipeline.study.ledger import Ledger, TrialRecord
from pipeline.study.recorder import UnsavedCallback, heard
from pipeline.study.scheduler import trial_id_of
from pipeline.study.time_left import Phase, Track
from pipeline.study.trial_table import TrialRow
from pipeline.training.best import best_first
from pipeline.training.columns import of_validation, shortfall, with_error
from pipeline.training.epochs import Epoch
from search_spaces.base import Criterion

_WIDTH = 80
"""Columns of a line that is written to a file; as many as a terminal has that nobody has widened."""
_TASK = (("val_mse", "mse", 4), ("val_accuracy", "accuracy", 3))
_PRECISION, _RECALL = ("val_token_precision", "P"), ("val_token_recall", "R")
_F1 = ("val_hatexplain_token_f1", "F1")
_RATE = ("val_selection_rate", "selected")
_RENEWED_S = 5.0
"""How long an estimate of the time left holds where no trial reports."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Plan:
    """What a search is to do."""

    dataset: str
    criterion: Criterion
    num_trials: int
    num_epochs: int
    """Of a trial that is not stopped early."""
    num_further: int = 0
    """Most trainings of the best trials with further seeds."""
    slots: int = 1
    """Trials that can run at once."""
    rungs: Sequence[int] = ()
    """Numbers of epochs after which a trial may be stopped."""


class ProgressLines(UnsavedCallback):
    """Tune callback on the driver, and a board for a terminal.

    Args:
        ledger: of the study; written before this is called.
        stream: where to write; None: stderr.
    """

    what = "trial"
    """What the board calls a row."""
    is_over = False
    """Whether the command ends, and what has not ended is interrupted."""

    def __init__(self, ledger: Ledger, plan: Plan, stream: TextIO | None = None) -> None:
        self.ledger, self.plan, self.stream = ledger, plan, stream
        self.since = time.time()
        self.epochs_seen = 0
        self.records = ledger.trials()
        self._running: set[str] = set()
        self._estimate: tuple[float, float | None] = (0.0, None)

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial begins, or resumes."""
        self._running.add(trial_id_of(trial))
        self._look()

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """One line for the epoch, and after every tenth the state of the study; on a terminal the table."""
        self.epochs_seen += 1
        self._running.add(trial_id_of(trial))
        self._look()
        epoch = heard(result)
        if isinstance(epoch, Failure):
            self._line(f"{self._name(trial)} failed: {epoch.message}")
        elif not terminal.is_open():
            decisive = self.plan.criterion.metrics
            self._line(epoch_line(epoch, self.plan.num_epochs, decisive, self._name(trial)))
            for line in self.summary() if self.epochs_seen % 10 == 0 else ():
                self._line(line)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """A trial has ended; where no table shows it, say so of one that was stopped early."""
        self._running.discard(trial_id_of(trial))
        self._look()
        found = next((one for one in self.records if one.trial_id == trial_id_of(trial)), None)
        if found is None or terminal.is_open():
            return
        if found.failure is None and 0 < len(found.epochs) < self.plan.num_epochs:
            of_planned = f"{len(found.epochs)} of {counted(self.plan.num_epochs, 'epoch')}"
            self._line(f"{self._name(trial)} stopped early, after {of_planned}: other trials are better")

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Say that a worker died, and where its trial resumes."""
        self._line(f"{self._name(trial)} lost its worker and resumes from its last checkpoint")

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Say that a trial broke for good."""
        self._running.discard(trial_id_of(trial))
        self._look()
        self._line(f"{self._name(trial)} crashed: see {trial.error_file}")

    def _look(self) -> None:
        self.records = self.ledger.trials()
        self._estimate = (0.0, None)

    def _name(self, trial: Trial) -> str:
        return f"trial {self.ledger.number(trial_id_of(trial)):02d}"

    def _line(self, text: str) -> None:
        out = self.stream or sys.stderr
        print(terminal.fit(text, out), file=out, flush=True)

    @property
    def _searched(self) -> list[TrialRecord]:
        return [record for record in self.records if record.begin.proposal is not None]

    def summary(self) -> list[str]:
        """The state of the study in lines of their own: how many trials ended and how, then the best one."""
        best = self.best()
        lines = [f"study: {self.counts()}; {time_left.told(self.seconds_left())}"]
        return lines if best is None else [*lines, f"best: {self._best_text()}"]

    def counts(self) -> str:
        """How many trials have ended, and how."""
        records = self._searched
        over = [record for record in records if record.is_over]
        how_ended = Counter(record.ended_early(self.plan.num_epochs) for record in over)
        stopped, failed = how_ended["stopped"], how_ended["failed"]
        parts = [f"{stopped} stopped early"] * (stopped > 0) + [f"{failed} failed"] * (failed > 0)
        how = f" ({', '.join(parts)})" if parts else ""
        text = f"{len(over)} of {self.plan.num_trials} trials ended{how}"
        again = [record for record in self.records if record.begin.proposal is None]
        if again:
            ended = sum(record.is_over for record in again)
            text += f", {ended} of {counted(self.plan.num_further, 'further seed')}"
        return f"{text}, {trial_table.under_way(map(self._state, self.records))}"

    def _is_running(self, record: TrialRecord) -> bool:
        return record.trial_id in self._running and not record.is_over

    def best(self) -> TrialRecord | None:
        """The trial of the search that has the best epoch so far."""
        return next(iter(_ranked(self._searched)), None)

    def _best_text(self) -> str:
        """The best trial so far, or the nearest one where none can be chosen yet."""
        record = self.best()
        if record is None or record.last is None:
            return "none"
        best = record.last.epoch.best
        scores = of_validation(self.plan.dataset, best.scores, self.plan.criterion.metrics)
        figures = [f"{label} {with_error(name, best.scores[name])}" for label, name in scores.items()]
        at = "" if best.epoch is None else f" at epoch {best.epoch + 1}"
        trial = ", ".join([f"trial {record.begin.number:02d}{at}", *figures])
        if not _can_be_chosen(record):
            return (
                f"none yet; closest: {trial} (not eligible: its start phase is not over, or it selects "
                "(nearly) all or no tokens)"
            )
        missed = f"misses the criterion by {shortfall(best.violation)}"
        return f"{trial}, {'meets the criterion' if best.violation == 0 else missed}"

    def seconds_left(self) -> float | None:
        """Seconds until the last trial ends; None where nothing is known yet."""
        now, plan = time.time(), self.plan
        made, seconds = self._estimate
        if not made or now - made > _RENEWED_S:
            made = now
            seconds = time_left.seconds_left(
                self._phases(), num_epochs=plan.num_epochs, slots=plan.slots, now=now, since=self.since
            )
            self._estimate = (made, seconds)
        return None if seconds is None else max(0.0, seconds - (now - made))

    def _phases(self) -> list[Phase]:
        again = [self._track(r) for r in self.records if r.begin.proposal is None]
        search = Phase([self._track(r) for r in self._searched], self.plan.num_trials, self.plan.rungs)
        return [search, Phase(again, self.plan.num_further)]

    def _track(self, record: TrialRecord) -> Track:
        reports = [record.epochs[number] for number in sorted(record.epochs)]
        return Track(
            record.begin.time,
            [one.time for one in reports],
            [one.epoch.epoch_s for one in reports if one.epoch.epoch_s is not None],
            is_over=record.is_over,
            is_running=self._is_running(record),
            has_failed=record.failure is not None,
            objectives=[one.epoch.best.value for one in reports],
        )

    # ------------------------------------------------------------------------------------- on a terminal

    def __call__(self, width: int, height: int, *, is_over: bool) -> list[terminal.Line]:
        """The state of the study, the best trial so far, the criterion, and a row for each trial.

        Those that run stand first, then the others, the best one first.
        """
        self.is_over = is_over
        plan, left = self.plan, "" if is_over else f"; {time_left.told(self.seconds_left())}"
        heads = self._heads(left)
        found = [(line, "") for text in heads for line in terminal.fitted(text, width).split("\n")]
        table = trial_table.lines(
            self._rows(),
            what=self.what,
            num_epochs=plan.num_epochs,
            dataset=plan.dataset,
            decisive=plan.criterion.metrics,
            width=width,
            height=height - len(found) - 1,
        )
        return [*found, *([("", ""), *table] if table else [])][: max(height, 0)]

    def _heads(self, left: str) -> list[str]:
        return [
            f"{self.counts()}{left}",
            f"best so far: {self._best_text()}",
            f"criterion: {self.plan.criterion}",
        ]

    def _rows(self) -> list[TrialRow]:
        best = self.best()
        running = [record for record in self.records if self._is_running(record)]
        others = [record for record in self.records if not self._is_running(record)]
        unknown = [record for record in others if record.last is None]
        return [self._row(record, best) for record in (*running, *_ranked(others), *unknown)]

    def _row(self, record: TrialRecord, best: TrialRecord | None) -> TrialRow:
        config = dict(record.begin.config)
        seed = config.pop("seed", None) if record.begin.proposal is None else None
        number = f"{record.begin.number:02d}"
        return TrialRow(
            name=number if seed is None else f"{number} seed {seed}",
            state=self._state(record),
            num_epochs=len(record.epochs),
            scores={} if record.last is None else record.last.epoch.metrics,
            searched=config,
            is_best=best is not None and record.trial_id == best.trial_id and _can_be_chosen(record),
            is_running=self._is_running(record),
        )

    def _state(self, record: TrialRecord) -> str:
        if record.is_over:
            return record.ended_early(self.plan.num_epochs) or "done"
        if not self.is_over and not self._is_running(record):
            return trial_table.WAITING
        return trial_table.not_ended(len(record.epochs), is_over=self.is_over)


def _can_be_chosen(record: TrialRecord) -> bool:
    """Whether its best epoch can be a result, whether or not it meets the criterion."""
    return record.last is not None and record.last.epoch.best.is_result


def _ranked(records: Sequence[TrialRecord]) -> list[TrialRecord]:
    """Those that have an epoch, the best first."""
    found = [(record.last, record) for record in records if record.last is not None]
    return [record for _, record in best_first(found, lambda pair: pair[0].epoch.best.standing)]


def epoch_line(epoch: Epoch, num_epochs: int, decisive: Collection[str], name: str = "") -> str:
    """One epoch in one line: scores on validation and the time it took.

    Where the line would be too long for a terminal, the training loss is left out first; then, where the data
    set is judged by F1, what does not decide of precision and recall; then the time.

    Args:
        epoch: that has ended.
        decisive: flat names of the scores that decide.
        name: of what is trained; the line begins with it.
    """
    scores, number = epoch.metrics, f"epoch {epoch.number + 1}/{num_epochs}"
    loss = [f"loss {scores['train_objective']:.3f}"] if "train_objective" in scores else []
    task = [f"{label} {scores[key]:.{digits}f}" for key, label, digits in _TASK if key in scores]
    gold = _gold(scores, (_PRECISION, _RECALL))
    others = [f"{label} {scores[key]:.3f}" for key, label in (_F1, _RATE) if key in scores]
    end = [] if epoch.epoch_s is None else [f"{epoch.epoch_s:.1f} s"]
    first = f"{name} {number}" if name else number
    needed = _gold(scores, [one for one in (_PRECISION, _RECALL) if one[0] in decisive])
    least = needed if _F1[0] in scores else gold
    for parts in (
        [first, *loss, *task, *gold, *others, *end],
        [first, *task, *gold, *others, *end],
        [first, *task, *least, *others, *end],
        [first, *task, *least, *others],
    ):
        if len("  ".join(parts)) <= _WIDTH:
            break
    return "  ".join(parts)


def _gold(scores: Mapping[str, float], shown: Sequence[tuple[str, str]]) -> list[str]:
    """Precision and recall as one part of a line; nothing where neither is there."""
    found = [f"{label} {scores[key]:.3f}" for key, label in shown if key in scores]
    return [" ".join(found)] if found else []

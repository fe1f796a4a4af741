"""What a search says while it runs: one line an epoch, and on a terminal a status line below."""

import shutil
import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from ray import tune
from ray.tune.experiment import Trial

from pipeline.criterion import best_first, standing_of
from pipeline.ledger import Ledger
from pipeline.scheduler import trial_id_of
from pipeline.trainable import FAILURE, FAILURE_MESSAGE

_SHOWN = (("train_objective", "loss"), ("val_mse", "val_mse"), ("val_accuracy", "val_accuracy"))
_RATIONALE = (
    ("val_token_precision", "precision"),
    ("val_token_recall", "recall"),
    ("val_hatexplain_token_f1", "token_f1"),
    ("val_selection_rate", "selection_rate"),
)
"""Scores of the rationale that a line shows, where the data set has them."""


class ProgressLines(tune.Callback):
    """Tune callback on the driver.

    Args:
        ledger: of the study; written before this is called.
        num_trials: trials of the search.
        num_epochs: epochs of a trial that is not stopped early.
        stream: where to write.
    """

    def __init__(
        self, ledger: Ledger, num_trials: int, num_epochs: int, stream: TextIO | None = None
    ) -> None:
        self.ledger, self.num_trials, self.num_epochs, self.stream = ledger, num_trials, num_epochs, stream
        self.started = time.monotonic()
        self.epochs_seen = 0

    def __getstate__(self) -> dict[str, Any]:
        # Tune pickles its callbacks with snapshots that nobody reads: a study is resumed from the ledger
        return {}

    @property
    def _out(self) -> TextIO:
        return self.stream or sys.stderr

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """One line for the epoch, then the state of the study."""
        self.epochs_seen += 1
        if FAILURE in result:
            self._line(f"{self._name(trial)} failed: {result[FAILURE_MESSAGE]}")
            return
        self._line(f"{self._name(trial)} {epoch_line(result, self.num_epochs)}")
        self._status()

    def on_trial_recover(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Say that a worker died, and where its trial goes on."""
        self._line(f"{self._name(trial)} lost its worker, and goes on from its last checkpoint")

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Say that a trial broke for good."""
        self._line(f"{self._name(trial)} broke: see {trial.error_file}")

    def on_experiment_end(self, trials: list[Trial], **info: Any) -> None:
        """Take the status away: what comes next is the result."""
        if self._out.isatty():
            print("\033[K", end="", file=self._out, flush=True)

    def _name(self, trial: Trial) -> str:
        return f"trial {self.ledger.number(trial_id_of(trial)):02d}"

    def summary(self) -> str:
        """Trials done, running and stopped, the best so far, and the time left."""
        records = [record for record in self.ledger.trials() if record.begin.proposal is not None]
        over = [record for record in records if record.is_over]
        failed = sum(record.failure is not None for record in over)
        done = sum(record.failure is None and len(record.epochs) >= self.num_epochs for record in over)
        text = f"{done} done, {len(records) - len(over)} running, "
        text += f"{len(over) - done - failed} stopped early, {failed} failed"
        text += f" of {self.num_trials}"
        latest = [record.last.numbers for record in records if record.last is not None]
        if latest:
            best = best_first(latest, standing_of)[0]
            text += f" | best {_rationale(best, 'best_')}" + (
                "" if best["criterion_violation"] == 0 else " (criterion not met yet)"
            )
        trained = sum(len(record.epochs) for record in records if not record.is_over)
        left = (self.num_trials - len(over)) * self.num_epochs - trained
        seconds = (time.monotonic() - self.started) / max(self.epochs_seen, 1) * max(left, 0)
        return f"{text} | at most {clock(seconds)} left"

    def _status(self) -> None:
        if self._out.isatty():
            width = shutil.get_terminal_size().columns
            print("\033[K" + self.summary()[: width - 1], end="\r", file=self._out, flush=True)
        elif self.epochs_seen % 10 == 0:
            print(f"study: {self.summary()}", file=self._out, flush=True)

    def _line(self, text: str) -> None:
        clear = "\033[K" if self._out.isatty() else ""
        print(clear + text, file=self._out, flush=True)


def epoch_line(result: Mapping[str, Any], num_epochs: int) -> str:
    """One epoch in one line: losses, rationale scores on validation, and the time it took."""
    parts = [f"epoch {result['epoch'] + 1}/{num_epochs}"]
    parts += [f"{label} {result[name]:.4f}" for name, label in _SHOWN if name in result]
    parts += [_rationale(result), f"{result['epoch_s']:.1f} s"]
    return "  ".join(parts)


def _rationale(scores: Mapping[str, Any], prefix: str = "") -> str:
    found = ((label, scores.get(prefix + name)) for name, label in _RATIONALE)
    return " ".join(f"{label} {value:.3f}" for label, value in found if value is not None)


def clock(seconds: float) -> str:
    """A time as `H:MM:SS` or `M:SS`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"

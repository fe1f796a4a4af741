"""What a search says while it runs: one line an epoch, and on a terminal a status line below."""

import sys
import time
from collections.abc import Mapping
from typing import Any, TextIO

from ray import tune
from ray.tune.experiment import Trial

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
        num_trials: trials of the study.
        num_epochs: epochs of a trial that is not stopped early.
        stream: where to write.
    """

    def __init__(self, num_trials: int, num_epochs: int, stream: TextIO | None = None) -> None:
        self.num_trials, self.num_epochs = num_trials, num_epochs
        self.stream = stream
        self.started = time.monotonic()
        self.numbers: dict[str, int] = {}
        self.epochs_seen = 0
        self.epochs_spared = 0
        self.done = self.stopped = self.failed = 0
        self.best: dict[str, Any] = {}

    def __getstate__(self) -> dict[str, Any]:
        # Tune pickles its callbacks; a stream cannot go along, and a restored study counts from its own start
        return self.__dict__ | {"stream": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, started=time.monotonic())

    @property
    def _out(self) -> TextIO:
        return self.stream or sys.stderr

    def on_trial_start(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Number trials in the order in which they start."""
        self.numbers.setdefault(trial.trial_id, len(self.numbers))

    def on_trial_result(
        self, iteration: int, trials: list[Trial], trial: Trial, result: dict[str, Any], **info: Any
    ) -> None:
        """One line for the epoch, then the state of the study."""
        self.epochs_seen += 1
        number = self.numbers.setdefault(trial.trial_id, len(self.numbers))
        if "failure" in result:
            self._line(f"trial {number:02d} failed: {result['failure_message']}")
            return
        if result["best_objective"] > self.best.get("best_objective", float("-inf")):
            self.best = dict(result)
        self._line(f"trial {number:02d} {epoch_line(result, self.num_epochs)}")
        self._status(trials)

    def on_trial_complete(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Count how the trial ended."""
        last = trial.last_result or {}
        spared = self.num_epochs - int(last.get("training_iteration", 0))
        self.epochs_spared += max(0, spared)
        if "failure" in last:
            self.failed += 1
        elif spared > 0:
            self.stopped += 1
        else:
            self.done += 1

    def on_trial_error(self, iteration: int, trials: list[Trial], trial: Trial, **info: Any) -> None:
        """Say that a trial broke; Tune may start it again."""
        self.failed += 1
        self._line(f"trial {self.numbers.get(trial.trial_id, 0):02d} broke: see {trial.error_file}")

    def summary(self, running: int) -> str:
        """Trials done, running and stopped, the best so far, and the time left."""
        text = f"{self.done} done, {running} running, {self.stopped} stopped early, {self.failed} failed"
        text += f" of {self.num_trials}"
        if self.best:
            text += f" | best {_rationale(self.best, 'best_')}" + (
                "" if self.best["criterion_violation"] == 0 else " (criterion not met yet)"
            )
        left = self.num_trials * self.num_epochs - self.epochs_seen - self.epochs_spared
        seconds = (time.monotonic() - self.started) / max(self.epochs_seen, 1) * max(left, 0)
        return f"{text} | at most {clock(seconds)} left"

    def _status(self, trials: list[Trial]) -> None:
        running = sum(trial.status == "RUNNING" for trial in trials)
        if self._out.isatty():
            print(self.summary(running), end="\r", file=self._out, flush=True)
        elif self.epochs_seen % 10 == 0:
            print(f"study: {self.summary(running)}", file=self._out, flush=True)

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

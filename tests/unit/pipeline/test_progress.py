import io
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import pytest

from pipeline import progress
from pipeline.ledger import Ledger, Proposal
from pipeline.progress import ProgressLines, epoch_line
from pipeline.recorder import Recorder
from pipeline.trainable import RESUMED
from tests.small_study import POINT


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, to be set."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """Which writes the ledger of trials of four epochs."""
    return Recorder(Ledger(tmp_path), None, 4, lambda: None)


def lines_of(recorder: Recorder, num_trials: int, stream: TextIO | None = None) -> ProgressLines:
    return ProgressLines(recorder.ledger, num_trials, recorder.num_epochs, stream or io.StringIO())


def trial(recorder: Recorder, trial_id: str) -> Any:
    """A trial that has begun."""
    storage = SimpleNamespace(experiment_dir_name="tune", trial_dir_name=trial_id)
    recorder.ledger.begin(trial_id, POINT, Proposal(POINT, {}))
    return SimpleNamespace(trial_id=trial_id, config=POINT, storage=storage, error_file="/errors/x.txt")


def epoch(number: int, **more: Any) -> dict[str, Any]:
    return {
        "epoch": number,
        "epochs": number + 1,
        "train_objective": 0.04321,
        "val_mse": 0.02,
        "val_token_precision": 0.5,
        "val_token_recall": 0.25,
        "val_selection_rate": 0.125,
        "best_val_token_precision": 0.6,
        "best_val_token_recall": 0.3,
        "best_val_selection_rate": 0.1,
        "best_objective": 0.3,
        "criterion_violation": 0.0,
        "epoch_s": 12.34,
        "checkpoint_dir_name": f"checkpoint_{number:06d}",
        **more,
    }


def failed(number: int) -> dict[str, Any]:
    return {
        "epoch": number,
        "failure": "degenerate_none",
        "failure_message": "degenerate_none: epoch 1: selection rate 0.000",
        "best_objective": -1e9,
    }


def report(recorder: Recorder, lines: ProgressLines, one: Any, result: dict[str, Any]):
    for callback in (recorder, lines):
        callback.on_trial_result(iteration=0, trials=[one], trial=one, result=result)


def summary(recorder: Recorder, num_trials: int) -> str:
    return lines_of(recorder, num_trials).summary()


def test_an_epoch_in_one_line():
    assert epoch_line(epoch(1), 8) == (
        "epoch 2/8  loss 0.0432  val_mse 0.0200  precision 0.500 recall 0.250 selection_rate 0.125  12.3 s"
    )


def test_a_classifier_shows_its_accuracy():
    shown = {name: value for name, value in epoch(0).items() if name != "val_mse"}
    assert "  val_accuracy 0.7500  " in epoch_line({**shown, "val_accuracy": 0.75}, 8)


def test_plain_lines_where_there_is_no_terminal(recorder: Recorder, clock: list[float]):
    stream = io.StringIO()
    recorder.num_epochs = 20
    lines, one = lines_of(recorder, 2, stream), trial(recorder, "a")
    for number in range(20):
        clock[0] += 3
        report(recorder, lines, one, epoch(number))
    said = stream.getvalue()
    assert "\033" not in said
    assert "\r" not in said
    written = said.splitlines()
    assert written[0].startswith("trial 00 epoch 1/20  loss 0.0432")
    assert [i for i, line in enumerate(written) if line.startswith("study: ")] == [10, 21], "each tenth epoch"
    assert len(written) == 22


@pytest.mark.parametrize("columns", [40, 80, 120, 200])
def test_a_status_is_cut_to_the_terminal_and_taken_away_at_the_end(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch, columns: int
):
    monkeypatch.setenv("COLUMNS", str(columns))
    stream = Terminal()
    lines, one = lines_of(recorder, 2, stream), trial(recorder, "a")
    report(recorder, lines, one, epoch(0))
    status = stream.getvalue().splitlines()[-1].removeprefix("\033[K")
    assert status == lines.summary()[: columns - 1]
    lines.on_experiment_end([])
    assert stream.getvalue().endswith("\r\033[K")
    assert "\033" not in plain_end(recorder)


def plain_end(recorder: Recorder) -> str:
    stream = io.StringIO()
    lines_of(recorder, 2, stream).on_experiment_end([])
    return stream.getvalue()


def test_a_terminal_has_a_status_line_that_is_written_over(
    recorder: Recorder, clock: list[float], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "200")
    stream = Terminal()
    lines, one = lines_of(recorder, 2, stream), trial(recorder, "a")
    report(recorder, lines, one, epoch(0))
    report(recorder, lines, one, epoch(1))
    said = stream.getvalue()
    assert said.count("\r") == 2
    assert said.startswith("\033[Ktrial 00 epoch 1/4")
    # the status gives way to the next epoch's line
    assert "left\r\033[Ktrial 00 epoch 2/4" in said
    assert "study:" not in said


def test_trials_have_the_numbers_of_the_ledger(recorder: Recorder):
    stream = io.StringIO()
    lines = lines_of(recorder, 3, stream)
    first, second = trial(recorder, "x"), trial(recorder, "y")
    report(recorder, lines, second, epoch(0))
    report(recorder, lines, first, epoch(0))
    again = trial(recorder, "z")
    again.config = {**POINT, RESUMED: {"trial_id": "y", "checkpoints": []}}
    report(recorder, lines, again, epoch(1))
    assert [line[:8] for line in stream.getvalue().splitlines()] == ["trial 01", "trial 00", "trial 01"]


def test_how_trials_end_is_counted(recorder: Recorder):
    lines = lines_of(recorder, 6)
    whole, stopped, broken, crashed, _ = (trial(recorder, name) for name in "abcde")
    for number in range(4):
        report(recorder, lines, whole, epoch(number))
    report(recorder, lines, stopped, epoch(0, done=True))
    report(recorder, lines, broken, failed(1))
    crashed.error_file = None
    recorder.on_trial_error(iteration=0, trials=[], trial=crashed)
    recorder.ledger.begin("replicate", POINT, None)
    assert lines.summary().startswith("1 done, 1 running, 1 stopped early, 2 failed of 6")


def test_a_failure_is_said_with_its_reason_and_is_never_the_best(recorder: Recorder):
    stream = io.StringIO()
    lines = lines_of(recorder, 1, stream)
    report(recorder, lines, trial(recorder, "a"), failed(0))
    assert stream.getvalue() == "trial 00 failed: degenerate_none: epoch 1: selection rate 0.000\n"
    assert "best" not in lines.summary()


def test_a_crash_names_the_file_of_its_traceback(recorder: Recorder):
    stream = io.StringIO()
    lines, one = lines_of(recorder, 1, stream), trial(recorder, "a")
    lines.on_trial_error(iteration=0, trials=[], trial=one)
    assert stream.getvalue() == "trial 00 broke: see /errors/x.txt\n"


def test_a_worker_that_died_is_told(recorder: Recorder):
    stream = io.StringIO()
    lines, one = lines_of(recorder, 1, stream), trial(recorder, "a")
    lines.on_trial_recover(iteration=0, trials=[one], trial=one)
    assert stream.getvalue() == "trial 00 lost its worker, and goes on from its last checkpoint\n"


def test_the_best_so_far_is_that_of_the_highest_objective(recorder: Recorder):
    lines, one, two = lines_of(recorder, 2), trial(recorder, "a"), trial(recorder, "b")
    report(recorder, lines, one, epoch(0, best_objective=0.3))
    report(recorder, lines, two, epoch(0, best_objective=0.2, best_val_token_precision=0.9))
    assert "best precision 0.600 recall 0.300 selection_rate 0.100 |" in lines.summary()
    report(recorder, lines, two, epoch(1, best_objective=0.4, best_val_token_precision=0.9))
    assert "best precision 0.900" in lines.summary()


def test_a_best_that_does_not_meet_the_criterion_is_said_to(recorder: Recorder):
    lines = lines_of(recorder, 2)
    report(recorder, lines, trial(recorder, "a"), epoch(0, criterion_violation=0.1, best_objective=-0.1))
    assert "selection_rate 0.100 (criterion not met yet) | at most" in lines.summary()


def test_time_left_is_what_the_epochs_so_far_took_times_those_to_come(recorder: Recorder, clock: list[float]):
    lines, one, two = lines_of(recorder, 3), trial(recorder, "a"), trial(recorder, "b")
    for number in range(2):
        clock[0] += 100
        report(recorder, lines, one, epoch(number))
    assert lines.summary().endswith("| at most 16:40 left")  # 10 epochs of 100 s
    clock[0] += 100
    report(recorder, lines, one, epoch(2, done=True))  # stopped early: one epoch less
    assert lines.summary().endswith("| at most 13:20 left")
    for number in range(4):
        clock[0] += 1000
        report(recorder, lines, two, epoch(number))
    assert lines.summary().endswith("| at most 40:57 left")  # 4 of 614 s


def test_a_resumed_study_counts_its_own_time_and_the_epochs_that_were_there(
    recorder: Recorder, clock: list[float]
):
    one = trial(recorder, "a")
    report(recorder, lines_of(recorder, 2), one, epoch(0))
    clock[0] += 1e6  # the study lay still for days
    again = lines_of(recorder, 2)
    clock[0] += 10
    report(recorder, again, one, epoch(1))
    assert again.summary().endswith("| at most 1:00 left")  # 6 of 10 s


def test_hours_are_shown_as_hours(recorder: Recorder, clock: list[float]):
    lines = lines_of(recorder, 1)
    clock[0] += 3725 / 3
    report(recorder, lines, trial(recorder, "a"), epoch(0))
    assert lines.summary().endswith("| at most 1:02:05 left")


def test_epochs_that_are_trained_again_leave_no_negative_time(recorder: Recorder, clock: list[float]):
    lines, one = lines_of(recorder, 1), trial(recorder, "a")
    for number in (0, 1, 1, 2, 3, 3):
        clock[0] += 10
        report(recorder, lines, one, epoch(number))
    assert lines.summary().endswith("| at most 0:00 left")


def test_without_an_epoch_there_is_a_summary_all_the_same(recorder: Recorder):
    assert summary(recorder, 4).startswith("0 done, 0 running, 0 stopped early")


def test_it_travels_with_tunes_snapshots(recorder: Recorder):
    assert isinstance(pickle.loads(pickle.dumps(lines_of(recorder, 2, sys.stdout))), ProgressLines)

import io
import pickle
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline import progress
from pipeline.progress import ProgressLines, epoch_line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, to be set."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def trial(trial_id: str, status: str = "RUNNING") -> Any:
    return SimpleNamespace(trial_id=trial_id, status=status, last_result={}, error_file="/errors/x.txt")


def epoch(number: int, **more: Any) -> dict[str, Any]:
    return {
        "epoch": number,
        "training_iteration": number + 1,
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
        **more,
    }


def failed(number: int) -> dict[str, Any]:
    return {
        "epoch": number,
        "training_iteration": number + 1,
        "failure": "degenerate_none",
        "failure_message": "degenerate_none: epoch 1: selection rate 0.000",
        "best_objective": -1e9,
    }


def report(lines: ProgressLines, one: Any, result: dict[str, Any], others: tuple[Any, ...] = ()):
    one.last_result = result
    lines.on_trial_result(iteration=0, trials=[one, *others], trial=one, result=result)


def complete(lines: ProgressLines, one: Any):
    lines.on_trial_complete(iteration=0, trials=[one], trial=one)


def test_an_epoch_in_one_line():
    assert epoch_line(epoch(1), 8) == (
        "epoch 2/8  loss 0.0432  val_mse 0.0200  precision 0.500 recall 0.250 selection_rate 0.125  12.3 s"
    )


def test_a_classifier_shows_its_accuracy():
    shown = {name: value for name, value in epoch(0).items() if name != "val_mse"}
    assert "  val_accuracy 0.7500  " in epoch_line({**shown, "val_accuracy": 0.75}, 8)


def test_plain_lines_where_there_is_no_terminal(clock: list[float]):
    stream = io.StringIO()
    lines = ProgressLines(2, 20, stream)
    one = trial("a")
    lines.on_trial_start(iteration=0, trials=[one], trial=one)
    for number in range(20):
        clock[0] += 3
        report(lines, one, epoch(number))
    said = stream.getvalue()
    assert "\033" not in said
    assert "\r" not in said
    written = said.splitlines()
    assert written[0].startswith("trial 00 epoch 1/20  loss 0.0432")
    assert [i for i, line in enumerate(written) if line.startswith("study: ")] == [10, 21], "each tenth epoch"
    assert len(written) == 22


def test_a_terminal_has_a_status_line_that_is_written_over(clock: list[float]):
    stream = Terminal()
    lines = ProgressLines(2, 4, stream)
    report(lines, trial("a"), epoch(0))
    report(lines, trial("a"), epoch(1))
    said = stream.getvalue()
    assert said.count("\r") == 2
    assert said.startswith("\033[Ktrial 00 epoch 1/4")
    # the status gives way to the next epoch's line
    assert "left\r\033[Ktrial 00 epoch 2/4" in said
    assert "study:" not in said


def test_trials_are_numbered_as_they_start():
    stream = io.StringIO()
    lines = ProgressLines(3, 2, stream)
    trials = [trial("x"), trial("y")]
    for one in trials:
        lines.on_trial_start(iteration=0, trials=trials, trial=one)
    report(lines, trials[1], epoch(0))
    report(lines, trials[0], epoch(0))
    lines.on_trial_start(iteration=0, trials=trials, trial=trials[1])  # started again after a crash
    report(lines, trials[1], epoch(1))
    assert [line[:8] for line in stream.getvalue().splitlines()] == ["trial 01", "trial 00", "trial 01"]


def test_how_trials_end_is_counted(clock: list[float]):
    lines = ProgressLines(5, 2, io.StringIO())
    whole, stopped, broken, crashed = (trial(name) for name in ("a", "b", "c", "d"))
    report(lines, whole, epoch(0))
    report(lines, whole, epoch(1))
    complete(lines, whole)
    report(lines, stopped, epoch(0))
    complete(lines, stopped)
    report(lines, broken, failed(1))
    complete(lines, broken)
    lines.on_trial_error(iteration=0, trials=[], trial=crashed)
    assert lines.summary(running=1).startswith("1 done, 1 running, 1 stopped early, 2 failed of 5")


def test_a_failure_is_said_with_its_reason_and_is_never_the_best():
    stream = io.StringIO()
    lines = ProgressLines(1, 2, stream)
    report(lines, trial("a"), failed(0))
    assert stream.getvalue() == "trial 00 failed: degenerate_none: epoch 1: selection rate 0.000\n"
    assert lines.best == {}


def test_a_crash_names_the_file_of_its_traceback():
    stream = io.StringIO()
    lines = ProgressLines(1, 2, stream)
    lines.on_trial_error(iteration=0, trials=[], trial=trial("a"))
    assert stream.getvalue() == "trial 00 broke: see /errors/x.txt\n"


def test_the_best_so_far_is_that_of_the_highest_objective():
    lines = ProgressLines(2, 2, io.StringIO())
    report(lines, trial("a"), epoch(0, best_objective=0.3))
    report(lines, trial("b"), epoch(0, best_objective=0.2, best_val_token_precision=0.9))
    assert "best precision 0.600 recall 0.300 selection_rate 0.100 |" in lines.summary(0)
    report(lines, trial("b"), epoch(1, best_objective=0.4, best_val_token_precision=0.9))
    assert "best precision 0.900" in lines.summary(0)


def test_a_best_that_does_not_meet_the_criterion_is_said_to():
    lines = ProgressLines(2, 2, io.StringIO())
    report(lines, trial("a"), epoch(0, criterion_violation=0.1, best_objective=-0.1))
    assert "selection_rate 0.100 (criterion not met yet) | at most" in lines.summary(0)


def test_time_left_is_what_the_epochs_so_far_took_times_those_to_come(clock: list[float]):
    lines = ProgressLines(3, 4, io.StringIO())
    one, two = trial("a"), trial("b")
    for number in range(2):
        clock[0] += 100
        report(lines, one, epoch(number))
    assert lines.summary(1).endswith("| at most 16:40 left")  # 10 epochs of 100 s
    complete(lines, one)  # stopped early: two epochs less
    assert lines.summary(1).endswith("| at most 13:20 left")
    for number in range(4):
        clock[0] += 1000
        report(lines, two, epoch(number))
    complete(lines, two)
    assert lines.summary(0).endswith("| at most 46:40 left")  # 4 of 700 s


def test_hours_are_shown_as_hours(clock: list[float]):
    lines = ProgressLines(1, 2, io.StringIO())
    clock[0] += 3725
    report(lines, trial("a"), epoch(0))
    assert lines.summary(1).endswith("| at most 1:02:05 left")


def test_more_epochs_than_planned_leave_no_negative_time(clock: list[float]):
    lines = ProgressLines(1, 1, io.StringIO())
    for number in range(3):  # a restored trial repeats epochs
        clock[0] += 10
        report(lines, trial("a"), epoch(number))
    assert lines.summary(0).endswith("| at most 0:00 left")


def test_without_an_epoch_there_is_a_summary_all_the_same():
    assert ProgressLines(4, 2, io.StringIO()).summary(0).startswith("0 done, 0 running, 0 stopped early")


def test_it_travels_with_tunes_snapshot_and_writes_to_stderr_afterwards(
    clock: list[float], capsys: pytest.CaptureFixture[str]
):
    lines = ProgressLines(2, 4, sys.stdout)
    report(lines, trial("a"), epoch(0))
    capsys.readouterr()
    clock[0] += 1e6  # the study lay still for days
    again = pickle.loads(pickle.dumps(lines))
    clock[0] += 10
    report(again, trial("a"), epoch(1))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("trial 00 epoch 2/4")
    assert again.summary(1).endswith("| at most 0:30 left"), "the pause does not count"

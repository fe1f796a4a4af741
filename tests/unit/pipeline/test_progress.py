import io
import itertools
import pickle
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TextIO

import pytest

from feature_store import terminal
from pipeline.study import ledger as ledger_module
from pipeline.study import progress
from pipeline.study.ledger import Ledger, Proposal
from pipeline.study.progress import Plan, ProgressLines, epoch_line
from pipeline.study.recorder import Recorder, heard
from pipeline.training.trainable import RESUMED
from tests.small_study import POINT, criterion


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time in seconds, to be set."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "time", lambda: now[0])
    monkeypatch.setattr(ledger_module.time, "time", lambda: now[0])
    return now


@pytest.fixture
def recorder(tmp_path: Path) -> Recorder:
    """Which writes the ledger of trials of four epochs."""
    return Recorder(Ledger(tmp_path), None, 4, lambda: None)


@pytest.fixture
def moving(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if a table moved on the terminal."""
    monkeypatch.setattr(terminal, "is_open", lambda: True)
    yield


def lines_of(recorder: Recorder, num_trials: int, stream: TextIO | None = None, **more: Any) -> ProgressLines:
    plan = Plan(
        dataset="beer",
        criterion=criterion(),
        num_trials=num_trials,
        num_epochs=recorder.num_epochs,
        **more,
    )
    return ProgressLines(recorder.ledger, plan, stream or io.StringIO())


def trial(recorder: Recorder, trial_id: str) -> Any:
    """A trial that has begun."""
    storage = SimpleNamespace(experiment_dir_name="tune", trial_dir_name=trial_id)
    recorder.ledger.begin(trial_id, POINT, Proposal(POINT, {}))
    return SimpleNamespace(trial_id=trial_id, config=POINT, storage=storage, error_file="/errors/x.txt")


def line_of(result: dict[str, Any], num_epochs: int, name: str = "", decisive: Sequence[str] = ()) -> str:
    """The line of an epoch as Tune hands it to callbacks."""
    return epoch_line(heard(result), num_epochs, decisive, name)


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
        "best_epoch": number,
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


def board(lines: ProgressLines, width: int = 117, height: int = 30, is_over: bool = False) -> list[str]:
    return [text for text, _ in lines(width, height, is_over=is_over)]


# ------------------------------------------------------------------------------------------- an epoch


def test_an_epoch_in_one_line():
    assert line_of(epoch(1), 8) == (
        "epoch 2/8  loss 0.043  mse 0.0200  P 0.500 R 0.250  selected 0.125  12.3 s"
    )


def test_the_loss_gives_way_to_the_name():
    assert line_of(epoch(1), 8, "trial 00") == (
        "trial 00 epoch 2/8  mse 0.0200  P 0.500 R 0.250  selected 0.125  12.3 s"
    )


POSTS = {"val_accuracy": 0.75, "val_hatexplain_token_f1": 0.5}


def scores(*left_out: str, **more: float) -> dict[str, Any]:
    return {name: value for name, value in epoch(99, epoch_s=123.4, **more).items() if name not in left_out}


@pytest.mark.parametrize(
    "result",
    [
        scores(),
        scores("val_mse", **POSTS),
        scores("val_mse", "val_token_precision", "val_token_recall", val_accuracy=0.75),
        scores("val_token_precision", "val_token_recall"),
    ],
    ids=["beer", "posts", "cases", "scores"],
)
def test_a_search_has_no_line_that_an_ordinary_terminal_would_break(result: dict[str, Any]):
    line = line_of(result, 100, "trial 00")
    assert len(line) <= 80
    assert line.startswith("trial 00 epoch 100/100  ")
    assert "selected 0.125" in line and line.endswith("123.4 s")


@pytest.mark.parametrize(
    ("decisive", "shown", "left_out"),
    [
        (["val_hatexplain_token_f1", "val_token_precision"], "P 0.500", "R 0."),
        (["val_token_recall"], "R 0.250", "P 0."),
        (["val_hatexplain_token_f1", "val_accuracy"], "F1 0.500", "R 0."),
    ],
)
def test_a_score_that_decides_stays_in_a_line_of_posts(decisive: list[str], shown: str, left_out: str):
    line = line_of(scores("val_mse", **POSTS), 50, "HardKuma", decisive)
    assert len(line) <= 80
    assert f"  {shown}  " in line and left_out not in line
    assert len(line_of(scores("val_mse", **POSTS), 100, "HardKuma 1", decisive)) <= 80, "without the time"


def test_a_classifier_shows_its_accuracy():
    shown = {name: value for name, value in epoch(0).items() if name != "val_mse"}
    assert "  accuracy 0.750  " in line_of({**shown, "val_accuracy": 0.75}, 8)


def test_a_number_that_is_not_finite_is_shown_as_it_is():
    assert "loss nan" in line_of(epoch(0, train_objective=float("nan")), 8)


# ------------------------------------------------------------------------------ without a terminal


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
    assert max(map(len, written)) <= 100
    assert written[0].startswith("trial 00 epoch 1/20  mse 0.0200")
    states = [i for i, line in enumerate(written) if line.startswith("study: ")]
    assert states == [10, 22], "each tenth epoch"
    assert written[10] == "study: 0 of 2 trials ended, 1 running; about 90 s left".replace("90 s", "2 min")
    assert written[11].startswith("best: trial 00 at epoch 1")
    assert len(written) == 24


def test_a_trial_that_is_stopped_early_has_a_line(recorder: Recorder):
    stream = io.StringIO()
    recorder.num_epochs = 2
    lines = lines_of(recorder, 2, stream)
    early, whole = trial(recorder, "a"), trial(recorder, "b")
    report(recorder, lines, early, epoch(0))
    lines.on_trial_complete(iteration=0, trials=[early], trial=early)
    for number in range(2):
        report(recorder, lines, whole, epoch(number))
    lines.on_trial_complete(iteration=0, trials=[whole], trial=whole)
    said = [line for line in stream.getvalue().splitlines() if "stopped" in line]
    assert said == ["trial 00 stopped early, after 1 of 2 epochs: other trials are better"]


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
    lines.on_trial_error(iteration=0, trials=[], trial=crashed)
    assert lines.counts() == "4 of 6 trials ended (1 stopped early, 2 failed), 0 running"


def test_further_seeds_are_counted_beside_the_trials(recorder: Recorder):
    lines = lines_of(recorder, 1, num_further=2)
    report(recorder, lines, trial(recorder, "a"), epoch(0, done=True))
    recorder.ledger.begin("replicate", {**POINT, "seed": 1}, None)
    one = SimpleNamespace(trial_id="replicate", config={**POINT, "seed": 1})
    lines.on_trial_start(iteration=0, trials=[], trial=one)
    assert lines.counts() == "1 of 1 trials ended (1 stopped early), 0 of 2 further seeds, 1 starting"
    assert ["01", "seed", "1", "starting", "0/4"] in [line.split()[:5] for line in board(lines)]


def test_a_failure_is_said_with_its_reason_and_is_never_the_best(recorder: Recorder):
    stream = io.StringIO()
    lines = lines_of(recorder, 1, stream)
    report(recorder, lines, trial(recorder, "a"), failed(0))
    assert stream.getvalue() == "trial 00 failed: degenerate_none: epoch 1: selection rate 0.000\n"
    assert lines.best() is None
    assert board(lines)[1] == "best so far: none"


def test_a_crash_names_the_file_of_its_traceback(recorder: Recorder):
    stream = io.StringIO()
    lines, one = lines_of(recorder, 1, stream), trial(recorder, "a")
    lines.on_trial_error(iteration=0, trials=[], trial=one)
    assert stream.getvalue() == "trial 00 crashed: see /errors/x.txt\n"


def test_a_worker_that_died_is_told(recorder: Recorder):
    stream = io.StringIO()
    lines, one = lines_of(recorder, 1, stream), trial(recorder, "a")
    lines.on_trial_recover(iteration=0, trials=[one], trial=one)
    assert stream.getvalue() == "trial 00 lost its worker and resumes from its last checkpoint\n"


# ------------------------------------------------------------------------------------- the best so far


def test_the_best_so_far_is_that_of_the_highest_objective(recorder: Recorder):
    lines, one, two = lines_of(recorder, 2), trial(recorder, "a"), trial(recorder, "b")
    report(recorder, lines, one, epoch(0, best_objective=0.3))
    report(recorder, lines, two, epoch(0, best_objective=0.2, best_val_token_precision=0.9))
    assert board(lines)[1] == (
        "best so far: trial 00 at epoch 1, precision 0.600, recall 0.300, selected 0.100, meets the criterion"
    )
    assert [line[:4] for line in board(lines)[4:]] == ["  tr", "* 00", "  01"]
    report(recorder, lines, two, epoch(1, best_objective=0.4, best_val_token_precision=0.9))
    assert "trial 01 at epoch 2, precision 0.900" in board(lines)[1]
    assert [line[:4] for line in board(lines)[4:]] == ["  tr", "  00", "* 01"]


def test_a_best_that_does_not_meet_the_criterion_is_said_to(recorder: Recorder):
    lines = lines_of(recorder, 2)
    report(recorder, lines, trial(recorder, "a"), epoch(0, criterion_violation=0.1, best_objective=-0.1))
    said = " ".join(board(lines)[1:3]).partition("criterion:")[0].strip()
    assert said.endswith("misses the criterion by 0.100")


@pytest.mark.parametrize("violation", [1e-9, 0.0002, 0.0004999])
def test_a_criterion_is_never_missed_by_nothing(recorder: Recorder, violation: float):
    lines = lines_of(recorder, 2)
    one = epoch(0, criterion_violation=violation, best_objective=-violation)
    report(recorder, lines, trial(recorder, "a"), one)
    said = " ".join(board(lines)[1:3]).partition("criterion:")[0].strip()
    assert said.endswith("misses the criterion by less than 0.001")


NONE_YET = (
    "none yet; closest: trial 00 at epoch 1, precision 0.600, recall 0.300, selected "
    "0.100 (not eligible: its start phase is not over, or it selects (nearly) all or no tokens)"
)


@pytest.mark.parametrize("violation", [1.0, 1.3])
def test_while_no_trial_can_be_chosen_none_is_called_the_best(
    recorder: Recorder, violation: float, clock: list[float]
):
    stream = io.StringIO()
    lines = lines_of(recorder, 2, stream)
    one = trial(recorder, "a")
    dense = {"criterion_violation": violation, "best_objective": -violation}
    report(recorder, lines, one, epoch(0, **dense))
    shown = [text for text, _ in lines(300, 20, is_over=False)]
    assert f"best so far: {NONE_YET}" in shown
    assert not any(line.startswith("*") for line in shown)
    assert lines.summary()[1] == f"best: {NONE_YET}"
    report(recorder, lines, one, epoch(1))
    shown = [text for text, _ in lines(300, 20, is_over=False)]
    assert shown[1].startswith("best so far: trial 00 at epoch 2, ")
    assert any(line.startswith("* 00") for line in shown)


# ------------------------------------------------------------------------------------- on a terminal


def test_on_a_terminal_the_table_takes_the_place_of_lines(recorder: Recorder, moving: None):
    stream = io.StringIO()
    lines = lines_of(recorder, 2, stream)
    one, two = trial(recorder, "a"), trial(recorder, "b")
    for number in range(3):
        report(recorder, lines, one, epoch(number))
    assert stream.getvalue() == ""
    report(recorder, lines, two, failed(0))
    assert stream.getvalue() == "trial 01 failed: degenerate_none: epoch 1: selection rate 0.000\n"


def test_the_table_has_each_trial_with_what_was_searched(recorder: Recorder, clock: list[float]):
    lines = lines_of(recorder, 5)
    done, stopped, running, started, unknown = (trial(recorder, name) for name in "abcde")
    for number in range(4):
        clock[0] += 10
        report(recorder, lines, done, epoch(number, best_objective=0.1))
    report(recorder, lines, stopped, epoch(0, best_objective=0.2, done=True))
    for callback in (lines.on_trial_start,):
        callback(iteration=0, trials=[], trial=running)
        callback(iteration=0, trials=[], trial=started)
    report(recorder, lines, running, epoch(0, best_objective=0.05))
    assert unknown.trial_id == "e"
    rows = [line.split()[:4] for line in board(lines)[5:]]
    assert rows == [
        ["02", "running", "1/4", "0.500"],
        ["03", "starting", "0/4", "1"],
        ["*", "01", "stopped", "1/4"],
        ["00", "done", "4/4", "0.500"],
        ["04", "waiting", "0/4", "1"],
    ]
    assert board(lines)[4].split()[-4:] == ["lambda_g", "lambda_ib", "lambda_lm", "lambda_mi"]
    assert board(lines)[2].startswith("criterion: best val_token_recall with val_token_precision >= 0.05")


def test_the_board_is_never_larger_than_the_terminal(recorder: Recorder):
    lines = lines_of(recorder, 40)
    for number in range(40):
        report(recorder, lines, trial(recorder, f"t{number}"), epoch(0))
    for width, height in itertools.product((37, 77, 117, 197), (1, 4, 8, 12, 50)):
        found = board(lines, width, height)
        assert len(found) <= height, (width, height)
        assert max(map(len, found)) <= width, (width, height)
    assert board(lines, 117, 12)[-1] == "  and 34 more"


def test_at_the_end_nothing_is_said_to_be_left(recorder: Recorder):
    lines = lines_of(recorder, 1)
    report(recorder, lines, trial(recorder, "a"), epoch(0))
    assert "left" in board(lines)[0]
    assert board(lines, is_over=True)[0] == "0 of 1 trials ended, 1 interrupted"


def test_the_last_board_calls_a_trial_interrupted_that_was_to_be_resumed(recorder: Recorder):
    report(recorder, lines_of(recorder, 1), trial(recorder, "a"), epoch(0))
    resumed = lines_of(recorder, 1)
    assert "waiting" in board(resumed)[-1]
    assert "interrupted" in board(resumed, is_over=True)[-1]


def test_the_last_board_calls_what_has_not_ended_interrupted(recorder: Recorder):
    lines = lines_of(recorder, 2)
    report(recorder, lines, trial(recorder, "a"), epoch(0))
    lines.on_trial_start(iteration=0, trials=[], trial=trial(recorder, "b"))
    *_, first, second = board(lines)
    assert "running" in first and "starting" in second
    head, *_, first, second = board(lines, is_over=True)
    assert head == "0 of 2 trials ended, 2 interrupted"
    assert all(row.split().count("interrupted") == 1 for row in (first, second))


# ------------------------------------------------------------------------------------------ time left


def test_time_left_comes_from_the_gaps_between_reports(recorder: Recorder, clock: list[float]):
    lines, one = lines_of(recorder, 3), trial(recorder, "a")
    clock[0] += 5000  # a start that was slow
    report(recorder, lines, one, epoch(0, epoch_s=100.0))
    clock[0] += 100
    report(recorder, lines, one, epoch(1, epoch_s=100.0))
    # two epochs of this trial, then two trials with a start of 4900 s each
    assert lines.seconds_left() == pytest.approx(2 * 100 + 2 * (4900 + 400))


def test_it_counts_down_between_reports(recorder: Recorder, clock: list[float]):
    lines, one = lines_of(recorder, 1), trial(recorder, "a")
    for number in range(2):
        clock[0] += 100
        report(recorder, lines, one, epoch(number, epoch_s=100.0))
    assert lines.seconds_left() == pytest.approx(200)
    clock[0] += 3
    assert lines.seconds_left() == pytest.approx(197)
    clock[0] += 60
    assert lines.seconds_left() == pytest.approx(137)


def test_a_resumed_study_counts_its_own_time(recorder: Recorder, clock: list[float]):
    one = trial(recorder, "a")
    report(recorder, lines_of(recorder, 1), one, epoch(0))
    clock[0] += 1e6  # the study lay still for days
    again = lines_of(recorder, 1)
    again.on_trial_start(iteration=0, trials=[], trial=one)
    for number in (1, 2):
        clock[0] += 10
        report(recorder, again, one, epoch(number))
    assert again.seconds_left() == pytest.approx(10)


def test_epochs_that_are_trained_again_leave_no_negative_time(recorder: Recorder, clock: list[float]):
    lines, one = lines_of(recorder, 1), trial(recorder, "a")
    for number in (0, 1, 1, 2, 3, 3):
        clock[0] += 10
        report(recorder, lines, one, epoch(number))
    assert lines.seconds_left() == 0


def test_before_an_epoch_it_is_not_known(recorder: Recorder):
    lines = lines_of(recorder, 4)
    assert lines.seconds_left() is None
    assert board(lines)[:2] == [
        "0 of 4 trials ended, 0 running; time left: known after the first epoch",
        "best so far: none",
    ]


def test_it_travels_with_tunes_snapshots(recorder: Recorder):
    assert isinstance(pickle.loads(pickle.dumps(lines_of(recorder, 2, sys.stdout))), ProgressLines)

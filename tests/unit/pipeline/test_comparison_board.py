"""How far a comparison is, as a terminal shows it, and what is said where there is none."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipeline.comparing.comparison_board import ComparisonBoard
from pipeline.study import ledger as ledger_module
from pipeline.study import progress
from pipeline.study.ledger import Ledger
from pipeline.study.progress import Plan
from pipeline.training.epochs import report_of
from pipeline.training.settings import RUN
from tests.small_ledger import an_epoch, train
from tests.small_study import criterion

NAMES = ["infocal-seed0", "fresh-seed0", "infocal-seed1", "fresh-seed1"]
SCORES = {"val_token_precision": 0.5, "val_token_recall": 0.25, "val_selection_rate": 0.125}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(progress.time, "time", lambda: now[0])
    monkeypatch.setattr(ledger_module.time, "time", lambda: now[0])
    return now


def board(folder: Path, slots: int = 2, stream: io.StringIO | None = None) -> ComparisonBoard:
    plan = Plan(dataset="beer", criterion=criterion(), num_trials=4, num_epochs=4, slots=slots)
    return ComparisonBoard(Ledger(folder), plan, NAMES, stream or io.StringIO())


def trial(name: str) -> Any:
    return SimpleNamespace(trial_id=name, config={RUN: name}, error_file="/errors/x.txt")


def trained(
    made: ComparisonBoard, name: str, num_epochs: int, failure: tuple[str, str] | None = None
) -> None:
    """A training has so many epochs of 10 s, of which the board has heard."""
    train(
        made.ledger, name, num_epochs, of=4, config={RUN: name}, is_replicate=True, failure=failure,
        epoch_s=10.0, **SCORES,
    )  # fmt: skip
    made.on_trial_start(iteration=0, trials=[], trial=trial(name))


def rows(made: ComparisonBoard, width: int = 117, height: int = 30) -> list[str]:
    return [text for text, _ in made(width, height, is_over=False)]


def test_those_that_train_stand_first_then_those_that_ended(tmp_path: Path, clock: list[float]):
    made = board(tmp_path)
    trained(made, "fresh-seed0", 0, failure=("all_tokens", "epoch 0: selection rate 1.000"))
    trained(made, "infocal-seed0", 1)
    trained(made, "infocal-seed1", 0)
    found = rows(made)
    assert found[0].startswith("1 of 4 trainings ended, 1 running, 1 starting; ")
    assert [line.split()[:3] for line in found[3:]] == [
        ["infocal-seed0", "running", "1/4"],
        ["infocal-seed1", "starting", "0/4"],
        ["fresh-seed0", "failed", "0/4"],
        ["fresh-seed1", "waiting", "0/4"],
    ]


def test_of_a_training_that_was_begun_again_the_last_trial_counts(tmp_path: Path, clock: list[float]):
    made = board(tmp_path)
    trained(made, "fresh-seed0", 1, failure=("error", "a crash"))
    made.ledger.begin("fresh-seed0-2", {RUN: "fresh-seed0"}, None)
    again = SimpleNamespace(trial_id="fresh-seed0-2", config={RUN: "fresh-seed0"})
    made.on_trial_start(iteration=0, trials=[], trial=again)
    assert made.counts() == "0 of 4 trainings ended, 1 starting"


def test_the_time_left_follows_from_what_runs_side_by_side(tmp_path: Path, clock: list[float]):
    made = board(tmp_path)
    for number in range(2):
        clock[0] += 10
        for name in NAMES[:2]:
            trained(made, name, number + 1)
    # 20 s of the two that run, and then 40 s of the other two
    assert made.summary() == ["comparison: 0 of 4 trainings ended, 2 running; about 60 s left"]


def test_epochs_of_an_interrupted_training_count_as_what_they_took(tmp_path: Path, clock: list[float]):
    train(Ledger(tmp_path), NAMES[0], 3, of=4, config={RUN: NAMES[0]}, is_replicate=True, epoch_s=10.0)
    clock[0] += 500
    made = board(tmp_path, slots=1)
    assert [line.split()[:3] for line in rows(made)[-4:-2]] == [
        ["infocal-seed0", "waiting", "3/4"],
        ["fresh-seed0", "waiting", "0/4"],
    ]
    made.on_trial_start(iteration=0, trials=[], trial=trial(NAMES[0]))
    assert made.counts() == "0 of 4 trainings ended, 1 running"
    assert made.summary()[0].endswith("; about 2 min left")  # 13 epochs of 10 s


def test_before_an_epoch_nothing_is_known_of_the_time(tmp_path: Path):
    text = "comparison: 0 of 4 trainings ended, 0 running; time left: known after the first epoch"
    assert board(tmp_path).summary() == [text]


def test_at_the_end_no_time_is_left(tmp_path: Path):
    (head, _), *_ = board(tmp_path)(117, 30, is_over=True)
    assert head == "0 of 4 trainings ended, 0 running"


@pytest.mark.parametrize("width", [37, 77, 197])
@pytest.mark.parametrize("height", [1, 4, 6, 30])
def test_it_is_never_larger_than_the_terminal(tmp_path: Path, width: int, height: int):
    made = board(tmp_path)
    trained(made, "infocal-seed0", 1)
    found = rows(made, width, height)
    assert len(found) <= height
    assert max(map(len, found)) <= width


def test_without_a_terminal_each_epoch_is_a_line_that_names_its_training(tmp_path: Path):
    stream = io.StringIO()
    made = board(tmp_path, stream=stream)
    trained(made, "infocal-seed0", 1)
    one = trial("infocal-seed0")
    result = report_of(an_epoch(0, **SCORES))
    made.on_trial_result(iteration=0, trials=[one], trial=one, result=result)
    made.on_trial_recover(iteration=0, trials=[one], trial=one)
    made.on_trial_error(iteration=0, trials=[one], trial=one)
    assert stream.getvalue().splitlines() == [
        "infocal-seed0 epoch 1/4  mse 0.0200  P 0.500 R 0.250  selected 0.125  1.5 s",
        "infocal-seed0 lost its worker and resumes from its last checkpoint",
        "infocal-seed0 crashed: see /errors/x.txt",
    ]

"""How far a comparison is, as a terminal shows it."""

from typing import Any

import pytest

from pipeline.comparing import comparison_board
from pipeline.comparing.comparison_board import ComparisonBoard

NAMES = ["infocal-seed0", "fresh-seed0", "infocal-seed1", "fresh-seed1"]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(comparison_board.time, "time", lambda: now[0])
    return now


def board(slots: int = 2) -> ComparisonBoard:
    return ComparisonBoard("beer", NAMES, num_epochs=4, slots=slots)


def epoch(number: int) -> dict[str, Any]:
    scores = {
        "val_token_precision": 0.5,
        "val_token_recall": 0.25,
        "val_selection_rate": 0.125,
        "val_mse": 0.02,
    }
    return {"epoch": number, "epoch_s": 10.0, "note": "text", **scores}


def rows(made: ComparisonBoard, width: int = 117, height: int = 30) -> list[str]:
    return [text for text, _ in made(width, height, is_over=False)]


def test_those_that_train_stand_first_then_those_that_ended(clock: list[float]):
    made = board()
    made.epochs("infocal-seed0", [epoch(0)])
    made.end("fresh-seed0", "failed")
    found = rows(made)
    assert found[0].startswith("1 of 4 trainings ended, 1 running, 1 starting; ")
    assert [line.split()[:3] for line in found[3:]] == [
        ["infocal-seed0", "running", "1/4"],
        ["infocal-seed1", "starting", "0/4"],
        ["fresh-seed0", "failed", "0/4"],
        ["fresh-seed1", "waiting", "0/4"],
    ]


def test_the_time_left_follows_from_what_runs_side_by_side(clock: list[float]):
    made = board()
    for number in range(2):
        clock[0] += 10
        for name in NAMES[:2]:
            made.epochs(name, [epoch(number)])
    # 20 s of the two that run, and then 40 s of the other two
    assert made.summary() == "0 of 4 trainings ended, 2 running; about 60 s left"


def test_epochs_of_an_interrupted_training_come_at_once_and_count_as_what_they_took(clock: list[float]):
    made = board(slots=1)
    clock[0] += 1
    made.epochs("infocal-seed0", [epoch(0), epoch(1), epoch(2)])
    assert made.trainings["infocal-seed0"].reports == [981.0, 991.0, 1001.0]
    assert made.summary() == "0 of 4 trainings ended, 1 running; about 2 min left"  # 13 epochs of 10 s
    made.epochs("infocal-seed0", [])
    assert len(made.trainings["infocal-seed0"].reports) == 3


def test_before_an_epoch_nothing_is_known_of_the_time():
    assert board().summary() == "0 of 4 trainings ended, 2 starting; time left known after an epoch"


def test_at_the_end_no_time_is_left():
    made = board()
    (head, _), *_ = made(117, 30, is_over=True)
    assert head == "0 of 4 trainings ended, 2 starting"


@pytest.mark.parametrize("width", [37, 77, 197])
@pytest.mark.parametrize("height", [1, 4, 6, 30])
def test_it_is_never_larger_than_the_terminal(width: int, height: int):
    made = board()
    made.epochs("infocal-seed0", [epoch(0)])
    found = rows(made, width, height)
    assert len(found) <= height
    assert max(map(len, found)) <= width

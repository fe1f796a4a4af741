"""A training without a search: a line an epoch, or on a terminal a table of one row."""

import logging
from collections.abc import Iterator

import pytest

from feature_store import terminal
from pipeline.study.lone_board import LoneBoard
from pipeline.training.epochs import Epoch

LOGGER = logging.getLogger("test_lone_board")


def result(epoch: int) -> Epoch:
    numbers = {
        "best_objective": 0.6,
        "criterion_violation": 0.0,
        "epoch_s": 2.0,
        "val_accuracy": 0.9,
        "val_token_precision": 0.7,
        "val_token_recall": 0.6,
        "val_selection_rate": 0.2,
    }
    return Epoch.of_numbers(epoch, numbers)


def board(num_epochs: int = 4) -> LoneBoard:
    return LoneBoard("jsonl", num_epochs, LOGGER, name="HardKuma", decisive=("val_token_precision",))


@pytest.fixture
def moving(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(terminal, "_screen", [object()])
    yield


def test_without_a_terminal_each_epoch_is_a_line_with_the_time_left(caplog: pytest.LogCaptureFixture):
    shown = board()
    with caplog.at_level(logging.INFO):
        for epoch in range(4):
            shown.take(result(epoch), "as recorded")
    assert len(caplog.messages) == 4
    assert all(line.startswith(f"HardKuma epoch {i}/4") for i, line in enumerate(caplog.messages, start=1))
    assert all("as recorded; about" in line and line.endswith("left") for line in caplog.messages[:3])
    assert caplog.messages[-1].endswith("as recorded"), "after the last epoch nothing is left"


@pytest.mark.parametrize("width", [40, 77, 200])
def test_on_a_terminal_an_epoch_changes_the_row_and_writes_no_line(
    width: int, moving: None, caplog: pytest.LogCaptureFixture
):
    shown = board(50)
    with caplog.at_level(logging.INFO):
        for epoch in range(3):
            shown.take(result(epoch), "largest difference 0.02")
    assert caplog.messages == []
    lines = [text for text, _ in shown(width, 10, is_over=False)]
    assert all(terminal.columns(line) <= width for line in lines)
    said = " ".join(lines)
    assert "epoch 3: largest difference 0.02" in said
    assert "3/50" in said
    assert " left" in said
    assert "HardKuma" in said
    assert ("0.700" in said) == (width > 40), "the score that decides, for own data, too"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "decisive",
    [
        ("val_hatexplain_token_f1", "val_accuracy", "val_selection_rate", "val_token_precision"),
        ("val_macro_f1", "val_token_precision"),
        ("val_auprc", "val_accuracy"),
    ],
    ids=["the rival of posts", "macro F1", "AUPRC"],
)
def test_scores_that_decide_have_room_before_all_others(decisive: tuple[str, ...], width: int, moving: None):
    names = ("accuracy", "macro_f1", "auroc_ovo", "hatexplain_iou_f1", "hatexplain_token_f1", "auprc")
    names += (
        "token_precision",
        "token_recall",
        "selection_rate",
        "macro_precision",
        "selection_rate_annotated",
    )
    values = {f"val_{name}": 0.101 + 0.01 * i for i, name in enumerate(names)}
    shown = LoneBoard("hatexplain", 50, LOGGER, name="HardKuma", decisive=decisive)
    shown.take(Epoch.of_numbers(1, {"best_objective": 0.6, "criterion_violation": 0.0, **values}))
    lines = [text for text, _ in shown(width, 10, is_over=False)]
    place = next(i for i, text in enumerate(lines) if "HardKuma" in text)
    titles, row = lines[place - 1 : place + 1]
    assert terminal.columns(titles) <= width
    for name in decisive:
        assert f"{values[name]:.3f}" in row, (name, titles)


def test_before_the_first_epoch_the_training_is_said_to_start():
    lines = [text for text, _ in board()(80, 10, is_over=False)]
    assert lines[0] == "time left: known after the first epoch"
    assert "starting" in lines[-1]
    assert "0/4" in lines[-1]


@pytest.mark.parametrize("height", [0, 1, 2, 3])
def test_it_is_never_higher_than_there_is_room_for(height: int):
    shown = board()
    shown.take(result(0))
    assert len(shown(80, height, is_over=False)) <= height


def test_a_training_that_goes_on_counts_what_is_left_and_not_what_was_done():
    shown = board(10)
    shown.take(result(8))
    assert shown._seconds_left() == pytest.approx(2.0, abs=1.0), "one epoch of 2 s"


def test_at_the_end_nothing_is_left():
    shown = board(2)
    shown.take(result(1))
    said = " ".join(text for text, _ in shown(80, 10, is_over=True))
    assert "left" not in said
    assert "interrupted" in said and "running" not in said

"""A table of trials fits every terminal, and keeps what matters most."""

import pytest

from feature_store.terminal import columns
from pipeline.study.trial_table import TrialRow, lines

SCORES = {
    "val_token_precision": 0.1844,
    "val_token_recall": 1.0,
    "val_token_f1": 0.3111,
    "val_selection_rate": 0.929,
    "val_mse": 0.0809,
}
POSTS = {
    "val_accuracy": 0.61,
    "val_macro_f1": 0.55,
    "val_auroc_ovo": 0.7,
    "val_hatexplain_iou_f1": 0.2,
    "val_hatexplain_token_f1": 0.4,
    "val_auprc": 0.5,
    "val_selection_rate": 0.3,
    "val_selection_rate_annotated": 0.4,
}
POINT = {"lambda_g": 1.0, "lambda_ib": 0.0003, "lambda_lm": 0.005, "lambda_mi": 0.1}


def row(number: int, **changes: object) -> TrialRow:
    given = {"state": "running", "num_epochs": number % 51, "scores": SCORES, "searched": POINT}
    return TrialRow(name=f"{number:02d}", **{**given, **changes})


def table(rows: list[TrialRow], width: int, height: int = 30, dataset: str = "beer") -> list[str]:
    decisive = ["val_token_recall", "val_token_precision"]
    if dataset == "hatexplain":
        decisive = ["val_hatexplain_token_f1", "val_accuracy"]
    found = lines(
        rows,
        what="trial",
        num_epochs=50,
        dataset=dataset,
        decisive=decisive,
        width=width,
        height=height,
    )
    return [text for text, _ in found]


def test_with_room_every_column_stands_under_its_name():
    assert table([row(0), row(11, is_best=True)], 120) == [
        "  trial  state    epoch  precision  recall     f1  selected     mse  "
        "lambda_g  lambda_ib  lambda_lm  lambda_mi",
        "  00     running   0/50      0.184   1.000  0.311     0.929  0.0809  "
        "       1     0.0003      0.005        0.1",
        "* 11     running  11/50      0.184   1.000  0.311     0.929  0.0809  "
        "       1     0.0003      0.005        0.1",
    ]


def test_at_80_columns_titles_are_short_and_what_follows_from_others_is_left_out():
    head, *_, legend = table([row(0)], 77)
    assert head.split() == ["trial", "state", "epoch", "P", "R", "sel", "mse", "g", "ib", "lm", "mi"]
    assert legend == "  P = precision; R = recall; sel = selected; g, ib, lm, mi = lambda_..."
    *_, more, last = table([row(i) for i in range(30)], 77, 20)
    assert (more, last) == ("  and 13 more", legend)


@pytest.mark.parametrize("dataset", ["beer", "hatexplain", "cail-small", "jsonl"])
@pytest.mark.parametrize("width", [20, 37, 57, 77, 117, 197])
@pytest.mark.parametrize("num_rows", [1, 3, 300])
def test_it_is_never_wider_or_longer_than_there_is_room(dataset: str, width: int, num_rows: int):
    scores = POSTS if dataset == "hatexplain" else SCORES
    rows = [row(i, scores=scores, is_best=i == 0) for i in range(num_rows)]
    for height in (2, 3, 4, 12):
        found = table(rows, width, height, dataset)
        assert len(found) <= height
        assert max(map(columns, found)) <= width


def test_what_decides_has_room_first():
    head, *_ = table([row(0, scores=POSTS)], 57, dataset="hatexplain")
    assert "token f1" in head and "accuracy" in head and "sel" in head
    assert "auroc" not in head


def test_rows_that_do_not_fit_are_counted():
    found = table([row(i) for i in range(40)], 77, height=10)
    assert len(found) == 10
    assert found[-1] == "  and 32 more"
    assert found[1].startswith("  00 ") and found[-2].startswith("  07 ")


def test_rows_that_just_fit_are_all_there():
    found = table([row(i) for i in range(9)], 77, height=10)
    assert len(found) == 10
    assert found[-1].startswith("  08 ")


def test_a_trial_without_an_epoch_has_empty_cells():
    _, first, second, _ = table([row(0), row(1, scores={}, state="starting", num_epochs=0)], 77)
    assert "0.929" in first
    assert second.split() == ["01", "starting", "0/50", "1", "0.0003", "0.005", "0.1"]


@pytest.mark.parametrize(("num_rows", "height"), [(0, 10), (3, 1), (3, 0), (3, -4)])
def test_without_rows_or_room_there_is_no_table(num_rows: int, height: int):
    assert table([row(i) for i in range(num_rows)], 77, height) == []


def test_a_column_that_one_row_lacks_stays():
    found = table([row(0, searched={}), row(1, searched={"lambda_ib": 0.5})], 120)
    assert found[0].endswith("lambda_ib")
    assert found[2].endswith("0.5")

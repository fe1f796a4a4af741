"""What reports show is defined, scored by the mode of the data set, and named as published tables name it."""

import pytest

from infocal.metrics.scores import MODES, definition
from pipeline.reporting.published import all_rows
from pipeline.training import columns
from search_spaces import lookup

DATASETS = ("beer", "hatexplain", "another")


@pytest.mark.parametrize("dataset", DATASETS)
def test_every_column_is_a_score_with_a_definition(dataset: str):
    names = [c.score for c in (*columns.columns(dataset), *columns.rationale_columns(dataset))]
    assert all(definition(name) for name in names)
    assert all(definition(name) for name in columns.shown(dataset))
    assert all(definition(name) for name in columns.TASK_SCORES)


@pytest.mark.parametrize("dataset", DATASETS)
def test_labels_tell_columns_apart(dataset: str):
    for group in (columns.columns(dataset), columns.compared(dataset), columns.rationale_columns(dataset)):
        assert len({column.label for column in group}) == len(group)


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_comparison_shows_once_how_much_is_selected_of_the_annotated_texts(dataset: str):
    compared = columns.compared(dataset)
    assert [column.score for column in compared].count("selection_rate_annotated") == 1
    assert [c for c in compared if c in columns.columns(dataset)] == list(columns.columns(dataset))


def test_every_mode_has_columns():
    assert columns._COLUMNS.keys() == columns._RATIONALE_COLUMNS.keys() == set(MODES)


@pytest.mark.parametrize("dataset", ["beer", "hatexplain"])
def test_published_columns_are_printed_somewhere(dataset: str):
    printed = {name for row in all_rows() if row.dataset == dataset for name in row.printed}
    assert {column.published for column in columns.columns(dataset)} - {""} <= printed | {"selected"}


def test_a_dataset_of_its_own_is_scored_as_eraser_is():
    assert lookup.metric_mode("another") == "eraser"


def test_the_criterions_metric_is_repeated_by_every_report():
    assert lookup.criterion("hatexplain", "").metric.removeprefix("val_") in columns.shown("hatexplain")
    assert lookup.criterion("beer", "palate").metric.removeprefix("val_") in columns.shown("beer")


@pytest.mark.parametrize(
    ("score", "label"),
    [("val_hatexplain_token_f1", "token F1"), ("val_mse", "MSE"), ("accuracy", "accuracy"), ("x", "x")],
)
def test_labels_of_scores(score: str, label: str):
    assert columns.label_of(score, "hatexplain") == label


def test_an_own_label_of_a_data_set_goes_before_those_of_others():
    assert columns.label_of("val_token_f1", "beer") == "F1"
    assert columns.label_of("val_token_f1", "jsonl") == "token F1"
    assert columns.label_of("val_token_precision", "beer") == "precision"
    assert columns.label_of("val_token_precision", "jsonl") == "token precision", "as its column is called"


@pytest.mark.parametrize("dataset", ["beer", "hatexplain", "cail-small", "eraser", "jsonl"])
@pytest.mark.parametrize("kind", ["relative", "paper"])
def test_every_score_that_a_criterion_reads_has_a_column(dataset: str, kind: str):
    """Without it `missed by 0.058` says of nothing what it misses."""
    read = ["val_token_precision", "val_token_f1", "val_selection_rate", "val_accuracy"]
    found = columns.of_validation(dataset, [*read, "val_mse"], read if kind == "relative" else read[:1])
    assert "val_token_precision" in found.values()
    assert len(set(found)) == len(set(found.values())), "no two columns show one score"
    if kind == "relative":
        assert set(read) <= set(found.values())
    assert list(found.values()).index("val_token_precision") < list(found.values()).index(
        "val_selection_rate"
    )


@pytest.mark.parametrize(
    ("score", "digits"), [("val_mse", 4), ("mae", 4), ("val_token_f1", 3), ("val_explained_rate", 3)]
)
def test_errors_in_0_to_1_have_a_digit_more_than_shares(score: str, digits: int):
    assert columns.digits_of(score) == digits

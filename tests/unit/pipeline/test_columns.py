"""What reports show is defined, scored by the mode of the data set, and named as published tables name it."""

import pytest

from infocal.metrics.scores import MODES, definition
from pipeline.reporting.published import all_rows
from pipeline.training import columns
from search_spaces import registry

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
    assert registry.metric_mode("another") == "eraser"


def test_the_criterions_metric_is_repeated_by_every_report():
    assert registry.criterion("hatexplain", "").metric.removeprefix("val_") in columns.shown("hatexplain")
    assert registry.criterion("beer", "palate").metric.removeprefix("val_") in columns.shown("beer")


@pytest.mark.parametrize(
    ("score", "label"),
    [("val_hatexplain_token_f1", "token F1"), ("val_mse", "MSE"), ("accuracy", "accuracy"), ("x", "x")],
)
def test_labels_of_scores(score: str, label: str):
    assert columns.label_of(score) == label

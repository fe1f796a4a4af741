"""How MLflow shows a study's trials: what its pages read is what is written."""

import json

import pytest

from pipeline.tracking import mlflow_view
from search_spaces import lookup


def view(*scores, searched=("lambda_ib", "lambda_g")):
    text = mlflow_view.trials("parent", searched, scores, scores[-1])
    return json.loads(text)


def test_the_table_has_what_was_searched_and_the_scores_best_first():
    found = view("best_val_token_precision", "best_val_token_recall")
    assert found["selectedColumns"] == [
        "params.`lambda_ib`",
        "params.`lambda_g`",
        "metrics.`best_objective`",
        "metrics.`best/token_recall`",
        "metrics.`best/token_precision`",
        "metrics.`best/epoch`",
    ]
    assert (found["orderByKey"], found["orderByAsc"]) == ("metrics.`best_objective`", False)
    assert found["searchFilter"] == "tags.`mlflow.parentRunId` = 'parent'"


def test_the_chart_has_every_searched_parameter_and_the_criterions_metric():
    found = view("best_val_token_recall", searched=("lambda_ib", "lambda_g", "lambda_mi", "lambda_lm"))
    (chart,), (section,) = found["compareRunCharts"], found["compareRunSections"]
    assert chart["selectedParams"] == ["lambda_ib", "lambda_g", "lambda_mi", "lambda_lm"]
    assert chart["selectedMetrics"] == ["best/token_recall"]
    assert section["columns"] == 1, "in a third of the page, the names of the axes overlap"
    assert (chart["type"], chart["metricSectionId"]) == ("PARALLEL", section["uuid"])
    assert found["isAccordionReordered"] is True, "else MLflow sorts it below the charts of every metric"


@pytest.mark.parametrize(("method", "dataset"), lookup.methods_and_datasets())
def test_every_view_fits_into_a_tag(method, dataset):
    names = [one.name for one in lookup.space(method, dataset, lookup.space_names(method, dataset)[0])]
    scores = [f"best_val_a_long_name_of_a_score_{i}" for i in range(16)]
    assert len(mlflow_view.trials("0" * 32, names, scores, scores[0])) <= mlflow_view.MAX_VIEW


def test_addresses():
    assert mlflow_view.table("3", "parent") == "#/experiments/3/runs?viewStateShareKey=parent"
    assert mlflow_view.chart("3", "parent").endswith("viewStateShareKey=parent&compareRunsMode=CHART")
    assert mlflow_view.run("3", "r") == "#/experiments/3/runs/r"
    assert mlflow_view.run("3", "r", "rationales.html") == "#/experiments/3/runs/r/artifacts/rationales.html"
    assert mlflow_view.tag_of("parent") == "mlflow.sharedViewState.parent"

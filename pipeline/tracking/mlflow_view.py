"""How MLflow's pages show the trials of a study: which columns, in which order, which chart.

MLflow keeps these choices in the browser, except for a view that is shared: that one is a tag of the
experiment, and its address opens it for anybody. The tag's form is that of MLflow 3.17's button `Share`.
"""

import json
from collections.abc import Sequence

from pipeline.tracking.sections import in_mlflow

_CHART, _SECTION = "trials-parallel", "trials"
MAX_VIEW = 5000
"""Characters of a tag of an experiment."""


def tag_of(study_run_id: str) -> str:
    """The tag of the experiment that holds the view of a study's trials."""
    return f"mlflow.sharedViewState.{study_run_id}"


def trials(study_run_id: str, searched: Sequence[str], scores: Sequence[str], chosen_by: str) -> str:
    """The view of a study's trials, as MLflow stores it.

    Best first, with a column for each hyper-parameter that was searched and each score; as a chart, a line
    for each trial through what was searched to the metric that the criterion maximises.

    Args:
        scores: flat names of metrics.
        chosen_by: flat name of the metric that the criterion maximises.
    """
    first = [name for name in scores if name == chosen_by]
    metrics = [in_mlflow(name) for name in (*first, *(name for name in scores if name != chosen_by))]
    chart = {
        "type": "PARALLEL",
        "uuid": _CHART,
        "metricSectionId": _SECTION,
        "deleted": False,
        "isGenerated": False,
        "selectedParams": list(searched),
        "selectedMetrics": [in_mlflow(chosen_by)],
    }
    # one chart a row: with MLflow's three, the names of the axes overlap
    section = {
        "columns": 1,
        "cardHeight": 480,
        "display": True,
        "isReordered": False,
        "deleted": False,
        "isGenerated": False,
    }
    view = {
        "searchFilter": f"tags.`mlflow.parentRunId` = '{study_run_id}'",
        "orderByKey": _column("metrics", "best_objective"),
        "orderByAsc": False,
        "selectedColumns": [
            *(_column("params", name) for name in searched),
            *(_column("metrics", name) for name in ("best_objective", *metrics, in_mlflow("best_epoch"))),
        ],
        "compareRunCharts": [chart],
        "compareRunSections": [section | {"uuid": _SECTION, "name": "What was searched"}],
        # else MLflow sorts sections by name, and this one stands below those of every metric
        "isAccordionReordered": True,
    }
    return json.dumps(view)


def _column(kind: str, name: str) -> str:
    return f"{kind}.`{name}`"


def table(experiment_id: str, study_run_id: str) -> str:
    """The part of an address, from its `#` on, that opens the view as a table."""
    return f"#/experiments/{experiment_id}/runs?viewStateShareKey={study_run_id}"


def chart(experiment_id: str, study_run_id: str) -> str:
    """The same as a chart."""
    return f"{table(experiment_id, study_run_id)}&compareRunsMode=CHART"


def run(experiment_id: str, run_id: str, artifact: str = "") -> str:
    """The part of an address that opens a run, or one of its artifacts."""
    return f"#/experiments/{experiment_id}/runs/{run_id}" + (f"/artifacts/{artifact}" if artifact else "")

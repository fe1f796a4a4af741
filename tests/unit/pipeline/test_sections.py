"""Names of metrics in MLflow: each comes back, each section is what it says, and old runs are read."""

import pytest

from infocal.metrics.scores import DEFINITIONS
from pipeline.study.findings import LINES
from pipeline.tracking import sections
from pipeline.training import columns
from search_spaces import lookup
from tests.small_store import new_store

SCORES = list(DEFINITIONS)
OTHERS = [
    "objective",
    "best_objective",
    "best_epoch",
    "criterion_violation",
    "learning_rate",
    "epoch_s",
    "train_s",
    "tokens_per_s",
    "num_seeds",
    "useful_rate",
    "trial_overhead_s",
    "gpus_per_trial_measured",
    "train_objective",
    "train_ib",
    "gradient_share_ib_selector",
    "InfoCal/token_f1_mean",
]
EVERY = sorted(
    {
        *OTHERS,
        *(
            f"{prefix}{name}"
            for prefix in ("val_", "test_", "annotated_", "best_val_", "rival_test_")
            for name in SCORES
        ),
        *(f"{prefix}calibrated_{name}" for prefix in ("val_", "test_") for name in SCORES),
        *(f"val_{name}_{kind}" for name in SCORES for kind in ("mean", "sd")),
        *(f"trivial_{line}_{name}" for line in LINES for name in SCORES),
        *(f"val_guider_{name}" for name in columns.TASK_SCORES),
    }
)


@pytest.mark.parametrize("value", [0.0, 3.0, -0.25])
def test_every_metric_comes_back_from_mlflow(value):
    for name in EVERY:
        shown = sections.in_mlflow(name)
        assert sections.flat(shown) == name
        assert sections.flat_value(shown, sections.value_in_mlflow(name, value)) == value
    assert len({sections.in_mlflow(name) for name in EVERY}) == len(EVERY), "no two share a name"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("val_token_f1", "val/token_f1"),
        ("train_objective", "train/objective"),
        ("train_s", "train_s"),
        ("test_mse", "test/mse"),
        ("best_val_token_f1", "best/token_f1"),
        ("best_objective", "best_objective"),
        ("best_epoch", "best/epoch"),
        ("gradient_share_ib_selector", "gradient_share/ib_selector"),
        ("trivial_random_k_token_f1", "trivial/random_k_token_f1"),
        ("val_", "val_"),
    ],
)
def test_sections_are_those_that_people_look_for(name, shown):
    assert sections.in_mlflow(name) == shown


@pytest.mark.parametrize("dataset", sorted({name for _, name in lookup.methods_and_datasets()}))
def test_a_criterion_reads_names_that_have_a_section(dataset):
    for score in columns.shown(dataset):
        assert sections.in_mlflow(f"best_val_{score}") == f"best/{score}"


@pytest.fixture(scope="module")
def tracker(tmp_path_factory):
    return new_store(tmp_path_factory.mktemp("store"))


def test_a_run_has_sections_in_mlflow_and_flat_names_here(tracker):
    run_id = tracker.start_run(tracker.experiment("beer", "palate"), "trial", {}, {})
    numbers = dict.fromkeys(EVERY, 0.5) | {"best_epoch": 11}
    assert not tracker.log_metrics(run_id, numbers, step=3)
    inside = tracker.client.get_run(run_id).data.metrics
    assert inside["val/token_f1"] == 0.5
    assert inside["best/epoch"] == 12, "people count epochs from 1"
    assert not [name for name in inside if name.startswith(("val_", "test_", "best_val_"))]
    assert tracker.run(run_id).metrics == numbers
    assert tracker.history(run_id, "best_epoch") == [(3, 11.0)]
    assert tracker.history(run_id, "val_token_f1") == [(3, 0.5)]


def test_a_run_of_an_older_version_is_read_and_gone_on_with(tracker):
    run_id = tracker.start_run(tracker.experiment("beer", "palate"), "old", {}, {})
    for step, value in enumerate([0.25, 0.5]):
        tracker.client.log_metric(run_id, "val_token_f1", value, step=step)
        tracker.client.log_metric(run_id, "best_epoch", step, step=step)
    assert tracker.run(run_id).metrics == {"val_token_f1": 0.5, "best_epoch": 1}
    tracker.log_metrics(run_id, {"val_token_f1": 0.75, "best_epoch": 2}, step=2)
    assert tracker.run(run_id).metrics == {"val_token_f1": 0.75, "best_epoch": 2}
    assert tracker.history(run_id, "val_token_f1") == [(0, 0.25), (1, 0.5), (2, 0.75)]
    assert tracker.history(run_id, "best_epoch") == [(0, 0), (1, 1), (2, 2)]

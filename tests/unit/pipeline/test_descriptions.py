"""What MLflow's pages say first: of an experiment, of a trial, and on which data it was trained."""

import json
from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException

from feature_store.store import FeatureRequest, open_features
from pipeline.base.errors import PipelineError
from pipeline.tracking import descriptions
from pipeline.tracking.tracked_dataset import MAX_DIGEST, dataset_of
from pipeline.tracking.tracking import NOTE_TAG
from pipeline.training.epochs import Epoch
from search_spaces.base import Criterion
from tests.small_store import new_store


@pytest.fixture(scope="module")
def tracker(tmp_path_factory):
    return new_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    request = FeatureRequest(
        dataset="beer",
        aspect="palate",
        cache_dir=tmp_path_factory.mktemp("cache"),
        sample=True,
        embedding="random",
        embedding_size=8,
    )
    return open_features(request)


RECALL = Criterion.parse("best val_token_recall with val_token_precision >= 0.7")


def test_a_trial_counts_its_epochs_from_one():
    numbers = {"best_epoch": 11.0, "best_val_token_precision": 0.75, "best_val_token_recall": 0.5}
    numbers |= {"best_objective": 0.5, "criterion_violation": 0.0}
    note = descriptions.of_trial("looks", "beer", RECALL, Epoch.of_numbers(19, numbers), 20)
    assert "`looks`" in note
    assert "Best epoch on validation: 12 of 20; precision 0.750, recall 0.500" in note


def test_a_trial_that_was_stopped_early_says_so():
    numbers = {"best_epoch": 11.0, "best_val_token_recall": 0.5, "best_objective": 0.5}
    last = Epoch.of_numbers(19, numbers | {"criterion_violation": 0.0})
    note = descriptions.of_trial("looks", "beer", RECALL, last, 24)
    assert "Best epoch on validation: 12 of 20 (stopped early, of 24 that were planned); recall" in note


def test_small_errors_keep_the_digits_that_say_something():
    numbers = {"best_epoch": 1.0, "best_val_token_recall": 0.5, "best_val_mse": 0.00221}
    numbers |= {"best_val_mse_se": 0.00018, "best_objective": 0.5, "criterion_violation": 0.0}
    note = descriptions.of_trial("looks", "beer", RECALL, Epoch.of_numbers(1, numbers), 2)
    assert "recall 0.500, mse 0.0022 ± 0.0002." in note


def test_a_trial_without_scores_has_a_description_too():
    last = Epoch.of_numbers(0, {"best_objective": 0.5, "criterion_violation": 0.0})
    assert descriptions.of_trial("looks", "beer", RECALL, last, 2) == "A trial of the study `looks`."


@pytest.mark.parametrize(
    ("dataset", "stated"),
    [
        ("hatexplain", "best val_hatexplain_token_f1 with val_token_precision >= 0.3, val_accuracy >= 0.61"),
        ("beer", "best val_iou_f1 with val_token_recall >= 0.2"),
        ("jsonl", "best val_mae"),
        ("cail-small", "best val_terms/macro_f1 with val_mean/macro_f1 >= 0.2"),
    ],
)
def test_trials_and_versions_show_every_score_that_the_criterion_reads(dataset: str, stated: str):
    criterion = Criterion.parse(stated)
    scores = {name: 0.211 + 0.01 * i for i, name in enumerate(criterion.metrics)}
    numbers = {"best_epoch": 1.0, "best_objective": 0.5, "criterion_violation": 0.0}
    numbers |= {f"best_{name}": value for name, value in scores.items()}
    note = descriptions.of_trial("looks", dataset, criterion, Epoch.of_numbers(1, numbers), 2)
    tags = {"dataset": dataset, "criterion": str(criterion)}
    version = descriptions.of_version(tags | {name: f"{v:.4f}" for name, v in scores.items()}, "abc")
    for value in scores.values():
        assert f" {value:.3f}" in note
        assert f" {value:.4f}" in version


def test_precision_of_tokens_is_told_apart_by_its_name():
    tags = {"dataset": "hatexplain", "val_accuracy": "0.6400", "val_token_precision": "0.5300"}
    tags["criterion"] = "best val_hatexplain_token_f1 with val_token_precision >= 0.3"
    assert "Scores there: accuracy 0.6400, token precision 0.5300." in descriptions.of_version(tags, "abc")


def test_a_version_whose_criterion_nobody_can_read_shows_the_scores_of_its_data():
    tags = {"dataset": "beer", "criterion": "the one we liked", "val_token_recall": "0.5000"}
    said = descriptions.of_version(tags, "abc")
    assert "its criterion: the one we liked." in said and "Scores there: recall 0.5000." in said


def test_a_score_that_rounds_to_zero_has_no_sign():
    numbers = {"best_epoch": 1.0, "best_val_sufficiency": -0.0004, "best_objective": 0.5}
    criterion = Criterion.parse("best val_sufficiency")
    last = Epoch.of_numbers(1, numbers | {"criterion_violation": 0.0})
    note = descriptions.of_trial("looks", "hatexplain", criterion, last, 2)
    assert "sufficiency 0.000." in note


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        (
            {"dataset": "beer", "aspect": "palate", "task_kind": "regression", "corpus": "sample"},
            ["**beer/palate**: data set `beer`, target `palate`. It predicts a number.", "made-up sample"],
        ),
        (
            {"dataset": "hatexplain", "aspect": "", "classes": "hate, normal, offensive"},
            ["**hatexplain**: data set `hatexplain`. Classes: hate, normal, offensive."],
        ),
        (
            {"dataset": "jsonl", "origin": "/data/inns", "corpus": "real"},
            ["data set `jsonl`.\n\nData: the folder `/data/inns`."],
        ),
    ],
)
def test_a_registered_model_names_its_data_set_and_target(tags: dict[str, str], said: list[str]):
    description = descriptions.of_model(tags)
    for part in [*said, "`champion` met it on the test split"]:
        assert part in description
    assert "None" not in description and "target ``" not in description


TAGS = {
    "dataset": "jsonl",
    "method": "hardkuma",
    "study": "inns",
    "epoch": "17",
    "criterion": "best val_token_f1 with val_selection_rate <= 0.5",
    "origin": "/data/inns",
    "corpus": "real",
    "val_token_f1": "0.8190",
}


def test_a_version_says_what_it_is_and_why_it_was_chosen():
    assert descriptions.of_version(TAGS, "abc123") == (
        "A model of **inns** (method `hardkuma`): the trial of the study `inns` with the run `abc123`, "
        "after its epoch 17.\n\n"
        "Chosen on validation by its criterion: best val_token_f1 with val_selection_rate <= 0.5.\n\n"
        "Scores there: token f1 0.8190.\n\n"
        "Data: the folder `/data/inns`."
    )


def test_own_data_are_called_by_their_title_where_they_have_one():
    titled = TAGS | {descriptions.TITLE_TAG: "Inns of Wales", "aspect": "label+stars"}
    assert descriptions.of_version(titled, "abc123").startswith("A model of **Inns of Wales/label+stars** (")
    assert "Trained on **Inns of Wales/label+stars**: data set `jsonl`" in descriptions.of_model(titled)
    assert "Predictions with rationales on your own data (`jsonl`)" in descriptions.of_experiment("jsonl", "")


def test_a_version_says_the_options_of_its_data():
    said = descriptions.of_version(TAGS | {"option.pool": "plain"}, "abc123")
    assert said.startswith("A model of **inns (pool=plain)** (method `hardkuma`): ")


def test_a_version_of_which_little_is_known_says_no_more():
    said = descriptions.of_version({"dataset": "beer", "aspect": "smell", "corpus": "sample"}, "abc")
    assert said.startswith("A model of **beer/smell** (method `infocal`): the trial with the run `abc`.")
    assert "made-up sample corpus" in said and "None" not in said and "riterion" not in said


def test_an_experiment_begins_with_the_trials_of_the_study_that_ended_last():
    about = descriptions.of_experiment("beer", "palate")
    first = descriptions.with_table(about, "first", "#/one")
    second = descriptions.with_table(first, "second", "#/two")
    assert first.partition(".\n\n")[0].endswith("[first](#/one)") and first.endswith(about)
    assert second == first.replace("[first](#/one)", "[second](#/two)")
    assert descriptions.with_table("Ask Ada first.", "first", "#/one") == "Ask Ada first."


def test_an_experiment_gets_a_description_and_keeps_its_own(tracker):
    made = tracker.client.get_experiment(tracker.experiment("beer", "palate"))
    assert "**beer/palate**" in made.tags[NOTE_TAG]
    old = tracker.client.create_experiment("beer/smell")  # as an older version made it
    assert tracker.experiment("beer", "smell") == old
    assert "**beer/smell**" in tracker.client.get_experiment(old).tags[NOTE_TAG]
    tracker.describe_experiment(old, {NOTE_TAG: "ours"})
    tracker.experiment("beer", "smell")
    assert tracker.client.get_experiment(old).tags[NOTE_TAG] == "ours"


def test_own_data_without_a_title_are_called_by_what_the_run_calls_them(features):
    assert dataset_of(features).name == "beer/palate"
    assert dataset_of(features, "hotels").name == "hotels/palate"
    assert descriptions.own_title({"origin": "/data/hotels"}) == "hotels"
    assert descriptions.own_title({"origin": "/data/hotels", "data_title": "Hotels"}) == "Hotels"
    assert descriptions.own_title({}) == ""


def test_the_data_of_a_run_are_logged_once(tracker, features):
    dataset = dataset_of(features)
    run_id = tracker.start_run(tracker.experiment("beer", "palate"), "trial", {}, {})
    for _ in range(2):  # a study that is resumed
        tracker.log_dataset(run_id, dataset)
    (one,) = tracker.client.get_run(run_id).inputs.dataset_inputs
    assert one.dataset.name == "beer/palate"
    assert one.dataset.digest == features.fingerprint[:MAX_DIGEST]
    assert json.loads(one.dataset.source)["fingerprint"] == features.fingerprint
    profile = json.loads(one.dataset.profile)
    assert profile["num_rows"] == sum(len(features.table(split)) for split in features.splits)
    assert profile["num_train"] == len(features.table("train"))
    names = {column["name"] for column in json.loads(one.dataset.schema)["mlflow_colspec"]}
    assert {"tokens", "rationale"} <= names
    assert {(tag.key, tag.value) for tag in one.tags} == {("mlflow.data.context", "training")}
    assert Path(features.directory).is_dir()


@pytest.mark.parametrize(
    "answer",
    [
        "BAD_REQUEST: (sqlite3.IntegrityError) UNIQUE constraint failed: datasets.name",
        "BAD_REQUEST: (psycopg2.errors.UniqueViolation) duplicate key value violates unique constraint",
        '(pymysql.err.IntegrityError) (1062, "Duplicate entry")',
    ],
)
def test_a_data_set_that_another_search_adds_at_the_same_time_is_logged(
    tracker, features, monkeypatch, answer
):
    run_id = tracker.start_run(tracker.experiment("beer", "palate"), "trial", {}, {})
    log, answers = tracker.client.log_inputs, [answer]

    def log_inputs(*arguments):
        if answers:
            raise MlflowException(answers.pop())
        log(*arguments)

    monkeypatch.setattr(tracker.client, "log_inputs", log_inputs)
    tracker.log_dataset(run_id, dataset_of(features))
    (one,) = tracker.client.get_run(run_id).inputs.dataset_inputs
    assert one.dataset.name == "beer/palate"


def test_another_error_of_logging_a_data_set_is_not_tried_again(tracker, features, monkeypatch):
    run_id = tracker.start_run(tracker.experiment("beer", "palate"), "trial", {}, {})
    answers = ["the disk is full"]

    def log_inputs(*_):
        raise MlflowException(answers.pop())

    monkeypatch.setattr(tracker.client, "log_inputs", log_inputs)
    with pytest.raises(PipelineError, match="cannot log the data set .*: the disk is full"):
        tracker.log_dataset(run_id, dataset_of(features))


def test_a_training_and_a_comparison_say_what_they_are():
    alone = descriptions.of_training("beer/palate", "hardkuma", 3, 10, RECALL)
    assert alone.startswith("A training: method `hardkuma` on **beer/palate**, seed 3, at most 10 epochs. ")
    assert str(RECALL) in alone
    part = descriptions.of_training("beer/palate", "hardkuma", 3, 1, RECALL, comparison="all")
    assert part.startswith("A training of the comparison `all`: method `hardkuma` on **beer/palate**, seed 3")
    whole = descriptions.of_comparison("hatexplain", ["infocal", "fresh"], [0], 8)
    assert "on **hatexplain** of `infocal`, `fresh`: 1 seed of each, 8 epochs." in whole

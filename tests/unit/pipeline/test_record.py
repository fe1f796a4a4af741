import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from infocal.errors import StateError
from pipeline.base.errors import PipelineError
from pipeline.base.trajectories import Failure
from pipeline.tracking import epoch_steps
from pipeline.tracking.record import Record, read_record
from pipeline.tracking.sealed_split import log_test_reading
from pipeline.tracking.studies import start_study
from pipeline.tracking.tracking import CONFIG_ARTIFACT, Tracker
from pipeline.training.epochs import BestSoFar, Epoch
from tests.small_store import new_store, sample_features
from tests.small_study import run_settings
from tests.small_trial import record_trial


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Tracker:
    return new_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def whole(tracker: Tracker) -> Record:
    return read_record(tracker, record_trial(tracker, run_settings(), {"lambda_ib": 0.001, "seed": 3}))


def stored(**changes: Any) -> str:
    run = run_settings()
    document = {"config": run.config().to_dict(), "run": dataclasses.asdict(run)}
    return json.dumps(document | changes)


def logged(tracker: Tracker, document: str | None, status: str = "FINISHED", **tags: str) -> str:
    """A run with one epoch, and these settings."""
    every = {"data_fingerprint": sample_features().fingerprint, "seed": "0", **tags}
    experiment = tracker.experiment("beer", "palate")
    run_id = tracker.start_run(experiment, "trial-00", run_settings().config().to_dict(), every)
    tracker.log_metrics(run_id, {"val_mse": 0.25}, step=0)
    artifacts = {} if document is None else {CONFIG_ARTIFACT: document}
    if status != "RUNNING":
        tracker.finish(run_id, status, artifacts=artifacts)
    return run_id


def test_a_record_holds_what_it_takes_to_train_again(whole: Record):
    assert whole.run == run_settings()
    assert (whole.config["lambda_ib"], whole.seed) == (0.001, 3)
    assert (whole.fingerprint, whole.is_sample) == (sample_features().fingerprint, True)
    assert (sorted(whole.trajectory.epochs), whole.num_epochs) == ([0, 1], 2)
    assert whole.trajectory.failure is None
    assert whole.environment["num_threads"] == 1
    assert len(whole.best_digest or "") == 64


def test_a_failed_trial_has_one_epoch_more_than_it_logged(tracker: Tracker):
    run_id = logged(tracker, stored(), "FAILED", failure="non_finite", failure_message="non_finite: x")
    found = read_record(tracker, run_id)
    assert found.trajectory.failure == Failure(1, "non_finite", "non_finite: x")
    assert found.num_epochs == 2
    assert (found.environment, found.best_digest) == ({}, None)


def test_an_epoch_that_was_never_logged_is_trained_all_the_same(tracker: Tracker):
    run_id = logged(tracker, stored())
    tracker.log_metrics(run_id, {"val_mse": 0.125}, step=3)
    found = read_record(tracker, run_id)
    assert (sorted(found.trajectory.epochs), found.num_epochs) == ([0, 3], 4)


def test_later_readings_of_test_are_no_epochs(tracker: Tracker):
    run_id = logged(tracker, stored())
    log_test_reading(tracker, run_id, {"test_token_f1": 0.5})
    assert read_record(tracker, run_id).trajectory.epochs == {0: {"val_mse": 0.25}}


def test_a_step_that_was_logged_twice_counts_once(tracker: Tracker):
    run_id = logged(tracker, stored())
    tracker.log_metrics(run_id, {"val_mse": 0.25}, step=0)
    assert read_record(tracker, run_id).trajectory.epochs == {0: {"val_mse": 0.25}}
    tracker.log_metrics(run_id, {"val_mse": 0.5}, step=0)
    with pytest.raises(PipelineError, match=r"two values of `val_mse` in epoch 1: 0.25 and 0.5"):
        read_record(tracker, run_id)


# --------------------------------------------------------------------------------------------- refused


def test_a_study_is_refused_and_its_winner_named(tracker: Tracker):
    study = start_study(tracker, tracker.experiment("beer", "palate"), "first", {}, {})
    tracker.finish(study, tags={"winner_run_id": "abc"})
    with pytest.raises(PipelineError, match=f"run {study} is the study `first`") as caught:
        read_record(tracker, study)
    assert caught.value.hint == "name the run of a trial, such as the winner's: abc"


def test_a_comparison_is_refused(tracker: Tracker):
    run_id = tracker.start_run(tracker.experiment("beer", "palate"), "first", {}, {"comparison": "first"})
    with pytest.raises(PipelineError, match=r"\(`first`\) is a comparison") as caught:
        read_record(tracker, run_id)
    assert caught.value.hint == "give the run of one of the comparison's trainings"


def test_what_is_no_trial_is_refused(tracker: Tracker):
    run_id = tracker.start_run(tracker.experiment("beer", "palate"), "mine", {}, {})
    with pytest.raises(
        PipelineError, match="is not a trial of a search or a comparison: it has no `data_fing"
    ):
        read_record(tracker, run_id)
    with pytest.raises(PipelineError, match="there is no run `nope`"):
        read_record(tracker, "nope")


def test_a_running_trial_is_refused(tracker: Tracker):
    with pytest.raises(PipelineError, match="is still running"):
        read_record(tracker, logged(tracker, None, "RUNNING"))


def test_a_trial_that_died_before_its_settings_were_stored_is_refused(tracker: Tracker):
    run_id = logged(tracker, None, "KILLED")
    with pytest.raises(PipelineError, match=r"`trial-00`, KILLED\) holds no `config.json`: the run ended"):
        read_record(tracker, run_id)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "Invalid JSON"),
        ("[]", "expected the settings of a trial, but the content does not match"),
        (stored(run={}), r"run.dataset: Field required"),
        (
            stored(run=dataclasses.asdict(run_settings()) | {"num_epochs": "2"}),
            "run.num_epochs: Input should be a",
        ),
    ],
)
def test_settings_that_are_none_are_refused(tracker: Tracker, document: str, message: str):
    with pytest.raises(StateError, match=message) as caught:
        read_record(tracker, logged(tracker, document))
    assert (caught.value.where or "").startswith(f"`{CONFIG_ARTIFACT}` of run ")


def test_a_run_that_contradicts_itself_is_refused(tracker: Tracker):
    config = run_settings().config().to_dict()
    with pytest.raises(PipelineError, match="give seed 7, but its `config.json` gives seed 0"):
        read_record(tracker, logged(tracker, stored(), seed="7"))
    other = stored(config=config | {"lambda_g": 0.125})
    with pytest.raises(PipelineError, match=r"give lambda_g = 1.0, but its `config.json` gives 0.125"):
        read_record(tracker, logged(tracker, other))


def test_a_trial_without_an_epoch_has_nothing_to_compare(tracker: Tracker, tmp_path: Path):
    tags = {"data_fingerprint": "0" * 64}
    run_id = tracker.start_run(tracker.experiment("beer", "palate"), "trial-00", {}, tags)
    tracker.finish(run_id, artifacts={CONFIG_ARTIFACT: stored()})
    with pytest.raises(PipelineError, match="logged no epoch: there is nothing to compare"):
        read_record(tracker, run_id)


def test_epochs_are_the_same_whatever_mlflow_counts_them_from(tracker: Tracker):
    before = logged(tracker, stored())
    now = logged(tracker, None, "RUNNING", **epoch_steps.FROM_ONE)
    for run_id in (before, now):
        for epoch, value in enumerate([0.25, 0.125]):
            metrics = {"val_mse": value, "train_mse": float(epoch)}
            best = BestSoFar(value=0.0, violation=0.0)
            epoch_steps.log(tracker, run_id, Epoch(number=epoch, best=best, metrics=metrics))
    tracker.log_artifact(now, stored(), CONFIG_ARTIFACT)
    assert tracker.history(before, "train_mse") == [(0, 0.0), (1, 1.0)]
    assert tracker.history(now, "train_mse") == [(1, 0.0), (2, 1.0)]
    found = epoch_steps.history(tracker, tracker.run(now), "train_mse")
    assert found == epoch_steps.history(tracker, tracker.run(before), "train_mse") == [(0, 0.0), (1, 1.0)]
    tracker.finish(now, metrics={"best_val_comprehensiveness": 0.5})  # once, of the model that was kept
    epochs = read_record(tracker, now).trajectory.epochs
    best_so_far = {"best_objective": 0.0, "criterion_violation": 0.0}
    assert epochs == {
        0: {"val_mse": 0.25, "train_mse": 0.0, **best_so_far},
        1: {"val_mse": 0.125, "train_mse": 1.0, **best_so_far},
    }
    assert read_record(tracker, before).trajectory.epochs == epochs

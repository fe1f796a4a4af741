import json
import logging
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from pipeline.errors import PipelineError
from pipeline.tracking import PARENT_TAG, TRIAL_TAG, Tracker
from pipeline.trial_tracking import TrialTracking
from tests.small_store import fake_trial, new_store, sample_model, save_trial_checkpoint

BASE = {"lambda_ib": 0.0003, "lambda_g": 1.0, "encoder": "rcnn"}


def render(checkpoint: Path, config: Mapping[str, Any]) -> dict[str, str]:
    history = json.loads((checkpoint / "history.json").read_text())
    return {"rationales.html": f"<p>{config['lambda_ib']}", "curve.html": f"<p>{len(history)}"}


def refuse(checkpoint: Path, config: Mapping[str, Any]) -> dict[str, str]:
    raise PipelineError(f"no pages from {checkpoint.name}")


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Tracker:
    return new_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def study(tracker: Tracker, request: pytest.FixtureRequest) -> str:
    """The run of a study of the test's own."""
    return tracker.start_study(tracker.experiment("beer", "palate"), request.node.name, {}, {})


def callback(tracker: Tracker, study: str, **changes: Any) -> TrialTracking:
    values: dict[str, Any] = {
        "base": BASE,
        "settings": {"num_epochs": 3},
        "tags": {"seed": "0", "corpus": "sample"},
        "num_epochs": 3,
        "render": render,
    }
    return TrialTracking(tracker, study, **{**values, **changes})


def start(tracking: TrialTracking, trial: Any):
    tracking.on_trial_start(iteration=0, trials=[trial], trial=trial)


def report(tracking: TrialTracking, trial: Any, **result: Any):
    trial.last_result = result
    tracking.on_trial_result(iteration=0, trials=[trial], trial=trial, result=result)


def complete(tracking: TrialTracking, trial: Any):
    tracking.on_trial_complete(iteration=0, trials=[trial], trial=trial)


def epoch(number: int, **more: Any) -> dict[str, Any]:
    tune_keys = {"training_iteration": number + 1, "pid": 12, "time_total_s": 1.0, "done": False}
    return {"epoch": number, "objective": 0.1 * number, "val_mse": 0.02, **tune_keys, **more}


def test_a_trial_becomes_a_child_run(tracker: Tracker, study: str):
    tracking = callback(tracker, study)
    trial = fake_trial("abc_1", {"lambda_ib": 1e-7})
    start(tracking, trial)
    for number in range(3):
        report(tracking, trial, **epoch(number))
    complete(tracking, trial)
    (run,) = tracker.children(study)
    assert (run.name, run.status) == ("trial-00", "FINISHED")
    assert run.params == {"lambda_ib": "1e-07", "lambda_g": "1.0", "encoder": "rcnn"}
    assert run.metrics == {"objective": 0.2, "val_mse": 0.02}
    assert tracker.history(run.run_id, "objective") == [(0, 0.0), (1, 0.1), (2, 0.2)]
    assert (run.tags[PARENT_TAG], run.tags[TRIAL_TAG]) == (study, "abc_1")
    assert (run.tags["corpus"], run.tags["seed"]) == ("sample", "0")
    assert "early_stopped" not in run.tags


def test_trials_are_numbered_and_a_seed_of_their_own_is_tagged(tracker: Tracker, study: str):
    tracking = callback(tracker, study)
    for number in range(3):
        start(tracking, fake_trial(f"t{number}", {"seed": 40 + number}))
    runs = tracker.children(study)
    assert [run.name for run in runs] == ["trial-00", "trial-01", "trial-02"]
    assert [run.tags["seed"] for run in runs] == ["40", "41", "42"]
    assert tracking.runs == {f"t{i}": run.run_id for i, run in enumerate(runs)}


def test_a_trial_stopped_by_the_scheduler_is_tagged(tracker: Tracker, study: str):
    tracking, trial = callback(tracker, study), fake_trial("t", {})
    start(tracking, trial)
    report(tracking, trial, **epoch(0))
    complete(tracking, trial)
    (run,) = tracker.children(study)
    assert (run.status, run.tags["early_stopped"]) == ("FINISHED", "true")


def test_a_failure_with_a_name_fails_the_run_and_logs_no_number(tracker: Tracker, study: str):
    tracking, trial = callback(tracker, study), fake_trial("t", {})
    start(tracking, trial)
    report(tracking, trial, **epoch(0))
    message = "degenerate_none: epoch 1: selection rate 0.000 " + "." * 600
    report(tracking, trial, epoch=1, objective=-1e9, failure="degenerate_none", failure_message=message)
    complete(tracking, trial)
    (run,) = tracker.children(study)
    assert (run.status, run.tags["failure"]) == ("FAILED", "degenerate_none")
    assert run.tags["failure_message"] == message[:500]
    assert tracker.history(run.run_id, "objective") == [(0, 0.0)]
    assert "early_stopped" not in run.tags


@pytest.mark.parametrize(
    ("text", "message"),
    [("Failure # 1\nTraceback ...\nRuntimeError: boom\n", "RuntimeError: boom"), ("", "no message")],
)
def test_an_exception_fails_the_run_with_its_last_line(
    tracker: Tracker, study: str, tmp_path: Path, text: str, message: str
):
    tracking, trial = callback(tracker, study), fake_trial("t", {})
    (tmp_path / "error.txt").write_text(text)
    trial.error_file = str(tmp_path / "error.txt")
    start(tracking, trial)
    tracking.on_trial_error(iteration=0, trials=[trial], trial=trial)
    (run,) = tracker.children(study)
    assert (run.status, run.tags["failure"]) == ("FAILED", "error")
    assert run.tags["failure_message"] == message


def test_a_trial_that_left_no_error_file_fails_all_the_same(tracker: Tracker, study: str):
    tracking, trial = callback(tracker, study), fake_trial("t", {})
    start(tracking, trial)
    tracking.on_trial_error(iteration=0, trials=[trial], trial=trial)
    (run,) = tracker.children(study)
    assert (run.status, run.tags["failure_message"]) == ("FAILED", "no message")


def test_artifacts_of_a_trial(tracker: Tracker, study: str, tmp_path: Path):
    checkpoint = save_trial_checkpoint(tmp_path / "checkpoint", sample_model(), {"val_token_f1": 0.5})
    tracking, trial = callback(tracker, study), fake_trial("t", {"lambda_ib": 0.01}, checkpoint)
    start(tracking, trial)
    report(tracking, trial, **epoch(2))
    complete(tracking, trial)
    run_id = tracking.runs["t"]

    def stored(name: str) -> Path:
        return tracker.download(run_id, name, tmp_path / "out")

    config = json.loads(stored("config.json").read_text())
    assert config == {"config": {**BASE, "lambda_ib": 0.01}, "run": {"num_epochs": 3}}
    assert stored("rationales.html").read_text() == "<p>0.01"
    assert stored("curve.html").read_text() == "<p>2"
    files = {"model.safetensors", "config.json", "scores.json", "predictions.json", "digests.json"}
    assert {path.name for path in stored("best").iterdir()} == files


def test_a_restored_callback_makes_no_run_and_no_step_twice(tracker: Tracker, study: str):
    tracking, trial = callback(tracker, study), fake_trial("t", {})
    start(tracking, trial)
    report(tracking, trial, **epoch(0))
    state = pickle.loads(pickle.dumps(tracking.get_state()))
    report(tracking, trial, **epoch(1))  # after the snapshot, then the driver is killed
    late = fake_trial("late", {})
    start(tracking, late)

    restored = pickle.loads(pickle.dumps(callback(tracker, study)))
    restored.set_state(state)
    start(restored, trial)
    for number in (0, 1, 2):
        report(restored, trial, **epoch(number))
    start(restored, late)
    start(restored, fake_trial("new", {}))
    runs = tracker.children(study)
    assert [(run.name, run.tags[TRIAL_TAG]) for run in runs] == [
        ("trial-00", "t"),
        ("trial-01", "late"),
        ("trial-02", "new"),
    ]
    assert [step for step, _ in tracker.history(runs[0].run_id, "objective")] == [0, 1, 2]


def test_numbers_that_are_not_finite_are_left_out_and_said(
    tracker: Tracker, study: str, caplog: pytest.LogCaptureFixture
):
    tracking, trial = callback(tracker, study), fake_trial("t", {})
    start(tracking, trial)
    with caplog.at_level(logging.WARNING, "pipeline.tracking"):
        for number in range(2):
            report(tracking, trial, **epoch(number, val_mae=float("nan")))
        assert caplog.messages == ["trial t epoch 0: not a finite number: val_mae"]
        tracking.on_experiment_end(trials=[trial])
    assert "val_mae (2 x)" in caplog.messages[-1]
    assert "val_mae" not in tracker.children(study)[0].metrics


def test_a_store_that_fails_does_not_stop_the_search(
    tracker: Tracker, study: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    tracking, trial = callback(tracker, study), fake_trial("t", {})
    start(tracking, trial)

    def fail(*args: object, **kwargs: object):
        raise ConnectionError("the server went away")

    with monkeypatch.context() as broken, caplog.at_level(logging.WARNING, "pipeline.tracking"):
        broken.setattr(tracker.client, "log_batch", fail)
        for number in range(3):
            report(tracking, trial, **epoch(number))
    (said,) = caplog.messages
    assert said.startswith("could not log an epoch (cannot log step 0 of run")
    assert said.endswith("the server went away); the search goes on")
    report(tracking, trial, **epoch(3))  # it is back
    assert tracker.history(tracking.runs["t"], "objective") == [(3, pytest.approx(0.3))]


def test_a_page_that_fails_costs_the_page_only(
    tracker: Tracker, study: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    checkpoint = save_trial_checkpoint(tmp_path / "checkpoint", sample_model(), {})
    tracking, trial = callback(tracker, study, render=refuse), fake_trial("t", {}, checkpoint)
    start(tracking, trial)
    report(tracking, trial, **epoch(2))
    with caplog.at_level(logging.WARNING, "pipeline.tracking"):
        complete(tracking, trial)
    (run,) = tracker.children(study)
    assert run.status == "FINISHED"
    assert (tracker.download(run.run_id, "best", tmp_path / "out") / "scores.json").is_file()
    assert caplog.messages == [
        "could not store a trial's artifacts (no pages from checkpoint); the search goes on"
    ]

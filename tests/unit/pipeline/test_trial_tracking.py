"""MLflow agrees with the ledger, whenever and however often it is made to."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.errors import PipelineError
from pipeline.base.storage import Storage
from pipeline.study.ledger import Ledger
from pipeline.study.trial_tracking import TrialTracking
from pipeline.tracking.epoch_steps import FIRST_TAG, history
from pipeline.tracking.studies import start_study
from pipeline.tracking.tracking import PARENT_TAG, TRIAL_TAG, Tracker, warn_skipped
from tests.small_ledger import a_ledger, checkpoint, train
from tests.small_store import new_store, sample_model, save_trial_checkpoint
from tests.small_study import POINT

BASE = {"lambda_ib": 0.0003, "lambda_g": 1.0, "encoder": "rcnn"}


def render(folder: Path) -> dict[str, str]:
    history = json.loads((folder / "history.json").read_text())
    return {"rationales.html": "<p>shown", "curve.html": f"<p>{len(history)}"}


def refuse(folder: Path) -> dict[str, str]:
    raise PipelineError(f"no pages from {folder.name}")


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Tracker:
    return new_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def study(tracker: Tracker, request: pytest.FixtureRequest) -> str:
    """The run of a study of the test's own."""
    return start_study(tracker, tracker.experiment("beer", "palate"), request.node.name, {}, {})


def tracking(tracker: Tracker, study: str, ledger: Ledger, **changes: Any) -> TrialTracking:
    values: dict[str, Any] = {
        "base": BASE,
        "settings": {"num_epochs": 2},
        "tags": {"seed": "0", "corpus": "sample"},
        "num_epochs": 2,
        "render": render,
    }
    place = Storage(str(ledger.directory.parent)).opened()
    return TrialTracking(tracker, study, ledger, place, **{**values, **changes})


def steps(tracker: Tracker, run_id: str) -> list[int]:
    return [epoch for epoch, _ in history(tracker, tracker.run(run_id), "epoch_s")]


def test_trials_become_child_runs(tracker: Tracker, study: str, tmp_path: Path):
    ledger = a_ledger(tmp_path)
    mirrored = tracking(tracker, study, ledger)
    mirrored.sync(is_running=True)
    over, still_open, failed = tracker.children(study)
    assert [run.name for run in (over, still_open, failed)] == ["trial-00", "trial-01", "trial-02"]
    assert [run.status for run in (over, still_open, failed)] == ["FINISHED", "RUNNING", "FAILED"]
    assert over.params == {
        "lambda_ib": "0.0003",
        "lambda_g": "1.0",
        "lambda_mi": "0.1",
        "lambda_lm": "0.005",
        "encoder": "rcnn",
    }
    assert tracker.history(over.run_id, "objective") == [(1, 0.1), (2, 0.2)], "epochs count from 1"
    assert (over.tags[PARENT_TAG], over.tags[TRIAL_TAG]) == (study, "over")
    assert (over.tags["corpus"], over.tags["seed"]) == ("sample", "0")
    assert "early_stopped" not in over.tags
    assert (failed.tags["failure"], failed.tags["failure_message"]) == (
        "non_finite",
        "epoch 1: the loss is nan",
    )
    assert mirrored.runs == {"over": over.run_id, "open": still_open.run_id, "failed": failed.run_id}
    first = ledger.trials()[0]
    assert over.started == pytest.approx(first.begin.time, abs=0.01)
    assert over.ended == pytest.approx(first.last_heard, abs=0.01)


def test_metrics_stand_at_the_time_at_which_they_were_measured(tracker: Tracker, study: str, tmp_path: Path):
    ledger = a_ledger(tmp_path)
    tracking(tracker, study, ledger).sync(is_running=True)
    run_id = tracker.children(study)[0].run_id
    logged = {one.step: one.timestamp for one in tracker.client.get_metric_history(run_id, "val/mse")}
    assert logged == {
        number + 1: int(epoch.time * 1000) for number, epoch in ledger.trials()[0].epochs.items()
    }


def test_a_seed_of_its_own_is_tagged(tracker: Tracker, study: str, tmp_path: Path):
    ledger = Ledger(tmp_path)
    for seed in (40, 41):
        train(ledger, f"t{seed}", 0, config={"seed": seed}, is_replicate=True)
    tracking(tracker, study, ledger).sync(is_running=True)
    assert [run.tags["seed"] for run in tracker.children(study)] == ["40", "41"]


def test_a_trial_stopped_by_the_scheduler_is_tagged(tracker: Tracker, study: str, tmp_path: Path):
    ledger = Ledger(tmp_path)
    train(ledger, "t", 1, of=1)
    tracking(tracker, study, ledger).sync(is_running=True)
    (run,) = tracker.children(study)
    assert (run.status, run.tags["early_stopped"]) == ("FINISHED", "true")


def test_a_trial_that_the_ledger_has_lost_is_told_and_does_not_stay_running(
    tracker: Tracker, study: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    ledger = a_ledger(tmp_path)
    tracking(tracker, study, ledger).sync(is_running=True)
    assert "ledger file is missing" not in caplog.text
    (path,) = ledger.directory.glob("*-open.jsonl")
    path.rename(tmp_path / "taken away")
    (failed,) = ledger.directory.glob("*-failed.jsonl")
    failed.unlink()
    tracking(tracker, study, Ledger(tmp_path)).sync(is_running=True)
    assert [run.status for run in tracker.children(study)] == ["FINISHED", "KILLED", "FAILED"]
    assert "MLflow has a run of trial open, but the trial's ledger file is missing" in caplog.text


def test_a_long_message_is_cut(tracker: Tracker, study: str, tmp_path: Path):
    ledger = Ledger(tmp_path)
    train(ledger, "t", 1, failure=("error", "." * 900))
    tracking(tracker, study, ledger).sync(is_running=True)
    assert tracker.children(study)[0].tags["failure_message"] == "." * 500


def test_artifacts_of_a_trial(tracker: Tracker, study: str, tmp_path: Path):
    ledger = Ledger(tmp_path)
    train(ledger, "t", 2, config={"lambda_ib": 0.01})
    save_trial_checkpoint(tmp_path / checkpoint("t", 1), sample_model(), {"val_token_f1": 0.5})
    mirrored = tracking(tracker, study, ledger)
    mirrored.sync(is_running=True)
    run_id = mirrored.runs["t"]

    def stored(name: str) -> Path:
        return tracker.download(run_id, name, tmp_path / "out")

    config = json.loads(stored("config.json").read_text())
    assert config == {"config": {**BASE, "lambda_ib": 0.01}, "run": {"num_epochs": 2}}
    assert stored("rationales.html").read_text() == "<p>shown"
    assert stored("curve.html").read_text() == "<p>2"
    files = {"model.safetensors", "config.json", "scores.json", "predictions.json", "digests.json"}
    assert {path.name for path in stored("best").iterdir()} == files


def rows(tracker: Tracker, study: str) -> list[tuple[str, str, list[int], int]]:
    """All that could be there twice."""
    runs = tracker.children(study)
    return [
        (run.name, run.status, steps(tracker, run.run_id), len(tracker.history(run.run_id, "val_mse")))
        for run in runs
    ]


def test_a_trial_that_is_killed_has_its_config(tracker: Tracker, study: str, tmp_path: Path):
    ledger = Ledger(tmp_path)
    train(ledger, "t", 0)
    mirrored = tracking(tracker, study, ledger)
    mirrored.sync(is_running=False)
    config = json.loads(tracker.download(mirrored.runs["t"], "config.json", tmp_path / "out").read_text())
    assert config == {"config": {**BASE, **POINT}, "run": {"num_epochs": 2}}


def test_nothing_is_written_twice(tracker: Tracker, study: str, tmp_path: Path):
    ledger = a_ledger(tmp_path)
    first = tracking(tracker, study, ledger)
    first.sync(is_running=True)
    there = rows(tracker, study)
    first.sync(is_running=True)
    tracking(tracker, study, Ledger(tmp_path)).sync(is_running=True)  # by a process that knows nothing
    assert rows(tracker, study) == there
    train(ledger, "open", 2)
    tracking(tracker, study, Ledger(tmp_path)).sync(is_running=True)
    assert rows(tracker, study) == [there[0], ("trial-01", "FINISHED", [0, 1], 2), there[2]]


def test_trials_that_nobody_trains_are_killed_and_run_again_when_they_go_on(
    tracker: Tracker, study: str, tmp_path: Path
):
    ledger = a_ledger(tmp_path)
    for is_running, status in ((True, "RUNNING"), (False, "KILLED"), (False, "KILLED"), (True, "RUNNING")):
        tracking(tracker, study, ledger).sync(is_running=is_running)
        assert [run.status for run in tracker.children(study)] == ["FINISHED", status, "FAILED"]


@pytest.mark.parametrize("broken", ["log_batch", "set_terminated", "create_run", "log_artifact", "log_text"])
@pytest.mark.parametrize("num_calls", [0, 1, 2, 3])
def test_wherever_the_store_goes_away_all_is_there_in_the_end(
    tracker: Tracker,
    study: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    broken: str,
    num_calls: int,
):
    ledger = a_ledger(tmp_path)
    save_trial_checkpoint(tmp_path / checkpoint("over", 1), sample_model(), {})
    own, calls = getattr(tracker.client, broken), []

    def fail(*args: Any, **kwargs: Any) -> Any:
        calls.append(broken)
        if len(calls) > num_calls:
            raise ConnectionError("the server went away")
        return own(*args, **kwargs)

    mirrored = tracking(tracker, study, ledger)
    with monkeypatch.context() as patched:
        patched.setattr(tracker.client, broken, fail)
        try:
            mirrored.sync(is_running=True)
        except PipelineError as error:
            assert "the server went away" in str(error)
    mirrored.sync(is_running=True)
    assert rows(tracker, study) == [
        ("trial-00", "FINISHED", [0, 1], 2),
        ("trial-01", "RUNNING", [0], 1),
        ("trial-02", "FAILED", [0], 1),
    ]
    assert all(len(run.params) == 5 for run in tracker.children(study))


def test_a_trial_that_the_store_will_not_take_holds_no_other_up(
    tracker: Tracker, study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ledger = a_ledger(tmp_path)
    mirrored = tracking(tracker, study, ledger)
    own = tracker.log_metrics

    def refuse_first(run_id: str, *args: Any, **keywords: Any) -> Any:
        if run_id == mirrored.runs["over"]:
            raise PipelineError("no such number")
        return own(run_id, *args, **keywords)

    monkeypatch.setattr(tracker, "log_metrics", refuse_first)
    for _ in range(2):
        with pytest.raises(PipelineError, match="no such number"):
            mirrored.sync(is_running=True)
    assert [steps(tracker, run_id) for run_id in mirrored.runs.values()] == [[], [0], [0]]


def test_numbers_that_are_not_finite_are_left_out_and_said(
    tracker: Tracker, study: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    ledger = Ledger(tmp_path)
    train(ledger, "t", 2, val_mae=float("nan"))
    mirrored = tracking(tracker, study, ledger)
    with caplog.at_level(logging.WARNING, "pipeline.study.trial_tracking"):
        mirrored.sync(is_running=True)
        assert caplog.messages == ["trial t epoch 1: not logged, because the value is not finite: val_mae"]
        warn_skipped(mirrored.skipped)
    assert "val_mae (2 x)" in caplog.messages[-1]
    assert "val_mae" not in tracker.children(study)[0].metrics


def test_a_page_that_fails_costs_the_page_only(
    tracker: Tracker, study: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    ledger = Ledger(tmp_path)
    train(ledger, "t", 2)
    save_trial_checkpoint(tmp_path / checkpoint("t", 1), sample_model(), {})
    with caplog.at_level(logging.WARNING, "pipeline.study.trial_tracking"):
        tracking(tracker, study, ledger, render=refuse).sync(is_running=True)
    (run,) = tracker.children(study)
    assert run.status == "FINISHED"
    assert (tracker.download(run.run_id, "best", tmp_path / "out") / "scores.json").is_file()
    assert caplog.messages == ["could not make the pages of a trial (no pages from checkpoint_000001)"]


def test_a_run_that_an_older_version_began_is_gone_on_with_as_it_is(
    tracker: Tracker, study: str, tmp_path: Path
):
    ledger = Ledger(tmp_path)
    train(ledger, "old", 2)
    experiment = tracker.run(study).experiment_id
    tags = {PARENT_TAG: study, TRIAL_TAG: "old"}
    old = tracker.start_run(experiment, "trial-00", {}, tags)
    first = ledger.trials()[0].epochs[0]
    tracker.log_metrics(old, first.epoch.numbers, 0, first.time)  # counted from 0, and without the tag
    train(ledger, "new", 2)
    tracking(tracker, study, ledger).sync(is_running=True)
    one, another = tracker.children(study)
    assert one.run_id == old and FIRST_TAG not in one.tags
    assert [step for step, _ in tracker.history(old, "epoch_s")] == [0, 1], "none twice, none left out"
    assert another.tags[FIRST_TAG] == "1"
    assert [step for step, _ in tracker.history(another.run_id, "epoch_s")] == [1, 2]
    assert steps(tracker, old) == steps(tracker, another.run_id) == [0, 1]

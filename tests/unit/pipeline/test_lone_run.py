"""A training without a search, in MLflow."""

import re
from pathlib import Path

import pytest

from pipeline import reproduce, train
from pipeline.base.errors import PipelineError, run_command
from pipeline.base.trajectories import Failure
from pipeline.study import lone_run, outcome
from pipeline.tracking.record import read_record
from pipeline.tracking.tracking import NOTE_TAG, Tracker
from pipeline.training.checkpoints import load_package
from search_spaces import lookup
from search_spaces.base import Criterion
from tests.small_store import new_store, sample_cache, sample_features
from tests.small_study import LANGUAGE_MODEL

FLAGS = [
    *("--aspect", "palate", "--sample", "--embedding", "random", "--device", "cpu", "--epochs", "2"),
    *("--set", "hidden_size=4", "--set", "encoder=lstm", "--set", "batch_size=256", "--output", "mine"),
    *("--cache-dir", str(sample_cache()), "--track", "--tracking-uri", "sqlite:///mlflow.db"),
]


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sample_features()
    new_store(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lookup, "language_model_preset", lambda dataset, sample: LANGUAGE_MODEL)


def the_run(tracker: Tracker):
    (found,) = tracker.client.search_runs([tracker.experiment("beer", "palate")])
    return tracker.run(found.info.run_id)


def test_a_training_is_logged_so_that_every_command_knows_it(capsys: pytest.CaptureFixture[str]):
    assert run_command(train.main, FLAGS) == 0
    said = capsys.readouterr().out
    tracker = Tracker("sqlite:///mlflow.db", create=False)
    run = the_run(tracker)
    assert (run.name, run.status) == ("mine", "FINISHED")
    assert f"\nrun      {run.run_id}\n  MLFLOW_DISABLE_TELEMETRY=true mlflow ui " in said
    assert run.params["hidden_size"] == "4" and run.tags["corpus"] == "sample"
    assert run.tags[NOTE_TAG].startswith(
        "A training: method `infocal` on **beer/palate**, seed 0, at most 2 epochs. Its best epoch on "
    )
    assert run.tags["metric_mode"] == "paper"
    assert str(Criterion.from_json(run.tags["criterion_json"])) == run.tags["criterion"]
    assert run.tags["command"].startswith("python -m pipeline.train --aspect palate --sample ")
    assert [step for step, _ in tracker.history(run.run_id, "epoch_s")] == [1, 2]
    pages = {file.path for file in tracker.client.list_artifacts(run.run_id)}
    assert pages == {"best", "config.json", "curve.html", "rationales.html"}
    assert load_package(Path("mine")).metadata["run_id"] == run.run_id
    assert read_record(tracker, run.run_id).num_epochs == 2
    again = ["--run", run.run_id, "--tracking-uri", "sqlite:///mlflow.db", "--cache-dir", str(sample_cache())]
    assert run_command(reproduce.main, again) == 0


def test_a_training_on_a_pool_says_so_in_tags_and_on_its_pages(tmp_path: Path):
    assert run_command(train.main, [*FLAGS, "--option", "pool=vectors"]) == 0
    tracker = Tracker("sqlite:///mlflow.db", create=False)
    run = the_run(tracker)
    assert run.tags["option.pool"] == "vectors"
    for name in ("curve.html", "rationales.html"):
        page = Path(tracker.download(run.run_id, name, tmp_path)).read_text()
        assert "beer/palate (pool=vectors)" in page
    assert load_package(Path("mine")).metadata["options"] == {"pool": "vectors"}


def test_without_the_flag_nothing_is_logged(tmp_path: Path):
    (tmp_path / "mlflow.db").unlink()
    assert run_command(train.main, [flag for flag in FLAGS if flag != "--track"]) == 0
    assert not (tmp_path / "mlflow.db").exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt("stop"), PipelineError("the disk is gone")])
def test_a_training_that_is_cut_short_ends_its_run(error: BaseException, monkeypatch: pytest.MonkeyPatch):
    def train_none(*_: object) -> None:
        raise error

    monkeypatch.setattr(outcome, "train", train_none)
    with pytest.raises(type(error), match=re.escape(str(error))):
        train.main(FLAGS)
    assert the_run(Tracker("sqlite:///mlflow.db", create=False)).status == "KILLED"


def test_a_training_that_fails_says_why(monkeypatch: pytest.MonkeyPatch):
    def train_badly(values, run, report, directory) -> None:
        report(Failure(0, "non_finite", "loss is nan"), directory)

    monkeypatch.setattr(outcome, "train", train_badly)
    with pytest.raises(PipelineError, match="training failed: loss is nan"):
        train.main(FLAGS)
    run = the_run(Tracker("sqlite:///mlflow.db", create=False))
    assert (run.status, run.tags["failure"]) == ("FAILED", "non_finite")


def test_mlflow_that_is_away_for_an_epoch_costs_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    log_metrics, calls = Tracker.log_metrics, []

    def unsteady(self: Tracker, *arguments: object, **more: object) -> object:
        calls.append(arguments)
        if len(calls) == 1:
            raise PipelineError("the server is away")
        return log_metrics(self, *arguments, **more)

    monkeypatch.setattr(Tracker, "log_metrics", unsteady)
    assert run_command(train.main, FLAGS) == 0
    assert "1 epoch is not in MLflow yet: the server is away" in caplog.text
    tracker = Tracker("sqlite:///mlflow.db", create=False)
    assert [step for step, _ in tracker.history(the_run(tracker).run_id, "epoch_s")] == [1, 2]


def test_mlflow_that_is_gone_at_the_end_leaves_the_model(monkeypatch: pytest.MonkeyPatch):
    def finish(self: lone_run.LoneRun, *_: object) -> None:
        raise PipelineError("the server is gone")

    monkeypatch.setattr(lone_run.LoneRun, "finish", finish)
    with pytest.raises(
        PipelineError, match="cannot write the end of the training to MLflow: the server is gone"
    ) as caught:
        train.main(FLAGS)
    assert caught.value.hint == "the model is complete: mine"
    assert load_package(Path("mine")).model is not None


def test_a_store_that_cannot_be_used_is_told_before_anything_is_trained(tmp_path: Path):
    before = set(tmp_path.iterdir())
    with pytest.raises(PipelineError, match="expected `sqlite:///FILE`"):
        train.main([*FLAGS[:-1], "sqlite://"])
    assert set(tmp_path.iterdir()) == before

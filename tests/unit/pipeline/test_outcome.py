import contextlib
import dataclasses
import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infocal.config import InfoCalConfig
from infocal.errors import StateError
from pipeline import checkpoints, cluster, outcome, registry
from pipeline.criterion import Candidate
from pipeline.errors import PipelineError
from pipeline.outcome import conduct, git_commit, package_metadata, train_alone
from pipeline.packing import Measurement
from pipeline.settings import RunSettings
from pipeline.storage import Storage
from pipeline.study import Study, StudySettings
from pipeline.study_folder import StudyFolder
from pipeline.tracking import NOTE_TAG, PARENT_TAG, TRIAL_TAG, TrackedRun, Tracker
from tests.small_store import NAME, new_store, sample_features, sample_model, save_trial_checkpoint
from tests.small_study import POINT, SCORES, candidate, criterion, run_settings, study_settings


@pytest.fixture
def tracker(tmp_path: Path) -> Tracker:
    return new_store(tmp_path / "store")


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch):
    """Sessions of Ray, and the language model's scores, are for the integration tests."""

    @contextlib.contextmanager
    def session(address: str | None) -> Iterator[None]:
        yield

    monkeypatch.setattr(cluster, "session", session)
    monkeypatch.setattr(cluster, "check_resources", lambda *args: None)
    monkeypatch.setattr(cluster, "num_cores", lambda: 2.0)
    monkeypatch.setattr(outcome, "language_model_scores", lambda *args, **kwargs: None)
    monkeypatch.setattr(Study, "export", lambda self: exported(self.directory))


def exported(directory: Path) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "optuna.db"
    path.write_text("a database")
    return path


def found(folder: Path, trial_id: str, **changes: Any) -> Candidate:
    """A candidate whose checkpoint holds a sample model."""
    checkpoint = save_trial_checkpoint(folder / trial_id, sample_model(), SCORES)
    return candidate(trial_id, checkpoint=Storage(str(checkpoint)).opened(), **changes)


def track(tracking: Any, trial_id: str, config: dict[str, Any]):
    """Let the study's callback open the run of a trial, as Tune would."""
    one = SimpleNamespace(trial_id=trial_id, config=config, last_result={}, checkpoint=None, error_file=None)
    tracking.on_trial_start(iteration=0, trials=[one], trial=one)


def searching(
    monkeypatch: pytest.MonkeyPatch, *candidates: Candidate, replicates: tuple[Candidate, ...] = ()
):
    """Let a study find these candidates, best first."""

    def run(self: Study, callbacks: list[Any], resume: bool) -> list[Candidate]:
        for one in candidates:
            track(callbacks[0], one.trial_id, dict(one.config))
        self.trial_ids = {one.trial_id for one in candidates}
        return list(candidates)

    def replicate(self: Study, winner: Candidate, callbacks: list[Any]) -> list[Candidate]:
        for one in replicates:
            track(callbacks[0], one.trial_id, dict(one.config))
        return list(replicates)

    monkeypatch.setattr(Study, "run", run)
    monkeypatch.setattr(Study, "replicate", replicate)


def conducted(tracker: Tracker, folder: Path, **changes: Any) -> str:
    settings, place = study_settings(**changes), results(folder)
    return conduct(settings, place, tracker.uri, address=None, resume=False)


def results(folder: Path) -> StudyFolder:
    """Where the results of the study `first` go."""
    return StudyFolder.local(Storage(str(folder / "runs")), "first")


def parent(tracker: Tracker) -> TrackedRun:
    run = tracker.latest_study(tracker.experiment("beer", "palate"), "first")
    assert run is not None
    return run


# ------------------------------------------------------------------------------------------- the winner


def test_a_winner_that_meets_the_criterion_is_registered_with_its_origin(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searching(monkeypatch, found(tmp_path, "a"), found(tmp_path, "b", value=0.1))
    text = conducted(tracker, tmp_path)
    version = registry.find(tracker, NAME, registry.CHALLENGER)
    run = parent(tracker)
    assert (run.status, run.tags["criterion_met"]) == ("FINISHED", "true")
    assert run.tags["winner_trial_id"] == "a"
    assert version.run_id == run.tags["winner_run_id"]
    assert tracker.run(version.run_id).tags[TRIAL_TAG] == "a"
    assert version.tags["min_precision"] == "0.05"
    assert version.tags["val_token_precision"] == "0.5000"
    assert version.tags["criterion"] == str(criterion())
    assert f"registered {NAME} version 1 as `challenger`" in text
    assert f"registered as `{NAME} version 1`" in run.tags[NOTE_TAG]
    assert "`challenger` is the newest version" in tracker.client.get_registered_model(NAME).description
    package = checkpoints.load_package(tmp_path / "runs/studies/first/model")
    assert package.metadata["run_id"] == version.run_id
    assert package.metadata["study"] == "first"
    assert package.metadata["data_fingerprint"] == sample_features().fingerprint
    assert package.vocabulary == list(sample_features().vocabulary.tokens)


class FakeProbe:
    """Four trials fit a card."""

    def __init__(self, *, is_local: bool) -> None:
        assert is_local

    def __call__(self, run: RunSettings, config: InfoCalConfig) -> list[Measurement]:
        return [Measurement(card="T4", total=1000, reserved=200, overhead=20, num_cpus=8.0)]


@pytest.mark.parametrize(("packs", "gpus", "rate"), [(True, 0.25, 0.205), (False, 0.0, 1.0)])
def test_a_study_is_packed_before_its_first_trial(
    packs: bool, gpus: float, rate: float, tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(outcome, "ClusterProbe", FakeProbe)
    checked: list[tuple[object, ...]] = []
    monkeypatch.setattr(cluster, "check_resources", lambda *given: checked.append(given))
    searching(monkeypatch, found(tmp_path, "a"))
    conducted(tracker, tmp_path, packs_gpus=packs)
    assert checked == [(None, 1.0, gpus)]
    stored = StudySettings.load(tmp_path / "runs/studies/first")
    assert (stored.packs_gpus, stored.gpus_per_trial) == (packs, gpus)
    assert stored.run.gpu_memory_rate == pytest.approx(rate)
    assert parent(tracker).metrics.get("gpus_per_trial_measured") == (gpus if packs else None)


def test_nothing_is_registered_where_the_best_misses_the_criterion(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searching(monkeypatch, found(tmp_path, "a", value=-0.4, violation=0.4))
    text = conducted(tracker, tmp_path, run=run_settings(criterion=criterion(0.9)))
    assert "nothing was registered" in text
    assert (parent(tracker).status, parent(tracker).tags["criterion_met"]) == ("FINISHED", "false")
    with pytest.raises(PipelineError, match="there is no model at all"):
        registry.find(tracker, NAME, registry.CHALLENGER)


def test_the_studys_run_holds_settings_figures_trivial_lines_and_files(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seed = found(tmp_path, "s", config={**POINT, "seed": 1}, scores={**SCORES, "val_token_precision": 0.7})
    searching(monkeypatch, found(tmp_path, "a"), replicates=(seed,))
    text = conducted(tracker, tmp_path, num_seeds=2)
    run = parent(tracker)
    assert run.metrics["val_token_precision"] == 0.5
    assert run.metrics["val_token_precision_mean"] == pytest.approx(0.6)
    assert "winner over 2 seeds: precision 0.600 +- 0.141" in text
    assert run.metrics["trivial_all_tokens_token_recall"] == 1.0
    assert run.metrics["trivial_random_k_selection_rate"] == pytest.approx(0.125, abs=0.01)
    assert (run.params["num_trials"], run.params["base.hidden_size"]) == ("3", "4")
    assert run.params["criterion"] == str(criterion())
    assert run.params["language_model.hidden_size"] == "4"
    assert tracker.download(run.run_id, "optuna.db", tmp_path / "out").read_text() == "a database"
    assert "<html" in tracker.download(run.run_id, "report.html", tmp_path / "out").read_text()
    assert "<html" in (tmp_path / "runs/studies/first/report.html").read_text()
    children = tracker.children(run.run_id)
    assert [child.tags["seed"] for child in children] == ["0", "1"]
    assert {child.tags[PARENT_TAG] for child in children} == {run.run_id}
    # the replicate is known too: it has not died
    assert {child.status for child in children} == {"FINISHED"}


# --------------------------------------------------------------------------------------- other endings


def test_a_search_in_which_every_trial_fails_says_so_and_fails(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searching(monkeypatch)
    with pytest.raises(PipelineError, match="^none of the 3 trials finished an epoch$") as caught:
        conducted(tracker, tmp_path)
    assert caught.value.hint == f"their failures stand in `mlflow ui --backend-store-uri {tracker.uri}`"
    run = parent(tracker)
    assert run.status == "FAILED"
    # what Optuna saw is there all the same
    assert tracker.download(run.run_id, "optuna.db", tmp_path / "out").is_file()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"device": "cpu", "bf16": True}, "--bf16: bf16 autocast needs a CUDA device"),
        ({"device": "cuda:99"}, "--device: device `cuda:99` was asked for"),
    ],
)
def test_a_device_that_is_not_there_leaves_no_study_behind(
    tmp_path: Path, changes: dict[str, Any], message: str
):
    run = dataclasses.replace(run_settings(), **changes)
    prepared = dataclasses.replace(study_settings(), run=run)
    with pytest.raises(StateError, match=message):
        conduct(
            prepared, results(tmp_path), f"sqlite:///{tmp_path}/runs/mlflow.db", address=None, resume=False
        )
    assert not (tmp_path / "runs").exists()


def test_an_interrupt_ends_open_trials_and_says_how_to_go_on(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    def interrupted(self: Study, callbacks: list[Any], resume: bool) -> list[Candidate]:
        experiment = tracker.experiment("beer", "palate")
        for trial_id, status in (("done", "FINISHED"), ("open", None)):
            tags = {PARENT_TAG: parent(tracker).run_id, TRIAL_TAG: trial_id}
            run_id = tracker.start_run(experiment, trial_id, {}, tags)
            if status is not None:
                tracker.finish(run_id, status)
        raise KeyboardInterrupt

    monkeypatch.setattr(Study, "run", interrupted)
    with pytest.raises(KeyboardInterrupt), caplog.at_level(logging.WARNING):
        conducted(tracker, tmp_path)
    ended = {run.name: run.status for run in tracker.children(parent(tracker).run_id)}
    assert ended == {"done": "FINISHED", "open": "KILLED"}
    assert "to go on: python -m pipeline.search --resume --name" in caplog.text


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1)])
def test_an_interrupted_search_is_killed_not_running(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
):
    def interrupted(self: Study, callbacks: list[Any], resume: bool) -> list[Candidate]:
        raise error

    monkeypatch.setattr(Study, "run", interrupted)
    with pytest.raises(type(error)):
        conducted(tracker, tmp_path)
    assert parent(tracker).status == "KILLED"


def test_a_search_that_breaks_is_a_failure(tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def broken(self: Study, callbacks: list[Any], resume: bool) -> list[Candidate]:
        raise RuntimeError("no worker could be started")

    monkeypatch.setattr(Study, "run", broken)
    with pytest.raises(RuntimeError, match="no worker could be started"):
        conducted(tracker, tmp_path)
    assert parent(tracker).status == "FAILED"


def test_a_failure_after_the_search_is_a_failure(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searching(monkeypatch, found(tmp_path, "a"))
    shutil.rmtree(tmp_path / "a" / "best")
    with pytest.raises(StateError, match="best/config.json: cannot read the file"):
        conducted(tracker, tmp_path)
    assert parent(tracker).status == "FAILED"


def test_a_resumed_study_goes_on_in_the_same_run(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searching(monkeypatch)
    for _ in range(2):
        with pytest.raises(PipelineError, match="finished an epoch"):
            conducted(tracker, tmp_path)
    first = parent(tracker)
    searching(monkeypatch, found(tmp_path, "a"))
    conducted(tracker, tmp_path)
    assert parent(tracker).run_id == first.run_id
    assert parent(tracker).status == "FINISHED"


# ---------------------------------------------------------------------------------------------- package


def test_metadata_say_where_a_model_comes_from():
    made = package_metadata(run_settings(), sample_features(), 3, {**SCORES, "val_calibrated_threshold": 0.7})
    assert (made["dataset"], made["aspect"], made["epoch"]) == ("beer", "palate", 3)
    assert (made["calibrated_threshold"], made["min_precision"]) == (0.7, 0.05)
    assert made["data_fingerprint"] == sample_features().fingerprint
    assert made["class_names"] == []


def test_a_criterion_without_precision_has_no_threshold():
    without = criterion()
    without = type(without)(metric=without.metric, bounds=(), why="a test")
    assert outcome.min_precision(run_settings(criterion=without)) is None


def test_a_package_replaces_an_older_one_whole(tmp_path: Path):
    best = save_trial_checkpoint(tmp_path / "a", sample_model(), SCORES) / "best"
    target = tmp_path / "studies" / "model"
    target.mkdir(parents=True)
    (target / "left over").touch()
    outcome.pack(best, target, sample_features(), {"epoch": 1, "tokenizer": "english"})
    assert checkpoints.load_package(target).metadata == {"epoch": 1, "tokenizer": "english"}
    assert not (target / "left over").exists()
    assert [path.name for path in target.parent.iterdir()] == ["model"], "no staging folder is left"


def test_an_older_package_stays_where_the_new_one_cannot_be_made(tmp_path: Path):
    target = tmp_path / "model"
    target.mkdir()
    (target / "old").touch()
    with pytest.raises(StateError, match="cannot read the file"):
        outcome.pack(tmp_path / "nothing", target, sample_features(), {})
    assert (target / "old").exists()


def test_pages_of_a_trial(tmp_path: Path):
    shown = {
        "example_id": "1",
        "tokens": ["smooth", "body"],
        "human": [1, 0],
        "probability": [0.9, 0.1],
        "selected": [1, 0],
        "prediction": 0.5,
        "guider_prediction": 0.5,
        "target": 0.6,
    }
    checkpoint = save_trial_checkpoint(tmp_path / "a", sample_model(), SCORES)
    checkpoints.write_json(checkpoint / "best" / checkpoints.BEST_PREDICTIONS, [shown])
    history = [{"epoch": i, "objective": 0.1, "train_objective": 0.3, **SCORES} for i in range(2)]
    checkpoints.write_json(checkpoint / "history.json", history)
    found = outcome.render_trial(checkpoint, {}, run_settings())
    assert found.keys() == {"rationales.html", "curve.html"}
    assert "smooth" in found["rationales.html"]
    assert "at epoch 2, the trial" in found["rationales.html"]


# ------------------------------------------------------------------------------------------------ commit


def test_the_commit_of_a_checkout_is_found_whatever_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if not (Path(outcome.__file__).parents[1] / ".git").exists():
        pytest.skip("the tests run outside a checkout")
    monkeypatch.chdir(tmp_path)
    assert re.fullmatch(r"[0-9a-f]{40}(-dirty)?", git_commit())


def test_outside_a_checkout_the_commit_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outcome, "__file__", str(tmp_path / "outcome.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert git_commit() == "unknown"


def test_without_git_the_commit_is_unknown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "")
    assert git_commit() == "unknown"


# ----------------------------------------------------------------------------------- one configuration


def scripted_training(monkeypatch: pytest.MonkeyPatch, result: dict[str, Any]):
    def train(values: Any, run: Any, report: Any, directory: Path) -> Any:
        scores = {
            "epoch": 0,
            "value": 0.25,
            "violation": 0.0,
            "is_met": True,
            "degenerate": None,
            "scores": SCORES,
        }
        checkpoints.save_best(directory / "best", sample_model(), scores, [])
        report(result, directory)
        return SimpleNamespace(best=scores)

    monkeypatch.setattr(outcome, "train", train)


def test_one_configuration_becomes_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scripted_training(monkeypatch, {"epoch": 0, "epoch_s": 1.0, **SCORES})
    output = tmp_path / "models" / "mine"
    text = train_alone(run_settings(), output, sample=True)
    assert text.startswith("best epoch on validation: 1; precision 0.5000")
    metadata = checkpoints.load_package(output).metadata
    assert (metadata["sample"], metadata["study"], metadata["run_id"]) == (True, None, None)
    assert [path.name for path in output.parent.iterdir()] == ["mine"]


def test_a_training_that_fails_is_an_error_and_leaves_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    message = "degenerate_all: epoch 3: selection rate 1.000"
    scripted_training(monkeypatch, {"epoch": 3, "failure": "degenerate_all", "failure_message": message})
    with pytest.raises(PipelineError, match=f"^training failed: {message}$"):
        train_alone(run_settings(), tmp_path / "models" / "mine", sample=True)
    assert list((tmp_path / "models").iterdir()) == []

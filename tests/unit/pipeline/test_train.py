import dataclasses
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from infocal.config import InfoCalConfig
from pipeline import explain, train
from pipeline.base.errors import PipelineError, run_command
from pipeline.cli import planning
from pipeline.study import outcome
from pipeline.tracking.studies import start_study
from pipeline.training import checkpoints
from pipeline.training.settings import RunSettings
from search_spaces import lookup
from search_spaces.infocal import PAPER_BEER_BEST
from tests.small_store import new_store, sample_cache, sample_features
from tests.small_study import LANGUAGE_MODEL

SAMPLE = [
    *("--aspect", "palate", "--sample", "--embedding", "random", "--device", "cpu"),
    *("--cache-dir", str(sample_cache())),
]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[RunSettings]:
    """What would be trained; nothing is."""
    runs: list[RunSettings] = []

    def train_alone(run: RunSettings, output: Path, *, sample: bool, tracker: object, command: str) -> str:
        assert tracker is None
        runs.append(run)
        return str(output)

    monkeypatch.setattr(outcome, "train_alone", train_alone)
    monkeypatch.setattr(
        planning, "with_features", lambda given, run: dataclasses.replace(run, features_dir="/features/built")
    )
    return runs


def test_a_small_training_writes_a_package_that_explains(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    sample_features()
    monkeypatch.setattr(lookup, "language_model_preset", lambda dataset, sample: LANGUAGE_MODEL)
    small = ["--set", "hidden_size=4", "--set", "encoder=lstm", "--set", "batch_size=256"]
    assert train.main([*SAMPLE, *small, "--epochs", "1", "--output", "mine"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("best epoch on validation: 1; precision ")
    printed = shlex.split(said.out.splitlines()[-1])
    assert printed[:6] == ["python", "-m", "pipeline.explain", "--package", "mine", "--text"]
    assert len(printed) == 7
    assert explain.main(printed[3:]) == 0, "the printed command runs"
    capsys.readouterr()
    package = checkpoints.load_package(empty_folder / "mine")
    config = package.model.config
    assert (config.hidden_size, config.encoder) == (4, "lstm")
    assert {name: getattr(config, name) for name in PAPER_BEER_BEST} == PAPER_BEER_BEST
    assert package.metadata["sample"] is True
    assert [path.name for path in empty_folder.iterdir()] == ["mine"], "no working folder is left"
    assert explain.main(["--package", "mine", "--text", "a smooth body .", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["text"] == "a smooth body ."


def test_a_folder_that_is_there_is_refused_before_anything_is_trained(
    empty_folder: Path, planned: list[RunSettings], capsys: pytest.CaptureFixture[str]
):
    (empty_folder / "mine").mkdir()
    assert run_command(train.main, [*SAMPLE, "--output", "mine"]) == 2
    assert capsys.readouterr().err == "error: --output: `mine` exists already\n\nhint: name a new folder\n"
    assert planned == []


def test_a_model_is_written_to_a_local_folder(planned: list[RunSettings], capsys: pytest.CaptureFixture[str]):
    assert run_command(train.main, [*SAMPLE, "--storage", "s3://bucket/x"]) == 2
    assert "error: --storage: expected a folder on this machine, but got `s3://bucket/x`" in (
        capsys.readouterr().err
    )
    assert planned == []


def test_by_default_the_papers_best_is_trained_into_a_folder_of_the_storage(
    planned: list[RunSettings], capsys: pytest.CaptureFixture[str]
):
    assert train.main([*SAMPLE, "--threads", "2", "--epochs", "3"]) == 0
    (run,) = planned
    assert {name: run.base[name] for name in PAPER_BEER_BEST} == PAPER_BEER_BEST
    assert (run.num_threads, run.num_epochs) == (2, 3)
    assert capsys.readouterr().out.startswith("runs/sample/models/beer-palate-20")


def test_what_is_searched_may_be_set_here(planned: list[RunSettings]):
    train.main([*SAMPLE, "--set", "lambda_g=0.25"])
    assert planned[0].base["lambda_g"] == 0.25


@pytest.fixture
def tracked(empty_folder: Path) -> dict[str, Any]:
    """A store with a study and a trial of it: ids and the trial's config."""
    tracker = new_store(empty_folder / "store")
    experiment = tracker.experiment("beer", "palate")
    study = start_study(tracker, experiment, "first", {"num_trials": 1}, {})
    config = InfoCalConfig(hidden_size=7, encoder="lstm", lambda_g=0.6, train_embeddings=True).to_dict()
    trial = tracker.start_run(experiment, "trial-00", config | {"seed": 3}, {"mlflow.parentRunId": study})
    return {"uri": tracker.uri, "study": study, "trial": trial, "config": config}


def test_a_tracked_run_gives_every_hyper_parameter_and_the_flags_win(
    planned: list[RunSettings], tracked: dict[str, Any]
):
    source = ["--tracking-uri", tracked["uri"], "--from-run", tracked["trial"]]
    train.main([*SAMPLE, *source])
    train.main([*SAMPLE, *source, "--set", "hidden_size=9"])
    same, changed = planned
    assert InfoCalConfig.from_mapping(same.base).to_dict() == tracked["config"]
    assert changed.base == same.base | {"hidden_size": 9}


def test_a_study_has_no_hyper_parameters_to_take(planned: list[RunSettings], tracked: dict[str, Any]):
    with pytest.raises(PipelineError, match=f"run {tracked['study']} is the study `first`"):
        train.main([*SAMPLE, "--tracking-uri", tracked["uri"], "--from-run", tracked["study"]])
    with pytest.raises(PipelineError, match="there is no run `nonsense`"):
        train.main([*SAMPLE, "--tracking-uri", tracked["uri"], "--from-run", "nonsense"])
    assert planned == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--from-run", "x"], "error: there is no tracking database"),
        (["--method", "infocall"], "error: --method: unknown method `infocall`"),
        (["--dataset", "bear"], "error: no dataset `bear`"),
        (["--set", "lambda_gg=1"], "error: --set: unknown hyper-parameter `lambda_gg`"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(
    arguments: list[str], message: str, empty_folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert run_command(train.main, [*SAMPLE, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(message)
    assert "\nhint: " in captured.err
    assert captured.out == ""
    assert list(empty_folder.iterdir()) == []

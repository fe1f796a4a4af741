import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infocal.errors import StateError
from pipeline.base.errors import PipelineError
from pipeline.base.stored_files import write_json
from pipeline.base.trajectories import Failure
from pipeline.study import outcome
from pipeline.study.outcome import git_commit, package_metadata, train_alone
from pipeline.training import checkpoints
from pipeline.training.epochs import BestEpoch, BestSoFar, Epoch
from tests.small_store import sample_features, sample_model, save_trial_checkpoint
from tests.small_study import SCORES, criterion, run_settings

# ---------------------------------------------------------------------------------------------- package


def epoch(number: int) -> Epoch:
    return Epoch(
        number=number, best=BestSoFar(value=0.1, violation=0.0), metrics={"train_objective": 0.3, **SCORES}
    )


def test_metadata_say_where_a_model_comes_from():
    made = package_metadata(run_settings(), sample_features(), 3, {**SCORES, "val_calibrated_threshold": 0.7})
    assert (made["dataset"], made["aspect"], made["epoch"]) == ("beer", "palate", 3)
    assert (made["calibrated_threshold"], made["min_precision"]) == (0.7, 0.05)
    assert made["data_fingerprint"] == sample_features().fingerprint
    assert made["class_names"] == []


def test_a_criterion_without_precision_has_no_threshold():
    without = criterion()
    without = type(without)(metric=without.metric, bounds=(), why="a test")
    made = package_metadata(run_settings(criterion=without), sample_features(), 3, SCORES)
    assert made["min_precision"] is None


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
    write_json(checkpoint / "best" / checkpoints.BEST_PREDICTIONS, [shown])
    checkpoints.save_history(checkpoint, [epoch(i) for i in range(2)])
    found = outcome.render_trial(checkpoint, run_settings())
    assert found.keys() == {"rationales.html", "curve.html"}
    assert "smooth" in found["rationales.html"]
    assert "at epoch 2, the trial" in found["rationales.html"]


# ------------------------------------------------------------------------------------------------ commit


def test_the_commit_of_a_checkout_is_found_whatever_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    if not (Path(outcome.__file__).parents[2] / ".git").exists():
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


def scripted_training(monkeypatch: pytest.MonkeyPatch, result: Epoch | Failure):
    def train(values: Any, run: Any, report: Any, directory: Path) -> Any:
        best = BestEpoch(epoch=0, value=0.25, violation=0.0, scores=SCORES)
        checkpoints.save_best(directory / "best", sample_model(), best.as_json(), [])
        report(result, directory)
        return SimpleNamespace(best=best)

    monkeypatch.setattr(outcome, "train", train)


def test_one_configuration_becomes_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    scripted_training(monkeypatch, epoch(0))
    output = tmp_path / "models" / "mine"
    text = train_alone(run_settings(), output, sample=True)
    assert text.startswith("best epoch on validation: 1; precision 0.500")
    metadata = checkpoints.load_package(output).metadata
    assert (metadata["sample"], metadata["study"], metadata["run_id"]) == (True, None, None)
    assert [path.name for path in output.parent.iterdir()] == ["mine"]


def test_a_training_that_fails_is_an_error_and_leaves_no_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    message = "degenerate_all: epoch 3: selection rate 1.000"
    scripted_training(monkeypatch, Failure(3, "degenerate_all", message))
    with pytest.raises(PipelineError, match=f"^training failed: {message}$"):
        train_alone(run_settings(), tmp_path / "models" / "mine", sample=True)
    assert list((tmp_path / "models").iterdir()) == []

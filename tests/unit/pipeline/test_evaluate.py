import contextlib
import dataclasses
import json
from pathlib import Path

import pytest

from feature_store import terminal
from pipeline import evaluate
from pipeline.base.errors import run_command
from pipeline.tracking import model_registry
from pipeline.tracking.tracking import CONFIG_ARTIFACT, Tracker
from tests.small_store import (
    NAME,
    sample_cache,
    sample_features,
    sample_model,
    save_trial_checkpoint,
    store_with_model,
)
from tests.small_study import run_settings


@pytest.fixture
def tracker(tmp_path: Path) -> Tracker:
    return store_with_model(tmp_path)[0]


def command(tracker: Tracker, *more: str) -> list[str]:
    return ["--tracking-uri", tracker.uri, "--cache-dir", str(sample_cache()), *more]


def test_a_registered_model_is_scored_and_written_as_json(
    tracker: Tracker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    run_id = model_registry.find(tracker, NAME, 1).run_id
    target = tmp_path / "scores.json"
    model = f"models:/{NAME}@challenger"
    steps: list[str] = []

    def step(text: str) -> contextlib.AbstractContextManager[None]:
        steps.append(text)
        return contextlib.nullcontext()

    monkeypatch.setattr(terminal, "step", step)
    assert evaluate.main(command(tracker, "--model", model, "--json", str(target))) == 0
    assert steps == ["loading the packages", "loading the model and the data", "reading the test split"]
    written = json.loads(target.read_text())
    assert written["model"] == f"{NAME} version 1"
    assert (written["run_id"], written["data_fingerprint"]) == (run_id, sample_features().fingerprint)
    assert written["scores"]["test_token_f1"] == tracker.run(run_id).metrics["test_token_f1"]
    assert set(written["trivial"]) == {"all_tokens", "no_tokens", "random_k", "first_k", "oracle_k"}
    assert written["num_texts"] > 0
    assert f"{NAME} version 1 on test of beer/palate" in capsys.readouterr().out


def test_a_trial_is_scored_by_its_run(tracker: Tracker, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    tags = {"data_fingerprint": sample_features().fingerprint, "corpus": "sample"}
    run_id = tracker.start_run(tracker.experiment("beer", "palate"), "trial-00", {}, tags)
    checkpoint = save_trial_checkpoint(tmp_path / "checkpoint", sample_model(), {})
    document = json.dumps({"config": {}, "run": dataclasses.asdict(run_settings())})
    tracker.finish(run_id, artifacts={"best": checkpoint / "best", CONFIG_ARTIFACT: document})
    assert evaluate.main(command(tracker, "--run", run_id)) == 0
    printed = capsys.readouterr().out
    assert "run trial-00, epoch 2 on test of beer/palate" in printed
    assert "set on validation" not in printed, "this trial has no calibrated threshold"
    assert tracker.run(run_id).tags["test_readings"] == "1"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "models:/a/b"], "error: --model: expected `models:/NAME@ALIAS`"),
        (["--run", "nope"], "error: there is no run `nope`"),
        (["--model", f"models:/{NAME}@best"], f"no alias `best` of model `{NAME}`"),
        (["--run", "nope", "--json", "missing/folder/a.json"], "there is no folder `missing/folder`"),
        (["--run", "nope", "--json", "."], "error: --json .: expected a file, but this is a folder"),
    ],
)
def test_mistakes_are_named(
    tracker: Tracker, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert run_command(evaluate.main, command(tracker, *arguments)) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["--run", "a", "--model", "b"]])
def test_exactly_one_model_is_named(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert run_command(evaluate.main, arguments) == 2
    assert "--run" in capsys.readouterr().err

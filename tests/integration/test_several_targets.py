"""From raw cases to a registered model that names its answer for each of three targets."""

import json
import sys
from pathlib import Path

import mlflow.pyfunc
import pytest

from pipeline import evaluate, explain, promote, report
from pipeline.base.errors import run_command
from pipeline.tracking.studies import latest_study
from tests.integration.commands import run, store_of
from tests.unit.pipeline.html_reader import read

pytestmark = pytest.mark.slow

TARGETS = ["charges", "articles", "terms"]
TASK = ["--dataset", "cail-small", "--sample", "--embedding", "random", "--task", ",".join(TARGETS)]
SMALL = ["--device", "cpu", "--set", "hidden_size=8", "--set", "learning_rate=0.01"]
COUNTS = ["--trials", "1", "--epochs", "2", "--set", "dense_epochs=0.5", "--set", "ramp_epochs=0.5"]
ANY_RATE = ["--target-selection-rate", "0.3"]
"""So that the criterion's bounds on what is selected are met, whatever was learnt."""
MODEL = "infocal-cail-small-charges-articles-terms"


def test_three_targets_from_a_search_to_a_champion(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    places = ["--storage", str(tmp_path / "runs"), "--cache-dir", str(tmp_path / "cache")]
    chosen = ["--criterion-target", "mean", "--set", "target_weights=terms=0.5", "--name", "law"]
    command = [sys.executable, "-m", "pipeline.search", *TASK, *SMALL, *COUNTS, *ANY_RATE, *chosen, *places]
    done = run(command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "best val_mean/macro_f1 with" in done.stdout and f"registered {MODEL} version 1" in done.stdout
    for noise in ("Traceback", "Warning"):
        assert noise not in done.stderr

    tracker = store_of(tmp_path)
    study = latest_study(tracker, tracker.experiment("cail-small", "+".join(TARGETS)), "law")
    assert study is not None
    winner = tracker.run(study.tags["winner_run_id"])
    logged = tracker.client.get_run(winner.run_id).data.metrics
    for target in (*TARGETS, "mean"):
        assert {f"val/{target}/macro_f1", f"best/{target}/macro_f1"} <= logged.keys()
    assert logged["val/macro_f1"] == logged["val/charges/macro_f1"]
    assert winner.params["target_weights"] == "terms=0.5"

    with monkeypatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", tracker.uri)
        answer = mlflow.pyfunc.load_model(f"models:/{MODEL}/1").predict(["被告人李某盗窃手机。"])[0]
    assert list(answer["targets"]) == TARGETS
    assert answer["targets"]["charges"]["label"] == answer["label"]

    asked = ["--model", f"models:/{MODEL}@challenger", "--sample", "--embedding", "random", *places]
    assert run_command(evaluate.main, [*asked, "--json", str(tmp_path / "scores.json")]) == 0
    text = capsys.readouterr().out
    assert all(f"{target}: prediction from the rationale: accuracy" in text for target in (*TARGETS, "mean"))
    scores = json.loads((tmp_path / "scores.json").read_text())["scores"]
    mean = sum(scores[f"test_{target}/macro_f1"] for target in TARGETS) / 3
    assert scores["test_mean/macro_f1"] == pytest.approx(mean)

    assert run_command(promote.main, [*TASK, *places]) == 0
    assert f"`champion` of {MODEL} is version 1 now" in capsys.readouterr().out
    page = tmp_path / "page.html"
    given = ["--dataset", "cail-small", "--task", ",".join(TARGETS), "--sample", *places[:2]]
    assert run_command(report.main, [*given, "--output", str(page)]) == 0
    words = read(page.read_text()).words
    assert "terms macro F1" in words and "articles: predicted" in words
    capsys.readouterr()
    asked = ["--model", f"models:/{MODEL}@champion", *places[:2], "--text", "被告人李某盗窃手机。"]
    assert run_command(explain.main, asked) == 0
    assert "articles: " in capsys.readouterr().out

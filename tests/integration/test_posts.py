"""From the sample posts of HateXplain to a promoted classifier that answers: as it is for beer."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline import evaluate, explain, promote, report
from pipeline.base.errors import run_command
from pipeline.tracking.studies import latest_study
from pipeline.tracking.tracking import TrackedRun, Tracker
from tests.integration.commands import ENVIRONMENT, run, store_of
from tests.unit.pipeline.html_reader import read

pytestmark = pytest.mark.slow

TARGET = ["--dataset", "hatexplain", "--sample", "--embedding", "random"]
SMALL = ["--device", "cpu", "--set", "hidden_size=16", "--set", "encoder=lstm", "--set", "learning_rate=0.01"]
COUNTS = ["--trials", "2", "--epochs", "3", "--set", "dense_epochs=0.5", "--set", "ramp_epochs=0.5"]


@dataclass
class Searched:
    folder: Path
    stdout: str
    stderr: str
    tracker: Tracker
    parent: TrackedRun

    @property
    def places(self) -> list[str]:
        return ["--storage", str(self.folder / "runs"), "--cache-dir", str(self.folder / "cache")]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    import sys

    assert ENVIRONMENT["PYTHONPATH"]
    folder = tmp_path_factory.mktemp("posts")
    places = ["--storage", str(folder / "runs"), "--cache-dir", str(folder / "cache"), "--name", "posts"]
    done = run([sys.executable, "-m", "pipeline.search", *TARGET, *SMALL, *COUNTS, *places], cwd=folder)
    assert done.returncode == 0, done.stderr
    tracker = store_of(folder)
    parent = latest_study(tracker, tracker.experiment("hatexplain", ""), "posts")
    assert parent is not None
    return Searched(folder, done.stdout, done.stderr, tracker, parent)


def test_the_search_ends_with_a_registered_classifier(searched: Searched):
    assert searched.stdout.startswith(
        "hatexplain: 2 trials, best val_hatexplain_token_f1 with val_accuracy >= "
    )
    assert "registered infocal-hatexplain version 1 as `challenger`" in searched.stdout
    assert "python -m pipeline.promote --dataset hatexplain --sample" in searched.stdout
    assert re.search(
        r"^trial \d\d epoch 3/3  accuracy 0\.\d{3}  F1 0\.\d{3}  ", searched.stderr, re.MULTILINE
    )
    for noise in ("Traceback", "Warning"):
        assert noise not in searched.stderr


def test_the_study_holds_what_was_computed_once_and_the_trivial_lines(searched: Searched):
    parent = searched.parent
    assert parent.tags["metric_mode"] == "hatexplain"
    assert {"val_comprehensiveness", "val_sufficiency", "val_accuracy"} <= parent.metrics.keys()
    for line in ("all_tokens", "no_tokens", "random_k", "first_k", "oracle_k"):
        for name in ("hatexplain_token_f1", "hatexplain_iou_f1", "auprc"):
            assert f"trivial_{line}_{name}" in parent.metrics
    winner = searched.tracker.run(parent.tags["winner_run_id"])
    assert winner.metrics["best_val_accuracy"] >= 0.61
    assert winner.metrics["best_val_selection_rate"] <= 0.5


def test_evaluate_promote_report_and_explain(
    searched: Searched, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    file = tmp_path / "scores.json"
    asked = ["--model", "models:/infocal-hatexplain@challenger", "--json", str(file)]
    assert run_command(evaluate.main, [*asked, "--sample", "--embedding", "random", *searched.places]) == 0
    text = capsys.readouterr().out
    scores = json.loads(file.read_text())
    assert scores["scores"]["test_accuracy"] > 0.61 and len(scores["groups"]) > 1
    assert "faithfulness: " in text and "scores of each group of at least 30 texts" in text
    assert run_command(promote.main, [*TARGET, *searched.places]) == 0
    assert "test_accuracy >= 0.61; test_selection_rate <= 0.5: met" in capsys.readouterr().out
    page = [
        "--dataset",
        "hatexplain",
        "--sample",
        *searched.places[:2],
        "--output",
        str(tmp_path / "page.html"),
    ]
    assert run_command(report.main, page) == 0
    words = read((tmp_path / "page.html").read_text()).words
    assert "AUROC (ovo)" in words and "last of 2 readings" in words and "BiRNN-Attn [LIME]" in words
    capsys.readouterr()
    asked = ["--model", "models:/infocal-hatexplain@champion", *searched.places[:2], "--text", "what a cake"]
    assert run_command(explain.main, asked) == 0
    assert capsys.readouterr().out.split()[1] in {"hatespeech", "normal", "offensive"}

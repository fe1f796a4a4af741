"""A search over a space of the user's own, from the file to the page: whole numbers, choices, conditions."""

import sys
from pathlib import Path

import pytest

from pipeline.tracking.tracking import Tracker
from tests.integration.commands import run

pytestmark = pytest.mark.slow

SPACE = """
[encoder]
choices = ["rcnn", "lstm"]

[hidden_size]
low = 4
high = 8
step = 4

[pooling]
choices = ["mean", "max"]
when.encoder = ["lstm"]

[[first]]
encoder = "lstm"
hidden_size = 4
pooling = "max"
"""
FLAGS = [
    *("--dataset", "beer", "--aspect", "palate", "--sample", "--embedding", "random", "--device", "cpu"),
    *("--set", "batch_size=256", "--set", "dense_epochs=100.0", "--set", "start_selection_rate=0.5"),
    *("--trials", "9", "--epochs", "1", "--min-precision", "0.0", "--sampler", "random"),
]


def test_a_space_of_ones_own_is_searched_kept_and_shown(tmp_path: Path):
    file, uri = tmp_path / "my space.toml", f"sqlite:///{tmp_path / 'mlflow.db'}"
    file.write_text(SPACE, encoding="utf-8")
    search = [sys.executable, "-m", "pipeline.search"]
    places = ["--storage", str(tmp_path / "runs"), "--cache-dir", str(tmp_path / "cache")]
    places += ["--tracking-uri", uri, "--name", "mixed"]
    done = run([*search, *FLAGS, *places, "--space", str(file)], tmp_path)
    assert done.returncode == 0, done.stderr
    file.unlink()  # the study keeps what it varies
    again = run([*search, "--sample", *places, "--resume"], tmp_path)
    assert again.returncode == 0, again.stderr
    tracker = Tracker(uri, create=False)
    (study,) = tracker.client.search_runs(
        [tracker.experiment("beer", "palate")], "params.space_name = 'my space.toml'"
    )
    trials = tracker.children(study.info.run_id)
    varied = ("encoder", "hidden_size", "pooling")
    # `pooling` is not varied with the first encoder
    points = [
        tuple(trial.params[name] for name in varied[: 3 if trial.params["encoder"] == "lstm" else 2])
        for trial in trials
    ]
    # two sizes with the one encoder, two times two with the other: the space has no more points
    assert len(set(points)) == len(points) == 6
    assert ("lstm", "4", "max") in points
    (page,) = (tmp_path / "runs").rglob("report.html")
    text = page.read_text(encoding="utf-8")
    assert "my space.toml" in text and ">lstm<" in text


def test_a_hyper_parameter_is_not_both_searched_and_fixed(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text(SPACE, encoding="utf-8")
    search = [sys.executable, "-m", "pipeline.search", *FLAGS, "--space", str(file)]
    done = run([*search, "--set", "hidden_size=8"], tmp_path)
    assert done.returncode == 2
    assert "--set: `hidden_size` is searched over, so it cannot be fixed as well" in done.stderr
    file.write_text(SPACE.replace("rcnn", "gnu"), encoding="utf-8")
    done = run(search, tmp_path)
    assert done.returncode == 2
    assert "[encoder]: `encoder` must be one of rcnn, lstm" in done.stderr and "'gnu'" in done.stderr
    assert not list(tmp_path.glob("runs*"))

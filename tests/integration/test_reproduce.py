"""A study and a comparison in processes of their own, and their trials trained again in further ones."""

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.tracking.tracking import TrackedRun, Tracker
from tests.integration.commands import SMALL, run, search_command, store_of, study_run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of one trial with a replicate, and a comparison of one method, in one store."""
    folder = tmp_path_factory.mktemp("reproduce")
    search = search_command(folder, "--trials", "1", "--seeds", "2", "--epochs", "2", "--name", "first")
    places = ["--storage", str(folder / "runs"), "--cache-dir", str(folder / "cache")]
    flags = ["--methods", "infocal", "--seeds", "1", "--epochs", "2", "--name", "beside"]
    for command in (search, [sys.executable, "-m", "pipeline.compare", *SMALL, *flags, *places]):
        done = run(command, cwd=folder)
        assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def tracker(folder: Path) -> Tracker:
    return store_of(folder)


def reproduce(
    folder: Path, run_id: str, *more: str, cache: str = "cache"
) -> subprocess.CompletedProcess[str]:
    places = ["--storage", str(folder / "runs"), "--cache-dir", str(folder / cache)]
    return run([sys.executable, "-m", "pipeline.reproduce", "--run", run_id, *places, *more], cwd=folder)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    return done.stdout.splitlines()[-1] if done.stdout else done.stderr


def trials(tracker: Tracker) -> list[TrackedRun]:
    return tracker.children(study_run(tracker, "first").run_id)


def test_a_trial_is_the_same_in_another_process(folder: Path, tracker: Tracker):
    trial, _ = trials(tracker)
    done = reproduce(folder, trial.run_id, "--json", str(folder / "found.json"))
    assert done.returncode == 0, last_line(done)
    assert last_line(done).startswith("agrees bit for bit: ")
    assert last_line(done).endswith(" metrics over 2 epochs")
    found = json.loads((folder / "found.json").read_text())
    assert found["environment"]["recorded"] == found["environment"]["again"]
    assert found["git_commit"]["recorded"] == found["git_commit"]["again"]
    assert found["same_weights"] is True
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr


def test_a_replicate_has_its_own_seed_and_features_that_are_gone_are_built_again(
    folder: Path, tracker: Tracker
):
    _, replicate = trials(tracker)
    (folder / "cache").rename(folder / "away")
    try:
        done = reproduce(folder, replicate.run_id, cache="fresh")
    finally:
        (folder / "away").rename(folder / "cache")
    assert done.returncode == 0, last_line(done)
    assert f"({replicate.run_id}): infocal on beer/palate, seed 1\n" in done.stdout
    assert last_line(done).startswith("agrees bit for bit: ")
    assert "building features of beer/palate" in done.stderr


def test_a_run_of_a_comparison_is_the_same_and_the_comparison_is_none(folder: Path, tracker: Tracker):
    prepared = json.loads((folder / "runs/comparisons/beside/comparison.json").read_text())
    (child,) = tracker.children(prepared["run_id"])
    done = reproduce(folder, child.run_id)
    assert done.returncode == 0, last_line(done)
    assert last_line(done).startswith("agrees bit for bit: ")
    refused = reproduce(folder, prepared["run_id"])
    assert refused.returncode == 2
    assert "(`beside`) is a comparison\n\nhint: name the run of one of its trainings" in refused.stderr


def test_a_study_is_refused_and_its_winner_named(folder: Path, tracker: Tracker):
    study = study_run(tracker, "first")
    done = reproduce(folder, study.run_id)
    assert done.returncode == 2
    assert f"hint: its winner is run {study.tags['winner_run_id']}\n" in done.stderr
    assert done.stdout == ""


def test_a_number_that_was_changed_in_the_store_is_found(folder: Path, tracker: Tracker):
    trial, _ = trials(tracker)
    change = "update metrics set value = value + ? where run_uuid = ? and key = 'val/mse' and step = 2"
    with sqlite3.connect(folder / "runs" / "mlflow.db") as database:
        database.execute(change, (0.01, trial.run_id))
    try:
        done = reproduce(folder, trial.run_id)
    finally:
        with sqlite3.connect(folder / "runs" / "mlflow.db") as database:
            database.execute(change, (-0.01, trial.run_id))
    assert done.returncode == 1
    assert last_line(done).startswith("differs: first at epoch 2 in val_mse (recorded 0.")

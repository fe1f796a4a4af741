"""Trials of a study and of a comparison, trained again in processes of their own."""

import json
import sqlite3
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pipeline.tracking.tracking import PARENT_TAG, TRIAL_TAG
from tests.integration.commands import run
from tests.integration.studies import NUM_TRIALS, Compared, Searched

pytestmark = pytest.mark.slow


def reproduce(studied: Searched | Compared, cache: Path, run_id: str, *more: str) -> CompletedProcess[str]:
    places = ["--storage", str(studied.folder / "runs"), "--cache-dir", str(cache)]
    command = [sys.executable, "-m", "pipeline.reproduce", "--run", run_id, *places, *more]
    return run(command, cwd=studied.folder)


def last_line(done: CompletedProcess[str]) -> str:
    return done.stdout.splitlines()[-1] if done.stdout else done.stderr


def test_a_trial_is_the_same_in_another_process(searched: Searched, tmp_path: Path):
    trial = searched.trials[0]
    file = tmp_path / "found.json"
    done = reproduce(searched, searched.cache, trial.run_id, "--json", str(file))
    assert done.returncode == 0, last_line(done)
    assert last_line(done).startswith("agrees bit for bit: ")
    assert last_line(done).endswith(" metrics over 2 epochs")
    found = json.loads(file.read_text())
    assert found["environment"]["recorded"] == found["environment"]["again"]
    assert found["git_commit"]["recorded"] == found["git_commit"]["again"]
    assert found["same_weights"] is True
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr


def test_a_replicate_has_its_own_seed_and_features_that_are_gone_are_built_again(
    searched: Searched, tmp_path: Path
):
    (replicate,) = searched.children[NUM_TRIALS:]
    searched.cache.rename(searched.folder / "away")
    try:
        done = reproduce(searched, tmp_path / "fresh", replicate.run_id)
    finally:
        (searched.folder / "away").rename(searched.cache)
    assert done.returncode == 0, last_line(done)
    assert f"({replicate.run_id}): infocal on beer/palate, seed 1\n" in done.stdout
    assert last_line(done).startswith("agrees bit for bit: ")
    assert "building features of beer/palate" in done.stderr


def test_a_run_of_a_comparison_is_the_same_and_the_comparison_is_none(compared: Compared, searched: Searched):
    (child,) = (child for child in compared.children if child.tags[TRIAL_TAG] == "infocal-seed0")
    done = reproduce(compared, searched.cache, child.run_id)
    assert done.returncode == 0, last_line(done)
    assert last_line(done).startswith("agrees bit for bit: ")
    refused = reproduce(compared, searched.cache, child.tags[PARENT_TAG])
    assert refused.returncode == 2
    assert (
        "(`first`) is a comparison\n\nhint: give the run of one of the comparison's trainings"
        in refused.stderr
    )


def test_a_study_is_refused_and_its_winner_named(searched: Searched):
    done = reproduce(searched, searched.cache, searched.parent.run_id)
    assert done.returncode == 2
    assert (
        f"hint: name the run of a trial, such as the winner's: {searched.parent.tags['winner_run_id']}\n"
        in done.stderr
    )
    assert done.stdout == ""


def test_a_number_that_was_changed_in_the_store_is_found(searched: Searched):
    trial = searched.trials[0]
    database = searched.folder / "runs" / "mlflow.db"
    change = "update metrics set value = value + ? where run_uuid = ? and key = 'val/mse' and step = 2"
    with sqlite3.connect(database) as connection:
        connection.execute(change, (0.01, trial.run_id))
    try:
        done = reproduce(searched, searched.cache, trial.run_id)
    finally:
        with sqlite3.connect(database) as connection:
            connection.execute(change, (-0.01, trial.run_id))
    assert done.returncode == 1
    assert last_line(done).startswith("differs: first at epoch 2 in val_mse (recorded training 0.")

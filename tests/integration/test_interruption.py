"""Searches that end otherwise than planned: nobody meets the criterion, or the driver is killed."""

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import optuna
import pytest

from pipeline import registry
from pipeline.errors import PipelineError
from pipeline.tracking import TRIAL_TAG
from tests.integration.commands import ENVIRONMENT, TIMEOUT_S, run, search_command, store_of, study_run

pytestmark = pytest.mark.slow

NAME = "infocal-beer-palate"
NUM_TRIALS, NUM_EPOCHS = 3, 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Shared by the searches here, so that the features are built once."""
    return tmp_path_factory.mktemp("interruption")


def kill_after(command: list[str], folder: Path, pattern: str) -> str:
    """Start a command and kill -9 its process group once stderr says `pattern`; returns what it said."""
    log = folder / "killed.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while not re.search(pattern, log.read_text()):
            assert process.poll() is None, f"it ended too soon:\n{log.read_text()}"
            assert time.monotonic() < deadline, f"it never said {pattern}:\n{log.read_text()}"
            time.sleep(0.1)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return log.read_text()


def test_a_killed_search_is_resumed_to_the_asked_number_of_trials(folder: Path):
    flags = ["--trials", str(NUM_TRIALS), "--epochs", str(NUM_EPOCHS), "--max-concurrent", "2"]
    command = search_command(folder, *flags, "--name", "killed", "--min-precision", "0.01")
    kill_after(command, folder, r"trial 0\d epoch 3/5")
    tracker = store_of(folder)
    before = tracker.children(study_run(tracker, "killed").run_id)
    assert 1 <= len(before) <= 2
    assert {run.status for run in before} == {"RUNNING"}

    done = run([*command, "--resume"], cwd=folder)
    assert done.returncode == 0, done.stderr
    parent = study_run(tracker, "killed")
    assert parent.status == "FINISHED"
    children = tracker.children(parent.run_id)
    assert [child.status for child in children] == ["FINISHED"] * NUM_TRIALS
    assert len({child.tags[TRIAL_TAG] for child in children}) == NUM_TRIALS
    assert {child.run_id for child in before} <= {child.run_id for child in children}, "runs are gone on with"
    for child in children:
        steps = [step for step, _ in tracker.history(child.run_id, "objective")]
        assert steps == list(range(NUM_EPOCHS)), child.name
    study = optuna.load_study(
        study_name="killed", storage=f"sqlite:///{folder / 'runs/studies/killed/optuna.db'}"
    )
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * NUM_TRIALS
    assert len({tuple(trial.params.values()) for trial in study.trials}) == NUM_TRIALS
    assert f"registered {NAME} version 1 as `challenger`" in done.stdout


def test_nothing_is_registered_where_nobody_meets_the_criterion(folder: Path):
    flags = ["--trials", "1", "--epochs", "1", "--name", "missed", "--min-precision", "1.0"]
    versions = known_versions(folder)
    done = run(search_command(folder, *flags), cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "No trial meets the criterion (best val_token_recall with val_token_precision >= 1)" in done.stdout
    assert "The nearest one, at epoch 1: precision 0." in done.stdout
    assert "`--min-precision`" in done.stdout
    tracker = store_of(folder)
    parent = study_run(tracker, "missed")
    assert (parent.status, parent.tags["criterion_met"]) == ("FINISHED", "false")
    assert parent.metrics["val_token_precision"] < 1
    assert known_versions(folder) == versions
    # the model itself is there, to be looked at
    assert (folder / "runs/studies/missed/model/model.safetensors").is_file()


def known_versions(folder: Path) -> int:
    """Registered versions so far."""
    number = 0
    while (folder / "runs" / "mlflow.db").is_file():
        try:
            registry.find(store_of(folder), NAME, number + 1)
        except PipelineError:
            break
        number += 1
    return number

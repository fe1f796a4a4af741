"""A search that ends otherwise than planned: its driver is killed, and nobody meets the criterion."""

import re
import shlex
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

import optuna
import pytest

from pipeline.base.errors import PipelineError
from pipeline.tracking import model_registry
from pipeline.tracking.epoch_steps import history
from pipeline.tracking.tracking import TRIAL_TAG, TrackedRun, Tracker
from tests.integration.commands import kill_after, run, search_command, store_of, study_run

pytestmark = pytest.mark.slow

NUM_TRIALS, NUM_EPOCHS = 3, 4


@dataclass
class Resumed:
    folder: Path
    tracker: Tracker
    before: list[TrackedRun]
    """The trials when the driver had been killed."""
    stdout: str


@pytest.fixture(scope="module")
def resumed(tmp_path_factory: pytest.TempPathFactory) -> Resumed:
    """A search that was killed while its first two trials ran, and resumed; no model has a precision of 1."""
    folder = tmp_path_factory.mktemp("interruption")
    flags = ["--trials", str(NUM_TRIALS), "--epochs", str(NUM_EPOCHS), "--max-concurrent", "2"]
    command = search_command(folder, *flags, "--name", "killed", "--min-precision", "1.0")
    kill_after(command, folder, rf"trial 0\d epoch 2/{NUM_EPOCHS}")
    tracker = store_of(folder)
    before = tracker.children(study_run(tracker, "killed").run_id)
    done = run([*command, "--resume"], cwd=folder)
    assert done.returncode == 0, done.stderr
    return Resumed(folder, tracker, before, done.stdout)


def test_a_resumed_search_ends_with_the_asked_number_of_trials(resumed: Resumed):
    assert 1 <= len(resumed.before) <= 2
    assert {run.status for run in resumed.before} == {"RUNNING"}
    parent = study_run(resumed.tracker, "killed")
    children = resumed.tracker.children(parent.run_id)
    assert parent.status == "FINISHED"
    assert [child.status for child in children] == ["FINISHED"] * NUM_TRIALS
    assert len({child.tags[TRIAL_TAG] for child in children}) == NUM_TRIALS
    assert {run.run_id for run in resumed.before} <= {child.run_id for child in children}


def test_each_epoch_of_a_resumed_search_is_logged_once(resumed: Resumed):
    for child in resumed.tracker.children(study_run(resumed.tracker, "killed").run_id):
        epochs = [epoch for epoch, _ in history(resumed.tracker, child, "objective")]
        assert epochs == list(range(NUM_EPOCHS)), child.name


def test_optuna_knows_every_trial_of_a_resumed_search(resumed: Resumed):
    path = resumed.folder / "runs" / "studies" / "killed" / "optuna.db"
    study = optuna.load_study(study_name="killed", storage=f"sqlite:///{path}")
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * NUM_TRIALS
    assert len({tuple(trial.params.values()) for trial in study.trials}) == NUM_TRIALS
    assert all(trial.constraints["criterion_violation"] > 0 for trial in study.trials)


def test_nothing_is_registered_where_nobody_meets_the_criterion(resumed: Resumed):
    said = resumed.stdout
    assert "No trial meets the criterion (best val_token_recall with val_token_precision >= 1)" in said
    assert re.search(
        r"The following command registers trial-\d\d with precision 0\.\d{3} ± 0\.\d{3}, "
        "recall ",
        said,
    )
    assert re.search(r"^  python -m pipeline\.register .*--min-precision 0\.\d+$", said, re.MULTILINE)
    parent = study_run(resumed.tracker, "killed")
    assert parent.tags["criterion_met"] == "false"
    assert parent.metrics["val_token_precision"] < 1
    with pytest.raises(PipelineError, match="no alias `challenger` .* registered models: none"):
        model_registry.find(resumed.tracker, "infocal-beer-palate", model_registry.CHALLENGER)
    # the model itself is there, to be looked at
    assert (resumed.folder / "runs/studies/killed/model/model.safetensors").is_file()


def test_an_interrupted_search_goes_on_in_mid_epoch(tmp_path: Path):
    """With the very words that it prints, whatever its folder is called and wherever it is tracked."""
    tmp_path /= "two words, über"
    tmp_path.mkdir()
    flags = ["--trials", "2", "--epochs", "2", "--max-concurrent", "2", "--name", "stopped"]
    uri = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    flags += ["--tracking-uri", uri]
    # an epoch of many seconds, with states from its first one on
    slow = ["--set", "batch_size=2", "--checkpoint-every", "0.5", "--min-precision", "0.0"]
    command = search_command(tmp_path, *flags, *slow)
    study, before = tmp_path / "runs/studies/stopped", set[Path]()

    def are_both_in_mid_epoch() -> bool:
        before.update(study.glob("midway/*/0-*"))
        return len({state.parent for state in before}) == 2

    said = kill_after(command, tmp_path, "", number=signal.SIGINT, is_time=are_both_in_mid_epoch)
    printed = re.search("to resume: python (-m pipeline.search --resume .*)", said)
    assert printed is not None
    tracker = Tracker(uri, create=False)
    parent = study_run(tracker, "stopped")
    runs = [parent, *tracker.children(parent.run_id)]
    assert [one.status for one in runs] == ["KILLED"] * 3
    states = set(study.glob("midway/*/0-*"))
    assert {state.parent.name for state in states} == {one.tags[TRIAL_TAG] for one in runs[1:]}
    assert not states & before, "each trial wrote one more when it was asked"
    done = run([sys.executable, *shlex.split(printed[1])], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for child in tracker.children(parent.run_id):
        epochs = [epoch for epoch, _ in history(tracker, child, "objective")]
        assert (child.status, epochs) == ("FINISHED", [0, 1]), child.name
    assert not (study / "midway").exists(), "nothing is left of them"
    assert not (tmp_path / "runs/mlflow.db").exists(), "all of it is tracked in one place"

"""Two methods with two seeds on the sample corpus, compared in a process of their own, and resumed."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from pipeline.tracking.epoch_steps import history
from pipeline.tracking.tracking import PARENT_TAG, TRIAL_TAG, TrackedRun, Tracker
from tests.integration.commands import run, store_of

pytestmark = pytest.mark.slow

FLAGS = [
    *("--dataset", "beer", "--aspect", "palate", "--sample", "--embedding", "random", "--device", "cpu"),
    *("--methods", "infocal,hardkuma", "--seeds", "2", "--epochs", "2", "--name", "first"),
    *("--set", "hidden_size=4", "--set", "encoder=lstm", "--set", "batch_size=256"),
]
NAMES = ["hardkuma-seed0", "hardkuma-seed1", "infocal-seed0", "infocal-seed1"]


@dataclass
class Compared:
    folder: Path
    stdout: str
    stderr: str
    tracker: Tracker
    children: list[TrackedRun]

    @property
    def directory(self) -> Path:
        return self.folder / "runs" / "comparisons" / "first"


def command(folder: Path, *more: str) -> list[str]:
    places = ["--storage", str(folder / "runs"), "--cache-dir", str(folder / "cache")]
    return [sys.executable, "-m", "pipeline.compare", *FLAGS, *places, *more]


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    folder = tmp_path_factory.mktemp("compare")
    done = run(command(folder), cwd=folder)
    assert done.returncode == 0, done.stderr
    tracker = store_of(folder)
    parent = json.loads((folder / "runs/comparisons/first/comparison.json").read_text())["run_id"]
    return Compared(folder, done.stdout, done.stderr, tracker, tracker.children(parent))


def test_each_run_is_a_child_whose_one_reading_of_test_is_recorded(compared: Compared):
    assert sorted(child.tags[TRIAL_TAG] for child in compared.children) == NAMES
    assert {child.status for child in compared.children} == {"FINISHED"}
    assert {child.tags["test_readings"] for child in compared.children} == {"1"}
    for child in compared.children:
        epochs = [epoch for epoch, _ in history(compared.tracker, child, "val_token_f1")]
        assert epochs == [0, 1]
        assert "test_token_f1" in child.metrics


def test_the_table_is_printed_and_kept_with_the_parent(compared: Compared, tmp_path: Path):
    parent = compared.children[0].tags[PARENT_TAG]
    for name in ("table.md", "table.tex", "table.html", "table.json"):
        stored = compared.tracker.download(parent, name, tmp_path)
        assert stored.read_text("utf-8") == (compared.directory / name).read_text("utf-8")
    assert (compared.directory / "table.md").read_text("utf-8") == compared.stdout
    files = [str(compared.directory / f"table.{kind}") for kind in ("html", "json", "md", "tex")]
    assert compared.stderr.endswith(f"tables: {', '.join(files)}\n")
    assert compared.stdout.startswith("### beer/palate: methods at 18 % of the tokens, on test\n")
    for name in ("InfoCal", "HardKuma", "[Sha2023] table 2: HardKuma", "random_k", "oracle_k"):
        assert f"\n| {name} " in compared.stdout


def test_resuming_trains_what_is_missing_alone(compared: Compared):
    (compared.directory / "outcomes" / "hardkuma-seed1.json").unlink()
    before = {child.run_id for child in compared.children}
    done = run(command(compared.folder, "--resume"), cwd=compared.folder)
    assert done.returncode == 0, done.stderr
    assert "3 of 4 are done already" in done.stderr
    children = compared.tracker.children(compared.children[0].tags[PARENT_TAG])
    new = [child for child in children if child.run_id not in before]
    assert [child.tags[TRIAL_TAG] for child in new] == ["hardkuma-seed1"]
    # the same seed gives the same row
    assert done.stdout == compared.stdout

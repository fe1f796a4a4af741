"""A search and a comparison on the sample corpus, each run once for all test files that read its results.

The session fixtures `searched`, `promoted` and `compared` give them, and `tests/scheduling.py` runs the files
that use these fixtures in one process.
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from pipeline import promote
from pipeline.base.errors import run_command
from pipeline.tracking.tracking import TrackedRun, Tracker
from tests.integration.commands import run, search_command, store_of, study_run

NUM_TRIALS, NUM_EPOCHS, NUM_SEEDS = 2, 2, 2
COMPARISON = [
    *("--dataset", "beer", "--aspect", "palate", "--sample", "--embedding", "random", "--device", "cpu"),
    *("--methods", "infocal,hardkuma", "--seeds", "2", "--epochs", "2", "--name", "first"),
    *("--set", "hidden_size=4", "--set", "encoder=lstm", "--set", "batch_size=256"),
]
RUNS = ["hardkuma-seed0", "hardkuma-seed1", "infocal-seed0", "infocal-seed1"]
"""Names of the comparison's runs."""


@dataclass
class Searched:
    """A study of two trials and a replicate of the winner."""

    folder: Path
    stdout: str
    stderr: str
    tracker: Tracker
    parent: TrackedRun
    children: list[TrackedRun]

    @property
    def trials(self) -> list[TrackedRun]:
        """Children that searched, not replicates of the winner."""
        return self.children[:NUM_TRIALS]

    @property
    def directory(self) -> Path:
        return self.folder / "runs" / "studies" / "first"

    @property
    def places(self) -> list[str]:
        return ["--storage", str(self.folder / "runs"), "--cache-dir", str(self.cache)]

    @property
    def cache(self) -> Path:
        return self.folder / "cache"


@dataclass
class Compared:
    """A comparison of two methods with two seeds each."""

    folder: Path
    command: list[str]
    stdout: str
    stderr: str
    tracker: Tracker
    children: list[TrackedRun]

    @property
    def directory(self) -> Path:
        return self.folder / "runs" / "comparisons" / "first"


def search(folder: Path) -> Searched:
    """Run the search, which ends with a registered challenger."""
    counts = {"--trials": NUM_TRIALS, "--epochs": NUM_EPOCHS, "--seeds": NUM_SEEDS}
    flags = [text for name, count in counts.items() for text in (name, str(count))]
    done = run(search_command(folder, *flags, "--name", "first", "--min-precision", "0.01"), cwd=folder)
    assert done.returncode == 0, done.stderr
    tracker = store_of(folder)
    parent = study_run(tracker, "first")
    return Searched(folder, done.stdout, done.stderr, tracker, parent, tracker.children(parent.run_id))


def promote_winner(searched: Searched) -> Searched:
    """Make the challenger of a search the champion."""
    arguments = ["--dataset", "beer", "--aspect", "palate", "--sample", "--embedding", "random"]
    assert run_command(promote.main, [*arguments, *searched.places]) == 0
    return searched


def compare(folder: Path, cache: Path) -> Compared:
    """Run the comparison."""
    places = ["--storage", str(folder / "runs"), "--cache-dir", str(cache)]
    command = [sys.executable, "-m", "pipeline.compare", *COMPARISON, *places]
    done = run(command, cwd=folder)
    assert done.returncode == 0, done.stderr
    tracker = store_of(folder)
    parent = json.loads((folder / "runs/comparisons/first/comparison.json").read_text())["run_id"]
    return Compared(folder, command, done.stdout, done.stderr, tracker, tracker.children(parent))

"""Commands of the pipeline in processes of their own, on the sample corpus with a model of four units."""

import os
import subprocess
import sys
from pathlib import Path

from pipeline.tracking import TrackedRun, Tracker

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = os.environ | {"PYTHONPATH": str(ROOT)}
"""The checkout is found from everywhere, whether it is installed or not."""
TIMEOUT_S = 300
SMALL = [
    *("--dataset", "beer", "--aspect", "palate", "--sample", "--embedding", "random", "--device", "cpu"),
    *("--set", "hidden_size=4", "--set", "encoder=lstm", "--set", "batch_size=256"),
    # nothing presses: no mask becomes trivial enough to fail, and no trial is stopped early
    *("--set", "dense_epochs=100.0", "--set", "start_selection_rate=0.5"),
]
"""A model that trains an epoch in a second."""


def search_command(folder: Path, *more: str) -> list[str]:
    """A small search whose results and cache lie in `folder`."""
    places = ["--storage", str(folder / "runs"), "--cache-dir", str(folder / "cache")]
    return [sys.executable, "-m", "pipeline.search", *SMALL, *places, *more]


def run(command: list[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, away from the checkout."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def store_of(folder: Path) -> Tracker:
    """The tracking store of the searches in `folder`."""
    return Tracker(f"sqlite:///{folder / 'runs' / 'mlflow.db'}", create=False)


def study_run(tracker: Tracker, name: str) -> TrackedRun:
    """The run of a study."""
    found = tracker.latest_study(tracker.experiment("beer", "palate"), name)
    assert found is not None, f"no run of study {name}"
    return found

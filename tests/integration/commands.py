"""Commands of the pipeline in processes of their own, on the sample corpus with a model of four units."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from pipeline.tracking.studies import latest_study
from pipeline.tracking.tracking import TrackedRun, Tracker

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


def run(
    command: list[str], cwd: Path, environment: Mapping[str, str] = ENVIRONMENT
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, away from the checkout."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def kill_after(
    command: list[str],
    folder: Path,
    pattern: str,
    environment: Mapping[str, str] = ENVIRONMENT,
    number: signal.Signals = signal.SIGKILL,
    is_time: Callable[[], bool] = lambda: True,
) -> str:
    """Start a command, and send its process group a signal once stderr says `pattern`, and it is time.

    Returns:
        What it said until its end.
    """
    log = folder / "killed.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while not (re.search(pattern, log.read_text()) and is_time()):
            assert process.poll() is None, f"it ended too soon:\n{log.read_text()}"
            assert time.monotonic() < deadline, f"it never was time after {pattern}:\n{log.read_text()}"
            time.sleep(0.1)
        os.killpg(process.pid, number)
        process.wait(TIMEOUT_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return log.read_text()


def store_of(folder: Path) -> Tracker:
    """The tracking store of the searches in `folder`."""
    return Tracker(f"sqlite:///{folder / 'runs' / 'mlflow.db'}", create=False)


def study_run(tracker: Tracker, name: str) -> TrackedRun:
    """The run of a study."""
    found = latest_study(tracker, tracker.experiment("beer", "palate"), name)
    assert found is not None, f"no run of study {name}"
    return found

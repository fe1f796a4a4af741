"""A whole search on the made-up corpus: when the first epoch is reported, and where the time goes."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Figure

_TRIALS, _EPOCHS = 8, 12
_COMMAND = (
    *("-m", "pipeline.search", "--dataset", "beer", "--aspect", "palate", "--sample"),
    *("--trials", str(_TRIALS), "--epochs", str(_EPOCHS)),
)
_USED = re.compile(
    r"training used (\d+)% of the CPU time .*; starting another trial .* took ([\d.]+) s", re.DOTALL
)


def run(work: Path) -> Iterator[Figure]:
    """Figures of two searches, one with empty caches and one with full ones.

    Raises:
        RuntimeError: if a search fails; with what it printed last.
    """
    note = f"sample corpus, {_TRIALS} trials of {_EPOCHS} epochs"
    for label in ("cold", "warm"):
        first, whole, printed = _search(work, label)
        yield Figure(f"first_report_s_{label}", first, None, None, "s", f"after the command, {label} caches")
        yield Figure(f"search_s_{label}", whole, None, None, "s", note)
    used = _USED.search(printed)
    if used is None:
        raise RuntimeError(f"the search did not say what it made of its cores:\n{printed[-2000:]}")
    yield Figure("search_useful_rate", int(used[1]) / 100, None, None, "of core time", note)
    yield Figure("trial_overhead_s", float(used[2]), None, None, "s", "further trials, besides their epochs")


def _search(work: Path, name: str) -> tuple[float, float, str]:
    """Seconds to the first report, seconds in all, and what was printed."""
    work.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, *_COMMAND, "--name", name, "--storage", str(work / "runs")]
    command += ["--cache-dir", str(work / "cache")]
    started = time.perf_counter()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"XDG_CACHE_HOME": str(work / "compiled")},
    ) as process:
        assert process.stdout is not None
        first, lines = 0.0, []
        for line in process.stdout:
            lines.append(line)
            if not first and re.match(r"trial \d+ epoch 1/", line):
                first = time.perf_counter() - started
    if process.returncode or not first:
        raise RuntimeError(
            f"the search failed with exit status {process.returncode}:\n{''.join(lines[-20:])}"
        )
    return first, time.perf_counter() - started, "".join(lines)

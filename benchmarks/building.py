"""Builds features with this checkout and another: python -m benchmarks.building OTHER --data-dir DIR.

OTHER is a folder with another version of the code (`git worktree add --detach OTHER REVISION`). Each round
builds the features of beer once with each version, in a process of its own: a busy machine is busy for both.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.data import SIZES, grown

_FIGURES = ("seconds", "cpu_s", "peak_mb")
_OURS = Path(__file__).parents[1]


def _built(checkout: Path, data_dir: Path, cache_dir: Path) -> dict[str, float]:
    shutil.rmtree(cache_dir, ignore_errors=True)
    # this checkout's script, the other one's feature_store
    command = [sys.executable, str(_OURS / "benchmarks" / "opening.py"), str(data_dir), str(cache_dir)]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main(arguments: Sequence[str]) -> None:
    """Print the medians of both versions, and the median of the rounds' ratios."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.building", allow_abbrev=False)
    parser.add_argument("other", type=Path, help="folder with the other version")
    parser.add_argument("--data-dir", type=Path, required=True, help="folder that holds beer/")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as work:
        for label in given.sizes:
            source, num_texts = given.data_dir.resolve(), SIZES[label]
            if num_texts is not None:
                source = grown(source / "beer", Path(work) / "data", num_texts)
            rounds = [
                [_built(tree, source, Path(work) / "cache") for tree in (_OURS, given.other.resolve())]
                for _ in range(given.rounds)
            ]
            for name in _FIGURES:
                ours, other = ([pair[i][name] for pair in rounds] for i in range(2))
                ratio = statistics.median(a / b for a, b in zip(ours, other, strict=True))
                medians = f"{statistics.median(ours):8.2f} | {statistics.median(other):8.2f}"
                print(f"{label} {name:8} ours | other {medians}   ratio {ratio:.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

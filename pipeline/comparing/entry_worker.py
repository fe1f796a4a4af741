"""One entry of a comparison in a worker: it trains, and leaves its epochs where the driver reads them."""

import shutil
from pathlib import Path

from pipeline.base.trajectories import Failure
from pipeline.training import checkpoints
from pipeline.training.epochs import FAILURE, FAILURE_MESSAGE, Epoch
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import train

LAST = "last"
"""In an entry's folder: the checkpoint of its last epoch."""


def train_entry(run: RunSettings, folder: str) -> dict[str, str]:
    """Train in a worker: leaves the best epoch and the history in the folder.

    Each epoch leaves its checkpoint there too, and where one lies already, training goes on from it.

    Returns:
        The failure that has a name; empty where training came to its end.
    """
    directory = Path(folder)
    checkpoint = directory / LAST
    ended: dict[str, str] = {}

    def report(result: Epoch | Failure, written: Path) -> None:
        if isinstance(result, Failure):
            ended.update({FAILURE: result.reason, FAILURE_MESSAGE: result.message})
        else:  # from a failed epoch training would go on as if nothing had been
            _replace(checkpoint, written)
        _publish_history(written, directory)

    if checkpoint.is_dir():
        _publish_history(checkpoint, directory)
    train({}, run, report, directory, checkpoint if checkpoint.is_dir() else None)
    return ended


def _replace(kept: Path, written: Path) -> None:
    """Put a copy of a folder where another stood; interrupted, it leaves one of them or none."""
    staged = kept.with_name(f".{kept.name}")
    shutil.copytree(written, staged)
    shutil.rmtree(kept, ignore_errors=True)
    staged.replace(kept)


def _publish_history(checkpoint: Path, directory: Path) -> None:
    """Let the driver see the epochs of a checkpoint, which it may read at any moment."""
    staged = directory / f".{checkpoints.HISTORY}"
    shutil.copyfile(checkpoint / checkpoints.HISTORY, staged)
    staged.replace(directory / checkpoints.HISTORY)

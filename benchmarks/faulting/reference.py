"""Trials trained in this process without a break: what those that were killed have to equal, bit for bit."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch

from pipeline.base.trajectories import Failure
from pipeline.training import checkpoints
from pipeline.training.epochs import Epoch, report_of
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import train

TIMES = frozenset({"epoch_s", "train_s", "tokens_per_s"})
"""What a clock decides."""


class Reference:
    """Uninterrupted trainings, each done once.

    Args:
        folder: for their states; empty.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[list[dict[str, Any]], Path]] = {}

    def trained(self, run: RunSettings, values: dict[str, Any]) -> tuple[list[dict[str, Any]], Path]:
        """Results of every epoch, and the file with the state after the last one."""
        key = json.dumps(
            [
                values,
                run.base,
                run.num_epochs,
                run.method,
                run.criterion,
                run.seed,
                Path(run.features_dir).name,
            ],
            default=str,
            sort_keys=True,
        )
        if key not in self._known:
            folder = self._folder / str(len(self._known))
            working = folder / "work"
            working.mkdir(parents=True)
            results: list[dict[str, Any]] = []

            def report(result: Epoch | Failure, checkpoint: Path) -> None:
                results.append(report_of(result))
                shutil.copyfile(checkpoint / checkpoints.STATE, folder / checkpoints.STATE)

            train(values, run, report, working)
            shutil.rmtree(working)
            self._known[key] = results, folder / checkpoints.STATE
        return self._known[key]


def state_differs(path: Path, other: Path) -> str | None:
    """The first part of two states of training that is not equal to the last bit; None where all are."""
    mine, theirs = (torch.load(file, weights_only=True)["trainer"] for file in (path, other))
    return _difference(mine, theirs, "")


def _difference(mine: Any, theirs: Any, name: str) -> str | None:
    if type(mine) is not type(theirs):
        return name
    if isinstance(mine, torch.Tensor):
        return None if torch.equal(mine, theirs) else name
    if isinstance(mine, dict):
        if mine.keys() != theirs.keys():
            return name
        parts = [(key, mine[key], theirs[key]) for key in mine]
    elif isinstance(mine, list | tuple):
        if len(mine) != len(theirs):
            return name
        parts = [(at, *pair) for at, pair in enumerate(zip(mine, theirs, strict=True))]
    else:
        return None if mine == theirs else name
    return next(
        (
            found
            for key, one, two in parts
            if (found := _difference(one, two, f"{name}.{key}".strip("."))) is not None
        ),
        None,
    )

"""A trial that trains nothing: it reports epochs as fast as the driver takes them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.training.epochs import EPOCHS, NUMBER, OBJECTIVE

FOLDER, EPOCH, CHECKPOINT = "idle", "epoch.json", "checkpoint"
"""Folder of the study that holds what each trial reports: the numbers of an epoch, and its checkpoint."""


def report_epochs(values: dict[str, Any], runs: Mapping[str, Any], study: str) -> None:
    """Report the same epoch again and again, in the place of `pipeline.study.worker.tune_trainable`.

    Args:
        values: hyper-parameters of the trial; nothing is trained with them.
        runs: settings of the study; they say how many epochs a trial has.
        study: folder of the study, on this machine.
    """
    from ray import tune  # the driver loads this module before it has chosen Ray's environment

    kept = Path(study) / FOLDER
    numbers = json.loads((kept / EPOCH).read_text(encoding="utf-8"))
    for epoch in range(runs[""].num_epochs):
        of_this = {NUMBER: epoch, EPOCHS: epoch + 1, OBJECTIVE: numbers[OBJECTIVE] + epoch / 1000}
        tune.report(numbers | of_this, checkpoint=tune.Checkpoint.from_directory(str(kept / CHECKPOINT)))

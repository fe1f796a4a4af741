"""The steps of `pipeline.reproduce`: the run, its features, the training again."""

import argparse
import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from feature_store import terminal
from pipeline.base import locations
from pipeline.cli import planning

if TYPE_CHECKING:
    from pipeline.comparing.repetition import Repetition


def repeated(given: argparse.Namespace, uri: str, output: Path | None) -> "Repetition":
    """Train the trial again that `--run` names.

    Args:
        given: parsed flags of `pipeline.reproduce`.
        output: folder that keeps the model; None: nothing is kept.

    Raises:
        UserError: if there is no such trial, or its features or device are missing.
    """
    with terminal.step("loading the packages"):
        from pipeline.base import trajectories
        from pipeline.comparing import repetition
        from pipeline.tracking.record import read_record
        from pipeline.tracking.tracking import Tracker
        from pipeline.training import origin  # torch and mlflow take seconds that --help need not wait

    with terminal.step("reading the run"):
        record = read_record(Tracker(uri, create=False), given.run)
    run = dataclasses.replace(
        record.run,
        device=given.device or record.run.device,
        num_threads=given.threads or record.run.num_threads,
    )
    planning.check_device(run)
    with terminal.step("preparing the data"):
        features = origin.features_again(run, record.fingerprint, sample=record.is_sample, given=given)
    run = origin.placed(run, features)
    tolerance = trajectories.TOLERANCE if given.tolerance is None else given.tolerance
    if output is not None:
        locations.make_folder(output.parent, "--output")
    with tempfile.TemporaryDirectory(prefix="infocal-", dir=output and output.parent) as folder:
        with terminal.step("training again"):
            found = repetition.repeat(record, run, Path(folder), tolerance)
        if output is not None:
            repetition.keep_package(found, run, features, Path(folder), output)
    return found

"""Score a trial or a registered model on the test split, and record this reading of the split on its run.

python -m pipeline.evaluate --model models:/infocal-beer-palate@challenger
python -m pipeline.evaluate --run RUN_ID
python -m pipeline.evaluate --run RUN_ID --explainer lime
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feature_store import terminal
from infocal.explainers import EXPLAINERS
from pipeline.base import locations
from pipeline.base.errors import run_command
from pipeline.cli import common_flags, json_output, models

if TYPE_CHECKING:
    from pipeline.tracking.assessment import Subject
    from pipeline.training.scoring import TestReading


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.evaluate`."""
    parser = common_flags.parser(
        "pipeline.evaluate", "Score a trial or a registered model on the test split."
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--run", metavar="RUN_ID", help="MLflow run of a trial")
    which.add_argument("--model", type=models.model_uri, metavar="URI", help=models.URI_HELP)
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="also write every score to this file; `-`: write to stdout instead of the table",
    )
    parser.add_argument(
        "--explainer",
        metavar="NAME",
        choices=EXPLAINERS,
        help=f"method that ranks the tokens of a classifier: {', '.join(EXPLAINERS)} (default: as trained)",
    )
    parser.add_argument("--sample", action="store_true", help="look in runs/sample for results, not in runs")
    common_flags.add_storage_arguments(parser)
    group = common_flags.add_feature_arguments(parser)
    group.add_argument("--embedding", help="`--embedding` of the training, if it had one")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    name_and_which = models.parse_uri(given.model) if given.model else None
    target = json_output.json_target(given.json)  # found out before the test split is read, not after
    storage = locations.storage(given.storage, given.sample)
    uri = locations.tracking_uri(given.tracking_uri, storage)
    with terminal.opened():
        with terminal.step("loading the packages"):
            from pipeline.tracking import assessment, model_registry
            from pipeline.tracking.tracking import Tracker

        with terminal.step("loading the model and the data"), tempfile.TemporaryDirectory() as folder:
            tracker = Tracker(uri, create=False)
            if name_and_which is not None:
                version = model_registry.find(tracker, *name_and_which)
                subject = assessment.of_version(tracker, version, given, Path(folder))
            else:
                subject = assessment.of_run(tracker, given.run, given, Path(folder))
            if given.explainer:
                subject = assessment.explained_by(subject, given.explainer)
        with terminal.step("reading the test split"):
            reading = assessment.read_test(tracker, subject)
    if given.json == "-":
        print(json_output.dumped(_document(subject, reading)))
        return 0
    terminal.answer(assessment.describe(subject, reading, terminal.width_of(sys.stdout)))
    json_output.write_json(target, _document(subject, reading))
    return 0


def _document(subject: "Subject", reading: "TestReading") -> dict[str, Any]:
    """Every score of a reading."""
    return {
        "model": subject.label,
        "run_id": subject.run_id,
        "explainer": subject.explainer or None,
        "data_fingerprint": subject.features.fingerprint,
        "num_texts": len(reading.predictions),
        "scores": reading.scores,
        "trivial": reading.trivial,
        "groups": reading.groups,
    }


if __name__ == "__main__":
    sys.exit(run_command(main))

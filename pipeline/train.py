"""Train one configuration without Ray: the paper's best values, or the values of a tracked trial.

python -m pipeline.train --dataset beer --aspect palate
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feature_store import terminal
from feature_store.sources import get_source
from pipeline.base import command_text, locations
from pipeline.base.errors import PipelineError, run_command
from pipeline.base.storage import Storage
from pipeline.cli import common_flags, flag_values, planning
from pipeline.study import cluster
from pipeline.training import naming
from search_spaces import lookup

if TYPE_CHECKING:
    from pipeline.tracking.tracking import Tracker

logger = logging.getLogger("pipeline.train")


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.train`."""
    parser = common_flags.parser("pipeline.train", "Train one configuration, without Ray.")
    common_flags.add_data_arguments(parser)
    common_flags.add_training_arguments(parser)
    common_flags.add_storage_arguments(parser)
    group = parser.add_argument_group("model")
    group.add_argument("--from-run", metavar="RUN_ID", help="use the hyper-parameters of this MLflow run")
    group.add_argument(
        "--threads", type=flag_values.positive_int, default=1, help="torch threads (default: %(default)s)"
    )
    group.add_argument("--track", action="store_true", help="log the training to MLflow (--tracking-uri)")
    group.add_argument(
        "--output", metavar="DIR", help="new folder of the model (default: STORAGE/models/NAME)"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    cluster.prepare_environment()
    get_source(given.dataset)  # a data set that is not there has no published values either
    storage = locations.storage(given.storage, given.sample)
    start = _start(given, storage)
    run = planning.run_settings(given, start, num_threads=given.threads, holds_rate=True)
    name = naming.default_name(run.dataset, run.aspect)
    output = Path(given.output) if given.output else storage.folder / "models" / name
    if output.exists():
        raise PipelineError(f"`{output}` exists already", where="--output", hint="name a new folder")
    planning.check_device(run)
    tracker = _tracker(given, storage)
    logger.info("model: %s", output)
    with terminal.opened():
        with terminal.step("preparing the data"):
            run = planning.with_features(given, run)
        with terminal.step("loading the packages"):
            from pipeline.study.outcome import train_alone

        command = command_text.stored_command("pipeline.train", arguments)
        with terminal.step("training"):
            text = train_alone(run, output, sample=given.sample, tracker=tracker, command=command)
    terminal.answer(text)
    return 0


def _tracker(given: argparse.Namespace, storage: Storage) -> "Tracker | None":
    """Where the training is logged; looked at before features are built. None where nobody asks for it."""
    if not given.track:
        return None
    from pipeline.tracking.tracking import Tracker

    tracker = Tracker(locations.tracking_uri(given.tracking_uri, storage))
    logger.info("tracking: %s", tracker.uri)
    return tracker


def _start(given: argparse.Namespace, storage: Storage) -> dict[str, Any]:
    """The hyper-parameters to start from: the tracked run's, else the published best."""
    if not given.from_run:
        return lookup.first_points(given.method, given.dataset)[0]
    from pipeline.tracking.studies import config_of
    from pipeline.tracking.tracking import Tracker

    tracker = Tracker(locations.tracking_uri(given.tracking_uri, storage), create=False)
    return config_of(tracker.run(given.from_run))


if __name__ == "__main__":
    sys.exit(run_command(main))

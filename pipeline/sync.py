"""Write to MLflow what it lacks of a study.

python -m pipeline.sync --name NAME --storage DIR

A search goes on while MLflow is away, and what its trials give is in the study's ledger. This writes what is
missing once MLflow is back, and nothing twice; a study whose trials have all ended gets its winner and its
report.
"""

import argparse
import contextlib
import logging
import sys
from collections.abc import Sequence

from feature_store import terminal
from pipeline import cluster, reach, settings, study_folder
from pipeline.errors import run_command
from pipeline.study_folder import SETTINGS, SETTINGS_COPY

logger = logging.getLogger("pipeline.sync")


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.sync`."""
    parser = settings.parser("pipeline.sync", "Write to MLflow what it lacks of a study.")
    parser.add_argument("--name", type=settings.study_name, required=True, help="name of the study")
    parser.add_argument("--sample", action="store_true", help="the study was made on the sample corpus")
    settings.add_storage_arguments(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    cluster.prepare_environment()
    storage = settings.storage(given.storage, given.sample)
    home = storage.opened()
    study_folder.check_exists(home, given.name)
    study_folder.check_complete(home, given.name, "--name", "there is nothing to write")
    with study_folder.opened(storage, given.name, resume=True) as folder:
        from pipeline.conduct import synchronise
        from pipeline.study import StudySettings

        with folder.place.localised(SETTINGS, SETTINGS_COPY) as copy:
            prepared = StudySettings.load(copy, given.name)
        first = settings.parsed_again(prepared.command, f"{SETTINGS} of `{prepared.name}`")
        stated = given.tracking_uri or first.tracking_uri
        uri = settings.tracking_uri(stated, storage)
        reach.check_tracking(uri)
        command = settings.commands(given.name, storage, stated).resume
        try:
            with contextlib.redirect_stdout(sys.stderr):
                result = synchronise(prepared, folder, uri, command)
        except KeyboardInterrupt:
            logger.warning("what is missing is written when the same command is started again")
            raise
    terminal.answer(result)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))

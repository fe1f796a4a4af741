"""Write the results of a study to MLflow, as far as MLflow lacks them.

python -m pipeline.sync --name NAME --storage DIR

A search continues while MLflow is not reachable; the results of its trials are in the study's ledger. This
command writes to MLflow what it lacks, and nothing twice. A study whose trials have all ended gets its winner
and its report.
"""

import argparse
import contextlib
import logging
import sys
from collections.abc import Sequence

from feature_store import terminal
from pipeline.base import command_text
from pipeline.base.errors import run_command
from pipeline.cli import common_flags, flag_values
from pipeline.study import ended_study

logger = logging.getLogger("pipeline.sync")


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.sync`."""
    parser = common_flags.parser(
        "pipeline.sync", "Write the results of a study to MLflow, as far as MLflow lacks them."
    )
    parser.add_argument("--name", type=flag_values.study_name, required=True, help="name of the study")
    parser.add_argument("--sample", action="store_true", help="the study was made on the sample corpus")
    common_flags.add_storage_arguments(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    with (
        terminal.opened(),
        terminal.step("writing to MLflow the results that it lacks"),
        ended_study.reopened(
            given, "there is nothing to write to MLflow; start it again with `python -m pipeline.search`"
        ) as study,
    ):
        from pipeline.study.conduct import synchronise

        command = command_text.next_commands(given.name, study.folder.storage, study.tracking).how_to_resume
        try:
            with contextlib.redirect_stdout(sys.stderr):
                result = synchronise(study.prepared, study.folder, study.uri, command)
        except KeyboardInterrupt:
            logger.warning("to write the rest, run the same command again")
            raise
    terminal.answer(result)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))

"""Register a trial of a finished study under another criterion; nothing is trained.

python -m pipeline.register --name STUDY --min-precision 0.75
"""

import argparse
import contextlib
import logging
import sys
from collections.abc import Sequence

from feature_store import terminal
from pipeline.base.errors import PipelineError, run_command
from pipeline.cli import common_flags, flag_values
from pipeline.study import ended_study
from search_spaces import criteria
from search_spaces.base import Criterion

logger = logging.getLogger("pipeline.register")


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.register`."""
    parser = common_flags.parser(
        "pipeline.register", "Register a trial of a finished study under another criterion."
    )
    parser.add_argument("--name", type=flag_values.study_name, required=True, help="name of the study")
    parser.add_argument(
        "--trial",
        type=flag_values.count,
        metavar="N",
        help="number of the trial, as in trial-02 (default: the best one by the criterion)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--min-precision",
        type=flag_values.fraction,
        help="another precision threshold for the study's criterion",
    )
    which.add_argument(
        "--criterion",
        metavar="TEXT",
        help='another criterion, such as "best val_token_f1 with val_selection_rate <= 0.2" '
        "(default: the study's)",
    )
    common_flags.add_model_name(parser)
    parser.add_argument("--sample", action="store_true", help="the study was made on the sample corpus")
    common_flags.add_storage_arguments(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    stated = _stated(given.criterion)
    with (
        terminal.opened(),
        terminal.step("registering"),
        ended_study.reopened(
            given, "start it again with `python -m pipeline.search`, then register one of its trials"
        ) as study,
    ):
        from pipeline.study.registration import Wanted, register

        wanted = Wanted(
            number=given.trial,
            criterion=stated,
            min_precision=given.min_precision,
            model_name=given.model_name,
        )
        with contextlib.redirect_stdout(sys.stderr):
            result = register(study.prepared, study.folder, study.uri, wanted)
    terminal.answer(result)
    return 0


def _stated(text: str | None) -> Criterion | None:
    if text is None:
        return None
    try:
        return criteria.as_stated(text)
    except ValueError as error:
        raise PipelineError(
            str(error),
            where="--criterion",
            hint='for instance --criterion "best val_token_f1 with val_selection_rate <= 0.2"',
        ) from error


if __name__ == "__main__":
    sys.exit(run_command(main))

"""Let people judge rationales, or mark their own, on web pages; compute means, tests and agreement.

python -m pipeline.judge --sheet judging --models NAME[@ALIAS],... --dataset beer --aspect palate
python -m pipeline.judge --results judging
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from feature_store import terminal
from pipeline.base import locations
from pipeline.base.errors import PipelineError, run_command
from pipeline.cli import common_flags

logger = logging.getLogger("pipeline.judge")


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.judge`."""
    parser = common_flags.parser(
        "pipeline.judge", "Let people judge rationales or mark their own, and compute the results."
    )
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument(
        "--sheet",
        metavar="DIR",
        help="folder of the sheet; it is created if it does not exist, then served",
    )
    place.add_argument(
        "--results", metavar="DIR", help="folder of a sheet whose results are computed and written"
    )
    from pipeline.judging.flags import add_flags

    add_flags(parser)
    common_flags.add_data_arguments(parser)
    parser.add_argument(
        "--embedding",
        help="`--embedding` of the training, if it had one",
    )
    common_flags.add_storage_arguments(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    parser = build_parser()
    given = parser.parse_args(arguments)
    terminal.log_to_stderr()
    from pipeline.judging import flags

    flags.check(given)
    if not flags.makes(given):
        _say_what_is_ignored(Path(given.sheet or given.results), flags.without_effect(parser, arguments))
    if given.results:
        return _results(given)
    from pipeline.judging import host, making

    folder = Path(given.sheet)
    if flags.makes(given):
        print(making.make(folder, given))
    if given.export or given.take_back:
        print(making.exchange(folder, given))
    elif not given.no_serve:
        print(host.serve(folder, given.host, given.port, given.url))
        print(f"\nnext:\n  python -m pipeline.judge --results {folder}")
    return 0


def _say_what_is_ignored(folder: Path, ignored: Sequence[str]) -> None:
    from pipeline.judging.sheet import SHEET

    if ignored and (folder / SHEET).is_file():
        names = ", ".join(f"`{name}`" for name in ignored)
        have = "has" if len(ignored) == 1 else "have"
        logger.warning("note: on an existing sheet, %s %s no effect: the sheet stays as it is", names, have)


def _results(given: argparse.Namespace) -> int:
    uri = None
    if given.run:
        uri = locations.tracking_uri(given.tracking_uri, locations.storage(given.storage, given.sample))
    elif given.tracking_uri:
        raise PipelineError("this flag needs `--run`", where="--tracking-uri", hint="add `--run RUN_ID`")
    from pipeline.judging import results_files

    text, files = results_files.write(Path(given.results), given.vote)
    print(text)
    logger.info("written: %s", ", ".join(map(str, files)))
    if uri is not None:
        results_files.store(files, uri, given.run)
        logger.info("stored in run %s, folder `%s`", given.run, results_files.ARTIFACTS)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))

"""Train a tracked trial again, on the same data with the same seed, and say whether its metrics agree.

python -m pipeline.reproduce --run RUN_ID
"""

import argparse
import dataclasses
import logging
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from feature_store import terminal
from pipeline.base.errors import PipelineError, run_command
from pipeline.cli import planning
from pipeline.study import cluster
from pipeline.training import settings

if TYPE_CHECKING:
    from pipeline.comparing.repetition import Repetition

logger = logging.getLogger("pipeline.reproduce")


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.reproduce`."""
    parser = settings.parser(
        "pipeline.reproduce",
        "Train a tracked trial again and say whether its metrics agree; exit code 0 if so, 1 if they differ.",
    )
    parser.add_argument("--run", metavar="RUN_ID", required=True, help="MLflow run of a trial")
    parser.add_argument(
        "--tolerance",
        type=settings.tolerance,
        metavar="X",
        help="largest difference of what agrees, relative for values beyond 1; 0: bit for bit "
        "(default: 0.001, which rounding stays below at first, see docs/reproducing.md)",
    )
    parser.add_argument("--json", metavar="FILE", help="also write everything to this file; `-`: to stdout")
    parser.add_argument("--output", metavar="DIR", help="new folder to keep the model in, as a package")
    parser.add_argument("--sample", action="store_true", help="look in runs/sample for results, not in runs")
    settings.add_storage_arguments(parser)
    group = parser.add_argument_group("machine")
    group.add_argument(
        "--device", type=settings.device, help="auto, cpu, cuda or cuda:N (default: the run's)"
    )
    group.add_argument("--threads", type=settings.positive_int, help="torch threads (default: the run's)")
    group = settings.add_feature_arguments(parser)
    group.add_argument("--embedding", metavar="FILE", help="where the run's word vectors came from a file")
    group.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="where an option of the run names a file that is elsewhere now; may be repeated",
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 0 where the metrics agree, 1 where they differ."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    cluster.prepare_environment()
    target = settings.json_target(given.json)
    output = Path(given.output) if given.output else None
    if output is not None and output.exists():
        raise PipelineError(f"`{output}` is there already", where="--output", hint="name a new folder")
    uri = settings.tracking_uri(given.tracking_uri, settings.storage(given.storage, given.sample))
    with terminal.opened():
        found = _repeated(given, uri, output)
    print(settings.dumped(found.as_json()) if given.json == "-" else found.describe())
    settings.write_json(target, found.as_json())
    return 0 if found.agreement.agrees else 1


def _repeated(given: argparse.Namespace, uri: str, output: Path | None) -> "Repetition":
    with terminal.step("loading the packages"):
        from pipeline.base import agreement
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
    tolerance = agreement.TOLERANCE if given.tolerance is None else given.tolerance
    if output is not None:
        settings.make_folder(output.parent, "--output")
    with tempfile.TemporaryDirectory(prefix="infocal-", dir=output and output.parent) as folder:
        with terminal.step("training again"):
            found = repetition.repeat(record, run, Path(folder), tolerance)
        if output is not None:
            repetition.keep_package(found, run, features, Path(folder), output)
    return found


if __name__ == "__main__":
    sys.exit(run_command(main))

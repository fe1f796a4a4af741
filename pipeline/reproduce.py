"""Train a tracked trial again, with the same data and seed, and report whether its metrics agree.

python -m pipeline.reproduce --run RUN_ID
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from feature_store import terminal
from pipeline.base import locations
from pipeline.base.errors import PipelineError, run_command
from pipeline.cli import common_flags, flag_values, json_output
from pipeline.cli.reproduction import repeated
from pipeline.study import cluster

logger = logging.getLogger("pipeline.reproduce")


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.reproduce`."""
    parser = common_flags.parser(
        "pipeline.reproduce",
        "Train a tracked trial again and report whether its metrics agree; exit code 0 if they agree, 1 if "
        "they differ.",
    )
    parser.add_argument("--run", metavar="RUN_ID", required=True, help="MLflow run of a trial")
    parser.add_argument(
        "--tolerance",
        type=flag_values.tolerance,
        metavar="X",
        help="largest accepted difference between two values (relative for values above 1); 0: values must "
        "be identical (default: 0.001, which covers rounding in the first epochs; see docs/reproducing.md)",
    )
    parser.add_argument(
        "--json", metavar="FILE", help="also write everything to this file; `-`: write to stdout"
    )
    parser.add_argument(
        "--output", metavar="DIR", help="new folder in which the model is stored as a package"
    )
    parser.add_argument("--sample", action="store_true", help="look in runs/sample for results, not in runs")
    common_flags.add_storage_arguments(parser)
    group = parser.add_argument_group("machine")
    group.add_argument(
        "--device", type=flag_values.device, help="auto, cpu, cuda or cuda:N (default: the run's)"
    )
    group.add_argument("--threads", type=flag_values.positive_int, help="torch threads (default: the run's)")
    group = common_flags.add_feature_arguments(parser)
    group.add_argument("--embedding", metavar="FILE", help="word vector file of the run, if it used one")
    group.add_argument(
        "--option",
        metavar="NAME=PATH",
        action="append",
        default=[],
        help="new path of a file that has moved since the run; NAME is the option of the run that named it; "
        "may be repeated",
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code: 0 where the metrics agree, 1 where they differ."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    cluster.prepare_environment()
    target = json_output.json_target(given.json)
    output = Path(given.output) if given.output else None
    if output is not None and output.exists():
        raise PipelineError(f"`{output}` exists already", where="--output", hint="name a new folder")
    uri = locations.tracking_uri(given.tracking_uri, locations.storage(given.storage, given.sample))
    with terminal.opened():
        found = repeated(given, uri, output)
    print(json_output.dumped(found.as_json()) if given.json == "-" else found.describe())
    json_output.write_json(target, found.as_json())
    return 0 if found.comparison.agrees else 1


if __name__ == "__main__":
    sys.exit(run_command(main))

"""Write the report page of a study again, or one page with the tables of all comparisons.

python -m pipeline.report --dataset beer --aspect palate
python -m pipeline.report --tables
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from feature_store import terminal
from feature_store.sources import DEFAULT_DATASET, get_source
from feature_store.sources.base import resolve_aspect
from pipeline.base import locations
from pipeline.base.errors import PipelineError, run_command
from pipeline.cli import common_flags, tables_report

REPORT = "report.html"
"""Name of the page in the study's folder and among the artifacts of its run."""


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.report`."""
    parser = common_flags.parser(
        "pipeline.report",
        "Write the page of a study and store it with the study's run; or, with --tables, one page with the "
        "tables of all comparisons.",
    )
    parser.add_argument(
        "--dataset", help=f"data set (default: {DEFAULT_DATASET}; with --name, the data set of the study)"
    )
    parser.add_argument("--aspect", "--task", help="target of the data set, or several with commas")
    parser.add_argument(
        "--sample",
        action="store_true",
        help="the study was made on the sample corpus (looks in runs/sample)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--name", "--study", dest="name", metavar="NAME", help="name of the study (default: the latest)"
    )
    which.add_argument(
        "--run", metavar="RUN_ID", help="MLflow run of the study; --dataset and --aspect are then ignored"
    )
    which.add_argument(
        "--tables",
        action="store_true",
        help="collect every comparison in the storage into the paper's tables, beside the published numbers",
    )
    common_flags.add_storage_arguments(parser)
    parser.add_argument(
        "--output",
        metavar="FILE",
        help="file to write (default: STORAGE/studies/NAME/report.html; with --tables, "
        "STORAGE/tables/tables.html); with --tables, Markdown and LaTeX files are written to the same folder",
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    storage = locations.storage(given.storage, given.sample)
    output = None if given.output is None else Path(given.output)
    if output is not None and output.is_dir():
        raise PipelineError(
            f"`{output}` is a folder", where="--output", hint=f"name a file, as in {output / REPORT}"
        )
    if given.tables:
        print("\n".join(tables_report.write(given, storage, output)))
        return 0
    # a name says which study it is; what is also said is checked
    is_enough = given.run or (given.name and not given.dataset and not given.aspect)
    dataset = given.dataset or DEFAULT_DATASET
    aspect = "" if is_enough else resolve_aspect(get_source(dataset), given.aspect) or ""

    with terminal.opened(), terminal.step("writing the report"):
        from pipeline.study import findings, study_report
        from pipeline.tracking import studies
        from pipeline.tracking.tracking import STUDY_TAG, Tracker

        tracker = Tracker(locations.tracking_uri(given.tracking_uri, storage), create=False)
        if given.run:
            study = tracker.run(given.run)
        elif is_enough:
            study = studies.study_named(tracker, given.name)
        else:
            study = studies.study_of_target(tracker, dataset, aspect, given.name)
        findings.check_is_study(study)
        target = output or study_report.place(storage, study.tags[STUDY_TAG])
        study_report.write(tracker, study.run_id, target, None if output is None else "--output")
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))

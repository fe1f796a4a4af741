"""Write the page of a study: its best against published and trivial rationales, what mattered, all trials.

python -m pipeline.report --dataset beer --aspect palate
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from feature_store import terminal
from feature_store.sources import get_source
from feature_store.sources.base import resolve_aspect
from pipeline.base.errors import PipelineError, run_command
from pipeline.training import settings

if TYPE_CHECKING:
    from pipeline.tracking.tracking import TrackedRun, Tracker

REPORT = "report.html"
"""Name of the page in the study's folder and among the artifacts of its run."""


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.report`."""
    parser = settings.parser(
        "pipeline.report", "Write the page of a study and store it with the study's run."
    )
    parser.add_argument("--dataset", help="data set (default: beer; with --name that of the study)")
    parser.add_argument("--aspect", help="target of the data set, for beer appearance, smell or palate")
    parser.add_argument("--sample", action="store_true", help="a study of the sample corpus, in runs/sample")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--name", "--study", dest="name", metavar="NAME", help="name of the study (default: the latest)"
    )
    which.add_argument(
        "--run", metavar="RUN_ID", help="MLflow run of the study; --dataset and --aspect do not matter then"
    )
    settings.add_storage_arguments(parser)
    parser.add_argument(
        "--output", metavar="FILE", help="where to write (default: STORAGE/studies/NAME/report.html)"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    storage = settings.storage(given.storage, given.sample)
    output = None if given.output is None else Path(given.output)
    if output is not None and output.is_dir():
        raise PipelineError(
            f"`{output}` is a folder", where="--output", hint=f"name a file, as in {output / REPORT}"
        )
    # a name says which study it is; what is also said is checked
    is_enough = given.run or (given.name and not given.dataset and not given.aspect)
    dataset = given.dataset or "beer"
    aspect = "" if is_enough else resolve_aspect(get_source(dataset), given.aspect) or ""

    with terminal.opened(), terminal.step("writing the report"):
        from pipeline.study import findings, study_report
        from pipeline.tracking.tracking import STUDY_TAG, Tracker

        tracker = Tracker(settings.tracking_uri(given.tracking_uri, storage), create=False)
        if given.run:
            study = tracker.run(given.run)
        else:
            study = _named(tracker, given.name) if is_enough else _study(tracker, dataset, aspect, given.name)
        findings.check_is_study(study)
        target = output or study_report.place(storage, study.tags[STUDY_TAG])
        study_report.write(tracker, study.run_id, target, "--output")
    print(target)
    return 0


def _study(tracker: "Tracker", dataset: str, aspect: str, name: str | None) -> "TrackedRun":
    """The study's run, by its name or the latest one.

    Raises:
        PipelineError: if there is none.
    """
    from pipeline.tracking.tracking import translated

    experiment = settings.title(dataset, aspect)
    with translated(f"cannot look for the experiment `{experiment}`"):
        known = tracker.client.get_experiment_by_name(experiment)  # tracker.experiment would make it
    found = None if known is None else tracker.latest_study(known.experiment_id, name)
    if found is None:
        what = f"there is no study `{name}` of" if name else "no study was tracked of"
        raise PipelineError(
            f"{what} {experiment} in {tracker.uri}",
            where="--name" if name else None,
            hint=f"run `python -m pipeline.search {settings.target_flags(dataset, aspect)}`, or say with "
            "`--storage` or `--tracking-uri` where its results are",
        )
    return found


def _named(tracker: "Tracker", name: str) -> "TrackedRun":
    """The run of the study of that name, of whatever data set.

    Raises:
        PipelineError: if there is none, or several data sets have one.
    """
    from pipeline.tracking.tracking import translated

    with translated("cannot list the experiments"):
        experiments = {one.name: one.experiment_id for one in tracker.client.search_experiments()}
    tried = {title: tracker.latest_study(number, name) for title, number in experiments.items()}
    found = {title: study for title, study in tried.items() if study is not None}
    if not found:
        raise PipelineError(
            f"there is no study `{name}` in {tracker.uri}",
            where="--name",
            hint="say with `--storage`, `--tracking-uri` or `--sample` where its results are",
        )
    if len(found) > 1:
        raise PipelineError(
            f"expected one study `{name}`, but there is one of {' and of '.join(sorted(found))}",
            where="--name",
            hint="add `--dataset`, and `--aspect` where the data set has several",
        )
    return next(iter(found.values()))


if __name__ == "__main__":
    sys.exit(run_command(main))

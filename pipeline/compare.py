"""Compare methods at equal selection and budget: train each with each seed, read test once, one table.

python -m pipeline.compare --dataset beer --aspect palate --methods all --seeds 3
"""

import argparse
import contextlib
import dataclasses
import difflib
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from feature_store import terminal
from feature_store.sources import get_source
from feature_store.sources.base import resolve_aspect
from feature_store.wording import counted
from infocal.errors import UserError
from infocal.methods.registry import INFOCAL
from pipeline.base.errors import PipelineError, run_command
from pipeline.base.uris import without_password
from pipeline.cli import planning
from pipeline.study import cluster, study_folder
from pipeline.tracking import places
from pipeline.training import settings
from search_spaces import registry

if TYPE_CHECKING:
    from pipeline.comparing.comparison import ComparisonSettings

logger = logging.getLogger("pipeline.compare")

COMPARISONS, SETTINGS = "comparisons", "comparison.json"
"""Folder of all comparisons, in the storage; what lies in each once it was started."""
_RATE = "target_selection_rate"


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.compare`."""
    parser = settings.parser("pipeline.compare", "Compare methods at equal selection rate and equal budget.")
    settings.add_data_arguments(parser)
    settings.add_training_arguments(parser, has_one_method=False)
    settings.add_storage_arguments(parser)
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--methods",
        default="all",
        metavar="A,B,...",
        help=f"methods to compare, of {', '.join(registry.method_names())} (default: %(default)s)",
    )
    group.add_argument(
        "--seeds",
        type=settings.positive_int,
        default=3,
        help="seeds that each method is trained with (default: %(default)s)",
    )
    group.add_argument(
        "--cpus-per-run",
        type=settings.positive_float,
        default=1.0,
        help="cores of a training; as many run at once as fit (default: %(default)s)",
    )
    group.add_argument(
        "--gpus-per-run",
        type=settings.num_gpus,
        help="GPUs of a training, may be a fraction (default: 1 where this machine has one, else 0)",
    )
    group.add_argument(
        "--name",
        type=settings.study_name,
        help="name of the comparison (default: made of dataset, aspect and time)",
    )
    group.add_argument(
        "--resume", action="store_true", help="train what is missing of the comparison that --name names"
    )
    group.add_argument(
        "--dry-run", action="store_true", help="check everything, print the plan, train nothing"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    cluster.prepare_environment()
    storage = settings.storage(given.storage, given.sample)
    home = storage.folder / COMPARISONS
    prepared = _resumed(given, home) if given.resume else _prepared(given, arguments)
    first = settings.parsed_again(prepared.command, f"{SETTINGS} of `{prepared.name}`")
    stated = given.tracking_uri or first.tracking_uri
    uri = settings.tracking_uri(stated, storage)
    command = settings.commands(prepared.name, storage, stated, module="pipeline.compare").resume
    planning.check_device(prepared.runs[0])
    if not given.resume:
        planning.check_data(given, prepared.runs[0])
    places.check(storage, uri)
    directory = home / prepared.name
    if given.dry_run:
        prepared, data = _looked_at(given, prepared)
        print(_plan(prepared, directory, uri, data))
        return 0
    with study_folder.claimed(directory, resume=given.resume, kind="comparison", sign=SETTINGS):
        logger.info("results: %s\ntracking: %s", directory, without_password(uri))
        planning.compile_ahead(prepared.runs[0])
        width = terminal.width_of(sys.stdout)
        try:
            # Ray prints that a node has died, and MLflow where a run is: stdout holds the result alone
            with terminal.opened(), contextlib.redirect_stdout(sys.stderr):
                if not given.resume:
                    with terminal.step("preparing the data"):
                        prepared = _with_features(given, prepared)
                with terminal.step("loading the packages"):
                    from pipeline.comparing.comparison import conduct, tables
                table, broken = conduct(prepared, directory, uri, width)
        except KeyboardInterrupt:
            if (directory / SETTINGS).exists():
                logger.warning("to resume: %s", command)
            else:
                logger.warning("no training was begun: start the same command again")
            raise
    terminal.answer(table)
    logger.info("tables: %s", ", ".join(str(path) for path in tables(directory)))
    if broken:
        name, reason = next(iter(broken.items()))
        raise PipelineError(
            f"{len(broken)} of {len(prepared.runs) * len(prepared.seeds)} trainings broke; {name}: {reason}",
            hint=f"what is missing is trained with: {command}",
        )
    return 0


def _prepared(given: argparse.Namespace, arguments: Sequence[str]) -> "ComparisonSettings":
    """Check every flag and resolve the settings; the features' folders are still missing."""
    aspect = resolve_aspect(get_source(given.dataset), given.aspect) or ""
    registry.criterion(given.dataset, aspect)
    methods = registry.chosen_methods(given.methods, given.dataset, "--methods")
    _check_owners(given.set, methods)
    if given.gpus_per_run == settings.AUTO:
        raise PipelineError("expected a number of GPUs, but got `auto`", where="--gpus-per-run")
    _check_rate_is_set_by_its_flag(given)
    if given.gpus_per_run is None:
        given.gpus_per_run = 1.0 if given.device in ("auto", "cuda") and cluster.num_local_gpus() else 0.0
    elif given.gpus_per_run == 0 and given.device == "auto":
        given.device = "cpu"
    cluster.check_machine(given.cpus_per_run, given.gpus_per_run, what="run")
    rate = given.target_selection_rate
    if rate is None:
        rate = registry.preset(INFOCAL, given.dataset, aspect, given.sample).get(_RATE)
    if not rate or rate == 1:
        lacks = f"{settings.title(given.dataset, aspect)} has no target of its own to compare at"
        if rate is not None:
            lacks = f"a selection rate of {rate:g} selects {'everything' if rate else 'nothing'}"
        raise PipelineError(
            lacks,
            where="--target-selection-rate",
            hint="name the share of tokens that every method is to select, such as 0.15",
        )
    runs = [_run_settings(given, method, rate) for method in methods]
    from pipeline.comparing.comparison import (
        ComparisonSettings,  # loads torch and ray: only once all is checked
    )

    return ComparisonSettings(
        name=given.name or settings.default_name(given.dataset, aspect),
        runs=runs,
        seeds=[given.seed + i for i in range(given.seeds)],
        target_rate=rate,
        sample=given.sample,
        data_dir=None if given.sample else given.data_dir or os.environ.get("INFOCAL_DATA"),
        cpus_per_run=given.cpus_per_run,
        gpus_per_run=given.gpus_per_run,
        command=settings.stored_command("pipeline.compare", arguments),
    )


def _check_rate_is_set_by_its_flag(given: argparse.Namespace) -> None:
    """Refuse a selection rate among the hyper-parameters: all methods are held at one."""
    assigned = [text.partition("=")[0].rpartition(".")[2].strip() for text in given.set]
    places = [f"--set {text}" for text, name in zip(given.set, assigned, strict=True) if name == _RATE]
    if _RATE in settings.hyper_parameters(given.config, []):
        places.append(f"--config {given.config}")
    if places:
        raise PipelineError(
            "methods are compared at one selection rate, which is no hyper-parameter here",
            where=places[0],
            hint=f"use `--target-selection-rate` in place of `{_RATE}`",
        )


def _for_method(given: argparse.Namespace, method: str, rate: float) -> argparse.Namespace:
    """The flags as if one method alone were to be trained; a variant that fixes its rate keeps it."""
    held = None if _RATE in registry.fixed_by(method) else rate
    own = _assignments(given.set, method)
    return argparse.Namespace(**{**vars(given), "method": method, _RATE: held, "set": own})


def _owner(assignment: str) -> str:
    """The method before the point of `METHOD.KEY=VALUE`; empty where the assignment is for all."""
    owner, point, _ = assignment.partition("=")[0].partition(".")
    return owner.strip() if point else ""


def _assignments(given: Sequence[str], method: str) -> list[str]:
    """What `--set` says to one method: first what it says to all, so that its own wins."""
    general = [text for text in given if not _owner(text)]
    return general + [text.partition(".")[2] for text in given if _owner(text) == method]


def _check_owners(given: Sequence[str], methods: Sequence[str]) -> None:
    """Refuse `--set METHOD.KEY=VALUE` for a method that is not compared: it would have no effect."""
    for owner in filter(None, map(_owner, given)):
        if owner not in methods:
            near = difflib.get_close_matches(owner, methods, n=1)
            raise PipelineError(
                f"`{owner}` is not compared; the methods are {', '.join(methods)}",
                where="--set",
                hint=f"did you mean `--set {near[0]}.KEY=VALUE`?" if near else None,
            )


def _run_settings(given: argparse.Namespace, method: str, rate: float) -> settings.RunSettings:
    own = _for_method(given, method, rate)
    try:
        run = planning.run_settings(own, {}, num_threads=max(1, int(given.cpus_per_run)))
    except UserError as error:
        raise PipelineError(f"{method}: {error.message}", where=error.where, hint=error.hint) from error
    if 0 < given.gpus_per_run < 1:
        run = dataclasses.replace(run, gpu_memory_rate=given.gpus_per_run)
    return run


def _with_features(given: argparse.Namespace, prepared: "ComparisonSettings") -> "ComparisonSettings":
    runs = [
        planning.with_features(_for_method(given, run.method, prepared.target_rate), run, is_first=i == 0)
        for i, run in enumerate(prepared.runs)
    ]
    return dataclasses.replace(prepared, runs=runs)


def _looked_at(
    given: argparse.Namespace, prepared: "ComparisonSettings"
) -> tuple["ComparisonSettings", list[str]]:
    """The settings as the data files settle them, and what is said of these; features are not built."""
    if given.resume:
        return prepared, []
    logger.info("reading the data files; nothing is built")
    runs, found = [], None
    for run in prepared.runs:
        settled, found = planning.looked_at(_for_method(given, run.method, prepared.target_rate), run, found)
        runs.append(settled)
    return dataclasses.replace(prepared, runs=runs), [] if found is None else planning.data_lines(found)


def _plan(prepared: "ComparisonSettings", directory: Path, uri: str, data: Sequence[str]) -> str:
    """What would be done, for `--dry-run`; `data` are the lines about the data files."""
    first, seeds = prepared.runs[0], ", ".join(map(str, prepared.seeds))
    lines = [
        f"comparison   {prepared.name}  ({settings.title(first.dataset, first.aspect)})",
        f"results      {directory}",
        f"tracking     {without_password(uri)}",
        *data,
        f"criterion    {first.criterion}",
        f"selection    {prepared.target_rate:.1%} of the tokens",
        f"trainings    {len(prepared.runs) * len(prepared.seeds)} of {counted(first.num_epochs, 'epoch')}: "
        f"{counted(len(prepared.runs), 'method')} with seeds {seeds}",
        f"GPUs         {prepared.gpus_per_run:g} a training (device {first.device})",
        "\nmethods",
    ]
    lines += [f"  {run.method:<24} {planning.start_of(run)}" for run in prepared.runs]
    return "\n".join(lines)


def _resumed(given: argparse.Namespace, home: Path) -> "ComparisonSettings":
    if not given.name:
        raise PipelineError("which comparison is to be resumed?", where="--resume", hint="add `--name NAME`")
    if not (home / given.name / SETTINGS).is_file():
        known = ", ".join(sorted(path.parent.name for path in home.glob(f"*/{SETTINGS}"))) or "none"
        raise PipelineError(
            f"there is no comparison `{given.name}` in {home}; there is {known}",
            where="--name",
            hint="is `--storage` that of the comparison? without `--resume` a new one is started",
        )
    from pipeline.comparing.comparison import ComparisonSettings

    logger.info("resuming with the comparison's own settings; flags that say how to train have no effect")
    return ComparisonSettings.load(home / given.name)


if __name__ == "__main__":
    sys.exit(run_command(main))

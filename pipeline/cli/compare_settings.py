"""From the flags of `pipeline.compare` to the settings of a comparison, new or resumed."""

import argparse
import dataclasses
import logging
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from feature_store.sources import get_source
from feature_store.sources.base import resolve_aspect
from infocal.errors import UserError, did_you_mean
from infocal.methods.registry import INFOCAL
from pipeline.base import command_text
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Location
from pipeline.cli import flag_values, planning
from pipeline.comparing.places import COMPARISON, SETTINGS
from pipeline.study import cluster, study_folder
from pipeline.training import naming, settings
from search_spaces import lookup

if TYPE_CHECKING:
    from pipeline.comparing.comparison_settings import ComparisonSettings

logger = logging.getLogger("pipeline.cli.compare_settings")

_Given = ParamSpec("_Given")
_T = TypeVar("_T")

_RATE = "target_selection_rate"


def new_comparison(given: argparse.Namespace, arguments: Sequence[str]) -> "ComparisonSettings":
    """Check every flag and resolve the settings; the features' folders are still missing."""
    aspect = resolve_aspect(get_source(given.dataset), given.aspect) or ""
    lookup.criterion(given.dataset, aspect)
    methods = lookup.chosen_methods(given.methods, given.dataset, "--methods", aspect)
    _check_owners(given.set, methods)
    _check_belongs_to_all(given, methods)
    if given.gpus_per_run == flag_values.AUTO:
        raise PipelineError(
            "expected a number of GPUs, but got `auto`",
            where="--gpus-per-run",
            hint="`pipeline.compare` needs a number or a fraction, such as `--gpus-per-run 0.5`",
        )
    planning.refuse_gpus_of_the_cpu(given.gpus_per_run, given.device, "--gpus-per-run")
    _check_rate_is_set_by_its_flag(given)
    is_local, chooses = cluster.is_local(given.address), False
    if given.gpus_per_run is None:
        wanted = given.device in ("auto", "cuda")
        chooses = wanted and not is_local
        given.gpus_per_run = 1.0 if wanted and is_local and cluster.num_local_gpus() else 0.0
    elif given.gpus_per_run == 0 and given.device == "auto":
        given.device = "cpu"
    if is_local:
        cluster.check_machine(given.cpus_per_run, given.gpus_per_run, what="run")
    rate = given.target_selection_rate
    if rate is None:
        rate = lookup.preset(INFOCAL, given.dataset, aspect, given.sample).get(_RATE)
    if not rate or rate == 1:
        lacks = (
            f"{naming.title(given.dataset, aspect)} has no default selection rate at which methods "
            "could be compared"
        )
        if rate is not None:
            what = "everything" if rate else "nothing"
            lacks = f"expected a selection rate between 0 and 1, but got {rate:g}, which selects {what}"
        raise PipelineError(
            lacks,
            where="--target-selection-rate",
            hint="give the share of tokens that every method selects, for example 0.15",
        )
    runs = [_run_settings(given, method, rate) for method in methods]
    from pipeline.comparing.comparison_settings import (
        ComparisonSettings,  # loads torch and ray: only once all is checked
    )

    return ComparisonSettings(
        name=given.name or naming.default_name(given.dataset, aspect),
        runs=runs,
        seeds=[given.seed + i for i in range(given.seeds)],
        target_rate=rate,
        sample=given.sample,
        data_dir=None if given.sample else given.data_dir or os.environ.get("INFOCAL_DATA"),
        cpus_per_run=given.cpus_per_run,
        gpus_per_run=given.gpus_per_run,
        chooses_gpus=chooses,
        command=command_text.stored_command("pipeline.compare", arguments),
    )


def _check_rate_is_set_by_its_flag(given: argparse.Namespace) -> None:
    """Refuse a selection rate among the hyper-parameters: all methods are held at one."""
    assigned = [text.partition("=")[0].rpartition(".")[2].strip() for text in given.set]
    places = [f"--set {text}" for text, name in zip(given.set, assigned, strict=True) if name == _RATE]
    if _RATE in flag_values.hyper_parameters(given.config, []):
        places.append(f"--config {given.config}")
    if places:
        raise PipelineError(
            "methods are compared at one selection rate, which cannot be set as a hyper-parameter",
            where=places[0],
            hint=f"use `--target-selection-rate` instead of `{_RATE}`",
        )


def _for_method(given: argparse.Namespace, method: str, rate: float) -> argparse.Namespace:
    """The flags as if one method alone were to be trained; a variant that fixes its rate keeps it."""
    held = None if _RATE in lookup.fixed_by(method) else rate
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
            raise PipelineError(
                f"`{owner}` is not compared; the methods are {', '.join(methods)}",
                where="--set",
                hint=did_you_mean(owner, methods, "--set ", ".KEY=VALUE"),
            )


def _check_belongs_to_all(given: argparse.Namespace, methods: Sequence[str]) -> None:
    """Refuse a hyper-parameter that is set for all methods, but that only some of them have."""
    general = [text for text in given.set if not _owner(text)]
    for name, value in flag_values.hyper_parameters(given.config, general).items():
        having = [method for method in methods if name in _names(method)]
        if having and len(having) < len(methods):
            text = next((text for text in general if text.partition("=")[0].strip() == name), None)
            raise PipelineError(
                f"not every method that is compared has the hyper-parameter `{name}`: only "
                f"{', '.join(having)} {'has' if len(having) == 1 else 'have'} it",
                where=f"--set {text}" if text else f"--config {given.config}",
                hint=f"`--set {having[0]}.{text or f'{name}={value}'}` sets it for one method"
                + ("; repeat it for the others" if len(having) > 1 else ""),
            )


def _names(method: str) -> set[str]:
    return {field.name for field in dataclasses.fields(lookup.implementation(method).config_class())}


def _run_settings(given: argparse.Namespace, method: str, rate: float) -> settings.RunSettings:
    own = _for_method(given, method, rate)
    try:
        run = planning.run_settings(own, {}, num_threads=max(1, int(given.cpus_per_run)))
    except UserError as error:
        raise _of_method(method, error) from error
    if 0 < given.gpus_per_run < 1:
        run = dataclasses.replace(run, gpu_memory_rate=given.gpus_per_run)
    return run


def _of_method(method: str, error: UserError) -> PipelineError:
    """An error about one method, with the flags of a comparison."""
    where = "--methods" if error.where == "--method" else error.where
    hint = error.hint and error.hint.replace("--set pretrained=", f"--set {method}.pretrained=")
    return PipelineError(f"{method}: {error.message}", where=where, hint=hint)


def check_devices(prepared: "ComparisonSettings", address: str | None) -> None:
    """Look whether the device, and each pretrained encoder, is there and can do what is asked of it.

    Args:
        address: of the Ray cluster on which the trainings run.

    Raises:
        UserError: as `planning.check_device`.
    """
    seen: set[tuple[str, str]] = set()
    for run in prepared.runs:
        config = run.config()
        if (key := (config.encoder, config.pretrained)) in seen:
            continue
        seen.add(key)
        try:
            planning.check_device(run, address)
        except PipelineError as error:
            if not config.pretrained:
                raise
            raise _of_method(run.method, error) from error


def stored_comparison(given: argparse.Namespace, home: Location) -> "ComparisonSettings":
    """The settings of the comparison that `--resume --name` names.

    Raises:
        PipelineError: if no comparison is named, there is none of that name, or nothing was done in it.
        StateError: if its settings cannot be read.
    """
    if not given.name:
        raise PipelineError(
            "expected the name of the comparison, but got none", where="--resume", hint="add `--name NAME`"
        )
    study_folder.check_exists(home, given.name, "without `--resume`, a new comparison starts", COMPARISON)
    directory = home / COMPARISON.home / given.name
    if not (directory / SETTINGS).exists():
        raise study_folder.ended_at_once(given.name, "--resume", "leave out `--resume`", COMPARISON)
    from pipeline.comparing.comparison_settings import ComparisonSettings
    from pipeline.training import feature_copies

    logger.info("resuming with the comparison's own settings; flags about training have no effect")
    with directory.localised(SETTINGS) as folder:
        prepared = ComparisonSettings.load(folder, given.name)

    def here(run: settings.RunSettings) -> settings.RunSettings:
        """With the same copy of the features, as this machine calls it."""
        uri = run.features_uri and feature_copies.place(home, run.features_uri).portable
        return dataclasses.replace(run, features_uri=uri)

    return dataclasses.replace(prepared, runs=[here(run) for run in prepared.runs])


def with_features(given: argparse.Namespace, prepared: "ComparisonSettings") -> "ComparisonSettings":
    """The settings with the features' folders; features are built where they are missing."""
    runs = [
        _with_method(
            run.method,
            planning.with_features,
            _for_method(given, run.method, prepared.target_rate),
            run,
            is_first=i == 0,
        )
        for i, run in enumerate(prepared.runs)
    ]
    return dataclasses.replace(prepared, runs=runs)


def _with_method(
    method: str, settle: Callable[_Given, _T], *given: _Given.args, **named: _Given.kwargs
) -> _T:
    """What `settle` gives; its error about `--method` is one about a method of the comparison."""
    try:
        return settle(*given, **named)
    except UserError as error:
        if error.where != "--method":
            raise  # of the data, whatever is trained on them
        raise _of_method(method, error) from error


def looked_at(
    given: argparse.Namespace, prepared: "ComparisonSettings"
) -> tuple["ComparisonSettings", list[str]]:
    """The settings as the data files settle them, and what is said of these; features are not built."""
    if given.resume:
        return prepared, []
    logger.info("reading the data files; no features are built")
    runs, found = [], None
    for run in prepared.runs:
        own = _for_method(given, run.method, prepared.target_rate)
        settled, found = _with_method(run.method, planning.looked_at, own, run, found)
        runs.append(settled)
    return dataclasses.replace(prepared, runs=runs), [] if found is None else planning.data_lines(found)

"""From the flags of `pipeline.search` to the settings of a study, new or resumed."""

import argparse
import dataclasses
import logging
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from feature_store.sources import get_source
from pipeline.base import command_text, credentials
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Location, Storage
from pipeline.cli import common_flags, epoch_check, flag_values, planning
from pipeline.study import cluster, study_folder
from pipeline.study.study_folder import SETTINGS, SETTINGS_COPY, STUDIES
from pipeline.study.study_settings import StudySettings
from pipeline.training import naming
from pipeline.training.settings import RunSettings
from search_spaces import lookup, own_space
from search_spaces import space as spaces
from search_spaces.criteria import RELATIVE
from search_spaces.space import Point, Space

if TYPE_CHECKING:
    from pipeline.study.optuna_export import Export

logger = logging.getLogger("pipeline.cli.search_settings")

_PLACES = ("data_dir", "cache_dir", "tracking_uri", "optuna_storage")
"""Flags that a resumed study has from its first command, unless they are given anew."""
_EACH_TIME = ("storage", "name", "address", "resume", "dry_run", "debug")
"""Flags that count as each command gives them."""


def new_study(given: argparse.Namespace, arguments: Sequence[str]) -> StudySettings:
    """Check every flag and resolve the settings; the features' folder is still missing."""
    threads = max(1, int(given.cpus_per_trial))
    get_source(given.dataset)  # a data set that is not there has no space either
    space, points = _space(given)
    run = planning.run_settings(given, {}, num_threads=threads, holds_rate=True, space=space)
    run = dataclasses.replace(run, checkpoint_s=given.checkpoint_every)
    continuous = [one.name for one in space if one.is_continuous]
    if given.sampler == "grid" and continuous:
        raise PipelineError(
            f"range of `{continuous[0]}` is continuous and has no grid",
            where="--sampler grid",
            hint="use `--sampler tpe`, or a space in which every range has a `step`, such as `--space paper`",
        )
    _refuse_fixed(given, run, space)
    _check_encoders(given, run, space)
    is_own = given.space.endswith(own_space.SUFFIX)
    planning.refuse_gpus_of_the_cpu(given.gpus_per_trial, run.device, "--gpus-per-trial")
    packs = given.gpus_per_trial == flag_values.AUTO
    chooses = given.gpus_per_trial is None and run.device in ("auto", "cuda")
    gpus = given.gpus_per_trial if isinstance(given.gpus_per_trial, float) else 0.0
    if given.gpus_per_trial == 0 and run.device == "auto":
        # Ray would leave every card visible to a trial that counts for none
        run = dataclasses.replace(run, device="cpu")
    if 0 < gpus < 1:
        run = dataclasses.replace(run, gpu_memory_rate=gpus)
    epoch_check.check_starts(run, space)

    return StudySettings(
        name=given.name or naming.default_name(given.dataset, run.aspect),
        run=run,
        space_name=Path(given.space).name if is_own else given.space,
        sampler=given.sampler,
        num_trials=given.trials,
        max_concurrent=given.max_concurrent or 0,
        cpus_per_trial=given.cpus_per_trial,
        gpus_per_trial=gpus,
        chooses_gpus=chooses,
        packs_gpus=packs,
        num_seeds=1 if given.seeds == flag_values.AUTO else given.seeds,
        is_raced=given.seeds == flag_values.AUTO,
        sample=given.sample,
        model_name=naming.model_name(given, run.aspect),
        command=command_text.stored_command("pipeline.search", common_flags.with_data_dir(arguments, given)),
        first_points=[drawn for point in points if (drawn := spaces.restricted(space, point)) is not None],
        own_space=spaces.to_json(space) if is_own else "",
    )


def _space(given: argparse.Namespace) -> tuple[Space, Sequence[Point]]:
    """What is varied, as registered or as the user's file says, and the points to try first."""
    if not given.space.endswith(own_space.SUFFIX):
        space = lookup.space(given.method, given.dataset, given.space)
        return space, lookup.first_points(given.method, given.dataset)
    found = own_space.read(Path(given.space), lookup.implementation(given.method).config_class())
    return found.spaces[own_space.NAME], found.first_points


def _refuse_fixed(given: argparse.Namespace, run: RunSettings, space: Space) -> None:
    """Refuse a hyper-parameter that is searched, and that a flag or the method fixes."""
    fixed = dict(flag_values.hyper_parameters(given.config, given.set))
    flag = "--config" if given.config and not given.set else "--set"
    if given.target_selection_rate is not None:
        fixed["target_selection_rate"] = given.target_selection_rate
        flag = flag if given.set or given.config else "--target-selection-rate"
    of_method = lookup.fixed_by(given.method)
    for one in space:
        if one.name in fixed:
            raise PipelineError(
                f"`{one.name}` is searched over, so it cannot be fixed as well",
                where=flag,
                hint=f"leave out the value of `{one.name}`, or train a single configuration with "
                "`python -m pipeline.train`",
            )
        if one.name in of_method:
            raise PipelineError(
                f"the space varies `{one.name}`, but method `{given.method}` fixes it at "
                f"{of_method[one.name]}",
                where=f"--space {given.space}",
                hint="remove it from the file",
            )


def _check_encoders(given: argparse.Namespace, run: RunSettings, space: Space) -> None:
    """Look whether every encoder that is searched has its weights, and every folder of weights is there."""
    where = f"--space {given.space}"
    varied = {one.name: one.ends for one in space}
    for encoder in varied.get("encoder", ()):
        planning.check_pretrained(str(encoder), varied.get("pretrained") or run.config().pretrained, where)
    for name in map(str, varied.get("pretrained", ())):
        looks_like_folder = name[:1] in ("/", ".", "~") or Path(name).exists()
        if looks_like_folder and not (Path(name).is_absolute() and Path(name).is_dir()):
            raise PipelineError(
                f"no folder `{name}` of a pretrained encoder",
                where=where,
                hint="give the absolute path of the folder",
            )


def stored_study(given: argparse.Namespace, home: Location) -> StudySettings:
    """The settings of the study that `--resume --name` names.

    Raises:
        PipelineError: if no study is named, there is none of that name, or it lacks something.
        StateError: if its settings cannot be read.
    """
    if not given.name:
        raise PipelineError(
            "expected the name of the study, but got none", where="--resume", hint="add `--name NAME`"
        )
    studies = home / STUDIES
    study_folder.check_exists(home, given.name, "without `--resume`, a new study starts")
    from pipeline.training import feature_copies

    logger.info("resuming with the study's own settings")
    study_folder.check_complete(home, given.name, "--resume", "leave out `--resume`")
    with (studies / given.name).localised(SETTINGS, SETTINGS_COPY) as folder:
        prepared = StudySettings.load(folder, given.name)
    if not prepared.run.features_uri:
        return prepared
    # the same copy, as this machine calls it
    uri = feature_copies.place(home, prepared.run.features_uri).portable
    return dataclasses.replace(prepared, run=dataclasses.replace(prepared.run, features_uri=uri))


def with_first_flags(
    given: argparse.Namespace, prepared: StudySettings, parser: argparse.ArgumentParser
) -> argparse.Namespace:
    """The flags with which a study was begun, with those of this command that count for a resumed one too.

    Args:
        given: the flags of this command.
        parser: of `pipeline.search`.

    Raises:
        PipelineError: if what is stored as the command that began it is none.
    """
    first = command_text.parsed_again(prepared.command, f"{SETTINGS} of `{prepared.name}`", parser)
    usual = vars(parser.parse_args([]))
    without = [name for name, value in vars(given).items() if value != usual[name]]
    if ignored := sorted(set(without) - {*_EACH_TIME, *_PLACES, "dataset", "aspect", "sample"}):
        flags = ", ".join(f"`--{name.replace('_', '-')}`" for name in ignored)
        have = "has" if len(ignored) == 1 else "have"
        logger.warning(
            "note: with `--resume`, %s %s no effect: the study keeps its first settings", flags, have
        )
    anew = [*_EACH_TIME, *(name for name in _PLACES if getattr(given, name) is not None)]
    return argparse.Namespace(**vars(first) | {name: getattr(given, name) for name in anew})


def with_features(given: argparse.Namespace, prepared: StudySettings) -> StudySettings:
    """The settings with the features' folder; features are built where they are not there.

    Raises:
        PipelineError: if a resumed study would continue with other data.
    """
    run = prepared.run
    if run.features_uri or (run.features_dir and Path(run.features_dir).is_dir()):
        return prepared
    built = planning.with_features(given, run)
    if run.features_dir and Path(run.features_dir).name != Path(built.features_dir).name:
        raise _other_features(prepared, built)
    if run.features_dir:  # it was begun: what it is judged by stays as it was
        kept = {name: getattr(run, name) for name in ("criterion", "criterion_kind", "rival")}
        built = dataclasses.replace(built, **kept)
    return dataclasses.replace(prepared, run=built)


def _other_features(prepared: StudySettings, built: RunSettings) -> PipelineError:
    """That a study's features are gone, and others are built from what is there."""
    from pipeline.training import origin  # torch takes seconds that --help need not wait for

    run = prepared.run
    theirs, ours = (Path(one.features_dir).name for one in (run, built))
    if origin.is_of_another_version(run.origin, built.origin):
        hint = "start a new search, or resume with the version of this project that began the study"
    elif prepared.sample:
        hint = "start a new search"
    else:
        hint = "use `--data-dir` to name the data folder with which the study was started"
    return PipelineError(
        f"the features of the study ({theirs}) are missing, and the features that can be built here ({ours}) "
        f"are different: {origin.difference(run.origin, built.origin)}",
        where=f"--resume --name {prepared.name}",
        hint=hint,
    )


def with_rival(
    given: argparse.Namespace, prepared: StudySettings, folder: study_folder.StudyFolder
) -> StudySettings:
    """The settings with what a rival reaches, where the criterion reads it; a study keeps what it began with.

    Raises:
        PipelineError: if the rival cannot be trained.
    """
    run = prepared.run
    if run.criterion_kind != RELATIVE or run.rival:
        return prepared
    from pipeline.study import rival
    from pipeline.study.conduct import save
    from pipeline.training import feature_copies

    features = feature_copies.features_of(run)
    is_asked_for = given.criterion == RELATIVE
    own = cluster.here(run, given.address)
    found = rival.settled(own, features, sample=prepared.sample, is_asked_for=is_asked_for)
    run = dataclasses.replace(found, device=run.device, bf16=run.bf16)
    prepared = dataclasses.replace(prepared, run=run)
    save(prepared, folder)
    return prepared


def looked_at(given: argparse.Namespace, prepared: StudySettings) -> tuple[StudySettings, list[str]]:
    """The settings as the data files settle them, and what is said of these; features are not built."""
    if given.resume:
        return prepared, []
    logger.info("reading the data files; no features are built")
    run, found = planning.looked_at(given, prepared.run)
    start = epoch_check.start_of(run, prepared.space)
    lines = [*planning.data_lines(found), f"training     {start}"]
    return dataclasses.replace(prepared, run=run), lines


def export_of(url: str | None, name: str, storage: Storage, directory: Location) -> "Export | None":
    """Where a finished study is exported to, looked at before anything is trained; None without a URL.

    Args:
        url: of `--optuna-storage`.

    Raises:
        PipelineError: if the storage cannot be used, or the URL lacks its password.
    """
    if not url:
        return None
    credentials.check(url, "--optuna-storage")
    from pipeline.study.optuna_export import Export

    origin = directory.uri if storage.is_remote else f"{socket.gethostname()}:{directory.path}"
    export = Export(url, name, origin)
    export.check()
    return export

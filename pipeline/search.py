"""Run or resume a study: prepare the data, search, choose by the criterion, register the winner.

python -m pipeline.search --dataset beer --aspect palate
"""

import argparse
import contextlib
import dataclasses
import logging
import os
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from feature_store import terminal
from feature_store.wording import counted
from pipeline.base import credentials
from pipeline.base.errors import PipelineError, run_command
from pipeline.base.storage import Location, Storage
from pipeline.base.uris import without_password
from pipeline.cli import planning
from pipeline.study import cluster, study_folder
from pipeline.study.ledger import LEDGER
from pipeline.study.study_folder import OPTUNA_DB, SETTINGS, SETTINGS_COPY, STUDIES
from pipeline.tracking import places
from pipeline.training import data_options, settings
from search_spaces import registry
from search_spaces.base import Space, num_points
from search_spaces.criteria import PAPER, RELATIVE, RIVAL, paper_bar

if TYPE_CHECKING:
    from pipeline.study.optuna_export import Export
    from pipeline.study.study import StudySettings
    from pipeline.training.settings import RunSettings

logger = logging.getLogger("pipeline.search")

_PLACES = ("data_dir", "cache_dir", "tracking_uri", "optuna_storage")
"""Flags that a resumed study has from its first command, unless they are given anew."""
_EACH_TIME = ("storage", "name", "address", "resume", "dry_run", "debug")
"""Flags that count as each command gives them."""


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.search`."""
    parser = settings.parser("pipeline.search", "Search hyper-parameters of a rationale model.")
    settings.add_data_arguments(parser)
    settings.add_training_arguments(parser)
    settings.add_storage_arguments(parser)
    study = parser.add_argument_group("search")
    study.add_argument(
        "--trials",
        type=settings.positive_int,
        default=30,
        help="configurations to try (default: %(default)s)",
    )
    study.add_argument(
        "--criterion",
        choices=(PAPER, RELATIVE),
        help="whose threshold on precision: paper, fixed ones; relative, 2 points below HardKuma's, which is "
        "trained first on the same features, for as many epochs and at the same selection rate, and kept "
        "(default: relative on real data with human rationales, else paper)",
    )
    study.add_argument("--space", default="paper", help="search space: paper or wide (default: %(default)s)")
    study.add_argument(
        "--sampler",
        default="tpe",
        choices=settings.SAMPLERS,
        help="who proposes points (default: %(default)s)",
    )
    study.add_argument(
        "--seeds",
        type=settings.positive_int,
        default=1,
        help="seeds the winner is trained with in all (default: %(default)s)",
    )
    study.add_argument(
        "--max-concurrent", type=settings.positive_int, help="trials at once (default: as many as fit)"
    )
    study.add_argument(
        "--cpus-per-trial",
        type=settings.positive_float,
        default=1.0,
        help="cores of a trial (default: %(default)s)",
    )
    study.add_argument(
        "--gpus-per-trial",
        type=settings.num_gpus,
        help="GPUs of a trial, may be a fraction; auto: as many trials on each GPU as a measured one says "
        "that fit; 0: trials run on the CPU (default: auto where there are GPUs, else 0)",
    )
    study.add_argument(
        "--checkpoint-every",
        type=settings.tolerance,
        metavar="SECONDS",
        default=60.0,
        help="training that is lost at most if a worker dies in mid-epoch; 0: up to an epoch "
        "(default: %(default)g)",
    )
    study.add_argument(
        "--address", help="Ray cluster to use (default: RAY_ADDRESS, else a private local one)"
    )
    study.add_argument(
        "--name",
        type=settings.study_name,
        help="name of the study (default: made of dataset, aspect and time)",
    )
    settings.add_model_name(study)
    study.add_argument(
        "--optuna-storage",
        metavar="URL",
        help="Optuna storage that the finished study is exported to, such as sqlite:///FILE, journal:///FILE "
        "or postgresql://USER:PASSWORD@HOST/DB",
    )
    study.add_argument("--resume", action="store_true", help="resume the study that --name names")
    study.add_argument(
        "--dry-run", action="store_true", help="check everything, print the plan, train nothing"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    cluster.prepare_environment(given.address)
    storage = settings.storage(given.storage, given.sample)
    if not given.resume:
        uri = settings.tracking_uri(given.tracking_uri, storage)
    home = storage.opened()
    prepared = _resumed(given, home) if given.resume else _prepared(given, arguments)
    if given.resume:
        given = _with_first_flags(given, prepared)
        uri = settings.tracking_uri(given.tracking_uri, storage)
    directory = home / STUDIES / prepared.name
    commands = settings.commands(prepared.name, storage, given.tracking_uri, given.address)
    if storage.is_remote:
        home.check()
    if not given.resume:
        planning.check_data(given, prepared.run)
    planning.check_device(prepared.run)
    places.check(storage, uri, given.optuna_storage)
    cluster.check_address(given.address)
    if prepared.packs_gpus and not prepared.chooses_gpus:
        cluster.check_packing(given.address, prepared.run.device)
    if given.dry_run:
        prepared, data = _looked_at(given, prepared)
        print(_plan(prepared, directory, uri, given.address, data))
        return 0
    export = _export(given, prepared.name, storage, directory)
    if storage.is_remote and given.cache_dir:
        # where the workers of a private Ray look, too; on other nodes it is their own business
        os.environ["INFOCAL_CACHE"] = str(Path(given.cache_dir).resolve())
    with (
        study_folder.opened(storage, prepared.name, resume=given.resume) as folder,
        _told_how_to_go_on(folder, commands.resume),
    ):
        with terminal.opened():
            logger.info("results: %s\ntracking: %s", directory, without_password(uri))
            planning.compile_ahead(prepared.run)
            with terminal.step("loading the packages"):
                from pipeline.study.conduct import check_model, conduct, save

            if not given.resume:
                save(prepared, folder)  # so that it can be resumed from now on
            with terminal.step("preparing the data"):
                prepared = _with_features(given, prepared)
                if not given.resume:
                    check_model(prepared, uri)
            with terminal.step("looking for the rival that the criterion names, or training it"):
                prepared = _with_rival(given, prepared, folder)
            # Ray prints that a node has died, and MLflow where a run is: stdout holds the result alone
            with contextlib.redirect_stdout(sys.stderr):
                result = conduct(
                    prepared, folder, uri, address=given.address, resume=given.resume, commands=commands
                )
        terminal.answer(result)
        if export is not None:
            _export_to(export, folder.directory / OPTUNA_DB, commands.resume)
    return 0


def _export_to(export: "Export", database: Path, command: str) -> None:
    try:
        export.run(database)
    except PipelineError as error:
        hint = f"{error.hint}; " if error.hint else ""
        hint += f"the study is complete, and exported by: {command}"
        raise PipelineError(error.message, where=error.where, hint=hint) from error


@contextlib.contextmanager
def _told_how_to_go_on(folder: study_folder.StudyFolder, command: str) -> Iterator[None]:
    """Say how to go on after an interrupt, whenever it comes."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if (folder.directory / LEDGER).exists():
            logger.warning("to resume: %s", command)
        else:
            logger.warning("no trial was begun: start the same command again")
        raise


def _with_features(given: argparse.Namespace, prepared: "StudySettings") -> "StudySettings":
    """The settings with the features' folder; features are built where they are not there.

    Raises:
        PipelineError: if a resumed study would go on with other data.
    """
    run = prepared.run
    if run.features_uri or (run.features_dir and Path(run.features_dir).is_dir()):
        return prepared
    built = planning.with_features(given, run)
    if run.features_dir and Path(run.features_dir).name != Path(built.features_dir).name:
        raise PipelineError(
            f"the study's features, {Path(run.features_dir).name}, are gone, and the data give others now, "
            f"{Path(built.features_dir).name}",
            where=f"--resume --name {prepared.name}",
            hint="are these the same files as before? name their folder with `--data-dir`",
        )
    if run.features_dir:  # it was begun: what it is judged by stays as it was
        kept = {name: getattr(run, name) for name in ("criterion", "criterion_kind", "rival")}
        built = dataclasses.replace(built, **kept)
    return dataclasses.replace(prepared, run=built)


def _with_rival(
    given: argparse.Namespace, prepared: "StudySettings", folder: study_folder.StudyFolder
) -> "StudySettings":
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
    run = rival.settled(run, features, sample=prepared.sample, is_asked_for=is_asked_for)
    prepared = dataclasses.replace(prepared, run=run)
    save(prepared, folder)
    return prepared


def _export(given: argparse.Namespace, name: str, storage: Storage, directory: Location) -> "Export | None":
    """Where the finished study is exported to, looked at before anything is trained."""
    if not given.optuna_storage:
        return None
    credentials.check(given.optuna_storage, "--optuna-storage")
    from pipeline.study.optuna_export import Export

    origin = directory.uri if storage.is_remote else f"{socket.gethostname()}:{directory.path}"
    export = Export(given.optuna_storage, name, origin)
    export.check()
    return export


def _prepared(given: argparse.Namespace, arguments: Sequence[str]) -> "StudySettings":
    """Check every flag and resolve the settings; the features' folder is still missing."""
    threads = max(1, int(given.cpus_per_trial))
    run = planning.run_settings(given, {}, num_threads=threads, holds_rate=True)
    run = dataclasses.replace(run, checkpoint_s=given.checkpoint_every)
    space = registry.space(given.method, given.dataset, given.space)
    continuous = [r.name for r in space if r.step is None]
    if given.sampler == "grid" and continuous:
        raise PipelineError(
            f"range of `{continuous[0]}` is continuous and has no grid",
            where="--sampler grid",
            hint="use `--space paper`, or `--sampler tpe`",
        )
    fixed = [r.name for r in space if r.name in run.base]
    if fixed:
        raise PipelineError(
            f"`{fixed[0]}` is searched over, so it cannot be fixed as well",
            where="--set",
            hint="train one configuration with `python -m pipeline.train`",
        )
    points = registry.first_points(given.method, given.dataset)
    packs = given.gpus_per_trial == settings.AUTO
    chooses = given.gpus_per_trial is None and run.device in ("auto", "cuda")
    gpus = given.gpus_per_trial if isinstance(given.gpus_per_trial, float) else 0.0
    if given.gpus_per_trial == 0 and run.device == "auto":
        # Ray would leave every card visible to a trial that counts for none
        run = dataclasses.replace(run, device="cpu")
    if 0 < gpus < 1:
        run = dataclasses.replace(run, gpu_memory_rate=gpus)
    from pipeline.study.study import StudySettings  # loads torch and ray: only once every flag is checked

    return StudySettings(
        name=given.name or settings.default_name(given.dataset, run.aspect),
        run=run,
        space_name=given.space,
        sampler=given.sampler,
        num_trials=given.trials,
        max_concurrent=given.max_concurrent or 0,
        cpus_per_trial=given.cpus_per_trial,
        gpus_per_trial=gpus,
        chooses_gpus=chooses,
        packs_gpus=packs,
        num_seeds=given.seeds,
        sample=given.sample,
        model_name=settings.model_name(given, run.aspect),
        command=settings.stored_command("pipeline.search", with_data_dir(arguments, given)),
        first_points=[point for point in points if all(r.contains(point[r.name]) for r in space)],
    )


def with_data_dir(arguments: Sequence[str], given: argparse.Namespace) -> list[str]:
    """A command's arguments, with the data folder of INFOCAL_DATA where that names the data.

    So that the command means the same where the variable is not set, or names another folder.

    Args:
        arguments: as they were given.
        given: the same, parsed; `data_dir` and `sample` are read.
    """
    folder = os.environ.get("INFOCAL_DATA")
    if not folder or given.data_dir or given.sample:
        return list(arguments)
    return [*arguments, f"--data-dir={folder}"]


def _resumed(given: argparse.Namespace, home: Location) -> "StudySettings":
    if not given.name:
        raise PipelineError("which study is to be resumed?", where="--resume", hint="add `--name NAME`")
    studies = home / STUDIES
    study_folder.check_exists(home, given.name, "without `--resume` a new one is started")
    from pipeline.study.study import StudySettings
    from pipeline.training import feature_copies

    logger.info("resuming with the study's own settings; flags that say how to train have no effect")
    study_folder.check_complete(home, given.name, "--resume", "leave out `--resume`")
    with (studies / given.name).localised(SETTINGS, SETTINGS_COPY) as folder:
        prepared = StudySettings.load(folder, given.name)
    if not prepared.run.features_uri:
        return prepared
    # the same copy, as this machine calls it
    uri = feature_copies.place(home, prepared.run.features_uri).portable
    return dataclasses.replace(prepared, run=dataclasses.replace(prepared.run, features_uri=uri))


def _with_first_flags(given: argparse.Namespace, prepared: "StudySettings") -> argparse.Namespace:
    """The flags with which a study was begun, with those of this command that count for a resumed one too.

    Raises:
        PipelineError: if what is stored as the command that began it is none.
    """
    first = settings.parsed_again(prepared.command, f"{SETTINGS} of `{prepared.name}`", build_parser())
    anew = [*_EACH_TIME, *(name for name in _PLACES if getattr(given, name) is not None)]
    return argparse.Namespace(**vars(first) | {name: getattr(given, name) for name in anew})


def _criterion(run: "RunSettings") -> list[str]:
    """The criterion in the plan, with what has to be measured for it."""
    lines = [f"criterion    {planning.criterion_in_words(run)}"]
    if run.criterion_kind != RELATIVE:
        return lines
    if run.rival:
        return [*lines, f"             {run.criterion.why}"]
    name, fixed = registry.title(RIVAL), paper_bar(run.criterion)
    epochs = counted(run.num_epochs, "epoch")
    measured = f"{name} is trained first on the same features for {epochs}, once: kept beside them"
    beside = "" if fixed is None else f"; the paper's threshold: {fixed:g}"
    return [*lines, f"             {measured}{beside}"]


def _trials(asked: int, space: Space) -> str:
    there = num_points(space)
    if there is None or there >= asked:
        return str(asked)
    return f"{there} (each point of the space, in place of the {asked} asked for)"


def _gpus(prepared: "StudySettings", address: str | None) -> str:
    """What GPUs the trials get, as far as is known before the study starts."""
    if prepared.packs_gpus and not prepared.chooses_gpus:
        return "as many trials on each as a measured one says that fit"
    if not prepared.chooses_gpus:
        device = f" (device {prepared.run.device})"
        if prepared.run.device.startswith("cuda") and not prepared.gpus_per_trial:
            return f"every trial on {prepared.run.device}, as many at once as there are cores for"
        return f"{prepared.gpus_per_trial:g} a trial{device}" if prepared.gpus_per_trial else f"none{device}"
    if not cluster.is_local(address):
        return "those of the cluster, shared as a measured trial allows; the CPU where it has none"
    num_gpus = cluster.num_local_gpus()
    return (
        f"{num_gpus}, shared as a measured trial allows" if num_gpus else "none here: trials run on the CPU"
    )


def _looked_at(given: argparse.Namespace, prepared: "StudySettings") -> tuple["StudySettings", list[str]]:
    """The settings as the data files settle them, and what is said of these; features are not built."""
    if given.resume:
        return prepared, []
    logger.info("reading the data files; nothing is built")
    run, found = planning.looked_at(given, prepared.run)
    lines = [*planning.data_lines(found), f"training     {planning.start_of(run)}"]
    return dataclasses.replace(prepared, run=run), lines


def _plan(
    prepared: "StudySettings", directory: Location, uri: str, address: str | None, data: Sequence[str]
) -> str:
    """What would be done, for `--dry-run`; `data` are the lines about the data files."""
    run = prepared.run
    space = registry.space(run.method, run.dataset, prepared.space_name)
    target = data_options.target(run.dataset, run.aspect, run.options)
    lines = [
        f"study        {prepared.name}  ({run.method} on {target})",
        f"results      {directory}",
        f"tracking     {uri}",
        *data,
        *_criterion(prepared.run),
        f"trials       {_trials(prepared.num_trials, space)} of {counted(run.num_epochs, 'epoch')}",
        f"GPUs         {_gpus(prepared, address)}",
        f"sampler      {prepared.sampler}, seed {run.seed}",
        f"first        {prepared.first_points or 'none: the published best lies outside this space'}",
        "\nsearched",
    ]
    for r in space:
        scale = "log scale" if r.log else f"step {r.step:g}" if r.step else "continuous"
        lines.append(f"  {r.name:<24} {r.low:g} .. {r.high:g}, {scale}  ({r.why})")
    lines.append("\nfixed")
    searched = {r.name for r in space}
    fixed = run.config().to_dict().items()
    lines += [f"  {name:<24} {value}" for name, value in fixed if name not in searched]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(run_command(main))

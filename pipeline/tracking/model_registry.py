"""The model registry: versions of `infocal-DATASET-ASPECT`, their aliases and the packages in them."""

import importlib.metadata
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow.pyfunc
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts
from mlflow.entities import LoggedModel, LoggedModelOutput, LoggedModelStatus
from mlflow.exceptions import MlflowException
from mlflow.models import Model

from feature_store.fingerprint import file_digest
from pipeline.base import command_text, moved, stored_files, uris
from pipeline.base.errors import PipelineError
from pipeline.base.locations import SAMPLE_STORAGE, STORAGE
from pipeline.base.storage import Storage
from pipeline.tracking import descriptions, served_model
from pipeline.tracking.tracking import PARENT_TAG, RESULTS_TAG, Tracker, translated, written
from pipeline.training import checkpoints, naming

CHALLENGER, CHAMPION = naming.CHALLENGER, naming.CHAMPION
CORPUS_TAG, SAMPLE_CORPUS, REAL_CORPUS = "corpus", "sample", "real"

_DISTRIBUTION = "infocal-pipeline"
_REQUIREMENTS = ("mlflow", "torch", "numpy", "safetensors", "pydantic", "jaxtyping", "pyarrow", "jieba")
"""What loading a model imports besides this project."""
_OF_PRETRAINED = ("transformers", "tokenizers")
"""What loading a model imports as well, if its encoders were pretrained."""
_DIGEST_TAG, _CRITERION_TAG = "weights_sha256", "criterion"
DATA_FOLDER_TAG = "origin"
"""Folder of a corpus of one's own."""
TITLE_TAG = descriptions.TITLE_TAG
_TASK_TAGS = {
    "dataset": "the data set",
    "aspect": "the target",
    "task_kind": "a task of kind",
    "classes": "the classes",
}
"""Tags that the versions of one model have in common, and how they are called."""
_TAGGED = ("dataset", "aspect", "method", "data_fingerprint", "study", "epoch", "criterion", "min_precision")
"""Entries of a package's metadata that become tags of its version."""
_MODEL = "model"
_EXAMPLE = (
    ["a smooth and creamy body , but the smell is faint ."],
    {served_model.ALL_TOKENS: False, served_model.COLUMN: ""},
)


@dataclass(frozen=True, slots=True)
class ModelVersion:
    """A version of a registered model."""

    name: str
    version: int
    run_id: str
    """The run that trained it; empty where it was registered by hand."""
    aliases: tuple[str, ...]
    tags: dict[str, str]

    @property
    def uri(self) -> str:
        """What MLflow loads it by."""
        return f"models:/{self.name}/{self.version}"


def register(
    tracker: Tracker,
    package_dir: Path,
    *,
    name: str,
    run_id: str,
    tags: Mapping[str, Any],
    alias: str | None = CHALLENGER,
    takes_alias: bool = False,
) -> int:
    """Log a package as a model of a run and register it.

    Args:
        package_dir: a folder that `checkpoints.save_package` wrote.
        name: of the registered model; made where it is missing.
        run_id: the run that trained the model.
        tags: of the version, besides those that its metadata give.
        alias: moved to the new version; None: none is.
        takes_alias: whether an earlier version of these weights takes the alias from a later one.

    Returns:
        The number of the version; that of an earlier one where the very weights of that run have one already
        that was chosen by the same criterion and whose files are whole.

    Raises:
        StateError: if the package is damaged.
        PipelineError: if the store refuses it.
    """
    metadata = checkpoints.load_package(package_dir).metadata
    digests = checkpoints.read_json(package_dir / checkpoints.DIGESTS)
    tags = {**tags, _DIGEST_TAG: digests[checkpoints.WEIGHTS]}
    every = {key: written(value) for key, value in {**_version_tags(metadata), **tags}.items()}
    with translated(f"cannot register a version of `{name}`"):
        there = _version_of(tracker.client, name, run_id, every)
        # a finished study that is resumed chooses the same winner again
        if there is not None and not _is_lost(tracker, name, there):
            if alias is not None:
                _advance(tracker.client, name, alias, there, takes_alias)
            return there
        refuse_another(tracker, name, every)
        _remove_unregistered(tracker, run_id)
        logged = _log_model(tracker, package_dir, run_id, metadata)
        _ensure_model(tracker.client, name, descriptions.of_model(every))
        # a database's registry would look `models:/ID` up in MLflow's global store; a server looks in its own
        is_server = tracker.uri.startswith(("http://", "https://"))
        source = f"models:/{logged.model_id}" if is_server else logged.artifact_location
        made = tracker.client.create_model_version(
            name,
            source=source,
            run_id=run_id,
            tags=every,
            model_id=logged.model_id,
            description=descriptions.of_version(every, run_id),
        )
        if alias is not None:
            tracker.client.set_registered_model_alias(name, alias, made.version)
    return int(made.version)


def corpus_tag(is_sample: bool) -> dict[str, str]:
    """The tag that says whether a model is of the made-up corpus."""
    return {CORPUS_TAG: SAMPLE_CORPUS if is_sample else REAL_CORPUS}


def is_sample(tags: Mapping[str, str]) -> bool:
    """Whether the tags of a run or a version say that it is of the made-up corpus."""
    return tags.get(CORPUS_TAG) == SAMPLE_CORPUS


def differing(these: Mapping[str, str], those: Mapping[str, str]) -> str | None:
    """What tells two versions apart that should not be versions of one model; None where nothing does.

    Corpora of one's own are apart where neither the folder nor the features are the same.

    Args:
        those: tags of the other; what either lacks, as older versions do, is not compared.
    """
    for key, label in _TASK_TAGS.items():
        if key in these and key in those and these[key] != those[key]:
            return f"{label} {those[key]} instead of {these[key]}"
    both = all(key in tags for key in (DATA_FOLDER_TAG, "data_fingerprint") for tags in (these, those))
    if both and all(these[key] != those[key] for key in (DATA_FOLDER_TAG, "data_fingerprint")):
        return f"the data in {those[DATA_FOLDER_TAG]} instead of {these[DATA_FOLDER_TAG]}"
    return None


def refuse_another(tracker: Tracker, name: str, tags: Mapping[str, str]) -> None:
    """Keep a model of one corpus from becoming a version beside those of another.

    Raises:
        PipelineError: if every version of that name is of another task or corpus.
    """
    with translated(f"cannot read the versions of `{name}`"):
        found = tracker.client.search_model_versions(f"name = '{name}'")
    if not found:
        return
    newest = max(found, key=lambda version: int(version.version))
    other = differing(tags, newest.tags)
    # a folder and its copy are origins of one model; either may grow
    if other is not None and all(differing(tags, version.tags) for version in found):
        raise PipelineError(
            f"the registered model `{name}` is for another task or corpus: {other}",
            where="--model-name",
            hint="name another model, as in `--model-name NAME`",
        )


def _version_of(client: MlflowClient, name: str, run_id: str, tags: Mapping[str, str]) -> int | None:
    """The version of these weights that was chosen by the same criterion, if there is one."""
    found = client.search_model_versions(f"name = '{name}' and run_id = '{run_id}'")
    same = (_DIGEST_TAG, _CRITERION_TAG)
    return next(
        (int(v.version) for v in found if all(v.tags.get(key) == tags.get(key) for key in same)), None
    )


def _advance(client: MlflowClient, name: str, alias: str, version: int, takes_alias: bool) -> None:
    """Give a version the alias that a process which died did not give it, or that is asked for again."""
    there = client.get_registered_model(name).aliases.get(alias)
    if there is None or int(there) < version or takes_alias:
        client.set_registered_model_alias(name, alias, str(version))


def _remove_unregistered(tracker: Tracker, run_id: str) -> None:
    """Remove models of a run that a process which died has logged, but not registered."""
    client, run = tracker.client, tracker.run(run_id)
    # the store does not tell the version's model by its id
    sources = [str(version.source) for version in client.search_model_versions(f"run_id = '{run_id}'")]
    for logged in client.search_logged_models([run.experiment_id], f"source_run_id = '{run_id}'"):
        if not any(logged.model_id in source for source in sources):
            client.delete_logged_model(logged.model_id)


def _version_tags(metadata: Mapping[str, Any]) -> dict[str, Any]:
    tags = {name: metadata[name] for name in _TAGGED if metadata.get(name) is not None}
    if "epoch" in tags:
        tags["epoch"] += 1  # people count from 1
    return tags | corpus_tag(bool(metadata.get("sample")))


def _log_model(tracker: Tracker, package_dir: Path, run_id: str, metadata: Mapping[str, Any]) -> LoggedModel:
    """Log the model with the run as its source.

    `mlflow.pyfunc.log_model` does the same, but through MLflow's global tracking URI and active run.
    """
    client, run = tracker.client, tracker.run(run_id)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / _MODEL
        # MLflow keeps the name of the folder it is given
        package = shutil.copytree(package_dir, Path(temporary) / served_model.PACKAGE_ARTIFACT)
        logged = client.create_logged_model(
            run.experiment_id, name=_MODEL, source_run_id=run_id, params=run.params, model_type="pyfunc"
        )
        status = LoggedModelStatus.FAILED
        try:
            client.log_outputs(run_id, [LoggedModelOutput(logged.model_id, step=0)])
            description = Model(
                artifact_path=logged.artifact_location, run_id=run_id, model_id=logged.model_id
            )
            mlflow.pyfunc.save_model(
                path=str(folder),
                mlflow_model=description,
                python_model=served_model.__file__,
                artifacts={served_model.PACKAGE_ARTIFACT: str(package)},
                input_example=_EXAMPLE,
                pip_requirements=requirements(package_dir),
                metadata=dict(metadata),
            )
            # MLflow only warns where its own try of the example fails
            mlflow.pyfunc.load_model(str(folder)).predict(*_EXAMPLE)
            elsewhere = moved.relocated(logged.artifact_location, tracker.artifact_root)
            if elsewhere is None:
                client.log_model_artifacts(logged.model_id, str(folder))
            else:
                moved.store(folder, elsewhere)
            status = LoggedModelStatus.READY
        finally:
            client.finalize_logged_model(logged.model_id, status)
    return logged


def requirements(package_dir: Path) -> list[str]:
    """The installed versions of what loading the model of a package imports, without their build (`+cpu`)."""
    more = _OF_PRETRAINED if checkpoints.is_pretrained(package_dir) else ()
    pinned = []
    for package in (_DISTRIBUTION, *_REQUIREMENTS, *more):
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            if package != _DISTRIBUTION:
                raise
            continue  # run from a checkout that is not installed: there is no version to state
        pinned.append(f"{package}=={version.partition('+')[0]}")
    return pinned


def _ensure_model(client: MlflowClient, name: str, description: str) -> None:
    """Make a registered model where it is missing; a description that people wrote stays."""
    try:
        client.create_registered_model(name, description=description)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
        if client.get_registered_model(name).description in (None, "", descriptions.WHAT_A_MODEL_IS):
            client.update_registered_model(name, description)


def find(tracker: Tracker, name: str, which: str | int) -> ModelVersion:
    """A version by its alias or number.

    Raises:
        PipelineError: if there is no such model, alias or version; says what there is.
    """
    try:
        if isinstance(which, int):
            found = tracker.client.get_model_version(name, str(which))
        else:
            found = tracker.client.get_model_version_by_alias(name, which)
    except MlflowException as error:
        label = f"version {which}" if isinstance(which, int) else f"alias `{which}`"
        raise PipelineError(
            f"no {label} of model `{name}`; {_known(tracker, name)}",
            where=tracker.uri,
            hint="`python -m pipeline.search` registers its winner as `challenger`, "
            "`python -m pipeline.promote` makes it `champion`",
        ) from error
    with translated(f"cannot read model `{name}`"):
        # the version itself does not list its aliases reliably: the model does
        aliases = tracker.client.get_registered_model(name).aliases
    number = int(found.version)
    return ModelVersion(
        name=name,
        version=number,
        run_id=found.run_id or "",
        aliases=tuple(sorted(alias for alias, version in aliases.items() if int(version) == number)),
        tags=dict(found.tags),
    )


def _known(tracker: Tracker, name: str) -> str:
    with translated("cannot list the registered models"):
        models = {model.name: model for model in tracker.client.search_registered_models()}
        if name not in models:
            return f"registered models: {', '.join(f'`{known}`' for known in sorted(models)) or 'none'}"
        versions = tracker.client.search_model_versions(f"name = '{name}'")
    numbers = ", ".join(map(str, sorted(int(version.version) for version in versions)))
    aliases = ", ".join(f"`{alias}` = {number}" for alias, number in sorted(models[name].aliases.items()))
    return f"the model has versions {numbers or 'none'} and aliases {aliases or 'none'}"


def versions_of_runs(
    tracker: Tracker, names: Sequence[str], run_ids: Sequence[str]
) -> dict[str, list[tuple[str, str]]]:
    """Which runs became versions of registered models: run's id -> `NAME version 3 (champion)` and criterion.

    The criterion is empty where an older version of this project, which kept none, registered it.

    Args:
        names: of the models; one that is not there has no version.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for name in names:
        with translated(f"cannot list the versions of `{name}`"):
            versions = tracker.client.search_model_versions(f"name = '{name}'")
            aliases = dict(tracker.client.get_registered_model(name).aliases) if versions else {}
        for version in sorted(versions, key=lambda version: int(version.version)):
            if version.run_id in run_ids:
                own = sorted(
                    alias for alias, number in aliases.items() if int(number) == int(version.version)
                )
                label = f"{name} version {version.version}" + (f" ({', '.join(own)})" if own else "")
                chosen_by = version.tags.get(_CRITERION_TAG, "")
                found.setdefault(str(version.run_id), []).append((label, chosen_by))
    return found


def champion(tracker: Tracker, name: str) -> ModelVersion | None:
    """The version that is champion, or None."""
    with translated(f"cannot read model `{name}`"):
        holder = tracker.client.get_registered_model(name).aliases.get(CHAMPION)
    return None if holder is None else find(tracker, name, int(holder))


def promote(tracker: Tracker, version: ModelVersion) -> None:
    """Make a version the champion."""
    with translated(f"cannot move the alias `{CHAMPION}` to {version.uri}"):
        tracker.client.set_registered_model_alias(version.name, CHAMPION, str(version.version))


def tag(tracker: Tracker, version: ModelVersion, tags: Mapping[str, Any]) -> None:
    """Set tags of a version."""
    with translated(f"cannot write the tags of {version.uri}"):
        for key, value in tags.items():
            tracker.client.set_model_version_tag(version.name, str(version.version), key, written(value))


class LostFiles(PipelineError):  # noqa: N818 - what a second registration mends
    """Files of a registered version are missing or damaged."""

    def __init__(self, tracker: Tracker, version: ModelVersion, where: str, message: str) -> None:
        command = _register_again(tracker, version)
        hint = (
            "restore the files from a backup, or register the trial as a new version from the weights of its "
            f"study: `{command}`"
        )
        super().__init__(message, where=where, hint=hint)


def _register_again(tracker: Tracker, version: ModelVersion) -> str:
    """The command that registers the trial of a version again, with all that the store knows of its study."""
    name = version.tags.get("study", "STUDY")
    try:
        trial = tracker.run(version.run_id)
        study = tracker.run(trial.tags[PARENT_TAG])
    except (KeyError, PipelineError):  # registered by hand, or the runs were deleted
        return shlex.join(["python", "-m", "pipeline.register", "--name", name])
    place = study.tags.get(RESULTS_TAG, "")
    folder = place if "://" in place else place.partition(":")[2]  # HOST:FOLDER
    home = folder.rpartition("/studies/")[0]
    database = uris.file_of_sqlite(tracker.uri)
    if database is not None and (database.parent / "studies" / name).is_dir():
        home = str(database.parent.resolve())  # the results may have been moved since
    usual = {str(Path(one).resolve()): one for one in (STORAGE, SAMPLE_STORAGE)}
    storage = Storage(usual.get(home, home) or STORAGE)
    words = [command_text.next_commands(name, storage, tracker.uri).register]
    if number := re.fullmatch(r"trial-(\d+)", trial.name):
        words += ["--trial", str(int(number[1]))]
    chosen_by = version.tags.get(_CRITERION_TAG)
    if chosen_by == trial.tags.get("registered_criterion") and chosen_by != study.tags.get(_CRITERION_TAG):
        words += ["--criterion", shlex.quote(str(chosen_by))]
    if version.name != study.params.get("model_name", version.name):
        words += ["--model-name", shlex.quote(version.name)]
    return " ".join(words)


def _is_lost(tracker: Tracker, name: str, version: int) -> bool:
    """Whether files of a version are missing or damaged."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            load_version_package(tracker, name, version, Path(folder))
        except LostFiles:
            return True
    return False


def load_version_package(tracker: Tracker, name: str, which: str | int, destination: Path) -> Path:
    """Copy the package of a version into `destination`; returns its folder.

    Raises:
        LostFiles: if its weights are gone, or others stand in their place.
        PipelineError: if there is no such version, or its files cannot be read.
    """
    return _downloaded(tracker, find(tracker, name, which), destination)


def _downloaded(tracker: Tracker, version: ModelVersion, destination: Path) -> Path:
    destination.mkdir(parents=True, exist_ok=True)
    with translated(f"cannot read the files of {version.uri}"):
        source = tracker.client.get_model_version_download_uri(version.name, str(version.version))
        elsewhere = moved.relocated(source, tracker.artifact_root)
        source = source if elsewhere is None else elsewhere.as_uri()
        uri = f"{source.rstrip('/')}/artifacts/{served_model.PACKAGE_ARTIFACT}"
        folder = moved.path_of(uri)
        if folder is not None and not folder.exists():
            message = f"cannot read the files of {version.uri}: the folder is missing"
            raise LostFiles(tracker, version, uri, message)
        found = Path(
            download_artifacts(artifact_uri=uri, dst_path=str(destination), tracking_uri=tracker.address)
        )
    registered, weights = version.tags.get(_DIGEST_TAG), found / checkpoints.WEIGHTS
    if registered and not weights.is_file():
        raise LostFiles(tracker, version, uri, f"{version.uri} has no file `{checkpoints.WEIGHTS}`")
    if registered and file_digest(weights) != registered:
        raise LostFiles(
            tracker,
            version,
            uri,
            f"`{checkpoints.WEIGHTS}` of {version.uri} was changed after registration: its sha256 does not "
            f"match the version's tag `{_DIGEST_TAG}` ({registered})",
        )
    return found


def load_version(tracker: Tracker, name: str, which: str | int, destination: Path) -> checkpoints.Package:
    """The package of a version, copied into `destination` and read.

    Raises:
        PipelineError: as `load_version_package`.
        StateError: if a file of it is damaged; names the version.
    """
    version = find(tracker, name, which)
    package = _downloaded(tracker, version, destination)
    with stored_files.copied(destination, version.uri):
        return checkpoints.load_package(package)

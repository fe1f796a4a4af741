"""Where results, tracking and cached features are: the flag, else an environment variable, else a default."""

import os
import shlex
from pathlib import Path

from pipeline.base import tracking_address
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Storage
from pipeline.base.uris import file_of_sqlite, is_masked, of_sqlite, without_password

SAMPLE_STORAGE, STORAGE = "runs/sample", "runs"
TRACKING_VARIABLE = tracking_address.VARIABLE


def storage(given: str | None, sample: bool) -> Storage:
    """Where all results are: as given, else in `runs`, or `runs/sample` for the sample corpus."""
    return Storage(given or (SAMPLE_STORAGE if sample else STORAGE))


def check_above_is_folder(path: Path, where: str) -> Path:
    """The folder in which a file, or its missing folders, would be made.

    Args:
        where: flag that named it.

    Raises:
        PipelineError: if a file is in the way.
    """
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir():
        raise PipelineError(
            f"expected a folder, but `{above}` is a file", where=where, hint="name a folder of your own"
        )
    return above


def make_folder(path: Path, where: str) -> None:
    """Make a folder and those above it, where they are missing.

    Args:
        where: flag that named it.

    Raises:
        PipelineError: if it cannot be made.
    """
    try:
        check_above_is_folder(path / "any", where)
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PipelineError(
            f"cannot make the folder `{path}`: {error.strerror}",
            where=where,
            hint="choose a folder in which you may write",
        ) from error


def tracking_uri(given: str | None, storage: Storage) -> str:
    """Where MLflow tracks: the flag, else MLFLOW_TRACKING_URI, else an SQLite file in the local storage.

    A flag whose password is masked means the same address in MLFLOW_TRACKING_URI, which has it.

    Raises:
        PipelineError: if none of these is there, MLflow does not know its kind, its password was left out or
            is not percent-encoded, or it is a file in a folder that is missing.
    """
    if given and is_in_environment(given):
        given = None
    stated = given or os.environ.get(TRACKING_VARIABLE)
    flag = tracking_address.FLAG if given else TRACKING_VARIABLE
    tracking_address.check(stated, flag)
    if stated:
        _check_folder(stated, storage, flag)
    found = stated or own_tracking(storage)
    if found is None:
        raise PipelineError(
            f"`--storage {storage}` needs an MLflow server, but no server is named",
            where=tracking_address.FLAG,
            hint="give its address here or in MLFLOW_TRACKING_URI, for example http://HOST:5000; "
            "sqlite:///mlflow.db tracks in a file on this machine",
        )
    return found


def _check_folder(uri: str, storage: Storage, flag: str) -> None:
    """Refuse a SQLite file whose folder is missing, as SQLite does; the folders of results are made.

    Raises:
        PipelineError: if it is missing.
    """
    file = file_of_sqlite(uri)
    if file is None or file.parent.exists():
        return
    results = [Path(STORAGE), *([] if storage.is_remote else [storage.folder])]
    folder = file.parent.resolve()
    if not any(folder in (one.resolve(), *one.resolve().parents) for one in results):
        raise PipelineError(
            f"there is no folder `{file.parent}` for the tracking database `{file.name}`",
            where=flag,
            hint=f"make the folder with `mkdir -p {shlex.quote(str(file.parent))}`, or correct the path",
        )


def is_in_environment(shown: str) -> bool:
    """Whether a masked URI is what MLFLOW_TRACKING_URI holds with its password: no flag need name it then."""
    stated = os.environ.get(TRACKING_VARIABLE, "")
    return is_masked(shown) and stated != shown and without_password(stated) == shown


def own_tracking(storage: Storage) -> str | None:
    """The store that lies in a storage; None where that is no folder of this machine."""
    return None if storage.is_remote else of_sqlite((storage.folder / "mlflow.db").resolve())

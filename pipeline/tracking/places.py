"""Whether results, tracking and exports can be where the flags say; asked before features are built."""

import os
from pathlib import Path

from pipeline.base import credentials, locations, reach, tracking_address, uris
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Storage
from pipeline.tracking import export_place
from pipeline.tracking.schema import refuse_another_schema

_OPTUNA = export_place.FLAG
_SQLITE = b"SQLite format 3\0"
"""How a file that is a SQLite database begins."""


def check(storage: Storage, tracking_uri: str, optuna_storage: str | None = None) -> None:
    """Look at each place without making or changing anything there.

    Args:
        tracking_uri: of MLflow, with its password.
        optuna_storage: what the finished study is exported to; None: nothing.

    Raises:
        PipelineError: if one cannot be used; names the flag.
    """
    if not storage.is_remote:
        check_can_be_made(storage.folder / "results", "--storage")
    tracking = tracking_address.named_by(tracking_uri)
    tracking_address.check(tracking_uri, tracking)
    _check_server(tracking_uri)
    if optuna_storage:
        export_place.check_form(optuna_storage)
        credentials.check(optuna_storage, _OPTUNA)
        if optuna_storage.startswith(export_place.JOURNAL):
            check_can_be_made(Path(optuna_storage.removeprefix(export_place.JOURNAL)), _OPTUNA)
    for uri, flag in ((tracking_uri, tracking), (optuna_storage or "", _OPTUNA)):
        if uri.startswith("sqlite") and (file := uris.file_of_sqlite(uri)) is not None:
            check_can_be_made(file, flag)
            _check_is_database(file, flag)
    if optuna_storage:
        _check_are_two(tracking_uri, optuna_storage)
        export_place.check(optuna_storage)
    refuse_another_schema(tracking_uri)


def _check_are_two(tracking_uri: str, optuna_storage: str) -> None:
    """Refuse one SQLite file for both: MLflow and Optuna each take a database of their own."""
    files = [uris.file_of_sqlite(uri) for uri in (tracking_uri, optuna_storage)]
    if files[0] is not None and files[1] is not None and files[0].absolute() == files[1].absolute():
        raise PipelineError(
            f"MLflow already uses `{files[1]}` (`{_OPTUNA}` and the tracking address name the same file)",
            where=_OPTUNA,
            hint="name another file",
        )


def _check_server(tracking_uri: str) -> None:
    """Ask an MLflow server for one experiment: whether it is there, and lets this user in."""
    if not tracking_uri.startswith(("http://", "https://")):
        return
    reach.check_tracking(tracking_uri)
    from pipeline.tracking.tracking import Tracker  # mlflow takes seconds that other stores need not wait for

    Tracker(tracking_uri, create=False)


def _check_is_database(file: Path, flag: str) -> None:
    """Refuse a file that is there and is no SQLite database; one that is empty becomes one."""
    if not file.is_file():
        return
    with file.open("rb") as stream:
        start = stream.read(len(_SQLITE))
    if start and start != _SQLITE:
        raise PipelineError(
            f"expected a SQLite database, but `{file}` is another kind of file",
            where=flag,
            hint="give another file; a file that does not exist is created",
        )


def check_can_be_made(file: Path, flag: str) -> None:
    """See whether a file can be made or changed, and the folders that it lacks.

    Raises:
        PipelineError: if it cannot.
    """
    if file.is_dir():
        raise PipelineError(
            f"expected a file, but `{file}` is a folder", where=flag, hint="name another file"
        )
    above = locations.check_above_is_folder(file, flag)
    place = file if file.exists() else above
    if not os.access(place, os.W_OK):
        raise PipelineError(
            f"cannot write `{file}`: no permission to write in `{place}`",
            where=flag,
            hint="choose a folder in which you may write",
        )

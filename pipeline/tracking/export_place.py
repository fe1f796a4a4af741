"""Whether the finished study can be exported to an Optuna storage: asked without making anything there."""

import importlib.util
import json
import shlex
from pathlib import Path

from sqlalchemy import create_engine, inspect
from sqlalchemy.engine import make_url
from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from pipeline.base import reach, tracking_address, uris
from pipeline.base.errors import PipelineError, one_line

FLAG = "--optuna-storage"
_STUDIES, _VERSIONS, _OF_MLFLOW = "studies", "alembic_version", "experiments"
"""Tables of Optuna, of every program that versions its tables as Optuna does, and of MLflow alone."""
JOURNAL = "journal:///"
_FORMS = "for instance sqlite:///FILE, postgresql://USER:PASSWORD@HOST/DATABASE or journal:///FILE"


def check(url: str) -> None:
    """See whether the storage that a URL names can be opened; of a server, by a connection that is closed.

    Args:
        url: with its password, which is percent-encoded.

    Raises:
        PipelineError: if it cannot.
    """
    check_form(url)
    if url.startswith(JOURNAL):
        _check_journal(Path(url.removeprefix(JOURNAL)))
    elif url.startswith("redis"):
        if importlib.util.find_spec("redis") is None:
            raise refused(url, "the package `redis` is not installed")
        reach.check_database(url, FLAG)
    else:
        reach.check_database(url, FLAG)
        _check_database(url)


def check_form(url: str) -> None:
    """Refuse what is no URL.

    Raises:
        PipelineError: if it is none.
    """
    if "://" not in url or uris.is_mistyped(url):
        raise PipelineError(
            f"expected a URL, but got `{uris.without_password(url)}`", where=FLAG, hint=_FORMS
        )


def refused(url: str, reason: str, hint: str | None = None) -> PipelineError:
    """What to say of a storage that cannot be used.

    Args:
        reason: may hold the URL with its password, which is masked.
    """
    if hint is None:
        hint = "check that the server is running, and that its driver is installed (for PostgreSQL psycopg)"
        if url.startswith("sqlite"):
            hint = "check that this file is a database and that you may write to it"
        elif url.startswith(JOURNAL):
            hint = "check that the folder of this file is there, and that you may write to the file"
    return PipelineError(
        f"cannot use the Optuna storage `{uris.without_password(url)}`: "
        f"{uris.without_password_of(reason, url)}",
        where=FLAG,
        hint=hint,
    )


def check_folder(url: str, file: Path) -> None:
    """Refuse a file whose folder is missing: Optuna makes none.

    Raises:
        PipelineError: if it is missing.
    """
    if not file.parent.is_dir():
        hint = f"make the folder with `mkdir -p {shlex.quote(str(file.parent))}`, or correct the path"
        raise refused(url, f"there is no folder `{file.parent}`", hint)


def _check_journal(file: Path) -> None:
    url = f"{JOURNAL}{file}"
    check_folder(url, file)
    if not file.is_file():
        return
    try:
        with file.open(encoding="utf-8") as stream:
            first = stream.readline()
        if first:
            json.loads(first)
    except (OSError, ValueError) as error:
        reason = one_line(error) if isinstance(error, OSError) else "the file is not an Optuna journal"
        raise refused(url, reason, "give another file; a file that does not exist is created") from error


def _check_database(url: str) -> None:
    try:
        if make_url(url).get_backend_name() == "sqlite":
            if (file := uris.file_of_sqlite(url)) is None:
                return
            check_folder(url, file)
            if not file.is_file() or not file.stat().st_size:
                return  # and connecting would make it
        with create_engine(url, poolclass=NullPool).connect() as connection:
            tables = set(inspect(connection).get_table_names())
        if (_STUDIES not in tables and _VERSIONS in tables) or _OF_MLFLOW in tables:
            raise refused(
                url,
                f"it is the database of another program: its tables are {', '.join(sorted(tables)[:3])}, ...",
                "name a database that only Optuna uses, or a file that does not exist yet",
            )
    except NoSuchModuleError as error:
        scheme = url.partition("://")[0]
        usual = tracking_address.usual_name(scheme.partition("+")[0].lower())
        hint = f"did you mean `{usual}://`?" if usual else f"give it as {_FORMS}"
        raise refused(url, f"unknown kind of database `{scheme}`", hint) from error
    except (SQLAlchemyError, ImportError, ValueError) as error:
        raise refused(url, one_line(error)) from error

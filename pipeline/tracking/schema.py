"""The version of the tables in an MLflow database: another one than ours is refused, and never migrated.

MLflow itself migrates an older database without being asked, also when it is only read; the owner's own
MLflow cannot open it any more. The version is read before MLflow sees the database, and nothing is written.
"""

import contextlib
import importlib.util
import shlex
import sqlite3
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from pipeline.base import uris
from pipeline.base.errors import PipelineError

_VERSIONS, _OWN = "alembic_version", "experiments"
"""Table that names the version, and one that every MLflow database has."""
_SERVERS = ("postgresql", "mysql", "mssql")


def refuse_another_schema(uri: str, *, may_be_empty: bool = True) -> None:
    """See whether the installed MLflow can use a database as it is.

    Args:
        uri: where MLflow tracks, with its password; nothing is asked of a server.
        may_be_empty: whether MLflow may make its tables in a database without any.

    Raises:
        PipelineError: if the database belongs to an older or newer MLflow or another program, or is empty.
    """
    found = _found(uri)
    if found is None:
        return
    tables, revision = found
    shown = uris.without_password(uri)
    if not tables - {_VERSIONS}:
        if may_be_empty:
            return
        raise PipelineError(
            f"nothing was tracked in `{shown}` yet: the database is empty",
            hint="name the store with `--tracking-uri`, or the folder of results with `--storage`",
        )
    if _OWN not in tables:
        raise PipelineError(
            f"expected an MLflow database, but `{shown}` has other tables: {', '.join(sorted(tables)[:3])}",
            hint="name another database with `--tracking-uri`",
        )
    script = _migrations()
    if revision == script.get_current_head():
        return
    installed = version("mlflow")
    if revision is None or revision in {one.revision for one in script.walk_revisions()}:
        raise PipelineError(
            f"`{shown}` was written by an older MLflow (schema {revision or 'from before 1.0'}). MLflow "
            f"{installed} can use it only after an upgrade, and the older MLflow could then no longer open "
            "it",
            hint=_use_a_copy(uri),
        )
    raise PipelineError(
        f"`{shown}` belongs to a newer MLflow (its schema is {revision}); "
        f"MLflow {installed} here is older and cannot use it",
        hint="install the MLflow version that wrote the database, or give another `--tracking-uri`",
    )


def _use_a_copy(uri: str) -> str:
    """How to use an older database without taking it from those who use it as it is."""
    file = uris.file_of_sqlite(uri)
    if file is None:
        return (
            "copy the database (dump and restore), upgrade the copy with `mlflow db upgrade` and name the "
            "copy with `--tracking-uri`; or ask the owner to upgrade the database"
        )
    copy = Path(f"{file.stem}-copy{file.suffix}")
    log, copied_log = (one.with_name(f"{one.name}-wal") for one in (file, copy))
    commands = [["cp", str(file), str(copy)]]
    commands += [["cp", str(log), str(copied_log)]] if log.exists() else []
    commands += [["mlflow", "db", "upgrade", f"sqlite:///{copy}"]]
    return (
        f"upgrade a copy: `{' && '.join(map(shlex.join, commands))}`; then name the copy: "
        f"`{shlex.join(['--tracking-uri', f'sqlite:///{copy}'])}`"
    )


def _migrations() -> ScriptDirectory:
    """The migrations of the installed MLflow, without importing it."""
    found = importlib.util.find_spec("mlflow")
    if found is None or found.origin is None:
        raise PipelineError("MLflow is not installed", hint="`make setup` installs it")
    return ScriptDirectory(str(Path(found.origin).parent / "store" / "db_migrations"))


def _found(uri: str) -> tuple[set[str], str | None] | None:
    """The tables of a database and its version; None where there is none, or nobody can read it.

    What cannot be read is left to MLflow, which says why.
    """
    if uri.startswith("sqlite"):
        file = uris.file_of_sqlite(uri)
        if file is None or not file.is_file():
            return None
        with contextlib.suppress(sqlite3.Error):
            return _found_in_file(file)
        return None
    if not uri.startswith(_SERVERS):
        return None
    try:
        return _found_on_server(uri)
    except (SQLAlchemyError, ImportError) as error:
        reason = getattr(error, "orig", None) or error
        raise PipelineError(
            f"cannot use the tracking store `{uris.without_password(uri)}`: "
            f"{uris.without_password_of(' '.join(str(reason).split()), uri)}",
            hint="check `--tracking-uri`: that the database exists, user and password are right, and "
            "the driver is installed",
        ) from error


def _found_in_file(file: Path) -> tuple[set[str], str | None]:
    with contextlib.closing(_opened(file)) as database:
        names = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        tables = {str(name) for (name,) in names}
        if _VERSIONS not in tables:
            return tables, None
        row = database.execute(f"SELECT version_num FROM {_VERSIONS}").fetchone()
    return tables, str(row[0]) if row else None


def _opened(file: Path) -> sqlite3.Connection:
    """A database that is only read: not even a lock is taken, or a file made beside it."""
    # what is in a write-ahead log is read only where SQLite may open it
    has_log = file.with_name(f"{file.name}-wal").exists()
    mode = "mode=ro" if has_log else "mode=ro&immutable=1"
    return sqlite3.connect(f"file:{quote(str(file.absolute()))}?{mode}", uri=True)


def _found_on_server(uri: str) -> tuple[set[str], str | None]:
    with create_engine(uri, poolclass=NullPool).connect() as connection:
        tables = set(inspect(connection).get_table_names())
        version_of_tables = text(f"SELECT version_num FROM {_VERSIONS}")
        return tables, connection.scalar(version_of_tables) if _VERSIONS in tables else None

"""Tell MLflow's database where artifacts are, after a folder of results was moved or copied.

python -m pipeline.relocate --storage DIR

The database has their paths from the root. The commands here find artifacts beside it by themselves;
`mlflow ui` and `mlflow models serve` need the paths to be right.
"""

import argparse
import contextlib
import sqlite3
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pipeline.base import moved, uris
from pipeline.base.errors import PipelineError, run_command
from pipeline.training import settings

_COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
"""Table and column of every path of artifacts that MLflow has."""


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.relocate`."""
    parser = settings.parser(
        "pipeline.relocate", "Tell MLflow's database where artifacts are, after a folder was moved or copied."
    )
    parser.add_argument("--sample", action="store_true", help="the results are of the sample corpus")
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")
    settings.add_storage_arguments(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    uri = settings.tracking_uri(given.tracking_uri, settings.storage(given.storage, given.sample))
    print(relocate(_database(uri), dry_run=given.dry_run))
    return 0


def _database(uri: str) -> Path:
    """The file of a database that this MLflow can use.

    Raises:
        PipelineError: if it is none, or is not there.
    """
    file = uris.file_of_sqlite(uri)
    if file is None:
        raise PipelineError(
            f"expected `sqlite:///FILE`, but got `{uris.without_password(uri)}`",
            where="--tracking-uri",
            hint="a server keeps the places of its artifacts itself",
        )
    if not file.is_file():
        raise PipelineError(
            f"there is no tracking database `{file}`",
            hint="name the folder of results with `--storage`, or the database with `--tracking-uri`",
        )
    from pipeline.tracking.schema import refuse_another_schema  # SQLAlchemy takes a moment

    refuse_another_schema(uri)
    return file


def relocate(database: Path, *, dry_run: bool = False) -> str:
    """Write the present paths of artifacts into a database, all of them or none.

    Args:
        database: of MLflow; the artifacts are in the folder `artifacts` beside it.
        dry_run: change nothing.

    Returns:
        What was changed, in words.

    Raises:
        PipelineError: if the database cannot be changed.
    """
    root = database.resolve().parent / moved.ARTIFACTS
    try:
        with contextlib.closing(sqlite3.connect(database)) as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            changes = _changes(connection, root)
            for (table, column, old), new in changes.items() if not dry_run else ():
                connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} = ?", (new, old))
    except sqlite3.Error as error:
        raise PipelineError(
            f"cannot change the database: {error}",
            where=str(database),
            hint="does a command use it just now?",
        ) from error
    if not changes:
        return f"nothing to change: every path of artifacts in {database} that is known to be here is right"
    counts = Counter(table for table, _, _ in changes)
    listed = ", ".join(f"{number} of {table}" for table, number in counts.items())
    said = "would be changed" if dry_run else "were changed"
    return f"{len(changes)} paths of artifacts {said} ({listed}); they begin with {root.as_uri()} now"


def _changes(connection: sqlite3.Connection, root: Path) -> dict[tuple[str, str, str], str]:
    """Table, column and path as the database has it -> the path as it is now."""
    found = [
        (table, column, str(value))
        for table, column in _COLUMNS
        for (value,) in connection.execute(f"SELECT DISTINCT {column} FROM {table}")
        if value
    ]
    origins = {moved.origin(location, root) for _, _, location in found} - {None}
    changes = {}
    for table, column, location in found:
        stored = moved.path_of(location)
        for origin in origins:
            if origin is not None and stored is not None and stored.is_relative_to(origin):
                changes[table, column, location] = (root / stored.relative_to(origin)).as_uri()
    return changes


if __name__ == "__main__":
    sys.exit(run_command(main))

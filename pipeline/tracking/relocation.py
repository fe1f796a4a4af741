"""The paths of artifacts that MLflow's database has, after a folder of results was moved or copied."""

import contextlib
import sqlite3
from collections import Counter
from pathlib import Path

from pipeline.base import moved
from pipeline.base.errors import PipelineError

COLUMNS = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
"""Table and column of every path of artifacts that MLflow has."""


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
            hint="check that no other program uses the database",
        ) from error
    if not changes:
        return f"nothing to change: all artifact paths in {database} that point to this machine are correct"
    counts = Counter(table for table, _, _ in changes)
    listed = ", ".join(f"{number} of {table}" for table, number in counts.items())
    said, then = ("would be", "would then begin") if dry_run else ("were", "now begin")
    return f"{len(changes)} paths of artifacts {said} changed ({listed}); they {then} with {root.as_uri()}"


def _changes(connection: sqlite3.Connection, root: Path) -> dict[tuple[str, str, str], str]:
    """Table, column and path as the database has it -> the path as it is now."""
    found = [
        (table, column, str(value))
        for table, column in COLUMNS
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

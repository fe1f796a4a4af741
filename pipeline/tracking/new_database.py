"""A new database of MLflow's, made whole or not at all."""

import os
from collections.abc import Callable
from pathlib import Path


def make(path: Path, create: Callable[[Path], None]) -> None:
    """Make a tracking database with all its tables, where there is none or an empty file.

    MLflow makes its tables by dozens of migrations, each for itself, and refuses a file in which one was
    broken off. So they are made in another file, which then gets the name: a process that is killed meanwhile
    leaves nothing in the way. Only one process may do this at a time.

    Args:
        create: makes it, in the file that it is given.
    """
    if path.is_file() and path.stat().st_size:
        return
    path = path.resolve()  # a link to where there is nothing yet stays one
    staged = path.with_name(f".{path.name}.new")
    _remove(staged)  # of a process that was killed
    try:
        create(staged)
        os.replace(staged, path)
    finally:
        _remove(staged)


def _remove(staged: Path) -> None:
    """Remove a database and what SQLite keeps beside it."""
    for file in (staged, *(staged.with_name(f"{staged.name}-{kind}") for kind in ("journal", "wal", "shm"))):
        file.unlink(missing_ok=True)

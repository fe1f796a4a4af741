"""Artifacts of a folder of results that was moved: MLflow's database has their paths from the root."""

import functools
import logging
import shlex
import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit

logger = logging.getLogger("pipeline.base.moved")

ARTIFACTS = "artifacts"
"""Folder of all artifacts, beside an SQLite database."""


def relocated(location: str, root: Path | None) -> Path | None:
    """Where artifacts are now, if their folder was moved or copied together with the database.

    Args:
        location: path or `file:` URI that the database has.
        root: folder of all artifacts, beside the database; None: the store is a server.

    Returns:
        The place below `root`; None where the stored one holds.
    """
    stored = path_of(location)
    if root is None or stored is None:
        return None
    root = root.resolve()
    before = origin(location, root)
    if before is None:
        return None
    here = root / stored.relative_to(before)
    if stored.exists() and not here.exists():
        return None
    _tell(before, root)
    return here


def origin(location: str, root: Path) -> Path | None:
    """The folder of all artifacts as a stored location has it, where that is another one than `root`.

    Args:
        location: path or `file:` URI that the database has.
        root: folder of all artifacts, beside the database.

    Returns:
        None where the location is right, or not of these results.
    """
    stored = path_of(location)
    if stored is None or not stored.is_absolute():
        return None
    parts = stored.parts
    for i, part in enumerate(parts[:-1]):
        before = Path(*parts[: i + 1])
        if part == root.name and (root / parts[i + 1]).is_dir() and before.resolve() != root.resolve():
            return before
    return None


@functools.cache
def _tell(before: Path, root: Path) -> None:
    """Say once what MLflow's own commands need to find what was moved."""
    logger.warning(
        "note: these results were moved or copied here from %s; before you use `mlflow ui` or `mlflow models "
        "serve`, run `python -m pipeline.relocate --storage %s`",
        *(before.parent, shlex.quote(str(root.parent))),
    )


def path_of(location: str) -> Path | None:
    """The path of a `file:` URI, or of a path; None where it is on a server."""
    scheme = urlsplit(location).scheme
    if scheme not in ("", "file"):
        return None
    return Path(unquote(urlsplit(location).path) if scheme else location)


def store(content: str | Path, target: Path) -> None:
    """Write a text, or copy a file or a folder, to a path."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, str):
        target.write_text(content, encoding="utf-8")
    elif content.is_dir():
        shutil.copytree(content, target, dirs_exist_ok=True)
    else:
        shutil.copyfile(content, target)

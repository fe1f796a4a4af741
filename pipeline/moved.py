"""Artifacts of a folder of results that was moved: MLflow's database has their paths from the root."""

import shutil
from pathlib import Path
from urllib.parse import unquote, urlsplit


def relocated(location: str, root: Path | None) -> Path | None:
    """Where artifacts are now, if their folder was moved together with the database.

    Args:
        location: path or `file:` URI that the database has.
        root: folder of all artifacts, beside the database; None: the store is a server.

    Returns:
        The place below `root`; None where the stored one holds.
    """
    stored = path_of(location)
    if root is None or stored is None or not stored.is_absolute() or stored.exists():
        return None
    root = root.resolve()
    parts = stored.parts
    for i, part in enumerate(parts[:-1]):
        if part == root.name and (root / parts[i + 1]).is_dir() and Path(*parts[: i + 1]).resolve() != root:
            return root.joinpath(*parts[i + 1 :])
    return None


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

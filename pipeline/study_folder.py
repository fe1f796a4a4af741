"""The folder of a study belongs to one process at a time."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import filelock

from pipeline.errors import PipelineError
from pipeline.settings import make_folder

TUNE = "tune"
"""Tune's experiment in a study's folder: where it is, there is something to resume."""
_LOCK = ".lock"


@contextlib.contextmanager
def claimed(directory: Path, *, resume: bool) -> Iterator[None]:
    """Keep a study's folder for this process; a new one in which nothing was trained is removed at the end.

    A process that dies gives its claim up, so a study that was killed can be resumed at once.

    Args:
        directory: the study's folder.
        resume: it is there already.

    Raises:
        PipelineError: if a study of that name was trained before, or another process has it.
    """
    if not resume and (directory / TUNE).exists():
        raise PipelineError(
            f"there is a study `{directory.name}` already",
            where="--name",
            hint="choose another name, or add `--resume`",
        )
    make_folder(directory, "--storage")
    lock = filelock.FileLock(directory / _LOCK)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout as error:
        raise PipelineError(
            f"another process is running the study `{directory.name}`",
            where="--name",
            hint="choose another name, or wait until it has ended",
        ) from error
    except OSError as error:
        raise PipelineError(
            f"cannot write to the folder `{directory}`: {error.strerror}",
            where="--storage",
            hint="name a folder of your own",
        ) from error
    try:
        yield
    finally:
        lock.release()
        if not resume and not (directory / TUNE).exists():
            shutil.rmtree(directory, ignore_errors=True)
            with contextlib.suppress(OSError):  # others may have results there
                for above in (directory.parent, directory.parent.parent):
                    above.rmdir()

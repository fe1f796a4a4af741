"""A disk of a few MiB, which fills: a file system in memory, where one may be mounted."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

IMPOSSIBLE = "needs a file system in memory, which only root can mount, outside most containers"


class NoDisk(RuntimeError):  # noqa: N818 - a state of the machine
    """Nothing can be mounted here."""


class SmallDisk:
    """A mounted one.

    Args:
        folder: where it is mounted.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def resize(self, size: int) -> None:
        """Give it another size, in bytes."""
        _mount("-o", f"remount,size={size}", str(self.folder))

    def fill(self, left: int = 0) -> Path:
        """Fill it with one file, up to so many free bytes; returns the file."""
        path = self.folder / "filler"
        state = os.statvfs(self.folder)
        with contextlib.suppress(OSError), path.open("wb") as file:
            for _ in range(max(0, state.f_bavail - left // state.f_bsize)):
                file.write(bytes(state.f_bsize))
        return path


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[SmallDisk]:
    """Mount one; what is on it is gone at the end.

    Raises:
        NoDisk: if it cannot be mounted.
    """
    folder.mkdir(parents=True)
    _mount("-t", "tmpfs", "-o", f"size={size}", "infocal-faults", str(folder))
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True, capture_output=True)


def _mount(*arguments: str) -> None:
    try:
        subprocess.run(["mount", *arguments], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        said = getattr(error, "stderr", "") or error
        raise NoDisk(f"{IMPOSSIBLE}: {said}".strip()) from error

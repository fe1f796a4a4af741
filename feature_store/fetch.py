"""Downloads raw files from the addresses that the papers name.

A file goes to a hidden folder first and gets its name only when it is whole: its digest agrees where one is
known, and a .gz decompresses to its end. A file that has its name is finished and never fetched again. Of an
archive the files that are wanted are unpacked in the same way, and nothing else is kept.
"""

import gzip
import logging
import lzma
import shutil
import struct
import tempfile
import zipfile
import zlib
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import pooch
import requests

from feature_store.cache import publish
from feature_store.errors import FetchError
from feature_store.fingerprint import file_digest
from feature_store.sources.base import MAX_INPUT_BYTES, RemoteFile, Source

logger = logging.getLogger("feature_store")

CONNECT_TIMEOUT_S = 10
TIMEOUT_S = 30
"""Longest wait for a server's next bytes."""

_BLOCK_BYTES = 1 << 20
_BROKEN = (
    *(OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, struct.error),
    RuntimeError,  # zipfile's word for an archive with a password, or packed in a way that it cannot read
)
"""What a download that is not what it should be makes the readers of its format raise."""


def fetch(
    source: Source, aspect: str | None, data_dir: Path, *, max_bytes: int = MAX_INPUT_BYTES
) -> list[Path]:
    """Download what is missing of a data set's raw files into `data_dir/FOLDER/`.

    Args:
        aspect: leave out the files that only other aspects need; None takes all.
        max_bytes: most bytes to accept of a file, after decompression.

    Returns:
        The files that are there now.

    Raises:
        FetchError: if a file that is needed cannot be had (names address and place of each), or if one that
            is there is not the official one.
    """
    wanted = [file for file in source.remote_files if aspect is None or file.aspect in (None, aspect)]
    present: list[Path] = []
    failed: dict[RemoteFile, str] = {}
    dead_hosts: dict[str, str] = {}
    for file in wanted:
        folder = data_dir / (file.folder or source.name)
        found = _finished(file, folder)
        host = urlsplit(file.url).netloc
        if not found and host in dead_hosts:
            failed[file] = dead_hosts[host]
        elif not found:
            try:
                found = _download(file, folder, max_bytes)
            except requests.ConnectionError:
                failed[file] = dead_hosts[host] = f"{host} cannot be reached"
            except _BROKEN as error:
                failed[file] = _reason(error)
        present += found
    _report(failed, data_dir, source.name)
    return present


def _finished(file: RemoteFile, folder: Path) -> list[Path]:
    """The file under its own name, or the same without .gz, or all files of an archive; else nothing."""
    if file.members:
        unpacked = [folder / member for member in file.members]
        return unpacked if all(path.is_file() for path in unpacked) else []
    path, plain = folder / file.name, folder / file.name.removesuffix(".gz")
    if path.is_file():
        if file.sha256 is not None and file_digest(path) != file.sha256:
            raise FetchError(
                f"this is not the official file, whose sha256 starts with {file.sha256[:12]}",
                where=str(path),
                hint="move the file away and fetch again; or keep it, and `build` reads it unchanged",
            )
        logger.info("%s: already downloaded", path)
        return [path]
    return [plain] if plain.is_file() else []


def _download(file: RemoteFile, folder: Path, max_bytes: int) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(prefix=".fetching-", dir=folder))
    goal = folder / file.name
    try:
        logger.info("fetching %s", file.url)
        downloader = pooch.HTTPDownloader(timeout=(CONNECT_TIMEOUT_S, TIMEOUT_S))
        pooch.get_logger().setLevel(logging.WARNING)
        known = None if file.sha256 is None else f"sha256:{file.sha256}"
        partial = Path(pooch.retrieve(file.url, known, fname=file.name, path=staged, downloader=downloader))
        if file.name.endswith(".gz"):
            with gzip.open(partial) as stream:
                _copy(stream, None, max_bytes)
        if file.sha256 is None:
            logger.info("%s: no official digest is known; sha256 %s", goal, file_digest(partial))
        if file.members:
            return _unpack(partial, file, staged, folder, max_bytes)
        publish(partial, goal)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return [goal]


def _unpack(archive: Path, file: RemoteFile, staged: Path, folder: Path, max_bytes: int) -> list[Path]:
    """The wanted files of a zip archive, each at its path under `folder`."""
    goals = []
    with zipfile.ZipFile(archive) as unpacked:
        known = {name.removeprefix(f"{archive.stem}/"): name for name in unpacked.namelist()}
        missing = [member for member in file.members if member not in known]
        if missing:
            raise ValueError(f"the archive has no `{missing[0]}`")
        for member in file.members:
            part, goal = staged / Path(member).name, folder / member
            with unpacked.open(known[member]) as source, part.open("wb") as sink:
                _copy(source, sink, max_bytes)
            goal.parent.mkdir(parents=True, exist_ok=True)
            publish(part, goal)
            goals.append(goal)
    return goals


def _copy(source: IO[bytes] | gzip.GzipFile, sink: IO[bytes] | None, max_bytes: int) -> None:
    """Decompress to the end, which checks that all is there, and write it where there is a sink."""
    total = 0
    while block := source.read(_BLOCK_BYTES):
        total += len(block)
        if total > max_bytes:
            raise ValueError(f"expected at most {max_bytes} bytes after decompression, but there are more")
        if sink is not None:
            sink.write(block)


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__


def _report(failed: dict[RemoteFile, str], data_dir: Path, name: str) -> None:
    for file, reason in failed.items():
        logger.warning("%s: not fetched (%s)", file.url, reason)
    needed = [file for file in failed if not file.optional]
    if needed:
        places = "".join(
            f"\n  {data_dir / (file.folder or name) / part}  from {file.url}"
            for file in needed
            for part in file.members or (file.name,)
        )
        names = ", ".join(f"`{file.name}`" for file in needed)
        raise FetchError(
            f"could not download {names}: {failed[needed[0]]}",
            where=str(data_dir),
            hint=f"place these files by hand, then build with `--data-dir {data_dir}`:{places}",
        )

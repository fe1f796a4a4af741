"""Files that are either whole or not there: atomic writes, locks, manifests, memory maps.

Everything a build makes is written to a staging folder beside its goal, flushed to the disk and renamed, so
that a killed process leaves no half-written file under a name that anyone reads.

What opening checks: the manifest agrees with its own digest, every file it lists is there with its size, and
every Arrow file's footer and record batch headers can be read. That takes milliseconds and finds a file that
is cut short, missing or overwritten. It does not read the data: a flipped bit inside a column is found by
`verify_files` (`python -m feature_store verify`, or `open_features(..., verify=True)`, as each search and
training does), which computes every digest. docs/robustness.md has the table.
"""

import hashlib
import json
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from feature_store.errors import CacheError, DamagedCacheError, reason
from feature_store.fingerprint import FORMAT, file_digest, files_below, folder_digest

logger = logging.getLogger("feature_store")

MANIFEST = "manifest.json"
_SEAL = "manifest_sha256"
_SHA256 = re.compile(r"[0-9a-f]{64}")
_RACY_NS = 2_000_000_000
"""A file changed this recently may change again without its time stamp showing it."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What a built folder holds; written last, so that a folder without one is not finished."""

    fingerprint: str
    files: dict[str, dict[str, Any]]
    """File name -> `size` in bytes and `sha256`."""

    meta: dict[str, Any] = field(default_factory=dict)
    format: int = FORMAT


def describe_files(folder: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """Size and digest of each file, for a manifest."""
    return {n: {"size": (folder / n).stat().st_size, "sha256": file_digest(folder / n)} for n in names}


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write a manifest atomically."""
    write_text(path, sealed(asdict(manifest)))


def sealed(manifest: Mapping[str, Any]) -> str:
    """Text of a manifest with a digest of its own: no other file has that of this one."""
    values = {name: value for name, value in manifest.items() if name != _SEAL}
    return json.dumps(values | {_SEAL: _seal_of(values)}, indent=1, sort_keys=True, allow_nan=False)


def _seal_of(values: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(values, sort_keys=True, allow_nan=False).encode()).hexdigest()


def read_manifest(path: Path) -> Manifest:
    """Read a manifest and check that the files it lists are there with their sizes.

    Raises:
        DamagedCacheError: if the manifest or a file is missing, cut short or not as written.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        seal = values.pop(_SEAL, None)
        manifest = Manifest(**values)
        listed = {str(name): int(entry["size"]) for name, entry in manifest.files.items()}
        expected_seal = _seal_of(values)
    except FileNotFoundError as error:
        raise DamagedCacheError("no manifest", where=str(path)) from error
    except (
        OSError,
        ValueError,
        TypeError,
        LookupError,
        ArithmeticError,
        AttributeError,
        RecursionError,
    ) as error:
        raise DamagedCacheError(f"the manifest cannot be read ({error})", where=str(path)) from error
    if manifest.format != FORMAT:
        raise DamagedCacheError(f"expected format {FORMAT}, but got {manifest.format}", where=str(path))
    if seal != expected_seal:
        raise DamagedCacheError(
            f"the manifest differs from its own sha256: expected {expected_seal}, but got {seal}",
            where=str(path),
        )
    for name, size in listed.items():
        file = path.parent / name
        if Path(name).name != name:
            raise DamagedCacheError(
                f"the manifest names `{name}`, which is outside the folder", where=str(path)
            )
        if not file.is_file():
            raise DamagedCacheError("the file is missing", where=str(file))
        if file.stat().st_size != size:
            raise DamagedCacheError(f"expected {size} bytes, but got {file.stat().st_size}", where=str(file))
    return manifest


def verify_files(folder: Path, manifest: Manifest) -> None:
    """Compare the digest of every file with the manifest; reads everything.

    Raises:
        DamagedCacheError: at the first file that differs.
    """
    for name, entry in manifest.files.items():
        try:
            found = file_digest(folder / name)
        except OSError as error:  # a disk that fails says so here
            raise DamagedCacheError(f"cannot be read: {error.strerror}", where=str(folder / name)) from error
        if found != (expected := entry.get("sha256")):
            raise DamagedCacheError(
                f"the content differs from its sha256 in the manifest: expected {expected}, but got {found}",
                where=str(folder / name),
            )


def open_table(path: Path) -> pa.Table:
    """Memory-map an Arrow IPC file; no column is read or copied.

    Raises:
        DamagedCacheError: if the footer or a record batch's header cannot be read.
    """
    try:
        with pa.memory_map(str(path)) as source:
            return pa.ipc.open_file(source).read_all()
    except (pa.ArrowException, OSError, MemoryError) as error:
        raise DamagedCacheError(f"not a readable Arrow file ({reason(error)})", where=str(path)) from error


def as_numpy(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Numbers of a column without nulls; a view, read-only, where the column has one chunk.

    Not `to_numpy`, which imports pandas: a third of a second in each worker.
    """
    if isinstance(column, pa.ChunkedArray):
        # combine_chunks copies even where there is nothing to combine
        column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    view: npt.NDArray[Any] = np.from_dlpack(column)
    return view


def as_arrow(values: npt.NDArray[Any]) -> pa.Array:
    """Numbers as an Arrow column; `pa.array` would import pandas."""
    kept = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(kept.dtype), len(kept), [None, pa.py_buffer(kept)])


def write_table(path: Path, table: pa.Table) -> None:
    """Write an Arrow IPC file, not atomically: for use inside a staging folder."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def write_text(path: Path, text: str) -> None:
    """Write a small text file atomically."""
    partial = _staging_name(path)
    try:
        partial.write_text(text, encoding="utf-8")
        publish(partial, path)
    finally:
        partial.unlink(missing_ok=True)


def publish(staged: Path, goal: Path) -> None:
    """Flush a staged file or folder to the disk and rename it to its goal; what stood there is removed."""
    if staged.is_dir():
        for file in sorted(staged.rglob("*")):
            _fsync(file)
    _fsync(staged)
    if goal.is_dir() or (goal.exists() and staged.is_dir()):
        _discard(goal)
    os.replace(staged, goal)
    _fsync(goal.parent)


def _discard(left: Path) -> None:
    """Remove a folder, or a file in its place, under another name; who has mapped its files keeps them."""
    aside = _staging_name(left)
    os.replace(left, aside)
    shutil.rmtree(aside) if aside.is_dir() else aside.unlink()


def _staging_name(goal: Path) -> Path:
    return goal.with_name(f".{goal.name}.staging-{secrets.token_hex(4)}")


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def staging(goal: Path) -> Iterator[Path]:
    """A new folder to fill; renamed to the goal at the end, removed on an error.

    The caller holds the goal's lock, so staging folders that are still there belong to processes that died.

    Raises:
        CacheError: if the folder cannot be written to (no permission, disk full).
    """
    folder = _staging_name(goal)
    try:
        goal.parent.mkdir(parents=True, exist_ok=True)
        for left in goal.parent.glob(f".{goal.name}.staging-*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        folder.mkdir()
        yield folder
        publish(folder, goal)
    except OSError as error:
        raise CacheError(
            f"cannot write to the cache: {error.strerror or error}",
            where=str(error.filename or goal.parent),
            hint="name another folder with `--cache-dir`",
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def locked(cache_dir: Path, name: str) -> Iterator[None]:
    """Hold the lock of one cache entry; says so when it has to wait for another process.

    Raises:
        CacheError: if the lock file cannot be made.
    """
    path = cache_dir / "locks" / f"{name}.lock"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path)
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            logger.info("another process is building %s: waiting for it", name)
            lock.acquire()
    except OSError as error:
        raise CacheError(
            f"cannot make a lock file: {error.strerror or error}",
            where=str(path),
            hint="name another folder with `--cache-dir`",
        ) from error
    try:
        yield
    finally:
        lock.release()


def _stamp(path: Path) -> tuple[list[int] | str, int]:
    """Size and time of change, of a folder a digest of those of its files; and the latest time of change."""
    if not path.is_dir():
        stat = path.stat()
        return [stat.st_size, stat.st_mtime_ns], stat.st_mtime_ns
    stamps = {name: _stamp(file) for name, file in files_below(path).items()}
    latest = max((changed_ns for _, changed_ns in stamps.values()), default=0)
    return hashlib.sha256(json.dumps(stamps).encode()).hexdigest(), latest


class DigestBook:
    """Digests of raw files, remembered by path, size and time of change: gigabytes are hashed once."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._known: dict[str, Any] = dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, RecursionError):
            self._known = {}  # only a shortcut: what is missing is computed again

    def digest(self, file: Path) -> str:
        """SHA-256 of a file's content, or of the names and contents of all files of a folder."""
        stamp, changed_ns = _stamp(file)
        name = str(file.resolve())
        known = self._known.get(name)
        if isinstance(known, dict) and known.get("stamp") == stamp:
            digest = known.get("sha256")
            if isinstance(digest, str) and _SHA256.fullmatch(digest):
                return digest
        digest = folder_digest(file) if file.is_dir() else file_digest(file)
        if time.time_ns() - changed_ns > _RACY_NS:
            self._known[name] = {"stamp": stamp, "sha256": digest}
            self._save()
        return digest

    def _save(self) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            write_text(self._path, json.dumps(self._known, indent=1, sort_keys=True))
        except OSError as error:
            logger.warning("%s: the SHA-256 of files cannot be stored: %s", self._path, error)

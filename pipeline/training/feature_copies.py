"""Features on machines that share no disk: sent to a URI once, fetched once by each node.

A copy lies at `STORAGE/features/NAME-CONTENT`, CONTENT being the digest of its index, which lists the digest
of every file. So equal copies have one name, whoever sends them, and other bytes have another one. The index
is written last: a copy without one is not finished, and nobody reads it.
"""

import hashlib
import json
import logging
import socket
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from feature_store import cache
from feature_store.command_line import cache_folder
from feature_store.errors import DamagedCacheError
from feature_store.store import Features, load_features
from pipeline.base.errors import PipelineError, one_line
from pipeline.base.storage import Location, Storage
from pipeline.base.stored_files import BROKEN
from pipeline.training import settings

logger = logging.getLogger("pipeline.training.feature_copies")

FOLDER, INDEX = "features", "copy.json"
_NUM_DIGITS = 32
"""Of the index's SHA-256 in a copy's name."""
_NUM_TRIES = 2
"""Downloads of a file whose digest is wrong."""


def send(features: Features, derived: Sequence[Path], storage: Location) -> Location:
    """Copy built features to the storage, where they are not there yet.

    Args:
        derived: folders of the derived tables that go along.

    Raises:
        DamagedCacheError: if a file is not what its manifest says.
        PipelineError: if the storage cannot be written to.
    """
    files = _contents(features, derived)
    document = json.dumps({"files": files}, indent=1, sort_keys=True).encode()
    digest = hashlib.sha256(document).hexdigest()[:_NUM_DIGITS]
    copy = storage / FOLDER / f"{features.directory.name}-{digest}"
    if (copy / INDEX).exists():
        logger.info("the features are already in %s", copy)
        return copy
    size = sum(entry["size"] for entry in files.values())
    logger.info("sending %.1f MB of features to %s", size / 1e6, copy)
    for name, entry in files.items():
        sent = (copy / name).upload(features.directory / name)
        if sent != entry["sha256"]:
            raise DamagedCacheError(
                f"the content differs from its sha256 in the manifest: expected {entry['sha256']}, "
                f"but got {sent}",
                where=str(features.directory / name),
                hint="remove the folder; the features are then built again",
            )
    (copy / INDEX).write(document)
    return copy


def place(storage: Location, uri: str) -> Location:
    """Where the copy that a URI names lies in a storage."""
    return storage / FOLDER / _name(uri)


def _name(uri: str) -> str:
    return PurePosixPath(urlsplit(uri).path).name


def _contents(features: Features, derived: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Size and digest of every file that is sent, by its path below the features' folder."""
    files = cache.describe_files(features.directory, [cache.MANIFEST]) | features.manifest.files
    for folder in derived:
        below = folder.relative_to(features.directory).as_posix()
        tables = cache.read_manifest(folder / cache.MANIFEST).files
        described = cache.describe_files(folder, [cache.MANIFEST]) | tables
        files |= {f"{below}/{name}": entry for name, entry in described.items()}
    return dict(sorted(files.items()))


def fetched(uri: str, cache_dir: Path) -> Path:
    """The folder of a copy on this machine; downloaded by the first process that asks, the others wait.

    Raises:
        PipelineError: if the copy cannot be read, or a file is not what the index says.
        CacheError: if the cache cannot be written to.
    """
    name = _name(uri)
    goal = cache_dir / FOLDER / name
    if not _is_whole(goal):
        with cache.locked(cache_dir, name):
            if not _is_whole(goal):  # another process may have fetched it while we waited
                source = Storage(uri).opened()
                logger.info("fetching features from %s", source)
                with cache.staging(goal) as stage:
                    _fetch(source, stage)
    return goal


def _is_whole(folder: Path) -> bool:
    try:
        files = json.loads((folder / INDEX).read_bytes())["files"]
        return all((folder / name).stat().st_size == entry["size"] for name, entry in files.items())
    except BROKEN:  # it is fetched again
        return False


def _fetch(source: Location, stage: Path) -> None:
    digest = PurePosixPath(source.path).name.rpartition("-")[2]
    _fetch_file(source / INDEX, stage / INDEX, digest)
    try:
        files = json.loads((stage / INDEX).read_bytes())["files"]
        digests = {PurePosixPath(name): str(entry["sha256"]) for name, entry in files.items()}
    except BROKEN as error:
        raise PipelineError(
            f"expected the index of a copy, but the content does not match ({one_line(error)})",
            where=str(source / INDEX),
        ) from error
    for name, digest in digests.items():
        if name.is_absolute() or ".." in name.parts or not name.parts:
            raise PipelineError(
                f"the copy's index names `{name}`, which is outside the folder", where=str(source)
            )
        _fetch_file(source / str(name), stage / name, digest)


def _fetch_file(source: Location, target: Path, digest: str) -> None:
    for _ in range(_NUM_TRIES):
        found = source.download(target)
        if found.startswith(digest):
            return
        logger.warning("%s: expected sha256 %s, but got %s", source, digest, found)
    raise PipelineError(
        f"expected a file with sha256 {digest}, but got one with {found}",
        where=str(source),
        hint="the copy is damaged: remove its folder, and the next search sends it again",
    )


def features_of(run: settings.RunSettings, *, verify: bool = False) -> Features:
    """The features of a run on the machine that trains.

    Args:
        verify: compare every file with its digest.

    Raises:
        PipelineError: if they are not on this machine, or cannot be fetched.
        DamagedCacheError: if they cannot be read.
    """
    return features_at(run.features_dir, run.features_uri, verify=verify)


def features_at(folder: str, uri: str, *, verify: bool = False) -> Features:
    """The same, of a folder or, where it is not empty, of a URI."""
    if uri:
        return load_features(fetched(uri, cache_folder(None)), verify=verify)
    directory = Path(folder)
    if not directory.is_dir():
        raise PipelineError(
            f"expected features in `{directory}`, but `{socket.gethostname()}` has no such folder; if the "
            "machines share no disk, give `--storage` as a URI such as s3://BUCKET/PREFIX, otherwise give "
            "`--storage` and `--cache-dir` as folders that all machines share"
        )
    return load_features(directory, verify=verify)

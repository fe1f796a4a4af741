"""Content keys of cached steps."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from feature_store.errors import BadInputError

FORMAT = 1
"""Layout of the cache; raise it when files written by older code can no longer be read."""


def fingerprint(step: str, version: int, parameters: Mapping[str, object], inputs: Sequence[str]) -> str:
    """Key of one cached step: 64 hexadecimal digits.

    Args:
        version: raise it when the transform's output changes for equal parameters.
        parameters: everything else that the output depends on, as JSON values.
        inputs: fingerprints or file digests that this step reads, in order.

    Raises:
        TypeError: if a parameter is not JSON; a silent random key would hide a cache miss.
        ValueError: if a parameter is NaN or infinite.
    """
    _refuse_other_keys(parameters)
    key = {
        "format": FORMAT,
        "step": step,
        "version": version,
        "parameters": parameters,
        "inputs": list(inputs),
    }
    text = json.dumps(key, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _refuse_other_keys(value: object) -> None:
    """JSON would write the keys 1 and "1" alike, so only text is a key."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a parameter's name must be text, but got {key!r}")
            _refuse_other_keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _refuse_other_keys(inner)


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def files_below(folder: Path) -> dict[str, Path]:
    """All files of a folder and its folders, by their path inside it, sorted by that.

    Raises:
        BadInputError: if a folder cannot be read.
    """

    def refuse(error: OSError) -> None:
        where = str(error.filename)
        raise BadInputError(f"cannot be read: {error.strerror or error}", where=where) from error

    paths = [Path(above, name) for above, _, names in os.walk(folder, onerror=refuse) for name in names]
    found = {path.relative_to(folder).as_posix(): path for path in paths if path.is_file()}
    return dict(sorted(found.items()))


def folder_digest(folder: Path) -> str:
    """SHA-256 of the names and contents of all files of a folder and its folders."""
    digests = {name: file_digest(path) for name, path in files_below(folder).items()}
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest()


def unit_interval(text: str) -> float:
    """A number in [0, 1) that depends on the text alone: the first 8 bytes of its SHA-256.

    Splits are cut by it, so that an example stays where it is when others come or go.
    """
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") / 2**64

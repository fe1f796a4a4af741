"""Writing JSON, and reading back what was stored: digests beside the files, errors that name the file."""

import contextlib
import functools
import json
import os
import pickle
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from pydantic import TypeAdapter, ValidationError
from safetensors import SafetensorError

from feature_store.errors import reason
from feature_store.fingerprint import file_digest
from infocal.errors import StateError
from pipeline.base.errors import USER_ERRORS, PipelineError, one_line
from pipeline.base.storage import STAGED, Location

DIGESTS = "digests.json"
"""SHA-256 of the files beside it, by name."""

BROKEN = (
    *(OSError, EOFError, MemoryError, RuntimeError, LookupError, TypeError, AttributeError, ValueError),
    *(ArithmeticError, AssertionError, pickle.UnpicklingError, SafetensorError, struct.error),
)
"""What readers and constructors raise that are given other contents than they were written for."""

_P = ParamSpec("_P")
_T = TypeVar("_T")


def names_its_folder(load: Callable[Concatenate[Path, _P], _T]) -> Callable[Concatenate[Path, _P], _T]:
    """A loader whose every failure is a `StateError` that names the folder, its first argument."""

    @functools.wraps(load)
    def guarded(directory: Path, /, *args: _P.args, **keywords: _P.kwargs) -> _T:
        try:
            return load(directory, *args, **keywords)
        except USER_ERRORS as error:
            if error.where is not None and str(directory) in error.where:
                raise
            raise StateError(str(error), where=str(directory), hint=error.hint) from error
        except BROKEN as error:
            raise StateError(f"cannot be read: {one_line(error)}", where=str(directory)) from error

    return guarded


@contextlib.contextmanager
def copied(folder: Path, owner: str) -> Iterator[None]:
    """Make errors about copied files name what they are of, in place of a folder that is gone by then.

    Args:
        owner: whose they are, such as `run ID`.
    """
    try:
        yield
    except StateError as error:
        if error.where is None or not error.where.startswith(str(folder)):
            raise
        name = error.where[len(str(folder)) :].strip("/")
        raise StateError(error.message, where=f"`{name}` of {owner}", hint=error.hint) from error


def check_folder(directory: Path, what: str, hint: str) -> None:
    """Refuse a place that is no folder, or one that holds nothing with digests.

    Args:
        what: that was expected there, such as `a model`.

    Raises:
        StateError: names the place.
    """
    if (directory / DIGESTS).is_file():
        return
    got = f"the folder has no file `{DIGESTS}`"
    if not directory.is_dir():
        got = "got a file" if directory.exists() else "the folder is missing"
    raise StateError(f"expected a folder with {what}, but {got}", where=str(directory), hint=hint)


def write_digests(directory: Path, names: Iterable[str]) -> None:
    """Write the digests of files beside them."""
    digests = {name: file_digest(directory / name) for name in names}
    text = json.dumps(digests, indent=1, ensure_ascii=False) + "\n"
    (directory / DIGESTS).write_text(text, encoding="utf-8")


def check_digests(directory: Path, digests: object, names: Iterable[str]) -> None:
    """Compare files with their digests.

    Args:
        digests: what should be the digest of each name.
        names: of the files that there must be.

    Raises:
        StateError: if a digest or a file is missing, or they do not agree.
    """
    wanted = list(names)
    if not isinstance(digests, Mapping) or set(digests) != set(wanted):
        raise StateError(
            f"expected a digest for each of {', '.join(wanted)}, but got {str(digests)[:200]}",
            where=str(directory / DIGESTS),
        )
    for name in wanted:
        _check_digest(directory, name, digests[name])


def check_digest(directory: Path, name: str) -> None:
    """Compare one file with the digest beside it.

    Raises:
        StateError: if the digest or the file is missing, or they do not agree.
    """
    _check_digest(directory, name, read_json(directory / DIGESTS)[name])


def _check_digest(directory: Path, name: str, expected: object) -> None:
    if not (directory / name).is_file():
        fault = "is missing"
    elif file_digest(directory / name) != expected:
        fault = f"was changed or is damaged: it does not match its sha256 {str(expected)[:64]}"
    else:
        return
    hint = "copy the whole folder again from where it was written"
    raise StateError(f"`{name}` {fault}", where=str(directory), hint=hint)


def read_settings(kind: type[_T], path: Path, what: str) -> _T:
    """A dataclass again from the JSON file that `dataclasses.asdict` of it went to.

    Args:
        kind: the dataclass; every value is checked against the type that it declares.
        what: what it holds, for messages.

    Raises:
        StateError: if it is missing, not JSON, or something else.
    """
    try:
        return TypeAdapter(kind).validate_json(path.read_bytes(), strict=True)
    except OSError as error:
        raise StateError(f"cannot read the file: {reason(error)}", where=str(path)) from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))[:100]
        fault = f"{place}: {first['msg']}" if place else first["msg"]
        is_json = first["type"] != "json_invalid"
        got = "the content does not match" if is_json else "the file is cut short or damaged"
        raise StateError(f"expected {what}, but {got} ({fault[:300]})", where=str(path)) from error


def check_name(found: str, name: str, noun: str, path: Path) -> None:
    """Refuse settings that were stored for something of another name.

    Args:
        noun: what has the name, such as `study`.

    Raises:
        StateError: if the names differ.
    """
    if found != name:
        raise StateError(
            f"expected the settings of the {noun} `{name[:100]}`, but got the settings of `{found[:100]}`",
            where=str(path),
        )


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        StateError: if it is missing or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise StateError(f"cannot read the file: {reason(error)}", where=str(path)) from error


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, readable and in the order given."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_json_whole(path: Path, value: Any) -> None:
    """The same, whole or not at all: who reads it meanwhile finds the old file."""
    temporary = path.with_name(f"{STAGED}{path.name}.{os.getpid()}")
    write_json(temporary, value)
    temporary.replace(path)


def write_page(target: Path | Location, text: str, where: str | None) -> None:
    """Write a page that somebody reads, on this machine or in a storage.

    Args:
        where: flag that named the place.

    Raises:
        PipelineError: if it cannot be written.
    """
    if not isinstance(target, Path):
        target.write(text.encode())
        return
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"cannot write `{target}`: {error.strerror}", where=where) from error

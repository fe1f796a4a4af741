"""One reader with valid files for it, and what became of it on damaged ones."""

import contextlib
import fnmatch
import shutil
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Literal

from benchmarks.fuzzing.mutations import Files, mutate
from pipeline.base.errors import USER_ERRORS

Kind = Literal["accepted", "refused", "foreign", "hang"]

CASE, OUTPUT = "case", "output"
"""Folder of the damaged files, and folder where a reader may write."""

MAX_MESSAGE = 2000
"""Characters of an error that a user can still read."""

P_SPECIAL = 0.5
"""Share of inputs that get a damage of the reader's own, where it has one."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A reader and valid files for it.

    Args:
        files: valid ones, by their path in the folder that is read.
        targets: patterns of those that are damaged.
        read: reads the folder; raises what the reader raises. May write into `folder.parent / OUTPUT`.
        special: damages all files at once, in ways that only this format knows.
        seal: makes digests agree with the damaged files again, as somebody who means harm would.
    """

    files: Files
    targets: tuple[str, ...]
    read: Callable[[Path], object]
    special: Callable[[Random, Files], Files] | None = None
    seal: Callable[[Files], Files] | None = None

    def damaged(self, random: Random) -> Files:
        """The files with some damage."""
        names = [name for name in self.files if any(fnmatch.fnmatch(name, p) for p in self.targets)]
        if self.special is not None and random.random() < P_SPECIAL:
            files = self.special(random, dict(self.files))
            if random.random() < 0.7:
                return self._sealed(random, files)
        else:
            files = dict(self.files)
        return self._sealed(random, mutate(files, names, random))

    def _sealed(self, random: Random, files: Files) -> Files:
        return self.seal(files) if self.seal is not None and random.random() < 0.5 else files


Make = Callable[[], Reader]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one input."""

    kind: Kind
    detail: str = ""
    """Traceback of a foreign error, message of a refusal."""


def attempt(reader: Reader, files: Mapping[str, bytes], work: Path) -> Outcome:
    """Let the reader read files in a folder of their own, which is removed afterwards.

    An error of our own that does not name a file of the input counts as foreign, and so does a file written
    outside the reader's output.
    """
    case = work / CASE
    try:
        for name, content in files.items():
            path = case / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        before = _listing(case)
        outcome = _read(reader, case)
        if strange := {path.name for path in work.iterdir()} - {CASE, OUTPUT}:
            return Outcome("foreign", f"files outside the output: {sorted(strange)}")
        if (after := _listing(case)) != before:
            return Outcome("foreign", f"files beside the input: {sorted(after ^ before)}")
        return outcome
    finally:
        for path in work.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _listing(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def _read(reader: Reader, case: Path) -> Outcome:
    try:
        reader.read(case)
    except USER_ERRORS as error:
        text = str(error)
        if str(case.parent) not in text:
            return Outcome("foreign", f"{type(error).__name__} names no file: {text}")
        if "\n" in text or len(text) > MAX_MESSAGE:
            return Outcome("foreign", f"{type(error).__name__} is no line that one can read: {text[:500]!r}")
        return Outcome("refused", text)
    except (Exception, RecursionError):
        with contextlib.suppress(RecursionError):
            return Outcome("foreign", traceback.format_exc(limit=-8))
        return Outcome("foreign", "RecursionError")
    return Outcome("accepted")

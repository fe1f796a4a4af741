"""What a data source has to offer."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from feature_store.errors import RequestError, did_you_mean, quoted

TaskKind = Literal["regression", "classification"]

SPLITS = ("train", "val", "val_annotated", "test")
"""`train` and `val` carry targets; `val_annotated` and `test` also carry human rationales."""

TRAINING_SPLITS = ("train", "val")
"""Splits whose texts are cut at `max_length`; the annotated ones stay whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteFile:
    """A raw file that can be downloaded."""

    name: str
    """Name under `DATA_DIR/DATASET/`."""

    url: str
    sha256: str | None = None
    """Digest of the official file, where known."""

    optional: bool = False
    """True for a file that the source can do without."""

    aspect: str | None = None
    """The aspect that alone needs this file; None where all do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """One text as a source reads it."""

    example_id: str
    split: str
    tokens: list[str]
    target: float
    """Score in [0, 1] for regression, class number for classification."""

    rationale: list[int] | None
    """Ascending positions of the human rationale's tokens; None where nobody annotated."""


@dataclass(kw_only=True, slots=True)
class Report:
    """What a source counts and wants said while it reads."""

    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)


class Source(Protocol):
    """A data set in its official file format.

    A source reads files and yields examples; it knows neither the cache nor the vocabulary.
    """

    name: str
    title: str
    aspects: tuple[str, ...]
    """Names of the targets one may ask for; empty when there is only one."""

    aliases: Mapping[str, str]
    """Other names of aspects."""

    kind: TaskKind
    class_names: tuple[str, ...] | None
    version: int
    """Raise it when the examples change for equal files."""

    sample_version: int
    """Raise it when the sample corpus changes for an equal seed."""

    remote_files: tuple[RemoteFile, ...]

    def inputs(self, data_dir: Path, aspect: str | None) -> dict[str, Path]:
        """Files to read, by role.

        Raises:
            MissingDataError: if one that is needed is not there; names the expected paths.
        """
        ...

    def examples(
        self, inputs: Mapping[str, Path], aspect: str | None, *, max_bytes: int, report: Report
    ) -> Iterator[Example]:
        """Examples of all splits, in the order of the files.

        Args:
            max_bytes: most bytes to accept from one file, after decompression.
            report: receives counts and notes.

        Raises:
            BadInputError: at the first line that breaks the format.
        """
        ...

    def write_sample(self, data_dir: Path, seed: int) -> None:
        """Write a small made-up corpus in the official format under `data_dir/name/`."""
        ...


def resolve_aspect(source: Source, aspect: str | None) -> str | None:
    """The aspect's own name, where an alias may have been given.

    Raises:
        RequestError: if the source has no such aspect, or needs one and got None.
    """
    known = quoted(source.aspects)
    if aspect is None:
        if not source.aspects:
            return None
        raise RequestError(f"dataset `{source.name}` needs an aspect: {known}", hint="add `--aspect NAME`")
    if not source.aspects:
        raise RequestError(
            f"dataset `{source.name}` has no aspects, but got `{aspect}`", hint="leave out `--aspect`"
        )
    name = source.aliases.get(aspect, aspect)
    if name not in source.aspects:
        near = did_you_mean(aspect, (*source.aspects, *source.aliases), "--aspect ")
        raise RequestError(f"no aspect `{aspect}` in dataset `{source.name}`; it has {known}", hint=near)
    return name

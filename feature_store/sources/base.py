"""What a data source has to offer."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from feature_store.errors import RequestError, did_you_mean, quoted
from feature_store.targets import SIGN, joined

if TYPE_CHECKING:
    import polars as pl

TaskKind = Literal["regression", "classification"]

SPLITS = ("train", "val", "val_annotated", "test")
"""Every split that a source may have. It has no `val_annotated` where models are chosen on its `val`,
with human rationales or without."""

POOL = "pool"
"""A further table, which an option may bring: texts for word vectors and language model alone."""

TABLES = (*SPLITS, POOL)
"""Every table that built features may have."""

UNANNOTATED = ("train", "val")
"""Splits without human rationales in a source that has `val_annotated`."""


MAX_INPUT_BYTES = 16 * 2**30
"""Most bytes accepted from one raw file after decompression; the largest official file has about 0.1 GiB."""

NO_OPTIONS: Mapping[str, str] = MappingProxyType({})

FOLDER_ROLES = ("docs",)
"""Roles of `Source.inputs` whose path may be a folder; all files in it are part of the fingerprint."""


def cut_splits(splits: Collection[str]) -> tuple[str, ...]:
    """Tables whose texts are cut at `max_length`; where models are scored they stay whole."""
    own = UNANNOTATED if "val_annotated" in splits else ("train",)
    return (*own, POOL) if POOL in splits else own


def word_splits(splits: Collection[str]) -> tuple[str, ...]:
    """Tables whose words make the vocabulary, the word vectors and the language model."""
    return ("train", POOL) if POOL in splits else ("train",)


@dataclass(frozen=True, kw_only=True, slots=True)
class RemoteFile:
    """A raw file that can be downloaded."""

    name: str
    """Name under `DATA_DIR/FOLDER/`."""

    url: str
    sha256: str | None = None
    """Digest of the official file, where known."""

    optional: bool = False
    """True for a file that the source can do without."""

    aspect: str | None = None
    """The aspect that alone needs this file; None where all do."""

    folder: str | None = None
    """The folder under `DATA_DIR/`; None for the data set's own name."""

    members: tuple[str, ...] = ()
    """For a zip archive: the files to unpack beside it, by their paths in it; the archive is not kept."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceOption:
    """A choice that a source offers besides the aspect; part of the features' fingerprint."""

    name: str
    default: str
    """Value where none is given; empty for a file that need not be there."""

    help: str
    choices: tuple[str, ...] = ()
    """The values it may take; empty for a file."""

    is_file: bool = False
    """Whether the value is the path of a file, whose content then counts, not its name."""

    for_tokenizer: bool = False
    """Whether that file changes how a free text is split, so that a model needs its content too."""

    pool_values: tuple[str, ...] = ()
    """The values with which the source gives examples of `POOL`."""

    is_later: bool = False
    """Whether features were built before there was this option: with its default they stay the same."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Query:
    """What a source is asked to read."""

    inputs: Mapping[str, Path]
    """Files by role, as `Source.inputs` found them; a file that an option names has the option's name."""

    aspect: str | None
    """The main target."""
    options: Mapping[str, str]
    """A value for each of the source's options."""

    max_bytes: int
    """Most bytes to accept from one file, after decompression."""

    digests: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 of each input, by role."""

    cache_dir: Path | None = None
    """Where a source may keep what is expensive and the same for several queries."""

    sides: tuple[str, ...] = ()
    """Names of the side targets."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TargetSpec:
    """What a target is."""

    name: str = ""
    """Empty for a main target whose name nothing depends on."""

    kind: TaskKind
    class_names: tuple[str, ...] | None = None
    """Names of the classes in the order of their numbers; None for a regression."""

    score_range: tuple[float, float] = (0.0, 1.0)
    """Lowest and highest score of a regression, as the user writes scores; targets are scaled to [0, 1]."""

    sides: tuple["TargetSpec", ...] = ()
    """Of a main target the side targets, in the order of `Query.sides`."""

    @property
    def num_classes(self) -> int | None:
        """None for a regression."""
        return None if self.class_names is None else len(self.class_names)

    @property
    def side_kinds(self) -> Mapping[str, TaskKind]:
        """Name -> kind of each side target."""
        return {side.name: side.kind for side in self.sides}


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskSpec(TargetSpec):
    """What the main target is, and all else that a source finds out before it reads the examples."""

    tokenizer: str | None = None
    """Name in `feature_store.tokenize`, where the files say it; None: the source's own."""

    num_cases: Mapping[str, int] = field(default_factory=dict)
    """Texts of each raw file by its role, where the source has counted them."""


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

    groups: tuple[str, ...] = ()
    """Groups that the text is about, for scores of each group."""

    side_targets: tuple[float, ...] = ()
    """The side targets, in the order of `Query.sides`."""


@dataclass(kw_only=True, slots=True)
class Report:
    """What a source counts and wants said while it reads."""

    counts: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    dropped: dict[str, Counter[str]] = field(default_factory=dict)
    """Examples that each filter left out of each split: reason -> split -> number, in the filters' order."""

    def drop(self, reason: str, split: str, number: int = 1) -> None:
        """Count examples that a filter leaves out, in `dropped` and in `counts`."""
        self.dropped.setdefault(reason, Counter())[split] += number
        self.counts[f"{split}_dropped"] += number


@dataclass(frozen=True, kw_only=True, slots=True)
class FeatureDefaults:
    """Features of a data set where nobody asks for others: what `build` makes, and what a search reads."""

    max_length: int = 256
    """Most tokens of a text in train."""

    sample_max_length: int | None = None
    """The same in the made-up corpus; None: no other than in the data set."""

    embedding: str = "word2vec"
    embedding_size: int = 200

    def length(self, sample: bool) -> int:
        """Most tokens of a text, of the data set or of its made-up corpus."""
        return self.sample_max_length or self.max_length if sample else self.max_length


class Source(Protocol):
    """A data set in its official file format; what has a value here need not be stated.

    A source reads files and yields frames of examples; it knows neither the cache nor the vocabulary.
    """

    name: str
    title: str
    aspects: tuple[str, ...] = ()
    """Names of the targets one may ask for; empty when there is only one."""

    aliases: Mapping[str, str] = MappingProxyType({})
    """Other names of aspects."""

    side_targets: tuple[str, ...] = ()
    """Names that may follow the first in `--aspect A,B`; empty where a model predicts one target."""

    main_targets: tuple[str, ...] = ()
    """Of a source without aspects, where a model may predict several targets: names of the main one, one of
    which is first in `--aspect A,B`. Where it has no `side_targets`, its files name them."""

    splits: tuple[str, ...] = ("train", "val", "test")
    """Those of `SPLITS` that it has."""

    shares_texts: bool
    """Whether texts may stand in several of the official splits: then they are left there, and counted."""

    options: tuple[SourceOption, ...] = ()
    task_keys: tuple[str, ...] = ()
    """Keys of a `task.toml`, where the source reads one: what they say is no option."""
    defaults: FeatureDefaults = FeatureDefaults()
    tokenizer: str
    """Name in `feature_store.tokenize` of what splits a free text as this source's texts are split."""

    version: int
    """Raise it when the examples change for equal files."""

    sample_version: int
    """Raise it when the sample corpus changes for an equal seed."""

    remote_files: tuple[RemoteFile, ...] = ()

    def inputs(
        self, data_dir: Path, aspect: str | None, options: Mapping[str, str] = NO_OPTIONS
    ) -> dict[str, Path]:
        """Files to read, by role.

        Args:
            options: values of the source's options; what is left out has its default.

        Raises:
            MissingDataError: if one that is needed is not there; names the expected paths.
        """
        ...

    def task(self, query: Query, report: Report) -> TaskSpec:
        """What is predicted; a source whose classes depend on its files reads them here a first time.

        Raises:
            BadInputError: at the first line that breaks the format.
        """
        ...

    def frames(self, query: Query, task: TaskSpec, report: Report) -> "Iterator[pl.DataFrame]":
        """Examples of all splits in the order of the files, a chunk at a time, as `frames_of` makes them.

        Args:
            task: what `task` returned.

        Raises:
            BadInputError: at the first line that breaks the format.
        """
        ...

    def write_sample(self, data_dir: Path, seed: int) -> None:
        """Write a small made-up corpus in the official format under `data_dir/name/`."""
        ...


@runtime_checkable
class TellsAnnotatorsApart(Protocol):
    """A source that says which annotators marked a token, where `Example.rationale` is one mask for all."""

    def annotator_shares(self, query: Query) -> dict[str, list[float]]:
        """For each training text with a mask, the share of its annotators who marked each token.

        Raises:
            BadInputError: at the first line that breaks the format.
        """
        ...


def resolve_aspect(source: Source, aspect: str | None) -> str | None:
    """The aspect's own name, where an alias may have been given; of several, `feature_store.targets.joined`.

    Args:
        aspect: one name, or several with `,` or `+` between them, the main target first.

    Raises:
        RequestError: if the source has no such aspect, or needs one and got None, or cannot give several.
    """
    known = quoted(source.aspects)
    if aspect is None:
        if not source.aspects:
            return None
        raise RequestError(f"dataset `{source.name}` needs an aspect: {known}", hint="add `--aspect NAME`")
    first, *others = (part.strip() for part in aspect.replace(SIGN, ",").split(","))
    if not source.aspects:
        names = _without_aspects(source, first, others, aspect)
        return _once(names, aspect) if len(names) > 1 else None
    if others and not source.side_targets:
        raise RequestError(
            f"expected one aspect of dataset `{source.name}`, but got `{aspect}`",
            hint=f"name one target: {known}",
        )
    names = [_resolved(source, first, source.aspects, aspect)]
    sides = tuple(dict.fromkeys((*source.aspects, *source.side_targets)))
    names += [_resolved(source, other, sides, aspect) for other in others]
    return _once(names, aspect)


def _once(names: Sequence[str], given: str) -> str:
    """The targets in one name; each must be there once."""
    if twice := [name for name, number in Counter(names).items() if number > 1]:
        raise RequestError(f"aspect `{twice[0]}` is named twice in `{given}`", hint="name each target once")
    return joined(names)


def _without_aspects(source: Source, first: str, others: Sequence[str], given: str) -> list[str]:
    """The targets of a source without aspects that has a main target and side targets."""
    if not source.main_targets:
        raise RequestError(
            f"dataset `{source.name}` has no aspects, but got `{given}`", hint="leave out `--aspect`"
        )
    if first not in source.main_targets:
        raise RequestError(
            f"expected {quoted(source.main_targets)} as the first target of dataset `{source.name}`, but got "
            f"`{first}`",
            hint=did_you_mean(first, source.main_targets)
            or "leave out `--aspect`, or name the main target first",
        )
    if source.side_targets:
        return [first, *(_resolved(source, other, source.side_targets, given) for other in others)]
    if odd := [other for other in others if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", other)]:
        raise RequestError(
            f"expected names of targets after `{first},`, but got `{odd[0]}`",
            hint="use letters, digits, _ and -, starting with a letter",
        )
    return [first, *others]


def _resolved(source: Source, name: str, known: Sequence[str], given: str) -> str:
    """One target's own name."""
    found = source.aliases.get(name, name)
    if found not in known:
        near = did_you_mean(name, (*known, *source.aliases), "--aspect " if name == given else "")
        what = "side target" if known != source.aspects else "aspect"
        raise RequestError(
            f"no {what} `{name}` in dataset `{source.name}`; it has {quoted(known)}",
            hint=near or "give one of these names",
        )
    return found


def resolve_options(source: Source, given: Mapping[str, str]) -> dict[str, str]:
    """A value for each option of the source.

    Raises:
        RequestError: for an unknown option, or a value that it does not take.
    """
    known = {option.name: option for option in source.options}
    for name, value in given.items():
        if name not in known:
            there = f"it has {quoted(known)}" if known else "it has none"
            is_key = name in source.task_keys
            hint = f"write `{name} = ...` in task.toml" if is_key else did_you_mean(name, known, "--option ")
            raise RequestError(f"dataset `{source.name}` has no option `{name}`; {there}", hint=hint)
        choices = known[name].choices
        if choices and value not in choices:
            near = did_you_mean(value, choices, f"--option {name}=")
            raise RequestError(
                f"option `{name}` of dataset `{source.name}` takes {quoted(choices)}, but got `{value}`",
                hint=near,
            )
        if known[name].is_file and value and not Path(value).is_file():
            raise RequestError(f"option `{name}`: no file `{value}`", hint="check the path of the file")
    return {name: given.get(name, option.default) for name, option in known.items()}


def other_than_default(source: Source, given: Mapping[str, str]) -> dict[str, str]:
    """Those of the given options that differ from the default, which change what the data are."""
    defaults = {option.name: option.default for option in source.options}
    return {name: value for name, value in given.items() if value != defaults.get(name)}


def tables_of(source: Source, options: Mapping[str, str]) -> tuple[str, ...]:
    """The tables that features of a source have with these options: its splits, and perhaps `POOL`."""
    has_pool = any(options.get(option.name) in option.pool_values for option in source.options)
    return (*source.splits, POOL) if has_pool else source.splits


def source_options(assignments: Sequence[str]) -> dict[str, str]:
    """Options by name from `NAME=VALUE` arguments.

    Raises:
        RequestError: for an argument of another form, or a name given twice.
    """
    values: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not equals or not name or name in values:
            again = f", which gives `{name}` a second time" if equals and name in values else ""
            raise RequestError(
                f"expected NAME=VALUE once for each `--option`, but got `{assignment}`{again}",
                hint="`python -m feature_store list` shows the options of each data set",
            )
        values[name] = value
    return values

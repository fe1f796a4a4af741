"""The way in: ask for features, get memory-mapped tables; what is missing is built first.

    request = FeatureRequest(dataset="beer", aspect="palate", data_dir=Path("data"), cache_dir=Path("cache"))
    features = open_features(request)
    features.table("train")            # pyarrow.Table, zero copy

The cache holds `features/DATASET-ASPECT-FINGERPRINT/`, one folder for each content of the raw files and each
choice of parameters. A raw file's digest is computed once and then remembered by path, size and time of
change, so a second open neither parses nor hashes; `feature_store.cache` says what opening checks and what
only `verify=True` finds.
"""

import functools
import json
import logging
import os
import time
import tokenize
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from feature_store import cache, derived_tables
from feature_store.columns import VOCABULARY_SCHEMA, check_layout, check_numbers, check_values, table_schema
from feature_store.derived_tables import DERIVED_FILE
from feature_store.embeddings import MAX_SIZE
from feature_store.errors import (
    BadInputError,
    DamagedCacheError,
    MissingDataError,
    RequestError,
    did_you_mean,
    reason,
)
from feature_store.fingerprint import fingerprint, folder_digest
from feature_store.recipe import TOKENIZER_FILE, VERSION, Recipe
from feature_store.segmenter import DICTIONARY_FORMAT
from feature_store.sources import get_source
from feature_store.sources.base import (
    FOLDER_ROLES,
    MAX_INPUT_BYTES,
    TABLES,
    Source,
    resolve_aspect,
    resolve_options,
)
from feature_store.targets import in_names, main_of
from feature_store.task_info import TaskInfo
from feature_store.vocabulary import Vocabulary
from feature_store.wording import counted

logger = logging.getLogger("feature_store")


@dataclass(frozen=True, kw_only=True)
class FeatureRequest:
    """Which features are wanted.

    Raises:
        RequestError: for an unknown data set or aspect, or a value out of range.
    """

    dataset: str = "beer"
    aspect: str | None = None
    data_dir: Path | None = None
    """Folder that holds `DATASET/`; None stands for INFOCAL_DATA."""

    cache_dir: Path
    sample: bool = False
    """Take the made-up corpus; never chosen unasked."""

    sample_seed: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    """Choices that the source offers; what is left out has its default."""

    max_length: int = 256
    """Most tokens of a text in train and pool, and in val beside `val_annotated`; the others stay whole."""

    min_count: int = 1
    """Training words seen less often become `<unk>`."""

    embedding: str = "word2vec"
    """`word2vec` (trained on the training tokens), `random`, or the path of a text file, plain or .gz."""

    embedding_size: int = 200
    seed: int = 0
    max_input_bytes: int = MAX_INPUT_BYTES

    def __post_init__(self) -> None:
        source = get_source(self.dataset)
        resolve_aspect(source, self.aspect)
        resolve_options(source, self.options)
        for name in ("max_length", "min_count", "embedding_size", "max_input_bytes"):
            if getattr(self, name) < 1:
                raise RequestError(f"`{name}` must be at least 1, but got {getattr(self, name)}")
        if self.embedding_size > MAX_SIZE:
            raise RequestError(f"`embedding_size` must be at most {MAX_SIZE}, but got {self.embedding_size}")
        for name in ("seed", "sample_seed"):
            if not 0 <= getattr(self, name) < 2**32:
                raise RequestError(f"`{name}` must lie in [0, 2**32), but got {getattr(self, name)}")
        if self.sample and self.data_dir is not None:
            raise RequestError(
                f"expected either `--sample` or `--data-dir`, but got both: `--data-dir {self.data_dir}`",
                hint="leave out one of them",
            )


class Features:
    """A built folder, memory-mapped.

    Attributes:
        fingerprint: content key, 64 hexadecimal digits.
        directory: the folder; hand its path to workers, which open it with `load_features`.
        embeddings: float32 (V, E), read-only, memory-mapped; row 0 is zero.
        token_counts: int64 (V,), how often each word stands in train, and in the pool where there is one.
        splits: names of the tables there are.
        tokenizer: name in `feature_store.tokenize` of what splits a free text as these were split.
        tokenizer_files: contents of the user's files that change its tokens, by the option that named them.
        notes: what has to be said aloud on each run.
        provenance: digests of the raw files, parameters, counts, notes; JSON.
    """

    def __init__(self, directory: Path) -> None:
        """Open a built folder; see `load_features`."""
        self.directory = directory
        self.manifest = cache.read_manifest(directory / cache.MANIFEST)
        self.fingerprint = self.manifest.fingerprint
        try:
            meta = self.manifest.meta
            self.splits: tuple[str, ...] = tuple(split for split in TABLES if split in meta["splits"])
            if missing := {"train", "val", "test"} - set(self.splits):
                raise ValueError(f"no split {sorted(missing)}")
            self.tokenizer: str = meta["tokenizer"]
            self.dataset: str = meta["dataset"]
            self.aspect: str | None = meta["aspect"]
            self.provenance: dict[str, Any] = meta["provenance"]
            self.notes: list[str] = list(self.provenance["notes"])
            self.task = TaskInfo.of_json(meta["task"])
            schema = table_schema(self.task.kind, self.task.side_kinds)
            self._tables = {split: self._open(f"{split}.arrow", schema) for split in self.splits}
            self._words = self._open("vocabulary.arrow", VOCABULARY_SCHEMA)
            self.embeddings: npt.NDArray[np.float32] = self._open_vectors()
            self.tokenizer_files: dict[str, str] = {}
            if TOKENIZER_FILE in self.manifest.files:
                self.tokenizer_files = json.loads((directory / TOKENIZER_FILE).read_text(encoding="utf-8"))
            self.token_counts: npt.NDArray[np.int64] = cache.as_numpy(self._words["count"])
        except (KeyError, TypeError, ValueError, AttributeError, OSError, RecursionError) as error:
            raise DamagedCacheError(
                f"the folder cannot be read ({reason(error)})", where=str(directory)
            ) from error
        self._checked: set[str] = set()

    def _open(self, name: str, schema: pa.Schema) -> pa.Table:
        """One of the folder's Arrow files, with the columns that it must have."""
        self.manifest.files[name]  # verify compares those alone that stand there
        table = cache.open_table(self.directory / name)
        check_layout(table, schema, self.directory / name)
        return table

    def _open_vectors(self) -> npt.NDArray[np.float32]:
        path = self.directory / "embeddings.npy"
        self.manifest.files[path.name]
        try:
            # not np.load, which takes other formats as well
            matrix: npt.NDArray[np.float32] = np.lib.format.open_memmap(path, mode="r")
        except (tokenize.TokenError, SyntaxError, ArithmeticError, RecursionError, MemoryError) as error:
            # numpy reads the header as an expression of Python's
            raise DamagedCacheError(f"not a readable array ({error})", where=str(path)) from error
        if matrix.dtype != np.float32 or matrix.ndim != 2 or len(matrix) != self._words.num_rows:
            raise DamagedCacheError(
                f"word vectors of type {matrix.dtype} and shape {matrix.shape} "
                f"for {counted(self._words.num_rows, 'word')}",
                where=str(path),
            )
        return matrix

    @functools.cached_property
    def vocabulary(self) -> Vocabulary:
        """Words of the training split; read when first asked for, which training never does.

        Raises:
            DamagedCacheError: if the file of words does not hold a vocabulary.
        """
        path = self.directory / "vocabulary.arrow"
        check_values(self._words, path)
        try:
            return Vocabulary(self._words["token"].to_pylist())
        except ValueError as error:
            raise DamagedCacheError(f"not a vocabulary ({error})", where=str(path)) from error

    def table(self, split: str) -> pa.Table:
        """Rows of one split, in the order of the files, memory-mapped.

        Columns: `example_id` string | `tokens` list<string> | `token_ids` list<int32> | `target` float32
        (regression) or int32 (class) | `rationale` list<uint16>, positions of the human rationale's tokens,
        null where nobody annotated | `groups` list<string>, groups that the text is about | `target_NAME` as
        `target`, for each side target.

        The first call checks what reading it relies on: every offset, and that numbers point at words,
        classes and tokens that there are. The words of `train`, by far the most bytes, it leaves unread.

        Raises:
            RequestError: if there is no such split.
            DamagedCacheError: if an offset or number is wrong.
        """
        if split not in self._tables:
            raise RequestError(f"no split `{split}`; the splits are {', '.join(self._tables)}")
        table = self._tables[split]
        if split not in self._checked:
            path = self.directory / f"{split}.arrow"
            check_values(table.drop_columns(["tokens"]) if split == "train" else table, path)
            task = self.task
            check_numbers(table, self._words.num_rows, task.num_classes, path, task.side_classes)
            self._checked.add(split)
        return table

    def annotated_validation(self) -> pa.Table:
        """The validation texts whose rationales are scored: `val_annotated`, or `val` where there is none."""
        return self.table("val_annotated" if "val_annotated" in self.splits else "val")

    def __repr__(self) -> str:
        return f"Features({self.dataset}/{self.aspect}, {self.fingerprint[:12]}, {self.directory})"


def load_features(directory: Path, *, verify: bool = False) -> Features:
    """Open a built folder; needs no raw data, builds nothing.

    Args:
        verify: compare every file with its digest, which reads everything.

    Raises:
        DamagedCacheError: if a file is missing, cut short or unreadable (or, with `verify`, altered).
    """
    features = Features(Path(directory))
    if verify:
        cache.verify_files(features.directory, features.manifest)
    return features


def open_features(
    request: FeatureRequest, *, verify: bool = False, on_rows: Callable[[int], None] | None = None
) -> Features:
    """Open the features asked for; build them first where they are missing or damaged.

    Args:
        verify: compare every file with its digest, which reads everything.
        on_rows: called with the number of training texts once they are read, before the rest is built of
            them; what it raises ends the build. Not called where the features are there.

    Raises:
        MissingDataError: if raw files are missing; names them and what to do.
        BadInputError: if a raw file breaks its format; names file and line. The cache is left as it was.
        CacheError: if the cache folder cannot be written to.
    """
    recipe, directory = located(request)
    found = load_if_whole(directory, recipe, verify)
    if found is not None:
        return found
    with cache.locked(request.cache_dir, directory.name):
        found = load_if_whole(directory, recipe, verify)  # another process may have built it while we waited
        if found is None:
            _build(directory, recipe, on_rows)
            found = load_features(directory)
    return found


def located(request: FeatureRequest) -> tuple[Recipe, Path]:
    """What the features asked for are made of, and their folder in the cache, whether it is there or not.

    Raises:
        UserError: as `open_features`.
    """
    source = get_source(request.dataset)
    aspect = resolve_aspect(source, request.aspect)
    recipe = _recipe(request, source, aspect, _data_dir(request, source))
    parts = (source.name, in_names(aspect or ""), recipe.fingerprint[:16])
    name = "-".join(part for part in parts if part)
    return recipe, request.cache_dir / "features" / name


def fingerprint_of(request: FeatureRequest) -> str:
    """The fingerprint that the features asked for have or would have; reads the raw files, builds nothing.

    Raises:
        MissingDataError: if raw files are missing; names them and what to do.
        BadInputError: if one cannot be read.
    """
    return located(request)[0].fingerprint


def provenance_of(request: FeatureRequest) -> tuple[str, dict[str, Any]]:
    """That fingerprint with what decides it, as in `Features.provenance`: `parameters` and `digests`.

    Raises:
        UserError: as `fingerprint_of`.
    """
    recipe, _ = located(request)
    return recipe.fingerprint, {"parameters": recipe.parameters, "digests": recipe.digests}


def raw_files(request: FeatureRequest) -> dict[str, Path]:
    """The raw files that a build of these features would read, by role; reads and builds nothing.

    Empty for the sample corpus, which is written when it is first needed.

    Raises:
        MissingDataError: if raw files are missing; names them and what to do.
        RequestError: if there is no such file of word vectors.
    """
    if request.embedding not in ("word2vec", "random"):
        _embedding_file(request.embedding)
    if request.sample:
        return {}
    source = get_source(request.dataset)
    aspect, options = resolve_aspect(source, request.aspect), resolve_options(source, request.options)
    return source.inputs(_data_dir(request, source), main_of(aspect), options)


def load_if_whole(directory: Path, recipe: Recipe, verify: bool) -> Features | None:
    """The features of that folder; None where it is missing or damaged, which is said."""
    if not directory.exists():
        return None
    try:
        features = load_features(directory, verify=verify)
        if features.fingerprint != recipe.fingerprint:
            raise DamagedCacheError(
                f"expected features {recipe.fingerprint[:16]}, but got features {features.fingerprint[:16]}",
                where=str(directory),
            )
        return features
    except DamagedCacheError as error:
        logger.warning("%s: building it again", error)
        return None


def _build(directory: Path, recipe: Recipe, on_rows: Callable[[int], None] | None) -> None:
    from feature_store import build  # imports polars and gensim: only where something is built

    label = "/".join(part for part in (recipe.source.name, recipe.aspect) if part)
    start = time.monotonic()

    def read(num_texts: int) -> None:
        if on_rows is not None:
            on_rows(num_texts)
        logger.info("building features of %s in %s", label, directory)

    logger.info("reading the files of %s", label)
    with cache.staging(directory) as stage:
        build.build(stage, recipe, read)
    logger.info("built features of %s in %.1f s", label, time.monotonic() - start)


def _data_dir(request: FeatureRequest, source: Source) -> Path:
    """The folder with the raw files; the sample corpus is written where it is asked for and missing."""
    if request.sample:
        return _sample_dir(request, source)
    if request.data_dir is not None:
        return Path(request.data_dir)
    if from_environment := os.environ.get("INFOCAL_DATA"):
        return Path(from_environment)
    download = f"download it with `python -m feature_store fetch --dataset {source.name} --data-dir DIR`, "
    raise MissingDataError(
        f"no data folder was named for dataset `{source.name}`",
        hint="name it with `--data-dir` or INFOCAL_DATA, "
        + (download if source.remote_files else "")
        + "or try the made-up corpus with `--sample`",
    )


def _sample_dir(request: FeatureRequest, source: Source) -> Path:
    name = f"{source.name}-{source.sample_version}-{request.sample_seed}"
    directory = request.cache_dir / "sample" / name
    if not _sample_is_whole(directory, source):
        with cache.locked(request.cache_dir, f"sample-{name}"):
            if not _sample_is_whole(directory, source):
                logger.info("writing the made-up sample corpus to %s", directory)
                with cache.staging(directory) as stage:
                    source.write_sample(stage, request.sample_seed)
                    digest = folder_digest(stage / source.name)
                    cache.write_manifest(stage / cache.MANIFEST, cache.Manifest(fingerprint=digest, files={}))
    return directory


def _sample_is_whole(directory: Path, source: Source) -> bool:
    """Whether the sample corpus is there as it was written; all of it is read, which takes milliseconds."""
    if not directory.exists():
        return False
    try:
        manifest = cache.read_manifest(directory / cache.MANIFEST)
        if folder_digest(directory / source.name) != manifest.fingerprint:
            raise DamagedCacheError("the sample corpus differs from its sha256", where=str(directory))
    except (DamagedCacheError, BadInputError, OSError) as error:
        logger.warning("%s: writing it again", error)
        return False
    return True


def _recipe(request: FeatureRequest, source: Source, aspect: str | None, data_dir: Path) -> Recipe:
    options = resolve_options(source, request.options)
    named = {o.name: Path(options[o.name]) for o in source.options if o.is_file and options[o.name]}
    inputs = source.inputs(data_dir, main_of(aspect), options) | named
    files = dict(inputs)
    embedding_file = None
    if request.embedding not in ("word2vec", "random"):
        embedding_file = files["embedding"] = _embedding_file(request.embedding)
    parameters = {
        "dataset": source.name,
        "aspect": aspect,
        "sample": request.sample,
        "sample_seed": request.sample_seed if request.sample else None,
        "max_length": request.max_length,
        "min_count": request.min_count,
        "embedding": "file" if embedding_file else request.embedding,
        "embedding_size": request.embedding_size,
        "seed": request.seed,
        "source_version": source.version,
        "options": {
            o.name: options[o.name]
            for o in source.options
            if not o.is_file and not (o.is_later and options[o.name] == o.default)
        },
    }
    if any(o.for_tokenizer and o.name in named for o in source.options):
        parameters["dictionary_format"] = DICTIONARY_FORMAT
    book = cache.DigestBook(request.cache_dir / "digests.json")
    digests = {role: _digest(book, role, file) for role, file in sorted(files.items())}
    key = [f"{role}:{digest}" for role, digest in digests.items()]
    note = f"made-up sample corpus (seed {request.sample_seed}): scores on it say nothing about real data"
    return Recipe(
        source=source,
        aspect=aspect,
        inputs=inputs,
        options=options,
        digests=digests,
        parameters=parameters,
        embedding_file=embedding_file,
        max_bytes=request.max_input_bytes,
        fingerprint=fingerprint("features", VERSION, parameters, key),
        cache_dir=request.cache_dir,
        notes=(note,) if request.sample else (),
    )


def _digest(book: cache.DigestBook, role: str, file: Path) -> str:
    if file.is_dir() and role not in FOLDER_ROLES:
        raise BadInputError("expected a file, but this is a folder", where=str(file))
    if file.exists() and not (file.is_file() or file.is_dir()):  # a pipe would be waited for, for ever
        raise BadInputError("expected a file, but this is a pipe or a device", where=str(file))
    try:
        return book.digest(file)
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}", where=str(file)) from error


def _embedding_file(name: str) -> Path:
    path = Path(name)
    if not path.is_file():
        near = did_you_mean(name, ("word2vec", "random"), "--embedding ")
        raise RequestError(
            f"expected `word2vec`, `random` or the path of a text file, but got `{name}`",
            where="--embedding",
            hint=near or "check the path of the file",
        )
    return path


def derived(
    features: Features,
    step: str,
    version: int,
    parameters: Mapping[str, Any],
    build: Callable[[], pa.Table],
) -> pa.Table:
    """A further table computed from features, cached beside them; memory-mapped.

    Args:
        step: name of the computation; letters, digits, `_` and `-`.
        version: raise it when `build` gives another table for equal parameters.
        parameters: everything besides the features that the table depends on, as JSON values.
        build: computes the table; called under a lock, so that one process computes and the others wait.

    Raises:
        RequestError: if the step's name is not fit for a file name.
        TypeError: if a parameter is not JSON.
    """
    if not step or not step.replace("_", "").replace("-", "").isalnum():
        raise RequestError(f"a step's name is made of letters, digits, `_` and `-`, but got `{step}`")
    key = fingerprint(step, version, parameters, [features.fingerprint])
    directory = derived_dir(features, step, version, parameters)
    found = _derived_if_whole(directory, key)
    if found is not None:
        return found
    with cache.locked(features.directory.parent.parent, f"{features.directory.name}-{directory.name}"):
        found = _derived_if_whole(directory, key)
        if found is None:
            table = build()
            with cache.staging(directory) as stage:
                derived_tables.fill(stage, key, step, version, parameters, table)
            found = cache.open_table(directory / DERIVED_FILE)
    return found


def derived_dir(features: Features, step: str, version: int, parameters: Mapping[str, Any]) -> Path:
    """Folder of a table that `derived` keeps, whether it is there or not."""
    key = fingerprint(step, version, parameters, [features.fingerprint])
    return derived_tables.folder_below(features.directory, step, key)


def verify_derived(features: Features) -> None:
    """Compare every derived table of a built folder with its digest; reads everything.

    Raises:
        DamagedCacheError: at the first one that is damaged.
    """
    for directory in sorted((features.directory / "derived").glob("[!.]*")):
        cache.verify_files(directory, cache.read_manifest(directory / cache.MANIFEST))


def _derived_if_whole(directory: Path, key: str) -> pa.Table | None:
    if not directory.exists():
        return None
    try:
        # every digest, for there is one table, which its reader goes through anyway
        manifest = cache.read_manifest(directory / cache.MANIFEST)
        if manifest.fingerprint != key or DERIVED_FILE not in manifest.files:
            raise DamagedCacheError(
                f"expected the table `{key[:16]}`, but got `{manifest.fingerprint[:16]}`",
                where=str(directory),
            )
        cache.verify_files(directory, manifest)
        table = cache.open_table(directory / DERIVED_FILE)
        check_values(table, directory / DERIVED_FILE)
        return table
    except DamagedCacheError as error:
        logger.warning("%s: computing it again", error)
        return None

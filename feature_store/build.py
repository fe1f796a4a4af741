"""Builds a folder of features from raw files, one chunk of rows in memory at a time."""

import itertools
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from feature_store import embeddings
from feature_store.cache import MANIFEST, Manifest, describe_files, write_manifest, write_table
from feature_store.columns import VOCABULARY_SCHEMA, staged_schema, table_schema
from feature_store.errors import BadInputError
from feature_store.recipe import TOKENIZER_FILE, Recipe
from feature_store.schema import MAX_TOKENS, check_keys, validate
from feature_store.scripts import clauses
from feature_store.sources.base import Example, Report, TaskKind, TaskSpec, cut_splits, word_splits
from feature_store.sources.lines import read_lines
from feature_store.vocabulary import Vocabulary, build_vocabulary, encode_column
from feature_store.wording import counted

logger = logging.getLogger("feature_store")

CHUNK_ROWS = 2048
"""Rows that are held as Python objects."""
CHUNKS_PER_BATCH = 8
"""Chunks joined to a record batch of a finished table: opening reads a header of each."""

VOCABULARY_FILE = "vocabulary.arrow"
EMBEDDINGS_FILE = "embeddings.npy"


def build(stage: Path, recipe: Recipe, on_rows: Callable[[int], None] | None = None) -> None:
    """Fill an empty folder with the recipe's tables, vocabulary, vectors and a manifest.

    Raises:
        BadInputError: if a raw file breaks its format, a split stays empty or all training targets are equal.
    """
    splits = recipe.tables
    report = Report(notes=list(recipe.notes))
    spec = recipe.source.task(recipe.query, report)
    word_counts = stage_rows(stage, recipe, spec, report)
    if on_rows is not None:
        on_rows(report.counts["train_rows"])
    vocabulary, counts = build_vocabulary(word_counts, int(recipe.parameters["min_count"]))
    words = pa.table({"token": vocabulary.tokens, "count": counts}, schema=VOCABULARY_SCHEMA)
    write_table(stage / VOCABULARY_FILE, words)
    for split in splits:
        _number_tokens(stage, split, vocabulary, spec.kind)
    np.save(stage / EMBEDDINGS_FILE, _embed(stage, recipe, vocabulary, counts, report), allow_pickle=False)
    task = task_info(stage / "train.arrow", spec, raw_files(recipe))
    names = [*(f"{split}.arrow" for split in splits), VOCABULARY_FILE, EMBEDDINGS_FILE]
    if contents := _tokenizer_files(recipe):
        (stage / TOKENIZER_FILE).write_text(json.dumps(contents), encoding="utf-8")
        names.append(TOKENIZER_FILE)
    files = describe_files(stage, names)
    meta = {
        "dataset": recipe.source.name,
        "aspect": recipe.aspect,
        "task": task,
        "tokenizer": spec.tokenizer or recipe.source.tokenizer,
        "splits": list(splits),
        "provenance": {
            "inputs": {role: recipe.inputs[role].name for role in sorted(recipe.inputs)},
            "digests": recipe.digests,
            "parameters": recipe.parameters,
            "counts": dict(sorted(report.counts.items())),
            "dropped": [{"reason": why, "splits": dict(numbers)} for why, numbers in report.dropped.items()],
            "notes": report.notes,
        },
    }
    write_manifest(stage / MANIFEST, Manifest(fingerprint=recipe.fingerprint, files=files, meta=meta))


def _tokenizer_files(recipe: Recipe) -> dict[str, str]:
    """Contents of the user's files that change how a text is split, by the option that named them."""
    named = [option.name for option in recipe.source.options if option.for_tokenizer]
    return {
        name: "".join(f"{line}\n" for _, line in read_lines(recipe.inputs[name], max_bytes=recipe.max_bytes))
        for name in named
        if name in recipe.inputs
    }


class _SplitWriter:
    """Collects the rows of one split and writes them in chunks."""

    def __init__(
        self, path: Path, split: str, kind: TaskKind, max_length: int | None, raw_files: str
    ) -> None:
        self._sink = pa.OSFile(str(path), "wb")
        self._schema = staged_schema(kind)
        self._writer = pa.ipc.new_file(self._sink, self._schema)
        self._split, self._kind, self._max_length = split, kind, max_length
        self._raw_files = raw_files
        self._rows: list[dict[str, Any]] = []
        self.words: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.longest = self.needed = 0

    def add(self, example: Example) -> None:
        tokens, rationale = example.tokens, example.rationale
        if self._max_length is not None and len(tokens) > self._max_length:
            tokens, rationale = self._cut(tokens, rationale, self._max_length)
        if len(tokens) > MAX_TOKENS:
            raise BadInputError(
                f"the text of example `{example.example_id[:60]}` has {counted(len(tokens), 'token')}; "
                f"at most {MAX_TOKENS} are supported",
                where=self._raw_files,
            )
        if self._split in word_splits([self._split]):
            self.words.update(tokens)
        self.counts["rows"] += 1
        self.counts["tokens"] += len(tokens)
        self.counts["rationale_tokens"] += len(rationale or ())
        row = {
            "example_id": example.example_id,
            "tokens": tokens,
            "target": example.target,
            "rationale": rationale,
            "groups": list(example.groups),
        }
        self._rows.append(row)
        if len(self._rows) == CHUNK_ROWS:
            self.flush()

    def _cut(
        self, tokens: list[str], rationale: list[int] | None, limit: int
    ) -> tuple[list[str], list[int] | None]:
        """The beginning; a text that loses all that humans marked counts as one that nobody annotated."""
        self.counts["cut"] += 1
        self.longest = max(self.longest, len(tokens))
        if not rationale or rationale[-1] < limit:
            return tokens[:limit], rationale
        kept = [i for i in rationale if i < limit]
        self.needed = max(self.needed, rationale[-1] + 1)
        self.counts["cut_rationale_tokens"] += len(rationale) - len(kept)
        self.counts["cut_part_of_rationale" if kept else "cut_whole_rationale"] += 1
        return tokens[:limit], kept or None

    def note(self) -> str | None:
        """What was cut off, and which setting keeps it; None where every text is whole."""
        counts = self.counts
        if not counts["cut"]:
            return None
        those = f"of {counts['rows']} texts of `{self._split}`"
        said = (
            f"{counted(counts['cut'], f'{those} is', f'{those} are')} longer than "
            f"{counted(self._max_length or 0, 'token')} and cut there; the longest has {self.longest}"
        )
        lost = counts["cut_rationale_tokens"]
        if not lost:
            return f"{said} (`--set max_length=N` sets the limit)"
        marked = lost + counts["rationale_tokens"]
        return (
            f"{said}. {lost} of {marked} tokens that humans marked ({lost / marked:.1%}) are lost: "
            f"{counted(counts['cut_part_of_rationale'], 'text loses', 'texts lose')} a part of their "
            f"rationale, {counts['cut_whole_rationale']} all of it; "
            f"`--set max_length={self.needed}` keeps every one"
        )

    def flush(self) -> None:
        if self._rows:
            batch = pa.RecordBatch.from_pylist(self._rows, schema=self._schema)
            validate(batch, self._split, self._kind)
            self._writer.write_batch(batch)
            self._rows.clear()

    def close(self) -> None:
        self._writer.close()
        self._sink.close()


def stage_rows(stage: Path, recipe: Recipe, spec: TaskSpec, report: Report) -> Counter[str]:
    """Parse the raw files into one file of rows per table; returns the counts of the words to learn."""
    limit = int(recipe.parameters["max_length"])
    splits = recipe.tables
    cut = cut_splits(splits)
    writers = {
        split: _SplitWriter(
            staged_file(stage, split), split, spec.kind, limit if split in cut else None, raw_files(recipe)
        )
        for split in splits
    }
    try:
        for example in recipe.source.examples(recipe.query, spec, report):
            writers[example.split].add(example)
        for writer in writers.values():
            writer.flush()
    finally:
        for writer in writers.values():
            writer.close()
    for split, writer in writers.items():
        if not writer.counts["rows"]:
            counted = ", ".join(f"{name} {one.counts['rows']:,}" for name, one in writers.items())
            raise BadInputError(
                f"too few examples: nothing is left for the split `{split}` ({counted})",
                where=raw_files(recipe),
                hint="give every split a text; without a file of its own, `val` is a part of training texts",
            )
        with pa.memory_map(str(staged_file(stage, split))) as source:
            check_keys((batch.column("example_id") for batch in _batches(source)), split)
        report.counts.update({f"{split}_{name}": count for name, count in writer.counts.items()})
        report.notes += filter(None, [writer.note()])
    if note := clauses(writers["train"].words, spec.tokenizer or recipe.source.tokenizer):
        report.notes.append(note)
    return sum((writers[split].words for split in word_splits(splits)), Counter())


def raw_files(recipe: Recipe) -> str:
    """The files that were read, for messages about all of them."""
    return ", ".join(str(path) for path in recipe.inputs.values())


def staged_file(stage: Path, split: str) -> Path:
    """Where `stage_rows` leaves the rows of a split."""
    return stage / f"staged-{split}.arrow"


def _number_tokens(stage: Path, split: str, vocabulary: Vocabulary, kind: TaskKind) -> None:
    """Add the column `token_ids` and write the split's final file."""
    words = pa.array(vocabulary.tokens, pa.string())
    schema = table_schema(kind)
    staged = staged_file(stage, split)
    with (
        pa.memory_map(str(staged)) as source,
        pa.OSFile(str(stage / f"{split}.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        batches = _batches(source)
        while group := list(itertools.islice(batches, CHUNKS_PER_BATCH)):
            (batch,) = pa.Table.from_batches(group).combine_chunks().to_batches()
            columns = {name: batch.column(name) for name in batch.schema.names}
            columns["token_ids"] = encode_column(columns["tokens"], words)
            writer.write_batch(
                pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
            )
    staged.unlink()


def _batches(source: pa.NativeFile) -> Iterator[pa.RecordBatch]:
    reader = pa.ipc.open_file(source)
    for number in range(reader.num_record_batches):
        yield reader.get_batch(number)


def _embed(
    stage: Path, recipe: Recipe, vocabulary: Vocabulary, counts: np.ndarray, report: Report
) -> embeddings.Matrix:
    size, seed = int(recipe.parameters["embedding_size"]), int(recipe.parameters["seed"])
    if recipe.embedding_file is not None:
        matrix, found = embeddings.from_file(
            recipe.embedding_file, vocabulary, size=size, max_bytes=recipe.max_bytes
        )
        report.counts["words_with_vector"] = found
        report.notes.append(
            f"{recipe.embedding_file.name} has {found} of the {len(vocabulary) - 2} words; "
            "the rest get the mean vector"
        )
        return matrix
    if recipe.parameters["embedding"] == "random":
        return embeddings.random(vocabulary, size=size, seed=seed)

    def sentences() -> Iterator[list[str]]:
        for split in word_splits(recipe.tables):
            with pa.memory_map(str(stage / f"{split}.arrow")) as source:
                for batch in _batches(source):
                    yield from batch.column("tokens").to_pylist()

    return embeddings.word2vec(vocabulary, counts, embeddings.Sentences(sentences), size=size, seed=seed)


def task_info(rows: Path, spec: TaskSpec, where: str) -> dict[str, Any]:
    """Kind of the task, and mean and variance of the training targets, which `rows` holds."""
    with pa.memory_map(str(rows)) as file:
        targets = np.concatenate([batch.column("target").to_numpy() for batch in _batches(file)]).astype(
            np.float64
        )
    if targets.var() == 0:
        raise BadInputError(
            f"all {len(targets)} training targets are {targets[0]:g}: nothing to learn",
            where=where,
        )
    return {
        "kind": spec.kind,
        "class_names": list(spec.class_names) if spec.class_names else None,
        "target_mean": float(targets.mean()),
        "target_variance": float(targets.var()),
        "score_range": list(spec.score_range),
    }

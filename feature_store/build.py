"""Builds a folder of features from raw files, one chunk of rows in memory at a time."""

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from feature_store import cache, embeddings
from feature_store.annotator_table import build_shares
from feature_store.columns import VOCABULARY_SCHEMA, table_schema
from feature_store.errors import BadInputError
from feature_store.recipe import TOKENIZER_FILE, Recipe
from feature_store.sources.base import Report, TargetSpec, TaskSpec, word_splits
from feature_store.sources.lines import read_lines
from feature_store.staging import raw_files, stage_rows, staged_file
from feature_store.targets import column_of, main_of
from feature_store.vocabulary import Vocabulary
from feature_store.words import build_vocabulary, ids_by_code

logger = logging.getLogger("feature_store")

BATCH_ROWS = 1 << 14
"""Rows of a record batch of a finished table: opening reads a header of each."""

VOCABULARY_FILE = "vocabulary.arrow"
EMBEDDINGS_FILE = "embeddings.npy"


def build(stage: Path, recipe: Recipe, on_rows: Callable[[int], None]) -> None:
    """Fill an empty folder with the recipe's tables, vocabulary, vectors and a manifest.

    Args:
        on_rows: called with the number of training texts once they are read, before anything is built.

    Raises:
        BadInputError: if a raw file breaks its format, a split stays empty or all training targets are equal.
    """
    splits = recipe.tables
    report = Report(notes=list(recipe.notes))
    spec = recipe.source.task(recipe.query, report)
    words = stage_rows(stage, recipe, spec, report)
    on_rows(report.counts["train_rows"])
    vocabulary, counts = build_vocabulary(words, int(recipe.parameters["min_count"]))
    learnt = pl.DataFrame({"token": vocabulary.tokens, "count": counts})
    written = learnt.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(VOCABULARY_SCHEMA)
    cache.write_table(stage / VOCABULARY_FILE, written)
    ids = ids_by_code(words["word"], vocabulary.tokens)
    for split in splits:
        _number_tokens(stage, split, words["word"], ids, spec)
    build_shares(stage, recipe)
    np.save(stage / EMBEDDINGS_FILE, _embed(stage, recipe, vocabulary, counts, report), allow_pickle=False)
    task = task_info(stage / "train.arrow", spec, raw_files(recipe), main_of(recipe.aspect) or "")
    names = [*(f"{split}.arrow" for split in splits), VOCABULARY_FILE, EMBEDDINGS_FILE]
    if contents := _tokenizer_files(recipe):
        (stage / TOKENIZER_FILE).write_text(json.dumps(contents), encoding="utf-8")
        names.append(TOKENIZER_FILE)
    files = cache.describe_files(stage, names)
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
    cache.write_manifest(
        stage / cache.MANIFEST, cache.Manifest(fingerprint=recipe.fingerprint, files=files, meta=meta)
    )


def _tokenizer_files(recipe: Recipe) -> dict[str, str]:
    """Contents of the user's files that change how a text is split, by the option that named them."""
    named = [option.name for option in recipe.source.options if option.for_tokenizer]
    return {
        name: "".join(f"{line}\n" for _, line in read_lines(recipe.inputs[name], max_bytes=recipe.max_bytes))
        for name in named
        if name in recipe.inputs
    }


def _number_tokens(
    stage: Path, split: str, words: pl.Series, ids: npt.NDArray[np.int32], spec: TaskSpec
) -> None:
    """Write the split's final file: words and their numbers in the vocabulary in place of codes."""
    texts = words.to_arrow(compat_level=pl.CompatLevel.oldest()).cast(pa.string())
    schema = table_schema(spec.kind, spec.side_kinds)
    staged = staged_file(stage, split)
    table = cache.open_table(staged)
    with (
        pa.OSFile(str(stage / f"{split}.arrow"), "wb") as sink,
        pa.ipc.new_file(sink, schema) as writer,
    ):
        for first in range(0, table.num_rows, BATCH_ROWS):
            (batch,) = table.slice(first, BATCH_ROWS).combine_chunks().to_batches()
            columns = {name: batch.column(name) for name in batch.schema.names}
            codes = columns.pop("codes")
            lists = {
                "tokens": texts.take(codes.values),
                "token_ids": cache.as_arrow(ids[cache.as_numpy(codes.values)]),
            }
            columns |= {
                name: pa.ListArray.from_arrays(codes.offsets, values) for name, values in lists.items()
            }
            writer.write_batch(
                pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
            )
    staged.unlink()


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
            f"{recipe.embedding_file.name} has {found} of the {len(vocabulary) - 2} words"
            + ("; the rest get the mean vector" if found < len(vocabulary) - 2 else "")
        )
        return matrix
    if recipe.parameters["embedding"] == "random":
        return embeddings.random(vocabulary, size=size, seed=seed)

    def sentences() -> Iterator[list[str]]:
        for split in word_splits(recipe.tables):
            for batch in cache.open_table(stage / f"{split}.arrow").to_batches():
                yield from batch.column("tokens").to_pylist()

    return embeddings.word2vec(vocabulary, counts, embeddings.Sentences(sentences), size=size, seed=seed)


def task_info(rows: Path, spec: TaskSpec, where: str, name: str = "") -> dict[str, Any]:
    """Kind of the task, and mean and variance of the training targets, which `rows` holds.

    Args:
        name: of the main target; kept where there are side targets.
    """
    found = _target_info(rows, "target", spec, where)
    if not spec.sides:
        return found
    sides = [
        {"name": side.name, **_target_info(rows, column_of(side.name), side, where)} for side in spec.sides
    ]
    return found | {"name": name, "sides": sides}


def _target_info(rows: Path, column: str, spec: TargetSpec, where: str) -> dict[str, Any]:
    targets = cache.as_numpy(cache.open_table(rows)[column]).astype(np.float64)
    if targets.var() == 0:
        is_side = column != "target"
        of = f" of `{spec.name}`" if is_side else ""
        raise BadInputError(
            f"all {len(targets)} training targets{of} are {targets[0]:g}: nothing to learn",
            where=where,
            hint=f"leave out the target `{spec.name}`" if is_side else None,
        )
    return {
        "kind": spec.kind,
        "class_names": list(spec.class_names) if spec.class_names else None,
        "target_mean": float(targets.mean()),
        "target_variance": float(targets.var()),
        "score_range": list(spec.score_range),
    }

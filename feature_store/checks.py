"""Checks of built features that digests cannot make: do the parts agree with one another?"""

import hashlib
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pyarrow.compute as pc

from feature_store.errors import BadInputError
from feature_store.schema import check_keys, validate
from feature_store.sources import get_source
from feature_store.sources.base import cut_splits, word_splits
from feature_store.sources.staged_columns import staged_schema
from feature_store.store import Features
from feature_store.vocabulary import PAD_ID
from feature_store.wording import counted


def check_features(features: Features) -> list[str]:
    """Everything that is wrong with built features, one line each; empty when all is well.

    Reads every row: tables against the schema, token numbers against the vocabulary, counts against train,
    vectors against the vocabulary, and no text of the splits that models are scored on in the others.
    """
    problems = [*_check_vectors(features)]
    for split in features.splits:
        problems += _check_split(features, split)
    problems += _check_counts(features)
    problems += _check_overlap(features)
    return problems


def summary(features: Features) -> dict[str, dict[str, Any]]:
    """For each split: rows, tokens, rows with a human rationale, share of their tokens that is in it."""
    result: dict[str, dict[str, Any]] = {}
    for split in features.splits:
        table = features.table(split)
        lengths = pc.list_value_length(table["token_ids"]).to_numpy()
        marked = pc.list_value_length(table["rationale"]).to_numpy()  # NaN where nobody annotated
        annotated = int(lengths[~np.isnan(marked)].sum())
        result[split] = {
            "rows": table.num_rows,
            "tokens": int(lengths.sum()),
            "annotated_rows": int((~np.isnan(marked)).sum()),
            "rationale_rate": float(np.nansum(marked)) / annotated if annotated else None,
        }
    return result


def dropped_table(features: Features) -> list[str]:
    """Lines of a table: how many examples each filter of the source left out of each split; may be empty."""
    rows = features.provenance["dropped"]
    if not rows:
        return []
    width = max(len(row["reason"]) for row in rows)
    lines = [" ".join(["left out".ljust(width), *(f"{split:>9}" for split in features.splits)])]
    for row in rows:
        numbers = (row["splits"].get(split, 0) for split in features.splits)
        lines.append(" ".join([row["reason"].ljust(width), *(f"{number:>9}" for number in numbers)]))
    return lines


def _check_split(features: Features, split: str) -> list[str]:
    kind, sides = features.task.kind, features.task.side_kinds
    table = features.table(split)
    problems = []
    try:
        check_keys(table["example_id"].chunks, split)
    except BadInputError as error:
        problems.append(f"`{split}`: {error.message}")
    for batch in table.to_batches():
        try:
            rows = pl.DataFrame(batch.select(staged_schema(kind, sides).names))
            validate(rows, split, kind, sides)
        except BadInputError as error:
            problems.append(f"`{split}`: {error.message}")
        for row in batch.select(["example_id", "tokens", "token_ids"]).to_pylist():
            if features.vocabulary.encode(row["tokens"]) != row["token_ids"]:
                problems.append(
                    f"`{split}`: the token ids of `{row['example_id']}` do not match the vocabulary"
                )
    return problems


def _check_vectors(features: Features) -> list[str]:
    matrix = features.embeddings
    problems = []
    if not np.isfinite(matrix).all():
        num_wrong = int((~np.isfinite(matrix)).sum())
        of = "of the word vectors"
        problems.append(f"{counted(num_wrong, f'entry {of} is', f'entries {of} are')} not finite")
    if matrix[PAD_ID].any():
        problems.append("the vector of padding is not zero")
    return problems


def _check_counts(features: Features) -> list[str]:
    size = len(features.vocabulary)
    counted = np.zeros(size, np.int64)
    for split in word_splits(features.splits):
        ids = features.table(split)["token_ids"].combine_chunks().flatten().to_numpy()
        counted += np.bincount(ids, minlength=size)
    wrong = np.flatnonzero(counted != features.token_counts)
    return [f"the training counts of {len(wrong)} words are wrong"] if len(wrong) else []


def _check_overlap(features: Features) -> list[str]:
    """A text of the splits that models are scored on would be learnt by heart."""
    if get_source(features.dataset).shares_texts:
        return []
    learnt = cut_splits(features.splits)
    owners: dict[bytes, str] = {}
    for split in features.splits:
        if split not in learnt:
            owners.update((_text_digest(row), split) for row in features.table(split)["tokens"].to_pylist())
    shared: Counter[tuple[str, str]] = Counter()
    for split in learnt:
        for row in features.table(split)["tokens"].to_pylist():
            if owner := owners.get(_text_digest(row)):
                shared[owner, split] += 1
    return [
        counted(n, f"text of `{owner}` is also in `{split}`", f"texts of `{owner}` are also in `{split}`")
        for (owner, split), n in sorted(shared.items())
    ]


def _text_digest(tokens: list[str]) -> bytes:
    return hashlib.sha256("\0".join(tokens).encode()).digest()

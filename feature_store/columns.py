"""Columns of the cached tables, and cheap checks that what a file holds can be read without going astray."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from feature_store.errors import DamagedCacheError
from feature_store.sources.base import TaskKind
from feature_store.sources.staged_columns import staged_schema
from feature_store.targets import NO_SIDES, column_of

VOCABULARY_SCHEMA = pa.schema([pa.field("token", pa.string()), pa.field("count", pa.int64())])
"""Arrow schema of the words and how often each stands in train."""


def table_schema(kind: TaskKind, sides: Mapping[str, TaskKind] = NO_SIDES) -> pa.Schema:
    """Arrow schema of `Features.table`: the staged columns and `token_ids` (int32, one per token)."""
    return staged_schema(kind, sides).insert(2, pa.field("token_ids", pa.list_(pa.int32()), nullable=False))


def check_layout(table: pa.Table, schema: pa.Schema, path: Path) -> None:
    """Columns, their types and nulls, and that each buffer is as large as the rows need; reads no data.

    Raises:
        DamagedCacheError: if the file holds something else.
    """
    if not table.schema.equals(schema):
        raise DamagedCacheError(
            f"expected the columns of the schema, but got {table.schema.names}", where=str(path)
        )
    check_values(table, path, every=False)
    if holed := [field.name for field in schema if not field.nullable and table[field.name].null_count]:
        raise DamagedCacheError(f"entries of `{holed[0]}` are missing", where=str(path))


def check_values(table: pa.Table, path: Path, *, every: bool = True) -> None:
    """Every offset and text of a table: what reading it needs, lest it read beyond the file.

    Args:
        every: whether to read them; else the sizes of buffers alone are checked.

    Raises:
        DamagedCacheError: if one is wrong.
    """
    try:
        table.validate(full=every)
    except pa.ArrowInvalid as error:
        raise DamagedCacheError(f"not a valid table ({error})", where=str(path)) from error


def check_numbers(
    table: pa.Table,
    num_words: int,
    num_classes: int | None,
    path: Path,
    side_classes: Mapping[str, int | None] = MappingProxyType({}),
) -> None:
    """That numbers of words, targets and positions of rationales point at what is there.

    Args:
        table: one split, whose offsets `check_values` found right.
        num_words: words of the vocabulary, V.
        num_classes: of a classification; None for a regression.
        side_classes: the same for each side target, by its name.

    Raises:
        DamagedCacheError: if one points elsewhere.
    """
    targets = {"target": num_classes, **{column_of(name): number for name, number in side_classes.items()}}
    for batch in table.to_batches():
        lengths, ids = _lists(batch.column("token_ids"))
        right = {
            # <pad>, 0, is the number of no token
            "token_ids": lengths.min(initial=1) > 0
            and ids.min(initial=1) > 0
            and ids.max(initial=1) < num_words,
            "tokens": np.array_equal(lengths, _lists(batch.column("tokens"))[0]),
            **{name: _fits(batch.column(name), number) for name, number in targets.items()},
            "rationale": _point_into(batch.column("rationale"), lengths),
        }
        if wrong := [name for name, is_right in right.items() if not is_right]:
            raise DamagedCacheError(f"numbers in `{wrong[0]}` are out of range", where=str(path))


def _fits(column: pa.Array, num_classes: int | None) -> bool:
    """Whether targets are scores in [0, 1], or numbers of classes."""
    target = column.to_numpy()
    highest = 1 if num_classes is None else num_classes - 1
    return bool(((target >= 0) & (target <= highest)).all())


def _lists(column: pa.ListArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Length of each list, and the entries of all; nothing for entries that are no numbers."""
    offsets = column.offsets.to_numpy()
    entries = column.values.slice(offsets[0], offsets[-1] - offsets[0])
    numbers = entries.to_numpy() if pa.types.is_integer(entries.type) else np.empty(0)
    return np.diff(offsets), numbers


def _point_into(rationales: pa.ListArray, lengths: npt.NDArray[np.int64]) -> bool:
    """Whether the positions of each rationale ascend and stay within its text's length."""
    marked, positions = _lists(rationales)
    rows = np.repeat(np.arange(len(marked)), marked)
    step_back = (np.diff(positions.astype(np.int64)) < 1) & (np.diff(rows) == 0)
    return not step_back.any() and bool((positions < lengths[rows]).all())

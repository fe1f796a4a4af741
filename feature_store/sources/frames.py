"""Rows as frames: lines of files, and the columns in which sources hand examples over, many at a time."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import polars as pl

from feature_store.errors import UserError
from feature_store.sources.base import Example, TaskKind
from feature_store.sources.lines import text_blocks
from feature_store.targets import NO_SIDES, column_of

_T = TypeVar("_T")

CHUNK_ROWS = 2048
"""Examples that are held as Python objects."""
_BLANK = r"^[ \t\r\x0b\x0c]*$"


def line_frames(path: Path, *, max_bytes: int) -> Iterator[pl.DataFrame]:
    """Lines of a text file in UTF-8, those that `read_lines` gives, many at a time.

    Returns:
        Columns `line`, the number, and `raw`.

    Raises:
        MissingDataError, BadInputError: as `read_lines`; the lines before an error come first.
    """
    for first, text in text_blocks(path, max_bytes=max_bytes):
        raw = pl.col("raw")
        lines = pl.DataFrame({"raw": [text]}).select(raw.str.split("\n").explode())
        ends = raw.str.strip_chars_end("\r") if "\r" in text else raw
        yield lines.with_row_index("line", offset=first).with_columns(
            raw=pl.when(raw.str.contains(_BLANK)).then(pl.lit("")).otherwise(ends)
        )


def in_chunks(items: Iterable[_T]) -> Iterator[list[_T]]:
    """The items in lists of `CHUNK_ROWS`; those before an error come before it."""
    chunk: list[_T] = []
    try:
        for item in items:
            chunk.append(item)
            if len(chunk) >= CHUNK_ROWS:
                yield chunk
                chunk = []
    except UserError:
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def frames_of(
    examples: Iterable[Example], kind: TaskKind, sides: Mapping[str, TaskKind] = NO_SIDES
) -> Iterator[pl.DataFrame]:
    """Examples in frames of the staged columns and `split`.

    Args:
        examples: whose `side_targets` are those of `sides`.
    """
    schema: dict[str, pl.DataType] = {
        "example_id": pl.String(),
        "tokens": pl.List(pl.String),
        "target": pl.Float32() if kind == "regression" else pl.Int32(),
        "rationale": pl.List(pl.UInt32),  # more than a table holds, for a text may be cut
        "groups": pl.List(pl.String),
        "split": pl.String(),
    }
    for chunk in in_chunks(examples):
        columns = {name: [getattr(example, name) for example in chunk] for name in schema}
        frame = pl.DataFrame(columns, schema=schema)
        yield frame.with_columns(
            pl.Series(
                column_of(name),
                [example.side_targets[number] for example in chunk],
                pl.Float32() if side == "regression" else pl.Int32(),
            )
            for number, (name, side) in enumerate(sides.items())
        )

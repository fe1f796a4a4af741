"""What a source must deliver, row by row; the tables' columns stand in `feature_store.columns`."""

from collections.abc import Iterable

import dataframely as dy
import polars as pl
import pyarrow as pa

from feature_store.errors import BadInputError
from feature_store.sources.base import TABLES, TaskKind
from feature_store.wording import counted

MAX_TOKENS = 2**16
"""Rationale positions are stored in 16 bits."""


class RationaleExample(dy.Schema):
    """One text of any source."""

    example_id = dy.String(primary_key=True, min_length=1)
    split = dy.Enum(list(TABLES), nullable=False)
    tokens = dy.List(
        dy.String(nullable=False, min_length=1), nullable=False, min_length=1, max_length=MAX_TOKENS
    )
    rationale = dy.List(dy.UInt16(nullable=False), nullable=True)  # null where nobody annotated
    groups = dy.List(dy.String(nullable=False, min_length=1), nullable=False)

    @dy.rule()
    def rationale_points_into_tokens(cls) -> pl.Expr:  # noqa: N805
        """Every position is that of a token."""
        return pl.col("rationale").is_null() | (
            pl.col("rationale").list.max().fill_null(0) < pl.col("tokens").list.len()
        )

    @dy.rule()
    def rationale_ascends(cls) -> pl.Expr:  # noqa: N805
        """No position stands twice, and they are in order."""
        return pl.col("rationale").is_null() | (
            pl.col("rationale")
            .list.eval(pl.element().cast(pl.Int32).diff(null_behavior="drop") > 0)
            .list.all()
        )


class RegressionExample(RationaleExample):
    """A text with a score."""

    target = dy.Float32(nullable=False, min=0.0, max=1.0)


class ClassificationExample(RationaleExample):
    """A text with a class number."""

    target = dy.Int32(nullable=False, min=0)


_SCHEMAS: dict[TaskKind, type[RationaleExample]] = {
    "regression": RegressionExample,
    "classification": ClassificationExample,
}


def check_keys(example_ids: Iterable[pa.Array], split: str) -> None:
    """Check that every id of a split stands in it once, whatever the chunks that the rows come in.

    Args:
        example_ids: the column, a chunk at a time.
        split: that they are of.

    Raises:
        BadInputError: naming the first id that stands there again.
    """
    ids = pl.Series("id", pa.chunked_array(list(example_ids), pa.string()))
    repeated = ids.is_duplicated()
    if repeated.any():
        raise BadInputError(
            f"{counted(int(repeated.sum()), 'row breaks', 'rows break')} `primary_key`; "
            f"the first is `{ids.filter(repeated)[0]}`",
            where=f"split `{split}`",
        )


def validate(batch: pa.RecordBatch, split: str, kind: TaskKind) -> None:
    """Check rows of one split against the schema; of the key, whether it stands once among these rows.

    Raises:
        BadInputError: naming the broken rule and the first example that breaks it.
    """
    frame = pl.DataFrame(pl.from_arrow(batch)).with_columns(
        pl.lit(split, dtype=pl.Enum(list(TABLES))).alias("split")
    )
    valid, failures = _SCHEMAS[kind].filter(frame)
    if len(valid) == len(frame):
        return
    rules = ", ".join(f"`{rule}`" for rule in sorted(failures.counts()))
    first = failures.invalid()["example_id"][0]
    raise BadInputError(
        f"{counted(len(frame) - len(valid), 'row breaks', 'rows break')} {rules}; the first is `{first}`",
        where=f"split `{split}`",
    )

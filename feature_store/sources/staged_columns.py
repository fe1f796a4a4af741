"""Columns in which sources hand their rows over."""

from collections.abc import Mapping

import pyarrow as pa

from feature_store.sources.base import TaskKind
from feature_store.targets import NO_SIDES, column_of


def staged_schema(kind: TaskKind, sides: Mapping[str, TaskKind] = NO_SIDES) -> pa.Schema:
    """Arrow schema of the rows before their tokens have numbers."""
    return pa.schema(
        [
            pa.field("example_id", pa.string(), nullable=False),
            pa.field("tokens", pa.list_(pa.string()), nullable=False),
            pa.field("target", _type(kind), nullable=False),
            pa.field("rationale", pa.list_(pa.uint16())),
            pa.field("groups", pa.list_(pa.string()), nullable=False),
            *(pa.field(column_of(name), _type(side), nullable=False) for name, side in sides.items()),
        ]
    )


def _type(kind: TaskKind) -> pa.DataType:
    return pa.float32() if kind == "regression" else pa.int32()

"""Columns in which sources hand their rows over."""

import pyarrow as pa

from feature_store.sources.base import TaskKind


def staged_schema(kind: TaskKind) -> pa.Schema:
    """Arrow schema of the rows before their tokens have numbers."""
    return pa.schema(
        [
            pa.field("example_id", pa.string(), nullable=False),
            pa.field("tokens", pa.list_(pa.string()), nullable=False),
            pa.field("target", pa.float32() if kind == "regression" else pa.int32(), nullable=False),
            pa.field("rationale", pa.list_(pa.uint16())),
            pa.field("groups", pa.list_(pa.string()), nullable=False),
        ]
    )

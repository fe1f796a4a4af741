"""Rows that break the schema do not get in."""

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from feature_store.columns import table_schema
from feature_store.errors import BadInputError
from feature_store.schema import check_keys, validate
from feature_store.sources.staged_columns import staged_schema

ROW = {"example_id": "1", "tokens": ["a", "b"], "target": 0.5, "rationale": [0, 1], "groups": []}


def check(*changes: dict[str, Any], kind: Any = "regression", split: str = "test") -> None:
    rows = [{**ROW, "example_id": str(number), **change} for number, change in enumerate(changes)]
    schema = pa.schema([field.with_nullable(True) for field in staged_schema(kind)])
    validate(pl.DataFrame(pa.RecordBatch.from_pylist(rows, schema=schema)), split, kind)


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"rationale": None},
        {"rationale": []},
        {"rationale": [1]},
        {"target": 0.0},
        {"target": 1.0},
        {"tokens": ["a", "é", "\U0001f37a"]},
    ],
)
def test_good_rows_get_in(change: dict[str, Any]):
    check(change)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"rationale": [0, 2]}, "rationale_points_into_tokens"),
        ({"rationale": [1, 0]}, "rationale_ascends"),
        ({"rationale": [0, 0]}, "rationale_ascends"),
        ({"rationale": [0, None]}, r"rationale\|inner_nullability"),
        ({"tokens": []}, r"tokens\|min_length"),
        ({"tokens": None}, r"tokens\|nullability"),
        ({"tokens": ["a", None]}, r"tokens\|inner_nullability"),
        ({"tokens": ["a", ""]}, r"tokens\|inner_min_length"),
        ({"target": -0.01}, r"target\|min"),
        ({"target": 1.7}, r"target\|max"),
        ({"target": float("nan")}, r"target\|(nan|max|min)"),
        ({"target": None}, r"target\|nullability"),
        ({"example_id": ""}, r"example_id\|min_length"),
    ],
)
def test_bad_rows_are_named_with_the_rule(change: dict[str, Any], rule: str):
    with pytest.raises(BadInputError, match=f"split `val`: 1 row violates .*`{rule}`"):
        check({}, change, {}, split="val")


def test_the_first_bad_row_is_named():
    with pytest.raises(
        BadInputError, match="2 rows violate `rationale_points_into_tokens`; the first is `1`"
    ):
        check({}, {"rationale": [7]}, {"rationale": [8]})


def test_an_id_stands_once():
    with pytest.raises(BadInputError, match="2 rows violate `primary_key`; the first is `7`"):
        check({"example_id": "7"}, {"example_id": "7"})


def test_classes_are_not_negative():
    check({"target": 3}, kind="classification")
    with pytest.raises(BadInputError, match=r"violates `target\|min`"):
        check({"target": -1}, kind="classification")


@pytest.mark.parametrize(("kind", "target"), [("regression", pa.float32()), ("classification", pa.int32())])
def test_columns_of_a_table(kind: Any, target: pa.DataType):
    schema = table_schema(kind)
    assert {field.name: field.type for field in schema} == {
        "example_id": pa.string(),
        "tokens": pa.list_(pa.string()),
        "token_ids": pa.list_(pa.int32()),
        "target": target,
        "rationale": pa.list_(pa.uint16()),
        "groups": pa.list_(pa.string()),
    }
    assert [field.name for field in schema if field.nullable] == ["rationale"]


@pytest.mark.parametrize("distance", [1, 2047, 2048, 2049, 5000])
def test_an_id_stands_once_whatever_the_chunk_that_it_is_in(distance: int):
    ids = [f"text {number}" for number in range(6000)]
    ids[17 + distance] = ids[17]
    chunks = [pa.array(ids[first : first + 2048]) for first in range(0, len(ids), 2048)]
    with pytest.raises(BadInputError, match="2 rows violate `primary_key`; the first is `text 17`"):
        check_keys(chunks, "train")
    ids[17 + distance] = "another"
    check_keys([pa.array(ids)], "train")

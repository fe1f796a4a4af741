"""Checks beyond digests: a folder may be whole and still be wrong."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from feature_store import cache
from feature_store.checks import check_features, summary
from feature_store.errors import DamagedCacheError
from feature_store.store import Features, load_features


def rewrite(features: Features, split: str, table: pa.Table) -> Features:
    """The features with another table in one split, and digests that fit."""
    path = features.directory / f"{split}.arrow"
    cache.write_table(path.with_suffix(".new"), table)
    path.with_suffix(".new").replace(path)  # not in place: the old file is mapped
    return _sign(features)


def _sign(features: Features) -> Features:
    directory = features.directory
    files = cache.describe_files(directory, list(features.manifest.files))
    manifest = cache.Manifest(fingerprint=features.fingerprint, files=files, meta=features.manifest.meta)
    cache.write_manifest(directory / cache.MANIFEST, manifest)
    return load_features(directory, verify=True)


def replace(table: pa.Table, name: str, values: list[object]) -> pa.Table:
    position = table.schema.get_field_index(name)
    return table.set_column(
        position, table.schema.field(name), pa.array(values, table.schema.field(name).type)
    )


def test_an_id_that_stands_again_in_another_chunk_is_named(features: Features):
    table = features.table("train")
    ids = table["example_id"].to_pylist()
    twice = replace(table, "example_id", [*ids[:-1], ids[0]]).to_batches(max_chunksize=len(ids) // 2)
    wrong = rewrite(features, "train", pa.Table.from_batches(twice))
    assert f"`train`: 2 rows violate `primary_key`; the first is `{ids[0]}`" in check_features(wrong)


def test_built_features_are_right(features: Features):
    assert check_features(features) == []


def test_other_columns_are_named(features: Features):
    left = ["example_id", "tokens", "token_ids", "rationale", "groups"]
    with pytest.raises(
        DamagedCacheError, match=re.escape(f"val.arrow: expected the columns of the schema, but got {left}")
    ):
        rewrite(features, "val", features.table("val").drop(["target"]))


def test_a_row_against_the_schema_is_named(features: Features):
    table = features.table("test")
    wrong = rewrite(features, "test", replace(table, "groups", [[""], *table["groups"].to_pylist()[1:]]))
    first = table["example_id"][0]
    assert check_features(wrong) == [
        f"`test`: 1 row violates `groups|inner_min_length`; the first is `{first}`"
    ]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("target", 7.0), ("target", float("nan")), ("rationale", [10_000]), ("rationale", [1, 0])),
        *(("token_ids", [0]), ("token_ids", []), ("tokens", ["one more"] * 200)),
    ],
)
def test_numbers_that_point_nowhere_are_found_when_a_table_is_read(
    features: Features, column: str, value: object
):
    table = features.table("val")
    wrong = rewrite(features, "val", replace(table, column, [value, *table[column].to_pylist()[1:]]))
    named = "tokens" if column == "token_ids" and not value else column
    with pytest.raises(
        DamagedCacheError, match=f"val.arrow: numbers in `(token_ids|{named})` are out of range"
    ):
        wrong.table("val")
    assert wrong.table("test").num_rows > 0


def test_wrong_token_numbers_are_named(features: Features):
    table = features.table("val")
    ids = table["token_ids"].to_pylist()
    wrong = rewrite(features, "val", replace(table, "token_ids", [ids[0][::-1], *ids[1:]]))
    first = table["example_id"][0]
    assert check_features(wrong) == [f"`val`: the token ids of `{first}` do not match the vocabulary"]


def test_wrong_counts_are_named(features: Features):
    table = features.table("train")
    wrong = rewrite(features, "train", table.slice(1))
    missing = len(set(table["token_ids"][0].as_py()))
    assert check_features(wrong) == [f"the training counts of {missing} words are wrong"]


@pytest.mark.parametrize("split", ["train", "val"])
def test_an_annotated_text_in_training_is_named(features: Features, split: str):
    row = features.table("test").slice(0, 1).cast(features.table(split).schema)
    wrong = rewrite(features, split, pa.concat_tables([features.table(split), row]))
    assert f"1 text of `test` is also in `{split}`" in check_features(wrong)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("nan", "2 entries of the word vectors are not finite"),
        ("padding", "the vector of padding is not zero"),
    ],
)
def test_wrong_vectors_are_named(features: Features, change: str, message: str):
    matrix = np.array(features.embeddings)
    if change == "nan":
        matrix[5, :2] = np.nan
    else:
        matrix[0, 1] = 0.5
    np.save(features.directory / "embeddings.npy", matrix)
    (problem,) = check_features(_sign(features))
    assert re.fullmatch(message, problem)


@pytest.mark.parametrize("kind", ["fewer", "flat", "double", "archive", "header"])
def test_vectors_of_another_form_are_found_at_open(features: Features, kind: str):
    path = features.directory / "embeddings.npy"
    matrix = np.array(features.embeddings)
    if kind == "archive":
        np.savez(path.with_suffix(".npz"), matrix)
        path.with_suffix(".npz").replace(path)
    elif kind == "header":
        path.write_bytes(path.read_bytes().replace(b"'shape': (", b"'shape':((", 1))
    else:
        np.save(path, {"fewer": matrix[:3], "flat": matrix[:, 0], "double": matrix.astype(np.float64)}[kind])
    other = {"archive": "the folder cannot be read", "header": "not a readable array"}
    message = other.get(kind, r"word vectors of type float\d+ and shape")
    with pytest.raises(DamagedCacheError, match=message):
        _sign(features)


def test_summary_counts_only_annotated_texts(features: Features, annotations: Path):
    numbers = summary(features)
    assert list(numbers) == list(features.splits)
    assert numbers["train"]["rationale_rate"] is None
    assert numbers["train"]["annotated_rows"] == 0
    assert numbers["train"]["tokens"] == sum(map(len, features.table("train")["tokens"].to_pylist()))
    rows = [row for row in features.table("test").to_pylist() if row["rationale"] is not None]
    assert numbers["test"]["rows"] == features.table("test").num_rows > len(rows)
    assert numbers["test"]["annotated_rows"] == len(rows)
    expected = sum(len(row["rationale"]) for row in rows) / sum(len(row["tokens"]) for row in rows)
    assert numbers["test"]["rationale_rate"] == pytest.approx(expected)

"""What each annotator marked in training texts: a table beside the features, outside of their fingerprint."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from feature_store.cache import open_table
from feature_store.derived_tables import write_staged
from feature_store.recipe import Recipe
from feature_store.sources.base import TellsAnnotatorsApart

STEP, VERSION = "annotator_shares", 1


def build_shares(stage: Path, recipe: Recipe) -> None:
    """Write the table beside a finished `train.arrow`, where the source tells annotators apart."""
    if not isinstance(recipe.source, TellsAnnotatorsApart):
        return
    shares = recipe.source.annotator_shares(recipe.query)
    train = open_table(stage / "train.arrow")
    ids = train["example_id"].to_pylist()
    lengths = pc.list_value_length(train["token_ids"]).to_pylist()
    write_staged(stage, recipe.fingerprint, STEP, VERSION, {}, _table(shares, ids, lengths))


def _table(shares: Mapping[str, Sequence[float]], ids: Sequence[str], lengths: Sequence[int]) -> pa.Table:
    rows = [
        None if (found := shares.get(name)) is None else found[:length]
        for name, length in zip(ids, lengths, strict=True)
    ]
    return pa.table({STEP: pa.array(rows, pa.list_(pa.float32()))})

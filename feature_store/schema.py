"""What a source must deliver, row by row; the tables' columns stand in `feature_store.columns`."""

from collections.abc import Iterable, Mapping

import polars as pl
import pyarrow as pa

from feature_store.errors import BadInputError
from feature_store.sources.base import TaskKind
from feature_store.targets import NO_SIDES, column_of
from feature_store.wording import counted

MAX_TOKENS = 2**16
"""Rationale positions are stored in 16 bits."""


def _entries(name: str, is_broken: pl.Expr) -> pl.Expr:
    return pl.col(name).list.eval(is_broken).list.any()


_ENTRY = pl.element()
_IS_MISSING, _IS_EMPTY = _ENTRY.is_null(), _ENTRY.str.len_bytes() == 0
_LENGTH = pl.col("tokens").list.len()

_RULES: dict[str, pl.Expr] = {
    "primary_key": pl.col("example_id").is_duplicated(),
    **{
        f"{name}|nullability": pl.col(name).is_null() for name in ("example_id", "tokens", "groups", "target")
    },
    "example_id|min_length": pl.col("example_id").str.len_bytes() == 0,
    "tokens|min_length": _LENGTH == 0,
    "tokens|max_length": _LENGTH > MAX_TOKENS,
    **{
        f"{name}|inner_nullability": _entries(name, _IS_MISSING) for name in ("tokens", "rationale", "groups")
    },
    **{f"{name}|inner_min_length": _entries(name, _IS_EMPTY) for name in ("tokens", "groups")},
    "target|min": pl.col("target") < 0,
    "rationale_points_into_tokens": pl.col("rationale").list.max() >= _LENGTH,
    "rationale_ascends": _entries("rationale", _ENTRY.cast(pl.Int32).diff(null_behavior="drop") <= 0),
}
"""Name of each rule, and where a row breaks it; null counts as kept."""


def _kind_rules(kind: TaskKind, column: str = "target") -> dict[str, pl.Expr]:
    """What the numbers of a target must keep besides being there and not below 0."""
    if kind == "classification":
        return {}
    return {f"{column}|max": pl.col(column) > 1, f"{column}|nan": pl.col(column).is_nan()}


def _side_rules(sides: Mapping[str, TaskKind]) -> dict[str, pl.Expr]:
    rules: dict[str, pl.Expr] = {}
    for name, kind in sides.items():
        column = column_of(name)
        rules |= {f"{column}|nullability": pl.col(column).is_null(), f"{column}|min": pl.col(column) < 0}
        rules |= _kind_rules(kind, column)
    return rules


def check_keys(example_ids: Iterable[pa.Array], split: str) -> None:
    """Check that every id of a split, given in chunks, stands in it once.

    Raises:
        BadInputError: naming the first id that stands there again.
    """
    ids = pl.Series("id", pa.chunked_array(list(example_ids), pa.string()))
    repeated = ids.is_duplicated()
    if repeated.any():
        raise BadInputError(
            f"{counted(int(repeated.sum()), 'row violates', 'rows violate')} `primary_key`; "
            f"the first is `{ids.filter(repeated)[0]}`",
            where=f"split `{split}`",
        )


def validate(
    rows: pl.DataFrame, split: str, kind: TaskKind, sides: Mapping[str, TaskKind] = NO_SIDES
) -> None:
    """Check rows of one split against the rules; of the key, whether it stands once among these rows.

    Raises:
        BadInputError: naming the broken rules and the first example that breaks one.
    """
    rules = _RULES | _kind_rules(kind) | _side_rules(sides)
    if not any(rows.select(**{name: rule.any() for name, rule in rules.items()}).row(0)):
        return
    broken = rows.select(**{name: rule.fill_null(False) for name, rule in rules.items()})
    names = ", ".join(f"`{name}`" for name in sorted(broken.columns) if broken[name].any())
    is_bad = broken.select(pl.any_horizontal(pl.all())).to_series()
    first = rows["example_id"].filter(is_bad)[0]
    raise BadInputError(
        f"{counted(int(is_bad.sum()), 'row violates', 'rows violate')} {names}; the first is `{first}`",
        where=f"split `{split}`",
    )

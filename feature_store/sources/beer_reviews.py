"""The review files of beer, read as frames: five scores, a tab and the tokens a line."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import polars as pl

from feature_store.errors import BadInputError
from feature_store.sources.beer_scores import NUM_SCORES, check_scores
from feature_store.sources.frames import line_frames

_SCORES = [f"score_{number}" for number in range(NUM_SCORES)]
_NO_SIDES: Mapping[str, int] = MappingProxyType({})
_PLAIN = r"^[0-9.]+(?: [0-9.]+){4}$"
"""Scores as the official files have them; other ways to write them are looked at one by one."""


def read_reviews(path: Path, max_bytes: int) -> Iterator[pl.DataFrame]:
    """All reviews of one file, in its order, a chunk at a time.

    Returns:
        Columns `place` (`FILE:LINE`), `scores` (array of five Float64) and `text`, the tokens with a blank
        between them.

    Raises:
        BadInputError: at the first line that breaks the format.
    """
    stem = path.name.removesuffix(".gz").removesuffix(".txt")
    for lines in line_frames(path, max_bytes=max_bytes):
        yield _parse(lines, path).select(
            pl.format("{}:{}", pl.lit(stem), "line").alias("place"),
            pl.concat_arr(_SCORES).alias("scores"),
            "text",
        )


def example_columns(
    reviews: pl.DataFrame, aspect: int, splits: str | Sequence[str], sides: Mapping[str, int] = _NO_SIDES
) -> pl.DataFrame:
    """Reviews as examples without a rationale.

    Args:
        reviews: as `read_reviews` gives them.
        aspect: number of the score to predict.
        splits: one for all, or one for each.
        sides: column of each side target -> number of its score.
    """
    return reviews.select(
        example_id="place",
        tokens=pl.col("text").str.split(" "),
        target=pl.col("scores").arr.get(aspect).cast(pl.Float32),
        rationale=pl.lit(None, pl.List(pl.UInt32)),
        groups=pl.lit([], pl.List(pl.String)),
        split=pl.lit(splits) if isinstance(splits, str) else pl.Series(splits, dtype=pl.String),
        **{name: pl.col("scores").arr.get(number).cast(pl.Float32) for name, number in sides.items()},
    )


def _parse(lines: pl.DataFrame, path: Path) -> pl.DataFrame:
    """Columns of scores, and `text`; a line in another form than the usual one is parsed by itself."""
    parts = lines.with_columns(
        pl.col("raw").str.splitn("\t", 2).struct.rename_fields(["head", "text"])
    ).unnest("raw")
    if parts["text"].str.contains("  ", literal=True).any():
        parts = parts.with_columns(pl.col("text").str.replace_all(" {2,}", " "))
    parts = parts.with_columns(
        pl.col("text").str.strip_chars(" "),
        pl.col("head").str.contains(_PLAIN).alias("is_plain"),
        pl.col("head").str.split_exact(" ", NUM_SCORES - 1).struct.rename_fields(_SCORES),
    ).unnest("head")
    parts = parts.with_columns(pl.col(_SCORES).cast(pl.Float64, strict=False))
    is_usual = pl.all_horizontal("is_plain", pl.col("text") != "", *(pl.col(name) <= 1 for name in _SCORES))
    odd = parts.with_row_index("row").filter(~is_usual.fill_null(False))["row"]
    if not len(odd):
        return parts
    found = [_parse_review(raw, f"{path}:{line}") for line, raw in lines[odd].iter_rows()]
    columns = [*zip(*(scores for scores, _ in found), strict=True), [" ".join(tokens) for _, tokens in found]]
    for name, values in zip([*_SCORES, "text"], columns, strict=True):
        parts = parts.with_columns(parts[name].scatter(odd, pl.Series(values, dtype=parts[name].dtype)))
    return parts


def _parse_review(line: str, where: str) -> tuple[list[float], list[str]]:
    head, tab, text = line.partition("\t")
    if not tab:
        given = "an empty line" if not line else f"no tab in {line[:40]!r}"
        raise BadInputError(
            f"expected {NUM_SCORES} scores, a tab and the tokens, but got {given}", where=where
        )
    scores = check_scores(head.split(), where)
    tokens = [token for token in text.split(" ") if token]
    if not tokens:
        raise BadInputError(f"expected tokens after the tab, but got {text[:40]!r}", where=where)
    return scores, tokens

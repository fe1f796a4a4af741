"""Rows of a build on their way: cut, checked, their words counted, and kept with codes in place of words."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa

from feature_store.cache import as_arrow, open_table
from feature_store.errors import BadInputError
from feature_store.recipe import Recipe
from feature_store.schema import MAX_TOKENS, check_keys, validate
from feature_store.scripts import clauses
from feature_store.sources.base import Report, TaskSpec, cut_splits, word_splits
from feature_store.sources.staged_columns import staged_schema
from feature_store.wording import counted
from feature_store.words import WordCodes, WordCounts


class _SplitWriter:
    """Writes the rows of one table."""

    def __init__(
        self, path: Path, split: str, spec: TaskSpec, max_length: int | None, raw_files: str
    ) -> None:
        schema = staged_schema(spec.kind, spec.side_kinds)
        codes = pa.field("codes", pa.list_(pa.uint32()), nullable=False)
        self._schema = schema.set(schema.get_field_index("tokens"), codes)
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, self._schema)
        self._split, self._spec, self._max_length = split, spec, max_length
        self._raw_files = raw_files
        self.words = WordCounts()
        self.counts: Counter[str] = Counter()
        self.longest = self.needed = 0

    def add(self, rows: pl.DataFrame, codes: WordCodes) -> None:
        """Cut, check, count and write rows of the staged columns."""
        if self._max_length is not None:
            rows = self._cut(rows, self._max_length)
        lengths = rows["tokens"].list.len()
        if (too_long := lengths > MAX_TOKENS).any():
            name, length = rows["example_id"].filter(too_long)[0], lengths.filter(too_long)[0]
            raise BadInputError(
                f"the text of example `{name[:60]}` has {counted(length, 'token')}; "
                f"at most {MAX_TOKENS} are supported",
                where=self._raw_files,
            )
        validate(rows, self._split, self._spec.kind, self._spec.side_kinds)
        self.counts["rows"] += len(rows)
        self.counts["tokens"] += int(lengths.sum())
        self.counts["rationale_tokens"] += int(rows["rationale"].list.len().sum())
        found = codes.encode(rows["tokens"].explode())
        self.words.add(found)
        offsets = np.concatenate([[0], lengths.cum_sum().to_numpy()]).astype(np.int32)
        columns = rows.drop("tokens").to_arrow(compat_level=pl.CompatLevel.oldest())
        arrays = [
            pa.ListArray.from_arrays(as_arrow(offsets), as_arrow(found))
            if field.name == "codes"
            else columns[field.name].combine_chunks().cast(field.type)
            for field in self._schema
        ]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=self._schema))

    def _cut(self, rows: pl.DataFrame, limit: int) -> pl.DataFrame:
        """The beginnings; a text that loses all that humans marked counts as one that nobody annotated."""
        lengths = rows["tokens"].list.len()
        if not (lengths > limit).any():
            return rows
        self.counts["cut"] += int((lengths > limit).sum())
        self.longest = max(self.longest, int(lengths.to_numpy().max()))
        rationale, entry = pl.col("rationale"), pl.element()
        rows = rows.with_columns(
            pl.col("tokens").list.head(limit),
            # a row that has nothing to lose keeps an empty rationale
            is_lost=(pl.lit(lengths > limit) & (rationale.list.last() >= limit)).fill_null(False),
        )
        lost = rows.filter("is_lost").select(
            needed=rationale.list.last() + 1,
            num=rationale.list.eval(entry >= limit).list.sum(),
            is_whole=rationale.list.first() >= limit,
        )
        if not len(lost):
            return rows.drop("is_lost")
        whole = int(lost["is_whole"].sum())
        self.needed = max(self.needed, int(lost["needed"].to_numpy().max()))
        self.counts["cut_rationale_tokens"] += int(lost["num"].sum())
        changed = {"cut_whole_rationale": whole, "cut_part_of_rationale": len(lost) - whole}
        self.counts.update({name: number for name, number in changed.items() if number})
        kept = pl.when("is_lost").then(rationale.list.eval(entry.filter(entry < limit))).otherwise(rationale)
        rows = rows.with_columns(kept.alias("rationale"))
        is_whole = pl.col("is_lost") & (rationale.list.len() == 0)
        return rows.with_columns(pl.when(~is_whole).then(rationale).alias("rationale")).drop("is_lost")

    def note(self) -> str | None:
        """What was cut off, and which setting keeps it; None where every text is whole."""
        counts = self.counts
        if not counts["cut"]:
            return None
        those = f"of {counts['rows']} texts of `{self._split}`"
        said = (
            f"{counted(counts['cut'], f'{those} is', f'{those} are')} longer than "
            f"{counted(self._max_length or 0, 'token')} and cut to this length; the longest has "
            f"{self.longest}"
        )
        lost = counts["cut_rationale_tokens"]
        if not lost:
            return f"{said} (`--set max_length=N` sets the limit)"
        marked = lost + counts["rationale_tokens"]
        return (
            f"{said}. This loses {lost} of {marked} tokens that humans marked ({lost / marked:.1%}): "
            f"{counted(counts['cut_part_of_rationale'], 'text loses', 'texts lose')} a part of the "
            f"rationale and {counts['cut_whole_rationale']} the whole rationale; "
            f"`--set max_length={self.needed}` keeps all of them"
        )

    def close(self) -> None:
        self._writer.close()
        self._sink.close()


def stage_rows(stage: Path, recipe: Recipe, spec: TaskSpec, report: Report) -> pl.DataFrame:
    """Parse the raw files into one file of rows per table.

    Returns:
        The words of all tables by their codes: columns `word` and `count`, that among the words to learn.
    """
    limit = int(recipe.parameters["max_length"])
    splits = recipe.tables
    cut = cut_splits(splits)
    files = raw_files(recipe)
    codes = WordCodes()
    writers = {
        split: _SplitWriter(staged_file(stage, split), split, spec, limit if split in cut else None, files)
        for split in splits
    }
    try:
        for frame in recipe.source.frames(recipe.query, spec, report):
            for rows in frame.partition_by("split", maintain_order=True):
                writers[rows["split"][0]].add(rows.drop("split"), codes)
    finally:
        for writer in writers.values():
            writer.close()
    for split, writer in writers.items():
        if not writer.counts["rows"]:
            sizes = ", ".join(f"{name} {one.counts['rows']:,}" for name, one in writers.items())
            raise BadInputError(
                f"too few examples: nothing is left for the split `{split}` ({sizes})",
                where=files,
                hint="add a `val` file, or more training texts. Without a `val` file, a hash chooses a "
                "tenth of the training texts as `val`; of 50 training texts, it chooses none in 1 of 200 "
                "cases"
                if split == "val" and "train" in recipe.inputs and "val" not in recipe.inputs
                else "put at least one text into every split",
            )
        check_keys(open_table(staged_file(stage, split))["example_id"].chunks, split)
        report.counts.update({f"{split}_{name}": count for name, count in writer.counts.items()})
        report.notes += filter(None, [writer.note()])
    words = codes.words(max(writer.words.num_codes for writer in writers.values()))
    counts = {split: writers[split].words.by_code(len(words)) for split in word_splits(splits)}
    found: Mapping[str, int] = dict(zip(words.to_list(), counts["train"].tolist(), strict=True))
    if note := clauses(found, spec.tokenizer or recipe.source.tokenizer):
        report.notes.append(note)
    return pl.DataFrame({"word": words, "count": sum(counts.values())})


def raw_files(recipe: Recipe) -> str:
    """The files that were read, for messages about all of them."""
    return ", ".join(str(path) for path in recipe.inputs.values())


def staged_file(stage: Path, split: str) -> Path:
    """Where `stage_rows` leaves the rows of a table, with codes of words in place of `tokens`."""
    return stage / f"staged-{split}.arrow"

"""What raw files hold, found out by reading them; no features are built, and nothing is left behind."""

import dataclasses
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from feature_store import build, staging, store
from feature_store.cache import open_table
from feature_store.recipe import Recipe
from feature_store.sources.base import Report, TaskKind
from feature_store.store import FeatureRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Size:
    """How much there is of one split."""

    rows: int
    """Texts."""
    tokens: int | None = None
    """Of all texts; None where the texts were not cut."""
    annotated: int = 0
    """Texts that a human marked, or found nothing to mark in."""
    marked: int = 0
    """Tokens in the human rationales."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Survey:
    """What was found."""

    kind: TaskKind
    sizes: Mapping[str, Size]
    """By split, or by raw file where texts have to be cut into words by jieba, which takes minutes."""
    seconds: float
    """What it took."""
    is_built: bool
    """Whether the features lie in the cache already, and were looked at in place of the files."""
    notes: list[str] = field(default_factory=list)


def survey(request: FeatureRequest) -> Survey:
    """Read and check every row that a build of these features would read.

    Features that lie in the cache are taken instead. Of the official files of a source that cuts words with
    jieba every line is checked, but no text is cut.

    Raises:
        UserError: as `feature_store.store.open_features`.
    """
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="infocal-survey-") as scratch:
        keeps = request.cache_dir.is_dir() and not request.sample
        asked = request if keeps else dataclasses.replace(request, cache_dir=Path(scratch) / "cache")
        recipe, directory = store.located(asked)
        features = store.load_if_whole(directory, recipe, False)
        if features is None:
            kind, sizes, notes = _of_rows(Path(scratch), recipe, request.sample)
        else:
            sizes = {split: _size(features.table(split)) for split in features.splits}
            kind, notes = features.task.kind, features.notes
    is_built, seconds = features is not None, time.monotonic() - start
    return Survey(kind=kind, sizes=sizes, seconds=seconds, is_built=is_built, notes=notes)


def _of_rows(scratch: Path, recipe: Recipe, sample: bool) -> tuple[TaskKind, dict[str, Size], list[str]]:
    """Kind of the task, sizes and notes."""
    report = Report(notes=list(recipe.notes))
    spec = recipe.source.task(recipe.query, report)
    if recipe.source.tokenizer == "jieba" and not sample:
        sizes = {role: Size(rows=number) for role, number in spec.num_cases.items()}
        return spec.kind, sizes, report.notes
    staging.stage_rows(scratch, recipe, spec, report)
    sizes = {
        split: _size(open_table(staging.staged_file(scratch, split)), "codes") for split in recipe.tables
    }
    build.task_info(staging.staged_file(scratch, "train"), spec, staging.raw_files(recipe))
    return spec.kind, sizes, report.notes


def _size(table: pa.Table, texts: str = "tokens") -> Size:
    marked = pc.list_value_length(table["rationale"]).to_numpy()  # NaN where nobody annotated
    return Size(
        rows=table.num_rows,
        tokens=int(pc.sum(pc.list_value_length(table[texts])).as_py() or 0),
        annotated=table.num_rows - table["rationale"].null_count,
        marked=int(np.nansum(marked)),
    )

"""What stands in the table of a comparison beside its entries, and the table's figures in MLflow."""

import functools
from collections.abc import Iterator
from pathlib import Path

from feature_store.masks import read_masks
from feature_store.store import Features
from feature_store.wording import counted
from infocal.errors import ConfigError
from pipeline.comparing.comparison_settings import ComparisonSettings
from pipeline.reporting.standings import Standings, StandingsRow, given_row
from pipeline.study.study_folder import StudyFolder
from pipeline.training import feature_copies
from pipeline.training.scoring import published_test
from pipeline.training.settings import RunSettings
from search_spaces import datasets, lookup
from search_spaces.datasets import PublishedMasks

TABLE = "table"
"""Begins the names of the files that hold the table, one for each format."""


def tables(folder: StudyFolder) -> list[str]:
    """The files in which a comparison's folder holds its table, one for each format."""
    return [str(folder.shown / path.name) for path in sorted(folder.directory.glob(f"{TABLE}.*"))]


def masks_of_others(prepared: ComparisonSettings) -> PublishedMasks | None:
    """What is known of masks that others published for this data set; None for the sample corpus."""
    return None if prepared.sample else datasets.dataset(prepared.runs[0].dataset).published_masks


def published_masks(prepared: ComparisonSettings, features: Features) -> Iterator[StandingsRow]:
    """The row of masks that others published, on the test texts that they are of; nothing without them."""
    run, published = prepared.runs[0], masks_of_others(prepared)
    if published is None or not prepared.data_dir:
        return
    path = Path(prepared.data_dir) / run.dataset / published.file
    if not path.is_file():
        return
    records = read_masks(path, aspect=run.aspect).records
    masks = {r.example_id: r.positions for r in records if r.example_id and r.positions is not None}
    scores, num_texts = published_test(features, masks)
    if scores:
        yield given_row(
            f"masks of {published.title}", scores, "paper", f"on {counted(num_texts, 'test text')}"
        )


def remarks(prepared: ComparisonSettings) -> list[str]:
    """What methods say of themselves with the hyper-parameters that they are compared with.

    A comparison of an older version may have hyper-parameters that are no longer known: that is said instead.
    """
    found = []
    for run in prepared.runs:
        try:
            said = run.config().remarks()
        except ConfigError as error:
            said = [
                "its settings are from another version of this project and are no longer valid "
                f"({error.message})"
            ]
        found += [f"{lookup.title(run.method)}: {one}" for one in said]
    return found


def metrics(table: Standings) -> dict[str, float]:
    """The methods' means, deviations and p-values, under names that MLflow takes."""
    found: dict[str, float] = {}
    for row in table.rows:
        if row.kind != "ours":
            continue
        for column in table.columns:
            cell = row.cells.get(column.score)
            figures = {"p": row.p_values.get(column.score), "p_holm": row.corrected.get(column.score)}
            gap = row.differences.get(column.score)
            if gap is not None:
                figures |= {"difference": gap.estimate, "difference_se": gap.interval.error}
                figures |= {"difference_low": gap.interval.low, "difference_high": gap.interval.high}
            if cell is not None:
                figures |= {"mean": cell.mean, "sd": cell.deviation}
            label = "".join(c if c.isalnum() or c in " -_." else "" for c in row.name)
            found |= {f"{label}/{column.score}_{k}": v for k, v in figures.items() if v is not None}
    return found


def features_of(run: RunSettings) -> Features:
    """The features of a run, loaded once in a process."""
    return _features_at(run.features_dir, run.features_uri)


_features_at = functools.cache(feature_copies.features_at)

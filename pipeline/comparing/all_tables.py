"""Every comparison of a storage on one page: the paper's tables, as HTML, Markdown and LaTeX."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from feature_store.store import Features, load_features
from pipeline.base.command_text import storage_flags
from pipeline.base.storage import Location, Storage
from pipeline.base.stored_files import read_settings, write_page
from pipeline.comparing import language_models
from pipeline.comparing.comparison_settings import ComparisonSettings, entries
from pipeline.comparing.comparison_table import TABLE, remarks
from pipeline.comparing.places import COMPARISON, OUTCOMES, SETTINGS, read_each
from pipeline.reporting import pages, published, typeset
from pipeline.reporting.language_model_tables import MeasuredModels, section
from pipeline.reporting.paper_tables import Compared, PaperSection, sections
from pipeline.reporting.standings import MeanScore, Outcome, StandingsRow, trivial_rows
from pipeline.training.scoring import trivial_test

FOLDER, PAGE = "tables", "tables.html"
"""Of the page, in the storage; Markdown and LaTeX lie beside it."""
TITLE = "All tables"
_LANGUAGE_MODEL_DATASETS = ("beer", "cail-small", "hatexplain")


@dataclass(frozen=True, kw_only=True, slots=True)
class _StoredRow:
    """What is read of a row in a comparison's `table.json`."""

    name: str
    kind: str
    cells: dict[str, MeanScore]
    note: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _StoredTable:
    """What is read of a comparison's `table.json`."""

    rows: list[_StoredRow]


def gather(home: Location) -> list[Compared]:
    """Every comparison of a storage that has been started, by name."""
    return read_each(home, COMPARISON, [SETTINGS, OUTCOMES, f"{TABLE}.json"], _read)


def _read(folder: Path, name: str) -> Compared:
    prepared = ComparisonSettings.load(folder, name)
    run = prepared.runs[0]
    paths = [folder / OUTCOMES / f"{entry.name}.json" for entry in entries(prepared)]
    outcomes = [read_settings(Outcome, path, "an outcome") for path in paths if path.is_file()]
    features = _features(run.features_dir)
    return Compared(
        name=name,
        dataset=run.dataset,
        aspect=run.aspect,
        options=run.options,
        features=Path(run.features_dir).name if features is None else _texts_of(features),
        target_rate=prepared.target_rate,
        num_epochs=run.num_epochs,
        is_sample=prepared.sample,
        methods=[one.method for one in prepared.runs],
        seeds=prepared.seeds,
        outcomes=outcomes,
        num_all=len(paths),
        counts={} if features is None else features.provenance["counts"],
        beside=_beside(folder / f"{TABLE}.json", features, prepared.target_rate),
        command=prepared.command,
        remarks=remarks(prepared),
    )


def _texts_of(features: Features) -> str:
    """What tells the texts of features from others, whatever targets they have."""
    known = features.provenance
    parameters = {name: value for name, value in known["parameters"].items() if name != "aspect"}
    return json.dumps([parameters, known["digests"]], sort_keys=True)


def _features(directory: str) -> Features | None:
    """The features of a comparison, where they are on this machine."""
    return load_features(Path(directory)) if Path(directory).is_dir() else None


def _beside(stored: Path, features: Features | None, rate: float) -> Sequence[StandingsRow]:
    """Trivial lines and masks of others: as the comparison's table has them, else computed again."""
    if stored.is_file():
        sources = tuple(f"{row.source}: " for row in published.all_rows())
        rows = read_settings(_StoredTable, stored, "the table of a comparison").rows
        return [
            StandingsRow(name=row.name, kind=row.kind, cells=row.cells, note=row.note)
            for row in rows
            if row.kind != "ours" and not row.name.startswith(sources)
        ]
    return [] if features is None else trivial_rows(trivial_test(features, rate))


def write(storage: Storage, output: Path | None, *, sample: bool = False) -> list[str]:
    """Write the page of all tables; returns where the files are.

    Args:
        output: the HTML file, the other formats beside it; None: in the storage.
        sample: whether a storage without comparisons is one of the sample corpus.

    Raises:
        PipelineError: if a file cannot be written.
    """
    home = storage.opened()
    found, models = gather(home), language_models.gather(home)
    places = _places(storage, [*found, *models], sample=sample)
    made = [*sections(found, places), section(models, _LANGUAGE_MODEL_DATASETS, places)]
    files: list[Location | Path] = []
    for suffix, text in _texts(made, found, home).items():
        place = home / FOLDER / Path(PAGE).with_suffix(suffix).name
        files.append(place if output is None else output.with_suffix(suffix))
        write_page(files[-1], text, "--output")
    return list(map(str, files))


def _places(storage: Storage, found: Sequence[Compared | MeasuredModels], *, sample: bool) -> str:
    """Flags with which `pipeline.compare` fills this page: its storage, and `--sample` on a page of samples.

    There is no `--tracking-uri` among them: nothing of the page is read from MLflow.
    """
    is_sample = all(one.is_sample for one in found) if found else sample
    return shlex.join([*storage_flags(storage, sample=is_sample), *(["--sample"] if is_sample else [])])


def _texts(made: Sequence[PaperSection], found: Sequence[Compared], home: Location) -> dict[str, str]:
    notes = [
        f"comparisons in {home}: {', '.join(f'`{one.name}`' for one in found) or 'none'}",
        "each cell is the mean over seeds, with a 95 % interval over resampled texts and seeds, or ± the "
        "sample standard deviation over seeds if the score cannot be resampled",
        "published numbers are copied unchanged; the lines below each table state the data behind the "
        "published and our numbers. Where the data differ, a difference between numbers cannot be attributed "
        "to the methods alone",
    ]
    return {
        ".html": pages.paper_page(title=TITLE, sections=made, notes=notes),
        ".md": typeset.paper_markdown(TITLE, made, notes),
        ".tex": typeset.paper_latex(made, notes),
    }

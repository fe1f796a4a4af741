"""The results of a sheet as files in its folder, and, where a run is named, in MLflow."""

from pathlib import Path

from feature_store.cache import write_text
from feature_store.wording import counted
from pipeline.cli import json_output
from pipeline.judging import gold as golden
from pipeline.judging import sheet as sheets
from pipeline.judging import verdict_tables
from pipeline.judging.book import Book
from pipeline.judging.ratings import Estimate
from pipeline.judging.verdict import conclude
from pipeline.judging.verdict_tables import TextTable
from pipeline.reporting import pages

ARTIFACTS = "judging"
"""Folder of the results in a run's artifacts."""
GOLD = "gold.jsonl"


def write(folder: Path, vote: str) -> tuple[str, list[Path]]:
    """Compute and write the results of a sheet; returns them as text, and the files.

    Args:
        vote: which tokens are gold on a sheet for annotation; a key of `gold.VOTES`.

    Raises:
        PipelineError: if there is no sheet, or nobody answered anything.
    """
    sheet = sheets.load(folder, "--results")
    book = Book(folder, sheet)
    try:
        files = _judged(sheet, book) if sheet.kind == sheets.JUDGE else _annotated(sheet, book, vote)
    finally:
        book.close()
    for name, content in files.items():
        write_text(folder / name, content)
    return files["results.md"], [folder / name for name in files]


def _judged(sheet: sheets.Sheet, book: Book) -> dict[str, str]:
    verdict = conclude(sheet, book)
    return _shown(
        verdict_tables.tables(verdict),
        verdict_tables.notes(verdict),
        json_output.dumped(verdict_tables.as_json(verdict, sheet.digest)),
    )


def _shown(tables: list[TextTable], notes: list[str], document: str) -> dict[str, str]:
    return {
        "results.md": verdict_tables.markdown(tables, notes),
        "results.tex": verdict_tables.latex(tables, notes),
        "results.html": pages.tables_page(tables=tables, notes=notes),
        "results.json": document,
    }


def _annotated(sheet: sheets.Sheet, book: Book, vote: str) -> dict[str, str]:
    found = golden.annotations(sheet, book)
    rows = [
        ["token F1 of two annotators", *_cells(found.token_f1)],
        ["Krippendorff's alpha of tokens", *_cells(found.alpha)],
        ["share of tokens marked", *_cells(found.marked)],
    ]
    table = TextTable(f"Human rationales: {sheet.title}", ["", "value", "95 % interval", "texts"], rows)
    notes = [
        f"{counted(len(sheet.texts), 'text')}, {counted(len(sheet.plan), 'annotator')}, "
        f"{found.num_done} of {sheet.num_slots} texts annotated.",
        f"`{GOLD}`: tokens chosen by vote ({vote}) of the annotators of a text; `annotator-N.jsonl`: the "
        "rationales of each annotator.",
        "Intervals are percentiles over resampled texts (bootstrap); alpha is Krippendorff's nominal alpha "
        "over tokens.",
    ]
    document = {
        "sheet": sheet.digest,
        "vote": vote,
        "num_done": found.num_done,
        "num_slots": sheet.num_slots,
        **{
            name: {"value": one.value, "low": one.low, "high": one.high, "num_texts": one.count}
            for name, one in (("token_f1", found.token_f1), ("alpha", found.alpha), ("marked", found.marked))
        },
        "provenance": dict(sheet.provenance),
    }
    files = _shown([table], notes, json_output.dumped(document))
    files[GOLD] = golden.jsonl(golden.gold(found, sheet.texts, vote))
    for number, marks in enumerate(found.by_annotator, start=1):
        files[f"annotator-{number}.jsonl"] = golden.jsonl(golden.own_records(marks, sheet.texts))
    return files


def _cells(one: Estimate) -> list[str]:
    missing = verdict_tables.MISSING
    value = missing if one.value is None else f"{one.value:z.3f}"
    interval = missing if one.low is None or one.high is None else f"{one.low:z.3f} to {one.high:z.3f}"
    return [value, interval, f"{one.count}"]


def store(files: list[Path], tracking_uri: str, run_id: str) -> None:
    """Store the files as artifacts of an MLflow run."""
    from pipeline.tracking.tracking import Tracker

    tracker = Tracker(tracking_uri, create=False)
    tracker.run(run_id)  # says so where there is none, before anything is stored
    for file in files:
        tracker.log_artifact(run_id, file, f"{ARTIFACTS}/{file.name}")

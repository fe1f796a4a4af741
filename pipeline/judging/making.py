"""Making a sheet's folder, and passing answers to and fro without a server."""

import argparse
import shutil
from pathlib import Path

from feature_store.wording import counted
from pipeline.base import locations
from pipeline.base.errors import PipelineError
from pipeline.judging import exchange as exchanged
from pipeline.judging import host
from pipeline.judging import sheet as sheets
from pipeline.judging.book import Book


def make(folder: Path, given: argparse.Namespace) -> str:
    """Make a sheet in a new folder; says what it is.

    Raises:
        PipelineError: if the folder is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        found = "this folder is not empty" if folder.is_dir() else "this is a file"
        raise PipelineError(
            f"expected a new or empty folder, but {found}",
            where=f"--sheet {folder}",
            hint="to serve an existing sheet, give only `--sheet DIR`",
        )
    locations.make_folder(folder.absolute().parent, "--sheet")
    from pipeline.judging.material import make_sheet

    sheet = make_sheet(given)
    staged = folder.absolute().parent / f".{folder.name}.making"
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir(mode=0o700)  # who reads the sheet sees which method is which
    try:
        sheets.save(sheet, staged)
        Book.make(staged, sheet)
        if folder.exists():
            folder.rmdir()
        staged.rename(folder)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    each = sorted({len(plan) for plan in sheet.plan})
    num_each = f"{each[0]}" if len(each) == 1 else f"{each[0]} to {each[-1]}"
    what = f", {counted(len(sheet.methods), 'method')}" if sheet.methods else ""
    people = counted(len(sheet.plan), host.who(sheet))
    made = f"sheet {sheet.digest} in {folder}: {counted(len(sheet.texts), 'text')}{what}"
    unit = "rationale" if sheet.kind == sheets.JUDGE else "text"
    return f"{made}, {people} with {num_each} {unit if each == [1] else f'{unit}s'} each"


def exchange(folder: Path, given: argparse.Namespace) -> str:
    """Export to files, or import from them; says what was done."""
    sheet = sheets.load(folder, "--sheet")
    book = Book(folder, sheet)
    try:
        if given.take_back:
            paths = [Path(name) for name in given.take_back]
            count = exchanged.take_back(sheet, book, paths, replace=given.replace)
            said = [f"{counted(count, 'answer')} read", host.progress(sheet, book)]
        else:
            said = []
        if given.export:
            files = exchanged.export(sheet, book, Path(given.export))
            said.append(f"written: {', '.join(map(str, files))}")
    finally:
        book.close()
    return "\n".join(said)

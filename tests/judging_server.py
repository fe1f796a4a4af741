"""A sheet's pages served from a thread of the test, or by the command in a process of its own."""

import contextlib
import itertools
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.judging import sheet as sheets
from pipeline.judging.book import Book
from pipeline.judging.sheet import JUDGE, Sheet, Text, plan
from pipeline.judging.web import make_app
from tests.integration.commands import ENVIRONMENT, ROOT
from tests.web_server import in_thread


def small_sheet(
    texts: Sequence[str], judges: int = 2, *, kind: str = JUDGE, methods: int = 1, **changes: Any
) -> Sheet:
    """Texts split at blanks; method m marks the words m and m + 1; `repeats` is 0 where it is not given."""
    rate = changes.pop("repeats", 0.0)
    num_methods = methods if kind == JUDGE else 0
    per_text = changes.pop("per_text", judges)
    values: dict[str, Any] = {
        "kind": kind,
        "title": "made up",
        "language": "en",
        "texts": [
            Text(example_id=f"t{i}", tokens=text.split(), shown="high", record={"label": "high"})
            for i, text in enumerate(texts)
        ],
        "methods": [f"method-{m}" for m in range(num_methods)],
        "rationales": [[[[m, m + 2]] for _ in texts] for m in range(num_methods)],
        "plan": plan(len(texts), max(num_methods, 1), judges, per_text, rate, seed=0),
        "provenance": {},
    }
    return Sheet(**(values | changes))


def written(folder: Path, sheet: Sheet) -> Book:
    """The sheet in a folder, with an empty book."""
    folder.mkdir(exist_ok=True)
    sheets.save(sheet, folder)
    Book.make(folder, sheet)
    return Book(folder, sheet)


@dataclass(frozen=True)
class Pages:
    """Pages that are served."""

    book: Book
    port: int

    def link(self, judge: int) -> str:
        """A judge's link."""
        return f"http://127.0.0.1:{self.port}/j/{self.book.tokens()[judge]}/"


@contextlib.contextmanager
def pages_of(folder: Path, sheet: Sheet) -> Iterator[Pages]:
    """Serve a new sheet from a thread."""
    book = written(folder, sheet)
    try:
        with in_thread(make_app(sheet, book)) as port:
            yield Pages(book, port)
    finally:
        book.close()


def started(folder: Path, port: int, num_judges: int) -> tuple["subprocess.Popen[str]", list[str]]:
    """The command that serves a sheet, and the links that it prints."""
    command = [sys.executable, "-m", "pipeline.judge", "--sheet", str(folder), "--port", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT, cwd=ROOT)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(num_judges)]
    process.stdout.close()
    assert all("/j/" in line for line in lines), f"it ended with {process.wait()}: {lines}"
    return process, [line.partition(": ")[2].strip() for line in lines]


def fill(connection: sqlite3.Connection) -> None:
    """As if the disk had no room beyond what the file has, and use that up."""
    connection.execute("PRAGMA max_page_count = 1")  # never fewer than there are
    for size in (2000, 1):
        with contextlib.suppress(sqlite3.OperationalError):
            for number in itertools.count(1000 * size):
                row = (9, number, "x" * size, 0, "")
                connection.execute("INSERT INTO answer VALUES (?, ?, ?, ?, ?)", row)


def make_room(connection: sqlite3.Connection) -> None:
    """Undo `fill`."""
    connection.execute("PRAGMA max_page_count = 100000")
    connection.execute("DELETE FROM answer WHERE judge = 9")

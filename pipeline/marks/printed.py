"""Tables of scores as somebody printed them: what each cell may have been before it was rounded.

A CSV file with a header (commas, semicolons or tabs); `docs/scoring.md` lists the columns.
"""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from feature_store.errors import quoted, slip_of_key
from feature_store.sources.lines import read_lines
from feature_store.wording import counted
from pipeline.base.errors import PipelineError

COLUMNS: dict[str, tuple[str, ...]] = {
    "precision": ("p", "token_precision", "precision_micro"),
    "recall": ("r", "token_recall"),
    "f1": ("f", "token_f1", "f1_score"),
    "selected": ("selection_rate_annotated", "sel"),
    "iou_f1": ("iou",),
    "auprc": (),
    "macro_precision": ("token_precision_macro",),
    "macro_recall": ("token_recall_macro",),
    "macro_f1": ("token_f1_macro",),
    "paper_iou_f1": (),
    "paper_auprc": (),
    "gold_density": ("density",),
}
"""Columns that are checked, with their other names; `DEFINITIONS` of `infocal.metrics.scores` says more."""

LABELS = {"method": ("name", "model"), "corpus": ("aspect", "dataset", "task")}
"""Columns that name a row, and the texts it was measured on."""

_MAX_BYTES = 2**24
_MAX_GUESSED = 100
"""Titles for which a known one is looked for."""
_NUMBER = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?)\s*(%?)")
_NOT_REPORTED = ("", "-", "–", "—")
_SLACK = 1e-12
"""Binary fractions are off by some 1e-16; a printed table has no digit as small as this."""


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Values from `low` to `high`, both of them possible."""

    low: float
    high: float

    def meets(self, other: "ValueRange") -> bool:
        """Whether some value lies in both."""
        return self.low <= other.high and other.low <= self.high

    def __str__(self) -> str:
        return " to ".join(dict.fromkeys((f"{self.low:.4f}", f"{self.high:.4f}")))


@dataclass(frozen=True, slots=True)
class PrintedScore:
    """One printed number."""

    text: str
    span: ValueRange
    """Shares that round to it."""


@dataclass(frozen=True, slots=True)
class PrintedRow:
    """One row of a table."""

    line: int
    """Where it stands in the file, from 1."""
    method: str
    corpus: str
    """Rows of one corpus were measured on the same texts."""
    cells: Mapping[str, PrintedScore]
    """By column; without those that are not reported."""


@dataclass(frozen=True, slots=True)
class PrintedTable:
    """A printed table."""

    path: Path
    rows: list[PrintedRow]
    units: dict[str, str]
    """Checked column -> `percent` or `share`."""
    notes: list[str]
    """Columns that are not checked."""


def span_of(number: str, is_percent: bool) -> ValueRange:
    """The shares that round to a printed decimal number: half a unit of its last digit to either side."""
    decimal = Decimal(number)
    exponent = decimal.as_tuple().exponent
    assert isinstance(exponent, int)  # neither NaN nor infinite: it has digits
    half, unit = Decimal(5).scaleb(exponent - 1), 100 if is_percent else 1
    return ValueRange(float((decimal - half) / unit) - _SLACK, float((decimal + half) / unit) + _SLACK)


def stated_share(text: str, where: str) -> ValueRange:
    """The shares that round to a number that a user stated, with a percent sign or as a share.

    Raises:
        PipelineError: if it is no number, or lies outside 0 to 1.
    """
    number, is_percent = _number(text, where)
    share = Decimal(number) / (100 if is_percent else 1)
    if not 0 < share < 1:
        raise PipelineError(
            f"expected a share between 0 and 1, but got {text}",
            where=where,
            hint="write a share as `0.126` or a percentage as `12.6%`",
        )
    return span_of(number, is_percent)


def read_table(path: Path) -> PrintedTable:
    """A CSV table of scores.

    A column is in percent where its header or a cell has a percent sign, or most of its numbers are above 1.

    Raises:
        MissingDataError: if there is no such file.
        BadInputError: if it is no UTF-8 text.
        PipelineError: if it has no column to check or no row, or a cell holds no number; names line and
            column.
    """
    records = list(_records(path))
    if not records:
        raise PipelineError("expected a header, but every line is blank", where=str(path))
    (number, header), *body = records
    names = _names(header, f"{path}:{number}")
    if not body:
        raise PipelineError("expected rows after the header, but got none", where=str(path))
    labels: dict[int, dict[str, str]] = {}
    found: dict[str, dict[int, tuple[str, bool]]] = {name: {} for name in names.values() if name in COLUMNS}
    for number, record in body:
        where = f"{path}:{number}"
        if len(record) != len(header):
            raise PipelineError(
                f"expected {counted(len(header), 'cell')}, as in the header, but got {len(record)}",
                where=where,
            )
        labels[number] = {names[i]: record[i].strip() for i in names if names[i] in LABELS}
        for i, name in names.items():
            if name in found and record[i].strip() not in _NOT_REPORTED:
                found[name][number] = _number(record[i], where, header[i])
    units = {
        name: "percent" if "%" in header[i] or _is_percent(found[name]) else "share"
        for i, name in names.items()
        if name in found
    }

    def cells(line: int) -> dict[str, PrintedScore]:
        there = {name: column[line][0] for name, column in found.items() if line in column}
        return {
            name: PrintedScore(text, span_of(text, units[name] == "percent")) for name, text in there.items()
        }

    rows = [
        PrintedRow(line, label.get("method", ""), label.get("corpus", ""), cells(line))
        for line, label in labels.items()
    ]
    unread = [title.strip() for i, title in enumerate(header) if i not in names]
    return PrintedTable(path, rows, units, _notes(unread))


def _records(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Records with the number of their last line; blank lines are left out."""
    lines = [line for _, line in read_lines(path, max_bytes=_MAX_BYTES)]
    delimiter = max(",;\t", key=lines[0].count)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    try:
        for record in reader:
            if any(cell.strip() for cell in record):
                yield reader.line_num, record
    except csv.Error as error:
        raise PipelineError(
            f"expected a table of scores as CSV, but cannot read this line as CSV: {error}",
            where=f"{path}:{reader.line_num}",
            hint="give a CSV file with a header and one row for each method (see docs/scoring.md)",
        ) from error


def _names(header: Sequence[str], where: str) -> dict[int, str]:
    """Position -> name of each column that means something.

    Raises:
        PipelineError: if one stands twice, or none can be checked.
    """
    own = {other: name for name, others in (COLUMNS | LABELS).items() for other in (name, *others)}
    given = list(map(_plain_title, header))
    names = {i: own[title] for i, title in enumerate(given) if title in own}
    for i, name in names.items():
        if (first := list(names.values()).index(name)) != list(names).index(i):
            raise PipelineError(
                f"columns `{header[list(names)[first]].strip()}` and `{header[i].strip()}` are both `{name}`",
                where=where,
            )
    if not any(name in COLUMNS for name in names.values()):
        some = given[:_MAX_GUESSED]  # a line of delimiters is a header of a million empty titles
        raise PipelineError(
            f"no column to check among {quoted(map(str.strip, header))}; the columns are {quoted(COLUMNS)}",
            where=where,
            hint=next((hint for column in COLUMNS if (hint := slip_of_key(column, some))), None),
        )
    return names


def _notes(unread: Sequence[str]) -> list[str]:
    notes = [f"columns that are not checked: {quoted(unread)}"] if unread else []
    if "selection_rate" in map(_plain_title, unread):
        notes.append(
            "column `selection_rate` is not checked, because it also counts texts without annotation; if all "
            "texts are annotated, rename the column to `selected`"
        )
    return notes


def _plain_title(title: str) -> str:
    """A column's title without its unit: `% Selected` and `selected (%)` are `selected`."""
    return re.sub(r"[\s-]+", "_", re.sub(r"[%()]", " ", title).strip().lower())


def _number(text: str, where: str, column: str | None = None) -> tuple[str, bool]:
    """The digits of a cell, or of a flag without a column, and whether a percent sign follows."""
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        place = "" if column is None else f"column `{column.strip()}`: "
        missing = "" if column is None else "; `-` or an empty cell means: not reported"
        raise PipelineError(
            f"{place}expected one number, but got `{text.strip()[:40]}`",
            where=where,
            hint=f"write a number with a decimal point, with or without a percent sign{missing}",
        )
    return match[1], bool(match[2])


def _is_percent(cells: Mapping[int, tuple[str, bool]]) -> bool:
    numbers = [Decimal(number) for number, _ in cells.values()]
    signed = any(sign for _, sign in cells.values())
    return signed or 2 * sum(number > 1 for number in numbers) > len(numbers)

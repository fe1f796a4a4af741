"""The numbers that others report, to stand beside ours; `published.toml` holds them with their source.

[Sha2023] is the InfoCal paper. Numbers stand as printed, also where the paper contradicts itself: such cells
are listed in `tests/unit/pipeline/test_published.py`.
"""

import functools
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from importlib import resources

from feature_store.sources.base import NO_OPTIONS
from feature_store.sources.beer_polar import POLAR
from feature_store.targets import main_of
from pipeline.training.columns import Column

SUPERVISED = "supervised"
"""Task of the rows whose methods learn from human rationales."""


@dataclass(frozen=True, slots=True)
class PublishedRow:
    """One row of a published table."""

    source: str
    """Where it is printed, as in `[Sha2023] table 2`."""
    dataset: str
    task: str
    """Aspect of beer, sub-task of CAIL, empty or `supervised` for HateXplain; of language models, their data
    set."""
    method: str
    note: str
    """On what it was measured."""
    printed: Mapping[str, Decimal | None]
    """Column -> number, digit by digit; None where a dash is printed."""
    percent: frozenset[str]
    """Columns that are printed in percent."""
    trained_on: str = ""
    """The training data, in words; empty where the source does not say."""

    protocol: str = ""
    """`POLAR` where the targets are classes of scores; empty for the paper's own targets."""

    def value(self, column: str) -> float | None:
        """A number as a fraction, or in its own unit; None where it is not reported."""
        number = self.printed.get(column)
        if number is None:
            return None
        return float(number / 100 if column in self.percent else number)

    def scores(self, columns: Iterable[Column]) -> dict[str, float]:
        """The numbers of those columns that are reported, by the flat names of their scores."""
        found = {column.score: self.value(column.published) for column in columns}
        return {score: value for score, value in found.items() if value is not None}


@functools.cache
def all_rows() -> tuple[PublishedRow, ...]:
    """Every row, in the order of the file.

    Raises:
        ValueError: if a row has more or fewer numbers than its table has columns.
    """
    text = resources.files("pipeline").joinpath("published.toml").read_text(encoding="utf-8")
    return tuple(
        PublishedRow(
            table["source"],
            table["dataset"],
            table["task"],
            method,
            table["note"],
            {
                column: None if number == "-" else Decimal(number)
                for column, number in zip(table["columns"], numbers, strict=True)
            },
            frozenset(table.get("percent", ())),
            table.get("trained_on", ""),
            table.get("protocol", ""),
        )
        for table in tomllib.loads(text, parse_float=Decimal)["table"]
        for method, numbers in table["rows"].items()
    )


def protocol_of(options: Mapping[str, str]) -> str:
    """The protocol whose published rows may stand beside results on data with these options."""
    return POLAR if options.get("target") == POLAR else ""


def rows(dataset: str, task: str, options: Mapping[str, str] = NO_OPTIONS) -> list[PublishedRow]:
    """The rows of a dataset's aspect or sub-task under one protocol; empty where nothing is recorded.

    Args:
        task: aspect or sub-task, of several targets the main one counts; empty where there is but one.
        options: of the data, which say under which protocol results are measured.
    """
    wanted = dataset, main_of(task) or "", protocol_of(options)
    return [row for row in all_rows() if (row.dataset, row.task, row.protocol) == wanted]

"""Printed tables: what a cell may have been, and what is refused by file, line and column."""

from pathlib import Path

import pytest

from feature_store.errors import MissingDataError
from pipeline.base.errors import PipelineError
from pipeline.marks import printed
from pipeline.marks.printed import PrintedTable, ValueRange, read_table, span_of, stated_share


def table(tmp_path: Path, text: str) -> PrintedTable:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    return read_table(path)


@pytest.mark.parametrize(
    ("number", "is_percent", "low", "high"),
    [
        ("80.6", True, 0.8055, 0.8065),
        ("13", True, 0.125, 0.135),
        ("0.613", False, 0.6125, 0.6135),
        ("1", False, 0.5, 1.5),
        ("100.0", True, 0.9995, 1.0005),
        ("5e-05", False, 4.5e-05, 5.5e-05),
    ],
)
def test_a_cell_stands_for_all_that_rounds_to_it(number: str, is_percent: bool, low: float, high: float):
    span = span_of(number, is_percent)
    assert (span.low, span.high) == pytest.approx((low, high), abs=1e-11)
    assert span.low < low + 1e-13 and span.high > high - 1e-13, "both ends may be rounded to it"


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [((0, 1), (1, 2), True), ((0, 1), (1.1, 2), False), ((0, 5), (2, 3), True), ((2, 3), (0, 1), False)],
)
def test_intervals_meet(one: tuple[float, float], other: tuple[float, float], expected: bool):
    assert ValueRange(*one).meets(ValueRange(*other)) is expected


def test_columns_are_read_in_their_own_unit(tmp_path: Path):
    found = table(
        tmp_path,
        "Model,P,R (%),token F1,% selected,AUPRC,IOU-F1\n"
        "ours,80.6,0.9,0.494,0.7,0.613,30%\nothers,65.3,0.8,0.462,,-,0.5%\n",
    )
    assert found.units == {
        "precision": "percent",  # most numbers are above 1
        "recall": "percent",  # the header says so
        "f1": "share",
        "selected": "percent",
        "auprc": "share",
        "iou_f1": "percent",  # a cell says so
    }
    ours, others = found.rows
    assert (ours.line, ours.method, others.line, others.method) == (2, "ours", 3, "others")
    assert ours.cells["recall"].span.low == pytest.approx(0.0085)
    assert others.cells.keys() == {"precision", "recall", "f1", "iou_f1"}, "two are not reported"
    assert found.notes == []


def test_semicolons_quotes_and_blank_lines(tmp_path: Path):
    found = table(tmp_path, '\ufeffmethod;aspect;precision\n"a;\n b";smell;0.5\n\nc;palate;0.25\n')
    assert [(row.line, row.corpus) for row in found.rows] == [(3, "smell"), (5, "palate")]


def test_columns_that_mean_nothing_are_named(tmp_path: Path):
    found = table(tmp_path, "precision,MSE,Selection rate\n0.5,0.02,0.1\n")
    assert found.notes[0] == "columns that are not checked: `MSE`, `Selection rate`"
    assert "rename the column to `selected`" in found.notes[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("precision\n", "table.csv: expected rows after the header, but got none"),
        (" \n,\n", "table.csv: expected a header, but every line is blank"),
        ("x" + "," * 10**5 + "\n", "table.csv:1: no column to check among"),
        (
            "precision,recall\n0.5,0.4\n0.5,x\n",
            "table.csv:3: column `recall`: expected one number, but got `x`",
        ),
        ("precision\n80.6±0.3\n", "table.csv:2: column `precision`: expected one number, but got `80.6±0.3`"),
        ("precision\nnan\n", "table.csv:2: column `precision`: expected one number, but got `nan`"),
        ("precision\n1e-999999999\n", "column `precision`: expected one number, but got `1e-999999999`"),
        ('precision\n"0,5"\n', "expected one number, but got `0,5`"),
        ("precision,recall\n0.5\n", "table.csv:2: expected 2 cells, as in the header, but got 1"),
        ("P,precision\n1,1\n", "table.csv:1: columns `P` and `precision` are both `precision`"),
        ("method,mse\na,1\n", "table.csv:1: no column to check among `method`, `mse`"),
        ('precision\n"0.5\n', "table.csv:2: expected a table of scores as CSV"),
        ("", "table.csv: the file is empty"),
    ],
)
def test_a_table_that_cannot_be_read_is_named(tmp_path: Path, text: str, message: str):
    with pytest.raises(Exception, match=message) as caught:
        table(tmp_path, text)
    assert type(caught.value).__name__ in {"PipelineError", "BadInputError"}


def test_known_columns_are_looked_for_near_a_few_titles_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[int] = []
    monkeypatch.setattr(printed, "slip_of_key", lambda column, titles: asked.append(len(titles)))
    with pytest.raises(PipelineError, match="no column to check among"):
        table(tmp_path, "x" + "," * 10**5 + "\n1\n")
    assert 0 < max(asked) <= 100, "a line of delimiters is a header of a million titles"


def test_the_nearest_column_is_named(tmp_path: Path):
    with pytest.raises(PipelineError, match="no column to check") as caught:
        table(tmp_path, "recal\n1\n")
    assert caught.value.hint == "did you mean `recall` instead of `recal`?"


def test_titles_that_are_like_no_column_are_told_no_column(tmp_path: Path):
    with pytest.raises(PipelineError, match="no column to check among `foo`, `bar`") as caught:
        table(tmp_path, "foo,bar\n1,2\n")
    assert caught.value.hint is None


def test_a_missing_table_is_named(tmp_path: Path):
    with pytest.raises(MissingDataError, match="nowhere.csv: no such file"):
        read_table(tmp_path / "nowhere.csv")


def test_a_share_may_be_stated_in_percent():
    assert stated_share("12.6%", "--gold-density") == span_of("12.6", True)
    assert stated_share("0.126", "--gold-density") == span_of("0.126", False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("12.6", "--gold-density: expected a share between 0 and 1, but got 12.6"),
        ("0", "expected a share between 0 and 1, but got 0"),
        ("much", "expected one number, but got `much`"),
    ],
)
def test_a_share_that_is_none_is_refused(text: str, message: str):
    with pytest.raises(PipelineError, match=message):
        stated_share(text, "--gold-density")

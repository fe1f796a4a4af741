"""Tables of texts: no line wider than asked for, no column lost, wide characters aligned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feature_store.terminal import columns
from pipeline.base import text_tables

CELL = st.text("ab|*&%_亚", max_size=8)


@st.composite
def tables(draw: st.DrawFn) -> list[list[str]]:
    count = draw(st.integers(1, 6))
    return draw(st.lists(st.lists(CELL, min_size=count, max_size=count), min_size=1, max_size=4))


@given(tables(), st.integers(1, 60), st.integers(1, 3))
def test_every_part_has_the_names_and_each_column_is_in_one(rows: list[list[str]], width: int, gap: int):
    found = text_tables.parts(rows, width, gap)
    assert all([row[0] for row in part] == [row[0] for row in rows] for part in found)
    assert [[cell for part in found for cell in part[i][1:]] for i in range(len(rows))] == [
        row[1:] for row in rows
    ]
    for part in found:
        taken = sum(max(columns(row[i]) for row in part) for i in range(len(part[0])))
        assert taken + gap * (len(part[0]) - 1) <= width or len(part[0]) <= 2


def test_columns_come_in_the_order_asked_for_where_there_are_several_tables():
    rows = [["", "a", "b", "c"], ["name", "1", "2", "3"]]
    assert text_tables.parts(rows, None, order=[3, 1, 2]) == [rows]
    first, *_, last = text_tables.parts(rows, 8, order=[3, 1, 2])
    assert (first[0][1], last[0][1]) == ("c", "b")


@pytest.mark.parametrize("names_left", [True, False])
@given(rows=tables())
def test_lines_are_equally_wide(rows: list[list[str]], names_left: bool):
    lines = text_tables.aligned(rows, names_left=names_left).split("\n")
    assert len(lines) == len(rows) and len({columns(line) for line in lines}) == 1


@given(tables(), st.integers(10, 60))
def test_markdown_is_within_its_width_and_aligned(rows: list[list[str]], width: int):
    for part in text_tables.markdown(rows, width).split("\n\n"):
        lines = part.split("\n")
        assert len(lines) == len(rows) + 1 and len({columns(line) for line in lines}) == 1
        assert columns(lines[0]) <= width or lines[1].count("|") <= 3


def test_latex_has_a_line_above_the_rows_asked_for():
    rows = [["method", "f1 %"], ["a_b", "1"], ["c", "2"]]
    lines = text_tables.latex("Scores & more", rows, ["a note"], [1, 2]).split("\n")
    assert r"\caption{Scores \& more}" in lines and r"\par\footnotesize a note" in lines
    body = lines[lines.index(r"\toprule") : lines.index(r"\bottomrule")]
    assert body[1:] == [r"method & f1 \% \\", r"\midrule", r"a\_b & 1 \\", r"\midrule", r"c & 2 \\"]


def test_two_hyphens_of_a_command_are_no_dash_in_latex():
    assert text_tables.latex_escaped("compare --methods a---b") == "compare -{}-methods a-{}--b"

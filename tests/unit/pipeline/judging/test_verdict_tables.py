"""How the results of judges are printed."""

import pytest

from pipeline.judging import verdict_tables
from pipeline.judging.ratings import Estimate
from pipeline.judging.verdict_tables import TextTable


@pytest.mark.parametrize(
    ("value", "low", "high", "expected"),
    [
        (-0.001, -0.004, 0.004, "0.00 [0.00, 0.00]"),
        (-0.006, -0.42, 0.36, "-0.01 [-0.42, 0.36]"),
        (3.5, None, None, "3.50"),
        (None, None, None, verdict_tables.MISSING),
    ],
)
def test_a_number_that_rounds_to_nothing_has_no_sign(
    value: float | None, low: float | None, high: float | None, expected: str
):
    assert verdict_tables._estimate(Estimate(value, low, high, 12), 2) == expected


def test_names_are_shown_as_they_are_in_markdown():
    names = ["A<script>alert(1)</script>", "a|b", "<b>", "two\nlines"]
    text = verdict_tables.markdown([TextTable("by <i>me</i>", ["method"], [[name] for name in names])], [])
    lines = text.splitlines()
    assert lines[0] == r"### by \<i>me\</i>"
    cells = [line[2:-2].strip() for line in lines[4:8]]
    assert cells == [r"A\<script>alert(1)\</script>", r"a\|b", r"\<b>", "two lines"]

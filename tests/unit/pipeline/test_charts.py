"""Where the parts of a chart stand."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.reporting.charts import Axis, Chart, Dot, Line, Rule

UNIT = Axis(low=0, high=1, label="score")


def chart(**changes) -> Chart:
    return Chart(
        **({"title": "t", "description": "d", "x": Axis(low=0, high=10, label="epoch"), "y": UNIT} | changes)
    )


def test_corners():
    made = chart()
    assert made.at(0, 0) == (made.left, made.bottom)
    assert made.at(10, 1) == (made.right, made.top)
    assert made.at(5, 0.5) == ((made.left + made.right) / 2, (made.top + made.bottom) / 2)


@pytest.mark.parametrize(("x", "y"), [(11, 0.5), (5, 1.2), (5, None), (5, math.nan), (math.inf, 0.5)])
def test_what_is_missing_or_outside_has_no_place(x, y):
    assert chart().at(x, y) is None


@pytest.mark.parametrize(
    ("axis", "texts"),
    [
        (UNIT, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (Axis(low=0, high=1, label="", percent=True), ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]),
        (Axis(low=0, high=3, label="epoch", whole=True), ["0", "1", "2", "3"]),
        (Axis(low=0.0001, high=0.001, label="", log=True), ["0.0001", "0.0002", "0.0005", "0.001"]),
        (
            Axis(low=1e-6, high=1, label="", log=True),
            ["1e-06", "1e-05", "0.0001", "0.001", "0.01", "0.1", "1"],
        ),
        (Axis(low=-0.35, high=0.61, label=""), ["-0.2", "0", "0.2", "0.4", "0.6"]),
    ],
)
def test_ticks_are_round(axis, texts):
    assert [text for _, text in axis.ticks()] == texts


@given(st.floats(-1e6, 1e6), st.floats(1e-6, 1e6))
def test_ticks_lie_inside_and_are_few(low, width):
    axis = Axis(low=low, high=low + max(width, 1e-6 * abs(low)), label="")
    ticks = [value for value, _ in axis.ticks()]
    assert 2 <= len(ticks) <= 7
    assert all(-1e-6 <= axis.place(tick) <= 1 + 1e-6 for tick in ticks)


def test_log_axis_places_by_ratio():
    axis = Axis(low=0.01, high=1, label="", log=True)
    assert axis.place(0.1) == pytest.approx(0.5)


def test_axis_around_values():
    assert Axis.around([], "x") == Axis(low=0, high=1, label="x")
    assert Axis.around([2, 2], "x") == Axis(low=1.8, high=2.2, label="x")
    assert Axis.around([0, 0], "x") == Axis(low=0, high=1, label="x")
    assert Axis.around([0.01, 1], "x").low == 0, "no air below zero where nothing is below zero"
    assert Axis.around([-1, 1], "x").low == pytest.approx(-1.12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": 1, "high": 1}, "axis `loss`: expected finite low < high, got 1, 1"),
        ({"low": 0, "high": math.nan}, "got 0, nan"),
        ({"low": 0, "high": 1, "log": True}, "a log scale needs low > 0, got 0"),
    ],
)
def test_impossible_axes_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Axis(label="loss", **options)


def test_a_missing_value_leaves_a_gap():
    line = Line(
        name="f1", points=[(0, 0.1), (2, 0.2), (4, None), (6, 0.4), (8, math.nan), (9, 0.5), (10, 0.6)]
    )
    made = chart(lines=[line])
    paths = [stroke.path for stroke in made.strokes()]
    places = {x: made.at(x, y) for x, y in line.points}
    joined = [f"M{places[a][0]},{places[a][1]}L{places[b][0]},{places[b][1]}" for a, b in ((0, 2), (9, 10))]
    assert paths == joined
    assert len(made.marks()) == 5, "a lone point still has its marker"


def test_markers_tell_their_value():
    (mark,) = chart(lines=[Line(name="recall", points=[(3, 0.25)])]).marks()
    assert mark.title == "recall: 0.25 at epoch 3"


def test_lines_differ_in_more_than_colour():
    lines = [Line(name=str(i), points=[(0, 0.1)], style=i) for i in range(4)]
    assert len({mark.path for mark in chart(lines=lines).marks()}) == 4


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_names_at_line_ends_do_not_overlap(ends):
    made = chart(lines=[Line(name=f"n{i}", points=[(10, y)], style=i) for i, y in enumerate(ends)])
    heights = sorted(label.y for label in made.labels())
    assert len(heights) == len(ends)
    assert all(b - a >= 13.99 for a, b in itertools.pairwise(heights))
    assert heights[0] >= made.top - 1e-6 and heights[-1] <= made.bottom + 1e-6


def test_rules_are_drawn_and_named():
    made = chart(
        rules=[Rule(value=0.5, label="at least"), Rule(value=8, label="best", axis="x", kind="best")]
    )
    middle, across = made.at(0, 0.5)[1], made.at(8, 0)[0]
    assert [stroke.path for stroke in made.rule_strokes()] == [
        f"M{made.left},{middle}H{made.right}",
        f"M{across},{made.top}V{made.bottom}",
    ]
    level, upright = made.labels()
    assert (level.text, level.x > made.right) == ("at least", True)
    assert (upright.text, upright.anchor) == ("best", "end"), "in the right half it stands left of its line"


def test_a_rule_outside_is_left_out():
    assert chart(rules=[Rule(value=1.5, label="x")]).rule_strokes() == []


def test_dots_carry_title_and_label():
    made = chart(dots=[Dot(x=2, y=0.5, name="trial 3", kind="best", marker="star", label="best")])
    (mark,), (label,) = made.marks(), made.labels()
    assert (mark.title, mark.kind, (mark.x, mark.y)) == ("trial 3", "dot best", made.at(2, 0.5))
    assert (label.text, label.anchor) == ("best", "start")


def test_names_of_dots_cover_neither_dots_nor_one_another():
    dots = [Dot(x=5 + 0.1 * i, y=0.5 + 0.01 * i, name="", kind="paper", label=f"method{i}") for i in range(4)]
    labels = chart(dots=dots).labels()
    assert {label.text for label in labels} >= {"method3"}, "the last drawn is on top and named first"
    boxes = []
    for label in labels:
        width = 7.0 * len(label.text)
        left = label.x - {"start": 0, "middle": width / 2, "end": width}[label.anchor]
        boxes.append((left, label.y - 7, left + width, label.y + 7))
    for a, b in itertools.combinations(boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_a_dot_at_the_right_end_is_named_on_its_left():
    (label,) = chart(dots=[Dot(x=10, y=0.5, name="", kind="paper", label="InfoCal " * 3)]).labels()
    assert label.anchor == "end"

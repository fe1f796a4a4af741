"""Charts that plotly draws in a page: their look, their text alternative, and the script that draws them.

Every colour is a CSS variable of `page.css`, which `plots.js` looks up, so that a chart follows the page from
light to dark. Names from data are escaped: plotly reads some HTML in its texts.
"""

import base64
import functools
import html
import math
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from numbers import Real
from typing import Any

import plotly.graph_objects as go
from markupsafe import Markup

from pipeline.reporting.results import number

Points = Sequence[tuple[float, float | None]]

COLOURS = [f"var(--c{i})" for i in range(8)]
"""Of lines, told apart by people who do not see colours too: `DASHES` and `SYMBOLS` differ with them."""
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "cross", "x")
SCALE = [[i / 4, f"var(--q{i})"] for i in range(5)]
"""From low to high values, by lightness."""
INK, SOFT, LINE, PAPER, MISS = (f"var(--{name})" for name in ("ink", "soft", "line", "paper", "miss"))
CLEAR = "rgba(0,0,0,0)"

_AXIS = {
    "gridcolor": LINE,
    "linecolor": SOFT,
    "tickcolor": SOFT,
    "tickfont": {"color": SOFT},
    "title": {"font": {"color": SOFT}, "standoff": 8},
    "zeroline": False,
    "showline": True,
    "ticks": "outside",
    "automargin": True,
    "exponentformat": "power",
}
_TEMPLATE = go.layout.Template(
    layout={
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "colorway": COLOURS,
        "font": {"family": "var(--sans)", "color": INK, "size": 12},
        "xaxis": _AXIS,
        "yaxis": _AXIS,
        "coloraxis": {"colorscale": SCALE},
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": "var(--card)",
            "bordercolor": SOFT,
            "font": {"family": "var(--sans)", "color": INK, "size": 12},
            "align": "left",
        },
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"},
        "margin": {"l": 56, "r": 16, "t": 16, "b": 44},
        "modebar": {"bgcolor": CLEAR, "color": SOFT, "activecolor": "var(--accent)"},
        "transition": {"duration": 0},
    }
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Plot:
    """A chart of a page."""

    name: str
    """Its id; no two on a page are equal."""
    title: str
    caption: str
    """Plain English: what the chart shows, and what to look for."""
    description: str
    """The text alternative: what someone who does not see the chart should know."""
    figure: go.Figure
    height: int = 340
    """In pixels."""
    least_width: int = 0
    """In pixels; on a narrower screen the chart is scrolled sideways."""

    @property
    def json(self) -> Markup:
        """The figure for the page's script; `<`, `>` and `/` are written as their code points."""
        _widen_constants(self.figure)
        _fold_titles(self.figure, self.height)
        self.figure.update_layout(template=_TEMPLATE, height=self.height)
        return Markup(self.figure.to_json(engine="json"))


def escaped(text: str) -> str:
    """A text from data as plotly shows it, letter by letter."""
    return html.escape(text, quote=False)


def lines_of(*lines: str) -> str:
    """Escaped lines, one below the other, for a text that is shown at a point."""
    return "<br>".join(escaped(line) for line in lines if line)


def _widen_constants(figure: go.Figure) -> None:
    """Give an axis on which all marks and lines have one value a range around it.

    Plotly shows one unit to either side, whatever the unit is: 0.005 would stand between -1 and 1.
    """
    for letter, axes in (("x", figure.select_xaxes()), ("y", figure.select_yaxes())):
        for axis in axes:
            if (
                axis.range is not None
                or axis.autorange is not None
                or axis.type not in (None, "linear", "log")
            ):
                continue
            values = _values_on(figure, letter, axis.plotly_name.removeprefix(f"{letter}axis"))
            if not values or max(values) - min(values) > 1e-9 * abs(values[0]):
                continue
            value = values[0]
            if axis.type == "log":
                axis.range = [math.log10(value / 2), math.log10(value * 2)]
            else:
                air = abs(value) / 2 or 0.5
                axis.range = [value - air, value + air]


_PIXELS_PER_LETTER = 7
_PIXELS_AROUND = 100
"""Of a chart's height: what its axis with names, its legend and its margins take."""


def _fold_titles(figure: go.Figure, height: int) -> None:
    """Set the title of an upright axis in several lines, where its line is longer than the axis.

    A line ends at a space or after an underscore. Plotly would cut off both ends of the title.
    """
    most = max(1, (height - _PIXELS_AROUND) // _PIXELS_PER_LETTER)
    for axis in figure.select_yaxes():
        text = axis.title.text or ""
        if len(text) <= most or "<br>" in text:
            continue
        lines = [""]
        for part in re.findall(r"[^ _]*[ _]*", text):
            if lines[-1] and len(lines[-1] + part.rstrip()) > most:
                lines.append("")
            lines[-1] += part
        axis.title.text = "<br>".join(line.rstrip() for line in lines)


def _values_on(figure: go.Figure, letter: str, number_of_axis: str) -> list[float]:
    """Values of marks and lines on an axis; none where anything else is drawn on it, or names or times."""
    axis = f"{letter}{number_of_axis}"
    found: list[Any] = []
    for trace in figure.data:
        if (trace[f"{letter}axis"] or letter) != axis:
            continue
        if trace.type != "scatter" or trace[f"error_{letter}"].array is not None:
            return []
        found += [] if trace[letter] is None else list(trace[letter])
    for shape in figure.layout.shapes:
        if (shape[f"{letter}ref"] or letter) == axis:
            found += [shape[f"{letter}0"], shape[f"{letter}1"]]
    there = [value for value in found if value is not None]
    if not all(isinstance(value, Real) and math.isfinite(value) for value in there):
        return []
    return [float(value) for value in there]


@functools.cache
def script() -> Markup:
    """plotly.js as it lies in the package, deflated and in base64: about 2 MB instead of 4.8."""
    source = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return Markup(base64.b64encode(zlib.compress(source, 9)).decode("ascii"))


def line(name: str, points: Points, style: int) -> go.Scatter:
    """A line with a marker at each epoch; a missing value leaves a gap.

    Args:
        points: epoch and value.
        style: colour, dash and marker.
    """
    return go.Scatter(
        name=escaped(name),
        x=[x for x, _ in points],
        y=[y if y is not None and math.isfinite(y) else None for _, y in points],
        mode="lines+markers" if len(points) <= 30 else "lines",
        line={"color": COLOURS[style % len(COLOURS)], "dash": DASHES[style % len(DASHES)], "width": 2},
        marker={"symbol": SYMBOLS[style % len(SYMBOLS)], "size": 7},
        hoverinfo="text",
        hovertext=[f"{escaped(name)}: {number(y, 4)}<br>epoch {x:g}" for x, y in points],
    )


def log_ticks(values: Sequence[float]) -> dict[str, Any]:
    """Ticks of a logarithmic axis: powers of ten, or 1, 2 and 5 times these where there are few."""
    decades = math.log10(max(values) / min(values))
    return {"type": "log", "dtick": 1 if decades > 2 else "D2" if decades > 0.3 else None}


def level(figure: go.Figure, value: float, text: str, *, is_upright: bool = False) -> None:
    """Draw a straight line across a figure, named inside it where the text is not empty.

    A level one is dashed: a bound. An upright one is dotted: what all else is compared with.
    An axis that is logarithmic has to be so before: plotly reads the place of a name there as an exponent.
    """
    colour, dash = (INK, "dot") if is_upright else (MISS, "dash")
    options: dict[str, Any] = {"line": {"color": colour, "dash": dash, "width": 1.5}}
    if text:
        axis, key = (figure.layout.xaxis, "x") if is_upright else (figure.layout.yaxis, "y")
        options["annotation"] = {
            "text": escaped(text),
            "font": {"color": colour},
            "bgcolor": PAPER,
            key: math.log10(value) if axis.type == "log" else value,
        }
        options["annotation_position"] = _beside(figure, value) if is_upright else "top left"
    if is_upright:
        figure.add_vline(x=value, **options)
    else:
        figure.add_hline(y=value, **options)


def _beside(figure: go.Figure, value: float) -> str:
    """Where the name of an upright line has room: on the side of the longer part of the axis."""
    axis = figure.layout.xaxis
    low, high = axis.range or (None, None)
    if low is None or high is None:
        drawn = [x for trace in figure.data for x in trace.x or () if x is not None]
        low, high = min([value, *drawn]), max([value, *drawn])
    elif axis.type == "log":
        low, high = 10**low, 10**high
    middle = math.sqrt(low * high) if axis.type == "log" else (low + high) / 2
    return "bottom left" if value > middle else "bottom right"

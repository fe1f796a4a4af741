"""Charts that plotly draws in a page: their look, their text alternative, and the script that draws them.

Every colour is a CSS variable of `page.css`, which `plots.js` looks up, so that a chart follows the page from
light to dark. Names from data are escaped: plotly reads some HTML in its texts.
"""

import base64
import functools
import html
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
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
        self.figure.update_layout(template=_TEMPLATE, height=self.height)
        return Markup(self.figure.to_json(engine="json"))


def escaped(text: str) -> str:
    """A text from data as plotly shows it, letter by letter."""
    return html.escape(text, quote=False)


def lines_of(*lines: str) -> str:
    """Escaped lines, one below the other, for a text that is shown at a point."""
    return "<br>".join(escaped(line) for line in lines if line)


@functools.cache
def script() -> Markup:
    """plotly.js as it lies in the package, deflated and in base64: about 2 MB instead of 4.8."""
    source = resources.files("plotly").joinpath("package_data", "plotly.min.js").read_bytes()
    return Markup(base64.b64encode(zlib.compress(source, 9)).decode("ascii"))


def line(name: str, points: Points, style: int, of_x: str = "epoch") -> go.Scatter:
    """A line with a marker at each point; a missing value leaves a gap.

    Args:
        points: x and y.
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
        hovertext=[f"{escaped(name)}: {number(y, 4)}<br>{escaped(of_x)} {x:g}" for x, y in points],
    )


def log_ticks(values: Sequence[float]) -> dict[str, Any]:
    """Ticks of a logarithmic axis: powers of ten, or 1, 2 and 5 times these where there are few."""
    decades = math.log10(max(values) / min(values))
    return {"type": "log", "dtick": 1 if decades > 2 else "D2" if decades > 0.3 else None}


def level(
    figure: go.Figure, value: float, text: str, *, is_upright: bool = False, is_best: bool = False
) -> None:
    """Draw a straight line across a figure, named inside it where the text is not empty."""
    options: dict[str, Any] = {
        "line": {"color": INK if is_best else MISS, "dash": "dot" if is_best else "dash", "width": 1.5},
    }
    if text:
        place = "bottom right" if is_upright else "top left"
        named = {"text": escaped(text), "font": {"color": options["line"]["color"]}, "bgcolor": PAPER}
        options |= {"annotation": named, "annotation_position": place}
    if is_upright:
        figure.add_vline(x=value, **options)
    else:
        figure.add_hline(y=value, **options)

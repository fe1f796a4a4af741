"""Charts of a comparison: each method's score, and how far it is from InfoCal."""

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from feature_store.wording import counted
from pipeline.reporting.plots import COLOURS, INK, SOFT, Plot, escaped, level, lines_of
from pipeline.reporting.standings import NOT_KNOWN, Standings, StandingsRow, too_few_seeds
from pipeline.training.columns import Column

_KINDS = {
    "ours": ("trained here", {"symbol": "circle", "color": COLOURS[0], "size": 10}),
    "paper": ("published", {"symbol": "diamond-open", "color": COLOURS[3], "size": 10, "line": {"width": 2}}),
    "trivial": ("trivial rationale", {"symbol": "x-thin", "size": 9, "line": {"color": SOFT, "width": 2}}),
}
"""Kind of a row -> its name in the legend, and its mark."""
_MAX_NAME = 40
"""Characters of a row's name beside a chart; all of it is shown at the point."""


def score_plot(table: Standings) -> Plot | None:
    """The headline score of every row, with the deviation over seeds; None where no row has one."""
    column = table.headline
    rows = [] if column is None else [row for row in table.rows if column.score in row.cells]
    if column is None or not rows:
        return None
    names = _names(rows)
    figure = go.Figure()
    for kind, (label, mark) in _KINDS.items():
        group = [(name, row) for name, row in zip(names, rows, strict=True) if row.kind == kind]
        if not group:
            continue
        cells = [row.cells[column.score] for _, row in group]
        means = [_scaled(cell.mean, column) for cell in cells]
        figure.add_trace(
            go.Scatter(
                name=label,
                x=means,
                y=[name for name, _ in group],
                mode="markers",
                marker=mark,
                hoverinfo="text",
                hovertext=[lines_of(row.name, *_cells(row, table)) for _, row in group],
            )
        )
        deviations = [
            (mean, name, _scaled(cell.deviation, column))
            for mean, (name, _), cell in zip(means, group, cells, strict=True)
            if cell.deviation
        ]
        if deviations:
            figure.add_trace(_bars_alone(deviations))
    _list_names(figure, names)
    figure.update_xaxes(title_text=column.heading)
    ours = [row for row in rows if row.kind == "ours"]
    best = max(ours, key=lambda row: row.cells[column.score].mean, default=None)
    said = "" if best is None or len(ours) < 2 else f" The highest of those trained here is {best.name}."
    has_bars = any(row.cells[column.score].deviation for row in rows)
    bars = " Bars reach one standard deviation over seeds to each side." if has_bars else ""
    return Plot(
        name="scores",
        title=f"{column.label} of each method",
        caption=(
            f"The further to the right a mark, the higher its {column.label}.{bars}{said} "
            "The table above has the numbers."
        ),
        description=f"{counted(len(rows), 'row')}.{said}",
        figure=figure,
        height=130 + 26 * len(rows),
    )


def difference_plot(table: Standings) -> Plot | None:
    """Each method's distance from InfoCal with its interval of 95 %; None where no row has one."""
    column = table.headline
    rows = [] if column is None else [row for row in table.rows if column.score in row.differences]
    if column is None or not rows:
        return None
    gaps = [row.differences[column.score] for row in rows]
    names = _names(rows)
    figure = go.Figure(
        go.Scatter(
            name="difference",
            x=[_scaled(gap.estimate, column) for gap in gaps],
            y=names,
            error_x=_bars(
                [_scaled(gap.interval.high - gap.estimate, column) for gap in gaps],
                [_scaled(gap.estimate - gap.interval.low, column) for gap in gaps],
            ),
            mode="markers",
            marker=_KINDS["ours"][1],
            hoverinfo="text",
            hovertext=[lines_of(row.name, *_cells(row, table)) for row in rows],
        )
    )
    level(figure, 0, "InfoCal", is_upright=True)
    _list_names(figure, names)
    figure.update_xaxes(title_text=f"{column.heading} minus InfoCal's")
    apart = [
        row.name for row, gap in zip(rows, gaps, strict=True) if gap.interval.low * gap.interval.high > 0
    ]
    told = f"That holds for {', '.join(apart)}." if apart else "Here every interval reaches the line."
    if (early := too_few_seeds(table.num_seeds)) is not None:
        told = f"But {early}."
    return Plot(
        name="differences",
        title=f"{column.label}: difference from InfoCal",
        caption=(
            "Bars are intervals of 95 % over bootstrap resamples of texts and seeds. A method differs from "
            f"InfoCal where its bar does not reach the dotted line. {told} The intervals are not corrected "
            "for the number of methods."
        ),
        description=f"{counted(len(rows), 'method')}. {told}",
        figure=figure,
        height=130 + 30 * len(rows),
    )


def _names(rows: list[StandingsRow]) -> list[str]:
    """The rows' names, escaped and cut; equal ones are told apart by trailing spaces that nobody sees."""
    names: list[str] = []
    for row in rows:
        name = row.name if len(row.name) <= _MAX_NAME else f"{row.name[: _MAX_NAME - 1]}…"
        name = escaped(f"{name} {row.marks}".strip())
        while name in names:
            name += " "
        names.append(name)
    return names


def _cells(row: StandingsRow, table: Standings) -> list[str]:
    return [
        f"{label}: {text}"
        for label, text in zip(table.header(), table.texts(row), strict=True)
        if text != NOT_KNOWN
    ]


def _scaled(value: float, column: Column) -> float:
    return column.scale[0] * value


def _bars_alone(points: Sequence[tuple[float, str, float]]) -> go.Scatter:
    """Error bars at x and y, apart from marks without a deviation: plotly gives these a bar of no length."""
    x, y, sizes = zip(*points, strict=True)
    return go.Scatter(
        name="deviation",
        x=x,
        y=y,
        error_x=_bars(sizes),
        mode="markers",
        marker={"opacity": 0},
        hoverinfo="skip",
        showlegend=False,
    )


def _bars(up: Sequence[float], down: Sequence[float] | None = None) -> dict[str, Any]:
    return {"type": "data", "array": up, "arrayminus": down, "color": INK, "thickness": 1.5, "width": 5}


def _list_names(figure: go.Figure, names: list[str]) -> None:
    """One line for each name, the first on top."""
    figure.update_yaxes(
        type="category",
        categoryorder="array",
        categoryarray=names,
        range=[len(names) - 0.4, -0.6],
        tickmode="linear",
    )

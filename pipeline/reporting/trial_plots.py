"""Charts with one mark for each trial of a study: precision against recall, and shares of the gradient."""

from collections.abc import Sequence

import plotly.graph_objects as go

from feature_store.wording import counted
from infocal.gradient_shares import LEAST
from pipeline.reporting import weight_shares
from pipeline.reporting.plots import COLOURS, LINE, PAPER, SOFT, Plot, escaped, level, lines_of, log_ticks
from pipeline.reporting.published import PublishedRow
from pipeline.reporting.results import (
    Findings,
    ScoreRow,
    TrialResult,
    number,
    percent,
    rough_percent,
    setting,
)

_F1_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_SYMBOLS = ("diamond", "square-open", "triangle-up", "bowtie-open", "triangle-down-open", "hourglass")
_PUBLISHED_COLOURS = (COLOURS[3], COLOURS[4], COLOURS[6], COLOURS[2])
"""Of published methods: neither shape nor colour alone tells two neighbours of the legend apart."""
_TRIVIAL_SYMBOLS = ("x-thin", "cross-thin", "asterisk", "hash-open", "y-up")

MAIN_SOURCE = "[Sha2023] table 2"
"""The published table whose rows stand in the chart."""

MET, UNMET = "meets the criterion", "does not meet it"
HOLLOW = {"symbol": "circle-open", "size": 9, "color": COLOURS[0], "line": {"width": 1.6}}
"""The mark of a trial that does not meet the criterion."""
STAR = {"symbol": "star", "size": 16, "color": COLOURS[1], "line": {"color": PAPER, "width": 1}}
"""The mark of the winner."""


def said(trial: TrialResult) -> str:
    """What is shown at a trial's mark: its scores and its searched hyper-parameters; escaped."""
    epoch = "" if trial.epoch is None else f", epoch {trial.epoch + 1}"
    early = ", stopped early" if trial.is_stopped_early else ""
    scores = [(name, trial.scores.get(key)) for key, name in _SHOWN.items()]
    return lines_of(
        f"{trial.name}{epoch}{early}",
        f"criterion {number(trial.objective)}" if trial.objective is not None else "",
        ", ".join(f"{name} {number(value)}" for name, value in scores if value is not None),
        *(f"{name} {setting(value)}" for name, value in trial.searched.items()),
    )


_SHOWN = {
    "token_precision": "precision",
    "token_recall": "recall",
    "token_f1": "F1",
    "selection_rate": "selected",
}


def name_of(winner: TrialResult) -> str:
    """What the winner of a study is called beside its star."""
    return "best trial" if winner.is_met else "nearest to the criterion"


def marks(trials: Sequence[tuple[TrialResult, float, float]], winner: TrialResult | None) -> list[go.Scatter]:
    """Marks at x and y: filled where the criterion is met, hollow where it is not, a star for the winner."""
    groups: dict[str, list[tuple[TrialResult, float, float]]] = {MET: [], UNMET: [], "winner": []}
    for trial, x, y in trials:
        is_winner = winner is not None and trial.run_id == winner.run_id
        groups["winner" if is_winner else MET if trial.is_met else UNMET].append((trial, x, y))
    looks = {
        MET: {"symbol": "circle", "size": 9, "color": COLOURS[0], "line": {"color": PAPER, "width": 1}},
        UNMET: HOLLOW,
        "winner": STAR,
    }
    return [
        go.Scatter(
            name=name_of(winner) if kind == "winner" and winner is not None else kind,
            x=[x for _, x, _ in group],
            y=[y for _, _, y in group],
            mode="markers",
            marker=looks[kind],
            hoverinfo="text",
            hovertext=[said(trial) for trial, _, _ in group],
        )
        for kind, group in groups.items()
        if group
    ]


# --------------------------------------------------------------------------------- precision against recall


def precision_recall_plot(findings: Findings, published: Sequence[PublishedRow]) -> Plot | None:
    """Every trial's best epoch by recall and precision, with the criterion's region, the front and others.

    None where trials have scores but no precision, as on texts without human rationales.
    """
    scored = [trial for trial in findings.trials if trial.scores]
    if scored and all(trial.precision is None for trial in scored):
        return None
    dots = [(t, t.recall, t.precision) for t in scored if t.recall is not None and t.precision is not None]
    papers = _published(published)
    bounds = [] if findings.criterion is None else findings.criterion.bounds
    limits = [bound.limit for bound in bounds if bound.metric == "val_token_precision"]
    across = _zoomed([x for _, x, _ in dots] + [x for _, x, _ in papers])
    up = _zoomed([y for _, _, y in dots] + [y for _, _, y in papers] + limits)
    figure = go.Figure(_f1_lines(across, up))
    for limit in limits:
        figure.add_hrect(y0=limit, y1=1, fillcolor="var(--region)", line_width=0, layer="below")
        level(figure, limit, f"precision ≥ {limit:g}")
    figure.add_trace(_front(findings))
    trivial = _trivial(findings.trivial, across, up)
    for group, symbols, colours in (
        (trivial, _TRIVIAL_SYMBOLS, (SOFT,)),
        (papers, _SYMBOLS, _PUBLISHED_COLOURS),
    ):
        for i, (name, x, y) in enumerate(group):
            figure.add_trace(_given(name, x, y, symbols[i % len(symbols)], colours[i % len(colours)]))
    figure.add_traces(marks(dots, findings.winner))
    figure.update_xaxes(title_text="recall", range=across)
    figure.update_yaxes(title_text="precision", range=up)
    figure.update_layout(legend={"y": -0.13, "yanchor": "top"}, margin_b=120, showlegend=True)
    met = sum(trial.is_met for trial in findings.trials)
    best = findings.winner
    others = [
        "Trials in the shaded region meet the criterion's bound on precision." if limits else "",
        "The thick line joins the trials that no other trial beats in both scores."
        if _is_seen(findings.front, across, up)
        else "",
        "Published methods were measured on test." if papers else "",
        "Trivial rationales are shown only if they lie within the range of the axes." if trivial else "",
    ]
    return Plot(
        name="precision-recall",
        title="Precision against recall of all trials",
        caption=(
            "Each circle, and the star, is a trial, at its best epoch on validation. Point at it to read its "
            f"scores and hyper-parameters. {' '.join(filter(None, others))} "
            "On each thin curve F1 is the same."
        ),
        description=(
            f"{counted(len(findings.trials), 'trial')}, the criterion met by {met}; the best has precision "
            f"{number(getattr(best, 'precision', None))} and recall {number(getattr(best, 'recall', None))}."
        ),
        figure=figure,
        height=640,
    )


def _zoomed(values: Sequence[float]) -> list[float]:
    """The part of [0, 1] in which the values lie, with air around it."""
    return [max(0.0, min(values) - 0.05), min(1.01, max(values) + 0.05)] if values else [0.0, 1.01]


def _is_inside(x: float, y: float, across: Sequence[float], up: Sequence[float]) -> bool:
    return across[0] <= x <= across[1] and up[0] <= y <= up[1]


def _f1_lines(across: Sequence[float], up: Sequence[float]) -> list[go.Scatter]:
    """Curves of equal F1 in a part of the plane, each named at its right end."""
    lines = []
    for f1 in _F1_LEVELS:
        start = f1 / (2 - f1)  # recall where precision is 1
        recalls = [start + (1 - start) * i / 200 for i in range(201)]
        points = [(recall, f1 * recall / (2 * recall - f1)) for recall in recalls]
        points = [point for point in points if _is_inside(*point, across, up)]
        if len(points) < 2:
            continue
        lines.append(
            go.Scatter(
                name=f"F1 {f1:g}",
                x=[x for x, _ in points],
                y=[y for _, y in points],
                mode="lines+text",
                text=[""] * (len(points) - 1) + [f"F1 {f1:g}"],
                textposition="top left",
                textfont={"color": SOFT, "size": 11},
                line={"color": LINE, "width": 1},
                hoverinfo="skip",
                showlegend=False,
            )
        )
    return lines


def _front(findings: Findings) -> go.Scatter:
    return go.Scatter(
        name="front",
        x=[trial.recall for trial in findings.front],
        y=[trial.precision for trial in findings.front],
        mode="lines",
        line={"color": COLOURS[0], "width": 4},
        opacity=0.45,
        hoverinfo="skip",
        showlegend=False,
    )


_SEEN = 0.05
"""Share of the chart that a line has to reach over: one that is shorter lies below the marks at its ends."""


def _is_seen(front: Sequence[TrialResult], across: Sequence[float], up: Sequence[float]) -> bool:
    """Whether the line through the trials, by rising recall, is longer than their marks hide."""
    if not front:
        return False
    first, last = front[0], front[-1]
    width = ((last.recall or 0.0) - (first.recall or 0.0)) / (across[1] - across[0])
    height = ((first.precision or 0.0) - (last.precision or 0.0)) / (up[1] - up[0])
    return max(width, height) > _SEEN


def _published(published: Sequence[PublishedRow]) -> list[tuple[str, float, float]]:
    """Method, recall and precision of the main table's rows."""
    rows = [row for row in published if row.source == MAIN_SOURCE]
    found = [(row.method, row.value("recall"), row.value("precision")) for row in rows]
    return [(name, x, y) for name, x, y in found if x is not None and y is not None]


def _trivial(
    rows: Sequence[ScoreRow], across: Sequence[float], up: Sequence[float]
) -> list[tuple[str, float, float]]:
    """Name, recall and precision of the trivial rationales that lie in a part of the plane."""
    found = [(row.name, row.scores.get("token_recall"), row.scores.get("token_precision")) for row in rows]
    known = [(name, x, y) for name, x, y in found if x is not None and y is not None]
    return [(name, x, y) for name, x, y in known if _is_inside(x, y, across, up)]


def _given(name: str, x: float, y: float, symbol: str, colour: str) -> go.Scatter:
    """The mark of something that is no trial."""
    return go.Scatter(
        name=escaped(name),
        x=[x],
        y=[y],
        mode="markers",
        marker={"symbol": symbol, "size": 10, "color": colour, "line": {"color": colour, "width": 2}},
        hoverinfo="text",
        hovertext=[lines_of(name, f"precision {y:.3f}, recall {x:.3f}")],
    )


# --------------------------------------------------------------------------------- shares of the gradient


def share_plots(findings: Findings) -> list[Plot]:
    """A small chart for each weight that was varied and measured: its value against its share."""
    plots = []
    for searched in findings.searched:
        found = weight_shares.measured(searched.name, findings.trials)
        if not found:
            continue
        figure = go.Figure(marks(found, findings.winner))
        heights = [share for _, _, share in found]
        ticks = log_ticks([value for _, value, _ in found]) if searched.log else {}
        figure.update_xaxes(title_text=escaped(searched.name), **ticks)
        ticks = log_ticks([*heights, LEAST])
        figure.update_yaxes(title_text="share of the gradient", tickformat="~%", **ticks)
        figure.update_layout(showlegend=False)
        level(figure, LEAST, percent(LEAST, 0))
        plots.append(
            Plot(
                name=f"share-{searched.name}",
                title=searched.name,
                caption="",
                description=f"{counted(len(found), 'trial')}, shares from {rough_percent(min(heights))} to "
                f"{rough_percent(max(heights))}.",
                figure=figure,
                height=270,
            )
        )
    return plots

"""Charts of a study that `optuna.visualization` draws, from its trials as frozen trials of Optuna.

Optuna is imported where it is used: its charts import matplotlib, which takes a second.
"""

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import plotly.graph_objects as go

from feature_store.wording import counted
from pipeline.reporting.plots import (
    CLEAR,
    COLOURS,
    INK,
    LINE,
    MISS,
    PAPER,
    SCALE,
    SOFT,
    Plot,
    escaped,
    level,
    log_ticks,
)
from pipeline.reporting.results import Findings, Searched, TrialResult, percent, setting
from pipeline.reporting.trial_plots import HOLLOW, MET, STAR, UNMET, name_of, said

if TYPE_CHECKING:
    import optuna

_TARGET = "criterion's value"
_BEST = "highest value so far"
_SEED = 0
"""Of the forest in fANOVA, so that two reports of a study agree."""

_PALETTE = {
    **dict.fromkeys(("black", "#2F3B52"), INK),
    **dict.fromkeys(("Grey", "Gray", "gray", "#555"), SOFT),
    **{"#888": LINE, "#cccccc": "var(--q0)", "white": CLEAR},
    **{"blue": COLOURS[0], "red": MISS, "orange": COLOURS[1], "green": COLOURS[2]},
}
"""Optuna's colours -> the page's."""
_NAMES = {
    "Feasible Trial": MET,
    "Infeasible Trial": UNMET,
    "Feasible": MET,
    "Infeasible": UNMET,
    "Best Value": _BEST,
    _TARGET: MET,
    "COMPLETE": MET,
    "INFEASIBLE": UNMET,
    "PRUNED": "stopped early",
    "FAIL": "failed",
}
"""Optuna's entries of a legend -> ours."""


# ------------------------------------------------------------------------------------- trials as Optuna's


def frozen_study(trials: Sequence[TrialResult], searched: Sequence[Searched]) -> "optuna.Study":
    """A study in memory with these trials, numbered from 0 in their order.

    A trial that misses the criterion breaks a constraint by as much as it is short. Each range is that of the
    values which the trials have. Names of hyper-parameters are escaped: Optuna's charts show them.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    values = {one.name: [t.searched[one.name] for t in trials if one.name in t.searched] for one in searched}
    ranges = {escaped(one.name): _range_of(values[one.name], one.log) for one in searched if values[one.name]}
    study = optuna.create_study(direction="maximize")
    study.add_trials([_frozen(trial, ranges) for trial in trials])
    return study


def _range_of(values: Sequence[Any], log: bool) -> "optuna.distributions.BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if any(isinstance(value, str) for value in values):
        return CategoricalDistribution(sorted({escaped(str(value)) for value in values}))
    return FloatDistribution(min(values), max(values), log=log and min(values) > 0)


def _frozen(
    trial: TrialResult, ranges: "dict[str, optuna.distributions.BaseDistribution]"
) -> "optuna.trial.FrozenTrial":
    from optuna.trial import TrialState, create_trial

    named = {escaped(name): _drawn(value) for name, value in trial.searched.items()}
    params = {name: value for name, value in named.items() if name in ranges}
    state = TrialState.COMPLETE if trial.is_complete else TrialState.FAIL
    if trial.status == "RUNNING":
        state = TrialState.RUNNING
    elif trial.is_stopped_early:
        state = TrialState.PRUNED
    made = create_trial(
        state=state,
        value=trial.objective if trial.is_complete else None,
        params=params,
        distributions={name: ranges[name] for name in params},
        constraints=None if trial.objective is None else {"criterion": max(0.0, -trial.objective)},
    )
    if trial.started is not None and trial.ended is not None and state != TrialState.RUNNING:
        made.datetime_start, made.datetime_complete = (
            datetime.datetime.fromtimestamp(seconds, datetime.UTC).replace(tzinfo=None)
            for seconds in (trial.started, trial.ended)
        )
    return made


def importance(trials: Sequence[TrialResult], varied: Sequence[Searched]) -> dict[str, float]:
    """Share of the criterion's variance that each hyper-parameter explains, highest first: seeded fANOVA."""
    import optuna

    study = frozen_study(trials, varied)
    names = {escaped(one.name): one.name for one in varied}
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=_SEED)
    found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {names[name]: share for name, share in found.items()}


# ----------------------------------------------------------------------------------------- their look


def _mended(figure: go.Figure, texts: Mapping[str, Sequence[str]]) -> go.Figure:
    """A figure of Optuna's in the page's colours and words, with a text at each point.

    Args:
        figure: by `optuna.visualization`.
        texts: name of a trace -> escaped texts of its points.
    """
    mended = go.Figure(_recoloured(figure.to_plotly_json()))
    mended.layout.title = None
    for trace in mended.data:
        if trace.name in texts:
            trace.update(hovertext=list(texts[trace.name]), hoverinfo="text", hovertemplate=None)
        if trace.name in ("Feasible Trial", _TARGET):
            trace.update(marker={"size": 9, "line": {"color": SOFT, "width": 0.5}})
        if trace.name == "Infeasible Trial":
            trace.update(marker=HOLLOW)
        trace.name = _NAMES.get(trace.name, trace.name)
    return mended


def _recoloured(part: Any, key: str = "") -> Any:
    if isinstance(part, dict):
        return {name: _recoloured(value, name) for name, value in part.items() if name != "template"}
    if key == "colorscale":
        return SCALE
    if isinstance(part, list | tuple):
        return [_recoloured(value) for value in part]
    return _PALETTE.get(part, part) if isinstance(part, str) else part


def _points(trials: Sequence[TrialResult]) -> dict[str, list[str]]:
    """Texts at the points of the two traces into which Optuna divides trials."""
    return {
        name: [said(trial) for trial in trials if trial.is_met == is_met]
        for name, is_met in (("Feasible Trial", True), ("Infeasible Trial", False))
    }


def _complete(findings: Findings) -> list[TrialResult]:
    return [trial for trial in findings.trials if trial.is_complete]


def _varied(findings: Findings, *, partly: bool = False) -> list[Searched]:
    """Hyper-parameters that every complete trial has, with more than one value among them.

    Args:
        partly: also those that some trials only have.
    """
    complete = _complete(findings)
    values = {
        one.name: [t.searched[one.name] for t in complete if one.name in t.searched]
        for one in findings.searched
    }
    return [
        one
        for one in findings.searched
        if len({*values[one.name]}) > 1 and (partly or len(values[one.name]) == len(complete))
    ]


def _mark_zero(figure: go.Figure, trials: Sequence[TrialResult]) -> None:
    """Draw where the criterion's bounds begin to hold, if a trial misses them."""
    if any(not trial.is_met for trial in trials):
        level(figure, 0, "")


# ------------------------------------------------------------------------------------------ the winner


def _winner_of(findings: Findings, shown: Sequence[TrialResult]) -> TrialResult | None:
    """The winner, where a chart shows it."""
    winner = findings.winner
    return next((trial for trial in shown if winner is not None and trial.run_id == winner.run_id), None)


def _mark(figure: go.Figure, winner: TrialResult, x: Any, y: Any, *, is_named: bool = True) -> None:
    """Draw the winner's star, over its other mark.

    Args:
        is_named: whether the star has an entry in the legend.
    """
    star = go.Scatter(name=name_of(winner), x=[x], y=[y], mode="markers", marker=STAR)
    star.update(hoverinfo="text", hovertext=[said(winner)], showlegend=is_named)
    figure.add_trace(star)


def _drawn(value: float | str) -> float | str:
    """A hyper-parameter's value as the study of `frozen_study` has it."""
    return escaped(value) if isinstance(value, str) else value


def _told(findings: Findings, shown: Sequence[TrialResult], name: str = "", place: str = "is") -> str:
    """Which trial has the star, and which one the highest value, where that is another.

    Args:
        shown: the trials of a chart, at least one.
        name: hyper-parameter whose values are told; empty: none.
        place: of the star, as a verb.
    """
    winner = _winner_of(findings, shown)
    values = [trial.objective or 0.0 for trial in shown]
    highest = shown[values.index(max(values))]  # of the chart's points, whatever its interval
    top = f"{highest.name} has the highest value{_at(highest, name)}."
    if winner is None:
        return f"{top} The best trial has no mark in this chart."
    star = "the best trial" if winner.is_met else "the trial nearest to the criterion"
    text = f"The star {place} {star}{_at(winner, name)}"
    if winner.objective == highest.objective:
        return f"{text}."
    return f"{text}{': its interval begins highest' if findings.is_winner_by_interval else ''}. {top}"


def _at(trial: TrialResult, name: str) -> str:
    return f", at {setting(trial.searched[name])}" if name else ""


# --------------------------------------------------------------------------------- how the search went


def history_plot(findings: Findings) -> Plot | None:
    """Each trial's value of the criterion, and the highest so far; None with fewer than two such trials."""
    from optuna.visualization import plot_optimization_history

    complete = _complete(findings)
    if len(complete) < 2:
        return None
    study = frozen_study(findings.trials, findings.searched)
    texts = _points(complete)
    figure = _mended(
        plot_optimization_history(study, target_name=_TARGET), texts | {_TARGET: texts["Feasible Trial"]}
    )
    figure.update_traces(showlegend=True, selector={"name": UNMET})
    figure.update_traces(
        line={"color": COLOURS[1], "width": 2, "shape": "hv"}, hoverinfo="skip", selector={"name": _BEST}
    )
    for trace in figure.data:  # before the first value the best is -inf, which JSON lacks
        trace.y = [y if y is not None and math.isfinite(y) else None for y in trace.y]
    figure.data = [trace for trace in figure.data if any(y is not None for y in trace.y)]
    _mark_zero(figure, complete)
    if (winner := _winner_of(findings, complete)) is not None:
        _mark(figure, winner, findings.trials.index(winner), winner.objective)
    step = {"dtick": 1} if len(findings.trials) < 12 else {}
    figure.update_xaxes(title_text="trial, in the order of their start", tickformat="d", **step)
    values = [trial.objective or 0.0 for trial in complete]
    line = ""
    if any(trace.name == _BEST for trace in figure.data):
        line = (
            "The line is the highest value so far. Where it stays flat for long, the trials there found no "
            "higher value. "
        )
    return Plot(
        name="history",
        title="The criterion's value, trial by trial",
        caption=(
            "Each mark is a trial that was trained to its end; point at it to read its hyper-parameters. "
            f"{line}{_told(findings, complete)}"
        ),
        description=f"{counted(len(complete), 'trial')} with values from {min(values):.3g} "
        f"to {max(values):.3g}.",
        figure=figure,
        height=360,
    )


def timeline_plot(findings: Findings) -> Plot | None:
    """When each trial ran; None with fewer than two trials that have ended."""
    from optuna.visualization import plot_timeline

    timed = [trial for trial in findings.trials if trial.seconds is not None and trial.status != "RUNNING"]
    if len(timed) < 2:
        return None
    figure = _mended(plot_timeline(frozen_study(timed, findings.searched)), {})
    for bar in figure.data:
        texts = [f"{said(timed[i])}<br>took {_duration(timed[i].seconds)}" for i in bar.y]
        bar.update(hovertext=texts, hoverinfo="text", hovertemplate=None, text=None)
    names = {"tickvals": list(range(len(timed))), "ticktext": [escaped(trial.name) for trial in timed]}
    figure.update_yaxes(title_text="", autorange="reversed", **(names if len(timed) <= _MAX_NAMES else {}))
    figure.update_xaxes(title_text="time (UTC)")
    figure.update_layout(bargap=0.3)
    slowest = max(timed, key=lambda trial: trial.seconds or 0)
    return Plot(
        name="timeline",
        title="When each trial ran",
        caption=(
            f"Each bar is a trial from its start to its end. The longest is {slowest.name} with "
            f"{_duration(slowest.seconds)}. Room between bars is time in which fewer trials ran. "
            "The bar of a resumed trial includes the time in which the search was stopped."
        ),
        description=f"{counted(len(timed), 'trial')}; the longest took {_duration(slowest.seconds)}.",
        figure=figure,
        height=min(640, 140 + 18 * len(timed)),
    )


_MAX_NAMES = 30
"""Trials whose names stand beside their bars."""


def _duration(seconds: float | None) -> str:
    return str(datetime.timedelta(seconds=round(seconds or 0)))


# ------------------------------------------------------------------------------------- what mattered


def importance_plot(findings: Findings) -> Plot | None:
    """A bar for each hyper-parameter's importance; None where there is no importance."""
    names = list(findings.importance)
    if not names:
        return None
    shares = [findings.importance[name] for name in reversed(names)]  # plotly draws the first one lowest
    bars = go.Bar(x=shares, y=[escaped(name) for name in reversed(names)], orientation="h")
    bars.update(marker_color=COLOURS[0], text=[percent(share) for share in shares], hoverinfo="skip")
    figure = go.Figure(bars)
    figure.update_layout(showlegend=False)
    figure.update_xaxes(title_text="share of the variance", tickformat=".0%", range=[0, 1.1])
    figure.update_yaxes(title_text="")
    most, share = next(iter(findings.importance.items()))
    return Plot(
        name="importance",
        title="Importance of the hyper-parameters",
        caption=findings.importance_note,
        description=f"{most} explains most, {percent(share)}.",
        figure=figure,
        height=120 + 36 * len(names),
    )


def slice_plots(findings: Findings) -> list[Plot]:
    """For each hyper-parameter that was varied: its value against the criterion's value."""
    from optuna.visualization import plot_slice

    plots = []
    for one in _varied(findings, partly=True):
        complete = [trial for trial in _complete(findings) if one.name in trial.searched]
        study = frozen_study(complete, findings.searched)
        values = [trial.searched[one.name] for trial in complete]
        drawn = plot_slice(study, params=[escaped(one.name)], target_name=_TARGET)
        figure = _mended(drawn, _points(complete))
        figure.update_traces(marker_showscale=False, selector={"name": MET})
        numbers = [value for value in values if not isinstance(value, str)]
        ends = f"among {counted(len(set(values)), 'value')}"
        if numbers:
            ends = f"from {min(numbers):g} to {max(numbers):g}"
        ticks = log_ticks(numbers) if one.log and min(numbers) > 0 else {}
        figure.update_xaxes(title_text=escaped(one.name), **ticks)
        _mark_zero(figure, complete)
        if (winner := _winner_of(findings, complete)) is not None:
            _mark(figure, winner, _drawn(winner.searched[one.name]), winner.objective, is_named=False)
        plots.append(
            Plot(
                name=f"by-{one.name}",
                title=one.name,
                caption=_told(findings, complete, one.name),
                description=f"{counted(len(complete), 'trial')} by {one.name}, {ends}.",
                figure=figure,
                height=270,
            )
        )
    return plots


def parallel_plot(findings: Findings) -> Plot | None:
    """A line for each trial through all its hyper-parameters; None with fewer than two of either."""
    from optuna.visualization import plot_parallel_coordinate

    complete, varied = _complete(findings), _varied(findings)
    if len(complete) < 2 or len(varied) < 2:
        return None
    study = frozen_study(complete, varied)
    figure = _mended(plot_parallel_coordinate(study, target_name="criterion"), {})
    winner = _winner_of(findings, complete)
    for trial, trace in zip(complete, figure.data, strict=False):  # behind them, entries of the legend
        shade = f"var(--q{round(4 * trace.y[0])})"
        trace.update(hovertext=said(trial), hoverinfo="text", hovertemplate=None, opacity=0.85)
        trace.update(customdata=None, line={"color": shade, "width": 2})
        if winner is trial:
            _mark(figure, trial, trace.x[0], trace.y[0])
    figure.update_annotations(font={"color": INK, "size": 11}, bgcolor=PAPER, borderpad=1)
    names = ["criterion", *sorted(escaped(one.name) for one in varied)]  # whole, which Optuna cuts
    figure.update_layout(margin_t=40, xaxis={"ticktext": names, "showline": False, "ticks": ""})
    return Plot(
        name="parallel",
        title="All hyper-parameters of each trial",
        caption=(
            "Each line is a trial; it crosses each axis at the trial's value. Darker lines (in dark mode, "
            "lighter ones) have a higher value of the criterion: look where they come together. Point at "
            f"the place where a line crosses an axis to read that trial. "
            f"{_told(findings, complete, place='is on the line of')}"
        ),
        description=f"{counted(len(complete), 'trial')} through {counted(len(varied), 'hyper-parameter')}.",
        figure=figure,
        height=420,
        least_width=680,
    )


def contour_plot(findings: Findings) -> Plot | None:
    """The criterion's value over the two most important hyper-parameters; None without an importance."""
    from optuna.visualization import plot_contour

    names = [one.name for one in _varied(findings)]
    pair = [name for name in findings.importance if name in names][:2]
    if len(pair) < 2:
        return None
    complete = _complete(findings)
    study = frozen_study(complete, findings.searched)
    figure = _mended(
        plot_contour(study, params=[*map(escaped, pair)], target_name="criterion"), _points(complete)
    )
    for name, colour in ((MET, COLOURS[1]), (UNMET, PAPER)):
        mark = {"color": colour, "size": 10, "line": {"color": PAPER, "width": 1.5}}
        figure.update_traces(marker=mark, selector={"name": name})
    axes = (figure.layout.xaxis, figure.layout.yaxis)
    if (winner := _winner_of(findings, complete)) is not None:
        shown = {escaped(name): name for name in pair}
        x, y = (_drawn(winner.searched[shown[axis.title.text]]) for axis in axes)
        _mark(figure, winner, x, y)
    for axis in axes:
        if axis.type == "log":
            axis.dtick = 1 if axis.range[1] - axis.range[0] > 2 else "D2"
    return Plot(
        name="contour",
        title=f"{pair[0]} and {pair[1]} together",
        caption=(
            "The two most important hyper-parameters. Dots are trials that meet the criterion, hollow ones "
            "miss it. The colour between them is interpolated, and says little where there are few dots. "
            f"{_told(findings, complete)}"
        ),
        description=f"{counted(len(complete), 'trial')} over {pair[0]} and {pair[1]}.",
        figure=figure,
        height=460,
    )

"""Charts over epochs: a trial's scores and losses, and the scores of a study's best trials.

Epochs are counted from 0 in the data and from 1 in the charts.
"""

import math
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from feature_store.wording import counted
from pipeline.reporting import weight_shares
from pipeline.reporting.plots import Plot, Points, level, line
from pipeline.reporting.results import Findings, number
from pipeline.training.columns import columns, label_of, of_targets
from pipeline.training.epochs import EpochMetrics
from search_spaces.base import Criterion

Epochs = Sequence[EpochMetrics]
"""A trial's epochs in order."""

ERRORS = (
    ("val_mse", "MSE"),
    ("val_guider_mse", "guider MSE"),
    ("val_guider_accuracy", "guider accuracy"),
    ("train_objective", "objective"),
)
"""What a trial's epochs have besides the scores."""

SIGNS = {"at_least": "≥", "at_most": "≤"}
"""Kind of a bound -> how people write it."""
_TERMS = {
    "train_objective": "whole objective (Eq. 21)",
    "train_sp": "L_sp, selector and predictor (Eq. 5)",
    "train_guide": "L_guide, guider (Eq. 9)",
    "train_ib": "L_ib, information bottleneck (Eq. 11)",
    "train_mi": "L_mi (Eq. 12)",
    "train_d": "L_d, discriminator (Eq. 13)",
    "train_g": "L_g, calibration (Eq. 14)",
    "train_guider_minus_predictor": "L_guide - L_sp: below 0 the guider knows more",
    "train_discriminator_accuracy": "balanced accuracy of the discriminator",
    "train_lm": "L_lm, language model (Eq. 15)",
    "train_coherence": "coherence of the mask",
    "train_rate": "control of the selection rate",
}
"""Losses with a panel of their own, and their equation in [Sha2023]."""


def scores_of(dataset: str, criterion: Criterion | None = None) -> list[tuple[str, str]]:
    """Validation scores between 0 and 1 that the charts of a data set show, with their labels."""
    decisive = () if criterion is None else criterion.metrics
    return [(f"val_{column.score}", column.label) for column in columns(dataset, decisive) if column.is_share]


def score_plot(history: Epochs, criterion: Criterion, best: int | None, dataset: str) -> Plot:
    """Scores and selection rate over epochs, with the criterion's bounds and the best epoch."""
    scores = scores_of(dataset, criterion)
    shown = {key: label for key, label in scores if any(key in epoch.metrics for epoch in history)}
    figure = _figure(_lines(history, shown), history, "score")
    figure.update_yaxes(range=[-0.03, 1.03])
    drawn = [bound for bound in criterion.bounds if bound.metric in shown]
    for bound in drawn:
        level(figure, bound.limit, f"{shown[bound.metric]} {SIGNS[bound.kind]} {bound.limit:g}")
    _mark_best(figure, best, "best epoch")
    marked = (
        "No epoch has every score that the criterion reads."
        if best is None
        else f"The dotted line is epoch {best + 1}, the best by the criterion."
    )
    bounds = " A dashed line across the chart is a bound of the criterion." if drawn else ""
    return Plot(
        name="scores",
        title="Validation scores by epoch",
        caption=f"Each line is a score on the validation texts. {marked}{bounds}",
        description=_description(history, shown, best),
        figure=figure,
        height=420,
    )


def _mark_best(figure: go.Figure, best: int | None, text: str = "") -> None:
    if best is not None:
        level(figure, best + 1, text, is_upright=True)


def _points(history: Epochs, key: str) -> Points:
    return [(epoch.number + 1, epoch.metrics.get(key)) for epoch in history]


def _lines(history: Epochs, shown: Mapping[str, str]) -> list[tuple[str, Points]]:
    """The points of each key of the epochs, under its label."""
    return [(label, _points(history, key)) for key, label in shown.items()]


def _figure(lines: Sequence[tuple[str, Points]], history: Epochs, y_label: str) -> go.Figure:
    """Named lines above whole epochs."""
    figure = go.Figure([line(name, points, style) for style, (name, points) in enumerate(lines)])
    first, last = history[0].number + 1, history[-1].number + 1
    air = 0.5 if first == last else 0.03 * (last - first)
    step = {"dtick": 1} if last - first < 10 else {"nticks": 10}
    figure.update_xaxes(title_text="epoch", range=[first - air, last + air], tickformat="d", **step)
    figure.update_layout(yaxis_title_text=y_label, showlegend=len(lines) > 1)
    return figure


def _description(history: Epochs, shown: Mapping[str, str], best: int | None) -> str:
    ends = [f"{label} ends at {number(history[-1].metrics.get(key))}" for key, label in shown.items()]
    marked = "no epoch is marked" if best is None else f"the best epoch is {best + 1}"
    return f"{counted(len(history), 'epoch')}; {', '.join([*ends, marked])}."


def loss_plots(history: Epochs, best: int | None) -> list[Plot]:
    """A small chart for the errors on validation, then one for each loss that was recorded."""
    panels = [
        (f"{title} on validation", words, {f"val_{name}": "rationale", f"val_guider_{name}": "guider"})
        for name, title, words in (("mse", "MSE", "mean squared error"), ("accuracy", "accuracy", "accuracy"))
    ]
    names = dict.fromkeys(name for epoch in history for name in epoch.metrics)
    by_score: dict[str, dict[str, str]] = {}
    for name in of_targets(name for name in names if name.startswith("val_")):
        target, _, score = name.removeprefix("val_").rpartition("/")
        by_score.setdefault(score, {})[name] = target
    panels += [
        (f"{words} of each target on validation", words, keys)
        for words, keys in ((label_of(score, ""), keys) for score, keys in by_score.items())
    ]
    panels += [(title, key, {key: key}) for key, title in _TERMS.items()]
    measured = {n: n.removeprefix(weight_shares.PREFIX) for n in names if n.startswith(weight_shares.PREFIX)}
    panels.append(("gradient as a share of L_sp's", "share", measured))
    plots = (_loss_plot(title, words, keys, history, best) for title, words, keys in panels)
    return [plot for plot in plots if plot is not None]


def _loss_plot(
    title: str, y_label: str, keys: Mapping[str, str], history: Epochs, best: int | None
) -> Plot | None:
    known = [key for key in keys if any(math.isfinite(epoch.metrics.get(key, math.nan)) for epoch in history)]
    if not known:
        return None
    shown = {key: keys[key] for key in known}
    figure = _figure(_lines(history, shown), history, y_label)
    _mark_best(figure, best)
    return Plot(
        name=f"loss-{known[0].replace('/', '-')}",
        title=title,
        caption="",
        description=_description(history, shown, best),
        figure=figure,
        height=230,
    )


def curve_plots(findings: Findings) -> list[Plot]:
    """The scores of the best trials over their epochs, a chart for each score."""
    longest = max(findings.curves.values(), key=len, default=())
    plots = []
    for key, label in scores_of(findings.dataset, findings.criterion):
        shown = {
            name: history
            for name, history in findings.curves.items()
            if any(key in epoch.metrics for epoch in history)
        }
        if not shown:
            continue
        figure = _figure([(name, _points(history, key)) for name, history in shown.items()], longest, label)
        figure.update_yaxes(range=[-0.03, 1.03])
        figure.update_layout(showlegend=True)
        for bound in () if findings.criterion is None else findings.criterion.bounds:
            if bound.metric == key:
                level(figure, bound.limit, f"{SIGNS[bound.kind]} {bound.limit:g}")
        ends = [f"{name} {number(history[-1].metrics.get(key))}" for name, history in shown.items()]
        plots.append(
            Plot(
                name=f"curves-{key}",
                title=f"{label} by epoch",
                caption=f"After the last epoch: {', '.join(ends)}.",
                description=f"Up to {counted(len(longest), 'epoch')}; after the last one {', '.join(ends)}.",
                figure=figure,
                height=320,
            )
        )
    return plots

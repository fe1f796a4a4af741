"""Which charts the pages show: a trial's scores and losses over its epochs, and a study's trials together.

Epochs are counted from 0 in all data and from 1 in all that people read.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from feature_store.wording import counted
from infocal.gradient_shares import LEAST
from pipeline.reporting import gradient_shares
from pipeline.reporting.charts import Axis, Chart, Dot, Line, Rule
from pipeline.reporting.published import PublishedRow
from pipeline.reporting.results import Findings, ScoreRow, TrialResult, number
from pipeline.training.columns import columns
from search_spaces.base import Criterion

Epochs = Sequence[Mapping[str, Any]]
"""A trial's `history.json`: one entry an epoch, `epoch` and any of `val_*` and `train_*`."""

ERRORS = (
    ("val_mse", "MSE"),
    ("val_guider_mse", "guider MSE"),
    ("val_guider_accuracy", "guider accuracy"),
    ("train_objective", "objective"),
)
"""What a trial's epochs have besides the scores."""

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
    """Validation scores between 0 and 1 that the charts of a data set show, with their labels.

    Args:
        dataset: whose scores are shown.
        criterion: whose scores are shown, too.
    """
    decisive = () if criterion is None else criterion.metrics
    return [(f"val_{column.score}", column.label) for column in columns(dataset, decisive) if column.is_share]


def best_epoch(history: Epochs, criterion: Criterion) -> int | None:
    """The epoch with the highest value of the criterion, of equal ones the first; None where none has one."""
    values = [
        (value, entry["epoch"]) for entry in history if (value := objective(entry, criterion)) is not None
    ]
    return max(values, key=lambda pair: (pair[0], -pair[1]))[1] if values else None


def objective(scores: Mapping[str, Any], criterion: Criterion) -> float | None:
    """The criterion's value, or None where a score that it reads is missing or not finite."""
    read = [scores.get(name) for name in criterion.metrics]
    if any(not isinstance(value, int | float) or not math.isfinite(value) for value in read):
        return None
    return criterion.value(scores)


def score_chart(history: Epochs, criterion: Criterion, best: int | None, dataset: str) -> Chart:
    """Scores and selection rate over epochs, with the criterion's bounds and the best epoch."""
    shown = [
        (key, label) for key, label in scores_of(dataset, criterion) if any(key in entry for entry in history)
    ]
    lines = [Line(name=label, points=_points(history, key), style=i) for i, (key, label) in enumerate(shown)]
    labels = dict(shown)
    rules = [
        Rule(value=bound.limit, label=f"{labels[bound.metric]} {_sign(bound.kind)} {bound.limit:g}")
        for bound in criterion.bounds
        if bound.metric in labels
    ]
    return Chart(
        name="scores",
        title="Validation scores by epoch",
        description=_description(history, lines, best),
        x=_epoch_axis(history),
        y=Axis(low=0, high=1, label="score"),
        lines=lines,
        rules=[*rules, *_best_rule(best)],
        width=860,
        height=380,
        margin_right=130,
    )


def _sign(kind: str) -> str:
    return "≥" if kind == "at_least" else "≤"


def _best_rule(best: int | None, label: bool = True) -> list[Rule]:
    return (
        []
        if best is None
        else [Rule(value=best + 1, label="best epoch" if label else "", axis="x", kind="best")]
    )


def _points(history: Epochs, key: str) -> list[tuple[float, float | None]]:
    return [(entry["epoch"] + 1, entry.get(key)) for entry in history]


def _epoch_axis(history: Epochs) -> Axis:
    epochs = [entry["epoch"] + 1 for entry in history]
    return Axis(low=min(epochs), high=max(max(epochs), min(epochs) + 1), label="epoch", whole=True)


def _description(history: Epochs, lines: Sequence[Line], best: int | None) -> str:
    ends = [f"{line.name} ends at {number(line.points[-1][1])}" for line in lines]
    marked = "no epoch is marked" if best is None else f"the best epoch is {best + 1}"
    return f"{counted(len(history), 'epoch')}; {', '.join([*ends, marked])}."


def loss_panels(history: Epochs, best: int | None) -> list[Chart]:
    """A small chart for the errors on validation, then one for each loss that was recorded."""
    panels = [
        _panel(
            f"{title} on validation",
            words,
            {f"val_{name}": "rationale", f"val_guider_{name}": "guider"},
            history,
            best,
        )
        for name, title, words in (("mse", "MSE", "mean squared error"), ("accuracy", "accuracy", "accuracy"))
    ]
    panels += [_panel(title, key, {key: ""}, history, best) for key, title in _TERMS.items()]
    shares = {name: name.removeprefix(gradient_shares.PREFIX) for entry in history for name in entry}
    measured = {name: term for name, term in shares.items() if name.startswith(gradient_shares.PREFIX)}
    panels.append(_panel("share of the gradient, beside L_sp's", "share", measured, history, best))
    return [panel for panel in panels if panel is not None]


def _panel(
    title: str, y_label: str, keys: Mapping[str, str], history: Epochs, best: int | None
) -> Chart | None:
    shown = {key: label for key, label in keys.items() if any(key in entry for entry in history)}
    values = [
        entry[key]
        for entry in history
        for key in shown
        if entry.get(key) is not None and math.isfinite(entry[key])
    ]
    if not values:
        return None
    lines = [
        Line(name=label or y_label, points=_points(history, key), style=i, label=bool(label))
        for i, (key, label) in enumerate(shown.items())
    ]
    return Chart(
        name=f"panel-{next(iter(shown))}",
        title=title,
        description=_description(history, lines, best),
        x=_epoch_axis(history),
        y=Axis.around(values, y_label),
        lines=lines,
        rules=_best_rule(best, label=False),
        width=360,
        height=190,
        margin_right=70 if any(line.label for line in lines) else 12,
        axis_names=False,
    )


# ------------------------------------------------------------------------------------- a study's trials

_F1_LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def precision_recall_chart(findings: Findings, published: Sequence[PublishedRow]) -> Chart | None:
    """Every trial's best epoch by recall and precision, with the threshold, the front and other methods.

    None where trials have scores but no precision, as on texts without human rationales.
    """
    scored = [trial for trial in findings.trials if trial.scores]
    if scored and all(trial.precision is None for trial in scored):
        return None
    limits = [] if findings.criterion is None else findings.criterion.bounds
    rules = [
        Rule(value=bound.limit, label=f"precision ≥ {bound.limit:g}")
        for bound in limits
        if bound.metric == "val_token_precision"
    ]
    front = [(trial.recall or 0.0, trial.precision) for trial in findings.front]
    shown = [*_published_dots(published), *_trial_dots(findings)]
    met = sum(trial.is_met for trial in findings.trials)
    return Chart(
        name="precision-recall",
        title="Precision against recall of all trials",
        description=(
            f"{counted(len(findings.trials), 'trial')}, the criterion met by {met}; "
            f"the best has precision {number(getattr(findings.winner, 'precision', None))} and "
            f"recall {number(getattr(findings.winner, 'recall', None))}."
        ),
        x=_zoomed([dot.x for dot in shown], "recall"),
        y=_zoomed([*(dot.y for dot in shown), *(rule.value for rule in rules)], "precision"),
        lines=[*_f1_lines(), Line(name="front", points=front, label=False, markers=False, kind="front")],
        dots=[*_trivial_dots(findings.trivial), *shown],
        rules=rules,
        width=860,
        height=600,
        margin_right=130,
    )


def _zoomed(values: Sequence[float], label: str) -> Axis:
    """The part of [0, 1] in which the values lie, with air around it."""
    if not values:
        return Axis(low=0, high=1, label=label)
    return Axis(low=max(0.0, min(values) - 0.05), high=min(1.0, max(values) + 0.05), label=label)


def _f1_lines() -> list[Line]:
    """Curves of equal F1, from where precision is 1 to where recall is 1."""
    lines = []
    for level in _F1_LEVELS:
        start = level / (2 - level)
        recalls = [start + (1 - start) * i / 200 for i in range(201)]
        points: list[tuple[float, float | None]] = [
            (recall, level * recall / (2 * recall - level)) for recall in recalls
        ]
        lines.append(Line(name=f"F1 {level:g}", points=points, markers=False, kind="level", style=7))
    return lines


def _trial_dots(findings: Findings) -> list[Dot]:
    dots = []
    for trial in findings.trials:
        if trial.precision is None or trial.recall is None:
            continue
        is_winner = findings.winner is not None and trial.run_id == findings.winner.run_id
        kind = "winner" if is_winner else "met" if trial.is_met else "unmet"
        label = ("best" if trial.is_met else "nearest") if is_winner else ""
        marker = "star" if is_winner else "circle"
        dots.append(
            Dot(x=trial.recall, y=trial.precision, name=_said(trial), kind=kind, marker=marker, label=label)
        )
    return sorted(dots, key=lambda dot: dot.kind == "winner")  # the winner is drawn over the others


def _trial_dot(trial: TrialResult, is_winner: bool, x: float, y: float, name: str, label: str = "") -> Dot:
    kind = "winner" if is_winner else "met" if trial.is_met else "unmet"
    return Dot(x=x, y=y, name=name, kind=kind, marker="star" if is_winner else "circle", label=label)


def _said(trial: TrialResult) -> str:
    epoch = "" if trial.epoch is None else f", epoch {trial.epoch + 1}"
    searched = ", ".join(f"{name} {value:g}" for name, value in trial.searched.items())
    return (
        f"{trial.name}{epoch}: precision {number(trial.precision)}, recall {number(trial.recall)}, "
        f"F1 {number(trial.scores.get('token_f1'))}, "
        f"selected {number(trial.scores.get('selection_rate'))} ({searched})"
    )


def _published_dots(published: Sequence[PublishedRow]) -> list[Dot]:
    dots = []
    for row in published:
        precision, recall = row.value("precision"), row.value("recall")
        if precision is not None and recall is not None and row.source == MAIN_SOURCE:
            name = f"{row.method}, {row.source}, {row.note}: precision {precision:.3f}, recall {recall:.3f}"
            dots.append(
                Dot(x=recall, y=precision, name=name, kind="paper", marker="diamond", label=row.method)
            )
    return dots


MAIN_SOURCE = "[Sha2023] table 2"
"""The published table whose rows stand in the chart."""


def _trivial_dots(trivial: Sequence[ScoreRow]) -> list[Dot]:
    dots = []
    for row in trivial:
        precision, recall = row.scores.get("token_precision"), row.scores.get("token_recall")
        if precision is not None and recall is not None:
            name = f"{row.name}: precision {precision:.3f}, recall {recall:.3f}"
            dots.append(Dot(x=recall, y=precision, name=name, kind="trivial", marker="cross", label=row.name))
    return dots


def hyper_parameter_panels(findings: Findings) -> list[Chart]:
    """One small chart for each hyper-parameter that was varied: its value against the criterion's value."""
    panels = []
    for searched in findings.searched:
        trials = [t for t in findings.trials if t.objective is not None and searched.name in t.searched]
        if not trials:
            continue
        panels.append(_hyper_parameter_panel(searched.name, searched.log, trials, findings.winner))
    return panels


def _hyper_parameter_panel(
    name: str, log: bool, trials: Sequence[TrialResult], winner: TrialResult | None
) -> Chart:
    values = [trial.searched[name] for trial in trials]
    objectives = [trial.objective for trial in trials if trial.objective is not None]
    log = log and min(values) > 0
    dots = []
    for trial, value, height in zip(trials, values, objectives, strict=True):
        is_winner = winner is not None and trial.run_id == winner.run_id
        text = f"{trial.name}: {name} {value:g}, criterion {height:.3f}"
        dots.append(_trial_dot(trial, is_winner, value, height, text))
    # where no bound is missed, 0 says nothing and would press all dots together
    heights = [*objectives, 0.0] if min(objectives) < 0 else objectives
    y = Axis.around(heights, "value of the criterion")
    return Chart(
        name=f"by-{name}",
        title=name,
        description=f"{counted(len(trials), 'trial')} by {name}, from {min(values):g} to {max(values):g}.",
        x=Axis.around(values, name, log=log),
        y=y,
        dots=sorted(dots, key=lambda dot: dot.kind == "winner"),
        rules=[Rule(value=0, label="", kind="zero")] if y.low < 0 else [],
        width=360,
        height=230,
        margin_right=14,
        axis_names=False,
    )


def share_panels(findings: Findings) -> list[Chart]:
    """One small chart for each weight that was varied and measured: its value against its share."""
    panels = []
    for searched in findings.searched:
        found = gradient_shares.measured(searched.name, findings.trials)
        if found:
            panels.append(_share_panel(searched.name, searched.log, found, findings.winner))
    return panels


def _share_panel(
    name: str, log: bool, found: Sequence[tuple[TrialResult, float, float]], winner: TrialResult | None
) -> Chart:
    values, heights = [value for _, value, _ in found], [share for _, _, share in found]
    dots = [
        _trial_dot(
            trial,
            winner is not None and trial.run_id == winner.run_id,
            value,
            share,
            f"{trial.name}: {name} {value:g}, {100 * share:.3g} % of the gradient",
        )
        for trial, value, share in found
    ]
    return Chart(
        name=f"share-{name}",
        title=name,
        description=f"{counted(len(found), 'trial')}, shares from {min(heights):.2g} to {max(heights):.2g}.",
        x=Axis.around(values, name, log=log),
        y=Axis.around([*heights, LEAST, 1.0], "share of the gradient", log=True, percent=True),
        dots=sorted(dots, key=lambda dot: dot.kind == "winner"),
        rules=[Rule(value=LEAST, label="", kind="zero")],
        width=360,
        height=230,
        margin_right=14,
        axis_names=False,
    )


def curve_panels(findings: Findings) -> list[Chart]:
    """The scores of the best trials over their epochs, a small chart each."""
    longest = max(findings.curves.values(), key=len, default=())
    panels = []
    for key, label in scores_of(findings.dataset, findings.criterion):
        if not any(key in entry for history in findings.curves.values() for entry in history):
            continue
        lines = [
            Line(name=name, points=_points(history, key), style=i, markers=len(longest) <= 20)
            for i, (name, history) in enumerate(findings.curves.items())
        ]
        bounds = [] if findings.criterion is None else findings.criterion.bounds
        panels.append(
            Chart(
                name=f"curves-{key}",
                title=f"{label} by epoch",
                description=_description(longest, lines, None),
                x=_epoch_axis(longest),
                y=Axis(low=0, high=1, label=label),
                lines=lines,
                rules=[Rule(value=bound.limit, label="") for bound in bounds if bound.metric == key],
                width=480,
                height=270,
                margin_right=80,
                axis_names=False,
            )
        )
    return panels

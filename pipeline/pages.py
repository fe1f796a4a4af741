"""The pages that people read: rationales on their texts, a trial's curves, a study's report.

Each page is one file with nothing outside it: no script, font or picture is loaded, so that it opens from a
disk, from the tracker and from an e-mail alike. A number that is not there is shown as a dash.
"""

import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2

from pipeline import markup
from pipeline.charts import Axis, Chart, Line, Rule
from search_spaces.base import Criterion

MISSING = "–"

Epochs = Sequence[Mapping[str, Any]]
"""A trial's `history.json`: one entry an epoch, `epoch` and any of `val_*` and `train_*`."""

_SCORES = (
    ("val_token_precision", "precision"),
    ("val_token_recall", "recall"),
    ("val_token_f1", "F1"),
    ("val_selection_rate", "selected"),
)

_ERRORS = (("val_mse", "MSE"), ("val_guider_mse", "guider MSE"), ("train_objective", "objective"))

_TERMS = {
    "train_objective": "whole objective (Eq. 21)",
    "train_sp": "L_sp, selector and predictor (Eq. 5)",
    "train_guide": "L_guide, guider (Eq. 9)",
    "train_ib": "L_ib, information bottleneck (Eq. 11)",
    "train_mi": "L_mi (Eq. 12)",
    "train_d": "L_d, discriminator (Eq. 13)",
    "train_g": "L_g, calibration (Eq. 14)",
    "train_lm": "L_lm, language model (Eq. 15)",
    "train_coherence": "coherence of the mask",
    "train_rate": "control of the selection rate",
}
"""Losses with a panel of their own, and their equation in [Sha2023]."""


def number(value: float | None, digits: int = 3, missing: str = MISSING) -> str:
    """A number to so many places; a dash where it is missing or not finite."""
    return missing if value is None or not math.isfinite(value) else f"{value:.{digits}f}"


def percent(value: float | None, digits: int = 1) -> str:
    """A fraction in percent; a dash where it is missing or not finite."""
    return MISSING if value is None or not math.isfinite(value) else f"{100 * value:.{digits}f} %"


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("pipeline", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": number, "percent": percent}
    return made


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


def rationale_page(*, title: str, predictions: Sequence[markup.Prediction], note: str) -> str:
    """A page of texts with the human and the model's rationale on each, side by side.

    Args:
        title: of the page.
        predictions: entries of a trial's `best/predictions.json`: `example_id`, `tokens`, `human` (0 or 1 for
            each token, or None), `probability`, `selected`, `prediction`, `guider_prediction`, `target`.
        note: what the texts and the model are; may be empty.

    Raises:
        PipelineError: if the lists of a text are not of one length.
    """
    texts = markup.marked_texts(predictions)
    return _render("rationale_page.html.j2", title=title, note=note, texts=texts, total=markup.total(texts))


def curve_page(*, title: str, history: Epochs, criterion: Criterion) -> str:
    """A page with a trial's validation scores and losses over its epochs.

    Args:
        title: of the page.
        history: one entry an epoch, `epoch` and any of `val_*` and `train_*`; what is missing leaves a gap.
        criterion: its bounds are drawn, and the epoch it prefers is marked.
    """
    best = best_epoch(history, criterion)
    return _render(
        "curve_page.html.j2",
        title=title,
        criterion=str(criterion),
        summary=_summary(history, criterion, best),
        scores=score_chart(history, criterion, best) if history else None,
        panels=_loss_panels(history, best),
        table=_epoch_table(history, best),
    )


def best_epoch(history: Epochs, criterion: Criterion) -> int | None:
    """The epoch with the highest value of the criterion, of equal ones the first; None where none has one."""
    values = [
        (value, entry["epoch"]) for entry in history if (value := objective(entry, criterion)) is not None
    ]
    return max(values, key=lambda pair: (pair[0], -pair[1]))[1] if values else None


def objective(scores: Mapping[str, Any], criterion: Criterion) -> float | None:
    """The criterion's value, or None where a score that it reads is missing or not finite."""
    read = [scores.get(name) for name in (criterion.metric, *(bound.metric for bound in criterion.bounds))]
    if any(not isinstance(value, int | float) or not math.isfinite(value) for value in read):
        return None
    return criterion.value(scores)


def score_chart(history: Epochs, criterion: Criterion, best: int | None, name: str = "scores") -> Chart:
    """Scores and selection rate over epochs, with the criterion's bounds and the best epoch."""
    shown = [(key, label) for key, label in _SCORES if any(key in entry for entry in history)]
    lines = [Line(name=label, points=_points(history, key), style=i) for i, (key, label) in enumerate(shown)]
    labels = dict(shown)
    rules = [
        Rule(value=bound.limit, label=f"{labels[bound.metric]} {_sign(bound.kind)} {bound.limit:g}")
        for bound in criterion.bounds
        if bound.metric in labels
    ]
    return Chart(
        name=name,
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
        [] if best is None else [Rule(value=best, label="best epoch" if label else "", axis="x", kind="best")]
    )


def _points(history: Epochs, key: str) -> list[tuple[float, float | None]]:
    return [(entry["epoch"], entry.get(key)) for entry in history]


def _epoch_axis(history: Epochs) -> Axis:
    epochs = [entry["epoch"] for entry in history]
    return Axis(low=min(epochs), high=max(max(epochs), min(epochs) + 1), label="epoch", whole=True)


def _description(history: Epochs, lines: Sequence[Line], best: int | None) -> str:
    ends = [f"{line.name} ends at {number(line.points[-1][1])}" for line in lines]
    marked = "no epoch is marked" if best is None else f"the best epoch is {best}"
    return f"{len(history)} epochs; {', '.join([*ends, marked])}."


def _summary(history: Epochs, criterion: Criterion, best: int | None) -> str:
    entry = next((entry for entry in history if entry["epoch"] == best), None)
    if entry is None:
        return "No epoch has the scores that it reads."
    found = ", ".join(f"{label} {number(entry.get(key))}" for key, label in _SCORES)
    met = "meets" if criterion.is_met(entry) else "does not meet"
    epochs = [entry["epoch"] for entry in history]
    return f"Best epoch {best} (of {min(epochs)} to {max(epochs)}): {found}; it {met} the criterion."


def _loss_panels(history: Epochs, best: int | None) -> list[Chart]:
    """A small chart for the errors on validation, then one for each loss that was recorded."""
    errors = {"val_mse": "rationale", "val_guider_mse": "guider"}
    panels = [_panel("MSE on validation", "mean squared error", errors, history, best)]
    panels += [_panel(title, key, {key: ""}, history, best) for key, title in _TERMS.items()]
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


def _epoch_table(history: Epochs, best: int | None) -> dict[str, Any] | None:
    columns = [
        *_SCORES,
        ("val_mse", "MSE"),
        ("val_guider_mse", "guider MSE"),
        ("train_objective", "objective"),
    ]
    shown = [(key, label) for key, label in columns if any(key in entry for entry in history)]
    if not shown:
        return None
    rows = [
        {
            "epoch": entry["epoch"],
            "is_best": entry["epoch"] == best,
            "cells": [entry.get(key) for key, _ in shown],
        }
        for entry in history
    ]
    return {"names": [label for _, label in shown], "rows": rows}

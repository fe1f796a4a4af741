"""The pages that people read: rationales on their texts, a trial's curves, a study's report.

Each page is one file with nothing outside it: no script, font or picture is loaded, so that it opens from a
disk, from the tracker and from an e-mail alike. A number that is not there is shown as a dash. Epochs are
counted from 0 in the data and from 1 on the pages.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jinja2

from pipeline import figures, markup
from pipeline.figures import ERRORS, SCORES, Epochs
from pipeline.published import PublishedRow
from pipeline.results import MISSING, Findings, ScoreRow, TrialResult, number, percent
from search_spaces.base import Criterion

_NUM_EXAMPLES = 10
"""Rationales on a study's page; the winner's own page has them all."""


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("pipeline", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"number": number, "percent": percent, "hundred": _hundred, "short": _short}
    return made


def _hundred(value: float | None, digits: int) -> str:
    """A fraction times a hundred, for columns in percent."""
    return number(None if value is None else 100 * value, digits)


def _short(value: float | None) -> str:
    """A hyper-parameter without needless digits."""
    return MISSING if value is None else f"{value:.4g}"


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
    best = figures.best_epoch(history, criterion)
    return _render(
        "curve_page.html.j2",
        title=title,
        criterion=sentence(criterion),
        summary=_summary(history, criterion, best),
        scores=figures.score_chart(history, criterion, best) if history else None,
        panels=figures.loss_panels(history, best),
        table=_epoch_table(history, best),
    )


def _summary(history: Epochs, criterion: Criterion, best: int | None) -> str:
    entry = next((entry for entry in history if entry["epoch"] == best), None)
    if entry is None:
        return "No epoch has the scores that it reads."
    found = ", ".join(f"{label} {number(entry.get(key))}" for key, label in SCORES)
    met = "meets" if criterion.is_met(entry) else "does not meet"
    return f"Best epoch {entry['epoch'] + 1} of {len(history)}: {found}; it {met} the criterion."


def _epoch_table(history: Epochs, best: int | None) -> dict[str, Any] | None:
    columns = [*SCORES, *ERRORS]
    shown = [(key, label) for key, label in columns if any(key in entry for entry in history)]
    if not shown:
        return None
    rows = [
        {
            "epoch": entry["epoch"] + 1,
            "is_best": entry["epoch"] == best,
            "cells": [entry.get(key) for key, _ in shown],
        }
        for entry in history
    ]
    return {"names": [label for _, label in shown], "rows": rows}


def sentence(criterion: Criterion | None) -> str:
    """A criterion as people say it: `best recall with precision ≥ 0.878 (validation)`."""
    if criterion is None:
        return "not known"
    labels = dict((*SCORES, *ERRORS))

    def name(metric: str) -> str:
        return labels.get(metric, metric)

    signs = {"at_least": "≥", "at_most": "≤"}
    bounds = [f"{name(bound.metric)} {signs[bound.kind]} {bound.limit:g}" for bound in criterion.bounds]
    return f"best {name(criterion.metric)} with {' and '.join(bounds)}, on validation"


def study_page(findings: Findings, published: Sequence[PublishedRow]) -> str:
    """The report of a study.

    Args:
        findings: what the study found.
        published: rows to stand beside its best.
    """
    shown = findings.predictions[:_NUM_EXAMPLES]
    return _render(
        "study_page.html.j2",
        title=f"{findings.study}: {findings.dataset} {findings.aspect}".strip(),
        findings=findings,
        criterion=sentence(findings.criterion),
        verdict=_verdict(findings),
        groups=_comparison(findings, published),
        scatter=figures.precision_recall_chart(findings, published),
        panels=figures.hyper_parameter_panels(findings),
        curves=figures.curve_panels(findings),
        trials=[_trial_row(trial, findings) for trial in (*findings.trials, *findings.replicates)],
        texts=markup.marked_texts(shown),
        num_texts=len(findings.predictions),
    )


def _verdict(findings: Findings) -> str:
    winner = findings.winner
    if winner is None:
        return "No trial finished an epoch, so there is nothing to choose from."
    figures_of = (
        f"precision {percent(winner.precision)}, recall {percent(winner.recall)}, F1 {percent(winner.f1)} "
        f"with {percent(winner.selection_rate)} of the tokens selected"
    )
    epoch = "" if winner.epoch is None else f" at epoch {winner.epoch + 1}"
    if winner.is_met:
        return f"The best trial is {winner.name}{epoch}: {figures_of}, on validation. It meets the criterion."
    short = "" if winner.objective is None else f", short by {-winner.objective:.3f}"
    return (
        f"No trial meets the criterion, so nothing was registered. The nearest is {winner.name}{epoch}: "
        f"{figures_of}, on validation{short}."
    )


def _comparison(findings: Findings, published: Sequence[PublishedRow]) -> list[dict[str, Any]]:
    """Groups of rows, each with a heading that says on what its numbers were measured."""
    groups = [
        {"heading": "This study, validation", "kind": "ours", "rows": _own_rows(findings)},
        {
            "heading": "This study, sealed test split",
            "kind": "ours",
            "rows": findings.readings
            or [ScoreRow(name="not read yet", note="python -m pipeline.evaluate reads it")],
        },
        {
            "heading": "Trivial rationales" + (f", {findings.trivial_note}" if findings.trivial_note else ""),
            "kind": "trivial",
            "rows": findings.trivial or [ScoreRow(name="not computed")],
        },
    ]
    for source in dict.fromkeys(row.source for row in published):
        rows = [row for row in published if row.source == source]
        groups.append(
            {
                "heading": f"{source}, {rows[0].note}",
                "kind": "paper",
                "rows": [
                    ScoreRow(
                        name=row.method,
                        precision=row.value("precision"),
                        recall=row.value("recall"),
                        f1=row.value("f1"),
                        selection_rate=row.value("selected"),
                    )
                    for row in rows
                ],
            }
        )
    return groups


def _own_rows(findings: Findings) -> list[ScoreRow]:
    if findings.winner is None:
        return [ScoreRow(name="no trial has a score")]
    winner = findings.winner
    row = ScoreRow(
        name=f"{winner.name}, best epoch",
        precision=winner.precision,
        recall=winner.recall,
        f1=winner.f1,
        selection_rate=winner.selection_rate,
        note="meets the criterion" if winner.is_met else "does not meet the criterion",
    )
    if not findings.spread:
        return [row]
    mean = {name: mean for name, mean, _ in findings.spread}
    deviations = ", ".join(f"{name} ± {percent(sd)}" for name, _, sd in findings.spread)
    seeds = ScoreRow(
        name=f"mean of {findings.num_seeds} seeds",
        precision=mean.get("precision"),
        recall=mean.get("recall"),
        f1=mean.get("F1"),
        selection_rate=mean.get("selected"),
        note=deviations,
    )
    return [row, seeds]


def _trial_row(trial: TrialResult, findings: Findings) -> dict[str, Any]:
    is_best = findings.winner is not None and trial.run_id == findings.winner.run_id
    if trial.objective is None:
        verdict = "–"
    else:
        verdict = "met" if trial.is_met else f"short by {-trial.objective:.3f}"
    ended = "stopped early" if trial.is_stopped_early else trial.status.lower()
    return {
        "name": trial.name + (f", seed {trial.seed}" if trial.seed else ""),
        "is_best": is_best,
        "searched": [trial.searched.get(one.name) for one in findings.searched],
        "epoch": None if trial.epoch is None else trial.epoch + 1,
        "scores": [trial.precision, trial.recall, trial.f1, trial.selection_rate],
        "mse": trial.mse,
        "objective": trial.objective,
        "verdict": verdict,
        "state": trial.failure.replace("_", " ") or ended,
    }

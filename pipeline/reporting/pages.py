"""The pages that people read: rationales on their texts, a trial's curves, a study's report.

Each page is one file with nothing outside it: no script, font or picture is loaded, so that it opens from a
disk, from the tracker (which shows an artifact without the files beside it) and from an e-mail alike. A page
with charts carries plotly's script, deflated, of some 2 MB. A number that is not there is shown as a dash.
Epochs are counted from 0 in the data and from 1 on the pages.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jinja2
from markupsafe import Markup, escape

from infocal.gradient_shares import LEAST
from pipeline.reporting import (
    comparison_plots,
    epoch_plots,
    markup,
    optuna_plots,
    plots,
    trial_plots,
    weight_shares,
)
from pipeline.reporting.epoch_plots import ERRORS, SIGNS, Epochs
from pipeline.reporting.paper_tables import PaperSection, state
from pipeline.reporting.published import PublishedRow
from pipeline.reporting.results import (
    MISSING,
    Findings,
    ScoreRow,
    TrialResult,
    give_or_take,
    number,
    percent,
    rough_percent,
    setting,
)
from pipeline.reporting.standings import Standings
from pipeline.training import data_options
from pipeline.training.columns import MASKS, Column, columns, label_of, of_targets, shortfall
from search_spaces.base import Criterion, at_rate

_NUM_EXAMPLES = 10
"""Rationales on a study's page; the winner's own page has them all."""


@functools.cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("pipeline.reporting", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "number": number,
        "percent": percent,
        "rough_percent": rough_percent,
        "hundred": _hundred,
        "short": setting,
        "ticked": _ticked,
        "breakable": _breakable,
        "stacked": _stacked,
        "state": state,
    }
    return made


def _hundred(value: float | None, digits: int) -> str:
    """A fraction times a hundred, for columns in percent."""
    return number(None if value is None else 100 * value, digits)


def _ticked(text: str) -> Markup:
    """A text in which what stands between backticks is code."""
    parts = enumerate(text.split("`"))
    return Markup("").join(Markup("<code>{}</code>").format(part) if i % 2 else part for i, part in parts)


def _breakable(name: str) -> Markup:
    """A name that a narrow column may break behind an underscore."""
    return Markup("_<wbr>").join(name.split("_"))


def _stacked(cell: str) -> Markup:
    """A cell whose deviation or interval stands below its figure."""
    for sign in ("±", "["):
        figure, found, rest = cell.partition(f" {sign}")
        if found:
            return Markup("{} <small>{}</small>").format(figure, sign + rest)
    return escape(cell)


def _render(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(**values)


def rationale_page(*, title: str, predictions: Sequence[markup.Prediction], note: str) -> str:
    """A page of texts with the human and the model's rationale on each, side by side.

    Args:
        predictions: entries of a trial's `best/predictions.json`: `example_id`, `tokens`, `human` (0 or 1 for
            each token, or None), `probability`, `selected`, `prediction`, `guider_prediction`, `target`,
            `score_range` (of a regression).
        note: what the texts and the model are; may be empty.

    Raises:
        PipelineError: if the lists of a text are not of one length.
    """
    texts = markup.marked_texts(predictions)
    return _render("rationale_page.html.j2", title=title, note=note, texts=texts, total=markup.total(texts))


def curve_page(*, title: str, history: Epochs, criterion: Criterion, best: int | None, dataset: str) -> str:
    """A page with a trial's validation scores and losses over its epochs.

    Args:
        history: the epochs in order; a score that one of them lacks leaves a gap.
        best: the epoch that it prefers, which is marked; None: there is none.
    """
    return _render(
        "curve_page.html.j2",
        title=title,
        criterion=sentence(criterion, dataset),
        summary=_summary(history, criterion, best, dataset),
        scores=epoch_plots.score_plot(history, criterion, best, dataset) if history else None,
        panels=epoch_plots.loss_plots(history, best),
        plotly=plots.script(),
        table=_epoch_table(history, criterion, best, dataset),
    )


def _summary(history: Epochs, criterion: Criterion, best: int | None, dataset: str) -> str:
    found = next((epoch for epoch in history if epoch.number == best), None)
    if found is None:
        return "No epoch has the scores that it reads."
    shown = epoch_plots.scores_of(dataset, criterion)
    scores = found.metrics
    said = ", ".join(f"{label} {number(scores[key])}" for key, label in shown if key in scores)
    met = "meets" if criterion.is_met(scores) else "does not meet"
    return f"Best epoch {found.number + 1} of {len(history)}: {said}; it {met} the criterion."


def _epoch_table(
    history: Epochs, criterion: Criterion, best: int | None, dataset: str
) -> dict[str, Any] | None:
    every = [*epoch_plots.scores_of(dataset, criterion), *ERRORS]
    shown = [(key, label) for key, label in every if any(key in epoch.metrics for epoch in history)]
    if not shown:
        return None
    rows = [
        {
            "epoch": epoch.number + 1,
            "is_best": epoch.number == best,
            "cells": [epoch.metrics.get(key) for key, _ in shown],
        }
        for epoch in history
    ]
    return {"names": [label for _, label in shown], "rows": rows}


def sentence(criterion: Criterion | None, dataset: str) -> str:
    """A criterion as people say it: `best recall with precision ≥ 0.878, on validation`."""
    if criterion is None:
        return "not known"
    bounds = [
        f"{label_of(bound.metric, dataset)} {SIGNS[bound.kind]} {bound.limit:g}" for bound in criterion.bounds
    ]
    conditions = f" with {' and '.join(bounds)}" if bounds else ""
    rate = "" if criterion.rate is None else f", {at_rate(criterion.rate)}"
    return f"best {label_of(criterion.metric, dataset)}{conditions}{rate}, on validation"


def _why(criterion: Criterion | None) -> str:
    """Where a threshold that a rival gave comes from; empty where it is fixed."""
    why = "" if criterion is None else criterion.why
    return f"The {why}" if why.startswith("threshold ") else ""


def study_page(findings: Findings, published: Sequence[PublishedRow]) -> str:
    """The report of a study.

    Args:
        published: rows to stand beside its best.
    """
    examples = findings.predictions[:_NUM_EXAMPLES]
    groups = _comparison(findings, published)
    every = _columns(findings)
    shares = [column for column in every if column.is_share]
    compared = [column for column in shares if _is_known(column, groups)] or shares
    shown = [column for column in every if _is_scored(column, findings)]
    return _render(
        "study_page.html.j2",
        title=_study_title(findings),
        findings=findings,
        criterion=sentence(findings.criterion, findings.dataset),
        why=_why(findings.criterion),
        maximised="" if findings.criterion is None else label_of(findings.criterion.metric, findings.dataset),
        verdict=_verdict(findings),
        registered=_registered(findings),
        groups=groups,
        compared=compared,
        shown=shown,
        **_study_plots(findings, published),
        shares=weight_shares.summary(findings.searched, findings.trials),
        least_share=LEAST,
        trials=[_trial_row(trial, findings) for trial in (*findings.trials, *findings.replicates)],
        texts=markup.marked_texts(examples),
        num_texts=len(findings.predictions),
    )


def _decisive(findings: Findings) -> tuple[str, ...]:
    return () if findings.criterion is None else findings.criterion.metrics


def _columns(findings: Findings) -> tuple[Column, ...]:
    """Those of the data set, of the criterion and of several targets."""
    scored = (name for trial in (*findings.trials, *findings.replicates) for name in trial.scores)
    return columns(findings.dataset, [*_decisive(findings), *of_targets(dict.fromkeys(scored))])


def _study_plots(findings: Findings, published: Sequence[PublishedRow]) -> dict[str, Any]:
    """The charts of a study's page by their names in its template, and the script that draws them."""
    over_time = (optuna_plots.history_plot(findings), optuna_plots.timeline_plot(findings))
    together = (optuna_plots.parallel_plot(findings), optuna_plots.contour_plot(findings))
    return {
        "scatter": trial_plots.precision_recall_plot(findings, published),
        "over_time": [plot for plot in over_time if plot],
        "importance": optuna_plots.importance_plot(findings),
        "slices": optuna_plots.slice_plots(findings),
        "together": [plot for plot in together if plot],
        "share_plots": trial_plots.share_plots(findings),
        "curves": epoch_plots.curve_plots(findings),
        "num_left_out": sum(not trial.is_complete for trial in findings.trials),
        "plotly": plots.script(),
    }


def _study_title(findings: Findings) -> str:
    of = findings.title or f"{findings.dataset} {findings.aspect}".strip()
    return f"{findings.study}: {of}{data_options.bracketed(findings.options)}"


def _is_known(column: Column, groups: Sequence[dict[str, Any]]) -> bool:
    return any(column.score in row.scores for group in groups for row in group["rows"])


def _is_scored(column: Column, findings: Findings) -> bool:
    """Whether a trial has the score, or none has any."""
    scored = [trial for trial in (*findings.trials, *findings.replicates) if trial.scores]
    return not scored or any(column.score in trial.scores for trial in scored)


def _verdict(findings: Findings) -> str:
    winner = findings.winner
    if winner is None:
        return "No trial finished an epoch, so there is nothing to choose from."
    figures_of = ", ".join(
        f"{column.label} {_with_error(winner, column.score)}"
        for column in _columns(findings)
        if column.is_share and not column.score.startswith("selection_rate") and _is_scored(column, findings)
    )
    figures_of += f" with {percent(winner.scores.get('selection_rate'))} of the tokens selected"
    if winner.errors:
        figures_of += " (± one standard error over bootstrap resamples of the validation texts)"
    epoch = "" if winner.epoch is None else f" at epoch {winner.epoch + 1}"
    if winner.is_met:
        return f"The best trial is {winner.name}{epoch}: {figures_of}, on validation. It meets the criterion."
    short = "" if winner.objective is None else f", {_missed(winner.objective)}"
    missed = "No trial meets the criterion" + ("." if findings.versions else ", so nothing was registered.")
    return f"{missed} The nearest is {winner.name}{epoch}: {figures_of}, on validation{short}."


def _missed(objective: float) -> str:
    """By how much a trial misses the criterion; 1 and more: its start phase lasts, or its mask is trivial."""
    if objective > -1:
        return f"missed by {shortfall(-objective)}"
    return "not to be chosen (its start phase is not over, or it selects (nearly) all or no tokens)"


def _with_error(trial: TrialResult, score: str) -> str:
    """A share in percent, with its standard error where that is known."""
    error = trial.errors.get(score)
    value = trial.scores.get(score)
    return percent(value) if error is None else give_or_take(_hundred(value, 1), percent(error))


def _registered(findings: Findings) -> list[str]:
    """Which trials are versions of a registered model."""
    names = {trial.run_id: trial.name for trial in (*findings.trials, *findings.replicates)}
    return [
        f"{names.get(run_id, run_id)} is {', '.join(labels)}." for run_id, labels in findings.versions.items()
    ]


def _comparison(findings: Findings, published: Sequence[PublishedRow]) -> list[dict[str, Any]]:
    """Groups of rows, each with a heading that says on what its numbers were measured."""
    how_to_read = f"{findings.evaluate} reads it" if findings.evaluate else ""
    groups = [
        {"heading": "This study, validation", "kind": "ours", "rows": _own_rows(findings)},
        {
            "heading": "This study, test split",
            "kind": "ours",
            "rows": findings.readings or [ScoreRow(name="not read yet", note=how_to_read)],
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
                    ScoreRow(name=row.method, scores=row.scores(columns(findings.dataset))) for row in rows
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
        scores=winner.scores,
        note="meets the criterion" if winner.is_met else "does not meet the criterion",
        errors=winner.errors,
    )
    if not findings.spread:
        return [row]
    labels = {column.score: column.label for column in _columns(findings) if column.is_share}
    deviations = ", ".join(
        f"{labels[name]} ± {percent(sd)}" for name, _, sd in findings.spread if name in labels
    )
    seeds = ScoreRow(
        name=f"mean of {findings.num_seeds} seeds",
        scores={name: mean for name, mean, _ in findings.spread},
        note=deviations,
    )
    return [row, seeds]


def _trial_row(trial: TrialResult, findings: Findings) -> dict[str, Any]:
    is_best = findings.winner is not None and trial.run_id == findings.winner.run_id
    verdict = MISSING if trial.objective is None else "met" if trial.is_met else _missed(trial.objective)
    ended = "stopped early" if trial.is_stopped_early else trial.status.lower()
    return {
        "links": findings.links.get(trial.run_id),
        "name": trial.name + (f", seed {trial.seed}" if trial.seed else ""),
        "is_best": is_best,
        "searched": [trial.searched.get(one.name) for one in findings.searched],
        "epoch": None if trial.epoch is None else trial.epoch + 1,
        "scores": trial.scores,
        "errors": trial.errors,
        "objective": trial.objective,
        "verdict": verdict,
        "state": MASKS.get(trial.failure, trial.failure.replace("_", " ")) or ended,
    }


def comparison_page(table: Standings, *, command: str, is_sample: bool) -> str:
    """The table of a comparison.

    Args:
        is_sample: whether the corpus was the made-up one.
    """
    made = (comparison_plots.score_plot(table), comparison_plots.difference_plot(table))
    return _render(
        "comparison_page.html.j2",
        title=table.title,
        table=table,
        command=command,
        is_sample=is_sample,
        drawn=[plot for plot in made if plot],
        plotly=plots.script(),
    )


def tables_page(*, tables: Sequence[Any], notes: Sequence[str]) -> str:
    """A page of plain tables.

    Args:
        tables: each with `title`, `head` and `rows`; the first one's title is the page's.
    """
    return _render("tables_page.html.j2", title=tables[0].title, tables=tables, notes=notes)


def paper_page(*, title: str, sections: Sequence[PaperSection], notes: Sequence[str]) -> str:
    """The page of all tables: ours beside the published ones."""
    return _render("paper_page.html.j2", title=title, sections=sections, notes=notes)

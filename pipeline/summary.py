"""What a search prints at its end: the trials, the choice, and what to run next."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from pipeline import columns, mlflow_page
from pipeline.criterion import Candidate
from pipeline.settings import default_model_name, target_flags, title
from pipeline.storage import Location
from pipeline.study import StudySettings
from pipeline.trainable import best_shown
from pipeline.utilisation import Utilisation
from search_spaces.base import Criterion

PACKAGE, REPORT = "model", "report.html"
"""Names in a study's folder."""


def _columns(dataset: str, scores: Mapping[str, float]) -> dict[str, str]:
    """Column's name -> validation score; those that need another evaluation than an epoch's are left out."""
    found = {column.label.lower(): f"val_{column.score}" for column in columns.columns(dataset)}
    return {label: name for label, name in found.items() if name in scores}


def spread(candidates: Sequence[Candidate], dataset: str) -> dict[str, float]:
    """Mean and deviation over the winner's seeds; nothing where there is one."""
    if len(candidates) < 2:
        return {}
    found = {"num_seeds": float(len(candidates))}
    for name in best_shown(dataset, candidates[0].scores):
        column = [candidate.scores[name] for candidate in candidates]
        found |= {f"{name}_mean": mean(column), f"{name}_sd": stdev(column)}
    return found


def of_study(
    prepared: StudySettings,
    candidates: Sequence[Candidate],
    replicates: Sequence[Candidate],
    *,
    tracking_uri: str,
    directory: Path | Location,
    version: int | None,
    used: Utilisation | None = None,
) -> str:
    """The table of trials, best first, what was chosen, and what to run next.

    Args:
        prepared: what was asked for.
        candidates: the trials, best first.
        replicates: the winner with further seeds.
        tracking_uri: where MLflow tracks.
        directory: the study's folder, as it is called.
        version: number of the registered model; None: nothing was registered.
        used: what the search made of its cores.
    """
    run = prepared.run
    head = f"{title(run.dataset, run.aspect)}: {len(candidates)} trials, {run.criterion}"
    lines = [head, "", table(candidates, run.dataset)]
    over_seeds = spread([candidates[0], *replicates], run.dataset)
    if over_seeds:
        parts = [
            f"{label} {over_seeds[f'{name}_mean']:.3f} +- {over_seeds[f'{name}_sd']:.3f}"
            for label, name in _columns(run.dataset, candidates[0].scores).items()
        ]
        lines += ["", f"winner over {int(over_seeds['num_seeds'])} seeds: {', '.join(parts)}"]
    if used is not None:
        lines += ["", str(used)]
    lines += ["", f"report   {directory / REPORT}", f"model    {directory / PACKAGE}", ""]
    if version is None:
        lines += _nearest(candidates[0], run.criterion, run.dataset)
    else:
        lines += _registered(prepared, version, tracking_uri)
    lines.append(f"  {mlflow_page.how_to_open(tracking_uri)}")
    return "\n".join(lines)


def note(winner: Candidate, run_id: str, criterion: Criterion, dataset: str, registered: str | None) -> str:
    """What a tracker's page of the study says first, in Markdown.

    Args:
        winner: the best trial.
        run_id: of its run.
        criterion: by which it is the best.
        dataset: whose scores are shown.
        registered: name and version of its model, if it has one.
    """
    figures = ", ".join(f"{k} {winner.scores[n]:.3f}" for k, n in _columns(dataset, winner.scores).items())
    outcome = f"registered as `{registered}`" if registered else "nothing was registered"
    return (
        f"Best trial at its epoch {winner.epoch + 1}: {figures}. "
        f"Criterion ({criterion}): {_verdict(winner.violation, winner.degenerate)}; {outcome}.\n\n"
        "Artifact `report.html` shows what the study taught. Each trial is a child run, with its rationales "
        f"in `rationales.html` and its epochs in `curve.html`; the best one is run `{run_id}`."
    )


def _registered(prepared: StudySettings, version: int, tracking_uri: str) -> list[str]:
    run = prepared.run
    name = prepared.model_name
    named = "" if name == default_model_name(run.dataset, run.aspect) else f" --model-name {name}"
    data = "--sample" if prepared.sample else "--data-dir DATA"
    target = f"{target_flags(run.dataset, run.aspect)} {data}{named}"
    store = f"--tracking-uri {shlex.quote(tracking_uri)}"
    return [
        f"registered {name} version {version} as `challenger`. Next:",
        f"  python -m pipeline.promote {target} {store}",
        f"  python -m pipeline.explain --model models:/{name}@challenger {store} --text TEXT",
    ]


def _nearest(best: Candidate, criterion: Criterion, dataset: str) -> list[str]:
    figures = ", ".join(f"{k} {best.scores[name]:.3f}" for k, name in _columns(dataset, best.scores).items())
    said = [
        f"No trial meets the criterion ({criterion}): nothing was registered.",
        f"The nearest one, at epoch {best.epoch + 1}: {figures}.",
    ]
    if best.degenerate is not None:
        return [
            *said,
            f"Its mask is trivial ({best.degenerate.replace('_', ' ')}), which meets no criterion.",
            "What to do: more `--epochs`; training starts dense, and presses only after `dense_epochs`.",
        ]
    has_precision = "val_token_precision" in criterion.metrics
    advice = "`--space wide`, or another `--min-precision`." if has_precision else "or `--space wide`."
    return [*said, f"What to do: more `--trials` or `--epochs`, {advice}"]


def _verdict(violation: float, degenerate: str | None) -> str:
    """Whether the criterion is met; a trivial mask is called by its name."""
    if degenerate is not None:
        return degenerate.replace("_", " ")
    return "met" if violation == 0 else f"missed by {violation:.3f}"


def of_one(best: Mapping[str, Any], criterion: Criterion, output: Path, dataset: str) -> str:
    """The best epoch of one configuration, and how to use its model."""
    scores = best["scores"]
    figures = ", ".join(f"{label} {scores[name]:.4f}" for label, name in _columns(dataset, scores).items())
    met = _verdict(best["violation"], best["degenerate"])
    return "\n".join(
        [
            f"best epoch on validation: {best['epoch'] + 1}; {figures}",
            f"{criterion}: {met}",
            f"\nmodel    {output}",
            f"  python -m pipeline.explain --package {shlex.quote(str(output))} --text TEXT",
        ]
    )


def table(candidates: Sequence[Candidate], dataset: str) -> str:
    """The trials, with what was searched and what it gave on validation."""
    searched = sorted(candidates[0].config)
    scored = {name: value for candidate in candidates for name, value in candidate.scores.items()}
    shown = _columns(dataset, scored)
    rows = [[*searched, "epoch", *shown, "criterion"]]
    for candidate in candidates:
        scores = candidate.scores
        figures = [f"{scores[name]:.4f}" if name in scores else "-" for name in shown.values()]
        met = _verdict(candidate.violation, candidate.degenerate)
        values = [f"{candidate.config[name]:g}" for name in searched]
        rows.append([*values, str(candidate.epoch + 1), *figures, met])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)

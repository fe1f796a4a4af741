"""What a search prints at its end: the trials, the choice, and what to run next."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from pipeline.criterion import Candidate
from pipeline.registry import model_name
from pipeline.study import StudySettings
from pipeline.trainable import BEST_SHOWN
from pipeline.utilisation import Utilisation
from search_spaces.base import Criterion

PACKAGE, REPORT = "model", "report.html"
"""Names in a study's folder."""
_COLUMNS = {
    "precision": "val_token_precision",
    "recall": "val_token_recall",
    "f1": "val_token_f1",
    "selected": "val_selection_rate",
    "mse": "val_mse",
}


def spread(candidates: Sequence[Candidate]) -> dict[str, float]:
    """Mean and deviation over the winner's seeds; nothing where there is one."""
    if len(candidates) < 2:
        return {}
    names = [name for name in BEST_SHOWN if name in candidates[0].scores]
    found = {"num_seeds": float(len(candidates))}
    for name in names:
        column = [candidate.scores[name] for candidate in candidates]
        found |= {f"{name}_mean": mean(column), f"{name}_sd": stdev(column)}
    return found


def of_study(
    prepared: StudySettings,
    candidates: Sequence[Candidate],
    replicates: Sequence[Candidate],
    *,
    tracking_uri: str,
    directory: Path,
    version: int | None,
    used: Utilisation | None = None,
) -> str:
    """The table of trials, best first, what was chosen, and what to run next.

    Args:
        prepared: what was asked for.
        candidates: the trials, best first.
        replicates: the winner with further seeds.
        tracking_uri: where MLflow tracks.
        directory: the study's folder.
        version: number of the registered model; None: nothing was registered.
        used: what the search made of its cores.
    """
    run = prepared.run
    lines = [f"{run.dataset}/{run.aspect}: {len(candidates)} trials, {run.criterion}", "", table(candidates)]
    over_seeds = spread([candidates[0], *replicates])
    if over_seeds:
        parts = [
            f"{label} {over_seeds[f'{name}_mean']:.3f} +- {over_seeds[f'{name}_sd']:.3f}"
            for label, name in _COLUMNS.items()
            if f"{name}_mean" in over_seeds
        ]
        lines += ["", f"winner over {int(over_seeds['num_seeds'])} seeds: {', '.join(parts)}"]
    if used is not None:
        lines += ["", str(used)]
    lines += ["", f"report   {directory / REPORT}", f"model    {directory / PACKAGE}", ""]
    if version is None:
        lines += _nearest(candidates[0], run.criterion)
    else:
        lines += _registered(prepared, version, tracking_uri)
    lines.append(f"  mlflow ui --backend-store-uri {tracking_uri}")
    return "\n".join(lines)


def _registered(prepared: StudySettings, version: int, tracking_uri: str) -> list[str]:
    run = prepared.run
    name = model_name(run.dataset, run.aspect)
    data = "--sample" if prepared.sample else "--data-dir DATA"
    target = f"--dataset {run.dataset} --aspect {run.aspect} {data}"
    store = f"--tracking-uri {tracking_uri}"
    return [
        f"registered {name} version {version} as `challenger`. Next:",
        f"  python -m pipeline.promote {target} {store}",
        f"  python -m pipeline.explain --model models:/{name}@challenger {store} --text TEXT",
    ]


def _nearest(best: Candidate, criterion: Criterion) -> list[str]:
    figures = ", ".join(
        f"{label} {best.scores[name]:.3f}" for label, name in _COLUMNS.items() if name in best.scores
    )
    return [
        f"No trial meets the criterion ({criterion}): nothing was registered.",
        f"The nearest one, at epoch {best.epoch + 1}: {figures}.",
        "What to do: more `--trials` or `--epochs`, `--space wide`, or another `--min-precision`.",
    ]


def of_one(best: Mapping[str, Any], criterion: Criterion, output: Path) -> str:
    """The best epoch of one configuration, and how to use its model."""
    scores = best["scores"]
    figures = ", ".join(f"{label} {scores[name]:.4f}" for label, name in _COLUMNS.items() if name in scores)
    met = "met" if best["is_met"] else f"missed by {best['violation']:.3f}"
    return "\n".join(
        [
            f"best epoch on validation: {best['epoch'] + 1}; {figures}",
            f"{criterion}: {met}",
            f"\nmodel    {output}",
            f"  python -m pipeline.explain --package {output} --text TEXT",
        ]
    )


def table(candidates: Sequence[Candidate]) -> str:
    """The trials, with what was searched and what it gave on validation."""
    searched = sorted(candidates[0].config)
    rows = [[*searched, "epoch", *_COLUMNS, "criterion"]]
    for candidate in candidates:
        scores = candidate.scores
        figures = [f"{scores[name]:.4f}" if name in scores else "-" for name in _COLUMNS.values()]
        met = "met" if candidate.is_met else f"missed by {candidate.violation:.3f}"
        values = [f"{candidate.config[name]:g}" for name in searched]
        rows.append([*values, str(candidate.epoch + 1), *figures, met])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows)

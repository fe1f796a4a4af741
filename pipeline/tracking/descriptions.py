"""What MLflow's pages say first of an experiment, a trial and a version of a model, in Markdown."""

from collections.abc import Mapping

from pipeline.reporting.results import give_or_take
from pipeline.training import columns
from pipeline.training.epochs import BestSoFar, Epoch
from pipeline.training.naming import title

_METRICS = (
    "- `best/` has the scores of a trial's best epoch on validation, `val/` those of every epoch, `train/` "
    "the losses, `test/` what was read of the sealed test split. `best_objective` is the criterion's value, "
    "below 0 where a bound is broken.\n"
    "- Epochs count from 1, and so do the steps of their metrics (in runs of older versions, without a tag "
    "`first_epoch`, steps count from 0)."
)


def of_experiment(dataset: str, aspect: str) -> str:
    """What the runs of an experiment are, and how their metrics are called."""
    return (
        f"Predictions with rationales on **{title(dataset, aspect)}**.\n\n"
        "- A search is a run, and each of its trials is a child run. The description of a search links to a "
        "table of its trials, with what was searched and the scores.\n"
        f"{_METRICS}\n"
        "- A trial's artifacts `rationales.html` and `curve.html` show its rationales and its epochs."
    )


def _figure(best: BestSoFar, name: str) -> str:
    """A score, with its standard error where that was drawn."""
    error = best.errors.get(name)
    digits = columns.digits_of(name)
    return give_or_take(f"{best.scores[name]:.{digits}f}", "" if error is None else f"{error:.{digits}f}")


def of_trial(study: str, dataset: str, last: Epoch) -> str:
    """What came of a trial."""
    scored = [
        f"{column.label.lower()} {_figure(last.best, f'val_{column.score}')}"
        for column in columns.columns(dataset)
        if f"val_{column.score}" in last.best.scores
    ]
    if last.best.epoch is None or not scored:
        return f"A trial of the study `{study}`."
    return (
        f"A trial of the study `{study}`. Best epoch on validation: {last.best.epoch + 1} of "
        f"{last.number + 1}; {', '.join(scored)}. The artifact `rationales.html` shows its rationales, "
        "`curve.html` its epochs."
    )


def of_version(tags: Mapping[str, str], run_id: str) -> str:
    """What a version of a registered model is, and why it was chosen.

    Args:
        tags: of the version; `dataset` is there, what others are missing is not said.
    """
    dataset = tags["dataset"]
    epoch = f", at its epoch {tags['epoch']}" if "epoch" in tags else ""
    study = f" of the study `{tags['study']}`" if "study" in tags else ""
    lines = [
        f"A model of **{title(dataset, tags.get('aspect'))}** (method `{tags.get('method', 'infocal')}`): "
        f"the trial{study} that is the run `{run_id}`{epoch}."
    ]
    if "criterion" in tags:
        lines.append(f"Chosen on validation by its criterion: {tags['criterion']}.")
    scored = [
        f"{column.label.lower()} {tags[f'val_{column.score}']}"
        for column in columns.columns(dataset)
        if f"val_{column.score}" in tags
    ]
    if scored:
        lines.append(f"Scores there: {', '.join(scored)}.")
    if tags.get("origin"):
        lines.append(f"Data: the folder `{tags['origin']}`.")
    if tags.get("corpus") == "sample":
        lines.append("Data: the made-up sample corpus; the scores say nothing about real data.")
    return "\n\n".join(lines)

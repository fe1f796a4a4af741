"""What MLflow's pages say first of an experiment, a trial and a version of a model, in Markdown."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from feature_store.wording import counted
from pipeline.training import columns, data_options
from pipeline.training.epochs import Epoch
from pipeline.training.naming import title
from search_spaces import lookup
from search_spaces.base import Criterion

_METRICS = (
    "- `best/` has the scores of a trial's best epoch on validation, `val/` those of every epoch, `train/` "
    "the losses, `test/` the scores on the test split, if it was read. `best_objective` is the criterion's "
    "value, below 0 where a bound is broken.\n"
    "- Epochs count from 1, and so do the steps of their metrics (in runs of older versions, without a tag "
    "`first_epoch`, steps count from 0)."
)


TITLE_TAG = "data_title"
"""Tag of a version: how own data are called."""


def of_experiment(dataset: str, aspect: str) -> str:
    """What the runs of an experiment are, and how their metrics are called."""
    target = title(dataset, aspect)
    on = f"**{target}**"
    if lookup.depends_on_data(dataset):
        on = f"your own data (`{target}`); the description of a model or a training names the corpus"
    return (
        f"{_ABOUT_EXPERIMENT}{on}.\n\n"
        "- A search is a run, and each of its trials is a child run. The description of a search links to a "
        "table of its trials, with what was searched and the scores.\n"
        f"{_METRICS}\n"
        "- A trial's artifacts `rationales.html` and `curve.html` show its rationales and its epochs."
    )


_ABOUT_EXPERIMENT = "Predictions with rationales on "
_TABLE = "Table of the trials of the search that ended last, with the columns of that search: "


def with_table(note: str, study: str, link: str) -> str:
    """The description of an experiment, beginning with a link to the trials of the study that ended last.

    Args:
        note: the description so far; one that a person wrote is returned as it is.
        link: opens the table.
    """
    about = note.partition("\n\n")[2] if note.startswith(_TABLE) else note
    if not about.startswith(_ABOUT_EXPERIMENT):
        return note
    return f"{_TABLE}[{study}]({link}).\n\n{about}"


def of_trial(study: str, dataset: str, criterion: Criterion, last: Epoch, num_epochs: int) -> str:
    """What came of a trial: the scores of its data set, and every score that the criterion reads.

    Args:
        num_epochs: that it was to train; fewer where it was stopped early.
    """
    shown = columns.of_validation(dataset, last.best.scores, criterion.metrics)
    best = last.best
    scored = [
        f"{label} {columns.with_error(name, best.scores[name], best.errors.get(name))}"
        for label, name in shown.items()
    ]
    if last.best.epoch is None or not scored:
        return f"A trial of the study `{study}`."
    trained = last.number + 1
    stopped = f" (stopped early, of {num_epochs} that were planned)" if trained < num_epochs else ""
    return (
        f"A trial of the study `{study}`. Best epoch on validation: {last.best.epoch + 1} of "
        f"{trained}{stopped}; {', '.join(scored)}. The artifact `rationales.html` shows its rationales, "
        "`curve.html` its epochs."
    )


def of_training(
    target: str, method: str, seed: int, num_epochs: int, criterion: Criterion, comparison: str = ""
) -> str:
    """What a training is that belongs to no search.

    Args:
        target: data set and what is predicted, such as `beer/palate`.
        comparison: that it is part of; empty: it stands alone.
    """
    of = f" of the comparison `{comparison}`" if comparison else ""
    return (
        f"A training{of}: method `{method}` on **{target}**, seed {seed}, at most "
        f"{counted(num_epochs, 'epoch')}. Its best epoch on validation is chosen by: {criterion}. The "
        "artifact `rationales.html` shows its rationales, `curve.html` its epochs."
    )


def of_comparison(target: str, methods: Sequence[str], seeds: Sequence[int], num_epochs: int) -> str:
    """What a comparison is, and where its table stands.

    Args:
        target: data set and what is predicted, such as `beer/palate`.
        num_epochs: of each training.
    """
    listed = ", ".join(f"`{method}`" for method in methods)
    return (
        f"A comparison on **{target}** of {listed}: {counted(len(seeds), 'seed')} of each, "
        f"{counted(num_epochs, 'epoch')}. The artifact `table.html` is its table. Each training is a child "
        "run, whose best epoch on validation is read once on test."
    )


def of_version(tags: Mapping[str, str], run_id: str) -> str:
    """What a version of a registered model is, and why it was chosen.

    Args:
        tags: of the version; `dataset` is there, what others are missing is not said. Scores are those of the
            data set, and every score that the criterion reads.
    """
    dataset = tags["dataset"]
    epoch = f", after its epoch {tags['epoch']}" if "epoch" in tags else ""
    study = f" of the study `{tags['study']}`" if "study" in tags else ""
    options = {
        name.removeprefix(data_options.TAG): value
        for name, value in tags.items()
        if name.startswith(data_options.TAG)
    }
    lines = [
        f"A model of **{_called(tags)}{data_options.bracketed(options)}** "
        f"(method `{tags.get('method', 'infocal')}`): the trial{study} with the run `{run_id}`{epoch}."
    ]
    if "criterion" in tags:
        lines.append(f"Chosen on validation by its criterion: {tags['criterion']}.")
    shown = columns.of_validation(dataset, tags, _decisive(tags))
    scored = [f"{label} {tags[name]}" for label, name in shown.items()]
    if scored:
        lines.append(f"Scores there: {', '.join(scored)}.")
    return "\n\n".join([*lines, *_data(tags)])


def _called(tags: Mapping[str, str]) -> str:
    """Data set and target of a version; own data by their title, else by their folder."""
    return title(own_title(tags) or tags["dataset"], tags.get("aspect"))


def own_title(tags: Mapping[str, str]) -> str:
    """How the own data of a version are called; empty for other data sets."""
    return tags.get(TITLE_TAG) or Path(tags.get("origin", "")).name


def _decisive(tags: Mapping[str, str]) -> tuple[str, ...]:
    """The scores that a version's criterion reads; none where the criterion cannot be read."""
    try:
        return Criterion.parse(tags.get("criterion", "")).metrics
    except ValueError:  # registered by hand
        return ()


def _data(tags: Mapping[str, str]) -> list[str]:
    """On which data a version was trained, where its name leaves that open."""
    found = [f"Data: the folder `{tags['origin']}`."] if tags.get("origin") else []
    if tags.get("corpus") == "sample":
        found.append("Data: the made-up sample corpus; the scores say nothing about real data.")
    return found


WHAT_A_MODEL_IS = (
    "Text in, prediction and rationale out. `challenger` is the newest version, which met its criterion on "
    "validation; `champion` met it on the test split, too."
)
"""Begins the description of a registered model; in older versions it was all of it."""


def of_model(tags: Mapping[str, str]) -> str:
    """What all versions of a registered model have in common: the data set, the target, what is predicted.

    Args:
        tags: of its first version; `dataset` is there, what others are missing is not said.
    """
    dataset, aspect = tags["dataset"], tags.get("aspect")
    target = f", target `{aspect}`" if aspect else ""
    parts = [f"Trained on **{_called(tags)}**: data set `{dataset}`{target}."]
    if tags.get("classes"):
        parts.append(f"Classes: {tags['classes']}.")
    elif tags.get("task_kind") == "regression":
        parts.append("It predicts a number.")
    return "\n\n".join([WHAT_A_MODEL_IS, " ".join(parts), *_data(tags)])

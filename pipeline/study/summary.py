"""What a search prints at its end: the trials, the choice, and what to run next."""

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev

from feature_store import terminal
from feature_store.sources import DEFAULT_DATASET
from feature_store.targets import in_flags
from feature_store.wording import counted
from infocal.metrics.resampling import LEVEL, NUM_DRAWS
from pipeline.base import text_tables
from pipeline.base.command_text import (
    bare_parser,
    named_store,
    parsed_again,
    storage_flags,
    tracking_flags,
    variable_to_set,
)
from pipeline.base.storage import Location, Storage
from pipeline.reporting.results import setting
from pipeline.study.criterion import Candidate, within_reach
from pipeline.study.race import Racer
from pipeline.study.study_settings import StudySettings
from pipeline.study.utilisation import Utilisation
from pipeline.tracking import mlflow_page
from pipeline.training import columns
from pipeline.training.data_options import target_of_run
from pipeline.training.epochs import BestEpoch
from pipeline.training.naming import model_name
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import best_shown
from search_spaces.base import Criterion

PACKAGE, REPORT = "model", "report.html"
"""Names in a study's folder."""


def spread(candidates: Sequence[Candidate], dataset: str, criterion: Criterion) -> dict[str, float]:
    """Mean and deviation over the winner's seeds; nothing where there is one."""
    if len(candidates) < 2:
        return {}
    found = {"num_seeds": float(len(candidates))}
    for name in best_shown(dataset, candidates[0].scores, criterion):
        column = [candidate.scores[name] for candidate in candidates]
        found |= {f"{name}_mean": mean(column), f"{name}_sd": stdev(column)}
    return found


def of_study(
    prepared: StudySettings,
    candidates: Sequence[Candidate],
    replicates: Sequence[Candidate],
    *,
    tracking_uri: str,
    storage: Storage,
    directory: Path | Location,
    version: int | None,
    challenger: int | None = None,
    champion: int | None = None,
    before: str = "",
    used: Utilisation | None = None,
    register: str = "python -m pipeline.register",
    text: str = "a text",
    names: Mapping[str, str] | None = None,
    raced: Sequence[str] = (),
    constant: Mapping[str, float] | None = None,
    address: str = "",
) -> str:
    """The table of trials, best first, what was chosen, and what to run next.

    Args:
        candidates: the trials, the winner first, the others best first.
        replicates: the winner with further seeds.
        directory: the study's folder, as it is called.
        version: number of the registered model; None: nothing was registered.
        challenger: the version that is `challenger`; None: that one.
        champion: the version that is `champion`; None: none is.
        before: what `pipeline.register` has registered of this study, where no trial meets the criterion.
        used: what the search made of its cores.
        register: the command that registers a trial of this study.
        text: to try the registered model on.
        names: id of a trial -> how it is called, such as `trial-02`.
        raced: what `of_race` says.
        constant: validation scores of one answer for all texts; None: not known.
        address: of MLflow's table of the trials; empty: there is none.
    """
    run = prepared.run
    trials = counted(len(candidates), "trial")
    head = f"{target_of_run(run)}: {trials}, {run.criterion}"
    why = [run.criterion.why] if run.rival else []
    lines = [head, *why, "", table(candidates, run.dataset, run.criterion, names or {})]
    if legend := _legend(candidates, run.criterion, run.dataset):
        lines += ["", legend.strip()]
    if raced:
        lines += ["", *raced]
    over_seeds = spread([candidates[0], *replicates], run.dataset, run.criterion)
    if over_seeds:
        parts = [
            f"{label} {over_seeds[f'{name}_mean']:z.3f} +- {over_seeds[f'{name}_sd']:.3f}"
            for label, name in columns.of_validation(
                run.dataset, candidates[0].scores, run.criterion.metrics
            ).items()
        ]
        lines += ["", f"winner over {counted(int(over_seeds['num_seeds']), 'seed')}: {', '.join(parts)}"]
    if used is not None:
        lines += ["", str(used)]
    model = directory / PACKAGE if before else of_model(candidates, directory / PACKAGE)
    lines += ["", f"report   {directory / REPORT}", f"model    {model}", ""]
    if version is None:
        first = variable_to_set(tracking_uri)
        lines += _missed(candidates, run.criterion, run.dataset, register, names or {}, before, first)
    else:
        lines += registered(prepared, version, tracking_uri, text, storage, challenger, champion)
    lines += no_better_than(constant or {}, candidates[0].scores)
    lines.append(f"  {mlflow_page.how_to_open(tracking_uri)}")
    lines += [f"  the trials as a table: {address}"] if address else []
    return "\n".join(lines)


def of_model(epochs: Sequence[BestEpoch], package: Path | Location) -> str:
    """Where the model is; that there is none worth using, and why, where the best one is none.

    Args:
        epochs: the best one of each trial, the best trial's first.
        package: the model's.
    """
    if epochs[0].is_result:
        return str(package)
    useless = [one for one in epochs if not one.is_result]
    reasons = Counter(
        columns.MASKS.get(one.degenerate or "", "the start phase is not over") for one in useless
    )
    whose = "its best epoch" if len(epochs) == 1 else "the best epoch of each trial"
    why = [f"{reason} ({count} of {len(epochs)})" for reason, count in reasons.most_common()]
    return f"none worth using: at {whose}, {', '.join(why) if len(why) > 1 else next(iter(reasons))}"


def no_better_than(constant: Mapping[str, float], scores: Mapping[str, float]) -> list[str]:
    """A note where a model predicts no better than one answer for all texts; else nothing.

    Args:
        constant: scores of that answer; see `constant_answer`.
        scores: of the model, those of the same names among them.
    """
    figures = {name: (scores[name], value) for name, value in constant.items() if name in scores}
    if not figures or any(ours > theirs for ours, theirs in figures.values()):
        return []
    both = "; ".join(
        f"{columns.plain(name)} {ours:.3f} against {theirs:.3f}" for name, (ours, theirs) in figures.items()
    )
    return [f"note: the model predicts no better than a constant answer for all texts ({both})"]


def of_race(racers: Sequence[Racer], names: Mapping[str, str], run: RunSettings) -> list[str]:
    """How the best trials stood against each other over seeds, as one line; none where they did not race.

    Args:
        racers: the winner first.
        names: id of a trial -> how it is called.
        run: whose criterion gives each training its value.
    """
    if len(racers) < 2:
        return []
    score = columns.label_of(run.criterion.metric, run.dataset)
    stood = ", ".join(
        f"{names[one.trial.trial_id]} {one.mean:z.3f} ({counted(1 + len(one.again), 'seed')})"
        for one in racers
    )
    broken = any(result.value < 0 for one in racers for result in (one.trial, *one.results))
    counted_below = "; a training that misses a bound counts with a negative value, the size of the miss"
    below = counted_below if broken else ""
    return [
        f"the first row wins: of the trials with the most seeds, it has the best mean {score}: {stood}{below}"
    ]


def note(
    winner: Candidate,
    run_id: str,
    criterion: Criterion,
    dataset: str,
    registered: str | None,
    before: str = "",
) -> str:
    """What a tracker's page of the study says first, in Markdown.

    Args:
        criterion: by which it is the best.
        registered: name and version of its model, if it has one.
        before: what was registered under another criterion, where it has none.
    """
    figures = figures_of(winner, dataset, criterion)
    outcome = f"registered as `{registered}`" if registered else before or "nothing was registered"
    return (
        f"Best trial at its epoch {winner.epoch + 1}: {figures}. "
        f"Criterion ({criterion}): {_verdict(winner)}; {outcome}.\n\n"
        f"{_legend([winner], criterion, dataset)}"
        "Artifact `report.html` shows what the study taught. Each trial is a child run, with its rationales "
        f"in `rationales.html` and its epochs in `curve.html`; the best one is run `{run_id}`."
    )


def registered(
    prepared: StudySettings,
    version: int,
    tracking_uri: str,
    text: str,
    storage: Storage,
    challenger: int | None = None,
    champion: int | None = None,
) -> list[str]:
    """What to do with a model that was registered just now, or before.

    Args:
        text: to try the model on.
        challenger: the version that is `challenger`, a later one where a study was resumed; None: that one.
        champion: the version that is `champion`; None: none is.
    """
    name, named = prepared.model_name, named_store(tracking_uri)
    store = tracking_flags(storage, tracking_uri)
    promote = [*storage_flags(storage, sample=prepared.sample), *(named if store == named else [])]
    head, model = f"registered {name} version {version} as `challenger`", f"models:/{name}@challenger"
    if challenger not in (None, version):
        head = f"{name} version {version} was registered before, and `challenger` is version {challenger}"
        model = f"models:/{name}/{version}"
        promote += ["--version", str(version)]
    steps = [["pipeline.promote", *data_flags(prepared), *promote]]
    if champion == version:
        head, model, steps = f"{name} version {version} is `champion`", f"models:/{name}@champion", []
    steps.append(["pipeline.explain", "--model", model, *store, "--text", text])
    first = variable_to_set(tracking_uri)
    return [
        f"{head}. Next{f' ({first})' if first else ''}:",
        *(f"  {shlex.join(['python', '-m', *step])}" for step in steps),
    ]


def first_flags(prepared: StudySettings) -> argparse.Namespace:
    """The flags about data with which a study was begun."""
    by = bare_parser("--data-dir", "--cache-dir", "--embedding")
    return parsed_again(prepared.command, f"the settings of `{prepared.name}`", by)


def _places_of_data(first: argparse.Namespace) -> list[str]:
    """The flags that say where the data, features and word vectors are, as they were given first."""
    stated = {"--data-dir": first.data_dir, "--cache-dir": first.cache_dir, "--embedding": first.embedding}
    return [text for flag, value in stated.items() if value for text in (flag, value)]


def data_flags(prepared: StudySettings) -> list[str]:
    """The flags that name a study's data and model to another command, but for its defaults."""
    run, first = prepared.run, first_flags(prepared)
    flags = [] if run.dataset == DEFAULT_DATASET else ["--dataset", run.dataset]
    flags += ["--aspect", in_flags(run.aspect)] if run.aspect else []
    flags += ["--sample"] if prepared.sample else []
    flags += _places_of_data(first)
    # what the command that gets these flags would call the model by itself
    unnamed = argparse.Namespace(
        **vars(first) | {"dataset": run.dataset, "sample": prepared.sample, "model_name": None}
    )
    if prepared.model_name != model_name(unnamed, run.aspect):
        flags += ["--model-name", prepared.model_name]
    return flags


def evaluate_flags(prepared: StudySettings, tracking_uri: str, storage: Storage) -> str:
    """The flags with which `pipeline.evaluate` finds the runs and the data of a study, for a shell."""
    return shlex.join([*tracking_flags(storage, tracking_uri), *_places_of_data(first_flags(prepared))])


def _legend(candidates: Sequence[Candidate], criterion: Criterion, dataset: str) -> str:
    """What stands behind `±`, and by what trials are ordered; empty where nothing was drawn."""
    if not any(one.intervals for one in candidates):
        return ""
    label = columns.label_of(criterion.metric, dataset).lower()
    return (
        f"± one standard error over {NUM_DRAWS:,} bootstrap resamples of the validation texts; trials that "
        f"meet the criterion are ranked by the low end of the {LEVEL:.0%} interval of {label}.\n\n"
    )


def _missed(
    candidates: Sequence[Candidate],
    criterion: Criterion,
    dataset: str,
    register: str,
    names: Mapping[str, str],
    before: str,
    first: str,
) -> list[str]:
    """What to do where no trial meets the criterion: the command that registers a useful one.

    Args:
        first: what is to be done before that command; empty: nothing.
    """
    said = [f"No trial meets the criterion ({criterion}): {before or 'nothing was registered'}."]
    if before:
        return said
    reached = within_reach(candidates, criterion)
    if reached is None:
        return [
            *said,
            "No trial has an epoch that could be chosen: in every epoch the model selects (nearly) all or no "
            "tokens, or the start phase of the training is not over. If trainings "
            "failed, see the lines above or MLflow for the reasons.",
            "What to do: give more `--epochs`. Rationales become short only after the start phase, whose "
            "length `python -m pipeline.search --dry-run` prints.",
        ]
    relaxed, chosen = reached
    figures = figures_of(chosen, dataset, criterion)
    return [
        *said,
        f"The following command registers {names.get(chosen.trial_id, 'the trial')} with {figures} "
        f"(epoch {chosen.epoch + 1}){f' ({first})' if first else ''}:",
        f"  {register} {stated(relaxed, criterion)}",
        "`promote` checks the same bounds on test, where scores are often lower: bounds slightly below the "
        "validation scores are safer.",
    ]


def advice(
    candidates: Sequence[Candidate],
    run: RunSettings,
    register: str,
    names: Mapping[str, str],
    *,
    is_exhausted: bool = False,
) -> str:
    """What the study's page says to do where no trial meets the criterion; code stands between backticks.

    Args:
        names: id of a trial -> its name.
        is_exhausted: whether every point of the space was tried.
    """
    reached = within_reach(candidates, run.criterion)
    if reached is None:
        return (
            "search with more `--epochs`: rationales become short only after the start phase, whose length "
            "`--dry-run` prints."
        )
    relaxed, chosen = reached
    return (
        f"`{register} {stated(relaxed, run.criterion)}` registers "
        f"{names.get(chosen.trial_id, 'the trial')}, with "
        f"{figures_of(chosen, run.dataset, run.criterion)}; or search "
        + ("with more `--epochs`." if is_exhausted else "with more `--trials` or `--epochs`.")
    )


def figures_of(candidate: Candidate, dataset: str, criterion: Criterion) -> str:
    """The scores of a trial's best epoch in words, with their standard errors where they were drawn."""
    found = columns.of_validation(dataset, candidate.scores, criterion.metrics)
    return ", ".join(f"{label} {_figure(candidate, name)}" for label, name in found.items())


def _figure(candidate: Candidate, name: str) -> str:
    """A score, with its standard error over bootstrap resamples of validation texts where that is known."""
    error = candidate.intervals[name].error if name in candidate.intervals else None
    return columns.with_error(name, candidate.scores[name], error)


def stated(relaxed: Criterion, criterion: Criterion) -> str:
    """The flag that states a criterion which differs from another one in its limits."""
    changed = [new for new, old in zip(relaxed.bounds, criterion.bounds, strict=True) if new != old]
    if [bound.metric for bound in changed] == ["val_token_precision"]:
        return f"--min-precision {changed[0].limit:g}"
    return f"--criterion {shlex.quote(str(relaxed))}"


def _verdict(one: BestEpoch) -> str:
    """Whether the criterion is met; a trivial mask is called by its name."""
    if one.degenerate is not None:
        return columns.MASKS[one.degenerate]
    if not one.is_result:
        return "start phase not over"
    return "met" if one.is_met else f"missed by {columns.shortfall(one.violation)}"


def of_one(best: BestEpoch, criterion: Criterion, output: Path, dataset: str, text: str = "TEXT") -> str:
    """The best epoch of one configuration, and how to use its model.

    Args:
        criterion: by which it is the best.
        text: to try the model on.
    """
    figures = ", ".join(
        f"{label} {columns.with_error(name, best.scores[name])}"
        for label, name in columns.of_validation(dataset, best.scores, criterion.metrics).items()
    )
    met = _verdict(best)
    worth = "" if best.is_result else f" ({of_model([best], output)})"
    return "\n".join(
        [
            f"best epoch on validation: {best.epoch + 1}; {figures}",
            f"{criterion}: {met}",
            f"\nmodel    {output}{worth}",
            f"  python -m pipeline.explain --package {shlex.quote(str(output))} --text {shlex.quote(text)}",
        ]
    )


def table(
    candidates: Sequence[Candidate], dataset: str, criterion: Criterion, names: Mapping[str, str]
) -> str:
    """The trials, with what was searched and what it gave on validation.

    Args:
        candidates: a row each, in this order.
        criterion: that the trials are to meet.
        names: id of a trial -> its name, such as `trial-02`; a trial without one shows its id.
    """
    searched = sorted({name for candidate in candidates for name in candidate.config})
    scored = {name: value for candidate in candidates for name, value in candidate.scores.items()}
    shown = columns.of_validation(dataset, scored, criterion.metrics)
    # a column that says of no trial anything is left out
    ended = ["ended"] if any(candidate.ended for candidate in candidates) else []
    rows = [["trial", *searched, "epoch", *shown, "criterion", *ended]]
    for candidate in candidates:
        scores = candidate.scores
        figures = [_figure(candidate, name) if name in scores else "-" for name in shown.values()]
        met = _verdict(candidate)
        values = [setting(candidate.config.get(name), 6, missing="-") for name in searched]
        name = names.get(candidate.trial_id, candidate.trial_id).removeprefix("trial-")
        how = [candidate.ended or "-" for _ in ended]
        rows.append([name, *values, str(candidate.epoch + 1), *figures, met, *how])
    # while a search runs, `sys.stdout` is stderr
    return fitted(rows, len(searched), terminal.width_of(sys.__stdout__))


def fitted(rows: text_tables.Cells, num_searched: int, width: int | None) -> str:
    """Rows as a table; where it is wider than the terminal, as several, which all begin with the names.

    Args:
        rows: cells, the titles first; in each the trial's name, then the searched hyper-parameters.
        num_searched: how many hyper-parameters there are; in several tables they come last.
        width: characters of a line; None: as many as are needed.
    """
    searched = range(1, 1 + num_searched)
    order = [*range(1 + num_searched, len(rows[0])), *searched]
    found = text_tables.parts(rows, width, order=order)
    return "\n\n".join(text_tables.aligned(part, names_left=False) for part in found)

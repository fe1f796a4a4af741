"""Gathers what a study found from the tracker, and writes its page.

What the tracker does not hold stays missing: nothing is estimated, and trials are never trained or scored
here. The test split is not read either; a reading that was logged on the winner's run is shown.
"""

import dataclasses
import datetime
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from feature_store.wording import counted
from infocal.errors import ConfigError, StateError
from infocal.metrics import trivial as baselines
from pipeline.base import command_text
from pipeline.base.errors import PipelineError
from pipeline.reporting import optuna_plots, pages, published, weight_shares
from pipeline.reporting.results import Findings, Links, ScoreRow, Searched, TrialResult
from pipeline.study.criterion import CRITERION_TAG
from pipeline.tracking import epoch_steps, mlflow_page, mlflow_view, model_registry
from pipeline.tracking.sealed_split import READINGS_TAG
from pipeline.tracking.tracking import PARENT_TAG, STUDY_TAG, TrackedRun, Tracker, read_back
from pipeline.training import checkpoints, columns, data_options
from pipeline.training.best import best_first
from pipeline.training.epochs import EpochMetrics
from search_spaces import lookup
from search_spaces import space as spaces
from search_spaces.base import Criterion
from search_spaces.space import Range, Space

logger = logging.getLogger("pipeline.study.findings")

PREDICTIONS = "best/predictions.json"
"""Artifact of a trial's run."""

RATIONALES = "rationales.html"
"""Page among the artifacts of a trial's run."""
ADVICE_TAG = "advice"
"""Tag of a study's run: what to do where no trial meets the criterion."""
EVALUATE_TAG = "evaluate_flags"
"""Tag of a study's run: the flags with which `pipeline.evaluate` finds its runs and data, for a shell."""

LINES = {
    "random_k": "random k",
    "first_k": "first k",
    "oracle_k": "oracle k, the ceiling",
    "all_tokens": "all tokens",
    "no_tokens": "no tokens",
}
"""Trivial rationales of `infocal.metrics.trivial`, and how they are called on a page."""

_NUM_CURVES = 5
_MIN_TRIALS = 20
"""Trials from which an importance is computed at all."""

_FACTS = {
    "method": "method",
    "space_name": "search space",
    "sampler": "sampler",
    "num_trials": "trials asked for",
    "num_epochs": "epochs of a trial",
    "device": "device",
}
"""Parameters of the study's run that its page repeats."""


def of(found: Findings) -> str:
    """The page of what a study found, as HTML."""
    return pages.study_page(found, published.rows(found.dataset, found.aspect, found.options))


def linked(tracker: Tracker, found: Findings, folder: Path | None) -> Findings:
    """The same with what its page links to, and which trials are registered models.

    Args:
        folder: where the page will lie on this machine, from which files are linked; None: in MLflow, or
            elsewhere.
    """
    experiment_id = tracker.run(found.run_id).experiment_id
    address = mlflow_page.address(tracker.uri)
    links = {}
    for trial in (*found.trials, *found.replicates):
        artifacts = tracker.artifact_folder(trial.run_id)
        rationales = ""
        if (artifacts is None and trial.scores) or (artifacts and (artifacts / RATIONALES).is_file()):
            rationales = f"{address}/{mlflow_view.run(experiment_id, trial.run_id, RATIONALES)}"
            if artifacts is not None and folder is not None:
                here = os.path.relpath((artifacts / RATIONALES).resolve(), folder.resolve())
                rationales = quote(Path(here).as_posix())
        run = f"{address}/{mlflow_view.run(experiment_id, trial.run_id)}"
        links[trial.run_id] = Links(run=run, rationales=rationales)
    has_view = tracker.has_tag(experiment_id, mlflow_view.tag_of(found.run_id))
    return dataclasses.replace(
        found,
        links=links,
        versions={
            run_id: [_registered(label, chosen_by, found) for label, chosen_by in versions]
            for run_id, versions in model_registry.versions_of_runs(
                tracker, found.model_names, list(links)
            ).items()
        },
        table=f"{address}/{mlflow_view.table(experiment_id, found.run_id)}" if has_view else "",
    )


def _registered(label: str, chosen_by: str, found: Findings) -> str:
    """A version of a model; with the criterion that it was registered by, where that is not the study's."""
    stated = _criterion_of_sentence(chosen_by)
    if stated is None or chosen_by == str(found.criterion):
        return label
    return f"{label}, registered by another criterion: {pages.sentence(stated, found.dataset)}"


def gather(tracker: Tracker, study_run_id: str) -> Findings:
    """Everything that the tracker holds about a study, finished or not.

    Raises:
        PipelineError: if there is no such run, or it is no study.
    """
    study = tracker.run(study_run_id)
    check_is_study(study)
    space = _space(study)
    searched = _searched(space)
    children = tracker.children(study_run_id)
    runs = {run.run_id: run for run in children}
    shown = columns.shown(_parameter(study, "dataset"))
    results = [_trial(run, searched, space, shown) for run in children]
    trials = [result for result in results if not result.seed]
    best = ranked(trials)
    winner = next(
        (t for t in trials if t.run_id == study.tags.get("winner_run_id")), best[0] if best else None
    )
    if winner is not None:
        # what is computed once, on the finished winner, is logged on the study's run
        once = _scores(study.metrics, "val_", shown)
        winner = dataclasses.replace(winner, scores={**once, **winner.scores})
    predictions = [] if winner is None else _predictions(tracker, winner.run_id)
    trivial, trivial_note = _trivial(study, winner, predictions, shown)
    importances, importance_note = importance(trials, searched)
    return Findings(
        study=study.tags[STUDY_TAG],
        run_id=study.run_id,
        dataset=_parameter(study, "dataset"),
        aspect=_parameter(study, "aspect"),
        status=study.status,
        is_sample=study.tags.get("corpus") == "sample",
        criterion=_criterion(study),
        notes=study.tags.get("notes", "").splitlines(),
        facts=_facts(study),
        searched=searched,
        trials=trials,
        winner=winner,
        replicates=[result for result in results if result.seed],
        spread=_spread(study, shown),
        num_seeds=int(study.metrics.get("num_seeds", 1)),
        importance=importances,
        importance_note=importance_note,
        unheard=[
            *weight_shares.unheard(searched, trials, _wide(study)),
            *weight_shares.won(trials),
        ],
        curves={trial.name: _history(tracker, runs[trial.run_id], shown) for trial in best[:_NUM_CURVES]},
        predictions=predictions,
        trivial=trivial,
        trivial_note=trivial_note,
        readings=[] if winner is None else _readings(runs[winner.run_id], shown),
        model_names=_model_names(study),
        title=_title(study),
        options=data_options.of_tags(study.tags),
        advice=_advice(study, winner),
        evaluate=_evaluate(study, winner),
    )


def check_is_study(study: TrackedRun) -> None:
    """Refuse a run that is no study's.

    Raises:
        PipelineError: if it is none; names the study of a trial.
    """
    if STUDY_TAG not in study.tags or PARENT_TAG in study.tags:
        parent = study.tags.get(PARENT_TAG)
        raise PipelineError(
            f"run {study.run_id} (`{study.name}`) is not the run of a study",
            hint=f"name the run of the study: `--run {parent}`" if parent else "name the run of a search",
        )


def ranked(trials: Sequence[TrialResult]) -> list[TrialResult]:
    """Trials that have a score, best first."""
    scored = [trial for trial in trials if trial.objective is not None]
    return best_first(scored, lambda trial: trial.standing)


def importance(trials: Sequence[TrialResult], searched: Sequence[Searched]) -> tuple[dict[str, float], str]:
    """Share of the criterion's variance that each hyper-parameter explains, and how that was found.

    fANOVA (Hutter et al., 2014) on the best epochs of trials that came to their end, seeded. A trial that was
    stopped early has the score of a shorter training, and is left out. Empty where it would mean nothing:
    with fewer than twenty such trials, or where all of them have one value.
    """
    everywhere = [one for one in searched if not one.is_conditional]
    names = [one.name for one in everywhere]
    scored = [
        trial for trial in trials if trial.is_complete and all(name in trial.searched for name in names)
    ]
    if len(scored) < _MIN_TRIALS:
        found = "is 1" if len(scored) == 1 else f"are {len(scored)}"
        return {}, (
            f"Importance is not computed: it needs {_MIN_TRIALS} trials that were trained to the end, but "
            f"there {found}."
        )
    if len({trial.objective for trial in scored}) == 1:
        return {}, (
            f"Importance is not computed: all {len(scored)} trials have the same value of the criterion."
        )
    varied = [one for one in everywhere if len({trial.searched[one.name] for trial in scored}) > 1]
    if not varied:
        return {}, f"Importance is not computed: all {len(scored)} trials have the same hyper-parameters."
    fixed = [name for name in names if name not in {one.name for one in varied}]
    partly = [one.name for one in searched if one.is_conditional]
    note = (
        "Share of the variance of the criterion's value that each hyper-parameter explains (fANOVA over "
        f"{counted(len(scored), 'trial')}). With few trials this is only a rough guide: another search of "
        "this size may rank the hyper-parameters differently."
    )
    return optuna_plots.importance(scored, varied), note + (
        f" Not varied: {', '.join(fixed)}." if fixed else ""
    ) + (f" Searched in some trials only, and left out: {', '.join(partly)}." if partly else "")


# ------------------------------------------------------------------------------------ parts of a study


def _parameter(run: TrackedRun, name: str) -> str:
    return str(read_back(run.params[name])) if name in run.params else ""


def _space(study: TrackedRun) -> Space | None:
    """What the study varied; None where its space is not registered any more."""
    method, dataset, name = (_parameter(study, key) for key in ("method", "dataset", "space_name"))
    try:
        own = study.params.get("own_space")
        return spaces.from_json(own) if own else lookup.space(method, dataset, name)
    except (ConfigError, KeyError, ValueError):
        logger.warning("study %s: no search space `%s` of %s on %s", study.name, name, method, dataset)
        return None


def _wide(study: TrackedRun) -> dict[str, float]:
    """Top of each range of the space `wide`; empty where the study searched it, or a space of its own."""
    method, dataset, name = (_parameter(study, key) for key in ("method", "dataset", "space_name"))
    if name != "paper" or "own_space" in study.params:
        return {}
    try:
        return {one.name: one.high for one in lookup.space(method, dataset, "wide") if isinstance(one, Range)}
    except ConfigError:  # a method or a data set that is not registered any more
        return {}


def _searched(space: Space | None) -> list[Searched]:
    """The hyper-parameters of a space; every lambda where it is not known."""
    if space is None:
        return [Searched(name=key) for key in ("lambda_ib", "lambda_g", "lambda_mi", "lambda_lm")]
    return [
        Searched(name=one.name, log=one.log, high=one.high, is_conditional=bool(one.when))
        if isinstance(one, Range)
        else Searched(name=one.name, is_choice=True, is_conditional=bool(one.when))
        for one in space
    ]


def _criterion(study: TrackedRun) -> Criterion | None:
    """The criterion as the study's run has it, bounds stated by hand included; None where it has none.

    Raises:
        PipelineError: if the run has something else in its place.
    """
    if CRITERION_TAG not in study.tags:
        return _criterion_of_sentence(study.params.get("criterion") or study.tags.get("criterion", ""))
    try:
        return Criterion.from_json(study.tags[CRITERION_TAG])
    except ValueError as error:
        raise PipelineError(str(error), where=f"tag `{CRITERION_TAG}` of run {study.run_id}") from error


def _criterion_of_sentence(text: str) -> Criterion | None:
    """The criterion of a study from before there was JSON of it; None where the text is no criterion."""
    try:
        return Criterion.parse(text, why="as tracked")
    except ValueError:
        return None


def _data_folder(command: str) -> str:
    """Name of the folder that a command's `--data-dir` names; empty where it names none."""
    parser = command_text.bare_parser("--data-dir")
    try:
        folder = command_text.parsed_again(command, "the study's command", parser).data_dir
    except PipelineError as error:
        logger.warning("the name of the data folder is not known: %s", error)
        return ""
    return Path(folder or "").name


def _title(study: TrackedRun) -> str:
    """How own data are called: by their title, else by their folder; empty for other data sets."""
    dataset, notes = _parameter(study, "dataset"), study.tags.get("notes", "").splitlines()
    try:
        if not lookup.depends_on_data(dataset):
            return ""
    except ConfigError:  # a data set of another version
        return ""
    folder = study.tags.get(model_registry.DATA_FOLDER_TAG) or _data_folder(_parameter(study, "command"))
    return data_options.own_title(dataset, notes, Path(folder) if folder else None)


def _evaluate(study: TrackedRun, winner: TrialResult | None) -> str:
    """The command that scores the winner on the test split; empty where there is no winner."""
    if winner is None:
        return ""
    of_old = "--sample" if study.tags.get("corpus") == "sample" else ""
    flags = study.tags.get(EVALUATE_TAG, of_old)
    return " ".join(filter(None, ["python -m pipeline.evaluate --run", winner.run_id, flags]))


def _advice(study: TrackedRun, winner: TrialResult | None) -> str:
    """What to do where the best trial misses the criterion; empty where it meets it."""
    if winner is None or winner.is_met:
        return ""
    return study.tags.get(ADVICE_TAG, "search with more `--trials` or `--epochs`, or with `--space wide`.")


def _model_names(study: TrackedRun) -> list[str]:
    """Registered models that the study's trials may be versions of."""
    registered, _, _ = study.tags.get("registered_as", "").rpartition(" version ")
    return list(dict.fromkeys(filter(None, (_parameter(study, "model_name"), registered))))


def _facts(study: TrackedRun) -> dict[str, str]:
    facts = {"command": _parameter(study, "command")}
    facts |= {shown: _parameter(study, name) for name, shown in _FACTS.items()}
    facts |= {
        "seed": study.tags.get("seed", ""),
        "data fingerprint": study.tags.get("data_fingerprint", ""),
        "git commit": study.tags.get("git_commit", ""),
        "metric mode": study.tags.get("metric_mode", ""),
        "MLflow run": study.run_id,
        "started": _time(study.started),
        "took": ""
        if study.ended is None
        else str(datetime.timedelta(seconds=round(study.ended - study.started))),
    }
    return {name: value for name, value in facts.items() if value}


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _spread(study: TrackedRun, shown: Sequence[str]) -> list[tuple[str, float, float]]:
    metrics = study.metrics
    return [
        (name, metrics[f"val_{name}_mean"], metrics[f"val_{name}_sd"])
        for name in shown
        if f"val_{name}_mean" in metrics and f"val_{name}_sd" in metrics
    ]


def _trivial(
    study: TrackedRun,
    winner: TrialResult | None,
    predictions: Sequence[Mapping[str, Any]],
    shown: Sequence[str],
) -> tuple[list[ScoreRow], str]:
    """The trivial rationales as the study logged them, otherwise computed on the texts that are shown."""
    logged = [
        ScoreRow(name=label, scores=_scores(study.metrics, f"trivial_{line}_", shown))
        for line, label in LINES.items()
    ]
    if any("token_f1" in row.scores for row in logged):
        return (
            logged,
            "on the annotated validation texts, selecting as many of their tokens as the best trial",
        )
    human = [text["human"] for text in predictions]
    rate = None if winner is None else winner.scores.get("selection_rate")
    if rate is None or not any(marks is not None for marks in human):
        return [], ""
    golds = [None if marks is None else np.array(marks, dtype=np.bool_) for marks in human]
    lengths = [len(text["tokens"]) for text in predictions]
    lines = baselines.trivial_lines(golds, lengths, rate)
    rows = [
        ScoreRow(
            name=label,
            scores={
                "token_precision": lines[line].micro.precision,
                "token_recall": lines[line].micro.recall,
                "token_f1": lines[line].micro.f1,
                "selection_rate": lines[line].selection_rate,
            },
        )
        for line, label in LINES.items()
    ]
    return rows, f"{counted(len(golds), 'validation text')}, at the winner's selection rate"


def _scores(metrics: Mapping[str, float], prefix: str, shown: Sequence[str]) -> dict[str, float]:
    """Those of the names that were logged with the prefix, and the scores of several targets."""
    logged = (name.removeprefix(prefix) for name in metrics if name.startswith(prefix))
    names = dict.fromkeys([*shown, *columns.of_targets(logged)])
    return {name: metrics[prefix + name] for name in names if prefix + name in metrics}


# ------------------------------------------------------------------------------------ parts of a trial


def _trial(
    run: TrackedRun, searched: Sequence[Searched], space: Space | None, shown: Sequence[str]
) -> TrialResult:
    values = {one.name: read_back(run.params[one.name]) for one in searched if one.name in run.params}
    if space is not None:  # a value of the base config was not searched
        values = {one.name: values[one.name] for one in spaces.applying(space, values) if one.name in values}
    metrics = run.metrics
    return TrialResult(
        run_id=run.run_id,
        name=run.name,
        status=run.status,
        failure=run.tags.get("failure", ""),
        is_stopped_early=run.tags.get("early_stopped") == "true",
        seed=run.tags.get("seed", "?") if "seed" in run.params else "",
        searched={
            one.name: str(values[one.name]) if one.is_choice else float(values[one.name])
            for one in searched
            if one.name in values and (one.is_choice or isinstance(values[one.name], int | float))
        },
        epoch=int(metrics["best_epoch"]) if "best_epoch" in metrics else None,
        objective=metrics.get("best_objective"),
        lower_bound=metrics.get("best_lower_bound"),
        scores=_scores(metrics, "best_val_", shown),
        errors={n: metrics[f"best_val_{n}_se"] for n in shown if f"best_val_{n}_se" in metrics},
        started=run.started,
        ended=run.ended,
        shares=weight_shares.of_metrics(metrics),
        is_won_by_discriminator=weight_shares.has_winner(metrics),
    )


def _history(tracker: Tracker, run: TrackedRun, shown: Sequence[str]) -> list[EpochMetrics]:
    """The scores of each epoch that was logged."""
    epochs: dict[int, dict[str, float]] = {}
    for name in (f"val_{score}" for score in shown):
        for epoch, value in epoch_steps.history(tracker, run, name):
            epochs.setdefault(epoch, {})[name] = value
    return [EpochMetrics(number=number, metrics=epochs[number]) for number in sorted(epochs)]


def _predictions(tracker: Tracker, run_id: str) -> list[dict[str, Any]]:
    """The texts that the trial's best epoch was shown on; empty, and said so, where its run has none."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = tracker.download(run_id, PREDICTIONS, Path(folder))
        except PipelineError as error:
            logger.warning("cannot show example rationales: %s", error)
            return []
        try:
            return checkpoints.load_predictions(path)
        except StateError as error:
            raise PipelineError(f"`{PREDICTIONS}` of run {run_id} cannot be read: {error.message}") from error


def _readings(run: TrackedRun, shown: Sequence[str]) -> list[ScoreRow]:
    """What was read of the test split with this trial's model."""
    count = run.tags.get(READINGS_TAG, "")
    note = "" if not count else "read once" if count == "1" else f"last of {count} readings"
    rows = [
        ScoreRow(name=name, scores=_scores(run.metrics, prefix, shown), note=said)
        for name, prefix, said in (
            ("test", "test_", note),
            ("all annotated texts", "annotated_", "includes validation"),
        )
    ]
    return [row for row in rows if row.scores]

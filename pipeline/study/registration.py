"""A trial of a study that has ended becomes a registered model, under a criterion stated afterwards."""

import dataclasses
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from feature_store.errors import did_you_mean
from pipeline.base.errors import CriterionNotMet, PipelineError
from pipeline.study import conduct, lost_weights, outcome, summary
from pipeline.study.criterion import CRITERION_TAG, Candidate, judged, within_reach
from pipeline.study.study import Study
from pipeline.study.study_folder import StudyFolder
from pipeline.study.study_settings import StudySettings
from pipeline.tracking import mlflow_page, model_registry
from pipeline.tracking.studies import ending_as_before, last_end
from pipeline.tracking.tracking import Tracker, translated
from pipeline.training import columns, feature_copies
from pipeline.training.settings import RunSettings
from search_spaces.base import Criterion, at_rate
from search_spaces.criteria import PAPER, with_min_precision

_VALIDATION = "val_"
"""Begins the names of the scores that a criterion reads."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """What is to be registered."""

    number: int | None = None
    """Of the trial; None: the best one by the criterion."""
    criterion: Criterion | None = None
    """None: that of the study."""
    min_precision: float | None = None
    """Another threshold on precision for the study's criterion."""
    model_name: str | None = None
    """Registered model; None: that of the study."""


def register(prepared: StudySettings, folder: StudyFolder, uri: str, wanted: Wanted) -> str:
    """Register a trial of a study.

    Each trial has kept the weights of one epoch, its best by the study's criterion: that epoch is judged.

    Args:
        wanted: which trial, under which criterion.

    Returns:
        What was registered, and what to do next.

    Raises:
        CriterionNotMet: if the trial, or every trial, misses the criterion; names limits that would do.
        PipelineError: if there is no such trial, it has no weights, or the criterion reads an unknown score.
    """
    criterion = _criterion(prepared.run, wanted)
    study = Study.in_folder(prepared, folder)
    ledger = study.ledger
    candidates = study.candidates(study.searched)
    if not candidates:
        lost_weights.check_not_all(study)
        raise PipelineError(
            f"no trial of the study `{prepared.name}` has a best epoch that could be registered"
        )
    _check_scores(criterion, candidates[0].scores, prepared.run)
    command = outcome.commands_of(prepared, folder.storage).register
    if wanted.model_name:
        command += f" --model-name {shlex.quote(wanted.model_name)}"
    ranked = judged(candidates, criterion)
    if wanted.number is None:
        lost_weights.check_nothing_better(
            study,
            next(one for one in candidates if one.trial_id == ranked[0].trial_id),
            command + (lost_weights.flag_to_register(ranked[0], criterion) or _flag(wanted)),
            is_own_criterion=criterion == prepared.run.criterion,
        )
    chosen = _chosen(study, ranked, criterion, wanted.number, command)
    study.settings = dataclasses.replace(
        prepared,
        run=_judged_by(criterion, prepared.run),
        model_name=wanted.model_name or prepared.model_name,
    )
    features = feature_copies.features_of(prepared.run)
    tracker = Tracker(uri)
    model_registry.refuse_another(tracker, study.settings.model_name, outcome.model_facts(prepared, features))
    tracking = conduct.tracked(prepared, folder, ledger, tracker, features)
    with ending_as_before(tracker, tracking.study_run_id), tracking.closing():
        tracking.sync(is_running=False)
        run_id = tracking.runs[chosen.trial_id]
        with lost_weights.offering_next(study, chosen, ranked, criterion, command, _flag(wanted)):
            package = outcome.pack_winner(study, features, chosen, run_id)
        version = outcome.register_winner(
            study, features, tracker, chosen, run_id, package, is_asked_for=True
        )
        name = f"{study.settings.model_name} version {version}"
        tags = {
            "registered_as": name,
            "registered_criterion": str(criterion),
            f"registered_{CRITERION_TAG}": criterion.to_json(),
        }
        with translated(f"cannot record in MLflow that {name} was registered"):
            for one in (run_id, tracking.study_run_id):
                tracker.set_tags(one, tags)  # the trial ended when its training did
        champion = model_registry.champion(tracker, study.settings.model_name)
        status = "FINISHED" if study.is_complete else "KILLED"
        tracker.finish(tracking.study_run_id, status, ended=last_end(tracker, tracking.study_run_id))
        outcome.publish(study, tracker, tracking.study_run_id, package)
    number = ledger.number(chosen.trial_id)
    figures = summary.figures_of(chosen, prepared.run.dataset, criterion)
    whose = "the study's" if criterion == prepared.run.criterion else "the given"
    lines = [
        f"trial-{number:02d} at its epoch {chosen.epoch + 1}: {figures}",
        f"meets {whose} criterion: {criterion}",
        *([f"  {criterion.why}"] if study.settings.run.rival else []),
        "",
        *summary.registered(
            study.settings,
            version,
            tracker.uri,
            outcome.example_text(features),
            folder.storage,
            champion=None if champion is None else int(champion.version),
        ),
        f"  {mlflow_page.how_to_open(tracker.uri)}",
    ]
    return "\n".join(lines)


def _judged_by(criterion: Criterion, run: RunSettings) -> RunSettings:
    """The study's settings under another criterion, whose limits no rival has given."""
    if criterion == run.criterion:
        return run
    return dataclasses.replace(run, criterion=criterion, criterion_kind=PAPER, rival={})


def _flag(wanted: Wanted) -> str:
    """The flag that states the criterion again."""
    if wanted.criterion is not None:
        return f" --criterion {shlex.quote(str(wanted.criterion))}"
    return "" if wanted.min_precision is None else f" --min-precision {wanted.min_precision:g}"


def _criterion(run: RunSettings, wanted: Wanted) -> Criterion:
    """The criterion stated, for models that select what those of the study do.

    Raises:
        PipelineError: if it asks for another selection rate, or states a limit that it cannot have.
    """
    of_study = run.criterion
    if wanted.criterion is not None:
        rate = wanted.criterion.rate
        if rate is not None and not math.isclose(rate, of_study.rate or 0.0, abs_tol=1e-5):
            there = "at p >= 0.5" if of_study.rate is None else at_rate(of_study.rate)
            raise PipelineError(
                f"the study judged its models {there}, but this criterion judges them {at_rate(rate)}",
                where="--criterion",
                hint="start a search with `--target-selection-rate`, or leave the selection rate out of the "
                "criterion",
            )
        return dataclasses.replace(wanted.criterion, rate=of_study.rate)
    if wanted.min_precision is None:
        return of_study
    try:
        return with_min_precision(of_study, wanted.min_precision)
    except ValueError as error:
        raise PipelineError(
            str(error),
            where="--min-precision",
            hint="state a whole criterion with a bound on val_token_precision, starting from the study's: "
            f'--criterion "{of_study}"',
        ) from error


def _check_scores(criterion: Criterion, known: Mapping[str, float], run: RunSettings) -> None:
    """Refuse a criterion that reads what no epoch has."""
    for name in criterion.metrics:
        if name not in known:
            main = columns.of_validation(run.dataset, known, run.criterion.metrics).values()
            # every name begins with `val_`, which makes no two names alike
            bare = [other.removeprefix(_VALIDATION) for other in known]
            meant = name.removeprefix(_VALIDATION)
            longer = next((one for one in main if one.endswith(f"_{meant}")), None)  # `f1` of `token_f1`
            near = did_you_mean(meant, bare, prefix=_VALIDATION)
            near = f"did you mean `{longer}`?" if longer else near
            raise PipelineError(
                f"no validation score `{name}`; the main scores are {', '.join(main)}",
                where="--criterion",
                hint=near or "the page of a trial in MLflow shows all scores",
            )


def _without_weights(study: Study, number: int, there: Sequence[int]) -> PipelineError:
    """What to say of a trial that was asked for and has no weights, or never was.

    Args:
        there: numbers of the trials that have weights.
    """
    name, others = study.settings.name, ", ".join(map(str, there))
    lost = next((one for one in study.lost() if one.begin.number == number), None)
    if lost is None:
        return PipelineError(
            f"trial {number} of the study `{name}` does not exist or has no weights; the trials with weights "
            f"are {others}",
            where="--trial",
        )
    return PipelineError(
        f"the weights of the best epoch of trial-{number:02d} are missing: "
        f"{study.folder.place / lost.checkpoints[0]}",
        where="--trial",
        hint=f"restore this folder from a backup, or name a trial that has weights: {others}",
    )


def _chosen(
    study: Study, candidates: Sequence[Candidate], criterion: Criterion, number: int | None, command: str
) -> Candidate:
    """The trial that is asked for, or the best one.

    Raises:
        CriterionNotMet: if it misses the criterion.
        PipelineError: if there is no such trial.
    """
    numbers = {study.ledger.number(one.trial_id): one for one in candidates}
    if number is not None and number not in numbers:
        raise _without_weights(study, number, sorted(numbers))
    chosen = candidates[0] if number is None else numbers[number]
    if chosen.is_met:
        return chosen
    reached = within_reach([chosen] if number is not None else candidates, criterion)
    hint = None
    if reached is not None:
        relaxed, other = reached
        named = command if number is None else f"{command} --trial {number}"
        if number is None:
            named = lost_weights.command_for_nearest(study, candidates, criterion, command)
        hint = (
            f"`{named} {summary.stated(relaxed, criterion)}` would register "
            f"trial-{study.ledger.number(other.trial_id):02d} "
            f"({summary.figures_of(other, study.settings.run.dataset, criterion)})"
        )
    said = "no trial meets" if number is None else f"trial-{number:02d} does not meet"
    why = ""
    if chosen.degenerate is not None:
        why = f"; in trial-{study.ledger.number(chosen.trial_id):02d}, "
        why += columns.MASKS[chosen.degenerate]
    elif not chosen.is_result:
        why = "; the training ended before the start phase was over"
    raise CriterionNotMet(
        f"{said} the criterion ({criterion}), so nothing was registered{why}",
        hint=hint or "search again with more epochs, or with other hyper-parameters",
    )

"""The runs of studies: started, found again, and closed together with those of their trials."""

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from feature_store.errors import did_you_mean
from pipeline.base.errors import USER_ERRORS, PipelineError
from pipeline.tracking import descriptions, mlflow_page, mlflow_view
from pipeline.tracking.tracked_run import TrackedRun, made_by, read_back, written
from pipeline.tracking.tracking import (
    COMPARISON_TAG,
    MAX_TAG,
    NAME_TAG,
    NOTE_TAG,
    PARENT_TAG,
    RESULTS_TAG,
    STUDY_TAG,
    Tracker,
    translated,
)
from pipeline.training import naming

logger = logging.getLogger(__name__)


def config_of(run: TrackedRun) -> dict[str, Any]:
    """The hyper-parameters of a tracked trial, as they were; its seed stands in its tags.

    Raises:
        PipelineError: if the run is a study.
    """
    if STUDY_TAG in run.tags and PARENT_TAG not in run.tags:
        winner = run.tags.get("winner_run_id")
        raise PipelineError(
            f"run {run.run_id} is the study `{run.name}`, which has no hyper-parameters of its own",
            hint=f"name the run of a trial, such as the winner's: {winner}"
            if winner
            else "name the run of one of its trials",
        )
    return {name: read_back(text) for name, text in run.params.items() if name != "seed"}


def refuse_another_study(tracker: Tracker, experiment_id: str, name: str, origin: str) -> None:
    """Keep a new study from continuing in the run of another one of its name, with results elsewhere.

    Raises:
        PipelineError: if there is such a run.
    """
    found = latest_study(tracker, experiment_id, name)
    theirs = None if found is None else found.tags.get(RESULTS_TAG)
    if theirs not in (None, origin):
        raise PipelineError(
            f"{tracker.uri} already tracks a study `{name}`, whose results are in {theirs}",
            where="--name",
            hint="choose another name",
        )


def start_study(
    tracker: Tracker,
    experiment_id: str,
    name: str,
    parameters: Mapping[str, Any],
    tags: Mapping[str, str],
    *,
    resumed: bool = True,
) -> str:
    """Id of the study's run: a new one, or the one of that name, which is opened again.

    A parameter that has another value than the first time cannot be changed in MLflow: the new value
    becomes the tag `resumed.NAME`.

    Args:
        tags: of the run; RESULTS_TAG among them says where the study's results are.
        resumed: take a run of that name whose results were elsewhere, too: the folder may have moved.
    """
    origin = tags.get(RESULTS_TAG)
    with (
        translated(f"cannot start the run of study `{name}`"),
        _closing_study(tracker, experiment_id, name, origin),
    ):
        found = latest_study(tracker, experiment_id, name, origin)
        if found is None and resumed:
            found = latest_study(tracker, experiment_id, name)
        if found is None:
            every = {**made_by(), **tags, STUDY_TAG: name, NAME_TAG: name}
            run_id = str(tracker.client.create_run(experiment_id, run_name=name, tags=every).info.run_id)
            tracker.log_params(run_id, parameters)
            return run_id
        new = {k: v for k, v in parameters.items() if k not in found.params}
        changed = {
            f"resumed.{k}": written(v)[:MAX_TAG]
            for k, v in parameters.items()
            if found.params.get(k, written(v)) != written(v)
        }
        tracker.before.setdefault(found.run_id, found)
        tracker.reopen(found.run_id)
        tracker.log_params(found.run_id, new)
        tracker.set_tags(found.run_id, {**tags, **changed})
        return found.run_id


@contextlib.contextmanager
def _closing_study(tracker: Tracker, experiment_id: str, name: str, origin: str | None) -> Iterator[None]:
    """Let a study's run not stay open where the body fails, even before it knows the run's id."""
    try:
        yield
    except BaseException:
        # MLflow may be away, which is what the body says
        with contextlib.suppress(OSError, *USER_ERRORS):
            found = latest_study(tracker, experiment_id, name, origin)
            if found is not None and found.status == "RUNNING":
                end_as_before(tracker, found.run_id)
        raise


def latest_study(
    tracker: Tracker, experiment_id: str, name: str | None = None, origin: str | None = None
) -> TrackedRun | None:
    """The study that was started last, of that name and with its results there where these are given."""
    with translated(f"cannot list the studies of experiment {experiment_id}"):
        studies = tracker.search([experiment_id], f"tags.{STUDY_TAG} != ''")
    fitting = [
        run
        for run in studies
        if PARENT_TAG not in run.tags
        and name in (None, run.tags[STUDY_TAG])
        and origin in (None, run.tags.get(RESULTS_TAG))
    ]
    return max(fitting, key=lambda run: run.started, default=None)


def show_trials(tracker: Tracker, run_id: str, name: str, view: Mapping[str, str]) -> str:
    """Have MLflow show the trials of a study as a table, and link it in the description of the experiment.

    MLflow opens an experiment with columns of its own, so people need the link. A description of their own
    stays as it is.

    Args:
        run_id: of the study.
        name: of the study.
        view: the tag that holds the view; empty where there is none.

    Returns:
        The address of the table; empty where there is no view.
    """
    if not view:
        return ""
    experiment_id = tracker.run(run_id).experiment_id
    link = mlflow_view.table(experiment_id, run_id)
    with translated(f"cannot read experiment {experiment_id}"):
        note = tracker.client.get_experiment(experiment_id).tags.get(NOTE_TAG, "")
    note = descriptions.with_table(note, name, link)
    tracker.describe_experiment(experiment_id, {**view, **({NOTE_TAG: note} if note else {})})
    return f"{mlflow_page.address(tracker.uri)}/{link}"


def last_end(tracker: Tracker, run_id: str) -> float | None:
    """When a study had ended that was opened again, in seconds since 1970; otherwise when its last trial did.

    Returns:
        None where neither has ended.
    """
    before = tracker.before.get(run_id)
    if before is not None and before.ended is not None:
        return before.ended
    return max((run.ended for run in tracker.children(run_id) if run.ended is not None), default=None)


def end_as_before(tracker: Tracker, run_id: str) -> None:
    """End a study's run that was opened, but not gone on with: its status and its end are those before that.

    A run that is new, or that nobody had ended, is KILLED, at the end of its last trial.
    """
    before = tracker.before.get(run_id)
    status = "KILLED" if before is None or before.status == "RUNNING" else before.status
    tracker.finish(run_id, status, ended=last_end(tracker, run_id))


@contextlib.contextmanager
def ending_as_before(tracker: Tracker, run_id: str) -> Iterator[None]:
    """End a study's run as it was before where the body fails or is interrupted."""
    try:
        yield
    except BaseException:
        try:
            end_as_before(tracker, run_id)
        except (OSError, *USER_ERRORS) as error:  # MLflow may be away, which is what the body says
            logger.debug("run %s stays open: %s", run_id, error)
        raise


def end_children(tracker: Tracker, run_id: str) -> None:
    """End as KILLED whatever still runs below a study's or a comparison's run."""
    for run in tracker.children(run_id):
        if run.status == "RUNNING":
            tracker.finish(run.run_id, "KILLED")


def study_of_target(tracker: Tracker, dataset: str, aspect: str, name: str | None) -> TrackedRun:
    """The study's run, by its name or the latest one.

    Raises:
        PipelineError: if there is none.
    """
    experiment = naming.title(dataset, aspect)
    with translated(f"cannot look for the experiment `{experiment}`"):
        known = tracker.client.get_experiment_by_name(experiment)  # tracker.experiment would make it
    found = None if known is None else latest_study(tracker, known.experiment_id, name)
    if found is None:
        what = f"there is no study `{name}` of" if name else "no study was tracked of"
        raise PipelineError(
            f"{what} {experiment} in {tracker.uri}",
            where="--name" if name else None,
            hint=f"run `python -m pipeline.search {naming.target_flags(dataset, aspect)}`, or name the place "
            "of the study's results with `--storage`, `--tracking-uri` or `--sample`",
        )
    return found


def _names(tracker: Tracker, experiments: Collection[str], tag: str) -> list[str]:
    """Names of the runs that have a tag and are no part of another run."""
    runs = tracker.search(list(experiments), f"tags.{tag} != ''") if experiments else []
    return [run.name for run in runs if PARENT_TAG not in run.tags]


def study_named(tracker: Tracker, name: str) -> TrackedRun:
    """The run of the study of that name, of whatever data set.

    Raises:
        PipelineError: if there is none, or several data sets have one.
    """
    with translated("cannot list the experiments"):
        experiments = {one.name: one.experiment_id for one in tracker.client.search_experiments()}
    tried = {title: latest_study(tracker, number, name) for title, number in experiments.items()}
    found = {title: study for title, study in tried.items() if study is not None}
    if not found:
        names = _names(tracker, experiments.values(), STUDY_TAG)
        elsewhere = "name the place of the results with `--storage`, `--tracking-uri` or `--sample`"
        near = did_you_mean(name, names) or (names and f"studies in this store: {', '.join(names[:5])}")
        if name in _names(tracker, experiments.values(), COMPARISON_TAG):
            near = f"`{name}` is a comparison; its page is STORAGE/comparisons/{name}/table.html"
        raise PipelineError(
            f"there is no study `{name}` in {tracker.uri}",
            where="--name",
            hint=f"{near}; or {elsewhere}" if near else elsewhere,
        )
    if len(found) > 1:
        raise PipelineError(
            f"the name `{name}` is not unique: studies of {' and of '.join(sorted(found))} have it",
            where="--name",
            hint="add `--dataset`, and `--aspect` if the data set has several aspects",
        )
    return next(iter(found.values()))

"""A study from its settings to its end: trains what is missing, while MLflow is written beside it."""

import dataclasses
import functools
import logging
from typing import Any

from feature_store import terminal
from feature_store.store import Features
from feature_store.wording import counted
from infocal.trainer import check_bf16, resolve_device
from pipeline.base import uris
from pipeline.base.command_text import Commands
from pipeline.base.errors import USER_ERRORS, PipelineError
from pipeline.base.locations import make_folder
from pipeline.study import cluster, gpus, outcome, probe, race
from pipeline.study.criterion import CRITERION_TAG
from pipeline.study.ledger import Ledger
from pipeline.study.mirror import Mirror
from pipeline.study.progress import Plan, ProgressLines
from pipeline.study.scheduler import rungs
from pipeline.study.study import Study
from pipeline.study.study_folder import SETTINGS, SETTINGS_COPY, StudyFolder
from pipeline.study.study_settings import StudySettings
from pipeline.study.trial_tracking import TrialTracking
from pipeline.study.utilisation import Stopwatch, Utilisation, utilisation
from pipeline.tracking import descriptions, model_registry
from pipeline.tracking.studies import end_as_before, ending_as_before, refuse_another_study, start_study
from pipeline.tracking.tracked_dataset import dataset_of
from pipeline.tracking.tracking import RESULTS_TAG, Tracker
from pipeline.training import data_options, feature_copies
from search_spaces.lookup import metric_mode

logger = logging.getLogger("pipeline.study.conduct")


def check_model(prepared: StudySettings, uri: str) -> None:
    """See whether the model that a study registers may get a version of these data, before it trains.

    Args:
        prepared: what to do, its features built.
        uri: MLflow's; no file of a database is made.

    Raises:
        PipelineError: if that model is of another task or corpus, or MLflow is away.
    """
    file = uris.file_of_sqlite(uri)
    if file is not None and not file.is_file():
        return
    facts = outcome.model_facts(prepared, feature_copies.features_of(prepared.run))
    model_registry.refuse_another(Tracker(uri), prepared.model_name, facts)


def conduct(
    prepared: StudySettings,
    folder: StudyFolder,
    uri: str,
    *,
    address: str | None,
    resume: bool,
    commands: Commands,
) -> str:
    """Run a prepared study to its end.

    Args:
        prepared: what to do, its features built.
        address: Ray cluster; None: RAY_ADDRESS, else a private local one.
        resume: continue the study.
        commands: that continue it.

    Returns:
        The table of results and what to run next.
    """
    run = prepared.run
    features = feature_copies.features_of(run, verify=resume)
    logger.info("features: %s (fingerprint %s)", features.directory, features.fingerprint[:16])
    own = cluster.here(run, address)
    check_bf16(own.bf16, resolve_device(own.device), own.config().encoder)
    with terminal.step(outcome.DERIVING):
        derived = outcome.prepare_derived(own, features)
    make_folder(folder.directory.parents[1], "--storage")
    tracker = Tracker(uri)
    make_folder(folder.directory, "--storage")
    if folder.remote and not run.features_uri:
        sent = feature_copies.send(features, derived, folder.storage.opened())
        prepared = dataclasses.replace(prepared, run=dataclasses.replace(run, features_uri=sent.portable))
    save(prepared, folder)
    study = Study.in_folder(prepared, folder)
    if resume:
        study.say_defaults()
    experiment = tracker.experiment(run.dataset, run.aspect)
    if not resume:
        refuse_another_study(tracker, experiment, prepared.name, folder.origin)
        model_registry.refuse_another(tracker, prepared.model_name, outcome.model_facts(prepared, features))
    was_complete = study.is_complete
    tracking = tracked(prepared, folder, study.ledger, tracker, features)
    try:
        mirror = Mirror(tracking, commands.how_to_sync)
        study.notify = mirror.notify
        used = _search(study, tracking, mirror, address)
        with terminal.step("writing to MLflow the results that it lacks"):
            mirror.drain()
        with terminal.step("choosing, packaging and reporting the best trial"):
            text = outcome.conclude(study, features, tracking, used)
    except BaseException as error:
        status = "KILLED" if isinstance(error, KeyboardInterrupt | SystemExit) else "FAILED"
        _close(tracking, status, study, commands, was_complete=was_complete)
        raise
    return text


def _search(study: Study, tracking: TrialTracking, mirror: Mirror, address: str | None) -> Utilisation | None:
    """Train what is missing; returns what became of the cores' time where there was something."""
    prepared = study.settings
    if study.is_complete:
        return None
    if study.num_trials < prepared.num_trials:
        logger.info(
            "the space has %d points: each is tried once, instead of the %d requested trials",
            study.num_trials,
            prepared.num_trials,
        )
    stopwatch = Stopwatch()
    with cluster.session(address):
        if prepared.chooses_gpus:
            prepared = study.settings = gpus.chosen(prepared)
            if prepared.run.device == "cpu":
                check_bf16(prepared.run.bf16, resolve_device("cpu"), prepared.run.config().encoder)
        elif prepared.gpus_per_trial:
            gpus.check_usable(prepared.run.device, prepared.gpus_per_trial)
        if prepared.packs_gpus:
            measured = functools.partial(probe.measured, is_local=cluster.is_local(address))
            prepared = study.settings = probe.packed(prepared, study.space, measured)
            save(prepared, study.folder)
            found = {"gpus_per_trial_measured": prepared.gpus_per_trial}
            tracking.tracker.log_metrics(tracking.study_run_id, found, step=0)
        cluster.check_resources(address, prepared.cpus_per_trial, prepared.gpus_per_trial)
        num_cores = cluster.num_cores()
        with mirror.running():
            progress = ProgressLines(study.ledger, plan_of(study))
            with terminal.showing(progress):
                with terminal.step(f"searching {data_options.target_of_run(prepared.run)}"):
                    study.run([progress, stopwatch])
                candidates = study.candidates(study.searched)
                if candidates:
                    what = "the best trials" if prepared.is_raced else "the best trial"
                    with terminal.step(f"training with further seeds: {what}"):
                        study.replicate(candidates, [progress])
    study.ledger.flush()
    return utilisation(stopwatch.epochs, num_cores, prepared.run.num_threads)


def plan_of(study: Study) -> Plan:
    """What the study is to do, with as many trials at once as the connected Ray runs."""
    prepared, run = study.settings, study.settings.run
    further = race.most_trainings(study.num_trials) if prepared.is_raced else prepared.num_seeds - 1
    return Plan(
        dataset=run.dataset,
        criterion=run.criterion,
        num_trials=study.num_trials,
        num_epochs=run.num_epochs,
        num_further=further,
        slots=cluster.num_slots(prepared.cpus_per_trial, prepared.gpus_per_trial, prepared.max_concurrent),
        rungs=rungs(study.base_config, run.num_epochs, study.space),
    )


def _close(
    tracking: TrialTracking, status: str, study: Study, commands: Commands, *, was_complete: bool
) -> None:
    """Leave no run RUNNING where a study ends before its end, and say how it is resumed."""
    try:
        tracking.sync(is_running=False)
        if was_complete:
            end_as_before(tracking.tracker, tracking.study_run_id)
        else:
            tracking.tracker.finish(tracking.study_run_id, status)
    except (OSError, *USER_ERRORS) as error:
        logger.warning(
            "cannot write to MLflow (%s). When MLflow is reachable again, run: %s",
            error,
            commands.how_to_sync,
        )
    num_missing = study.num_missing
    trials = study.ledger.trials()
    if not trials:
        return
    if num_missing > 0:
        over = study.num_trials - num_missing
        has_checkpoints = any(record.epochs and not record.is_over for record in trials)
        start = "from their last checkpoints" if has_checkpoints else "from the beginning"
        logger.warning(
            "%d of %d trials have finished; on resuming the study, the others continue %s",
            over,
            study.num_trials,
            start,
        )
    if status == "FAILED":  # who interrupts is told by the command
        logger.warning("to resume: %s", commands.how_to_resume)


def synchronise(prepared: StudySettings, folder: StudyFolder, uri: str, command: str) -> str:
    """Write to MLflow what it lacks of a study that nobody runs; conclude it if all its trials have ended.

    Args:
        command: that continues it, for a user to type.

    Returns:
        What was done, or the table of results of a study that is complete.

    Raises:
        PipelineError: if there is nothing to write, or MLflow is away.
    """
    study = Study.in_folder(prepared, folder)
    ledger = study.ledger
    if not ledger.trials():
        raise PipelineError(
            f"no trial of the study `{prepared.name}` has started, so there is nothing to write"
        )
    features = feature_copies.features_of(prepared.run)
    tracking = tracked(prepared, folder, ledger, Tracker(uri), features)
    with ending_as_before(tracking.tracker, tracking.study_run_id), tracking.closing():
        tracking.sync(is_running=False)
        if study.is_complete:
            return outcome.conclude(study, features, tracking, used=None)
        end_as_before(tracking.tracker, tracking.study_run_id)
    trials = ledger.trials()
    num_epochs = sum(len(record.epochs) for record in trials)
    of_all = f"of {study.num_trials} trials"
    lines = [
        f"MLflow now has all {counted(num_epochs, 'epoch')} of {counted(len(trials), 'trial')}",
        f"{counted(study.num_missing, f'{of_all} has', f'{of_all} have')} not ended; to resume: {command}",
    ]
    return "\n".join(lines)


def save(prepared: StudySettings, folder: StudyFolder) -> None:
    """Write the settings from which a study is resumed."""
    make_folder(folder.directory, "--storage")
    prepared.save(folder.directory)
    folder.publish(SETTINGS, SETTINGS_COPY)


def _tags(prepared: StudySettings, features: Features) -> dict[str, str]:
    """Tags of the study's run and of every trial's."""
    return {
        "data_fingerprint": features.fingerprint,
        "git_commit": outcome.git_commit(),
        "seed": str(prepared.run.seed),
        "metric_mode": metric_mode(prepared.run.dataset),
        **model_registry.corpus_tag(prepared.sample),
        "criterion": str(prepared.run.criterion),
        CRITERION_TAG: prepared.run.criterion.to_json(),
        "notes": "\n".join(features.notes),
        **data_options.tags(prepared.run.dataset, prepared.run.options),
    }


def _parameters(prepared: StudySettings) -> dict[str, Any]:
    """Parameters of the study's run: all settings but the nested ones, which get names of their own."""
    values = dataclasses.asdict(prepared)
    run = values.pop("run")
    del values["first_points"], run["origin"], run["rival"], run["own_title"]
    if not prepared.own_space:
        del values["own_space"]
    base = {f"base.{name}": value for name, value in run.pop("base").items()}
    language_model = {f"language_model.{name}": value for name, value in run.pop("language_model").items()}
    return values | run | {"criterion": str(prepared.run.criterion)} | base | language_model


def tracked(
    prepared: StudySettings, folder: StudyFolder, ledger: Ledger, tracker: Tracker, features: Features
) -> TrialTracking:
    """The study in MLflow: its run is started, or opened again."""
    run, tags = prepared.run, _tags(prepared, features)
    facts = outcome.model_facts(prepared, features)
    # in which folder own data lie; nothing for other data sets
    of_data = {name: value for name, value in facts.items() if name == model_registry.DATA_FOLDER_TAG}
    study_run = start_study(
        tracker,
        tracker.experiment(run.dataset, run.aspect),
        prepared.name,
        _parameters(prepared),
        {**tags, RESULTS_TAG: folder.origin, **of_data},
        resumed=bool(ledger.trials()),
    )
    dataset = dataset_of(features, run.own_title)
    tracker.log_dataset(study_run, dataset)
    return TrialTracking(
        tracker,
        study_run,
        ledger,
        folder.place,
        base=run.config().to_dict(),
        settings=dataclasses.asdict(run),
        tags=tags,
        num_epochs=run.num_epochs,
        render=functools.partial(outcome.render_trial, run=run),
        dataset=dataset,
        describe=functools.partial(
            descriptions.of_trial, prepared.name, run.dataset, run.criterion, num_epochs=run.num_epochs
        ),
    )

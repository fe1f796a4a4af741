"""What becomes of a study: run it under tracking, package and register its winner, say what was found."""

import contextlib
import dataclasses
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from feature_store import terminal
from feature_store.annotators import shares_dir
from feature_store.store import Features, load_features
from feature_store.task_info import TaskInfo
from infocal.language_model_config import LanguageModelConfig
from infocal.trainer import resolve_device
from pipeline.base.command_text import Commands, next_commands, parsed_again
from pipeline.base.errors import USER_ERRORS, PipelineError
from pipeline.base.locations import make_folder
from pipeline.base.storage import STAGED, Storage
from pipeline.base.trajectories import Failure
from pipeline.reporting import pages
from pipeline.study import findings, lost_weights, study_report, summary
from pipeline.study.criterion import CRITERION_TAG, RIVAL_TAG, Candidate
from pipeline.study.lone_board import LoneBoard
from pipeline.study.lone_run import LoneRun
from pipeline.study.rival import Rival
from pipeline.study.study import Study
from pipeline.study.study_folder import OPTUNA_DB
from pipeline.study.study_settings import StudySettings
from pipeline.study.summary import PACKAGE, REPORT, first_flags
from pipeline.study.trial_tracking import TrialTracking
from pipeline.study.utilisation import Utilisation
from pipeline.tracking import mlflow_page, mlflow_view, model_registry
from pipeline.tracking.studies import last_end, show_trials
from pipeline.tracking.tracking import MAX_TAG, NOTE_TAG, Tracker, warn_skipped
from pipeline.training import checkpoints, columns, data_options, midway
from pipeline.training.epochs import Epoch
from pipeline.training.loaders import embeddings_of, language_model_dir, language_model_scores
from pipeline.training.scoring import constant_answer, final_validation, rate_of_lines, trivial_validation
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import best_shown, train
from search_spaces import datasets, lookup
from search_spaces.criteria import paper_bar
from search_spaces.lookup import depends_on_data

logger = logging.getLogger("pipeline.study.outcome")

DERIVING = "preparing the scores of the language model (it is trained if they are not cached)"
"""What is said while `prepare_derived` works."""


def prepare_derived(run: RunSettings, features: Features) -> list[Path]:
    """Train the language model here, once, where the method reads its scores; trials find them stored.

    Returns:
        Folders of the tables beside the features that the method reads: those scores, and what annotators
        marked, for a supervised method.

    Raises:
        MissingDataError: if the features lack what annotators marked.
    """
    if lookup.implementation(run.method).is_supervised:
        found = shares_dir(features)
        return [] if found is None else [found]
    if not run.config().reads_language_model:
        return []
    language_model = LanguageModelConfig(**run.language_model)
    device = resolve_device(run.device)
    language_model_scores(features, language_model, device, may_train=not run.features_uri)
    return [language_model_dir(features, language_model)]


def render_trial(checkpoint: Path, run: RunSettings) -> dict[str, str]:
    """The pages of a trial: its rationales and its curves, by file name."""
    best = checkpoints.load_scores(checkpoint / checkpoints.BEST)
    shown = checkpoints.load_predictions(checkpoint / checkpoints.BEST / checkpoints.BEST_PREDICTIONS)
    target = data_options.target_of_run(run)
    note = f"validation texts at epoch {best.epoch + 1}, the trial's best by: {run.criterion}"
    return {
        "rationales.html": pages.rationale_page(title=f"Rationales, {target}", predictions=shown, note=note),
        "curve.html": pages.curve_page(
            title=f"Training curve, {target}",
            history=checkpoints.load_history(checkpoint),
            criterion=run.criterion,
            best=best.epoch,
            dataset=run.dataset,
        ),
    }


def conclude(study: Study, features: Features, tracking: TrialTracking, used: Utilisation | None) -> str:
    """Choose the winner of a study that is complete, package, register and report it.

    A process that died half way has done nothing that is done twice.

    Args:
        tracking: MLflow's picture of it, which has all of the ledger.
        used: what became of the cores' time; None: nothing was trained just now.

    Returns:
        The table of results and what to run next.

    Raises:
        PipelineError: if no trial finished an epoch, or MLflow is away.
    """
    warn_skipped(tracking.skipped)
    tracker, study_run, runs = tracking.tracker, tracking.study_run_id, tracking.runs
    folder, prepared = study.folder, study.settings
    midway.clear(folder.place)
    candidates = study.candidates(study.searched)
    if not candidates:
        lost_weights.check_not_all(study)
        raise _end_without_epoch(study, tracker, study_run)
    commands = commands_of(prepared, folder.storage)
    next_best = commands.register + lost_weights.flag_to_register(candidates[0], prepared.run.criterion)
    lost_weights.check_nothing_better(study, candidates[0], next_best)
    racers = study.racers(candidates)
    winner, replicates = racers[0].trial, racers[0].results
    candidates.sort(key=lambda one: one is not winner)
    names = {one.trial_id: f"trial-{study.ledger.number(one.trial_id):02d}" for one in candidates}
    raced = summary.of_race(racers, names, prepared.run)
    before = _registered_before(tracker.run(study_run).tags)
    # what `pipeline.register` packed stays: it is the trial that the user chose
    is_kept = bool(before) and not winner.is_met
    package = None
    if winner.is_result and not is_kept:
        with lost_weights.offering_next(
            study, winner, candidates, prepared.run.criterion, commands.register, flag=""
        ):
            package = pack_winner(study, features, winner, runs[winner.trial_id])
    version = challenger = champion = None
    if winner.is_met and package is not None:
        version = register_winner(study, features, tracker, winner, runs[winner.trial_id], package)
        challenger = model_registry.find(tracker, prepared.model_name, model_registry.CHALLENGER).version
        champion = model_registry.champion(tracker, prepared.model_name)
    tags = _outcome_tags(study, tracking, winner, version, before, raced)
    tags[findings.EVALUATE_TAG] = summary.evaluate_flags(prepared, tracker.uri, folder.storage)
    register = lost_weights.command_for_nearest(study, candidates, prepared.run.criterion, commands.register)
    if not winner.is_met:
        tags[findings.ADVICE_TAG] = summary.advice(
            candidates, prepared.run, register, names, is_exhausted=study.is_exhausted
        )
    address = show_trials(tracker, study_run, prepared.name, _view(study, winner, study_run))
    metrics = _outcome_metrics(study, features, winner, replicates, used)
    ended = last_end(tracker, study_run) if used is None else None
    tracker.finish(study_run, metrics=metrics, tags=tags, artifacts={OPTUNA_DB: study.export()}, ended=ended)
    folder.publish(OPTUNA_DB)
    publish(study, tracker, study_run, package)
    return summary.of_study(
        prepared,
        candidates,
        replicates,
        tracking_uri=tracker.uri,
        directory=folder.shown,
        version=version,
        challenger=challenger,
        champion=None if champion is None else int(champion.version),
        before=before,
        used=used,
        register=register,
        text=example_text(features),
        storage=folder.storage,
        names=names,
        raced=raced,
        constant=constant_answer(features),
        address=address,
    )


def _end_without_epoch(study: Study, tracker: Tracker, study_run: str) -> PipelineError:
    """End the run of a study of which no trial finished an epoch; returns what to say of it."""
    tracker.finish(study_run, "FAILED", artifacts={OPTUNA_DB: study.export()})
    study.folder.publish(OPTUNA_DB)
    last = f"; the last trial failed with: {study.failures[-1]}" if study.failures else ""
    return PipelineError(
        f"none of the {study.settings.num_trials} trials finished an epoch{last}",
        hint=f"MLflow shows why each of them failed: `{mlflow_page.how_to_open(tracker.uri)}`",
    )


def _outcome_metrics(
    study: Study,
    features: Features,
    winner: Candidate,
    replicates: Sequence[Candidate],
    used: Utilisation | None,
) -> dict[str, float]:
    """What a study gave, in numbers, for its run: the scores of its winner, and those computed once."""
    run = study.settings.run
    with winner.checkpoint.localised(checkpoints.BEST) as checkpoint:
        model = checkpoints.load_best(checkpoint / checkpoints.BEST, embeddings_of(features))
    return {
        **best_shown(run.dataset, winner.scores, run.criterion),
        **_trivial(features, winner),
        **final_validation(model, features),
        **summary.spread([winner, *replicates], run.dataset, run.criterion),
        **(used.metrics() if used else {}),
    }


def _outcome_tags(
    study: Study,
    tracking: TrialTracking,
    winner: Candidate,
    version: int | None,
    before: str,
    raced: Sequence[str],
) -> dict[str, str]:
    """What a study gave, in words, for its run: its winner, and the description that MLflow shows."""
    settings, run_id = study.settings.run, tracking.runs[winner.trial_id]
    experiment_id = tracking.tracker.run(tracking.study_run_id).experiment_id
    registered = None if version is None else f"{study.settings.model_name} version {version}"
    is_default = not data_options.stated(settings.dataset, settings.options)
    data = [] if is_default else [f"Data: **{data_options.target_of_run(settings)}**."]
    # MLflow folds away what follows the first lines
    note = [
        f"Open [the trials as a table]({mlflow_view.table(experiment_id, tracking.study_run_id)}), "
        f"[as a chart]({mlflow_view.chart(experiment_id, tracking.study_run_id)}), "
        f"or [the best one]({mlflow_view.run(experiment_id, run_id)}).",
        *data,
        summary.note(winner, run_id, settings.criterion, settings.dataset, registered, before),
        *raced,
    ]
    return {
        "winner_trial_id": winner.trial_id,
        "winner_run_id": run_id,
        "criterion_met": str(winner.is_met).lower(),
        NOTE_TAG: "\n\n".join(note),
    }


def _registered_before(tags: Mapping[str, str]) -> str:
    """What `pipeline.register` has registered of a study, and by which criterion; empty where nothing."""
    if "registered_as" not in tags:
        return ""
    return (
        f"{tags['registered_as']} was registered by another criterion "
        f"({tags.get('registered_criterion', '?')})"
    )


def commands_of(prepared: StudySettings, storage: Storage) -> Commands:
    """The commands that resume a study, tracked where its first command said."""
    first = parsed_again(prepared.command, f"the settings of `{prepared.name}`")
    return next_commands(prepared.name, storage, first.tracking_uri)


def register_winner(
    study: Study,
    features: Features,
    tracker: Tracker,
    winner: Candidate,
    run_id: str,
    package: Path,
    *,
    is_asked_for: bool = False,
) -> int:
    """Register a trial that meets the study's criterion; returns the number of the version.

    A study that is resumed registers its winner once, and leaves `challenger` with a later version; where the
    trial is asked for, it becomes `challenger`.
    """
    return model_registry.register(
        tracker,
        package,
        name=study.settings.model_name,
        run_id=run_id,
        tags=_version_tags(study.settings, winner, features),
        takes_alias=is_asked_for,
    )


def publish(study: Study, tracker: Tracker, study_run: str, package: Path | None) -> None:
    """Write the page of an ended study, and copy it, and a new package, to where the study belongs."""
    try:
        study_report.write(tracker, study_run, study.folder.directory / REPORT)
    except study_report.WouldLoseRationales as error:  # the model is registered all the same
        logger.warning("note: %s", error.message)
    # the digests after the files that they are of, the page after all that it speaks of
    names = [] if package is None else [path.name for path in package.iterdir()]
    packed = sorted(names, key=lambda name: name == checkpoints.DIGESTS)
    study.folder.publish(*(f"{PACKAGE}/{name}" for name in packed), REPORT)


_MAX_EXAMPLE = 60
"""Tokens of a text of one's own data that is printed to try a model on."""


def example_text(features: Features) -> str:
    """A text to try a model of these features on: of one's own data the start of a validation text."""
    own = datasets.dataset(features.dataset).example
    if own is not None:
        return own
    tokens = features.annotated_validation().slice(0, 1).to_pylist()[0]["tokens"][:_MAX_EXAMPLE]
    return ("" if features.tokenizer == "jieba" else " ").join(tokens)


def _view(study: Study, winner: Candidate, study_run_id: str) -> dict[str, str]:
    """The tag by which MLflow shows the trials with what was searched and what it gave."""
    run = study.settings.run
    view = mlflow_view.trials(
        study_run_id,
        [one.name for one in study.space],
        [f"best_{name}" for name in best_shown(run.dataset, winner.scores, run.criterion)],
        f"best_{run.criterion.metric}",
    )
    return {mlflow_view.tag_of(study_run_id): view} if len(view) <= mlflow_view.MAX_VIEW else {}


def pack_winner(study: Study, features: Features, winner: Candidate, run_id: str) -> Path:
    """Write the winner as a package into the study's folder; replaces an older one."""
    prepared = study.settings
    metadata = package_metadata(prepared.run, features, winner.epoch, winner.scores)
    metadata |= {"sample": prepared.sample, "study": prepared.name, "run_id": run_id}
    with winner.checkpoint.localised(checkpoints.BEST) as checkpoint:
        return pack(checkpoint / checkpoints.BEST, study.folder.directory / PACKAGE, features, metadata)


def package_metadata(
    run: RunSettings, features: Features, epoch: int, scores: Mapping[str, float]
) -> dict[str, Any]:
    """Where a model comes from, as its package says it."""
    return {
        "dataset": run.dataset,
        "aspect": run.aspect,
        "method": run.method,
        "options": run.options,
        "tokenizer": features.tokenizer,
        "data_fingerprint": features.fingerprint,
        "epoch": epoch,
        "calibrated_threshold": scores.get("val_calibrated_threshold"),
        "criterion": str(run.criterion),
        "min_precision": paper_bar(run.criterion),
        "selection_rate_held": run.criterion.rate,
        "scores": dict(scores),
        "max_length": run.config().max_length,
        "class_names": list(features.task.class_names or ()),
        "score_range": list(features.task.score_range),
        **_targets(features.task),
    }


def _targets(info: TaskInfo) -> dict[str, Any]:
    """What is known of each target, where there are several."""
    if not info.sides:
        return {}
    return {
        checkpoints.TARGETS: [
            {
                "name": one.name,
                "class_names": list(one.class_names or ()),
                "score_range": list(one.score_range),
            }
            for one in (info, *info.sides)
        ]
    }


def pack(best: Path, target: Path, features: Features, metadata: Mapping[str, Any]) -> Path:
    """Join the weights of `best` with words and vectors to a package at `target`, whole or not at all."""
    model = checkpoints.load_best(best, embeddings_of(features))
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=STAGED) as folder:
        staged = Path(folder) / target.name
        package = checkpoints.Package(
            model, list(features.vocabulary.tokens), dict(metadata), features.tokenizer_files
        )
        checkpoints.save_package(staged, package)
        shutil.rmtree(target, ignore_errors=True)
        staged.replace(target)
    return target


def model_facts(prepared: StudySettings, features: Features) -> dict[str, str]:
    """Tags by which models of different tasks and corpora are told apart."""
    run = prepared.run
    found = {
        "dataset": run.dataset,
        "aspect": run.aspect,
        "data_fingerprint": features.fingerprint,
        "task_kind": features.task.kind,
        "classes": ", ".join(features.task.class_names or ())[:MAX_TAG],
    }
    folder = first_flags(prepared).data_dir or os.environ.get("INFOCAL_DATA")
    if depends_on_data(run.dataset) and folder and not prepared.sample:
        found[model_registry.DATA_FOLDER_TAG] = str(Path(folder).resolve())
    if run.own_title:
        found[model_registry.TITLE_TAG] = run.own_title
    found |= data_options.tags(run.dataset, run.options)
    return {name: value for name, value in found.items() if value}


def _version_tags(prepared: StudySettings, winner: Candidate, features: Features) -> dict[str, str]:
    shown = best_shown(prepared.run.dataset, winner.scores, prepared.run.criterion)
    tags = {
        **model_facts(prepared, features),
        "study": prepared.name,
        "criterion": str(prepared.run.criterion),
        CRITERION_TAG: prepared.run.criterion.to_json(),
        **model_registry.corpus_tag(prepared.sample),
        **{name: f"{value:z.4f}" for name, value in shown.items()},
    }
    if prepared.run.criterion.rate is not None:
        tags["selection_rate_held"] = f"{prepared.run.criterion.rate:g}"
    if prepared.run.rival:
        tags[RIVAL_TAG] = Rival(**prepared.run.rival).as_tag()
    limit = paper_bar(prepared.run.criterion)
    return tags if limit is None else tags | {"min_precision": str(limit)}


def _trivial(features: Features, winner: Candidate) -> dict[str, float]:
    """Scores of the trivial lines on the annotated validation texts, at the winner's rate on these."""
    lines = trivial_validation(features, rate_of_lines(winner.scores, "val_"))
    return {
        f"trivial_{line}_{name}": scores[name]
        for line, scores in lines.items()
        for name in columns.shown(features.dataset)
        if name in scores
    }


def git_commit() -> str:
    """The commit of the code that runs, `-dirty` where it was changed; `unknown` outside a checkout."""
    folder = Path(__file__).parent
    try:
        found = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip()


def train_alone(
    run: RunSettings, output: Path, *, sample: bool, tracker: Tracker | None = None, command: str = ""
) -> str:
    """Train one configuration without Ray and write its best epoch as a package.

    Args:
        sample: whether the features are those of the made-up corpus.
        tracker: where the training is logged; None: nowhere.
        command: tag of the run, without passwords.

    Returns:
        The best epoch's figures and what to run next.

    Raises:
        PipelineError: if the training fails; or if MLflow is away at the end, when the package is written.
    """
    features = load_features(Path(run.features_dir))
    make_folder(output.parent, "--output")
    lone = None
    if tracker is not None:
        tags = {"git_commit": git_commit(), "command": command}
        lone = LoneRun(tracker, run, features, name=output.name, tags=tags, sample=sample)

    board = LoneBoard(run.dataset, run.num_epochs, logger, decisive=run.criterion.metrics)

    def report(result: Epoch | Failure, folder: Path) -> None:
        if isinstance(result, Failure):
            if lone is not None:
                lone.fail(result)
            raise PipelineError(f"training failed: {result.message}")
        board.take(result)
        if lone is not None:
            lone.log(result)

    with (
        lone.closing() if lone is not None else contextlib.nullcontext(),
        tempfile.TemporaryDirectory(dir=output.parent) as name,
        terminal.showing(board),
    ):
        folder = Path(name)
        progress = train({}, run, report, folder)
        best = progress.best
        assert best is not None  # `report` raises where training fails, and there is an epoch at least
        metadata = package_metadata(run, features, best.epoch, best.scores)
        metadata |= {"sample": sample, "study": None, "run_id": lone and lone.run_id}
        pack(folder / checkpoints.BEST, output, features, metadata)
        found = final_validation(checkpoints.load_package(output).model, features)
        if lone is not None:
            checkpoints.save_history(folder, progress.history)
            # every other score of the best epoch was logged with its epoch
            metrics = {f"best_{name}": value for name, value in found.items()}
            with _naming(output):
                lone.finish(folder, metrics, lambda: render_trial(folder, run))
    best = dataclasses.replace(best, scores={**best.scores, **found})
    text = summary.of_one(best, run.criterion, output, run.dataset, example_text(features))
    if lone is None:
        return text
    return "\n".join([text, f"\nrun      {lone.run_id}", f"  {mlflow_page.how_to_open(lone.tracker.uri)}"])


@contextlib.contextmanager
def _naming(output: Path) -> Iterator[None]:
    """Say of what MLflow refuses at the end that the model is written all the same."""
    try:
        yield
    except USER_ERRORS as error:
        raise PipelineError(
            f"cannot write the end of the training to MLflow: {error}",
            hint=f"the model is complete: {output}",
        ) from error

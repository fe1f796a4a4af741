"""A finished model on the test split: what `pipeline.evaluate` and `pipeline.promote` share."""

import argparse
import dataclasses
import json
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from feature_store.command_line import cache_folder
from feature_store.store import FeatureRequest, Features, fingerprint_of, open_features
from feature_store.task_info import TaskInfo
from feature_store.wording import counted
from infocal.errors import ConfigError, StateError
from infocal.explainers import check_installed
from infocal.nn.rationalizer import Rationalizer
from pipeline.base import text_tables
from pipeline.base.errors import PipelineError
from pipeline.base.stored_files import copied
from pipeline.tracking import descriptions, model_registry, record
from pipeline.tracking.model_registry import ModelVersion
from pipeline.tracking.sealed_split import READINGS_TAG, log_test_reading
from pipeline.tracking.studies import config_of
from pipeline.tracking.tracking import CONFIG_ARTIFACT, Tracker
from pipeline.training import checkpoints, columns, data_options, origin, settings
from pipeline.training.columns import Column
from pipeline.training.loaders import embeddings_of
from pipeline.training.scoring import MIN_GROUP_TEXTS, Scores, TestReading, score_test
from search_spaces.lookup import depends_on_data

logger = logging.getLogger("pipeline.tracking.assessment")

GROUPS_ARTIFACT = "test/groups.json"
"""Scores of the test texts about each group, in the run that trained the model; the last reading's."""

_DIGITS = 6
"""Of a score in a tag."""
_FAITHFULNESS = ("comprehensiveness", "sufficiency", "comprehensiveness_aopc", "sufficiency_aopc")


@dataclass(frozen=True, slots=True)
class Subject:
    """A model that is about to be scored, with the features that it was trained on."""

    label: str
    model: Rationalizer
    features: Features
    calibrated_threshold: float | None
    run_id: str
    """The run that trained it: each reading of the test split is recorded there."""
    metadata: dict[str, Any]
    version: ModelVersion | None = None
    """Where it is registered; readings are tagged there too."""
    own_title: str = ""
    """How own data are called; empty for other data sets."""
    explainer: str = ""
    """What ranks tokens in the place of the model's own explanation; empty: its own does."""


def of_version(tracker: Tracker, version: ModelVersion, given: argparse.Namespace, folder: Path) -> Subject:
    """A registered model.

    Args:
        given: parsed flags; `data_dir`, `cache_dir` and `embedding` are read.
        folder: where its package may be copied to.
    """
    package = model_registry.load_version(tracker, version.name, version.version, folder)
    run_id = version.run_id or package.metadata.get("run_id")
    if not run_id:
        raise PipelineError(
            f"{version.uri} does not name the run that trained it, so the test reading cannot be recorded",
            hint="register models with `python -m pipeline.search`",
        )
    return Subject(
        label=f"{version.name} version {version.version}",
        model=package.model,
        features=features_of(package.metadata, given),
        calibrated_threshold=package.metadata["calibrated_threshold"],
        run_id=run_id,
        metadata=package.metadata,
        version=version,
        own_title=descriptions.own_title(version.tags),
    )


def of_run(tracker: Tracker, run_id: str, given: argparse.Namespace, folder: Path) -> Subject:
    """The best epoch of a tracked trial; arguments as for `of_version`.

    Raises:
        PipelineError: if the run is a study, or holds no model of this pipeline.
    """
    run = tracker.run(run_id)
    config_of(run)  # refuses a study
    fingerprint = run.tags.get("data_fingerprint")
    if fingerprint is None:
        raise PipelineError(
            f"run {run_id} (`{run.name}`) is not a trial of a search: it has no `data_fingerprint`",
            hint=record.GIVE_A_TRIAL,
        )
    best = tracker.download(run_id, checkpoints.BEST, folder)
    stored = record.read_stored(tracker, run, folder).run
    with copied(folder, f"run {run_id}"):
        scores = checkpoints.load_scores(best)
    try:
        max_length = stored.config().max_length
    except ConfigError as error:
        raise StateError(str(error), where=f"`{CONFIG_ARTIFACT}` of run {run_id}") from error
    metadata = {
        "dataset": stored.dataset,
        "aspect": stored.aspect,
        "options": stored.options,
        "sample": model_registry.is_sample(run.tags),
        "data_fingerprint": fingerprint,
        "max_length": max_length,
        "epoch": scores.epoch,
    }
    features = features_of(metadata, given)
    with copied(folder, f"run {run_id}"):
        model = checkpoints.load_best(best, embeddings_of(features))
    return Subject(
        label=f"run {run.name}, epoch {scores.epoch + 1}",
        model=model,
        features=features,
        calibrated_threshold=scores.scores.get("val_calibrated_threshold"),
        run_id=run_id,
        metadata=metadata,
    )


def explained_by(subject: Subject, name: str) -> Subject:
    """The same model, whose tokens another explanation ranks; its predictions stay.

    Raises:
        PipelineError: if the model selects its own rationale, or has no such explanation.
    """
    config = subject.model.config
    if "explainer" not in config.to_dict():
        raise PipelineError(
            f"the model of {subject.label} selects its own rationale; `--explainer` applies only to "
            "classifiers that read the whole text",
            where="--explainer",
            hint="leave out the flag",
        )
    try:
        subject.model.config = type(config).from_mapping(config.to_dict() | {"explainer": name})
        check_installed(name)
    except ConfigError as error:
        raise PipelineError(error.message, where="--explainer", hint=error.hint) from error
    is_own = subject.model.config == config
    return dataclasses.replace(subject, explainer="" if is_own else name)


def features_of(metadata: Mapping[str, Any], given: argparse.Namespace) -> Features:
    """The very features that a model was trained on, from the cache or built again.

    Args:
        metadata: `dataset`, `aspect`, `options`, `sample`, `data_fingerprint` and `max_length` of the model.
        given: parsed flags; `data_dir`, `cache_dir` and `embedding` are read.

    Raises:
        PipelineError: if what is there, or own data that the flags name, has another fingerprint.
        UserError: of the feature store, if they have to be built and cannot be.
    """
    wanted = metadata["data_fingerprint"]
    request = _request(metadata, given)
    if depends_on_data(metadata["dataset"]) and request.data_dir is not None:
        # every folder of one's own is another corpus: the model of another one is not meant
        given_fingerprint = fingerprint_of(request)
        if given_fingerprint != wanted:
            raise PipelineError(
                "the data in this folder, or the flags, are not those of the model's training: they give "
                f"features {given_fingerprint[:16]}, but the model was trained on features {wanted[:16]}; "
                "the scores would not be comparable",
                where=str(request.data_dir),
                hint="give the data folder of the training: MLflow shows it as tag `origin` of the model "
                "version",
            )
    found = origin.cached(wanted, cache_folder(given.cache_dir))
    if found is not None:
        return found
    built = open_features(request, verify=True)
    if built.fingerprint != wanted:
        raise PipelineError(
            f"the model was trained on features {wanted[:16]}, but the given data and flags produce features "
            f"{built.fingerprint[:16]}; the scores would not be comparable",
            where=str(built.directory),
            hint="give the data files and the `--embedding` of the search, or its cache folder "
            "(`--cache-dir`)",
        )
    return built


def _request(metadata: Mapping[str, Any], given: argparse.Namespace) -> FeatureRequest:
    sample = metadata["sample"]
    return FeatureRequest(
        dataset=metadata["dataset"],
        aspect=metadata["aspect"] or None,
        data_dir=Path(given.data_dir) if given.data_dir and not sample else None,
        cache_dir=cache_folder(given.cache_dir),
        sample=sample,
        options=metadata["options"],
        max_length=metadata["max_length"],
        **settings.word_vectors(metadata["dataset"], given.embedding),
    )


def as_recorded(scores: Mapping[str, float]) -> dict[str, float]:
    """Scores as the tags of a version have them: two readings of one model are equal so."""
    return {name: round(value, _DIGITS) for name, value in scores.items()}


def read_test(tracker: Tracker, subject: Subject) -> TestReading:
    """Score a model on test; the reading is recorded on its run and its version before it is returned.

    With another explanation than the model's own, scores have its name in theirs: `test_lime_token_f1`.
    """

    def log_reading(scores: Scores) -> None:
        named = {_with_explainer(name, subject.explainer): value for name, value in scores.items()}
        count = log_test_reading(tracker, subject.run_id, named)
        logger.info("the test split was read for run %s: %s so far", subject.run_id, counted(count, "time"))
        if subject.version is not None:
            names = [f"test_{name}" for name in (*columns.shown(subject.features.dataset), "iou_f1")]
            names += [name for name in columns.of_targets(scores) if name.startswith("test_")]
            own = {} if subject.explainer else scores
            tags: dict[str, Any] = as_recorded({name: own[name] for name in names if name in own})
            model_registry.tag(tracker, subject.version, tags | {READINGS_TAG: count})

    reading = score_test(subject.model, subject.features, subject.calibrated_threshold, log_reading)
    if reading.groups and not subject.explainer:
        text = json.dumps(reading.groups, indent=1, sort_keys=True)
        tracker.log_artifact(subject.run_id, text, GROUPS_ARTIFACT)
    return reading


def _with_explainer(score: str, explainer: str) -> str:
    """The name of a score on test of rationales by another explanation, `test_lime_token_f1`."""
    prefix, _, name = score.partition("_")
    return f"{prefix}_{explainer}_{name}" if explainer else score


def describe(subject: Subject, reading: TestReading, width: int | None = None) -> str:
    """The scores on test as tables: the trivial lines below the model's, then those of each group.

    Args:
        width: columns of the terminal that shows them; None: lines may be as long as they are.
    """
    features = subject.features
    every = columns.rationale_columns(features.dataset)
    shown = [column for column in every if f"test_{column.score}" in reading.scores]
    rows = {"model": _cells(shown, lambda score: reading.scores.get(f"test_{score}"))}
    for side in features.task.sides if subject.model.num_rationales > 1 else ():
        own = {one.score: f"test_{columns.of_target(side.name, one.score)}" for one in shown}
        there = {score: reading.scores[name] for score, name in own.items() if name in reading.scores}
        rows[f"model, for {side.name}"] = _cells(shown, there.get)
    if subject.calibrated_threshold is not None:
        label = f"model at p >= {subject.calibrated_threshold:.3f}, set on validation"
        rows[label] = _cells(shown, lambda score: reading.scores.get(f"test_calibrated_{score}"))
    # where nobody annotated, they say no more than how much they select
    for line, scores in reading.trivial.items() if "test_token_f1" in reading.scores else ():
        rows[line] = _cells(shown, scores.get)
    name = data_options.target_of(features, subject.own_title)
    how = f", explained by {subject.explainer}" if subject.explainer else ""
    lines = [f"{subject.label}{how} on test of {name}, {counted(len(reading.predictions), 'text')}", ""]
    lines += [*_table([column.label.lower() for column in shown], rows, width), ""]
    of_targets = _of_each_target(features.task, _what_is_read(subject.model))
    for prefix, names, what in of_targets:
        found = [f"{n} {reading.scores[prefix + n]:z.4f}" for n in names if prefix + n in reading.scores]
        lines += [f"{what}: {', '.join(found)}"] if found else []
    low, high = features.task.score_range
    if features.task.kind == "regression" and (low, high) != (0, 1):
        error = math.sqrt(reading.scores["test_mse"]) * (high - low)
        lines.append(
            f"root mean squared error of the predictions: {error:.3f} (scores range from {low:g} to {high:g})"
        )
    lines += _group_lines(reading, features.dataset, width)
    lines += [f"note: {note}" for note in features.notes]
    return "\n".join(lines)


def _what_is_read(model: Rationalizer) -> str:
    """What the prediction of a model is made from."""
    nothing = torch.zeros(1, 1)
    is_whole = bool(model.seen(nothing, torch.ones(1, 1, dtype=torch.bool)).any())
    return "prediction from the whole text" if is_whole else "prediction from the rationale"


def _of_each_target(info: TaskInfo, read: str) -> Iterator[tuple[str, Sequence[str], str]]:
    """Beginnings of names of scores, the scores, and what they are of, for each target and their mean."""
    targets = [side.name for side in info.sides]
    for target in (info.name, *targets, columns.MEAN) if targets else ("",):
        prefix, of = (f"test_{columns.of_target(target, '')}", f"{target}: ") if target else ("test_", "")
        yield prefix, columns.TASK_SCORES, f"{of}{read}"
        yield f"{prefix}guider_", columns.TASK_SCORES, f"{of}prediction by the guider, from the whole text"
        yield prefix, _FAITHFULNESS, f"{of}faithfulness"


def _cells(shown: Sequence[Column], score: Callable[[str], float | None]) -> list[str]:
    values = [score(column.score) for column in shown]
    return ["-" if value is None else f"{value:z.4f}" for value in values]


def _table(labels: Sequence[str], rows: Mapping[str, Sequence[str]], width: int | None) -> list[str]:
    """Rows with their names; where they are wider than there is room, several tables, one below the other."""
    cells = [[name, *row] for name, row in {"": labels, **rows}.items()]
    return "\n\n".join(map(text_tables.aligned, text_tables.parts(cells, width))).split("\n")


def _group_lines(reading: TestReading, dataset: str, width: int | None) -> list[str]:
    """A table of the groups; nothing where no group has enough texts."""
    if not reading.groups:
        return []
    found = {name for scores in reading.groups.values() for name in scores}
    shown = [column for column in columns.columns(dataset) if column.score in found]
    rows = {
        group: [
            f"{scores['num_documents']:.0f}",
            f"{scores['num_documents'] - scores['num_skipped']:.0f}",
            *_cells(shown, scores.get),
        ]
        for group, scores in reading.groups.items()
    }
    labels = ["texts", "annotated", *(column.label.lower() for column in shown)]
    head = (
        f"scores of each group of at least {MIN_GROUP_TEXTS} texts (all scores: artifact "
        f"`{GROUPS_ARTIFACT}`):"
    )
    return ["", head, *_table(labels, rows, width)]

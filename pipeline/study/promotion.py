"""Whether a registered model becomes the champion: the test split decides."""

import argparse
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from feature_store import terminal
from pipeline.base import command_text
from pipeline.base.errors import USER_ERRORS, CriterionNotMet, PipelineError
from pipeline.base.storage import Storage
from pipeline.study import outcome, summary
from pipeline.study.criterion import JUDGED_TAG, RIVAL_TAG, criterion_of
from pipeline.study.criterion_on_test import (
    F1,
    against_rival,
    held,
    losses,
    misses,
    standing_criterion,
    stated_of,
    stricter,
    threshold,
    way_on,
)
from pipeline.tracking import assessment, mlflow_page, model_registry
from pipeline.tracking.model_registry import (
    CORPUS_TAG,
    DATA_FOLDER_TAG,
    REAL_CORPUS,
    SAMPLE_CORPUS,
    ModelVersion,
    differing,
)
from pipeline.tracking.tracking import Tracker
from pipeline.training import naming
from pipeline.training.scoring import constant_answer
from search_spaces.base import Criterion


def trained_elsewhere(version: ModelVersion, folder: Path | None) -> str:
    """A note, after a comma, that a model of own data was trained on another folder; empty where it was not.

    Args:
        folder: that the flags name; None: none.
    """
    trained = version.tags.get(DATA_FOLDER_TAG)
    if folder is None or trained in (None, str(folder)):
        return ""
    return f", but it was trained on the data in `{trained}`, not in `{folder}`"


def check_comparable(
    version: ModelVersion, holder: ModelVersion | None, dataset: str, aspect: str, places: Sequence[str]
) -> None:
    """Refuse a model that cannot be judged by a target's criterion, or cannot replace the champion.

    Args:
        holder: the champion, where there is one.
        dataset: the data set that the flags name.
        places: flags that name results and tracking to another command.

    Raises:
        PipelineError: if the model is of another target, task or corpus.
    """
    of = naming.title(version.tags.get("dataset", dataset), version.tags.get("aspect", aspect))
    wanted = naming.title(dataset, aspect)
    if of != wanted:
        raise PipelineError(
            f"{version.uri} was trained on {of}, but the flags name {wanted}",
            where="--model-name",
            hint=f"use `{naming.target_flags(version.tags['dataset'], version.tags.get('aspect', ''))}`",
        )
    if holder is None:
        return
    is_sample = version.tags.get(CORPUS_TAG) == SAMPLE_CORPUS
    if is_sample and holder.tags.get(CORPUS_TAG, REAL_CORPUS) != SAMPLE_CORPUS:
        raise PipelineError(
            f"{version.uri} was trained on the made-up sample corpus and cannot replace "
            f"version {holder.version}, which was trained on real data",
            hint="keep sample models in a store of their own (another `--tracking-uri`), or under another "
            "`--model-name`",
        )
    other = differing(version.tags, holder.tags)
    if other is not None:
        register = ["python", "-m", "pipeline.register", "--name", version.tags.get("study", "STUDY")]
        raise PipelineError(
            f"{version.uri} cannot replace version {holder.version}, which was trained on {other}",
            where="--model-name",
            hint="register the model under another name: "
            f"`{shlex.join([*register, *places])} --model-name NAME`",
        )


def judge(
    tracker: Tracker,
    version: ModelVersion,
    holder: ModelVersion | None,
    given: argparse.Namespace,
    command: str,
) -> str:
    """Read the test split, print the scores and record the verdict.

    Args:
        holder: the present champion, if there is one.
        command: this one, as it can be typed again.

    Returns:
        A text to try the model on.

    Raises:
        CriterionNotMet: if a bound does not hold, or the champion is better; with the numbers.
    """
    beyond = "" if holder is None else _beyond_comparison(tracker, version, holder, given)
    with (
        terminal.opened(),
        terminal.step("reading the test split"),
        tempfile.TemporaryDirectory() as folder,
    ):
        subject = assessment.of_version(tracker, version, given, Path(folder))
        stated = criterion_of(subject.features)
        criterion, origin = threshold(stated_of(version, stated), given.min_precision, version.tags)
        if given.min_precision is None and RIVAL_TAG in version.tags:
            criterion, origin = against_rival(tracker, subject, criterion)
        reading = assessment.read_test(tracker, subject)
    terminal.answer(assessment.describe(subject, reading, terminal.width_of(sys.stdout)))
    for line in summary.no_better_than(constant_answer(subject.features, "test"), reading.scores):
        terminal.answer(line)
    missed = misses(criterion, reading.scores)
    verdict = {
        "test_criterion": str(criterion),
        JUDGED_TAG: criterion.to_json(),
        "test_criterion_met": str(not missed).lower(),
    }
    model_registry.tag(tracker, version, verdict)
    if missed:
        first = command_text.variable_to_set(tracker.uri)
        raise CriterionNotMet(
            f"{version.uri} was not promoted: {'; '.join(missed)} ({origin})",
            hint=way_on(criterion, reading.scores, command) + (f" ({first})" if first else ""),
        )
    terminal.answer(f"\n{held(criterion, origin)}")
    if beyond:
        _forced(tracker, version, beyond)
    elif holder is not None:
        strict = stricter(standing_criterion(holder, stated), criterion)
        _surpass(tracker, version, holder, given, strict, reading.scores)
    return outcome.example_text(subject.features)


def _surpass(
    tracker: Tracker,
    version: ModelVersion,
    holder: ModelVersion,
    given: argparse.Namespace,
    criterion: Criterion,
    scores: Mapping[str, Any],
) -> None:
    """Compare a model with the champion on test: by a criterion with the stricter bounds of both, and by F1.

    Raises:
        CriterionNotMet: if the champion is better, and nobody forces the change.
    """
    names = [name for name in dict.fromkeys([*criterion.metrics, *_COMPARED]) if name in scores]
    scores = assessment.as_recorded({name: scores[name] for name in names})
    theirs = assessment.as_recorded(_scores_of_champion(tracker, version, holder, given, names))
    both = [
        f"version {version.version}: {_figures(names, scores)}",
        f"version {holder.version}: {_figures(names, theirs)}",
    ]
    terminal.answer(
        "\n  ".join([f"comparison with the champion on test, by the criterion {criterion}:", *both])
    )
    worse = losses(criterion, scores, theirs)
    if not worse:
        return
    reason = f"is worse on test than the champion, version {holder.version}: {'; '.join(worse)}"
    if not given.force:
        raise CriterionNotMet(
            f"{version.uri} was not promoted: it {reason}",
            hint="`--force` promotes the model anyway, and records this in a tag of the version",
        )
    _forced(tracker, version, reason)


def _forced(tracker: Tracker, version: ModelVersion, reason: str) -> None:
    terminal.answer(
        f"promoting because of `--force`, although {version.uri} {reason}; the tag `forced` records this"
    )
    model_registry.tag(tracker, version, {"forced": reason})


def _beyond_comparison(
    tracker: Tracker, version: ModelVersion, holder: ModelVersion, given: argparse.Namespace
) -> str:
    """Why a model cannot be compared with the champion, where `--force` does without; empty where it can.

    It is asked before the test split is read, which is counted.

    Raises:
        PipelineError: if the data of the champion are not there any more, and nobody forces the change.
    """
    if version.tags.get("data_fingerprint") == holder.tags.get("data_fingerprint"):
        return ""
    try:
        with tempfile.TemporaryDirectory() as folder:
            assessment.of_version(tracker, holder, given, Path(folder))
    except USER_ERRORS as error:
        reason = (
            f"cannot be compared with the champion (version {holder.version}), because the champion was "
            "trained on other data"
        )
        if given.force:
            return reason
        raise PipelineError(
            f"{version.uri} {reason}: {error.message}",
            where=error.where,
            hint="restore the data of the champion's training, or add `--force`: it promotes the model "
            "without the comparison, and records this in a tag of the version",
        ) from error
    return ""


_COMPARED = ("test_token_precision", "test_token_recall", F1)
"""Scores that are said of both models, beside those that the criterion reads."""


def _scores_of_champion(
    tracker: Tracker,
    version: ModelVersion,
    holder: ModelVersion,
    given: argparse.Namespace,
    names: Sequence[str],
) -> Mapping[str, Any]:
    """The champion's scores on test: those that were recorded on the same data, else read now."""
    recorded = {name: holder.tags.get(name) for name in names}
    if all(recorded.values()) and version.tags.get("data_fingerprint") == holder.tags.get("data_fingerprint"):
        return {name: float(value) for name, value in recorded.items() if value is not None}
    with tempfile.TemporaryDirectory() as folder:
        subject = assessment.of_version(tracker, holder, given, Path(folder))
        return assessment.read_test(tracker, subject).scores


def _figures(names: Sequence[str], scores: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {scores[name]:z.4f}" for name in names)


def next_steps(model: str, uri: str, text: str, storage: Storage) -> str:
    """What to do with a champion.

    Args:
        uri: where MLflow tracks; a password in it is not shown.
        text: to try the model on.
    """
    where = command_text.tracking_flags(storage, uri)
    explain = ["python", "-m", "pipeline.explain", "--model", model, *where, "--text", text]
    first = command_text.variable_to_set(uri)
    head = f"  {first}\n" if first else ""
    return f"{head}  {shlex.join(explain)}\n  {mlflow_page.how_to_serve(model, uri)}"

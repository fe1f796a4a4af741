"""Make a registered model the champion, if the sealed test split says that it meets its criterion.

python -m pipeline.promote --dataset beer --aspect palate
"""

import argparse
import dataclasses
import math
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from feature_store import terminal
from pipeline.base.errors import CriterionNotMet, PipelineError, run_command
from pipeline.base.storage import Storage
from pipeline.base.uris import without_password
from pipeline.cli import planning
from pipeline.study.criterion import CRITERION_TAG, JUDGED_TAG, RIVAL_TAG
from pipeline.training import settings
from search_spaces import registry as search_spaces
from search_spaces.base import Criterion
from search_spaces.criteria import MARGIN

if TYPE_CHECKING:
    from pipeline.tracking.assessment import Subject
    from pipeline.tracking.registry import ModelVersion
    from pipeline.tracking.tracking import Tracker

_PRECISION = "val_token_precision"


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.promote`."""
    parser = settings.parser(
        "pipeline.promote", "Score a registered model on the sealed test split and make it the champion."
    )
    settings.add_data_arguments(parser)
    parser.add_argument("--embedding", help="as it was given to the search (default: none was given)")
    settings.add_storage_arguments(parser)
    group = parser.add_argument_group("promotion")
    settings.add_model_name(group)
    group.add_argument(
        "--version", type=settings.positive_int, help="version (default: the alias `challenger`)"
    )
    group.add_argument(
        "--min-precision",
        type=settings.fraction,
        help="threshold on test precision (default: the one the model was chosen by)",
    )
    group.add_argument(
        "--force", action="store_true", help="promote a model that the present champion surpasses on test"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    from feature_store.sources import get_source
    from feature_store.sources.base import resolve_aspect

    aspect = resolve_aspect(get_source(given.dataset), given.aspect) or ""
    search_spaces.criterion(given.dataset, aspect)
    storage = settings.storage(given.storage, given.sample)
    uri = settings.tracking_uri(given.tracking_uri, storage)
    with terminal.opened(), terminal.step("loading the packages"):
        from pipeline.study import study_report
        from pipeline.tracking import registry
        from pipeline.tracking.tracking import Tracker

        tracker = Tracker(uri, create=False)
    name = settings.model_name(given, aspect)
    version = registry.find(tracker, name, given.version or registry.CHALLENGER)
    holder = registry.champion(tracker, name)
    if holder is not None and holder.version == version.version:
        terminal.answer(f"{name} version {version.version} is `{registry.CHAMPION}` already")
        return 0
    _check_target(version, given.dataset, aspect)
    _check_corpus(version, holder)
    _check_same_task(version, holder)
    command = settings.stored_command("pipeline.promote", arguments)
    text = _judge(tracker, version, holder, given, command)
    registry.promote(tracker, version)
    if version.run_id:
        with terminal.opened(), terminal.step("writing the study's report again"):
            study_report.refresh(tracker, version.run_id, storage)
    before = "there was none" if holder is None else f"it was version {holder.version}"
    terminal.answer(f"\n`{registry.CHAMPION}` of {name} is version {version.version} now ({before}). Next:")
    terminal.answer(next_steps(f"models:/{name}@{registry.CHAMPION}", uri, text, storage))
    return 0


def _check_target(version: "ModelVersion", dataset: str, aspect: str) -> None:
    """Keep a model of another data set, or of another of its targets, from being judged by this criterion."""
    of = settings.title(version.tags.get("dataset", dataset), version.tags.get("aspect", aspect))
    wanted = settings.title(dataset, aspect)
    if of != wanted:
        raise PipelineError(
            f"{version.uri} was trained on {of}, but the flags name {wanted}",
            where="--model-name",
            hint=f"`{settings.target_flags(version.tags['dataset'], version.tags.get('aspect', ''))}`",
        )


def _check_corpus(version: "ModelVersion", holder: "ModelVersion | None") -> None:
    """Keep a model of the made-up corpus from replacing one of real data."""
    from pipeline.tracking.registry import CORPUS_TAG, REAL_CORPUS, SAMPLE_CORPUS

    is_sample = version.tags.get(CORPUS_TAG) == SAMPLE_CORPUS
    if is_sample and holder is not None and holder.tags.get(CORPUS_TAG, REAL_CORPUS) != SAMPLE_CORPUS:
        raise PipelineError(
            f"{version.uri} was trained on the made-up sample corpus and cannot replace "
            f"version {holder.version}, which was trained on real data",
            hint="keep sample models in a store of their own: `--sample`, or another `--storage`",
        )


def _check_same_task(version: "ModelVersion", holder: "ModelVersion | None") -> None:
    """Keep a model from replacing one of another task or corpus."""
    from pipeline.tracking.registry import differing

    other = None if holder is None else differing(version.tags, holder.tags)
    if holder is not None and other is not None:
        raise PipelineError(
            f"{version.uri} cannot replace version {holder.version}, which is of {other}",
            where="--model-name",
            hint="register it under a name of its own: "
            f"`python -m pipeline.register --name {version.tags.get('study', 'STUDY')} --model-name NAME`",
        )


def _judge(
    tracker: "Tracker",
    version: "ModelVersion",
    holder: "ModelVersion | None",
    given: argparse.Namespace,
    command: str,
) -> str:
    """Read the test split, print the scores and record the verdict.

    Args:
        tracker: the store.
        version: of the model.
        holder: the present champion, if there is one.
        given: parsed flags.
        command: this one, as it can be typed again.

    Returns:
        A text to try the model on.

    Raises:
        CriterionNotMet: if a bound does not hold, or the champion is better; with the numbers.
    """
    from pipeline.study import outcome
    from pipeline.tracking import assessment, registry

    with (
        terminal.opened(),
        terminal.step("reading the test split"),
        tempfile.TemporaryDirectory() as folder,
    ):
        subject = assessment.of_version(tracker, version, given, Path(folder))
        stated = planning.criterion_of(subject.features)
        criterion, origin = threshold(stated_of(version, stated), given.min_precision, version.tags)
        if given.min_precision is None and RIVAL_TAG in version.tags:
            criterion, origin = against_rival(tracker, subject, criterion)
        reading = assessment.read_test(tracker, subject)
    terminal.answer(assessment.describe(subject, reading, terminal.width_of(sys.stdout)))
    missed = misses(criterion, reading.scores)
    verdict = {
        "test_criterion": str(criterion),
        JUDGED_TAG: criterion.to_json(),
        "test_criterion_met": str(not missed).lower(),
    }
    registry.tag(tracker, version, verdict)
    if missed:
        raise CriterionNotMet(
            f"{version.uri} was not promoted: {'; '.join(missed)} ({origin})",
            hint=_way_on(criterion, reading.scores, command),
        )
    terminal.answer(f"\n{held(criterion, origin)}")
    if holder is not None:
        standing = _standing(holder, stated, given.min_precision)
        _surpass(tracker, version, holder, given, standing, reading.scores)
    return outcome.example_text(subject.features)


def against_rival(tracker: "Tracker", subject: "Subject", criterion: Criterion) -> tuple[Criterion, str]:
    """The criterion with the threshold that the rival's precision on test gives, and where that comes from.

    The rival reads the very texts that the model will be judged on, at the threshold that holds its rate on
    validation; its scores are recorded on the model's run, as `rival_test_NAME`.

    Args:
        tracker: the store.
        subject: the model, whose version names the rival.
        criterion: that of the model, in terms of test scores.

    Raises:
        UserError: if the version names none, or it cannot be trained again where it is not kept.
    """
    from pipeline.study.rival import Rival, model_of
    from pipeline.tracking import registry
    from pipeline.training.scoring import Scores, score_test

    version = subject.version
    if version is None:
        raise ValueError(f"{subject.label} is no registered version")
    asked = Rival.of_tag(version.tags[RIVAL_TAG], f"tag `{RIVAL_TAG}` of {version.uri}")
    bound = next(b for b in criterion.bounds if b.metric == _on_test(_PRECISION))

    def log_reading(scores: Scores) -> None:
        named = {f"rival_{name}": value for name, value in scores.items() if name.startswith("test_")}
        tracker.log_metrics(subject.run_id, named, step=0)
        registry.tag(tracker, version, {f"rival_{bound.metric}": round(scores[bound.metric], 6)})

    reading = score_test(model_of(asked, subject.features), subject.features, None, log_reading)
    precision, rate = reading.scores[bound.metric], reading.scores["test_selection_rate"]
    limit = round(max(0.0, precision - MARGIN), 3)
    bounds = tuple(dataclasses.replace(b, limit=limit) if b == bound else b for b in criterion.bounds)
    origin = f"{asked.name}'s {precision:.3f} on test, where it selects {100 * rate:.1f} %, less {MARGIN:g}"
    return dataclasses.replace(criterion, bounds=bounds, why=origin), origin


def _standing(holder: "ModelVersion", default: Criterion, min_precision: float | None) -> Criterion:
    """The criterion that the champion was judged by on test; that it was chosen by, where none is known."""
    if min_precision is None and JUDGED_TAG in holder.tags:
        return _parsed(holder, JUDGED_TAG)
    return threshold(stated_of(holder, default), min_precision, holder.tags)[0]


def stated_of(version: "ModelVersion", default: Criterion) -> Criterion:
    """The criterion that a model was chosen by, in terms of validation scores.

    Args:
        version: of the model; older ones have none but the threshold in their tags.
        default: that of the data.

    Raises:
        PipelineError: if what the version has is none.
    """
    return _parsed(version, CRITERION_TAG) if CRITERION_TAG in version.tags else default


def _parsed(version: "ModelVersion", tag: str) -> Criterion:
    try:
        return Criterion.from_json(version.tags[tag])
    except ValueError as error:
        raise PipelineError(str(error), where=f"tag `{tag}` of {version.uri}") from error


def _surpass(
    tracker: "Tracker",
    version: "ModelVersion",
    holder: "ModelVersion",
    given: argparse.Namespace,
    criterion: Criterion,
    scores: Mapping[str, Any],
) -> None:
    """Compare a model with the champion on test, by the criterion that the champion was chosen by.

    Raises:
        CriterionNotMet: if the champion is better, and nobody forces the change.
    """
    from pipeline.tracking import registry

    theirs = _scores_of_champion(tracker, version, holder, given, criterion)
    mine, best = criterion.value(scores), criterion.value(theirs)
    figures = f"{_figures(criterion, scores)}; version {holder.version}: {_figures(criterion, theirs)}"
    terminal.answer(f"against the champion, by {criterion}: version {version.version}: {figures}")
    if mine >= best:
        return
    if not given.force:
        raise CriterionNotMet(
            f"{version.uri} was not promoted: the champion, version {holder.version}, is better on test "
            f"(version {version.version}: {figures})",
            hint="`--force` promotes it all the same, and says so on the version",
        )
    registry.tag(tracker, version, {"forced": f"over version {holder.version}, which is better: {figures}"})


def _scores_of_champion(
    tracker: "Tracker",
    version: "ModelVersion",
    holder: "ModelVersion",
    given: argparse.Namespace,
    criterion: Criterion,
) -> Mapping[str, Any]:
    """The champion's scores on test: those that were recorded on the same data, else read now."""
    from pipeline.tracking import assessment

    recorded = {name: holder.tags.get(name) for name in criterion.metrics}
    if all(recorded.values()) and version.tags.get("data_fingerprint") == holder.tags.get("data_fingerprint"):
        return {name: float(value) for name, value in recorded.items() if value is not None}
    with tempfile.TemporaryDirectory() as folder:
        subject = assessment.of_version(tracker, holder, given, Path(folder))
        return assessment.read_test(tracker, subject).scores


def _figures(criterion: Criterion, scores: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {scores[name]:.4f}" for name in criterion.metrics)


def threshold(
    criterion: Criterion, min_precision: float | None, tags: Mapping[str, str]
) -> tuple[Criterion, str]:
    """The criterion in terms of test scores, and where its threshold on precision comes from.

    Args:
        criterion: that of the data, in terms of validation scores.
        min_precision: the flag, which comes first.
        tags: of the model version; its `min_precision` comes second, the criterion as it is last.

    Raises:
        PipelineError: if a threshold is stated for a criterion that has none on precision.
    """
    origin = "the criterion's threshold"
    stated = min_precision
    if stated is not None:
        origin = "the threshold of `--min-precision`"
    elif "min_precision" in tags:
        stated, origin = float(tags["min_precision"]), "the threshold that the model was chosen by"
    if stated is not None:
        try:
            criterion = criterion.with_limit(_PRECISION, stated)
        except ValueError as error:
            raise PipelineError(f"{error}", where="--min-precision") from error
    bounds = tuple(dataclasses.replace(bound, metric=_on_test(bound.metric)) for bound in criterion.bounds)
    return dataclasses.replace(criterion, metric=_on_test(criterion.metric), bounds=bounds), origin


def _on_test(name: str) -> str:
    return "test_" + name.removeprefix("val_")


def misses(criterion: Criterion, scores: Mapping[str, Any]) -> list[str]:
    """What does not hold, with the numbers; empty where all bounds do.

    Raises:
        PipelineError: if the test split lacks a score that the criterion reads.
    """
    missed = []
    for bound in criterion.bounds:
        if bound.metric not in scores:
            raise PipelineError(
                f"the test split gives no `{bound.metric}`, which the criterion reads: {criterion}"
            )
        if bound.violation(scores) > 0:
            missed.append(f"{bound.metric} is {scores[bound.metric]:.4f}, but {bound} is asked for")
    return missed


def _way_on(criterion: Criterion, scores: Mapping[str, Any], command: str) -> str:
    """What can be done about a model that misses a criterion on test; code stands between backticks."""
    others = "search with more trials or epochs"
    missed = [bound.metric for bound in criterion.bounds if bound.violation(scores) > 0]
    reached = math.floor(100 * scores.get(_on_test(_PRECISION), 0.0)) / 100
    if missed == [_on_test(_PRECISION)] and reached > 0:
        return f"`{command} --min-precision {reached:g}` states a threshold that it keeps; or {others}"
    return f"{others}, or state another threshold with `--min-precision`"


def held(criterion: Criterion, origin: str) -> str:
    """That a model keeps every bound of a criterion, and where the threshold comes from."""
    if not criterion.bounds:
        return f"{criterion}: it has no bound to keep"
    return "; ".join(str(bound) for bound in criterion.bounds) + f": met ({origin})"


def next_steps(model: str, uri: str, text: str, storage: Storage | None = None) -> str:
    """What to do with a champion.

    Args:
        model: its URI.
        uri: where MLflow tracks; a password in it is not shown.
        text: to try the model on.
        storage: of all results; None: the default.
    """
    store = shlex.quote(without_password(uri))
    where = settings.tracking_flags(storage or Storage(settings.STORAGE), uri)
    explain = ["python", "-m", "pipeline.explain", "--model", model, *where, "--text", text]
    return (
        f"  {shlex.join(explain)}\n"
        f"  MLFLOW_TRACKING_URI={store} mlflow models serve -m {model} --env-manager local -p 5001"
    )


if __name__ == "__main__":
    sys.exit(run_command(main))

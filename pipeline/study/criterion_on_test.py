"""The criterion that a registered model must meet on the test split."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

from pipeline.base.errors import PipelineError
from pipeline.study.criterion import CRITERION_TAG, JUDGED_TAG, RIVAL_TAG
from pipeline.study.rival import Rival, filled_up, model_of, precision_at
from pipeline.tracking import model_registry
from pipeline.tracking.assessment import Subject
from pipeline.tracking.model_registry import ModelVersion
from pipeline.tracking.tracking import Tracker
from pipeline.training.scoring import Scores, score_test
from search_spaces.base import Bound, BoundKind, Criterion
from search_spaces.criteria import PRECISION, below_rival, with_min_precision


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
    try:
        if min_precision is not None:
            origin = "the threshold of `--min-precision`"
            criterion = with_min_precision(criterion, min_precision)
        elif "min_precision" in tags:
            origin = "the threshold that the model was chosen by"
            criterion = criterion.with_limit(PRECISION, float(tags["min_precision"]), origin)
    except ValueError as error:
        raise PipelineError(f"{error}", where="--min-precision") from error
    bounds = tuple(dataclasses.replace(bound, metric=on_test(bound.metric)) for bound in criterion.bounds)
    return dataclasses.replace(criterion, metric=on_test(criterion.metric), bounds=bounds), origin


def on_test(name: str) -> str:
    """The name that a validation score has on test."""
    return "test_" + name.removeprefix("val_")


def stated_of(version: ModelVersion, default: Criterion) -> Criterion:
    """The criterion that a model was chosen by, in terms of validation scores.

    Args:
        version: of the model; older ones have none but the threshold in their tags.

    Raises:
        PipelineError: if what the version has is none.
    """
    return _parsed(version, CRITERION_TAG) if CRITERION_TAG in version.tags else default


def _parsed(version: ModelVersion, tag: str) -> Criterion:
    try:
        return Criterion.from_json(version.tags[tag])
    except ValueError as error:
        raise PipelineError(str(error), where=f"tag `{tag}` of {version.uri}") from error


def standing_criterion(holder: ModelVersion, default: Criterion) -> Criterion:
    """The criterion that the champion was judged by on test; that it was chosen by, where none is known."""
    if JUDGED_TAG in holder.tags:
        return _parsed(holder, JUDGED_TAG)
    return threshold(stated_of(holder, default), None, holder.tags)[0]


def stricter(standing: Criterion, own: Criterion) -> Criterion:
    """The champion's criterion with every bound of both, each at the limit that asks for more.

    Args:
        standing: by which the champion was judged.
        own: by which the model is judged that would take its place.
    """
    limits: dict[tuple[str, BoundKind], float] = {}
    for bound in (*standing.bounds, *own.bounds):
        key = bound.metric, bound.kind
        choose = max if bound.kind == "at_least" else min
        limits[key] = choose(bound.limit, limits.get(key, bound.limit))
    bounds = tuple(Bound(metric=name, kind=kind, limit=limit) for (name, kind), limit in limits.items())
    return dataclasses.replace(standing, bounds=bounds)


F1 = "test_token_f1"
CLEAR_LOSS = 0.05
"""Token F1 by which a model is clearly worse than another: more than one standard error of a difference on
95 annotated reviews, 0.03 for each of the two (docs/choosing.md)."""


def losses(criterion: Criterion, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """In what a model is worse than the champion, with both figures; empty where it may take its place.

    Args:
        criterion: with the stricter bounds of both.
        mine: scores of the model on test.
        theirs: scores of the champion on test.

    Raises:
        PipelineError: if a score is missing that the criterion reads.
    """
    for name in criterion.metrics:
        if name not in mine:
            raise PipelineError(
                f"the test split has no score `{name}`, which the champion's criterion reads: {criterion}"
            )
    found = []
    if criterion.value(mine) < criterion.value(theirs):
        if missed := misses(criterion, mine):
            by_less = criterion.violation(theirs) > 0
            comparison = "misses the criterion by less" if by_less else "meets every bound"
            broken = [bound.metric for bound in criterion.bounds if bound.violation(mine) > 0]
            figures = ", ".join(f"{name} {theirs[name]:.4f}" for name in dict.fromkeys(broken))
            found.append(f"{', '.join(missed)} (the champion {comparison}: {figures})")
        else:
            found.append(_against(criterion.metric, mine, theirs))
    lost = theirs[F1] - mine[F1] if F1 in mine and F1 in theirs else 0.0
    if lost > CLEAR_LOSS:
        found.append(f"{_against(F1, mine, theirs)}, more than {CLEAR_LOSS:g} higher")
    return found


def _against(metric: str, mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    return f"{metric} is {mine[metric]:.4f}, and the champion's is {theirs[metric]:.4f}"


def misses(criterion: Criterion, scores: Mapping[str, Any]) -> list[str]:
    """What does not hold, with the numbers; empty where all bounds do.

    Raises:
        PipelineError: if the test split lacks a score that the criterion reads.
    """
    missed = []
    for bound in criterion.bounds:
        if bound.metric not in scores:
            raise PipelineError(
                f"the test split has no score `{bound.metric}`, which the criterion reads: {criterion}"
            )
        if bound.violation(scores) > 0:
            missed.append(f"{bound.metric} is {scores[bound.metric]:.4f}, but the criterion requires {bound}")
    return missed


def way_on(criterion: Criterion, scores: Mapping[str, Any], command: str) -> str:
    """What can be done about a model that misses a criterion on test; code stands between backticks."""
    others = "search with more trials or epochs"
    missed = [bound.metric for bound in criterion.bounds if bound.violation(scores) > 0]
    reached = math.floor(100 * scores.get(on_test(PRECISION), 0.0)) / 100
    if missed != [on_test(PRECISION)]:
        return f"{others}, or state other bounds: `python -m pipeline.register --help` shows `--criterion`"
    if reached <= 0:
        return f"{others}, or set another threshold with `--min-precision`"
    return (
        f"`{command} --min-precision {reached:g}` sets a lower threshold, which this model meets; or {others}"
    )


def held(criterion: Criterion, origin: str) -> str:
    """That a model keeps every bound of a criterion, and where the threshold comes from."""
    if not criterion.bounds:
        return f"{criterion}: it has no bounds"
    return "; ".join(str(bound) for bound in criterion.bounds) + f": met ({origin})"


def against_rival(tracker: Tracker, subject: Subject, criterion: Criterion) -> tuple[Criterion, str]:
    """The criterion with the threshold that the rival's precision on test gives, and where that comes from.

    The rival reads the very texts that the model will be judged on, at the threshold that holds its rate on
    validation; its scores are recorded on the model's run, as `rival_test_NAME`.

    Args:
        subject: the model, whose version names the rival.
        criterion: that of the model, in terms of test scores.

    Raises:
        UserError: if the version names none, or it cannot be trained again where it is not kept.
    """
    version = subject.version
    if version is None:
        raise ValueError(f"{subject.label} is no registered version")
    asked = Rival.of_tag(version.tags[RIVAL_TAG], f"tag `{RIVAL_TAG}` of {version.uri}")
    bound = next(b for b in criterion.bounds if b.metric == on_test(PRECISION))

    def log_reading(scores: Scores) -> None:
        named = {f"rival_{name}": value for name, value in scores.items() if name.startswith("test_")}
        tracker.log_metrics(subject.run_id, named, step=0)
        model_registry.tag(tracker, version, {f"rival_{bound.metric}": round(scores[bound.metric], 6)})

    reading = score_test(model_of(asked, subject.features), subject.features, None, log_reading)
    precision, own_rate = precision_at(asked.rate, reading.scores, "test_")
    limit, reason = below_rival(precision, reading.scores.get("test_gold_density", 0.0))
    bounds = tuple(dataclasses.replace(b, limit=limit) if b == bound else b for b in criterion.bounds)
    told = f"where it selects {100 * reading.scores['test_selection_rate']:.1f} %"
    if own_rate is not None:
        told = f"where {filled_up(own_rate, asked.rate)}"
    origin = f"{asked.name}'s test precision{reason} ({told})"
    return dataclasses.replace(criterion, bounds=bounds, why=origin), origin

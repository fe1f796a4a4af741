"""Scores of a model on validation and on test; the only reader of the test split."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import torch

from feature_store.store import Features
from infocal.batch import Batch
from infocal.config import MethodConfig, Task
from infocal.faithfulness import model_faithfulness
from infocal.metrics import scores as metrics
from infocal.metrics import trivial as baselines
from infocal.metrics.resampling import TextCounts
from infocal.nn.rationalizer import HALF, Rationalizer
from infocal.splitting import Splitter
from infocal.trainer import Prediction, Trainer, predict, probabilities_of_rationales
from pipeline.training.columns import MEAN, of_target
from pipeline.training.loaders import Loader, task_of
from search_spaces.lookup import metric_mode

BATCH_SIZE = 64
MIN_GROUP_TEXTS = 30
"""Texts from which a group has scores of its own: with fewer, a score moves by 3 points with each text."""

_RATE = "selection_rate"
_OF_TEXTS = ("threshold", "num_documents", "num_skipped")
"""Among the scores of rationales, what is the same for all targets of a text."""

Scores = dict[str, float]
Mask = npt.NDArray[np.bool_]
Predictor = Callable[[Iterable[Batch]], Iterator[Prediction]]


@dataclass(frozen=True, slots=True)
class ValidationData:
    """The two validation sets: targets and calibration from `val`, human rationales from `val_annotated`.

    They are one and the same loader where a data set has no `val_annotated`.
    """

    task: Task
    val: Loader
    annotated: Loader
    mode: str
    """Of the rationale scores; see `infocal.metrics.scores.mask_scores`."""

    @classmethod
    def of(
        cls, features: Features, config: MethodConfig | None = None, splitter: Splitter | None = None
    ) -> "ValidationData":
        """Open both sets.

        Args:
            config: of the model, whose `target_weights` become those of the targets.
            splitter: of the model, where it reads pieces.
        """
        task, mode = task_of(features), metric_mode(features.dataset)
        if config is not None:
            task = config.weighted(task)
        val = Loader(features.table("val"), task, splitter=splitter)
        annotated = val
        if "val_annotated" in features.splits:
            annotated = Loader(features.annotated_validation(), task, splitter=splitter)
        return cls(task, val, annotated, mode)


@dataclass(frozen=True, slots=True)
class Validation:
    """What one evaluation on validation found."""

    scores: Scores
    """`val_NAME`: task scores on `val`; rationale scores on the annotated set, at p >= 0.5 and, as
    `val_calibrated_NAME`, at the threshold that gives the target rate on `val`."""
    predictions: list[Prediction]
    """For the annotated set, in the order of its table."""
    degenerate: str | None
    """Name of the trivial mask the model has fallen to on `val`."""
    counts: TextCounts | None = None
    """What its scores are made of, text by text."""
    side_counts: Mapping[str, TextCounts] = field(default_factory=dict)
    """The same by target, where there are several."""


def hold_rate(trainer: Trainer, data: ValidationData, rate: float) -> metrics.DegenerateKind | None:
    """Set the threshold of the trainer's evaluated model so that it selects at a rate: of each rationale.

    Found on the texts on which rationales are scored, whose annotations it does not read: where `val` and
    `val_annotated` are of different kinds of text, so are their rates.

    Args:
        trainer: its evaluated model is changed; checkpoints and packages keep the threshold.
        rate: target selection rate, in (0, 1].

    Returns:
        Name of the trivial mask that the selector has at p >= 0.5 on `val`, whatever its threshold: any
        selector meets a rate, one that has died, too. None where it has none, or selects every token always.
        Where each target has its own rationale, of the first that has one and whose target has a weight.
    """
    model = trainer.evaluated_model
    if model.config.is_dense:
        return None
    found = probabilities_of_rationales(model, data.annotated.in_order(BATCH_SIZE), trainer.device)
    thresholds = [metrics.threshold_for_rate(own, rate) for own in found]
    model.threshold, model.side_thresholds = thresholds[0], thresholds[1:]
    if data.annotated is not data.val:
        found = probabilities_of_rationales(model, data.val.in_order(BATCH_SIZE), trainer.device)
    return _degenerate(found, data.task)


def _degenerate(
    probabilities: Sequence[Sequence[npt.NDArray[np.floating[Any]]]], task: Task
) -> metrics.DegenerateKind | None:
    """Name of the trivial mask at p >= 0.5, of the first rationale that has one and whose target counts.

    Args:
        probabilities: of the tokens of each text, for each rationale.
        task: with the weights of its targets.
    """
    kinds = (
        metrics.degenerate_kind(metrics.apply_threshold(own, HALF))
        for own, head in zip(probabilities, task.heads, strict=False)
        if head.weight > 0 or len(probabilities) == 1
    )
    return next((kind for kind in kinds if kind is not None), None)


def validate(predictor: Predictor, data: ValidationData, target_rate: float) -> Validation:
    """Evaluate on both validation sets.

    Args:
        target_rate: selection rate that the calibrated threshold gives; 0: no calibration.
    """
    plain = list(predictor(data.val.in_order(BATCH_SIZE)))
    probabilities = [
        [one.select_probability for one in rows] for rows in zip(*map(_own_rationales, plain), strict=True)
    ]
    threshold = metrics.threshold_for_rate(probabilities[0], target_rate) if target_rate > 0 else None
    predictions = _by_row(plain) if data.annotated is data.val else _in_table_order(predictor, data.annotated)
    scores = task_scores(plain, data.task)
    scores |= rationale_scores(predictions, data.annotated.golds(), threshold, data.mode, data.task)
    return Validation(
        {f"val_{name}": value for name, value in scores.items()},
        predictions,
        _degenerate(probabilities, data.task),
        text_counts(plain, predictions, data.annotated.golds(), data.task),
        _counts_by_target(plain, predictions, data),
    )


def _counts_by_target(
    plain: Sequence[Prediction], marked: Sequence[Prediction], data: ValidationData
) -> dict[str, TextCounts]:
    """`text_counts` of each of several targets, by its name; nothing where there is one."""
    if not data.task.sides:
        return {}
    golds = data.annotated.golds()
    counts = {}
    for i, head in enumerate(data.task.heads):
        own = [of_head(one, i) for one in marked]
        counts[head.name] = text_counts([of_head(one, i) for one in plain], own, _golds_of(own, golds), head)
    return counts


def text_counts(
    plain: Sequence[Prediction], marked: Sequence[Prediction], golds: Sequence[Mask | None], task: Task
) -> TextCounts:
    """What scores are made of, text by text; masks are those at p >= 0.5.

    Args:
        golds: one for each of `marked`.
    """
    target = np.array([prediction.target for prediction in plain])
    output = np.stack([prediction.output for prediction in plain])
    is_score = task.kind == "regression"
    return TextCounts.of(
        metrics.apply_threshold([prediction.select_probability for prediction in marked], HALF),
        golds,
        output[:, 0].astype(np.float64) if is_score else output.argmax(axis=1),
        target.astype(np.float64) if is_score else target.astype(np.int64),
    )


def task_scores(predictions: Sequence[Prediction], task: Task) -> Scores:
    """`mse` and `mae`, or accuracy, macro and AUROC scores; `guider_NAME` of a guider, where there is one.

    Of several targets these are the main one's. `TARGET/NAME` are those of each target, and `mean/NAME` is
    the mean over the targets that have such a score, where at least two have.
    """
    return _with_targets(
        [
            _target_scores([of_head(prediction, i) for prediction in predictions], head)
            for i, head in enumerate(task.heads)
        ],
        task,
    )


def _with_targets(each: Sequence[Scores], task: Task) -> Scores:
    """The main target's scores, and of several targets those of each and their means; see `task_scores`.

    Args:
        each: scores of each target, the main one first.
    """
    if not task.sides:
        return each[0]
    named = {
        of_target(head.name, name): value
        for head, own in zip(task.heads, each, strict=True)
        for name, value in own.items()
    }
    for name in dict.fromkeys(name for own in each for name in own):
        values = [own[name] for own in each if name in own]
        if len(values) > 1:
            named[of_target(MEAN, name)] = float(np.mean(values))
    return each[0] | named


def _own_rationales(prediction: Prediction) -> tuple[Prediction, ...]:
    """A prediction of each target that has its own rationale; of the main one alone where they share one."""
    return (prediction, *(side for side in prediction.sides if side.has_own_rationale))


def _golds_of(predictions: Sequence[Prediction], golds: Sequence[Mask | None]) -> Sequence[Mask | None]:
    """Human rationales for the predictions of one target: none where it has its own rationale.

    Those of a data set are of its main target.
    """
    return [None] * len(golds) if predictions and predictions[0].has_own_rationale else golds


def of_head(prediction: Prediction, number: int) -> Prediction:
    """What a prediction says of one of several targets; the first is the main one."""
    return (prediction, *prediction.sides)[number]


def _target_scores(predictions: Sequence[Prediction], task: Task) -> Scores:
    """Scores of one target, without a name."""
    target = np.array([prediction.target for prediction in predictions])
    outputs = {"": np.stack([prediction.output for prediction in predictions])}
    guided = [prediction.guider_output for prediction in predictions if prediction.guider_output is not None]
    if guided:
        outputs["guider_"] = np.stack(guided)
    scores: Scores = {}
    for prefix, output in outputs.items():
        if task.kind == "regression":
            found = metrics.regression_scores(output[:, 0], target)
        else:
            numbers = target.astype(np.int64)
            found = metrics.classification_scores(output.argmax(axis=1), numbers)
            found |= metrics.auroc_scores(output, numbers)
        scores |= {prefix + name: value for name, value in found.items()}
    return scores


def rationale_scores(
    predictions: Sequence[Prediction],
    golds: Sequence[Mask | None],
    calibrated_threshold: float | None,
    mode: str,
    task: Task | None = None,
) -> Scores:
    """Every rationale score by its flat name; see `infocal.metrics.scores.DEFINITIONS`.

    Of several targets these are the main one's, with which human rationales are compared. `TARGET/NAME` are
    those of each target that has its own rationale; where all share one, there is `TARGET/selection_rate`.

    Args:
        calibrated_threshold: of the main target; None: no calibrated scores.
        mode: see `infocal.metrics.scores.mask_scores`.
        task: where there may be several targets.
    """
    main = metrics.rationale_scores(
        [prediction.select_probability for prediction in predictions],
        golds,
        calibrated_threshold=calibrated_threshold,
        mode=mode,
    )
    if task is None or not task.sides:
        return main
    if not predictions[0].sides[0].has_own_rationale:
        return main | _with_targets([{_RATE: main[_RATE]}] * len(task.heads), task)
    nobody = [None] * len(predictions)
    sides = [
        metrics.rationale_scores([of_head(p, i).select_probability for p in predictions], nobody, mode=mode)
        for i in range(1, len(task.heads))
    ]
    of_selection = [{name: own[name] for name in own if name not in _OF_TEXTS} for own in (main, *sides)]
    return main | _with_targets(of_selection, task)


@dataclass(frozen=True, slots=True)
class TestReading:
    """One reading of the test split."""

    __test__ = False  # not a test class, whatever pytest reads into the name

    scores: Scores
    """`test_NAME`; where there is a `val_annotated`, also `annotated_NAME` for it and test together, as
    published tables have it."""
    trivial: dict[str, Scores]
    """The trivial lines on test at the model's own rate on the annotated texts: `all_tokens`, ..."""
    groups: dict[str, Scores]
    """Scores of the test texts about each group, the largest group first; see `group_scores`."""
    predictions: list[Prediction]
    example_ids: list[str]
    counts: TextCounts | None = None
    """What the scores are made of, text by text."""


def score_test(
    model: Rationalizer,
    features: Features,
    calibrated_threshold: float | None,
    log_reading: Callable[[Scores], None],
) -> TestReading:
    """Open the test split and score a finished model on it.

    Args:
        model: the model, in evaluation mode.
        features: the features it was trained on.
        calibrated_threshold: from validation; None: no calibrated scores.
        log_reading: called with the scores before they are returned, so that no reading goes unrecorded.
    """
    task, mode = task_of(features), metric_mode(features.dataset)
    table = features.table("test")
    test = Loader(table, task, splitter=model.splitter)

    def predictor(batches: Iterable[Batch]) -> Iterator[Prediction]:
        return predict(model, batches, torch.device("cpu"))

    predictions, golds = _in_table_order(predictor, test), test.golds()
    scores = task_scores(predictions, task)
    scores |= rationale_scores(predictions, golds, calibrated_threshold, mode, task)
    scores |= faithfulness(model, test)
    named = {f"test_{name}": value for name, value in scores.items()}
    if "val_annotated" in features.splits:
        val = Loader(features.annotated_validation(), task, splitter=model.splitter)
        both, both_golds = predictions + _in_table_order(predictor, val), golds + val.golds()
        together = task_scores(both, task)
        together |= rationale_scores(both, both_golds, calibrated_threshold, mode, task)
        named |= {f"annotated_{name}": value for name, value in together.items()}
    log_reading(named)
    lines = baselines.trivial_scores(golds, test.token_ids.lengths, rate_of_lines(scores), mode=mode)
    return TestReading(
        named,
        lines,
        group_scores(predictions, golds, table["groups"].to_pylist(), task, mode),
        predictions,
        table["example_id"].to_pylist(),
        text_counts(predictions, predictions, golds, task),
    )


def texts_of_language_models(features: Features) -> Loader:
    """The test texts, on which language models have their perplexity.

    Neither targets nor rationales are read, and no model of these is scored: not a reading that is recorded.
    """
    return Loader(features.table("test"), task_of(features))


def texts_for_people(features: Features, split: str) -> pa.Table:
    """Texts of a split that people are to read: to judge rationales on them, or to mark their own.

    Nothing is computed here. Whoever shows the rationales of a model on the test split records a reading.
    """
    return features.table(split)


def faithfulness(model: Rationalizer, loader: Loader) -> Scores:
    """Comprehensiveness, sufficiency and AOPC of a classification; a regression has no class, and none.

    Of several targets each has its own, named as in `task_scores`.

    Over the texts that people annotated, as [Mathew2021] has it; over all where nobody annotated any. It
    takes fifteen passes over the texts, so it is computed for a finished model and not at each epoch.
    """
    if all(head.kind == "regression" for head in model.task.heads):
        return {}
    rows = loader.annotated_rows()
    batches = loader.in_order(BATCH_SIZE, rows if len(rows) else None)
    return _with_targets(model_faithfulness(model, batches, torch.device("cpu")), model.task)


def final_validation(model: Rationalizer, features: Features) -> Scores:
    """`val_NAME` for the scores that are computed once, on the finished model; see `faithfulness`."""
    loader = Loader(features.annotated_validation(), task_of(features), splitter=model.splitter)
    found = faithfulness(model, loader)
    return {f"val_{name}": value for name, value in found.items()}


def rate_of_lines(scores: Mapping[str, float], prefix: str = "") -> float:
    """The rate at which the trivial lines compare with a model: what it selects of the texts that are scored.

    A classifier may well select more of toxic posts, which alone are annotated, than of all.
    """
    return scores.get(f"{prefix}selection_rate_annotated", scores[f"{prefix}selection_rate"])


def constant_answer(features: Features, split: str = "val") -> Scores:
    """Scores on a split of one answer for all texts: the class that most training texts have.

    Returns:
        `SPLIT_accuracy` and `SPLIT_macro_f1` of the main target; of a regression `SPLIT_explained_rate`, 0.
    """
    task = task_of(features)
    if task.kind == "regression":
        return {f"{split}_explained_rate": 0.0}
    trained, given = (Loader(features.table(name), task).class_counts() for name in ("train", split))
    assert trained is not None and given is not None
    targets = np.repeat(np.arange(len(given)), given)
    found = metrics.classification_scores(np.full_like(targets, np.argmax(trained)), targets)
    return {f"{split}_{name}": found[name] for name in ("accuracy", "macro_f1")}


def trivial_validation(features: Features, rate: float) -> dict[str, Scores]:
    """The trivial lines on the annotated validation texts at a selection rate."""
    return _trivial(features, Loader(features.annotated_validation(), task_of(features)), rate)


def trivial_test(features: Features, rate: float) -> dict[str, Scores]:
    """The same on the test texts. No model reads them, so this is not a reading that is recorded."""
    return _trivial(features, Loader(features.table("test"), task_of(features)), rate)


def _trivial(features: Features, loader: Loader, rate: float) -> dict[str, Scores]:
    lengths = loader.token_ids.lengths
    return baselines.trivial_scores(loader.golds(), lengths, rate, mode=metric_mode(features.dataset))


def published_test(features: Features, masks: Mapping[str, Sequence[int]]) -> tuple[Scores, int]:
    """Scores of given masks on those test texts that they are of; no model, so no reading.

    Args:
        masks: id of a text -> positions of its selected tokens; those beyond the cut of a text are left out.

    Returns:
        The scores, none where there is no such text, and the number of texts.
    """
    table = features.table("test")
    golds, ids = Loader(table, task_of(features)).golds(), table["example_id"].to_pylist()
    rows = [row for row, name in enumerate(ids) if name in masks]
    if not rows:
        return {}, 0
    sizes = [len(table["tokens"][row]) for row in rows]
    selected = [np.isin(np.arange(n), masks[ids[row]]) for row, n in zip(rows, sizes, strict=True)]
    given = [mask.astype(np.float64) for mask in selected]
    mode = metric_mode(features.dataset)
    return metrics.rationale_scores(given, [golds[row] for row in rows], mode=mode), len(rows)


def group_scores(
    predictions: Sequence[Prediction],
    golds: Sequence[Mask | None],
    groups: Sequence[Sequence[str]],
    task: Task,
    mode: str,
) -> dict[str, Scores]:
    """Task and rationale scores of the texts about each group that has `MIN_GROUP_TEXTS` or more.

    Args:
        predictions: in the order of the texts.
        golds: as for `rationale_scores`.
        groups: those of each text; a text about several counts for each.
        mode: as for `rationale_scores`.
    """
    rows: dict[str, list[int]] = {}
    for row, named in enumerate(groups):
        for group in named:
            rows.setdefault(group, []).append(row)
    found = {}
    for group, members in sorted(rows.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(members) >= MIN_GROUP_TEXTS:
            own = [predictions[row] for row in members]
            scores = rationale_scores(own, [golds[row] for row in members], None, mode)
            found[group] = task_scores(own, task) | scores
    return found


def _in_table_order(predictor: Predictor, loader: Loader) -> list[Prediction]:
    return _by_row(predictor(loader.in_order(BATCH_SIZE)))


def _by_row(predictions: Iterable[Prediction]) -> list[Prediction]:
    return sorted(predictions, key=lambda prediction: prediction.index)

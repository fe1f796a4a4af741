"""Scores of a model on validation and on test; the only reader of the test split."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from feature_store.store import Features
from infocal import baselines, metrics
from infocal.batch import Batch
from infocal.config import Task
from infocal.model import InfoCal
from infocal.trainer import Prediction, predict
from pipeline.loaders import Loader, task_of

BATCH_SIZE = 64
METRIC_MODE = "paper"
"""Adds the scores of the paper's beer tables to ERASER's."""

Scores = dict[str, float]
Mask = npt.NDArray[np.bool_]
Predictor = Callable[[Iterable[Batch]], Iterator[Prediction]]


@dataclass(frozen=True, slots=True)
class ValidationData:
    """The two validation sets: targets and calibration from `val`, human rationales from `val_annotated`."""

    task: Task
    val: Loader
    annotated: Loader

    @classmethod
    def of(cls, features: Features) -> "ValidationData":
        """Open both sets."""
        task = task_of(features)
        return cls(task, Loader(features.table("val"), task), Loader(features.table("val_annotated"), task))


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


def validate(predictor: Predictor, data: ValidationData, target_rate: float) -> Validation:
    """Evaluate on both validation sets.

    Args:
        predictor: maps batches to predictions.
        data: the sets.
        target_rate: selection rate that the calibrated threshold gives; 0: no calibration.
    """
    plain = list(predictor(data.val.in_order(BATCH_SIZE)))
    probabilities = [prediction.select_probability for prediction in plain]
    threshold = metrics.threshold_for_rate(probabilities, target_rate) if target_rate > 0 else None
    predictions = _in_table_order(predictor, data.annotated)
    scores = task_scores(plain, data.task) | rationale_scores(predictions, data.annotated.golds(), threshold)
    masks = metrics.apply_threshold(probabilities, 0.5)
    return Validation(
        {f"val_{name}": value for name, value in scores.items()}, predictions, metrics.degenerate_kind(masks)
    )


def task_scores(predictions: Sequence[Prediction], task: Task) -> Scores:
    """`mse` and `mae`, or accuracy and macro scores; `guider_NAME` is the guider's."""
    target = np.array([prediction.target for prediction in predictions])
    outputs = {
        "": np.stack([prediction.output for prediction in predictions]),
        "guider_": np.stack([prediction.guider_output for prediction in predictions]),
    }
    scores: Scores = {}
    for prefix, output in outputs.items():
        if task.kind == "regression":
            found = metrics.regression_scores(output[:, 0], target)
        else:
            found = metrics.classification_scores(output.argmax(axis=1), target.astype(np.int64))
        scores |= {prefix + name: value for name, value in found.items()}
    return scores


def rationale_scores(
    predictions: Sequence[Prediction], golds: Sequence[Mask | None], calibrated_threshold: float | None
) -> Scores:
    """Every rationale score by its flat name; see `infocal.metrics.DEFINITIONS`."""
    return metrics.rationale_scores(
        [prediction.select_probability for prediction in predictions],
        golds,
        calibrated_threshold=calibrated_threshold,
        mode=METRIC_MODE,
    )


@dataclass(frozen=True, slots=True)
class TestReading:
    """One reading of the sealed test split."""

    __test__ = False  # not a test class, whatever pytest reads into the name

    scores: Scores
    """`test_NAME`, and `annotated_NAME` for validation and test together, as published tables have it."""
    trivial: dict[str, Scores]
    """The trivial lines on test at the model's own selection rate: `all_tokens`, `random_k`, ..."""
    predictions: list[Prediction]
    example_ids: list[str]


def score_test(
    model: InfoCal,
    features: Features,
    calibrated_threshold: float | None,
    log_reading: Callable[[Scores], None],
) -> TestReading:
    """Open the sealed test split and score a finished model on it.

    Args:
        model: the model, in evaluation mode.
        features: the features it was trained on.
        calibrated_threshold: from validation; None: no calibrated scores.
        log_reading: called with the scores before they are returned, so that no reading goes unrecorded.
    """
    task, device = task_of(features), torch.device("cpu")
    test, val = (Loader(features.table(split), task) for split in ("test", "val_annotated"))

    def predictor(batches: Iterable[Batch]) -> Iterator[Prediction]:
        return predict(model, batches, device)

    predictions, golds = _in_table_order(predictor, test), test.golds()
    scores = task_scores(predictions, task) | rationale_scores(predictions, golds, calibrated_threshold)
    both = predictions + _in_table_order(predictor, val)
    both_golds = golds + val.golds()
    both_scores = task_scores(both, task) | rationale_scores(both, both_golds, calibrated_threshold)
    named = {f"test_{name}": value for name, value in scores.items()}
    named |= {f"annotated_{name}": value for name, value in both_scores.items()}
    log_reading(named)
    rate = scores["selection_rate"]
    trivial = baselines.trivial_scores(golds, test.token_ids.lengths, rate, mode=METRIC_MODE)
    ids = features.table("test")["example_id"].to_pylist()
    return TestReading(named, trivial, predictions, ids)


def _in_table_order(predictor: Predictor, loader: Loader) -> list[Prediction]:
    return sorted(predictor(loader.in_order(BATCH_SIZE)), key=lambda prediction: prediction.index)

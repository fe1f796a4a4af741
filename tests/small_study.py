"""Settings of a study and of a run over the sample features with a model of four units, for tests."""

from typing import Any

from pipeline.base.storage import Storage
from pipeline.study.criterion import Candidate
from pipeline.study.study_settings import StudySettings
from pipeline.training.settings import RunSettings
from search_spaces.base import Bound, Criterion
from tests.small_store import sample_features

LANGUAGE_MODEL = {
    "hidden_size": 4,
    "num_negatives": 8,
    "num_epochs": 1,
    "batch_size": 256,
    "learning_rate": 0.01,
    "clip_norm": 5.0,
    "seed": 0,
}
BASE = {
    **{"hidden_size": 4, "encoder": "lstm", "batch_size": 256, "learning_rate": 0.01},
    "start_selection_rate": 0.5,  # not the trivial mask of a dense start
}
POINT = {"lambda_ib": 0.0003, "lambda_g": 1.0, "lambda_mi": 0.1, "lambda_lm": 0.005}
SCORES = {
    "val_token_precision": 0.5,
    "val_token_recall": 0.25,
    "val_token_f1": 1 / 3,
    "val_selection_rate": 0.125,
    "val_mse": 0.02,
}


def criterion(limit: float = 0.05) -> Criterion:
    """Best recall with at least this precision."""
    bound = Bound(metric="val_token_precision", limit=limit, kind="at_least")
    return Criterion(metric="val_token_recall", bounds=(bound,), why="a test")


def run_settings(**changes: Any) -> RunSettings:
    """Two epochs on the sample features; `changes` on top, those of `base` over its entries."""
    values = {
        "dataset": "beer",
        "aspect": "palate",
        "method": "infocal",
        "options": {},
        "features_dir": str(sample_features().directory),
        "language_model": LANGUAGE_MODEL,
        "base": BASE | changes.pop("base", {}),
        "criterion": criterion(),
        "num_epochs": 2,
        "seed": 0,
        "device": "cpu",
        "bf16": False,
        "num_threads": 1,
    }
    return RunSettings(**{**values, **changes})


def study_settings(run: RunSettings | None = None, **changes: Any) -> StudySettings:
    """A study of three trials; `changes` on top."""
    values = {
        "name": "first",
        "run": run or run_settings(),
        "space_name": "paper",
        "sampler": "random",
        "num_trials": 3,
        "max_concurrent": 1,
        "cpus_per_trial": 1.0,
        "gpus_per_trial": 0.0,
        "num_seeds": 1,
        "sample": True,
        "model_name": "infocal-beer-palate",
        "command": "python -m pipeline.search",
        "first_points": [POINT],
    }
    return StudySettings(**{**values, **changes})


def candidate(trial_id: str = "a", **changes: Any) -> Candidate:
    """A trial that met its criterion at its second epoch; `changes` on top."""
    values = {
        "config": POINT,
        "checkpoint": Storage("checkpoint").opened(),
        "epoch": 1,
        "value": 0.25,
        "violation": 0.0,
        "scores": SCORES,
    }
    return Candidate(trial_id=trial_id, **{**values, **changes})

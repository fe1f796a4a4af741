"""A short seeded run on CPU must reproduce its stored loss curves.

When a change of the curves is meant, write them anew and say why in the commit:

    python -m tests.contracts.test_loss_curve
"""

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from infocal.config import InfoCalConfig, Task
from tests.small_model import CLASSES, REGRESSION, random_batches, small_trainer

STORED = Path(__file__).parents[1] / "data" / "loss_curve.json"
NUM_EPOCHS = 3
# Every hyper-parameter by name: a default that is tuned must not move a curve.
FIRST: dict[str, Any] = {
    "lambda_ib": 0.0003,
    "lambda_g": 1.0,
    "lambda_mi": 0.1,
    "lambda_lm": 0.005,
    "lambda_coherence": 0.0,
    "prior_selection_rate": 0.001,
    "target_selection_rate": 0.2,
    "rate_penalty": 10.0,
    "rate_step_size": 0.1,
    "start_selection_rate": 0.9,
    "dense_epochs": 0.5,
    "ramp_epochs": 1.5,
    "temperature": 1.0,
    "sampling": "straight_through",
    "mi_reduction": "sum",
    "lm_form": "drawn",
    "coherence_form": "drawn",
    "calibration_loss": "discriminator",
    "discriminator_loss": "standard",
    "discriminator_slope": 0.1,
    "calibrate_to": "mean",
    "target_weights": "",
    "rationales": "shared",
    "encoder": "rcnn",
    "pooling": "mean",
    "hidden_size": 4,
    "feature_size": 8,
    "train_embeddings": False,
    "embedding_dropout": 0.2,
    "learning_rate": 0.01,
    "discriminator_learning_rate": 0.001,
    "weight_decay": 2e-6,
    "clip_norm": 5.0,
    "learning_rate_decay": 0.97,
    "min_learning_rate": 5e-5,
    "warmup_epochs": 0.0,
    "decay_epochs": 0.0,
    "pretrained": "",
    "encoder_learning_rate": 2e-5,
    "frozen_layers": 0,
    "window_size": 0,
    "window_stride": 0,
    "word_state": "mean",
    "unselected": "removed",
    "shared_encoder": False,
    "gradient_checkpointing": False,
    "average_decay": 0.0,
    "batch_size": 4,
    "max_length": 256,
}
SECOND = FIRST | {
    "lambda_mi": 0.001,
    "lambda_coherence": 0.02,
    "target_selection_rate": 0.0,
    "dense_epochs": 0.0,
    "ramp_epochs": 0.0,
    "sampling": "relaxed",
    "discriminator_slope": 1.0,
    "calibrate_to": "sample",
    "encoder": "lstm",
    "pooling": "last",
    "train_embeddings": True,
    "embedding_dropout": 0.0,
    "learning_rate": 0.02,
}
RUNS: dict[str, tuple[Task, dict[str, Any]]] = {
    "rcnn_regression": (REGRESSION, FIRST),
    "lstm_classification": (CLASSES, SECOND),
}
FIGURES = (
    "objective",
    "sp",
    "guide",
    "ib",
    "g",
    "mi",
    "lm",
    "coherence",
    "rate",
    "d",
    "sampled_selection_rate",
)


def curve(name: str) -> dict[str, list[float]]:
    """Each figure of a run after each epoch; the kernel in torch operations, so that no compiler matters."""
    task, settings = RUNS[name]
    batches = random_batches(4, task, seed=1)
    trainer = small_trainer(task, seed=7, num_batches=4, **settings)
    epochs = [trainer.train_epoch(batches) for _ in range(NUM_EPOCHS)]
    return {figure: [epoch[figure] for epoch in epochs] for figure in FIGURES}


def write() -> None:
    """Write the curves of all runs."""
    os.environ["INFOCAL_KERNEL"] = "torch"
    torch.set_num_threads(1)
    rounded = {
        name: {figure: [float(f"{v:.7g}") for v in values] for figure, values in curve(name).items()}
        for name in RUNS
    }
    text = json.dumps({"torch": torch.__version__, "runs": rounded}, indent=1)
    STORED.write_text(text + "\n", encoding="utf-8")


@pytest.mark.parametrize("name", RUNS)
def test_a_run_leaves_nothing_to_the_defaults(name):
    _, settings = RUNS[name]
    assert set(settings) == {field.name for field in dataclasses.fields(InfoCalConfig)}


@pytest.mark.parametrize("name", RUNS)
def test_a_seeded_run_reproduces_its_curve(monkeypatch, name):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")
    stored = json.loads(STORED.read_text(encoding="utf-8"))["runs"][name]
    assert set(stored) == set(FIGURES)
    for figure, values in curve(name).items():
        assert len(values) == NUM_EPOCHS
        assert values == pytest.approx(stored[figure], rel=1e-4, abs=1e-7), figure


@pytest.mark.parametrize("name", RUNS)
def test_the_curve_is_one_of_a_model_that_learns(name):
    stored = json.loads(STORED.read_text(encoding="utf-8"))["runs"][name]
    assert stored["sp"][-1] < stored["sp"][0]


if __name__ == "__main__":
    write()

"""A short seeded run on CPU must reproduce its stored loss curves.

When a change of the curves is meant, write them anew and say why in the commit:

    python -m tests.contracts.test_loss_curve
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.small_model import CLASSES, REGRESSION, random_batches, small_trainer

STORED = Path(__file__).parents[1] / "data" / "loss_curve.json"
NUM_EPOCHS = 3
RUNS: dict[str, dict[str, Any]] = {
    "rcnn_regression": {
        "task": REGRESSION,
        "hidden_size": 4,
        "embedding_dropout": 0.2,
        "learning_rate": 0.01,
        "dense_epochs": 0.5,
        "ramp_epochs": 1.5,
        "target_selection_rate": 0.2,
    },
    "lstm_classification": {
        "task": CLASSES,
        "hidden_size": 4,
        "encoder": "lstm",
        "pooling": "last",
        "sampling": "relaxed",
        "learning_rate": 0.01,
        "train_embeddings": True,
        "lambda_coherence": 0.02,
    },
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
    settings = dict(RUNS[name])
    batches = random_batches(4, settings["task"], seed=1)
    trainer = small_trainer(seed=7, num_batches=4, **settings)
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

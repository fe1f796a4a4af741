"""A model of a few units and made-up batches, for tests."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from infocal.batch import Batch
from infocal.config import InfoCalConfig, Task
from infocal.methods.infocal.trainer import InfoCalTrainer
from infocal.methods.registry import method

NUM_WORDS, EMBEDDING_SIZE = 12, 4
REGRESSION = Task(kind="regression", target_mean=0.5, target_variance=0.05)
CLASSES = Task(kind="classification", num_classes=3)
SEVERAL = Task(
    kind="classification",
    num_classes=3,
    name="charge",
    sides=(
        Task(kind="regression", name="term", target_mean=0.4, target_variance=0.05),
        Task(kind="classification", num_classes=2, name="article"),
    ),
)
"""Three targets of both kinds; the main one is that of `CLASSES`, with the same numbers in `random_batch`."""

LAW = Task(
    kind="classification",
    num_classes=3,
    name="charges",
    sides=(
        Task(kind="classification", num_classes=2, name="articles"),
        Task(kind="classification", num_classes=4, name="terms"),
    ),
)
"""The three targets of a legal case."""
LAW_BY_TERMS = replace(LAW.sides[1], sides=(replace(LAW, sides=()), LAW.sides[0]))
"""The same with another main target."""


def fit(name: str, task: Task) -> Task:
    """The task itself, or several targets of a legal case for a method that cannot have one target alone."""
    if method(name).config_class().predicts_one:
        return task
    return LAW_BY_TERMS if task == REGRESSION else LAW


def small_config(**changes: Any) -> InfoCalConfig:
    """Three hidden units, no dropout, full pressure from the first step; `changes` on top."""
    values = {"hidden_size": 3, "embedding_dropout": 0.0, "dense_epochs": 0.0, "ramp_epochs": 0.0}
    return InfoCalConfig.from_mapping(values | changes)


def random_embeddings(seed: int = 0) -> Tensor:
    """Vectors [12, 4], row 0 zeros."""
    table = torch.randn(NUM_WORDS, EMBEDDING_SIZE, generator=torch.Generator().manual_seed(seed))
    table[0] = 0
    return table


def random_batch(lengths: list[int], seed: int = 0, task: Task = REGRESSION, first_row: int = 0) -> Batch:
    """Texts of these lengths over words 1 to 11; nobody annotated them."""
    generator = torch.Generator().manual_seed(seed)
    shape = (len(lengths), max(lengths))
    is_token = torch.arange(shape[1]) < torch.tensor(lengths)[:, None]
    target = torch.rand(len(lengths), generator=generator)
    return Batch(
        token_ids=torch.randint(1, NUM_WORDS, shape, generator=generator) * is_token,
        is_token=is_token,
        target=_targets(target, task),
        lm_logit=torch.randn(shape, generator=generator) * is_token,
        human_rationale=torch.zeros(shape),
        index=torch.arange(first_row, first_row + len(lengths)),
    )


def _targets(drawn: Tensor, task: Task) -> Tensor:
    """Targets from numbers in [0, 1): [B] of one target, float32 [B H] of several."""
    columns = []
    for number, head in enumerate(task.heads):
        own = (drawn + number / 3) % 1
        columns.append(own if head.kind == "regression" else (own * head.num_classes).long())
    return torch.stack([column.float() for column in columns], dim=1) if task.sides else columns[0]


def random_batches(num: int, task: Task = REGRESSION, seed: int = 0) -> list[Batch]:
    """Batches of four texts of two to six tokens."""
    return [random_batch([6, 3, 2, 5], 100 * seed + i, task, first_row=4 * i) for i in range(num)]


def small_trainer(
    task: Task = REGRESSION, *, seed: int = 0, num_batches: int = 3, device: str = "cpu", **changes: Any
) -> InfoCalTrainer:
    """A trainer of the small model."""
    return InfoCalTrainer(
        small_config(**changes),
        task,
        random_embeddings(),
        steps_per_epoch=num_batches,
        seed=seed,
        device=torch.device(device),
    )

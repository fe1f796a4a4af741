"""Several targets in a loss: the sum over their heads.

Shapes: B texts, H targets.
"""

import functools
from collections.abc import Callable

import torch
from jaxtyping import Num
from torch import Tensor

from infocal.config import Task


def over_heads(task: Task, loss: Callable[[Task, int, slice], Tensor]) -> Tensor:
    """sum_h w_h L_h over the heads of a task, with the weights w_h of its targets.

    Args:
        task: of several targets.
        loss: L_h of a head, from its task, its number and its columns in the output layer.
    """
    every = enumerate(zip(task.heads, task.columns, strict=True))
    return functools.reduce(torch.add, (head.weight * loss(head, i, columns) for i, (head, columns) in every))


def of_head(target: Num[Tensor, "B H"], number: int, head: Task) -> Num[Tensor, " B"]:
    """One of several targets, as it is where it is the only one."""
    return target[:, number].long() if head.kind == "classification" else target[:, number]

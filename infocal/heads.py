"""Several targets in a loss: the sum over their heads.

Shapes: B texts, H targets, T positions, C columns of the output layer; R rationales: those of the B texts for
the first target, then those for the second, and so on, R = H B; or R = B where all targets share one.
"""

import functools
from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Num
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


def over_rationales(task: Task, num: int, loss: Callable[..., Tensor], *parts: Tensor) -> Tensor:
    """sum_h w_h L_h over the rationales of a text, one for each target; L where all targets share one.

    Args:
        task: whose targets have the weights w_h.
        num: rationales of a text: the number of targets, or 1.
        loss: of one rationale of each text, from its rows of the parts.
        parts: tensors of R rows.
    """
    if num == 1:
        return loss(*parts)
    rows = zip(*(part.chunk(num) for part in parts), strict=True)
    each = [head.weight * loss(*own) for head, own in zip(task.heads, rows, strict=True)]
    return functools.reduce(torch.add, each)


def own_columns(output: Float[Tensor, "R C"], task: Task) -> Float[Tensor, "B C"]:
    """For each target its columns of the output from its own rationale; R = H B."""
    rows = output.chunk(len(task.heads))
    return torch.cat([own[:, its] for own, its in zip(rows, task.columns, strict=True)], dim=1)


def repeated(is_token: Bool[Tensor, "B T"], num: int) -> Bool[Tensor, "R T"]:
    """Where tokens stand, for each of `num` rationales of a text."""
    return is_token if num == 1 else is_token.repeat(num, 1)

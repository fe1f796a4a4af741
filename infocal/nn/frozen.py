"""Parts of a model that a loss passes through without training them."""

import contextlib
from collections.abc import Iterator

from torch import nn


@contextlib.contextmanager
def frozen(*parts: nn.Module) -> Iterator[None]:
    """Let what the parts compute within this block have no gradient by their parameters.

    Gradients by what they are given pass through, and what they computed before keeps its gradients.
    """
    trained = [p for part in parts for p in part.parameters() if p.requires_grad]
    for parameter in trained:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in trained:
            parameter.requires_grad_(True)

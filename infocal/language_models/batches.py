"""Values of tokens, from padded batches to texts."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from infocal.batch import Batch


def of_rows(
    batches: Iterable[Batch], values: Callable[[Batch], Float[Tensor, "B T"]], device: torch.device
) -> list[NDArray[np.float64]]:
    """The values of each text's tokens from the second on, without padding, by the text's row.

    Args:
        batches: of all texts, each once.
        values: of each position of a batch.
        device: where they are computed.

    Returns:
        (T - 1,) values of each text.
    """
    found: dict[int, NDArray[np.float64]] = {}
    for batch in batches:
        computed = values(batch.to(device)).double().cpu().numpy()
        lengths = batch.is_token.sum(dim=1).tolist()
        for row, length, own in zip(batch.index.tolist(), lengths, computed, strict=True):
            found[row] = own[1:length].copy()
    return [found[row] for row in range(len(found))]

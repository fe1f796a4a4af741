"""One batch of texts as tensors: the only form in which data reaches the model."""

from dataclasses import dataclass, fields

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Texts padded to a common length T.

    Shapes: B texts, T positions. `is_token` is True where a real token stands; every text has at
    least one. `human_rationale` is all False where `has_human_rationale` is False.
    """

    token_ids: Int[Tensor, "B T"]
    is_token: Bool[Tensor, "B T"]
    target: Num[Tensor, " B"]
    lm_logit: Float[Tensor, "B T"]
    """s_i of Eq. (18), a constant of the corpus; zeros where no language model was run."""
    human_rationale: Bool[Tensor, "B T"]
    has_human_rationale: Bool[Tensor, " B"]
    index: Int[Tensor, " B"]
    """Row of each text in its table."""

    def __len__(self) -> int:
        return self.token_ids.shape[0]

    def to(self, device: torch.device) -> "Batch":
        """The same batch on `device`; without a wait where its memory is pinned."""
        return Batch(**{f.name: getattr(self, f.name).to(device, non_blocking=True) for f in fields(self)})

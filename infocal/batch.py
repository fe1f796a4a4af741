"""One batch of texts as tensors: the only form in which data reaches the model."""

from collections.abc import Callable
from dataclasses import InitVar, dataclass, field, fields

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from infocal.splitting import FurtherWords


@dataclass(frozen=True, slots=True)
class Words:
    """The words of a batch: its U distinct ones, and which of them stands where."""

    ids: Int[Tensor, " U"]
    """Ascending."""
    index: Int[Tensor, "B T"]
    """Row of `ids` at each position."""
    further: FurtherWords | None = None
    """Pieces of the words whose numbers lie behind the vocabulary's, for a model that reads pieces."""

    @classmethod
    def of(cls, token_ids: Int[Tensor, "B T"], further: FurtherWords | None = None) -> "Words":
        """Find them; on CUDA the host waits for it, because nobody knows U before."""
        ids, index = torch.unique(token_ids, return_inverse=True)
        return cls(ids, index, further)

    def map(self, change: Callable[[Tensor], Tensor]) -> "Words":
        """The same with each tensor changed."""
        more = self.further
        if more is not None:
            more = FurtherWords(change(more.piece_ids), change(more.first_piece))
        return Words(change(self.ids), change(self.index), more)


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Texts padded to a common length T.

    Shapes: B texts, T positions. `is_token` is True where a real token stands; every text has at
    least one. `human_rationale` is the share of annotators who marked the token, in [0, 1]; 1 and 0 where
    a data set does not tell them apart, and all 0 where nobody annotated the text.
    """

    token_ids: Int[Tensor, "B T"]
    is_token: Bool[Tensor, "B T"]
    target: Num[Tensor, "B *H"]
    """Of one target [B]; of H targets [B H], in which classes are numbers as well."""
    lm_logit: Float[Tensor, "B T"]
    """s_i of Eq. (18), a constant of the corpus; zeros where no language model was run."""
    human_rationale: Float[Tensor, "B T"]
    index: Int[Tensor, " B"]
    """Row of each text in its table."""
    words: Words = field(init=False)
    """Of `token_ids`: found where the batch is made, so that the training step never waits for it."""
    numbered: InitVar[tuple[Tensor, FurtherWords | None] | None] = None
    """The numbers of `words`, where words that the vocabulary lacks have their own."""

    def __post_init__(self, numbered: tuple[Tensor, FurtherWords | None] | None) -> None:
        object.__setattr__(self, "words", Words.of(*(numbered or (self.token_ids,))))

    def __len__(self) -> int:
        return self.token_ids.shape[0]

    def to(self, device: torch.device) -> "Batch":
        """The same batch on `device`; without a wait where its memory is pinned."""
        return self._map(lambda tensor: tensor.to(device, non_blocking=True))

    def pin_memory(self) -> "Batch":
        """The same batch in memory that a GPU can read while the host continues; needs CUDA."""
        return self._map(torch.Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        mapped: Batch = object.__new__(Batch)  # the constructor would look for the words again
        for f in fields(self):
            value = getattr(self, f.name)
            new = value.map(change) if isinstance(value, Words) else change(value)
            object.__setattr__(mapped, f.name, new)
        return mapped

"""The hyper-parameters of InfoCal's language model."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from infocal.errors import ConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class LanguageModelConfig:
    """Hyper-parameters of the language model and its pre-training; the paper states none.

    Raises:
        ConfigError: if a value is not positive.
    """

    hidden_size: int = 200
    """Units of the recurrent layer."""

    num_negatives: int = 64
    """K of Eq. (19): negatives drawn a batch, shared by its positions."""

    num_epochs: int = 2
    """Passes over the training texts."""

    batch_size: int = 64
    """Texts per update."""

    learning_rate: float = 0.002
    """Adam's step size."""

    clip_norm: float = 5.0
    """Largest norm of the gradient."""

    seed: int = 0
    """Seed of the weights and of the negatives."""

    def __post_init__(self) -> None:
        for name in (
            "hidden_size",
            "num_negatives",
            "num_epochs",
            "batch_size",
            "learning_rate",
            "clip_norm",
        ):
            if not getattr(self, name) > 0:
                raise ConfigError(f"language model: `{name}` must be > 0, but got {getattr(self, name)}")

    def to_dict(self) -> dict[str, Any]:
        """Every hyper-parameter by name."""
        return dataclasses.asdict(self)

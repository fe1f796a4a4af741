"""The encoders by name. Nothing is imported before it is asked for: a name can be checked without torch."""

import pkgutil
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class EncoderKind:
    """A kind of encoder."""

    path: str
    """`module:class` of an `infocal.nn.encoders.Encoder`."""
    is_pretrained: bool = False
    """Whether it reads pieces of a pretrained tokenizer, and starts from weights that `pretrained` names."""

    def encoder_class(self) -> Any:
        """The class; imports torch, so its type is not named here."""
        return pkgutil.resolve_name(self.path)


ENCODERS = {
    "rcnn": EncoderKind("infocal.nn.encoders:RCNN"),
    "lstm": EncoderKind("infocal.nn.encoders:LSTM"),
    "cnn": EncoderKind("infocal.nn.cnn:CNN"),
    "transformer": EncoderKind("infocal.nn.transformer:Transformer", is_pretrained=True),
}
"""By the name that `encoder` has in a config."""

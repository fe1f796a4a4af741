"""The encoders by name. Nothing is imported before it is asked for: a name can be checked without torch."""

import pkgutil
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of encoder."""

    path: str
    """`module:class` of an `infocal.nn.encoders.Encoder`."""
    is_pretrained: bool = False
    """Whether it reads pieces of a pretrained tokenizer, and starts from weights that `pretrained` names."""

    def encoder_class(self) -> Any:
        """The class; imports torch, so its type is not named here."""
        return pkgutil.resolve_name(self.path)


ENCODERS = {
    "rcnn": Kind("infocal.nn.encoders:RCNN"),
    "lstm": Kind("infocal.nn.encoders:LSTM"),
    "cnn": Kind("infocal.nn.cnn:CNN"),
    "transformer": Kind("infocal.nn.transformer:Transformer", is_pretrained=True),
}
"""By the name that `encoder` has in a config."""

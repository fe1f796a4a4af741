"""The encoders by name. Nothing is imported before it is asked for: a name can be checked without torch."""

import pkgutil
from typing import Any

ENCODERS = {
    "rcnn": "infocal.nn.encoders:RCNN",
    "lstm": "infocal.nn.encoders:LSTM",
    "cnn": "infocal.nn.cnn:CNN",
}
"""By the name that `encoder` has in a config: `module:class` of an `infocal.nn.encoders.Encoder`."""


def encoder_class(name: str) -> Any:
    """The class of the encoder of that name, one of `ENCODERS`.

    Imports torch; its type is not named here, so that reading this module does not.
    """
    return pkgutil.resolve_name(ENCODERS[name])

"""Faster forms of the recurrences in `infocal.encoders`, and the choice among them.

- `cpp`: the whole layer in C++ (`layer.hpp`), compiled at first use into a cache of the user; float32 on CPU.
- `torch`: torch operations with a backward pass written by hand (`rcnn_torch`).
- `plain`: the loop in `infocal.encoders`, the reference of the others.

The environment variable INFOCAL_KERNEL forces one of them; `auto` (the default) takes the first that
can run here. A form that the tensors at hand do not suit gives way to the next one.
"""

import functools
import logging
import os
from typing import Literal, get_args

import torch
from torch import Tensor

from infocal.errors import ConfigError
from infocal.kernels import build

Form = Literal["cpp", "torch", "plain"]

VARIABLE = "INFOCAL_KERNEL"
"""Environment variable that forces a form; read at each call, so that tests and benchmarks can switch."""

logger = logging.getLogger("infocal.kernels")


def choose(projected: Tensor, weight: Tensor) -> Form:
    """The form that runs a recurrent layer on these tensors.

    Args:
        projected: projections of the words, any shape.
        weight: the recurrent weight, any shape.

    Raises:
        ConfigError: INFOCAL_KERNEL names no form, or forces `cpp` where it cannot be compiled.
    """
    wanted = os.environ.get(VARIABLE, "auto")
    if wanted not in ("auto", *get_args(Form)):
        raise ConfigError(
            f"unknown kernel `{wanted}`; known are auto, {', '.join(get_args(Form))}", where=VARIABLE
        )
    if wanted == "plain" or projected.dtype != weight.dtype:  # autocast: torch casts in the plain form
        return "plain"
    if wanted == "torch" or projected.device.type != "cpu" or projected.dtype != torch.float32:
        return "torch"
    if wanted == "cpp" and build.library() is None:
        raise ConfigError(f"the C++ kernel cannot be used: {build.failure()}", where=VARIABLE)
    return _automatic()


@functools.cache
def _automatic() -> Form:
    """`cpp` where it can be compiled, otherwise `torch`; says which, once a process."""
    form: Form = "torch" if build.library() is None else "cpp"
    if form == "cpp":
        logger.info("recurrent layers run in C++ (%s)", build.library_path())
    else:
        logger.warning("recurrent layers run in torch operations, which is slower: %s", build.failure())
    return form

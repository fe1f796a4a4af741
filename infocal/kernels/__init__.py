"""Faster forms of the recurrences in `infocal.nn.encoders`, and the choice among them.

- `cpp`: the whole layer in C++ (`layer.hpp`), compiled at first use into a cache of the user; float32 on CPU.
- `triton`: the whole layer in Triton (`rcnn_triton`) on CUDA, where that package is; RCNN alone.
- `torch`: torch operations with a backward pass written by hand (`rcnn_torch`); RCNN alone.
- `plain`: the loop in `infocal.nn.encoders`, the reference of the others.

The environment variable INFOCAL_KERNEL forces one of them; `auto` (the default) takes the first that
can run here. A form that the tensors at hand do not suit, or that a layer does not have, gives way to the
next one.
"""

import functools
import importlib
import logging
import os
from typing import Literal, get_args

import torch
from torch import Tensor

from infocal.errors import ConfigError
from infocal.kernels import build

Form = Literal["cpp", "triton", "torch", "plain"]
FORMS: tuple[Form, ...] = get_args(Form)

VARIABLE = "INFOCAL_KERNEL"
"""Environment variable that forces a form; read at each call, so that tests and benchmarks can switch."""

TRITON_MAX_SIZE = 256
"""Hidden units up to which the registers of a Triton program hold its states."""

logger = logging.getLogger("infocal.kernels")


def choose(projected: Tensor, weight: Tensor, known: tuple[Form, ...] = FORMS) -> Form:
    """The form that runs a recurrent layer on these tensors.

    Args:
        projected: projections of the words, any shape.
        weight: the recurrent weight, any shape.
        known: the forms that the layer has; `plain` is one of them.

    Raises:
        ConfigError: INFOCAL_KERNEL names no form, or forces `cpp` where it cannot be compiled, or `triton`
            where it does not run.
    """
    wanted = asked_for()
    if wanted == "plain":
        return "plain"
    if wanted in ("auto", "triton") and "triton" in known and _suits_triton(projected, weight, wanted):
        reason = _triton_failure(projected.device, weight.shape[-1])
        if reason is None:
            return "triton"
        if wanted == "triton":
            raise ConfigError(f"the Triton kernel cannot be used: {reason}", where=VARIABLE)
    if projected.dtype != weight.dtype:  # autocast: torch casts in the plain form
        return "plain"
    slower: Form = "torch" if "torch" in known else "plain"
    if wanted in ("triton", "torch") or projected.device.type != "cpu" or projected.dtype != torch.float32:
        return slower
    if wanted == "cpp" and build.library() is None:
        raise ConfigError(f"the C++ kernel cannot be used: {build.failure()}", where=VARIABLE)
    return "cpp" if "cpp" in known and compiled() else slower


def asked_for() -> str:
    """What INFOCAL_KERNEL asks for; `auto` where it is empty.

    Raises:
        ConfigError: it names no form.
    """
    wanted = os.environ.get(VARIABLE) or "auto"
    if wanted not in ("auto", *FORMS):
        raise ConfigError(
            f"unknown kernel `{wanted}`; the kernels are auto, {', '.join(FORMS)}", where=VARIABLE
        )
    return wanted


def _suits_triton(projected: Tensor, weight: Tensor, wanted: str) -> bool:
    """On CUDA; elsewhere only where it is forced and interpreted, as tests do."""
    interpreted = wanted == "triton" and os.environ.get("TRITON_INTERPRET") == "1"
    if not interpreted and projected.device.type != "cuda":
        return False
    types = (torch.float32, torch.bfloat16, torch.float16)
    fits = weight.shape[-1] <= TRITON_MAX_SIZE
    return fits and projected.dtype in types and weight.dtype == torch.float32


@functools.cache
def _triton_failure(device: torch.device, size: int) -> str | None:
    """Why the Triton kernel cannot be used there, None where it can; says so, once a process."""
    try:
        # imported on demand: the package is not everywhere, and takes half a second
        reason: str | None = importlib.import_module("infocal.kernels.rcnn_triton").failure(device, size)
    except ImportError as error:
        reason = f"{error} (pip install triton)"
    if reason is None:
        logger.debug("RCNN layers of %d units run in Triton on %s", size, device)
    else:
        logger.warning("RCNN layers run in torch operations on %s, which is slower: %s", device, reason)
    return reason


@functools.cache
def compiled() -> bool:
    """Whether the C++ kernel can be compiled; says which form runs, once a process."""
    if build.library() is None:
        logger.warning("recurrent layers run in torch operations, which is slower: %s", build.failure())
    else:
        logger.debug("recurrent layers run in C++ (%s)", build.library_path())
    return build.library() is not None

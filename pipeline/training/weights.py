"""Tensors in a safetensors file: a tensor that a model holds under several names is written once."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from feature_store.errors import reason
from infocal.errors import StateError

_TIED = "tied"
"""Entry of the file's header: a JSON object from each further name of a tensor to its first one."""


def save_weights(path: Path, weights: Mapping[str, torch.Tensor]) -> None:
    """Write tensors by name; names that share one tensor are kept as such.

    Args:
        weights: on any device, of any layout.

    Raises:
        OSError, SafetensorError: if it cannot be written.
    """
    first: dict[tuple[object, ...], str] = {}
    tied = {}
    written = {}
    for name, value in weights.items():
        tensor = value.detach()
        name_before = first.setdefault(_identity(tensor, name), name)
        if name_before != name:
            tied[name] = name_before
        else:
            # a view of a larger tensor would share its memory with others
            written[name] = tensor.cpu().clone(memory_format=torch.contiguous_format)
    save_file(written, path, metadata={_TIED: json.dumps(tied)} if tied else None)


def _identity(tensor: torch.Tensor, name: str) -> tuple[object, ...]:
    """What two names of one tensor have in common; an empty tensor shares nothing."""
    if tensor.numel() == 0 or tensor.device.type == "meta":
        return (name,)
    return (tensor.device, tensor.dtype, tensor.data_ptr(), tensor.shape, tensor.stride())


def load_weights(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file by all of their names, on the CPU.

    Raises:
        StateError: if the file is missing or damaged.
    """
    try:
        with safe_open(path, framework="pt") as file:
            names: list[str] = file.keys()
            found = {name: file.get_tensor(name) for name in names}
            header = file.metadata() or {}
    except FileNotFoundError as error:  # safetensors puts the path into the message
        raise StateError("cannot read the weights: no such file", where=str(path)) from error
    except (OSError, SafetensorError) as error:
        raise StateError(f"cannot read the weights: {reason(error)}", where=str(path)) from error
    for name, other in _tied(header, path).items():
        if other not in found:
            raise StateError(
                f"`{name}` shares the weights of `{other}`, but `{other}` is not in the file", where=str(path)
            )
        found[name] = found[other]
    return found


def _tied(header: Mapping[str, str], path: Path) -> dict[str, str]:
    try:
        tied = json.loads(header.get(_TIED, "{}"))
    except ValueError as error:
        raise StateError(f"the names of tied weights are not JSON: {error}", where=str(path)) from error
    if not isinstance(tied, dict) or not all(isinstance(other, str) for other in tied.values()):
        raise StateError(f"expected names of tied weights, but got {str(tied)[:100]}", where=str(path))
    return tied

"""What a training ran on, as far as it decides the last digits of its numbers: kept beside its best epoch."""

import platform
from typing import Any

import torch

from infocal import kernels


def facts(device: torch.device) -> dict[str, Any]:
    """This process, as JSON.

    Returns:
        `python`, `torch`, `device` (`cpu`, or the GPU's name), `machine` and `cpu` (its instruction set, the
        vector extension that torch uses), `num_threads` (of torch) and `kernel` (form of the recurrent
        layers: a name of `infocal.kernels.FORMS`, or `auto` where the device decides).
    """
    wanted = kernels.asked_for()
    if wanted == "auto" and device.type == "cpu":
        wanted = "cpp" if kernels.compiled() else "torch"
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "num_threads": torch.get_num_threads(),
        "kernel": wanted,
    }


def differences(recorded: dict[str, Any], here: dict[str, Any]) -> list[str]:
    """What is not as it was, a line each; facts that one of the two does not know are left out."""
    known = [name for name in here if name in recorded]
    return [
        f"{name} was {recorded[name]} in the recorded training and is {here[name]} now"
        for name in known
        if recorded[name] != here[name]
    ]

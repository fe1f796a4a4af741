"""Which GPUs the trials of a study get where nobody said: the cluster's, if torch can use them."""

import dataclasses
import logging
from typing import NamedTuple

import ray
import torch

from pipeline.base.errors import PipelineError
from pipeline.study.study_settings import StudySettings

logger = logging.getLogger("pipeline.study.gpus")

WAIT_S = 300.0
"""How long a GPU node is waited for that is asked what its torch can do; it may be busy with other work."""


class Torch(NamedTuple):
    """The torch of a node."""

    version: str
    sees_gpu: bool


def chosen(settings: StudySettings) -> StudySettings:
    """The settings with the GPUs that the connected Ray has: trials share them, or run on the CPU.

    Args:
        settings: with `chooses_gpus`.

    Returns:
        Settings with `packs_gpus` where GPUs are used, with the device `cpu` otherwise.

    Raises:
        PipelineError: if `--device cuda` asks for GPUs and none can be used.
    """
    on_cpu = dataclasses.replace(
        settings,
        packs_gpus=False,
        gpus_per_trial=0.0,
        run=dataclasses.replace(settings.run, device="cpu", gpu_memory_rate=1.0),
    )
    if not are_usable(settings.run.device):
        return on_cpu
    num_gpus = ray.cluster_resources()["GPU"]
    logger.info(
        "GPUs: %g; the GPU memory of one trial is measured, then each GPU runs as many trials as fit "
        "(`--gpus-per-trial auto`)",
        num_gpus,
    )
    return dataclasses.replace(settings, packs_gpus=True)


def are_usable(device: str) -> bool:
    """Whether trials can use GPUs of the connected Ray; says why not.

    Args:
        device: of the trials, as given: `auto` or `cuda`.

    Raises:
        PipelineError: if the device is `cuda` and no GPU can be used.
    """
    num_gpus = float(ray.cluster_resources().get("GPU", 0))
    found = torch_of_gpu_node() if num_gpus else None
    if device == "cuda" and not (found and found.sees_gpu):
        seen = f"torch {found.version} cannot use them" if found else "none is free"
        raise PipelineError(
            "usable GPUs are needed, but the cluster has "
            f"{f'{num_gpus:g}, and {seen}' if num_gpus else 'none'}",
            where="--device cuda",
            hint="use `--device auto`, which then uses the CPU",
        )
    if num_gpus == 0:
        logger.info("GPUs: none here, so trials run on the CPU")
    elif found is None:
        logger.warning(
            "GPUs: %g in the cluster, but none was free within %.0f s: trials run on the CPU",
            num_gpus,
            WAIT_S,
        )
    elif not found.sees_gpu:
        logger.warning(
            "GPUs: %g in the cluster, but torch %s cannot use them: trials run on the CPU. Install a torch "
            "for CUDA on the nodes (`deploy/Dockerfile` builds an image with it), or give `--device cpu`",
            num_gpus,
            found.version,
        )
    return found is not None and found.sees_gpu


def check_usable(device: str, part: float, flag: str = "--gpus-per-trial") -> None:
    """Refuse trials that would hold the GPUs they were given and run on the CPU beside them.

    Args:
        part: of a GPU that each gets, above 0, as a flag said.

    Raises:
        PipelineError: if the torch of a node cannot use its GPUs.
    """
    if device == "cpu":
        return  # as the user said
    if not ray.cluster_resources().get("GPU"):
        logger.warning(
            "GPUs: none in the cluster, so nothing is trained until a node with GPUs joins it (`%s %g`); "
            "without the flag, trainings would run on the CPU",
            flag,
            part,
        )
        return
    found = torch_of_gpu_node(min(1.0, part))
    if found is not None and not found.sees_gpu:
        raise PipelineError(
            f"expected trials on GPUs, but torch {found.version} of the nodes cannot use them",
            where=f"{flag} {part:g}",
            hint="install a torch for CUDA on the nodes (`deploy/Dockerfile` builds an image with it), or "
            "leave out the flag: trials then run on the CPU",
        )


def torch_of_gpu_node(part: float = 1.0) -> Torch | None:
    """The torch of a node of the connected Ray that has a GPU; None where no GPU becomes free in time.

    Args:
        part: of a GPU that has to be free.
    """
    task = ray.remote(num_gpus=part, num_cpus=0, max_calls=1)(_torch_here).remote()
    done, _ = ray.wait([task], timeout=WAIT_S)
    if not done:
        ray.cancel(task)
        return None
    found: Torch = ray.get(task)
    return found


def _torch_here() -> Torch:
    return Torch(str(torch.__version__), torch.cuda.is_available())

"""One trial measured on a GPU of the cluster, before the others are packed by it."""

import dataclasses
import itertools
import logging
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray
import torch
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from infocal.batch import Batch
from infocal.config import MethodConfig
from pipeline.base.errors import USER_ERRORS, PipelineError
from pipeline.study.packing import Measurement, described, packing, smallest
from pipeline.study.study_settings import StudySettings
from pipeline.training.loaders import Loader
from pipeline.training.scoring import BATCH_SIZE
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import Trial
from search_spaces.space import Choice, Range, Space

logger = logging.getLogger("pipeline.study.probe")

_FLAG = "--gpus-per-trial auto"
_BY_HAND = "set the number of GPUs for each trial yourself, for example `--gpus-per-trial 0.25`"
_NUM_STEPS = 3
"""Adam's states exist from the first step on, and from the second one every buffer is used again."""
WAIT_S = 900.0
"""How long a card is waited for: until an autoscaler has started a node and the node has pulled its image."""

RawMeasurement = dict[str, Any]

Probe = Callable[[RunSettings, MethodConfig], Sequence[Measurement]]
"""Measures a trial: once, or more often where there may be cards of different sizes; never not at all."""


def packed(settings: StudySettings, space: Space, probe: Probe) -> StudySettings:
    """The settings of a study with as many trials on a GPU as were measured to fit.

    Args:
        settings: with `packs_gpus`.
        space: the ranges; the trial is measured at their upper ends, where sizes are largest, with each value
            of every choice.

    Raises:
        PipelineError: if there is no GPU, or a trial does not fit one.
    """
    points = _largest(space)
    worst = smallest([one for p in points for one in probe(settings.run, settings.run.config(**p))])
    chosen = packing(worst, settings.cpus_per_trial)
    logger.info("%s", described(worst, chosen))
    run = dataclasses.replace(settings.run, gpu_memory_rate=chosen.memory_rate)
    return dataclasses.replace(settings, run=run, gpus_per_trial=chosen.fraction)


def _largest(space: Space) -> list[dict[str, Any]]:
    """The points at which a trial may take most memory."""
    ends = {one.name: one.ends[-1] for one in space if isinstance(one, Range)}
    choices = [one for one in space if isinstance(one, Choice)]
    every = itertools.product(*(one.choices for one in choices))
    return [ends | {one.name: value for one, value in zip(choices, some, strict=True)} for some in every]


def exercise(trial: Trial, folder: Path) -> None:
    """Let a trial do once all that takes memory: train, evaluate, and continue from a checkpoint.

    Args:
        trial: just made; of no use afterwards.
        folder: an empty folder.
    """
    batch = longest(trial.loader, trial.config.batch_size)
    for _ in range(_NUM_STEPS):
        trial.trainer.train_step(batch)
    for loader in (trial.validation.val, trial.validation.annotated):
        list(trial.trainer.predict([longest(loader, BATCH_SIZE)]))
    trial.save(folder)
    trial.restore(folder)


def longest(loader: Loader, batch_size: int) -> Batch:
    """The batch that takes most: the longest texts together, as none of an epoch is worse."""
    return loader.batch(np.argsort(loader.token_ids.lengths, kind="stable")[-batch_size:])


def measure(run: RunSettings, config: MethodConfig) -> RawMeasurement:
    """Train a trial for some steps in this process, on the one card that it sees.

    Returns:
        The fields of a `Measurement` but the cores. Whatever stands on the card besides the trial's own
        memory is taken for the trial's overhead.

    Raises:
        PipelineError: if torch sees no GPU, or the trial does not fit the card.
    """
    if not torch.cuda.is_available():
        raise PipelineError(
            f"Ray reports a GPU here, but torch {torch.__version__} sees none",
            where=_FLAG,
            hint="install a GPU driver and torch for CUDA on the node; `deploy/Dockerfile` builds an image "
            "with torch for CUDA",
        )
    name = torch.cuda.get_device_name()
    try:
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as checkpoint:
            # alone on the card, it may take all of it
            alone = dataclasses.replace(run, gpu_memory_rate=1.0)
            exercise(Trial(config, alone, run.seed, Path(folder)), Path(checkpoint))
    except torch.OutOfMemoryError as error:
        raise PipelineError(
            f"one trial alone does not fit into the memory of the GPU ({name}): {str(error).splitlines()[0]}",
            where=_FLAG,
            hint="take smaller batches, for instance `--set batch_size=16`",
        ) from error
    free, total = torch.cuda.mem_get_info()
    return {
        "card": name,
        "total": total,
        "reserved": torch.cuda.max_memory_reserved(),
        "overhead": max(0, total - free - torch.cuda.memory_reserved()),
    }


def measured(
    run: RunSettings,
    config: MethodConfig,
    *,
    is_local: bool,
    wait_s: float = WAIT_S,
    reading: Callable[[RunSettings, MethodConfig], RawMeasurement] = measure,
) -> list[Measurement]:
    """Measure a trial on one card of each GPU node of the connected Ray, in a process of its own.

    Args:
        is_local: whether Ray runs on this machine alone, which gets no further GPU.
        wait_s: how long a card is waited for, in seconds.

    Returns:
        One measurement of each node that has a GPU; of the first to come, where there is none yet.

    Raises:
        PipelineError: if there is no GPU, none becomes free in time, or a trial does not fit one.
    """
    nodes = _gpu_nodes()
    if not nodes and is_local:
        raise PipelineError("this machine has no GPU", where=_FLAG, hint="leave out the flag")
    if not nodes:
        logger.info("no GPU in the cluster yet: waiting up to %.0f s for one to be started", wait_s)
    places: list[Any] = [NodeAffinitySchedulingStrategy(node, soft=False) for node in nodes]
    # the process ends with the task: its context would stay on the card
    task = ray.remote(num_gpus=1, num_cpus=0, max_calls=1, max_retries=1)(_on_node)
    asked = [
        task.options(scheduling_strategy=place).remote(reading, run, config) for place in places or [None]
    ]
    done, late = ray.wait(asked, num_returns=len(asked), timeout=wait_s)
    for one in late:
        ray.cancel(one)
    if not done:
        raise PipelineError(
            f"no GPU was free within {wait_s:.0f} s to measure a trial on; "
            f"nodes with a GPU: {len(_gpu_nodes())}",
            where=_FLAG,
            hint=_BY_HAND,
        )
    if late:
        logger.warning(
            "%d of %d GPU nodes were busy and not measured: their GPUs are assumed to have at least as "
            "much memory as the measured ones",
            len(late),
            len(asked),
        )
    return _results(done)


def _on_node(
    reading: Callable[[RunSettings, MethodConfig], RawMeasurement], run: RunSettings, config: MethodConfig
) -> Measurement:
    """Runs in a worker: a reading, and the cores of its node for each of its cards."""
    resources = _gpu_nodes()[ray.get_runtime_context().get_node_id()]
    return Measurement(**reading(run, config), num_cpus=resources.get("CPU", 0) / resources["GPU"])


def _results(references: list[Any]) -> list[Measurement]:
    try:
        found: list[Measurement] = ray.get(references)
    except ray.exceptions.RayTaskError as error:
        # a user's mistake keeps its own line; without this the worker's traceback would be part of it
        if isinstance(error.cause, USER_ERRORS):
            raise error.cause from error
        raise
    except ray.exceptions.RayError as error:
        reason = " ".join(str(error).split())
        raise PipelineError(
            f"the node that measured a trial is gone: {reason}",
            where=_FLAG,
            hint=f"start again, or {_BY_HAND}",
        ) from error
    return found


def _gpu_nodes() -> dict[str, Mapping[str, float]]:
    """Resources of each living node that has a GPU, by the node's identifier."""
    return {
        node["NodeID"]: node["Resources"]
        for node in ray.nodes()
        if node["Alive"] and node["Resources"].get("GPU", 0) > 0
    }

"""Whether a training has epochs enough: how long its start takes, and how many have to follow."""

import logging
import math

from feature_store.wording import counted
from pipeline.base.errors import PipelineError
from pipeline.training import settings
from search_spaces import lookup

logger = logging.getLogger("pipeline.cli.epoch_check")

_OWN_AFTER_START, _OFFICIAL_AFTER_START = 2, 1
"""Fewest epochs with all weights in force: on data of one's own, and on official corpora with long epochs."""


def start_of(run: settings.RunSettings, longest: int = 0) -> str:
    """Size of a batch and length of the start, in words.

    Args:
        longest: whole epochs of the longest start that a search can try, where it varies the start.
    """
    config = run.config()
    start = (
        f", all losses at full weight after {counted(config.start_epochs, 'epoch', spec='g')}"
        if config.start_epochs
        else ""
    )
    if longest > math.ceil(config.start_epochs):
        at_most = counted(longest, "epoch")
        start = (
            f", all losses at full weight after the start phase, whose length is searched (at most {at_most})"
        )
    return f"batches of {config.batch_size}{start}"


_START = ("dense_epochs", "ramp_epochs", "support_epochs")
"""Hyper-parameters whose sum is the length of a method's start, as far as it has them."""


def _start_flags(run: settings.RunSettings) -> str:
    flags = [f"--set {name}=EPOCHS" for name in _START if name in run.config().to_dict()]
    return f"`{' '.join(flags)}`"


def _fewest_epochs(run: settings.RunSettings) -> int:
    """The fewest epochs that leave some with every weight in force."""
    start = run.config().start_epochs
    after = _OWN_AFTER_START if lookup.depends_on_data(run.dataset) else _OFFICIAL_AFTER_START
    return math.ceil(start + after) if start else 1


def note_few(run: settings.RunSettings) -> None:
    """Say of a training on the sample corpus, which may be as short as one likes, that it is too short."""
    if run.num_epochs < (fewest := _fewest_epochs(run)):
        start = counted(run.config().start_epochs, "epoch", spec="g")
        logger.info(
            "note: all losses reach their full weight only after %s, so rationales are not yet short after "
            "%s; use `--epochs %d` or more",
            start,
            counted(run.num_epochs, "epoch"),
            fewest,
        )


def check(run: settings.RunSettings, of_what: str = "") -> None:
    """Refuse fewer epochs than it takes to train with every weight in force and to choose among the results.

    Args:
        of_what: put before the message.

    Raises:
        PipelineError: if there are too few; names the fewest that are accepted.
    """
    start, fewest = run.config().start_epochs, _fewest_epochs(run)
    better = max(fewest + 1, math.ceil(2 * start))
    if run.num_epochs < fewest:
        raise PipelineError(
            f"{of_what}expected at least {counted(fewest, 'epoch')}, but got {run.num_epochs}: the losses "
            f"that shorten the rationale reach their full weight after {counted(start, 'epoch', spec='g')}",
            where="--epochs",
            hint=f"use `--epochs {fewest}` or more ({better} or more is better), or shorten the start phase: "
            f"{_start_flags(run)}",
        )

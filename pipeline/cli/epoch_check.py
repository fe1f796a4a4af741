"""Whether a training has epochs enough: how long its start takes, and how many have to follow."""

import logging
import math

from feature_store.wording import counted
from infocal.config import MethodConfig
from pipeline.base.errors import PipelineError
from pipeline.training import settings
from search_spaces import lookup
from search_spaces.space import Space

logger = logging.getLogger("pipeline.cli.epoch_check")

_OWN_AFTER_START, _OFFICIAL_AFTER_START = 2, 1
"""Fewest epochs with all weights in force: on data of one's own, and on official corpora with long epochs."""


_PHASES = {
    "dense_epochs": "in which all tokens are selected",
    "ramp_epochs": "in which the weights of the losses rise",
    "support_epochs": "for the support model",
}
"""Hyper-parameters whose sum is the length of a method's start, as far as it has them, and what they mean."""


def start_of(run: settings.RunSettings, space: Space = ()) -> str:
    """Size of a batch and length of the start, in words.

    Args:
        space: what a search varies, perhaps the start as well.
    """
    config = run.config()
    what = "the classifier is trained" if _has_support(config) else "all losses at full weight"
    longest = math.ceil(lookup.slowest(config, space).start_epochs)
    start = f", {what} after {counted(config.start_epochs, 'epoch', spec='g')}" if config.start_epochs else ""
    if longest > math.ceil(config.start_epochs):
        at_most = counted(longest, "epoch")
        start = f", {what} after the start phase, whose length is searched (at most {at_most})"
    return f"batches of {config.batch_size}{start}"


def _has_support(config: MethodConfig) -> bool:
    """Whether a support model is trained first, and only then the classifier."""
    return "support_epochs" in _phases_of(config)


def _phases_of(config: MethodConfig) -> dict[str, float]:
    return {name: value for name, value in config.to_dict().items() if name in _PHASES}


def _fewest_epochs(run: settings.RunSettings) -> int:
    """The fewest epochs that leave some with every weight in force."""
    start = run.config().start_epochs
    return math.ceil(start + _after_start(run)) if start else 1


def _after_start(run: settings.RunSettings) -> int:
    return _OWN_AFTER_START if lookup.depends_on_data(run.dataset) else _OFFICIAL_AFTER_START


def _why(fewest: int, config: MethodConfig, after: int, varied: Space = ()) -> str:
    """Of which phases the fewest epochs are made, in a sentence."""
    searched = {one.name for one in varied}
    parts = [
        f"{counted(value, 'epoch', spec='g')} {_PHASES[name]} "
        f"(`{name}`{'; the search tries at most this value' if name in searched else ''})"
        for name, value in _phases_of(config).items()
        if value
    ]
    sum_of = " + ".join([*parts, f"{counted(after, 'epoch')} after the start phase"])
    is_rounded = fewest > config.start_epochs + after
    return f"{fewest} is the sum of {sum_of}{', rounded up' if is_rounded else ''}"


def note_few(run: settings.RunSettings) -> None:
    """Say of a training on the sample corpus, which may be as short as one likes, that it is too short."""
    if run.num_epochs < (fewest := _fewest_epochs(run)):
        config = run.config()
        logger.info(
            "note: %s only after %s, so rationales cannot be used yet after %s; use `--epochs %d` or more",
            "the classifier is trained" if _has_support(config) else "all losses reach their full weight",
            counted(config.start_epochs, "epoch", spec="g"),
            counted(run.num_epochs, "epoch"),
            fewest,
        )


def check(run: settings.RunSettings, of_what: str = "", space: Space = ()) -> None:
    """Refuse fewer epochs than it takes to train with every weight in force and to choose among the results.

    Args:
        of_what: put before the message.
        space: what a search varies, perhaps the start as well.

    Raises:
        PipelineError: if there are too few; names the fewest that are accepted, and their phases.
    """
    check_starts(run, space)
    config = run.config()
    start, fewest = config.start_epochs, _fewest_epochs(run)
    better = max(fewest + 1, math.ceil(2 * start))
    if run.num_epochs < fewest:
        flags = " ".join(f"--set {name}=EPOCHS" for name in _phases_of(config))
        trained = (
            "the classifier is trained only"
            if _has_support(config)
            else "the losses that shorten the rationale reach their full weight"
        )
        raise PipelineError(
            f"{of_what}expected at least {counted(fewest, 'epoch')}, but got {run.num_epochs}: {trained} "
            f"after {counted(start, 'epoch', spec='g')}",
            where="--epochs",
            hint=f"use `--epochs {fewest}` or more ({better} or more is better), or shorten the start phase: "
            f"`{flags}`. {_why(fewest, config, _after_start(run))}",
        )


def check_starts(run: settings.RunSettings, space: Space) -> None:
    """Refuse a space in which the start phase of a trial can last as long as the trial.

    Args:
        space: what a search varies.

    Raises:
        PipelineError: if it can; names the fewest epochs that are accepted, and the phases that these are.
    """
    slowest = lookup.slowest(run.config(), space)
    start = math.ceil(slowest.start_epochs)
    if start > math.ceil(run.config().start_epochs) and run.num_epochs <= start:
        fewest = start + 1
        raise PipelineError(
            f"expected at least {counted(fewest, 'epoch')}, because the space has trials whose start "
            f"phase takes {counted(start, 'epoch')}, but got {run.num_epochs}",
            where="--epochs",
            hint=f"use `--epochs {fewest}` or more, or give a space of your own with a shorter start "
            f"phase (`--space FILE.toml`). {_why(fewest, slowest, 1, space)}",
        )

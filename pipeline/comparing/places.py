"""Where comparisons are, in the storage of all results."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from infocal.errors import StateError
from pipeline.base.storage import Location
from pipeline.study.ledger import LEDGER
from pipeline.study.study_folder import ResultKind

logger = logging.getLogger("pipeline.comparing.places")

_T = TypeVar("_T")

SETTINGS, OUTCOMES = "comparison.json", "outcomes"
"""In the folder of each: what is to be done, there once it was started; and what its trainings came to."""
COMPARISON = ResultKind(
    "comparison", "comparisons", SETTINGS, (SETTINGS, LEDGER, OUTCOMES), "comparison-claims"
)
"""Their folders."""

LANGUAGE_MODEL_SETTINGS = "language_models.json"
"""In the folder of each table of language models: what is to be done."""
LANGUAGE_MODELS = ResultKind(
    "table of language models",
    "language-models",
    LANGUAGE_MODEL_SETTINGS,
    (LANGUAGE_MODEL_SETTINGS, "data.json", OUTCOMES),
    "language-model-claims",
)
"""Folders of tables of language models."""


def read_each(
    home: Location, kind: ResultKind, files: list[str], read: Callable[[Path, str], _T]
) -> list[_T]:
    """What is read of every folder of a kind, by name.

    One that cannot be read is left out with a warning: one damaged file must not hide the others.

    Args:
        files: and folders that are read; without the first one there is nothing to read.
        read: makes of a folder of this machine and its name what is returned.
    """
    found = []
    for name in (home / kind.home).names():
        place = home / kind.home / name
        if not (place / files[0]).exists():
            continue
        try:
            with place.localised(*files) as here:
                found.append(read(here, name))
        except StateError as error:
            logger.warning("the %s `%s` is left out: %s", kind.name, name, error)
    return found

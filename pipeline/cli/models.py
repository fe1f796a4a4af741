"""Models that flags name: registered ones, and folders of packages."""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.base import locations
from pipeline.training.naming import CHAMPION

if TYPE_CHECKING:
    from pipeline.tracking.model_registry import ModelVersion
    from pipeline.tracking.tracking import Tracker
    from pipeline.training.checkpoints import Package


def model_uri(place: str) -> str:
    """`models:/NAME@ALIAS` of `NAME` (the champion), `NAME@ALIAS` or `NAME/VERSION`; another URI as it is."""
    if ":/" in place.removeprefix("models:/"):
        return place
    name = place.removeprefix("models:/")
    return f"models:/{name}" if "@" in name or "/" in name else f"models:/{name}@{CHAMPION}"


def tracker_of(given: argparse.Namespace, uris: Sequence[str]) -> "Tracker":
    """The store that the flags name, which must be there.

    Args:
        given: parsed flags; `storage`, `sample` and `tracking_uri` are read.
        uris: of the models that are wanted from it.

    Raises:
        PipelineError: if a URI is none, or there is no store.
    """
    from pipeline.tracking import model_registry
    from pipeline.tracking.tracking import Tracker

    for uri in uris:
        model_registry.parse_uri(uri)

    storage = locations.storage(given.storage, given.sample)
    return Tracker(locations.tracking_uri(given.tracking_uri, storage), create=False)


def registered(tracker: "Tracker", uri: str) -> "tuple[Package, ModelVersion]":
    """A registered model, read from a copy of its files.

    Raises:
        PipelineError: if the URI is none, or there is no such model, alias or version; says what there is.
        StateError: if a file of it is damaged.
    """
    from pipeline.tracking import model_registry

    name, which = model_registry.parse_uri(uri)
    version = model_registry.find(tracker, name, which)
    with tempfile.TemporaryDirectory() as folder:
        return model_registry.load_version(tracker, name, version.version, Path(folder)), version

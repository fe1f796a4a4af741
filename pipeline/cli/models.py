"""Models that flags name: registered ones, and folders of packages."""

import argparse
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.base import locations
from pipeline.base.errors import PipelineError
from pipeline.training.naming import CHAMPION

if TYPE_CHECKING:
    from pipeline.tracking.model_registry import ModelVersion
    from pipeline.tracking.tracking import Tracker
    from pipeline.training.checkpoints import Package


URI_HELP = "models:/NAME@ALIAS or models:/NAME/VERSION; NAME alone means models:/NAME@champion"
"""Of a flag whose value `model_uri` completes."""


def model_uri(place: str) -> str:
    """`models:/NAME@ALIAS` of `NAME` (the champion), `NAME@ALIAS` or `NAME/VERSION`; another URI as it is."""
    if ":/" in place.removeprefix("models:/"):
        return place
    name = place.removeprefix("models:/")
    return f"models:/{name}" if "@" in name or "/" in name else f"models:/{name}@{CHAMPION}"


_MODEL_URI = re.compile(r"models:/(?P<name>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>[0-9]+))")


def parse_uri(uri: str, flag: str = "--model") -> tuple[str, str | int]:
    """Name, and alias or version, of `models:/NAME@ALIAS` or `models:/NAME/VERSION`.

    Args:
        flag: that gave it.

    Raises:
        PipelineError: if it is neither.
    """
    match = _MODEL_URI.fullmatch(uri)
    if match is None:
        raise PipelineError(
            f"expected `models:/NAME@ALIAS` or `models:/NAME/VERSION`, but got `{uri}`", where=flag
        )
    return match["name"], match["alias"] or int(match["version"])


def tracker_of(given: argparse.Namespace, uris: Sequence[str], flag: str = "--model") -> "Tracker":
    """The store that the flags name, which must be there.

    Args:
        given: parsed flags; `storage`, `sample` and `tracking_uri` are read.
        uris: of the models that are wanted from it.
        flag: that gave the models.

    Raises:
        PipelineError: if a URI is none, or there is no store.
    """
    for uri in uris:
        parse_uri(uri, flag)
    from pipeline.tracking.tracking import Tracker

    storage = locations.storage(given.storage, given.sample)
    return Tracker(locations.tracking_uri(given.tracking_uri, storage), create=False)


def registered(tracker: "Tracker", uri: str) -> "tuple[Package, ModelVersion]":
    """A registered model, read from a copy of its files.

    Raises:
        PipelineError: if the URI is none, or there is no such model, alias or version; says what there is.
        StateError: if a file of it is damaged.
    """
    from pipeline.tracking import model_registry

    name, which = parse_uri(uri)
    version = model_registry.find(tracker, name, which)
    with tempfile.TemporaryDirectory() as folder:
        return model_registry.load_version(tracker, name, version.version, Path(folder)), version

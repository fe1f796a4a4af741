"""How the options of a data set that differ from its defaults are said: in titles, tables and tags."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from feature_store.sources import get_source
from feature_store.sources.base import other_than_default
from pipeline.training.naming import title

if TYPE_CHECKING:
    from feature_store.store import Features

TAG = "option."
"""Begins the tag of an option, as in `option.pool`."""


def stated(dataset: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options that differ from the data set's defaults; of a file, its name without its folder.

    Args:
        options: values by the options' names; what is left out has its default.
    """
    source = get_source(dataset)
    files = {option.name for option in source.options if option.is_file}
    chosen = other_than_default(source, options)
    return {name: Path(value).name if name in files else value for name, value in chosen.items()}


def target(dataset: str, aspect: str | None, options: Mapping[str, str]) -> str:
    """How the target of such data is called: `beer/palate (pool=plain)`, `beer/palate` with the defaults."""
    return title(dataset, aspect) + bracketed(stated(dataset, options))


def target_of(features: "Features") -> str:
    """The same of built features, whose record leaves files out."""
    return target(features.dataset, features.aspect, features.provenance["parameters"].get("options", {}))


def bracketed(chosen: Mapping[str, str]) -> str:
    """Options that differ from the defaults, to be put behind a name: ` (pool=plain)`; empty for none."""
    return f" ({', '.join(f'{name}={value}' for name, value in chosen.items())})" if chosen else ""


def tags(dataset: str, options: Mapping[str, str]) -> dict[str, str]:
    """A tag for each option that differs from the data set's defaults: `option.pool` = `plain`."""
    return {TAG + name: value for name, value in stated(dataset, options).items()}


def of_tags(found: Mapping[str, str]) -> dict[str, str]:
    """The options that `tags` wrote."""
    return {name.removeprefix(TAG): value for name, value in found.items() if name.startswith(TAG)}

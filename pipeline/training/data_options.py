"""How data are called in what people read: own data by their title, and options by the tags and tables."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from feature_store.sources import get_source
from feature_store.sources.base import other_than_default
from pipeline.training.naming import title
from search_spaces import lookup

if TYPE_CHECKING:
    from feature_store.store import Features
    from pipeline.training.settings import RunSettings

TAG = "option."
"""Begins the tag of an option, as in `option.pool`."""
_OWN_TITLE = "own data: "
"""Begins the note of features that has the title of own data."""


def own_title(dataset: str, notes: Iterable[str], folder: Path | None) -> str:
    """How own data are called: by the title in `task.toml`, else by their folder; empty for other data sets.

    Args:
        notes: of the features; one of them has the title, where there is one.
        folder: that holds the data; None: it is not known, or the data are made up.

    Raises:
        ConfigError: if there is no such data set.
    """
    if not lookup.depends_on_data(dataset):
        return ""
    stated = [note.removeprefix(_OWN_TITLE) for note in notes if note.startswith(_OWN_TITLE)]
    return stated[0] if stated else "" if folder is None else folder.name


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


def target_of(features: "Features", called: str = "") -> str:
    """The same of built features, whose record leaves files out; own data are called by their title.

    Args:
        called: how own data are called that have no title; empty: as every data set of their kind.
    """
    options = stated(features.dataset, features.provenance["parameters"].get("options", {}))
    own = own_title(features.dataset, features.notes, None) or called
    return title(own or features.dataset, features.aspect) + bracketed(options)


def target_of_run(run: "RunSettings") -> str:
    """The same of a run; own data are called by their title, else by their folder."""
    return title(run.own_title or run.dataset, run.aspect) + bracketed(stated(run.dataset, run.options))


def bracketed(chosen: Mapping[str, str]) -> str:
    """Options that differ from the defaults, to be put behind a name: ` (pool=plain)`; empty for none."""
    return f" ({', '.join(f'{name}={value}' for name, value in chosen.items())})" if chosen else ""


def tags(dataset: str, options: Mapping[str, str]) -> dict[str, str]:
    """A tag for each option that differs from the data set's defaults: `option.pool` = `plain`."""
    return {TAG + name: value for name, value in stated(dataset, options).items()}


def of_tags(found: Mapping[str, str]) -> dict[str, str]:
    """The options that `tags` wrote."""
    return {name.removeprefix(TAG): value for name, value in found.items() if name.startswith(TAG)}

"""Which space, first point, criterion and defaults belong to a method, a dataset and an aspect."""

import difflib
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, TypeVar

from infocal.errors import ConfigError
from search_spaces import criteria, infocal
from search_spaces.base import Criterion, Space

_SPACES: dict[tuple[str, str], dict[str, Space]] = {
    ("infocal", "beer"): {"paper": infocal.PAPER_BEER, "wide": infocal.WIDE_BEER},
}
_FIRST_POINTS: dict[tuple[str, str], dict[str, float]] = {("infocal", "beer"): infocal.PAPER_BEER_BEST}
_CRITERIA: dict[str, dict[str, Criterion]] = {"beer": criteria.BEER}

_T = TypeVar("_T")


def _find(table: Mapping[str, _T], name: str, what: str, where: str) -> _T:
    if name in table:
        return table[name]
    near = difflib.get_close_matches(name, table, n=1)
    raise ConfigError(
        f"no {what} `{name}`; it has {', '.join(f'`{known}`' for known in table)}",
        where=where,
        hint=f"did you mean `{where} {near[0]}`?" if near else None,
    )


def _pair(method: str, dataset: str) -> tuple[str, str]:
    """The registered pair of that name."""
    datasets = {known: known for _, known in _SPACES}
    found = _find(datasets, dataset, "search space for dataset", "--dataset")
    methods = {known: known for known, searched in _SPACES if searched == found}
    return _find(methods, method, f"search space on {found} for method", "--method"), found


def methods_and_datasets() -> list[tuple[str, str]]:
    """Every registered pair of a method and a dataset."""
    return list(_SPACES)


def space_names(method: str, dataset: str) -> list[str]:
    """Names of the spaces of a method on a dataset."""
    return list(_SPACES[_pair(method, dataset)])


def space(method: str, dataset: str, name: str) -> Space:
    """The ranges of one search.

    Raises:
        ConfigError: if there is no such method, dataset or space, naming the nearest one.
    """
    return _find(_SPACES[_pair(method, dataset)], name, f"search space of {method} on {dataset}", "--space")


def first_point(method: str, dataset: str) -> dict[str, float]:
    """The published best values, tried first.

    Raises:
        ConfigError: if there is no such method or dataset, naming the nearest one.
    """
    return dict(_FIRST_POINTS[_pair(method, dataset)])


def criterion(dataset: str, aspect: str) -> Criterion:
    """The criterion of a dataset's aspect.

    Raises:
        ConfigError: if the dataset or the aspect has none, naming the nearest one.
    """
    return _find(
        _find(_CRITERIA, dataset, "criterion for dataset", "--dataset"),
        aspect,
        "criterion for aspect",
        "--aspect",
    )


def preset(dataset: str, aspect: str, sample: bool) -> dict[str, Any]:
    """Hyper-parameters in which a dataset differs from `InfoCalConfig`'s defaults (`presets/DATASET.toml`).

    Its table `all` comes first, then the aspect's, then `sample` where the sample corpus is used.

    Raises:
        ConfigError: if the dataset has no presets, naming the nearest one that has.
    """
    return _tables(dataset, ["all", aspect, *(["sample"] if sample else [])])


def language_model_preset(dataset: str, sample: bool) -> dict[str, Any]:
    """The same for the language model: tables `language_model` and, for the sample, `sample_...`.

    Raises:
        ConfigError: if the dataset has no presets, naming the nearest one that has.
    """
    return _tables(dataset, ["language_model", *(["sample_language_model"] if sample else [])])


def _tables(dataset: str, names: list[str]) -> dict[str, Any]:
    entries = resources.files("search_spaces").joinpath("presets").iterdir()
    files = {entry.name.removesuffix(".toml"): entry for entry in entries if entry.name.endswith(".toml")}
    file = _find(files, dataset, "preset for dataset", "--dataset")
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {key: value for name in names for key, value in tables.get(name, {}).items()}

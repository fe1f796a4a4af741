"""Which space, first point, criterion and defaults belong to a method, a dataset and an aspect."""

import difflib
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any, Literal, TypeVar

from infocal.errors import ConfigError
from search_spaces import criteria, infocal, own_data
from search_spaces.base import Criterion, Space

_SPACES: dict[tuple[str, str], dict[str, Space]] = {
    ("infocal", "beer"): {"paper": infocal.PAPER_BEER, "wide": infocal.WIDE_BEER},
    ("infocal", "hatexplain"): {"paper": infocal.PAPER_HATEXPLAIN, "wide": infocal.WIDE_HATEXPLAIN},
    ("infocal", "cail-small"): {"paper": infocal.PAPER_CAIL, "wide": infocal.WIDE_CAIL},
    ("infocal", "cail-big"): {"paper": infocal.PAPER_CAIL, "wide": infocal.WIDE_CAIL},
    ("infocal", "jsonl"): {"paper": own_data.PAPER, "wide": own_data.WIDE},
    ("infocal", "eraser"): {"paper": own_data.PAPER, "wide": own_data.WIDE},
}
_FIRST_POINTS: dict[tuple[str, str], list[dict[str, float]]] = {
    ("infocal", "beer"): [infocal.PAPER_BEER_BEST],
    ("infocal", "hatexplain"): [infocal.HATEXPLAIN_FIRST],
    ("infocal", "cail-small"): [infocal.PAPER_CAIL_BEST, infocal.CAIL_FIRST],
    ("infocal", "cail-big"): [infocal.PAPER_CAIL_BEST, infocal.CAIL_FIRST],
    ("infocal", "jsonl"): [own_data.FIRST_POINT],
    ("infocal", "eraser"): [own_data.FIRST_POINT],
}
_CRITERIA: dict[str, dict[str, Criterion]] = {
    "beer": criteria.BEER,
    "hatexplain": criteria.HATEXPLAIN,
    "cail-small": criteria.CAIL_SMALL,
    "cail-big": criteria.CAIL_BIG,
    "jsonl": {"": own_data.WITH_RATIONALES},
    "eraser": {"": own_data.WITH_RATIONALES},
}

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


def first_points(method: str, dataset: str) -> list[dict[str, float]]:
    """Points to try first where a space holds them, the published best values before our own.

    Raises:
        ConfigError: if there is no such method or dataset, naming the nearest one.
    """
    return [dict(point) for point in _FIRST_POINTS[_pair(method, dataset)]]


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


def depends_on_data(dataset: str) -> bool:
    """Whether a dataset's criterion follows from what its data hold: see `settled_criterion`."""
    return own_data.WITH_RATIONALES in _CRITERIA[dataset].values()


def settled_criterion(
    dataset: str, aspect: str, kind: Literal["classification", "regression"], has_rationales: bool
) -> Criterion:
    """The criterion of a dataset's aspect, once its data are read.

    It is what `criterion` gives, but for data of one's own, whose criterion follows from what they hold.

    Args:
        dataset: name of the dataset.
        aspect: name of the aspect; empty where there is none.
        kind: of the task.
        has_rationales: whether humans marked something in a validation text.

    Raises:
        ConfigError: if the dataset or the aspect has none, naming the nearest one.
    """
    stated = criterion(dataset, aspect)
    return own_data.criterion(kind, has_rationales) if depends_on_data(dataset) else stated


def settled_preset(dataset: str, num_texts: int) -> dict[str, Any]:
    """Hyper-parameters that follow from how many training texts there are; of data of one's own alone."""
    return own_data.schedule(num_texts) if depends_on_data(dataset) else {}


def metric_mode(dataset: str) -> str:
    """The mode of `infocal.metrics` in which a dataset's rationales are scored."""
    return criteria.METRIC_MODES.get(dataset, criteria.DEFAULT_METRIC_MODE)


def preset(dataset: str, aspect: str, sample: bool) -> dict[str, Any]:
    """Hyper-parameters in which a dataset differs from `InfoCalConfig`'s defaults (`presets/DATASET.toml`).

    Its table `all` comes first, then the aspect's, then `sample` where the sample corpus is used.

    Raises:
        ConfigError: if the dataset has no presets, naming the nearest one that has.
    """
    return _tables(dataset, ["all", aspect, *(["sample"] if sample else [])])


def features_preset(dataset: str) -> dict[str, Any]:
    """Word vectors in which a dataset differs from `FeatureRequest`'s defaults: the table `features`.

    Raises:
        ConfigError: if the dataset has no presets, naming the nearest one that has.
    """
    return _tables(dataset, ["features"])


def language_model_preset(dataset: str, sample: bool) -> dict[str, Any]:
    """The same for the language model: tables `language_model` and, for the sample, `sample_...`.

    Raises:
        ConfigError: if the dataset has no presets, naming the nearest one that has.
    """
    return _tables(dataset, ["language_model", *(["sample_language_model"] if sample else [])])


def _tables(dataset: str, names: list[str]) -> dict[str, Any]:
    folder = resources.files("search_spaces").joinpath("presets")
    entries = sorted(folder.iterdir(), key=lambda entry: entry.name)
    files = {entry.name.removesuffix(".toml"): entry for entry in entries if entry.name.endswith(".toml")}
    file = _find(files, dataset, "preset for dataset", "--dataset")
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    return {key: value for name in names for key, value in tables.get(name, {}).items()}

"""The registry of data sources: one file and one line here for each."""

from feature_store.errors import RequestError, did_you_mean, quoted
from feature_store.sources.base import Source
from feature_store.sources.beer import Beer
from feature_store.sources.cail import CAIL_BIG, CAIL_SMALL
from feature_store.sources.eraser import Eraser
from feature_store.sources.hatexplain import HateXplain
from feature_store.sources.jsonl import Jsonl

_SOURCES: tuple[Source, ...] = (Beer(), HateXplain(), CAIL_SMALL, CAIL_BIG, Jsonl(), Eraser())

DEFAULT_DATASET = "beer"
"""Where no data set is named."""

REGISTRY: dict[str, Source] = {source.name: source for source in _SOURCES}
"""Every source by its data set's name."""


def aspects_in_words() -> str:
    """The targets of the data sets that have several, for the help of flags."""
    known: dict[tuple[str, ...], list[str]] = {}
    for source in REGISTRY.values():
        if source.aspects:
            known.setdefault(source.aspects, []).append(source.name)
    return "; ".join(f"{', '.join(names)}: {', '.join(aspects)}" for aspects, names in known.items())


def get_source(dataset: str) -> Source:
    """The source of a data set.

    Raises:
        RequestError: if there is none of that name.
    """
    if dataset not in REGISTRY:
        near = did_you_mean(dataset, REGISTRY, "--dataset ")
        raise RequestError(f"no dataset `{dataset}`; the data sets are {quoted(REGISTRY)}", hint=near)
    return REGISTRY[dataset]

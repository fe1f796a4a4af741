"""One record for each data set: its source, criteria, metric mode, ranges and preset.

A data set is registered once, as a source in `feature_store.sources`. What a search needs besides stands in
`presets/NAME.toml`: hyper-parameters by table, and in the table `dataset`, where each entry may be left out:

    metric_mode = "eraser"      # of `infocal.metrics.scores`: how published tables score its rationales
    ranges = "own"              # which of `infocal.SEARCHES` InfoCal searches; or ranges of its own:
    spaces.paper.lambda_ib = { low = 0.001, high = 0.01, step = 0.001, why = "..." }
    first_points = [{ lambda_ib = 0.003 }]
    example = "..."             # a text to try a model on; default: the start of a validation text
    criterion.why = "..."
    criterion.ASPECT = "best NAME with NAME >= NUMBER"    # `all` where there are no aspects
    reached.ASPECT = { num_texts = 9000, rate = 0.08, precision = 0.82, why = "..." }
    published_masks = { file = "...", title = "..." }

Without a criterion, it follows from what the data hold, as for data of one's own (`own_data.py`).
"""

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feature_store.sources import REGISTRY, get_source
from feature_store.sources.base import Source
from feature_store.targets import main_of
from search_spaces import infocal, own_data
from search_spaces.base import Criterion
from search_spaces.space import Range, Search

PRESETS = Path(__file__).parent / "presets"
"""Folder of the presets, one file for each data set."""
DEFAULT_METRIC_MODE = "eraser"
"""Where a preset names none: [DeYoung2020]."""
_TABLE, _EVERY = "dataset", "all"


@dataclass(frozen=True, slots=True)
class Reached:
    """How far models came on a corpus of some size, as measured."""

    num_texts: int
    """Training texts."""
    rate: float
    """Share of the tokens that the models selected, in (0, 1)."""
    precision: float
    """Highest token precision on validation at that rate."""
    why: str
    """Where it was measured."""


@dataclass(frozen=True, slots=True)
class PublishedMasks:
    """Rationales of test texts that others published, in a file beside the raw files."""

    file: str
    title: str
    """Who published them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """What is registered of a data set."""

    source: Source
    criteria: Mapping[str, Criterion]
    """By aspect; empty text where there is but one target."""
    follows_data: bool
    """Whether the criterion follows from what the data hold: see `own_data`."""
    metric_mode: str
    search: Search
    """The ranges of InfoCal."""
    preset: Mapping[str, Mapping[str, Any]]
    """Tables of hyper-parameters."""
    example: str | None
    reached: Mapping[str, Reached]
    """By aspect; of the others nothing was measured that rules a threshold out."""
    published_masks: PublishedMasks | None


def names() -> list[str]:
    """Data sets that can be searched on: the sources that have a preset."""
    found = preset_names()
    return [name for name in REGISTRY if name in found]


def preset_names() -> list[str]:
    """Names of the presets, sorted."""
    return sorted(file.stem for file in PRESETS.glob("*.toml"))


def dataset(name: str) -> DataSet:
    """The record of a data set, one of `names`.

    Raises:
        RequestError: if there is no such source.
        ValueError: if its preset cannot be read.
    """
    return _record(get_source(name).name, PRESETS)


@functools.cache
def _record(name: str, presets: Path) -> DataSet:
    source = get_source(name)
    tables = tomllib.loads((presets / f"{name}.toml").read_text(encoding="utf-8"))
    stated = tables.pop(_TABLE, {})
    targets = source.aspects or ("",)
    sentences = stated.get("criterion")
    criteria = dict.fromkeys(targets, own_data.WITH_RATIONALES)
    if sentences is not None:
        why = sentences.pop("why")
        criteria = {
            "" if aspect == _EVERY else aspect: Criterion.parse(text, why)
            for aspect, text in sentences.items()
        }
    reached = {aspect: Reached(**one) for aspect, one in stated.get("reached", {}).items()}
    masks = stated.get("published_masks")
    return DataSet(
        source=source,
        criteria=criteria,
        follows_data=sentences is None,
        metric_mode=stated.get("metric_mode", DEFAULT_METRIC_MODE),
        search=_search(stated),
        preset=tables,
        example=stated.get("example"),
        reached=reached,
        published_masks=None if masks is None else PublishedMasks(**masks),
    )


def _search(stated: Mapping[str, Any]) -> Search:
    """The ranges of InfoCal: those that the preset states, else those that it names."""
    if "spaces" not in stated:
        return infocal.SEARCHES[stated.get("ranges", infocal.OWN)]
    spaces = {
        space: tuple(Range(name=name, **one) for name, one in ranges.items())
        for space, ranges in stated["spaces"].items()
    }
    return Search(spaces=spaces, first_points=stated.get("first_points", []))


def out_of_reach(
    name: str, aspect: str, num_texts: int, precision: float, rate: float | None
) -> Reached | None:
    """What was measured where it says that a threshold is out of reach of so many training texts; else None.

    Args:
        name: of the data set.
        aspect: target of the data set; of several the main one counts.
        num_texts: training texts; twice as many as were measured may come further.
        precision: the threshold, in [0, 1].
        rate: share of the tokens that models select; the fewer, the higher the precision may be. None: each
            model has a share of its own.
    """
    known = dataset(name).reached.get(main_of(aspect) or "")
    if known is None or num_texts >= 2 * known.num_texts or precision <= known.precision:
        return None
    return None if rate is None or rate < known.rate else known

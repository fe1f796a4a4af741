"""What `feature_store build` makes is what a search reads, for every data set and aspect."""

import dataclasses
from pathlib import Path

import pytest

import feature_store.__main__ as feature_store
from feature_store import store
from feature_store.sources import REGISTRY
from feature_store.store import FeatureRequest
from infocal.methods.registry import INFOCAL
from pipeline import search
from pipeline.cli import planning
from search_spaces import lookup

TARGETS = [
    (dataset, aspect)
    for method, dataset in lookup.methods_and_datasets()
    if method == INFOCAL
    for aspect in REGISTRY[dataset].aspects or ("",)
]


class Asked(Exception):  # noqa: N818 - ends the command
    """What was asked for."""


@pytest.mark.parametrize("flags", [[], ["--sample"], ["--embedding", "random"]], ids=str)
@pytest.mark.parametrize(("dataset", "aspect"), TARGETS)
def test_build_asks_for_the_features_of_a_search(
    dataset: str, aspect: str, flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def open_features(request: FeatureRequest, *, verify: bool) -> None:
        raise Asked(request)

    monkeypatch.setattr(store, "open_features", open_features)
    target = ["--dataset", dataset, *(["--aspect", aspect] if aspect else []), "--cache-dir", str(tmp_path)]
    with pytest.raises(Asked) as built:
        feature_store.main(["build", *target, *flags])
    given = search.build_parser().parse_args([*target, *flags])
    wanted = planning.feature_request(given, planning.run_settings(given, {}))
    assert dataclasses.asdict(built.value.args[0]) == dataclasses.asdict(wanted)


def test_a_flag_of_build_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def open_features(request: FeatureRequest, *, verify: bool) -> None:
        raise Asked(request.max_length, request.embedding_size)

    monkeypatch.setattr(store, "open_features", open_features)
    flags = ["--max-length", "7", "--embedding-size", "9", "--cache-dir", str(tmp_path)]
    with pytest.raises(Asked) as built:
        feature_store.main(["build", "--dataset", "cail-small", "--task", "terms", *flags])
    assert built.value.args == (7, 9)

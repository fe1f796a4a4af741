"""The 10,612 real cases in the official layout of CAIL-small: filters, classes, words."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from feature_store.cail_recipes import RECIPES
from feature_store.checks import check_features, dropped_table
from feature_store.segmentation import segment
from feature_store.sources.cail import CAIL_SMALL, _cases
from feature_store.store import FeatureRequest, Features, open_features

pytestmark = pytest.mark.real_data

CASES = {"train": 8489, "val": 1061, "test": 1062}
KEPT = {
    "topjudge": {"train": 5191, "val": 665, "test": 677},
    "infocal": {"train": 4909, "val": 622, "test": 637},
}
BOTH_DROP = {
    "with no charge or several": (773, 89, 97),
    "with no article or several": (509, 53, 67),
    "with an article outside 102-452": (0, 0, 0),
    "with a charge or an article that is in no case of train": (0, 0, 0),
    "without a word after the stop words are removed": (0, 0, 0),
}
DROPPED = {
    "topjudge": {
        "with a charge of fewer than 100 cases": (1937, 244, 213),
        "with an article of fewer than 100 cases": (79, 10, 8),
    },
    "infocal": {
        "with several defendants": (0, 0, 0),
        "with a charge of fewer than 100 cases": (2218, 287, 253),
        "with an article of fewer than 100 cases": (80, 10, 8),
    },
}
"""In train, val and test; counted once with a few lines that share no code with the source."""


def open_cail(data_dir: Path, cache_dir: Path, aspect: str, recipe: str) -> Features:
    wanted = FeatureRequest(
        dataset="cail-small",
        aspect=aspect,
        data_dir=data_dir,
        cache_dir=cache_dir,
        options={"recipe": recipe},
        max_length=1000,
        embedding="random",
        embedding_size=4,
    )
    return open_features(wanted)


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory, data_dir: Path) -> Path:
    if not (data_dir / "cail2018").is_dir():
        pytest.skip(f"no real data: {data_dir} has no folder `cail2018`")
    return tmp_path_factory.mktemp("cail")


@pytest.mark.parametrize("recipe", RECIPES)
def test_what_each_recipe_keeps_and_drops(data_dir: Path, cache_dir: Path, recipe: str):
    features = open_cail(data_dir, cache_dir, "charges", recipe)
    counts = features.provenance["counts"]
    assert {split: counts[f"{split}_cases"] for split in CASES} == CASES
    assert {split: counts[f"{split}_rows"] for split in CASES} == KEPT[recipe]
    found = {
        row["reason"]: tuple(row["splits"].get(s, 0) for s in CASES) for row in features.provenance["dropped"]
    }
    assert found == BOTH_DROP | DROPPED[recipe]
    assert len(dropped_table(features)) == 1 + len(found)
    assert check_features(features) == []


@pytest.mark.parametrize(("recipe", "charges", "articles"), [("topjudge", 18, 18), ("infocal", 15, 14)])
def test_classes(data_dir: Path, cache_dir: Path, recipe: str, charges: int, articles: int):
    numbers = {"charges": charges, "articles": articles, "terms": 11}
    for aspect, number in numbers.items():
        features = open_cail(data_dir, cache_dir, aspect, recipe)
        assert features.task.class_names is not None
        assert len(features.task.class_names) == number
        if aspect != "terms":
            targets = features.table("train")["target"].to_pylist()
            assert set(targets) == set(range(number))  # every class has a case to learn from


def test_the_recipes_give_many_cases_another_class_of_term(data_dir: Path, cache_dir: Path):
    found = []
    for role, path in CAIL_SMALL.inputs(data_dir, None).items():
        if role in CASES:
            for _, case in _cases(path, 10**9, {}):
                found.append(len({recipe.term_class(case) for recipe in RECIPES.values()}) == 2)
    assert (sum(found), len(found)) == (4274, 10_612)


@pytest.mark.slow
def test_words_of_all_facts_are_those_of_jieba(data_dir: Path, cache_dir: Path):
    def facts() -> Iterator[str]:
        for path in CAIL_SMALL.inputs(data_dir, None).values():
            if path.suffix == ".json":
                for line in path.read_text(encoding="utf-8").splitlines():
                    yield json.loads(line)["fact"]

    for ours, plain in zip(segment(facts(), 2), segment(facts(), 2, fast=False), strict=True):
        assert ours == plain

"""What every registered data set must keep, run on its own sample corpus."""

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest

from feature_store.checks import check_features
from feature_store.columns import table_schema
from feature_store.sources import REGISTRY
from feature_store.sources.base import SPLITS, cut_splits
from feature_store.store import FeatureRequest, Features, load_features, open_features
from feature_store.tokenize import TOKENIZERS

TARGETS = [(name, aspect) for name, source in REGISTRY.items() for aspect in source.aspects or (None,)]


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("datasets")


def sample_request(dataset: str, aspect: str | None, cache_dir: Path) -> FeatureRequest:
    return FeatureRequest(
        dataset=dataset, aspect=aspect, cache_dir=cache_dir, sample=True, embedding="random", embedding_size=8
    )


@pytest.fixture(scope="module", params=TARGETS, ids=lambda target: "-".join(filter(None, target)))
def target(request: pytest.FixtureRequest) -> tuple[str, str | None]:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def features(target: tuple[str, str | None], cache_dir: Path) -> Features:
    return open_features(sample_request(*target, cache_dir))


class TestDataset:
    def test_the_registry_knows_it_by_its_name(self, target: tuple[str, str | None]):
        dataset, _ = target
        source = REGISTRY[dataset]
        assert source.name == dataset
        assert source.title
        assert set(source.aliases.values()) <= set(source.aspects)
        assert source.tokenizer in TOKENIZERS
        assert {option.name for option in source.options}.isdisjoint(
            {"train", "val", "test", "heldout", "annotations"}
        )
        assert all(option.is_file or option.default in option.choices for option in source.options)

    def test_its_parts_agree(self, features: Features):
        assert check_features(features) == []

    def test_its_parts_agree_with_every_choice_of_an_option(
        self, target: tuple[str, str | None], features: Features, cache_dir: Path
    ):
        source = REGISTRY[target[0]]
        if target[1] not in (None, *source.aspects[:1]):
            pytest.skip("the options of an aspect are those of the first one")
        for option in source.options:
            for value in option.choices:
                request = sample_request(*target, cache_dir)
                found = open_features(dataclasses.replace(request, options={option.name: value}))
                assert check_features(found) == []
                assert (found.fingerprint == features.fingerprint) == (value == option.default)

    def test_every_split_has_rows_of_the_schema(self, features: Features):
        assert features.splits == REGISTRY[features.dataset].splits
        assert {"train", "val", "test"} <= set(features.splits) <= set(SPLITS)
        for split in features.splits:
            assert features.table(split).schema == table_schema(features.task.kind)
            assert features.table(split).num_rows > 0

    def test_training_texts_are_cut_at_the_limit(self, features: Features):
        limit = features.provenance["parameters"]["max_length"]
        for split in cut_splits(features.splits):
            assert pc.max(pc.list_value_length(features.table(split)["tokens"])).as_py() <= limit

    def test_humans_marked_something_where_models_are_scored(self, features: Features):
        annotated = features.annotated_validation()["rationale"]
        if annotated.null_count == len(annotated):
            assert features.table("test")["rationale"].null_count == features.table("test").num_rows
            pytest.skip("nobody annotated this data set")
        for table in (features.annotated_validation(), features.table("test")):
            table = table.filter(pc.field("rationale").is_valid())
            marked = pc.sum(pc.list_value_length(table["rationale"])).as_py()
            assert 0 < marked < pc.sum(pc.list_value_length(table["tokens"])).as_py()

    def test_no_example_stands_in_two_splits(self, features: Features):
        tables = [features.table(split) for split in features.splits]
        ids = [value for table in tables for value in table["example_id"].to_pylist()]
        assert len(ids) == len(set(ids))

    def test_targets_are_of_the_task(self, features: Features):
        assert (features.task.class_names is None) == (features.task.kind == "regression")
        for split in features.splits:
            targets = features.table(split)["target"].to_numpy()
            if features.task.kind == "regression":
                assert ((targets >= 0) & (targets <= 1)).all()
            else:
                assert features.task.class_names is not None
                assert set(targets) <= set(range(len(features.task.class_names)))

    def test_mean_and_variance_are_those_of_train(self, features: Features):
        targets = features.table("train")["target"].to_numpy().astype(np.float64)
        assert features.task.target_mean == pytest.approx(targets.mean())
        assert features.task.target_variance == pytest.approx(targets.var())

    def test_the_sample_is_said_aloud(self, features: Features):
        assert any("made-up sample corpus" in note for note in features.notes)

    def test_another_process_finds_the_same(
        self, features: Features, target: tuple[str, str | None], cache_dir: Path
    ):
        again = open_features(sample_request(*target, cache_dir))
        assert again.fingerprint == features.fingerprint
        loaded = load_features(features.directory, verify=True)
        assert all(loaded.table(split).equals(features.table(split)) for split in features.splits)

    def test_equal_raw_files_give_equal_bytes(
        self, features: Features, target: tuple[str, str | None], cache_dir: Path, tmp_path: Path
    ):
        shutil.copytree(cache_dir / "sample", tmp_path / "sample")
        again = open_features(sample_request(*target, tmp_path))
        assert again.fingerprint == features.fingerprint
        assert again.manifest.files == features.manifest.files

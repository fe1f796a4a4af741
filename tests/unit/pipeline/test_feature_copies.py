"""Features that travel: sent once, fetched once by each machine, refused where a byte is wrong."""

import dataclasses
import hashlib
import json
import logging
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from feature_store.errors import DamagedCacheError
from feature_store.store import Features, load_features
from infocal.language_model_config import LanguageModelConfig
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Location, Storage
from pipeline.training import feature_copies
from pipeline.training.loaders import language_model_dir, language_model_scores
from tests.small_store import sample_features
from tests.small_study import LANGUAGE_MODEL, run_settings

CONFIG = LanguageModelConfig(**LANGUAGE_MODEL)


@pytest.fixture(scope="module")
def features(tmp_path_factory: pytest.TempPathFactory) -> Features:
    """Built features with the scores of the language model."""
    source = sample_features().directory
    folder = tmp_path_factory.mktemp("built") / "cache" / "features" / source.name
    shutil.copytree(source, folder)
    built = load_features(folder)
    language_model_scores(built, CONFIG, torch.device("cpu"))
    return built


@pytest.fixture
def storage(tmp_path: Path) -> Location:
    return Storage((tmp_path / "store").as_uri()).opened()


def sent(features: Features, storage: Location) -> Location:
    return feature_copies.send(features, [language_model_dir(features, CONFIG)], storage)


def test_a_fetched_copy_is_the_features_with_their_scores(
    features: Features, storage: Location, tmp_path: Path
):
    copy = sent(features, storage)
    folder = feature_copies.fetched(copy.portable, tmp_path / "cache")
    there = load_features(folder, verify=True)
    assert folder == tmp_path / "cache" / "features" / Path(copy.path).name
    assert there.fingerprint == features.fingerprint
    assert there.table("train") == features.table("train")
    # stored, not trained: it may not be
    language_model_scores(there, CONFIG, torch.device("cpu"), may_train=False)


def test_features_travel_without_scores_where_none_are_read(
    features: Features, storage: Location, tmp_path: Path
):
    copy = feature_copies.send(features, [], storage)
    assert copy != sent(features, storage)
    there = load_features(feature_copies.fetched(copy.portable, tmp_path / "cache"), verify=True)
    assert there.table("train") == features.table("train")
    assert not language_model_dir(there, CONFIG).exists()


def test_a_copy_is_sent_once(
    features: Features, storage: Location, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    first = sent(features, storage)

    def refuse(self: Location, source: Path) -> str:
        raise AssertionError(f"{source} was sent again")

    monkeypatch.setattr(Location, "upload", refuse)
    with caplog.at_level(logging.INFO):
        assert sent(features, storage) == first
    assert "the features are already in" in caplog.text


def test_an_unfinished_copy_is_sent_again(features: Features, storage: Location):
    copy = sent(features, storage)
    (copy / feature_copies.INDEX).remove()
    (copy / "train.arrow").write(b"cut off")
    assert sent(features, storage) == copy
    assert (copy / "train.arrow").read() == (features.directory / "train.arrow").read_bytes()


def test_other_scores_are_another_copy(features: Features, storage: Location):
    other = dataclasses.replace(CONFIG, seed=1)
    language_model_scores(features, other, torch.device("cpu"))
    sent(features, storage)
    feature_copies.send(features, [language_model_dir(features, other)], storage)
    names = (storage / "features").names()
    assert len(names) == 2 and all(name.startswith(features.directory.name) for name in names)


def test_a_damaged_file_is_not_sent(features: Features, storage: Location, tmp_path: Path):
    damaged = load_features(shutil.copytree(features.directory, tmp_path / "cache/features/damaged"))
    content = bytearray((damaged.directory / "test.arrow").read_bytes())
    content[len(content) // 2] ^= 1
    (damaged.directory / "test.arrow").write_bytes(content)
    with pytest.raises(DamagedCacheError, match="test.arrow: the content differs from its sha256"):
        sent(damaged, storage)
    (name,) = (storage / "features").names()
    assert not (storage / "features" / name / feature_copies.INDEX).exists()


def test_several_processes_fetch_once(
    features: Features, storage: Location, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    copy = sent(features, storage)
    with caplog.at_level(logging.INFO), ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: feature_copies.fetched(copy.uri, tmp_path / "cache"), range(8)))
    assert len(set(found)) == 1
    assert sum(message.startswith("fetching") for message in caplog.messages) == 1


def test_a_file_that_is_wrong_once_is_fetched_again(
    features: Features,
    storage: Location,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    copy, download, asked = sent(features, storage), Location.download, []

    def flaky(self: Location, target: Path) -> str:
        digest = download(self, target)
        asked.append(target.name)
        return "0" * 64 if asked == [feature_copies.INDEX, target.name] else digest

    monkeypatch.setattr(Location, "download", flaky)
    load_features(feature_copies.fetched(copy.uri, tmp_path / "cache"), verify=True)
    assert asked[1] == asked[2], "that file alone was fetched twice"
    assert "expected sha256" in caplog.text


@pytest.mark.parametrize("name", ["train.arrow", feature_copies.INDEX])
def test_a_wrong_file_is_refused_and_leaves_nothing(
    name: str, features: Features, storage: Location, tmp_path: Path
):
    copy = sent(features, storage)
    content = bytearray((copy / name).read())
    content[len(content) // 2] ^= 1
    (copy / name).write(bytes(content))
    with pytest.raises(PipelineError, match=f"{name}: expected a file with sha256 [0-9a-f]+, but got"):
        feature_copies.fetched(copy.uri, tmp_path / "cache")
    assert list((tmp_path / "cache" / "features").iterdir()) == []


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (b"[1]", "copy.json: expected the index of a copy, but the content does not match"),
        (b'{"files": {"a": 5}}', "copy.json: expected the index of a copy, but the content does not match"),
        (
            b'{"files": {"../a": {"sha256": "0"}}}',
            "the copy's index names `../a`, which is outside the folder",
        ),
        (b'{"files": {"/a": {"sha256": "0"}}}', "the copy's index names `/a`, which is outside the folder"),
    ],
)
def test_an_index_of_something_else_is_refused_though_its_digest_agrees(
    storage: Location, tmp_path: Path, index: bytes, message: str
):
    copy = storage / "features" / f"beer-{hashlib.sha256(index).hexdigest()[:16]}"
    (copy / feature_copies.INDEX).write(index)
    with pytest.raises(PipelineError, match=message):
        feature_copies.fetched(copy.uri, tmp_path / "cache")
    assert list((tmp_path / "cache" / "features").iterdir()) == []


def test_a_copy_that_is_cut_short_here_is_fetched_again(
    features: Features, storage: Location, tmp_path: Path
):
    copy = sent(features, storage)
    folder = feature_copies.fetched(copy.uri, tmp_path / "cache")
    (folder / "train.arrow").write_bytes(b"cut")
    assert feature_copies.fetched(copy.uri, tmp_path / "cache") == folder
    load_features(folder, verify=True)


def test_a_copy_that_is_not_there_is_named(storage: Location, tmp_path: Path):
    with pytest.raises(PipelineError, match=r"/features/none/copy.json: there is no such file"):
        feature_copies.fetched((storage / "features" / "none").uri, tmp_path / "cache")


def test_a_run_finds_its_features_in_the_cache_of_its_machine(
    features: Features, storage: Location, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    copy = sent(features, storage)
    monkeypatch.setenv("INFOCAL_CACHE", str(tmp_path / "mine"))
    run = run_settings(features_dir="/only/on/the/driver", features_uri=copy.uri)
    found = feature_copies.features_of(run)
    assert found.directory == tmp_path / "mine" / "features" / Path(copy.path).name


def test_a_machine_without_the_shared_folder_says_what_to_do():
    run = run_settings(features_dir="/only/on/the/driver")
    with pytest.raises(
        PipelineError,
        match=r"expected features in `/only/on/the/driver`.*give `--storage` as a URI such as s3://",
    ):
        feature_copies.features_of(run)


def test_the_index_names_every_file_with_its_digest(features: Features, storage: Location):
    files = json.loads((sent(features, storage) / feature_copies.INDEX).read())["files"]
    assert {"manifest.json", "train.arrow", "embeddings.npy"} <= files.keys()
    assert sum(name.startswith("derived/") for name in files) == 2
    assert all(set(entry) == {"size", "sha256"} for entry in files.values())

"""A tiny beer corpus in the official format, requests for it, and a look at what a cache folder holds."""

import functools
import gzip
import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from feature_store import sample, segmenter
from feature_store.store import FeatureRequest, Features, load_features, open_features

NUM_REVIEWS = 60
NUM_ANNOTATED = 30


@pytest.fixture(scope="session", autouse=True)
def _jiebas_dictionary_is_read_once() -> Iterator[None]:
    """A user's dictionary is laid over a copy of jieba's own, which takes a third of a second to read."""
    jieba = segmenter._import_jieba()
    read = jieba.Tokenizer.gen_pfdict

    @functools.cache
    def own() -> tuple[dict[str, int], int]:
        return read(jieba.Tokenizer().get_dict_file())  # type: ignore[no-any-return]

    def copied(file: Any) -> tuple[dict[str, int], int]:
        file.close()
        frequencies, total = own()
        return dict(frequencies), total

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jieba.Tokenizer, "gen_pfdict", staticmethod(copied))
        yield


@pytest.fixture(scope="session")
def _corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    sample.write_beer(folder / "beer", seed=3, num_reviews=NUM_REVIEWS, num_annotated=NUM_ANNOTATED)
    return folder


@pytest.fixture
def corpus(_corpus: Path, tmp_path: Path) -> Path:
    """A folder of one's own that holds `beer/`."""
    return Path(shutil.copytree(_corpus, tmp_path / "data"))


@pytest.fixture
def cache_dir(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def _request(**given: Any) -> FeatureRequest:
    return FeatureRequest(**{"aspect": "palate", "embedding": "random", "embedding_size": 4, **given})


@pytest.fixture
def make_request(corpus: Path, cache_dir: Path) -> Callable[..., FeatureRequest]:
    def make(**changes: Any) -> FeatureRequest:
        return _request(**{"data_dir": corpus, "cache_dir": cache_dir, **changes})

    return make


@pytest.fixture(scope="session")
def _built(_corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return open_features(_request(data_dir=_corpus, cache_dir=tmp_path_factory.mktemp("built"))).directory


@pytest.fixture
def features(_built: Path, cache_dir: Path) -> Features:
    """Features of the corpus, built already in the cache folder: a key does not depend on where files are."""
    return load_features(Path(shutil.copytree(_built, cache_dir / "features" / _built.name)))


@pytest.fixture
def heldout(corpus: Path) -> Path:
    return corpus / "beer" / "reviews.aspect2.heldout.txt"


@pytest.fixture
def annotations(corpus: Path) -> Path:
    return corpus / "beer" / "annotations.json"


@pytest.fixture
def change_line() -> Callable[[Path, int, str], None]:
    """Replace a line, numbered from 1, of a text file."""

    def change(path: Path, number: int, line: str) -> None:
        lines = path.read_text(encoding="utf-8").splitlines()
        lines[number - 1] = line
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    return change


@pytest.fixture
def change_record() -> Callable[..., None]:
    """Set or (with None) remove keys of one annotated review, numbered from 1."""

    def change(path: Path, number: int, **changes: Any) -> None:
        lines = path.read_text(encoding="utf-8").splitlines()
        record = {
            **json.loads(lines[number - 1]),
            **{key.lstrip("_"): value for key, value in changes.items()},
        }
        lines[number - 1] = json.dumps({key: value for key, value in record.items() if value is not None})
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    return change


@pytest.fixture
def zipped() -> Callable[[Path], Path]:
    """Replace a file by its .gz."""

    def pack(path: Path) -> Path:
        packed = path.with_name(path.name + ".gz")
        packed.write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
        return packed

    return pack


@pytest.fixture
def leftovers(cache_dir: Path) -> Callable[[], list[str]]:
    """Files in the cache besides locks and remembered digests: nothing, where nothing was built."""

    def find() -> list[str]:
        kept = ("locks", "digests.json")
        files = [path.relative_to(cache_dir) for path in cache_dir.rglob("*") if path.is_file()]
        return sorted(str(path) for path in files if path.parts[0] not in kept)

    return find


@pytest.fixture
def rng() -> random.Random:
    return random.Random(0)

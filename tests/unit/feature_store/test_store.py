"""Open, open again, and what happens when something changed or broke in between."""

import gzip
import json
import logging
import multiprocessing
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from feature_store import build as build_module
from feature_store import cache, store
from feature_store.errors import BadInputError, CacheError, DamagedCacheError, RequestError
from feature_store.sources import frames, lines
from feature_store.sources.base import SPLITS
from feature_store.store import FeatureRequest, Features, load_features, open_features

MakeRequest = Callable[..., FeatureRequest]
ROOT = Path(store.__file__).parents[1]

FILES = [*(f"{split}.arrow" for split in SPLITS), "vocabulary.arrow", "embeddings.npy"]


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that were built."""
    seen: list[Path] = []
    build = build_module.build

    def counted(stage: Path, recipe: Any, *more: Any) -> None:
        seen.append(stage)
        build(stage, recipe, *more)

    monkeypatch.setattr(build_module, "build", counted)
    return seen


def test_tables_hold_what_the_contract_says(features: Features, heldout: Path, annotations: Path):
    assert (features.dataset, features.aspect) == ("beer", "palate")
    assert features.splits == ("train", "val", "val_annotated", "test")
    rows = [row for split in ("train", "val") for row in features.table(split).to_pylist()]
    expected = {line.split("\t")[1]: float(line.split()[2]) for line in heldout.read_text().splitlines()}
    assert {" ".join(row["tokens"]): row["target"] for row in rows} == pytest.approx(expected)
    assert all(row["rationale"] is None for row in rows)
    marked = {
        row["example_id"]: row["rationale"]
        for s in ("val_annotated", "test")
        for row in features.table(s).to_pylist()
    }
    for line in annotations.read_text().splitlines():
        record = json.loads(line)
        positions = [i for start, end in record["2"] for i in range(start, end)]
        assert marked[str(record["rid"])] == (sorted(positions) or None)


def test_token_numbers_are_those_of_the_vocabulary(features: Features):
    for split in features.splits:
        for row in features.table(split).to_pylist():
            assert row["token_ids"] == features.vocabulary.encode(row["tokens"])


def test_the_vocabulary_is_of_train_alone(features: Features):
    words = {word for row in features.table("train")["tokens"].to_pylist() for word in row}
    assert set(features.vocabulary.tokens[2:]) == words
    counts = dict(zip(features.vocabulary.tokens, features.token_counts, strict=True))
    assert counts["."] == sum(row.count(".") for row in features.table("train")["tokens"].to_pylist())
    assert counts["<pad>"] == counts["<unk>"] == 0


def test_the_task_describes_the_training_targets(features: Features):
    targets = np.array(features.table("train")["target"].to_pylist())
    assert features.task.kind == "regression"
    assert features.task.class_names is None
    assert features.task.target_mean == pytest.approx(targets.mean())
    assert features.task.target_variance == pytest.approx(targets.var())


def test_vectors_are_mapped_and_read_only(features: Features):
    assert isinstance(features.embeddings, np.memmap)
    assert features.embeddings.shape == (len(features.vocabulary), 4)
    assert features.embeddings.dtype == np.float32
    assert not features.embeddings[0].any()
    with pytest.raises(ValueError, match="read-only"):
        features.embeddings[2, 0] = 1


def test_provenance_tells_where_everything_is_from(features: Features, heldout: Path):
    provenance = json.loads(json.dumps(features.provenance))
    assert provenance["digests"]["heldout"] == cache.file_digest(heldout)
    assert provenance["inputs"] == {"annotations": "annotations.json", "heldout": heldout.name}
    assert provenance["parameters"]["max_length"] == 256
    assert provenance["notes"] == features.notes
    counts = provenance["counts"]
    assert counts["train_rows"] == features.table("train").num_rows
    assert counts["train_rows"] + counts["val_rows"] == 60
    assert counts["annotated"] == counts["val_annotated_rows"] + counts["test_rows"] == 30


def test_a_second_open_neither_builds_nor_parses_nor_hashes(
    make_request: MakeRequest, corpus: Path, builds: list[Path], monkeypatch: pytest.MonkeyPatch
):
    for path in (corpus / "beer").iterdir():
        os.utime(path, (1e9, 1e9))
    first = open_features(make_request())
    monkeypatch.setattr(cache, "file_digest", lambda path: pytest.fail(f"{path} was hashed"))
    again = open_features(make_request())
    assert len(builds) == 1
    assert again.fingerprint == first.fingerprint
    assert again.directory == first.directory


def test_a_table_is_mapped_not_read(features: Features):
    before = pa.total_allocated_bytes()
    table = load_features(features.directory).table("train")
    assert pa.total_allocated_bytes() - before < table.nbytes / 4


def test_load_needs_no_raw_data(features: Features, corpus: Path):
    shutil.rmtree(corpus)
    loaded = load_features(features.directory)
    assert loaded.table("test").equals(features.table("test"))
    assert loaded.notes == features.notes


def test_a_worker_can_load_and_imports_neither_polars_nor_gensim(features: Features):
    code = (
        "import sys; from pathlib import Path; from feature_store.store import load_features\n"
        f"print(load_features(Path({str(features.directory)!r})).table('train').num_rows)\n"
        "print(sorted({'polars', 'gensim', 'torch', 'pooch'} & set(sys.modules)))"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stdout.split("\n")[:2] == [str(features.table("train").num_rows), "[]"]


@pytest.mark.parametrize(
    "change",
    [
        {"aspect": "smell"},
        {"max_length": 40},
        {"min_count": 2},
        {"embedding_size": 5},
        {"seed": 1},
    ],
)
def test_every_parameter_is_in_the_key(make_request: MakeRequest, change: dict[str, Any]):
    assert open_features(make_request(**change)).fingerprint != open_features(make_request()).fingerprint


def test_the_kind_of_vectors_is_in_the_key_but_not_a_files_path(make_request: MakeRequest, tmp_path: Path):
    keys = []
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("the 1 2 3 4\n. 5 6 7 8\n")
        keys.append(open_features(make_request(embedding=str(tmp_path / name))).fingerprint)
    assert keys[0] == keys[1] != open_features(make_request()).fingerprint
    (tmp_path / "b.txt").write_text("the 1 2 3 5\n. 5 6 7 8\n")
    assert open_features(make_request(embedding=str(tmp_path / "b.txt"))).fingerprint != keys[0]


def test_content_is_in_the_key_but_not_its_place(make_request: MakeRequest, corpus: Path, heldout: Path):
    before = open_features(make_request()).fingerprint
    moved = Path(shutil.copytree(corpus, corpus.parent / "elsewhere"))
    assert open_features(make_request(data_dir=moved)).fingerprint == before
    heldout.write_text(heldout.read_text() + "0.1 0.1 0.1 0.1 0.1\tone more review .\n")
    changed = open_features(make_request())
    assert changed.fingerprint != before
    assert changed.provenance["counts"]["train_rows"] + changed.provenance["counts"]["val_rows"] == 61


def test_zipped_files_give_the_same_rows(
    make_request: MakeRequest, features: Features, heldout: Path, zipped: Any
):
    zipped(heldout)
    again = open_features(make_request())
    assert again.table("train").drop(["example_id"]).equals(features.table("train").drop(["example_id"]))


def test_training_texts_are_cut_and_annotated_ones_are_not(make_request: MakeRequest, features: Features):
    cut = open_features(make_request(max_length=35))
    whole = features.table("train")["tokens"].to_pylist()
    assert cut.table("train")["tokens"].to_pylist() == [row[:35] for row in whole]
    assert cut.provenance["counts"]["train_cut"] == sum(len(row) > 35 for row in whole) > 0
    for split in ("val_annotated", "test"):
        assert cut.table(split)["tokens"].equals(features.table(split)["tokens"])


def test_rare_words_become_unknown(make_request: MakeRequest):
    features = open_features(make_request(min_count=5))
    assert (features.token_counts[2:] >= 5).all()
    assert features.token_counts[1] > 0
    ids = [i for row in features.table("train")["token_ids"].to_pylist() for i in row]
    assert ids.count(1) == features.token_counts[1]


def test_vectors_of_a_file(make_request: MakeRequest, tmp_path: Path):
    path = tmp_path / "vectors.txt.gz"
    path.write_bytes(gzip.compress(b"the 1 2 3 4\n. 5 6 7 8\nunheard-of 9 9 9 9\n"))
    features = open_features(make_request(embedding=str(path)))
    assert features.embeddings[features.vocabulary.encode(["the"])[0]].tolist() == [1, 2, 3, 4]
    assert features.embeddings[1].tolist() == [3, 4, 5, 6]
    assert (
        f"vectors.txt.gz has 2 of the {len(features.vocabulary) - 2} words; the rest get the mean vector"
        in features.notes
    )


def test_an_id_that_stands_again_in_another_chunk_ends_the_build(
    make_request: Callable[..., FeatureRequest], monkeypatch: pytest.MonkeyPatch
):
    from feature_store.sources.beer import Beer

    monkeypatch.setattr(frames, "CHUNK_ROWS", 3)
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 500)
    whole = Beer.frames

    def repeated(self, *given):  # a source's own check is not relied upon
        found = list(whole(self, *given))
        again = next(frame for frame in found if "train" in frame["split"])
        yield from [*found, again.filter(split="train").head(1)]

    monkeypatch.setattr(Beer, "frames", repeated)
    with pytest.raises(BadInputError, match="2 rows violate `primary_key`; the first is"):
        open_features(make_request())
    assert not list((make_request().cache_dir / "features").glob("beer*")), "nothing is half built"


def test_small_chunks_give_the_same(
    make_request: MakeRequest, features: Features, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(frames, "CHUNK_ROWS", 3)
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 500)
    monkeypatch.setattr(build_module, "BATCH_ROWS", 24)
    again = open_features(make_request(cache_dir=features.directory.parent / "other"))
    assert again.table("train").column("tokens").num_chunks > 1
    for split in features.splits:
        assert again.table(split).equals(features.table(split))
    assert again.vocabulary.tokens == features.vocabulary.tokens
    assert again.task == features.task


def test_an_unknown_split(features: Features):
    with pytest.raises(RequestError, match="no split `dev`; the splits are train, val, val_annotated, test"):
        features.table("dev")


def test_repr_is_short(features: Features):
    assert repr(features).startswith(f"Features(beer/palate, {features.fingerprint[:12]}, ")


# ---------------------------------------------------------------------------------------------- damage


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _spoil_footer(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30] + b"\xff" * 30)


def _flip_in_the_middle(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
@pytest.mark.parametrize("damage", [_cut, Path.unlink])
def test_a_damaged_file_is_found_and_built_again(
    make_request: MakeRequest, features: Features, caplog: pytest.LogCaptureFixture, name: str, damage: Any
):
    damage(features.directory / name)
    with pytest.raises(DamagedCacheError, match=name.replace("manifest.json", "manifest")):
        load_features(features.directory)
    again = open_features(make_request())
    assert f"{name}: " in caplog.text
    assert "building it again" in caplog.text
    assert again.table("train").equals(features.table("train"))
    load_features(features.directory, verify=True)


@pytest.mark.parametrize("name", ["train.arrow", "vocabulary.arrow"])
def test_a_broken_footer_is_found_at_open(
    make_request: MakeRequest, features: Features, caplog: Any, name: str
):
    _spoil_footer(features.directory / name)
    open_features(make_request())
    assert f"{name}: not a readable Arrow file" in caplog.text
    load_features(features.directory, verify=True)


def test_a_broken_header_of_the_vectors_is_found_at_open(
    make_request: MakeRequest, features: Features, caplog: Any
):
    path = features.directory / "embeddings.npy"
    path.write_bytes(b"x" * path.stat().st_size)
    open_features(make_request())
    assert "the folder cannot be read" in caplog.text


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_is_found_when_asked(
    make_request: MakeRequest, features: Features, caplog: Any, name: str
):
    _flip_in_the_middle(features.directory / name)
    with pytest.raises(DamagedCacheError, match=f"{name}: the content differs from its sha256"):
        load_features(features.directory, verify=True)
    open_features(make_request(), verify=True)
    assert "building it again" in caplog.text
    load_features(features.directory, verify=True)


def test_a_manifest_without_meta_is_damage(features: Features):
    path = features.directory / "manifest.json"
    path.write_text(cache.sealed({**json.loads(path.read_text()), "meta": {}}))
    with pytest.raises(DamagedCacheError, match="the folder cannot be read"):
        load_features(features.directory)


@pytest.mark.parametrize(
    "change",
    [
        {"splits": ["train", "test"]},
        {"splits": 3},
        {"task": {"kind": "regression", "class_names": None, "target_mean": "high", "target_variance": 1.0}},
        {"task": {"kind": "regression", "class_names": ["a"], "target_mean": 0.5, "target_variance": 1.0}},
        {
            "task": {
                "kind": "classification",
                "class_names": [1, 2],
                "target_mean": 0.5,
                "target_variance": 1.0,
            }
        },
        {"task": {"kind": "klingon", "class_names": None, "target_mean": 0.5, "target_variance": 1.0}},
        {"provenance": None},
    ],
)
def test_a_manifest_of_something_else_is_damage(features: Features, change: dict[str, Any]):
    path = features.directory / "manifest.json"
    manifest = json.loads(path.read_text())
    path.write_text(cache.sealed(manifest | {"meta": manifest["meta"] | change}))
    with pytest.raises(DamagedCacheError, match=f"^{features.directory}: the folder cannot be read"):
        load_features(features.directory)


def test_features_under_the_name_of_others_are_built_again(make_request: MakeRequest, features: Features):
    other = make_request(seed=1)
    wanted = open_features(other)
    shutil.rmtree(wanted.directory)
    shutil.copytree(features.directory, wanted.directory)
    assert open_features(other).fingerprint == wanted.fingerprint != features.fingerprint


def test_a_file_in_place_of_the_folder_is_damage(make_request: MakeRequest, features: Features):
    shutil.rmtree(features.directory)
    features.directory.write_text("no folder")
    assert open_features(make_request()).fingerprint == features.fingerprint


def test_a_disk_that_fills_up_is_said_and_leaves_nothing(make_request: MakeRequest):
    """A limit on the size of files stands for it: writing fails in the middle of a file in the same way."""
    request = make_request()
    said = _in_a_process(_build_on_a_full_disk, request)
    assert re.fullmatch(r".*: cannot write to the cache: .*File too large.*", said)
    left = [path for path in request.cache_dir.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert [path.name for path in left if path.name != "digests.json"] == []
    assert open_features(request).table("train").num_rows > 0


def _in_a_process(function: Callable[[FeatureRequest], str], request: FeatureRequest) -> str:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply_async(function, [request]).get(120)


def _build_on_a_full_disk(request: FeatureRequest) -> str:
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
    try:
        open_features(request)
    except CacheError as error:
        return str(error)
    return "built"


def test_a_folder_that_is_not_there(tmp_path: Path):
    with pytest.raises(DamagedCacheError, match="no manifest"):
        load_features(tmp_path / "gone")


@pytest.mark.slow
def test_a_killed_build_leaves_no_folder_and_the_next_one_cleans_up(
    make_request: MakeRequest, leftovers: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
):
    request = make_request()
    process = multiprocessing.get_context("spawn").Process(target=_build_and_die, args=(request,))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    assert leftovers()
    assert all("/.beer-palate-" in name for name in leftovers())
    features = open_features(request)
    assert [path.name for path in (request.cache_dir / "features").iterdir()] == [features.directory.name]


def _build_and_die(request: FeatureRequest) -> None:
    build_module._embed = lambda *_: os._exit(9)
    open_features(request)


def test_two_processes_build_once(make_request: MakeRequest):
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply_async(_open_and_count, [make_request()])
        built = [_open_and_count(make_request()), there.get(60)]
    assert sum(count for _, count in built) == 1
    assert len({fingerprint for fingerprint, _ in built}) == 1


def _open_and_count(request: FeatureRequest) -> tuple[str, int]:
    seen: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: seen.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("feature_store")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        return open_features(request).fingerprint, sum(text.startswith("building features") for text in seen)
    finally:
        logger.removeHandler(handler)


def test_a_cache_that_cannot_be_written(make_request: MakeRequest, tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match=r"cannot make a lock file: (Not a directory|File exists)") as caught:
        open_features(make_request(cache_dir=tmp_path / "file"))
    assert caught.value.hint == "name another folder with `--cache-dir`"


# -------------------------------------------------------------------------------- where the data is from


def test_the_environment_names_the_data(
    make_request: MakeRequest, features: Features, corpus: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("INFOCAL_DATA", str(corpus))
    assert open_features(make_request(data_dir=None)).fingerprint == features.fingerprint


def test_the_sample_is_made_only_when_asked_for_and_says_so(
    make_request: MakeRequest, monkeypatch: Any, cache_dir: Path
):
    monkeypatch.setenv("INFOCAL_DATA", "/nowhere")
    written: list[int] = []
    source = store.get_source("beer")
    monkeypatch.setattr(type(source), "write_sample", _small_sample(written))
    features = open_features(make_request(data_dir=None, sample=True))
    assert features.notes[0] == "made-up sample corpus (seed 0): scores on it say nothing about real data"
    other = open_features(make_request(data_dir=None, sample=True, sample_seed=4))
    assert other.fingerprint != features.fingerprint
    open_features(make_request(data_dir=None, sample=True, seed=9))
    assert written == [0, 4]
    assert sorted(path.name for path in (cache_dir / "sample").iterdir()) == ["beer-1-0", "beer-1-4"]


@pytest.mark.parametrize(
    "name", ["beer/annotations.json", "beer/reviews.aspect2.heldout.txt", "manifest.json", "beer"]
)
@pytest.mark.parametrize("damage", [_cut, _flip_in_the_middle, Path.unlink])
def test_a_damaged_sample_corpus_is_written_again(
    make_request: MakeRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    damage: Callable[[Path], None],
):
    from feature_store.sources import get_source

    written: list[int] = []
    monkeypatch.setattr(type(get_source("beer")), "write_sample", _small_sample(written))
    request = make_request(data_dir=None, sample=True)
    features = open_features(request)
    path = request.cache_dir / "sample" / "beer-1-0" / name
    shutil.rmtree(path) if path.is_dir() else damage(path)
    shutil.rmtree(features.directory)
    again = open_features(request)
    assert written == [0, 0]
    assert "writing it again" in caplog.text
    assert again.fingerprint == features.fingerprint
    assert again.table("train").equals(features.table("train"))


def _small_sample(written: list[int]) -> Callable[[Any, Path, int], None]:
    from feature_store import sample

    def write(_: Any, folder: Path, seed: int) -> None:
        written.append(seed)
        sample.write_beer(folder / "beer", seed=seed, num_reviews=40, num_annotated=30)

    return write


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dataset": "bear"}, "no dataset `bear`"),
        ({"aspect": "palete"}, "no aspect `palete` in dataset `beer`"),
        ({"aspect": None}, "dataset `beer` needs an aspect"),
        ({"max_length": 0}, "`max_length` must be at least 1, but got 0"),
        ({"min_count": 0}, "`min_count` must be at least 1, but got 0"),
        ({"embedding_size": -1}, "`embedding_size` must be at least 1, but got -1"),
        ({"embedding_size": 3_000_000_000}, "`embedding_size` must be at most 65536, but got 3000000000"),
        ({"max_input_bytes": 0}, "`max_input_bytes` must be at least 1, but got 0"),
        ({"seed": -1}, r"`seed` must lie in \[0, 2\*\*32\), but got -1"),
        ({"sample_seed": 2**32}, r"`sample_seed` must lie in \[0, 2\*\*32\), but got 4294967296"),
        ({"sample": True}, "expected either `--sample` or `--data-dir`, but got both: `--data-dir "),
    ],
)
def test_a_request_that_cannot_be_met(make_request: MakeRequest, change: dict[str, Any], message: str):
    with pytest.raises(RequestError, match=message):
        make_request(**change)


def test_an_alias_is_the_same_request(make_request: MakeRequest):
    assert (
        open_features(make_request(aspect="aroma")).directory
        == open_features(make_request(aspect="smell")).directory
    )


@pytest.mark.parametrize(
    ("given", "hint"),
    [("word2vek", "did you mean `--embedding word2vec`?"), ("/gone.txt", "check the path of the file")],
)
def test_an_unknown_embedding(make_request: MakeRequest, given: str, hint: str):
    with pytest.raises(RequestError, match=f"path of a text file, but got `{given}`") as caught:
        open_features(make_request(embedding=given))
    assert caught.value.hint == hint


def test_a_second_open_loads_nothing_but_its_maps(features: Features):
    """pandas takes a third of a second in each worker, and the words are not needed to train."""
    script = (
        "import sys; from pathlib import Path; from feature_store.store import load_features\n"
        "before = set(sys.modules); features = load_features(Path(sys.argv[1]))\n"
        "features.token_counts.sum()\n"
        "assert 'vocabulary' not in vars(features)\n"
        "print(sorted(name for name in set(sys.modules) - before if '.' not in name))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(features.directory)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert "pandas" not in done.stdout
    assert "polars" not in done.stdout


def test_words_that_are_no_vocabulary_are_found_when_they_are_read(features: Features):
    path = features.directory / "vocabulary.arrow"
    tokens = ["a", *(f"word{number}" for number in range(1, len(features.embeddings)))]
    cache.write_table(path, pa.table({"token": tokens, "count": [1] * len(tokens)}))
    manifest = json.loads((features.directory / "manifest.json").read_text())
    manifest["files"]["vocabulary.arrow"] = {"size": path.stat().st_size, "sha256": cache.file_digest(path)}
    (features.directory / "manifest.json").write_text(cache.sealed(manifest))
    with pytest.raises(DamagedCacheError, match="not a vocabulary"):
        _ = load_features(features.directory).vocabulary

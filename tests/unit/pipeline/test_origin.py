import argparse
import dataclasses
import logging
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from feature_store.errors import RequestError
from feature_store.sample import write_beer
from feature_store.store import FeatureRequest, Features, open_features
from pipeline.base.errors import PipelineError
from pipeline.training import origin
from pipeline.training.settings import RunSettings
from tests.small_store import sample_cache, sample_features
from tests.small_study import run_settings


def flags(cache: Path | None = None, **changes: Any) -> argparse.Namespace:
    values = {"data_dir": None, "cache_dir": str(cache or sample_cache()), "embedding": None, "option": []}
    return argparse.Namespace(**{**values, **changes})


def recorded(features: Features | None = None, **changes: Any) -> RunSettings:
    """Settings of a run whose features are not on this machine any more."""
    made_of = origin.origin_of(features or sample_features())
    return run_settings(**{"features_dir": "/gone/with/its/machine", "origin": made_of, **changes})


def again(run: RunSettings, given: argparse.Namespace, **changes: Any) -> Features:
    values = {"fingerprint": sample_features().fingerprint, "sample": True, **changes}
    return origin.features_again(run, values.pop("fingerprint"), given=given, **values)


def other_data(folder: Path) -> Path:
    write_beer(folder / "beer", seed=5)
    return folder


# --------------------------------------------------------------------------------------------- the same


def test_features_come_from_the_cache():
    assert again(recorded(), flags()).directory == sample_features().directory


def test_features_come_from_where_the_run_had_them(tmp_path: Path):
    folder = tmp_path / "elsewhere"
    shutil.copytree(sample_features().directory, folder)
    run = recorded(features_dir=str(folder))
    assert again(run, flags(tmp_path / "cache")).directory == folder


def test_features_that_are_gone_are_built_from_what_was_recorded(tmp_path: Path):
    short = open_features(
        FeatureRequest(
            **{"aspect": "palate", "sample": True, "cache_dir": tmp_path / "first"},
            **{"embedding": "random", "embedding_size": 7, "max_length": 40, "min_count": 2, "seed": 3},
        )
    )
    built = again(recorded(short), flags(tmp_path / "second"), fingerprint=short.fingerprint)
    assert built.fingerprint == short.fingerprint
    assert built.directory.is_relative_to(tmp_path / "second")
    assert built.embeddings.shape[1] == 7


def test_damaged_features_are_built_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    folder = tmp_path / "elsewhere"
    shutil.copytree(sample_features().directory, folder)
    (folder / "embeddings.npy").write_bytes(b"x" * (folder / "embeddings.npy").stat().st_size)
    built = again(recorded(features_dir=str(folder)), flags(tmp_path / "cache"))
    assert built.directory.is_relative_to(tmp_path / "cache")
    assert f"{folder}: the folder cannot be read" in caplog.text
    assert "the features are built again" in caplog.text


def test_a_run_of_before_origins_were_recorded_takes_the_preset_and_the_flags(tmp_path: Path):
    built = again(recorded(origin={}), flags(tmp_path, embedding="random"))
    assert built.fingerprint == sample_features().fingerprint


def test_the_same_data_named_by_a_flag_are_taken(tmp_path: Path):
    data = other_data(tmp_path / "data")
    request = FeatureRequest(aspect="palate", data_dir=data, embedding="random", cache_dir=tmp_path / "cache")
    features = open_features(request)
    found = again(
        recorded(features),
        flags(tmp_path / "cache", data_dir=str(data)),
        fingerprint=features.fingerprint,
        sample=False,
    )
    assert found.directory == features.directory


def test_other_bytes_from_the_same_data_are_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    made_of = origin.origin_of(sample_features())
    made_of["files"]["embeddings.npy"] = "0" * 64
    with caplog.at_level(logging.WARNING, "pipeline.training.origin"):
        again(recorded(origin=made_of), flags(tmp_path))
    said = [r.getMessage() for r in caplog.records if r.name == "pipeline.training.origin"]
    assert said == [
        "embeddings.npy: rebuilt from the same data, but not byte-identical to the files of the training"
    ]


# ----------------------------------------------------------------------------------------------- another


def test_other_data_are_refused_and_what_differs_is_said(tmp_path: Path):
    with pytest.raises(PipelineError, match="was trained on features") as caught:
        again(recorded(), flags(data_dir=str(other_data(tmp_path)), embedding="random"))
    error = caught.value
    match = re.fullmatch(
        r"the run was trained on features (\w{16}), but the given data and flags "
        r"produce features (\w{16}): (.*)",
        error.message,
    )
    assert match is not None
    assert match[1] == sample_features().fingerprint[:16] != match[2]
    assert "sample was True and is False" in match[3]
    digest = sample_features().provenance["digests"]["annotations"][:16]
    assert f"sha256 of annotations was {digest} and is " in match[3]
    assert error.where == f"--data-dir {tmp_path}"
    assert "--cache-dir" in (error.hint or "")


def test_another_option_is_refused_by_its_name(tmp_path: Path):
    with pytest.raises(PipelineError, match="embedding was random and is word2vec"):
        again(recorded(), flags(tmp_path, embedding="word2vec"))


def test_without_a_record_of_the_origin_nobody_knows_what_differs(tmp_path: Path):
    with pytest.raises(PipelineError, match="0{16}, but .*the difference is not known"):
        again(recorded(origin={}), flags(tmp_path), fingerprint="0" * 64)


def test_the_cached_features_say_what_differs_where_the_run_does_not(tmp_path: Path):
    with pytest.raises(PipelineError, match="embedding was random and is word2vec"):
        again(recorded(origin={}), flags(embedding="word2vec"))


def test_equal_data_and_parameters_with_another_fingerprint_are_of_another_version(tmp_path: Path):
    with pytest.raises(PipelineError, match="the same, but the version of `feature_store` differs"):
        again(recorded(), flags(tmp_path), fingerprint="0" * 64)


def test_word_vectors_of_a_file_have_to_be_named(tmp_path: Path):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("a 0.5 0.25\nthin 0.125 1\n")
    features = open_features(
        FeatureRequest(
            aspect="palate", sample=True, embedding=str(vectors), embedding_size=2, cache_dir=tmp_path / "a"
        )
    )
    run, wanted = recorded(features), features.fingerprint
    with pytest.raises(PipelineError, match="--embedding: the run's word vectors came from a file"):
        again(run, flags(tmp_path / "b"), fingerprint=wanted)
    moved = vectors.rename(tmp_path / "moved.txt")
    assert again(run, flags(tmp_path / "b", embedding=str(moved)), fingerprint=wanted).fingerprint == wanted
    moved.write_text("a 0.5 0.25\n")
    with pytest.raises(PipelineError, match="sha256 of embedding was "):
        again(run, flags(tmp_path / "b", embedding=str(moved)), fingerprint=wanted)


def test_an_unknown_option_is_refused_by_the_feature_store():
    with pytest.raises(RequestError, match="expected NAME=VALUE once for each `--option`, but got `x`$"):
        again(recorded(), flags(option=["x"]))


def test_placed_settings_read_these_features_alone():
    run = recorded(features_uri="s3://bucket/features/x")
    placed = origin.placed(run, sample_features())
    assert Path(placed.features_dir) == sample_features().directory.resolve()
    assert placed == dataclasses.replace(run, features_dir=placed.features_dir, features_uri="")

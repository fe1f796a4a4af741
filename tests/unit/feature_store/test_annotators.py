"""What each annotator marked in training texts: built beside the features, and no part of them."""

import json
import shutil
from pathlib import Path

import pytest

from feature_store.annotators import annotator_shares, shares_dir
from feature_store.errors import MissingDataError
from feature_store.store import FeatureRequest, fingerprint_of, load_features, open_features, verify_derived
from tests.small_store import post_features, sample_features

HATE, NORMAL, OFFENSIVE = "hatespeech", "normal", "offensive"


def post(name, label, tokens, masks):
    annotators = [{"label": label, "annotator_id": i, "target": ["None"]} for i in range(3)]
    return {
        "post_id": name,
        "annotators": annotators,
        "rationales": masks,
        "post_tokens": tokens,
    }


POSTS = [
    post("a", HATE, ["you", "are", "bad"], [[1, 1, 0], [0, 1, 0], [0, 1, 1]]),
    post("b", NORMAL, ["good", "day"], []),
    post("c", OFFENSIVE, ["bad", "bad", "dog", "bad"], [[1, 0, 0, 0], []]),
    # a mask of another length does not count
    post("d", OFFENSIVE, ["so", "bad"], [[0, 1], [1, 1, 1]]),
    post("e", HATE, ["no", "mask"], []),
    post("v", HATE, ["bad", "one"], [[1, 0], [1, 0]]),
    post("t", NORMAL, ["a", "test"], []),
]


def request(tmp_path: Path, **changes):
    folder = tmp_path / "data" / "hatexplain"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dataset.json").write_text(json.dumps({one["post_id"]: one for one in POSTS}))
    divisions = {"train": ["a", "b", "c", "d", "e"], "val": ["v"], "test": ["t"]}
    (folder / "post_id_divisions.json").write_text(json.dumps(divisions))
    return FeatureRequest(
        dataset="hatexplain",
        data_dir=tmp_path / "data",
        cache_dir=tmp_path / "cache",
        embedding="random",
        **changes,
    )


def shares(features):
    names = features.table("train")["example_id"].to_pylist()
    return dict(zip(names, annotator_shares(features).to_pylist(), strict=True))


def test_golden_shares(tmp_path: Path):
    found = shares(open_features(request(tmp_path)))
    assert found.pop("a") == pytest.approx([1 / 3, 1, 1 / 3])
    assert found == {"b": None, "c": [0.5, 0, 0, 0], "d": [0, 1], "e": None}


def test_the_gold_of_scores_does_not_change_them(tmp_path: Path):
    union = open_features(request(tmp_path))
    majority = open_features(request(tmp_path, options={"gold": "majority"}))
    assert union.fingerprint != majority.fingerprint
    assert shares(union) == shares(majority)


def test_they_are_cut_with_their_text(tmp_path: Path):
    found = shares(open_features(request(tmp_path, max_length=2)))
    assert found["a"] == pytest.approx([1 / 3, 1])
    assert found["c"] == [0.5, 0]


def test_they_agree_with_the_union_of_the_masks():
    features = post_features()
    union = features.table("train")["rationale"].to_pylist()
    for marked, share in zip(union, annotator_shares(features).to_pylist(), strict=True):
        assert (marked is None) == (share is None)
        assert marked is None or [t for t, r in enumerate(share) if r > 0] == marked
    values = {round(r, 4) for row in annotator_shares(features).to_pylist() if row for r in row}
    assert len(values) > 2, "no annotator differs from the others"


def test_features_are_the_same_with_and_without_them(tmp_path: Path):
    features = open_features(request(tmp_path))
    assert features.fingerprint == fingerprint_of(request(tmp_path))
    assert not [name for name in features.manifest.files if "derived" in name]
    folder = shares_dir(features)
    assert folder is not None
    assert folder.is_relative_to(features.directory / "derived")
    verify_derived(features)
    shutil.rmtree(folder)
    again = load_features(features.directory, verify=True)
    assert again.fingerprint == features.fingerprint
    with pytest.raises(
        MissingDataError, match="an older version, which did not store the marks of each"
    ) as found:
        annotator_shares(again)
    assert found.value.hint == "remove this folder; the features are then built again"


def test_other_data_sets_have_one_mask_for_all():
    assert annotator_shares(sample_features()) is None
    assert shares_dir(sample_features()) is None

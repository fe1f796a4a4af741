"""The real beer files: sizes, splits, densities, and text that comes out of the tokenizer as it went in."""

import json
from collections import Counter
from pathlib import Path

import pyarrow.compute as pc
import pytest

from feature_store.checks import check_features, summary
from feature_store.sources.beer import Beer
from feature_store.store import FeatureRequest, Features, open_features
from feature_store.tokenize import tokenize

pytestmark = pytest.mark.real_data

VARIANCE = {"appearance": 0.0629, "smell": 0.0572, "palate": 0.0530}
"""Of the aspect's own score in the held-out files (measured once)."""

DENSITY = {"appearance": 0.18, "smell": 0.15, "palate": 0.126}
"""Share of tokens that humans marked, over the annotated reviews that have a rationale for the aspect."""


@pytest.fixture(scope="module", params=list(DENSITY))
def features(
    request: pytest.FixtureRequest, data_dir: Path, tmp_path_factory: pytest.TempPathFactory
) -> Features:
    cache_dir = tmp_path_factory.mktemp("beer")
    wanted = FeatureRequest(
        aspect=request.param, data_dir=data_dir, cache_dir=cache_dir, embedding="random", embedding_size=4
    )
    return open_features(wanted)


def test_split_sizes(features: Features):
    counts = features.provenance["counts"]
    assert "dropped_annotated_in_reviews" not in counts
    assert counts["train_rows"] + counts["val_rows"] == 10_000
    assert counts["val_rows"] == pytest.approx(1000, abs=120)  # four standard deviations of the hash
    assert counts["val_annotated_rows"] + counts["test_rows"] == 496
    assert counts["val_annotated_rows"] == pytest.approx(99, abs=36)


def test_everything_agrees_and_no_annotated_review_is_in_training(features: Features):
    assert check_features(features) == []


SHINGLE = 5
"""Tokens of a piece by which texts are compared."""


def shingles(tokens: list[str]) -> set[str]:
    return {" ".join(tokens[i : i + SHINGLE]) for i in range(len(tokens) - SHINGLE + 1)}


@pytest.mark.parametrize(
    ("aspect", "num_plain", "num_residual"),
    [("appearance", 19117, (8000, 12000)), ("smell", 19120, (2000, 4000)), ("palate", 19123, (2500, 4000))],
)
def test_no_annotated_review_or_one_nearly_equal_is_in_a_pool(
    aspect: str, num_plain: int, num_residual: tuple[int, int], data_dir: Path, tmp_path: Path
):
    plain: set[str] = set()
    for how in ("plain", "residual", "vectors"):
        request = FeatureRequest(
            **{"aspect": aspect, "data_dir": data_dir, "cache_dir": tmp_path, "options": {"pool": how}},
            **{"embedding": "random", "embedding_size": 4, "max_length": 2000},
        )
        features = open_features(request)
        assert check_features(features) == []
        table = features.table("pool" if how == "vectors" else "train").to_pydict()
        number = {"appearance": 0, "smell": 1, "palate": 2}[aspect]
        own = f"reviews.aspect{number}."
        pool = [t for t, i in zip(table["tokens"], table["example_id"], strict=True) if not i.startswith(own)]
        texts = {" ".join(tokens) for tokens in pool}
        if how == "residual":
            assert num_residual[0] < len(pool) < num_residual[1]
        else:
            assert len(pool) == num_plain
        if how != "plain":
            assert texts <= plain, "so none of them is nearly equal to an annotated review either"
            continue
        plain = texts
        annotated = [t for s in ("val_annotated", "test") for t in features.table(s)["tokens"].to_pylist()]
        holding: dict[str, list[int]] = {}
        for number, tokens in enumerate(annotated):
            for piece in shingles(tokens):
                holding.setdefault(piece, []).append(number)
        for tokens in pool:
            pieces = Counter(n for piece in shingles(tokens) for n in holding.get(piece, ()))
            for number, shared in pieces.most_common(1):
                assert shared < 0.5 * len(shingles(annotated[number])), " ".join(tokens)


def test_the_cut_is_said(features: Features):
    assert any("train and val are cut 90/10" in note for note in features.notes)


def test_variance_of_the_target(features: Features):
    assert features.task.target_variance == pytest.approx(VARIANCE[str(features.aspect)], abs=0.001)


def test_gold_density(features: Features):
    numbers = summary(features)
    tokens = marked = 0
    for split in ("val_annotated", "test"):
        table = features.table(split).filter(pc.field("rationale").is_valid())
        tokens += pc.sum(pc.list_value_length(table["tokens"])).as_py()
        marked += pc.sum(pc.list_value_length(table["rationale"])).as_py()
        assert numbers[split]["annotated_rows"] == table.num_rows
    assert marked / tokens == pytest.approx(DENSITY[str(features.aspect)], abs=0.01)


def test_annotated_reviews_stay_whole(features: Features):
    longest = max(
        pc.max(pc.list_value_length(features.table(s)["tokens"])).as_py() for s in ("val_annotated", "test")
    )
    assert longest == 324
    assert pc.max(pc.list_value_length(features.table("train")["tokens"])).as_py() == 256


def test_the_tokenizer_leaves_corpus_text_as_it_is(data_dir: Path):
    reviews = [
        json.loads(line)["x"] for line in (data_dir / "beer" / "annotations.json").read_text().splitlines()
    ]
    changed = [review for review in reviews if [token.text for token in tokenize(" ".join(review))] != review]
    assert len(changed) == 0


def test_the_tokenizer_cuts_raw_text_like_the_corpus(data_dir: Path):
    lines = (data_dir / "beer" / "annotations.json").read_text().splitlines()
    found = wanted = 0
    for record in map(json.loads, lines):
        # `raw` is a printed Python dict; its text is rough, so only the words are compared, as a bag
        text = record["raw"].split("'review/text': ")[1].rsplit(", 'user/profileName'", 1)[0].strip("'\"")
        text = text.encode().decode("unicode_escape")
        bag = [token.text for token in tokenize(text)]
        wanted += len(record["x"])
        for word in record["x"]:
            if word in bag:
                bag.remove(word)
                found += 1
    assert found / wanted > 0.99


def test_known_digests_are_those_of_the_files(data_dir: Path):
    from feature_store.fingerprint import file_digest

    known = {file.name: file.sha256 for file in Beer.remote_files if file.sha256}
    assert len(known) == 3
    for name, sha256 in known.items():
        assert file_digest(data_dir / "beer" / name) == sha256

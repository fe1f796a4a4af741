"""Beer as two classes: which reviews are kept, and as what."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from feature_store.errors import RequestError
from feature_store.sources import REGISTRY
from feature_store.sources.base import Example, Query, Report
from feature_store.store import FeatureRequest, fingerprint_of, open_features
from tests.own_corpora import examples_of

BEER = REGISTRY["beer"]
Ask = Callable[..., FeatureRequest]


def read(corpus: Path, **options: str) -> tuple[list[Example], Report]:
    report = Report()
    inputs = BEER.inputs(corpus, "palate", options)
    query = Query(inputs=inputs, aspect="palate", options=options, max_bytes=10**7)
    return examples_of(BEER.frames(query, BEER.task(query, report), report)), report


@pytest.fixture
def scored(corpus: Path, heldout: Path) -> Path:
    """The corpus with reviews of known scores for palate: 9 at most .4, 16 at least .6, 11 between."""
    scores = [0.0, 0.3, 0.4] * 3 + [0.6, 0.65, 0.9, 1.0] * 4 + [0.41, 0.45, 0.5, 0.55, 0.59] * 2 + [0.401]
    lines = [f"0.5 0.5 {score} 0.5 0.5\treview {i} tastes fine" for i, score in enumerate(scores)]
    (heldout.parent / "reviews.aspect2.train.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return corpus


def test_training_reviews_are_of_two_classes_of_one_size(scored: Path):
    examples, report = read(scored, target="polar")
    train = [example for example in examples if example.split == "train"]
    assert Counter(example.target for example in train) == {0: 9, 1: 9}
    whole = {example.example_id: example for example in read(scored)[0]}
    for example in train:
        score = whole[example.example_id].target
        assert example.target == (score > 0.5) and (score <= 0.4001 or score >= 0.5999)
    left_out = {why: numbers["train"] for why, numbers in report.dropped.items()}
    assert left_out == {"score between .4 and .6": 11, "more reviews than the other class has": 7}
    assert report.counts["train_dropped"] == 18


def test_other_splits_keep_every_review_of_a_class(scored: Path):
    whole, polar = read(scored)[0], read(scored, target="polar")[0]
    for split in ("val", "val_annotated", "test"):
        expected = [
            (e.example_id, float(e.target > 0.5), e.tokens, e.rationale)
            for e in whole
            if e.split == split and not 0.4001 < e.target < 0.5999
        ]
        found = [(e.example_id, e.target, e.tokens, e.rationale) for e in polar if e.split == split]
        assert found == expected
        assert found, split


def test_which_reviews_are_kept_depends_on_nothing_but_the_reviews(scored: Path):
    assert read(scored, target="polar")[0] == read(scored, target="polar")[0]


def test_a_pool_is_cut_to_two_classes_too(scored: Path):
    train = [e for e in read(scored, target="polar", pool="plain")[0] if e.split == "train"]
    number = Counter(e.target for e in train)
    assert number[0] == number[1] > 9
    assert any(e.example_id.startswith("reviews.aspect0.") for e in train)


def test_reviews_for_word_vectors_are_all_kept(scored: Path):
    pools = [
        [e.example_id for e in read(scored, pool="vectors", **more)[0] if e.split == "pool"]
        for more in ({}, {"target": "polar"})
    ]
    assert pools[0] == pools[1] != []


def test_adjusted_scores_have_no_classes(corpus: Path):
    with pytest.raises(RequestError, match="`pool=adjusted` changes scores, but `target=polar`"):
        BEER.inputs(corpus, "palate", {"target": "polar", "pool": "adjusted"})


def test_features_have_two_classes_and_say_what_was_left_out(scored: Path, make_request: Ask):
    features = open_features(make_request(options={"target": "polar"}))
    assert features.task.class_names == ("negative", "positive")
    reasons = [row["reason"] for row in features.provenance["dropped"]]
    assert reasons == ["score between .4 and .6", "more reviews than the other class has"]
    assert features.provenance["parameters"]["options"]["target"] == "polar"


def test_features_of_scores_keep_their_fingerprint(make_request: Ask):
    plain, stated, polar = (
        fingerprint_of(make_request(options=options))
        for options in ({}, {"target": "score"}, {"target": "polar"})
    )
    assert plain == stated != polar

"""The made-up corpus: its scores follow its words, its rationales its sentences, and nothing else does."""

import json
import random
from pathlib import Path

import numpy as np
import pytest

from feature_store import sample
from feature_store.sample import ASPECTS, make_review, write_beer

GRADE = {
    aspect: {
        word: grade
        for rows in (sample._SHARED, sample._OWN[aspect])
        for grade, words in zip(sample._GRADES, rows, strict=True)
        for word in words
    }
    for aspect in ASPECTS
}


@pytest.fixture(scope="module")
def reviews() -> list[sample.Review]:
    rng = random.Random(5)
    return [make_review(rng) for _ in range(800)]


def test_equal_seeds_give_equal_bytes(tmp_path: Path):
    for name in ("a", "b"):
        write_beer(tmp_path / name, seed=1, num_reviews=5, num_annotated=4)
    write_beer(tmp_path / "c", seed=2, num_reviews=5, num_annotated=4)
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == ["annotations.json", *(f"reviews.aspect{i}.heldout.txt" for i in range(3))]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
        assert (tmp_path / "a" / name).read_bytes() != (tmp_path / "c" / name).read_bytes()


def test_annotations_have_the_official_keys(tmp_path: Path):
    write_beer(tmp_path, seed=0, num_reviews=1, num_annotated=50)
    records = [json.loads(line) for line in (tmp_path / "annotations.json").read_text().splitlines()]
    assert len({record["rid"] for record in records}) == 50
    for record in records:
        assert set(record) == {"0", "1", "2", "3", "4", "raw", "y", "x", "rid"}
        assert len(record["y"]) == 5
    assert any(not record[str(i)] for record in records for i in range(3))  # some say nothing of an aspect
    assert all(record[str(i)] for record in records for i in (3, 4))


def test_a_score_is_the_mean_grade_of_its_own_sentences(reviews: list[sample.Review]):
    for review in reviews:
        for aspect, score in zip(ASPECTS, review.scores, strict=True):
            words = [word for start, end in review.spans[aspect] for word in review.tokens[start:end]]
            own = [
                GRADE[aspect][word] for word in words if word in GRADE[aspect] and not _fixed(aspect, word)
            ]
            assert score == pytest.approx(np.mean(own), abs=0.0051)  # written with two decimals


def _fixed(aspect: str, word: str) -> bool:
    """True for a word that a template holds itself."""
    return any(word in template for template in sample._TEMPLATES[aspect])


def test_graded_words_are_none_of_the_templates():
    for aspect in ASPECTS:
        assert not [word for word in GRADE[aspect] if _fixed(aspect, word)]


def test_lengths(reviews: list[sample.Review]):
    lengths = [len(review.tokens) for review in reviews]
    assert min(lengths) >= 30
    assert max(lengths) <= 70


@pytest.mark.parametrize("aspect", ASPECTS[:3])
def test_rationale_density(reviews: list[sample.Review], aspect: str):
    marked = sum(end - start for review in reviews for start, end in review.spans[aspect])
    assert 0.15 < marked / sum(len(review.tokens) for review in reviews) < 0.2


def test_spans_do_not_overlap_and_end_with_a_sentence(reviews: list[sample.Review]):
    for review in reviews:
        positions = [i for spans in review.spans.values() for start, end in spans for i in range(start, end)]
        assert len(positions) == len(set(positions))
        assert all(review.tokens[end - 1] == "." for spans in review.spans.values() for _, end in spans)


def test_scores_are_spread_and_independent(reviews: list[sample.Review]):
    scores = np.array([review.scores for review in reviews])
    assert (scores.var(axis=0) > 0.06).all()
    correlation = np.corrcoef(scores.T)[~np.eye(5, dtype=bool)]
    assert np.abs(correlation).max() < 0.12  # 3.4 standard deviations of chance


def test_some_aspects_have_two_sentences_and_some_reviews_are_shuffled(reviews: list[sample.Review]):
    two = np.mean([len(review.spans["palate"]) == 2 for review in reviews])
    assert 0.05 < two < 0.3
    natural = np.mean([review.spans["smell"][0] < review.spans["palate"][0] for review in reviews])
    assert 0.6 < natural < 0.95


def test_enough_templates_and_each_is_graded():
    for aspect in ASPECTS:
        assert len({tuple(template) for template in sample._TEMPLATES[aspect]}) >= 25
        assert all(template.count("{}") >= 2 for template in sample._TEMPLATES[aspect])
    assert len(sample._FILLERS) >= 25


def test_fillers_carry_no_graded_word():
    graded = {word for words in GRADE.values() for word in words}
    assert not graded & {word for filler in sample._FILLERS for word in filler}


def test_polarity_words_are_partly_shared():
    owners = {
        word: sum(word in GRADE[aspect] for aspect in ASPECTS) for words in GRADE.values() for word in words
    }
    shared = sum(count > 1 for count in owners.values()) / len(owners)
    assert 0.1 < shared < 0.5

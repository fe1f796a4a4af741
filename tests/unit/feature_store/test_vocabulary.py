"""Words and numbers, and back."""

from collections import Counter
from collections.abc import Mapping

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feature_store.vocabulary import PAD, UNK, Vocabulary
from feature_store.words import WordCodes, WordCounts, build_vocabulary, ids_by_code

TEXTS = st.lists(st.lists(st.sampled_from(["a", "b", "c", "d", PAD, UNK, "é"]), max_size=5), max_size=5)


def counted(counts: Mapping[str, int]) -> pl.DataFrame:
    return pl.DataFrame(
        {"word": list(counts), "count": list(counts.values())}, schema={"word": pl.String, "count": pl.Int64}
    )


def test_order_is_by_count_then_spelling():
    vocabulary, counts = build_vocabulary(counted({"b": 2, "c": 5, "a": 2}), min_count=1)
    assert vocabulary.tokens == [PAD, UNK, "c", "a", "b"]
    assert counts.tolist() == [0, 0, 5, 2, 2]
    assert counts.dtype == np.int64


def test_rare_words_are_unknown_and_counted_as_such():
    vocabulary, counts = build_vocabulary(counted({"b": 2, "c": 5, "a": 1, "d": 1}), min_count=2)
    assert vocabulary.tokens == [PAD, UNK, "c", "b"]
    assert counts.tolist() == [0, 2, 5, 2]
    assert vocabulary.encode(["a", "c", "never"]) == [1, 2, 1]


def test_words_spelt_like_special_ones_are_unknown():
    vocabulary, counts = build_vocabulary(counted({PAD: 3, UNK: 1, "a": 2}), min_count=1)
    assert vocabulary.tokens == [PAD, UNK, "a"]
    assert counts.tolist() == [0, 4, 2]
    assert vocabulary.encode([PAD, UNK, "a"]) == [1, 1, 2]


def test_length_and_membership():
    vocabulary = Vocabulary([PAD, UNK, "a"])
    assert len(vocabulary) == 3
    assert "a" in vocabulary
    assert "b" not in vocabulary


def test_special_words_come_first():
    with pytest.raises(ValueError, match=r"starts with <pad> and <unk>, but got \['a', 'b'\]"):
        Vocabulary(["a", "b"])


def test_a_word_stands_once():
    with pytest.raises(ValueError, match="the word 'a' is in the vocabulary twice"):
        Vocabulary([PAD, UNK, "a", "b", "a"])


@given(TEXTS, st.integers(1, 7))
def test_codes_lead_to_the_numbers_of_the_words_and_to_their_counts(texts: list[list[str]], size: int):
    vocabulary = Vocabulary([PAD, UNK, "b", "a", "é"])
    words = [word for text in texts for word in text]
    codes, counts, found = WordCodes(), WordCounts(), []
    for first in range(0, len(words), size):
        chunk = codes.encode(pl.Series(words[first : first + size], dtype=pl.String))
        counts.add(chunk)
        found += chunk.tolist()
    known = codes.words(counts.num_codes)
    assert [known[code] for code in found] == words
    assert sorted(known) == sorted(set(words))
    assert ids_by_code(known, vocabulary.tokens)[found].tolist() == vocabulary.encode(words)
    assert dict(zip(known, counts.by_code(len(known)).tolist(), strict=True)) == Counter(words)


def test_a_table_lacks_words_of_another():
    codes, of_train, of_test = WordCodes(), WordCounts(), WordCounts()
    of_train.add(codes.encode(pl.Series(["a", "b", "a"])))
    of_test.add(codes.encode(pl.Series(["c", "a"])))
    assert of_train.by_code(of_test.num_codes).tolist() == [2, 1, 0]
    assert of_test.by_code(3).tolist() == [1, 0, 1]


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(1, 9), max_size=8), st.integers(1, 5))
def test_no_token_is_lost(counts: dict[str, int], min_count: int):
    vocabulary, frequencies = build_vocabulary(counted(counts), min_count)
    assert frequencies.sum() == sum(counts.values())
    assert len(frequencies) == len(vocabulary)
    assert all(counts[word] >= min_count for word in vocabulary.tokens[2:])

"""Words and numbers, and back."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from feature_store.vocabulary import PAD, UNK, Vocabulary, build_vocabulary, encode_column

TEXTS = st.lists(st.lists(st.sampled_from(["a", "b", "c", "d", PAD, UNK, "é"]), max_size=5), max_size=5)


def test_order_is_by_count_then_spelling():
    vocabulary, counts = build_vocabulary(Counter({"b": 2, "c": 5, "a": 2}), min_count=1)
    assert vocabulary.tokens == [PAD, UNK, "c", "a", "b"]
    assert counts.tolist() == [0, 0, 5, 2, 2]
    assert counts.dtype == np.int64


def test_rare_words_are_unknown_and_counted_as_such():
    vocabulary, counts = build_vocabulary(Counter({"b": 2, "c": 5, "a": 1, "d": 1}), min_count=2)
    assert vocabulary.tokens == [PAD, UNK, "c", "b"]
    assert counts.tolist() == [0, 2, 5, 2]
    assert vocabulary.encode(["a", "c", "never"]) == [1, 2, 1]


def test_words_spelt_like_special_ones_are_unknown():
    vocabulary, counts = build_vocabulary(Counter({PAD: 3, UNK: 1, "a": 2}), min_count=1)
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
    with pytest.raises(ValueError, match="the word 'a' stands twice"):
        Vocabulary([PAD, UNK, "a", "b", "a"])


@given(TEXTS)
def test_a_column_is_numbered_like_its_rows(texts: list[list[str]]):
    vocabulary = Vocabulary([PAD, UNK, "b", "a", "é"])
    column = encode_column(pa.array(texts, pa.list_(pa.string())), pa.array(vocabulary.tokens))
    assert column.type == pa.list_(pa.int32())
    assert column.to_pylist() == [vocabulary.encode(text) for text in texts]


def test_a_slice_of_a_column_is_numbered_like_its_rows():
    texts = pa.array([["a"], ["b", "a"], ["zz"], ["a", "a"]], pa.list_(pa.string())).slice(1, 2)
    assert encode_column(texts, pa.array([PAD, UNK, "a", "b"])).to_pylist() == [[3, 2], [1]]


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.integers(1, 9), max_size=8), st.integers(1, 5))
def test_no_token_is_lost(counts: dict[str, int], min_count: int):
    vocabulary, frequencies = build_vocabulary(Counter(counts), min_count)
    assert frequencies.sum() == sum(counts.values())
    assert len(frequencies) == len(vocabulary)
    assert all(counts[word] >= min_count for word in vocabulary.tokens[2:])

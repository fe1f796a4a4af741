"""Batches: their words, and moving them without looking at them again."""

import dataclasses

import pytest
import torch

from infocal import batch as batch_module
from infocal.batch import Words
from tests.small_model import random_batch


def test_words_are_the_distinct_ones_and_stand_where_they_stood():
    token_ids = torch.tensor([[5, 3, 5], [3, 0, 9]])
    words = Words.of(token_ids)
    assert words.ids.tolist() == [0, 3, 5, 9]
    assert torch.equal(words.ids[words.index], token_ids)


def test_a_batch_knows_the_words_of_its_tokens():
    batch = random_batch([4, 2])
    assert torch.equal(batch.words.ids[batch.words.index], batch.token_ids)
    changed = dataclasses.replace(batch, token_ids=batch.token_ids + 1)
    assert torch.equal(changed.words.ids[changed.words.index], batch.token_ids + 1)


def test_a_moved_batch_is_the_same_and_looks_for_no_words(monkeypatch: pytest.MonkeyPatch):
    batch = random_batch([4, 2])
    monkeypatch.setattr(batch_module.Words, "of", None)
    moved = batch.to(torch.device("cpu"))
    assert torch.equal(moved.words.index, batch.words.index)
    assert torch.equal(moved.words.ids, batch.words.ids)
    for field in dataclasses.fields(batch):
        if field.name != "words":
            assert torch.equal(getattr(moved, field.name), getattr(batch, field.name)), field.name

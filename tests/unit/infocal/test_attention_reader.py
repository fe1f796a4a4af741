"""Attention over gated states: weights, gates, gradients, padding."""

import pytest
import torch

from infocal.nn.attention_reader import AttentionReader
from infocal.nn.encoders import build_encoder
from tests.small_encoder import WORD_ENCODERS
from tests.small_model import random_batch, random_embeddings, small_config
from tests.unit.infocal.test_selector_predictor import embedded

BATCH = random_batch([6, 3, 2, 5])


def reader(**changes):
    torch.manual_seed(0)
    config = small_config(**changes)
    return AttentionReader(config, build_encoder(config, 4))


@pytest.mark.parametrize("encoder", WORD_ENCODERS)
def test_equals_the_naive_form(encoder):
    model = reader(encoder=encoder)
    words, gate = embedded(BATCH.token_ids), BATCH.is_token.float()
    feature, weight = model(words, gate, BATCH.is_token)
    states = model.encoder(words, gate)
    for row, length in enumerate((6, 3, 2, 5)):
        energy = [model.query(torch.tanh(model.key(states[row, t]))).item() for t in range(length)]
        expected = torch.softmax(torch.tensor(energy), 0)
        assert torch.allclose(weight[row, :length], expected, rtol=1e-5)
        assert not weight[row, length:].any()
        pooled = sum(a * states[row, t] for t, a in enumerate(expected))
        assert torch.allclose(feature[row], model.feature(pooled), atol=1e-6)


def test_what_is_not_seen_has_no_weight():
    gate = torch.zeros_like(BATCH.is_token, dtype=torch.float32)
    gate[0, 2] = gate[1, 0] = 1
    feature, weight = reader()(embedded(BATCH.token_ids), gate, BATCH.is_token)
    assert weight.nonzero().tolist() == [[0, 2], [1, 0]]
    assert weight.sum(dim=1).tolist() == [1, 1, 0, 0]
    assert torch.isfinite(feature).all()


def test_the_gradient_reaches_every_gate():
    gate = BATCH.is_token.float().requires_grad_()
    feature, _ = reader()(embedded(BATCH.token_ids), gate, BATCH.is_token)
    feature.sum().backward()
    assert (gate.grad[BATCH.is_token] != 0).all()
    assert not gate.grad[~BATCH.is_token].any()


def test_words_of_the_table_are_used():
    assert embedded(BATCH.token_ids).vectors.shape[1] == random_embeddings().shape[1]

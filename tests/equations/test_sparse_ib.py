"""Sparse IB [Paranjape2020]: the prior of its bottleneck is the rate that it takes at inference."""

import math

import pytest
import torch

from infocal.methods.sparse_ib import SparseIBConfig, SparseIBTrainer
from infocal.nn.ranking import num_taken
from tests.small_model import CLASSES, REGRESSION, random_batch, random_embeddings

PI = 0.3


@pytest.mark.parametrize("task", [REGRESSION, CLASSES], ids=["score", "classes"])
def test_one_step_is_that_of_the_formula(task):
    config = SparseIBConfig(hidden_size=3, target_selection_rate=PI, dense_epochs=0.0, ramp_epochs=0.0)
    trainer = SparseIBTrainer(
        config, task, random_embeddings(), steps_per_epoch=3, seed=0, device=torch.device("cpu")
    )
    batch = random_batch([6, 3, 2, 5], task=task)
    torch.manual_seed(1)
    forward = trainer.model(batch.words, batch.is_token)
    torch.manual_seed(1)
    terms, mask, _ = trainer.step_terms(batch)
    inside = mask[batch.is_token]
    assert ((inside > 0) & (inside < 1)).all(), "relaxed"
    total = 0.0
    for p in torch.sigmoid(forward.select_logit[batch.is_token]).tolist():
        total += p * math.log(p / PI) + (1 - p) * math.log((1 - p) / (1 - PI))
    assert terms["ib"].item() == pytest.approx(total / 4, rel=1e-5)
    assert trainer.objective(terms).item() == pytest.approx(
        terms["sp"].item() + config.lambda_ib * terms["ib"].item(), rel=1e-6
    )


def test_the_top_share_is_taken_at_inference():
    config = SparseIBConfig(hidden_size=3, target_selection_rate=PI)
    trainer = SparseIBTrainer(
        config, REGRESSION, random_embeddings(), steps_per_epoch=3, seed=0, device=torch.device("cpu")
    )
    batch = random_batch([6, 3, 2, 5])
    model = trainer.model.eval()
    with torch.no_grad():
        found = model.infer(batch.words, batch.is_token)
        logit = model.selector(model.embed(batch.words), batch.is_token)
    for row, taken in enumerate(num_taken(batch.is_token, PI).flatten().int().tolist()):
        length = int(batch.is_token[row].sum())
        best = set(logit[row, :length].topk(taken).indices.tolist())
        assert set(found.mask[row].nonzero().flatten().tolist()) == best

"""The continuous model's two readings and the RNNLM: values by hand, padding, unknown words, and learning."""

import math

import numpy as np
import pytest
import torch

from infocal.batch import Batch
from infocal.errors import ConfigError
from infocal.language_model_config import LanguageModelConfig
from infocal.language_models import continuous
from infocal.language_models.continuous import RATIO, SOFTMAX
from infocal.language_models.recurrent import RecurrentConfig, RecurrentTrainer
from infocal.methods.infocal.language_model import LanguageModel
from infocal.metrics.perplexity import log_frequencies, of_texts

CPU = torch.device("cpu")
COUNTS = np.array([0, 2, 4, 2, 1, 1])
"""Padding, the unknown word and V = 4 words."""
SMALL = RecurrentConfig(
    embedding_size=8, hidden_size=8, dropout=0.0, num_epochs=30, batch_size=4, learning_rate=0.05
)


def batch(*texts: list[int], first: int = 0) -> Batch:
    length = max(map(len, texts))
    ids = torch.tensor([[*text, *[0] * (length - len(text))] for text in texts])
    is_token = torch.tensor([[i < len(text) for i in range(length)] for text in texts])
    return Batch(
        token_ids=ids,
        is_token=is_token,
        target=torch.zeros(len(texts)),
        lm_logit=torch.zeros(ids.shape),
        human_rationale=torch.zeros(ids.shape),
        index=torch.arange(first, first + len(texts)),
    )


def model(seed: int = 0) -> LanguageModel:
    torch.manual_seed(seed)
    return LanguageModel(LanguageModelConfig(hidden_size=5), torch.randn(len(COUNTS), 3)).eval()


def continuous_log_p(of: LanguageModel, reading, *batches: Batch):
    return continuous.log_p(of, batches, torch.from_numpy(log_frequencies(COUNTS)), reading)


def recurrent() -> RecurrentTrainer:
    return RecurrentTrainer(SMALL, torch.from_numpy(COUNTS), CPU)


# ------------------------------------------------------------------------------------ the continuous model


def test_a_model_without_a_score_is_uniform_or_knows_the_frequencies():
    silent = model()
    torch.nn.init.zeros_(silent.bilinear.weight)
    (found,) = continuous_log_p(silent, SOFTMAX, batch([3, 2, 5]))
    assert np.exp(found) == pytest.approx([1 / 4, 1 / 4])
    (found,) = continuous_log_p(silent, RATIO, batch([3, 2, 5]))
    assert np.exp(found) == pytest.approx([4 / 8, 1 / 8])


@pytest.mark.parametrize("reading", [RATIO, SOFTMAX])
def test_equals_the_naive_form(reading):
    of, ids = model(), [2, 5, 3, 4]
    query = of.query(torch.tensor([ids]))[0].detach()
    frequency = [4 / 8, 2 / 8, 1 / 8, 1 / 8] if reading == RATIO else [1.0] * 4
    wanted = []
    for i in range(1, len(ids)):
        weight = [frequency[w] * math.exp(float(query[i] @ of.embeddings[w + 2])) for w in range(4)]
        wanted.append(weight[ids[i] - 2] / sum(weight))
    (found,) = continuous_log_p(of, reading, batch(ids))
    assert np.exp(found) == pytest.approx(wanted, rel=1e-5)


def test_the_best_model_of_eq_19_has_the_probabilities_it_was_trained_on():
    # one history, three words: s_w = log p(w | h) / p(w) is where the loss is least, and RATIO turns it back
    conditional = np.array([0.1, 0.2, 0.3, 0.4])
    frequency = COUNTS[2:] / COUNTS[2:].sum()
    of = LanguageModel(LanguageModelConfig(hidden_size=1), torch.zeros(6, 1)).eval()
    of.embeddings[2:, 0] = torch.from_numpy(np.log(conditional / frequency)).float()
    of.query = lambda ids: torch.ones(*ids.shape, 1)  # type: ignore[method-assign]
    found = continuous_log_p(of, RATIO, batch([2, 2], [2, 3], [2, 4], [2, 5]))
    assert np.exp(np.concatenate(found)) == pytest.approx(conditional, rel=1e-5)


# ----------------------------------------------------------------------------------------------- all models


@pytest.mark.parametrize("kind", [RATIO, SOFTMAX, "recurrent"])
def test_padding_has_no_part(kind):
    trainer, of = recurrent(), model()

    def log_p(*batches: Batch):
        return trainer.log_p(batches) if kind == "recurrent" else continuous_log_p(of, kind, *batches)

    texts = [[2, 3], [5, 4, 3, 2, 2, 3], [3]]
    alone = [log_p(batch(text))[0] for text in texts]
    for found, wanted, text in zip(log_p(batch(*texts)), alone, texts, strict=True):
        assert len(found) == len(text) - 1
        assert found == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("kind", [RATIO, SOFTMAX, "recurrent"])
def test_probabilities_sum_to_1_over_the_known_words(kind):
    trainer, of = recurrent(), model()
    every = batch(*([2, 1, 3, word] for word in range(2, 6)))
    found = trainer.log_p([every]) if kind == "recurrent" else continuous_log_p(of, kind, every)
    assert sum(math.exp(values[-1]) for values in found) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("kind", [RATIO, "recurrent"])
def test_rows_come_back_in_the_order_of_the_table(kind):
    trainer, of = recurrent(), model()
    last, first = batch([2, 3, 4], first=1), batch([5, 4])
    found = trainer.log_p([last, first]) if kind == "recurrent" else continuous_log_p(of, kind, last, first)
    assert [len(values) for values in found] == [1, 2]


# -------------------------------------------------------------------------------------------- the RNNLM


def test_it_learns_a_pattern_and_keeps_its_best_epoch():
    texts = [[2, 3, 4, 5] * 3] * 8
    trainer = recurrent()
    losses = list(trainer.train(lambda epoch: [batch(*texts)] * 4, lambda: [batch(*texts)]))
    ids = [np.array(text) for text in texts]
    found = of_texts(ids, trainer.log_p([batch(*texts)])).perplexity
    assert found < 1.5, losses
    assert math.log(found) == pytest.approx(min(losses), abs=1e-5)


def test_it_ends_when_the_validation_loss_no_longer_falls():
    trainer = RecurrentTrainer(SMALL, torch.from_numpy(COUNTS), CPU)
    train, val = batch([2, 3, 2, 3, 2, 3]), batch([2, 2, 3, 3])  # what it learns is wrong there
    losses = list(trainer.train(lambda epoch: [train] * 20, lambda: [val]))
    assert len(losses) < SMALL.num_epochs
    assert losses[-1] >= min(losses[:-1])


def test_the_same_seed_gives_the_same_model():
    texts = batch([2, 3, 4, 5], [3, 2, 2, 4])
    found = []
    for _ in range(2):
        trainer = recurrent()
        list(trainer.train(lambda epoch: [texts], lambda: [texts]))
        found.append(np.concatenate(trainer.log_p([texts])))
    assert np.array_equal(*found)


def test_texts_without_a_scored_token_train_nothing():
    trainer = recurrent()
    before = [one.clone() for one in trainer.model.parameters()]
    assert next(trainer.train(lambda epoch: [batch([2], [3, 1])], lambda: [batch([2])])) == 0.0
    assert all(torch.equal(a, b) for a, b in zip(before, trainer.model.parameters(), strict=True))


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ({"dropout": 1.0}, r"`dropout` must lie in \[0, 1\), but got 1.0"),
        ({"hidden_size": 0}, "`hidden_size` must be > 0, but got 0"),
    ],
)
def test_values_out_of_range_are_refused(values, error):
    with pytest.raises(ConfigError, match=error):
        RecurrentConfig(**values)

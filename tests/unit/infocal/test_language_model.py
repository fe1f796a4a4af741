"""The continuous language model: what its scores depend on, and that they learn who follows whom."""

import dataclasses
import math

import pytest
import torch

from infocal.errors import ConfigError
from infocal.losses import negative_sampling
from infocal.methods.infocal.language_model import LanguageModel, LanguageModelConfig, LanguageModelTrainer
from tests.small_model import NUM_WORDS, random_batch, random_embeddings

TEXT = torch.tensor([[3, 1, 4, 1, 5, 9]])
BATCH = random_batch([5, 1, 3], first_row=40)


def model(**changes):
    torch.manual_seed(0)
    return LanguageModel(LanguageModelConfig(**{"hidden_size": 5} | changes), random_embeddings())


def trainer(batches=(), **changes):
    values = {"hidden_size": 8, "num_negatives": 16, "learning_rate": 0.02} | changes
    counts = torch.zeros(NUM_WORDS, dtype=torch.int64)
    for batch in batches or [BATCH]:
        counts += torch.bincount(batch.token_ids[batch.is_token], minlength=NUM_WORDS)
    config = LanguageModelConfig(**values)
    return LanguageModelTrainer(config, random_embeddings(), counts, torch.device("cpu"))


def cycle(length=12):
    """Eight texts that go round 1 2 3 4, from different starts."""
    batch = random_batch([length] * 8)
    token_ids = (torch.arange(length) + torch.arange(8)[:, None]) % 4 + 1
    return dataclasses.replace(batch, token_ids=token_ids)


# ---------------------------------------------------------------- scores


def test_the_first_token_has_no_context_and_scores_zero():
    assert model()(TEXT)[0, 0].item() == 0.0


@pytest.mark.parametrize("changed", range(6))
def test_a_score_depends_on_the_tokens_up_to_it_alone(changed):
    net = model()
    other = TEXT.clone()
    other[0, changed] = 7
    before, after = net(TEXT)[0], net(other)[0]
    assert torch.equal(before[:changed], after[:changed])
    assert (before[max(changed, 1) :] != after[max(changed, 1) :]).all()


@pytest.mark.parametrize("changed", range(6))
def test_a_query_depends_on_the_tokens_before_it_alone(changed):
    net = model()
    other = TEXT.clone()
    other[0, changed] = 7
    before, after = net.query(TEXT)[0], net.query(other)[0]
    assert torch.equal(before[: changed + 1], after[: changed + 1])
    assert (before[changed + 1 :] != after[changed + 1 :]).any(dim=-1).all()


def test_a_score_is_the_bilinear_form():
    # s_i = h_i' M e_i, with h_i the recurrent state after x_{i-1}
    net = model()
    table = random_embeddings()
    states = net.recurrent(table[TEXT])[0][0]
    expected = [0.0] + [
        (states[i - 1] @ net.bilinear.weight.T @ table[TEXT[0, i]]).item() for i in range(1, 6)
    ]
    assert net(TEXT)[0].tolist() == pytest.approx(expected, abs=1e-6)


def test_embeddings_are_frozen_and_no_part_of_the_state():
    net = model()
    assert "embeddings" not in net.state_dict()
    net(TEXT).sum().backward()
    assert not net.embeddings.requires_grad


def test_scores_come_by_row_with_the_length_of_the_text():
    lm = trainer()
    scores = lm.score([BATCH, random_batch([2], seed=1, first_row=7)])
    assert {row: len(values) for row, values in scores.items()} == {40: 5, 41: 1, 42: 3, 7: 2}
    assert torch.allclose(scores[42], lm.model(BATCH.token_ids[[2], :3])[0], atol=1e-6)
    assert lm.model.training


def test_scoring_leaves_no_graph():
    assert not any(values.requires_grad for values in trainer().score([BATCH]).values())


# ---------------------------------------------------------------- the loss


def test_the_loss_is_negative_sampling_from_the_second_token_on():
    net = model()
    negatives = torch.tensor([2, 6, 6])
    query, table = net.query(BATCH.token_ids), random_embeddings()
    # real tokens behind a first one: four in the first text, none in the second, two in the third
    places = [(0, 1), (0, 2), (0, 3), (0, 4), (2, 1), (2, 2)]
    positive = torch.stack([query[b, t] @ table[BATCH.token_ids[b, t]] for b, t in places])
    negative = torch.stack([table[negatives] @ query[b, t] for b, t in places])
    expected = negative_sampling(positive[None], negative[None], torch.ones(1, 6, dtype=torch.bool))
    loss = net.loss(BATCH.token_ids, BATCH.is_token, negatives)
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)


def test_an_untrained_model_costs_about_two_bits():
    assert trainer().train_epoch([BATCH]) == pytest.approx(2 * math.log(2), abs=0.2)


# ---------------------------------------------------------------- training


def test_learns_who_follows_whom():
    batches = [cycle()] * 10
    lm = trainer(batches)
    losses = [lm.train_epoch(batches) for _ in range(6)]
    assert losses[-1] < 0.75 * losses[0]
    with torch.no_grad():
        query = lm.model.query(batches[0].token_ids)[0, -1]
    scores = lm.model.embeddings[1:5] @ query
    follower = batches[0].token_ids[0, -1].item() - 1
    assert scores.argmax().item() == follower
    assert scores[follower].item() > 0, "a follower must score above 0, or L_lm turns against adjacent tokens"
    assert scores[follower].item() > scores[[i for i in range(4) if i != follower]].max().item() + 1


def test_negatives_follow_the_training_counts(monkeypatch):
    lm = trainer()
    seen = []
    monkeypatch.setattr(
        lm.model, "loss", lambda ids, real, negatives: seen.append(negatives) or ids.sum() * weight
    )
    weight = torch.ones((), requires_grad=True)
    for _ in range(200):
        lm.train_epoch([BATCH])
    shares = torch.bincount(torch.cat(seen), minlength=NUM_WORDS) / (200 * 16)
    counts = torch.bincount(BATCH.token_ids[BATCH.is_token], minlength=NUM_WORDS)
    assert torch.allclose(shares, counts / counts.sum(), atol=4 * 0.5 / (200 * 16) ** 0.5)
    assert shares[0] == 0, "padding is never a negative"


def test_texts_of_one_token_teach_nothing():
    lm = trainer()
    before = {n: p.clone() for n, p in lm.model.named_parameters()}
    assert lm.train_epoch([random_batch([1, 1])]) == 0.0
    assert all(torch.equal(p, before[n]) for n, p in lm.model.named_parameters())


def test_the_same_seed_gives_the_same_model():
    def weights(seed):
        lm = trainer(seed=seed)
        lm.train_epoch([BATCH] * 2)
        return torch.cat([p.flatten() for p in lm.model.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


# ---------------------------------------------------------------- the config


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((n, v) for n in ("hidden_size", "num_negatives", "num_epochs", "batch_size") for v in (0, -1)),
        *((n, v) for n in ("learning_rate", "clip_norm") for v in (0.0, -0.5)),
        ("learning_rate", math.nan),
    ],
)
def test_config_errors(name, value):
    with pytest.raises(ConfigError, match=f"^language model: `{name}` must be > 0, but got {value}$"):
        LanguageModelConfig(**{name: value})


def test_config_round_trip():
    config = LanguageModelConfig(hidden_size=7, seed=3)
    assert LanguageModelConfig(**config.to_dict()) == config

"""Attention supervised by human rationales [Mathew2021], and the encoder's mark that BERT rows read."""

import dataclasses
import math

import pytest
import torch

from infocal import losses
from infocal.errors import ConfigError
from infocal.methods.bert import BertConfig, BertModel
from infocal.methods.classifier import supervision
from infocal.methods.registry import method
from tests.small_encoder import CLS, SEP, given_to, small_pretrained
from tests.small_model import CLASSES, random_batch

CPU = torch.device("cpu")
PLAIN = random_batch([6, 3, 2, 5], task=CLASSES)
SHARES = torch.tensor([[0, 1, 2 / 3, 0, 0, 0], [1, 1, 0, 0, 0, 0], [0] * 6, [0, 0, 0, 0, 1 / 3, 0]])
BATCH = dataclasses.replace(PLAIN, human_rationale=SHARES)
every_supervised = pytest.mark.parametrize("name", ["birnn_hatexplain", "bert_hatexplain"])


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


def trainer_of(name, **changes):
    found = method(name)
    values = {"hidden_size": 3, "embedding_dropout": 0.0, "fc_dropout": 0.0, **changes}
    values |= {"pretrained": "small"} if name.startswith("bert") else {}
    config = found.config_class().from_mapping(values)
    given, counts = given_to(config.encoder), [5, 3, 2]
    return found.trainer_class()(
        config, CLASSES, given, steps_per_epoch=3, seed=0, device=CPU, class_counts=counts
    )


def read(model, batch=PLAIN):
    return model.read(model.embed(batch.words), batch.is_token.float(), batch.is_token)


def loss(log_attention, human, is_token, sharpness=1.0):
    rows = (torch.tensor([values], dtype=torch.float64) for values in (log_attention, human))
    return losses.attention_supervision(*rows, torch.tensor([is_token]), sharpness).item()


def test_golden_value():
    # both annotators marked the first of two tokens: a = (e, 1) / (e + 1); alpha = (1/4, 3/4)
    e = math.e
    expected = -(e * math.log(0.25) + math.log(0.75)) / (e + 1)
    logs = [math.log(0.25), math.log(0.75), 9.0]
    assert loss(logs, [1.0, 0.0, 1.0], [True, True, False]) == pytest.approx(expected, rel=1e-12)


def test_where_nobody_marked_anything_all_tokens_are_asked_for_alike():
    # -1/3 (log 1/2 + log 1/4 + log 1/4) = 5/3 log 2
    logs = [math.log(0.5), math.log(0.25), math.log(0.25)]
    assert loss(logs, [0.0, 0.0, 0.0], [True] * 3, 5.0) == pytest.approx(5 / 3 * math.log(2), rel=1e-12)
    uniform = [math.log(1 / 3)] * 3
    assert loss(uniform, [0.0, 0.0, 0.0], [True] * 3) == pytest.approx(math.log(3), rel=1e-12)


def test_it_is_least_at_the_target_itself():
    human, is_token = SHARES.double(), PLAIN.is_token
    energy = (3.0 * human).requires_grad_()
    log_attention = energy.masked_fill(~is_token, -torch.inf).log_softmax(dim=1)
    value = losses.attention_supervision(log_attention.masked_fill(~is_token, 0.0), human, is_token, 3.0)
    (slope,) = torch.autograd.grad(value, energy)
    assert slope.abs().max() < 1e-12


@every_supervised
def test_the_term_is_the_loss_of_its_heads(name):
    trainer = trainer_of(name, target_sharpness=2.0)
    terms, _, _ = trainer.step_terms(BATCH)
    heads = read(trainer.model).log_attention.unbind(dim=1)
    each = [losses.attention_supervision(head, SHARES, BATCH.is_token, 2.0).item() for head in heads]
    assert len(each) == {"birnn_hatexplain": 1, "bert_hatexplain": 2}[name]
    assert terms["attention"].item() == pytest.approx(sum(each), rel=1e-5)
    weight = trainer.config.lambda_attention
    assert weight == {"birnn_hatexplain": 100.0, "bert_hatexplain": 0.001}[name]
    objective = terms["sp"] + weight * terms["attention"]
    assert trainer.objective(terms).item() == pytest.approx(objective.item(), rel=1e-6)


def test_no_more_heads_are_supervised_than_asked_for():
    trainer = trainer_of("bert_hatexplain", num_supervised_heads=1)
    terms, _, _ = trainer.step_terms(BATCH)
    reading = read(trainer.model)
    assert terms["attention"].item() == pytest.approx(supervision(BATCH, reading, 1.0, 1).item(), rel=1e-5)
    assert terms["attention"].item() < supervision(BATCH, reading, 1.0, 2).item()


@every_supervised
def test_attention_moves_to_what_was_marked(name):
    changes = {"lambda_attention": 10.0, "learning_rate": 0.02, "encoder_learning_rate": 0.01}
    if name == "bert_hatexplain":
        changes |= {"warmup_epochs": 0.0, "decay_epochs": 0.0}
    trainer = trainer_of(name, target_sharpness=6.0, **changes)
    terms = [trainer.train_step(BATCH)["attention"].item() for _ in range(60)]
    assert terms[-1] < 0.75 * terms[0]
    model = trainer.model.eval()
    with torch.no_grad():
        best = model.importance(model.embed(BATCH.words), BATCH.is_token).argmax(dim=1)
    assert [best[0].item(), best[3].item()] == [1, 4]


# ------------------------------------------------------------------------------------- the mark of a text


def bert(**changes):
    torch.manual_seed(0)
    return BertModel(BertConfig(pretrained="small", **changes), CLASSES, small_pretrained()).eval()


def reading_alone(model, row):
    """State and attention of the mark of one text, by transformers' model alone."""
    pretrained = small_pretrained()
    bounds = pretrained.first_piece.tolist()
    ids = PLAIN.token_ids[row][PLAIN.is_token[row]].tolist()
    words = [pretrained.piece_ids[bounds[word] : bounds[word + 1]].tolist() for word in ids]
    pieces = torch.tensor([[CLS, *(piece for word in words for piece in word), SEP]])
    found = model.encoder.model(pieces, output_attentions=True)
    heads = found.attentions[-1][0, :, 0, 1:-1].split([len(word) for word in words], dim=1)
    summed = torch.stack([part.sum(dim=1) for part in heads], dim=1)
    return found.last_hidden_state[0, 0], summed / summed.sum(dim=1, keepdim=True)


def test_the_marks_state_and_attention_are_those_of_the_library():
    model = bert()
    with torch.no_grad():
        mark = model.encoder.read_by_mark(model.embed(PLAIN.words), PLAIN.is_token.float())
        reading = read(model)
        for row, n in enumerate((6, 3, 2, 5)):
            state, share = reading_alone(model, row)
            assert torch.allclose(mark.state[row], state, atol=1e-5)
            assert torch.allclose(reading.log_attention[row, :, :n].exp(), share, atol=1e-5)
            logit = model.output(torch.tanh(model.feature(state)))
            assert torch.allclose(reading.logit[row], logit, atol=1e-5)


def test_the_rationale_is_the_mean_attention_of_the_heads():
    model = bert()
    with torch.no_grad():
        found = model.importance(model.embed(PLAIN.words), PLAIN.is_token)
        expected = read(model).log_attention.exp().mean(dim=1) * PLAIN.is_token
    assert torch.allclose(found, expected)
    assert torch.allclose(found.sum(dim=1), torch.ones(4), atol=1e-6)


def test_a_text_in_several_windows_has_the_mean_of_their_marks():
    long = random_batch([9, 4], task=CLASSES)
    model = bert(window_size=6, window_stride=2)
    with torch.no_grad():
        embedded = model.embed(long.words)
        mark = model.encoder.read_by_mark(embedded, long.is_token.float())
        layout = embedded.pieces
        stands = layout.word <= 18
        vectors = model.encoder.model.get_input_embeddings()(layout.ids) * stands.unsqueeze(-1)
        found = model.encoder.model(inputs_embeds=vectors, attention_mask=stands.long())
    states = found.last_hidden_state[:, 0]
    is_first = (layout.word.masked_fill(layout.word >= 18, -1).amax(dim=1) < 9).tolist()
    assert 1 < sum(is_first) < len(is_first)
    for row, wanted in enumerate((True, False)):
        own = [state for state, first in zip(states, is_first, strict=True) if first is wanted]
        assert torch.allclose(mark.state[row], torch.stack(own).mean(dim=0), atol=1e-5)


def test_an_encoder_without_a_mark_before_the_text_is_refused():
    unmarked = dataclasses.replace(small_pretrained(), prefix=[])
    message = "BERT predicts from the special token before a text"
    with pytest.raises(ConfigError, match=message):
        BertModel(BertConfig(pretrained="small"), CLASSES, unmarked)


def test_the_published_hyper_parameters_are_the_defaults():
    keys = ("learning_rate", "batch_size", "class_weights", "fc_dropout")
    shown = {}
    for name in ("birnn_hatexplain", "bert", "bert_hatexplain"):
        config = dataclasses.asdict(method(name).config_class()())
        shown[name] = tuple(config[key] for key in keys)
    assert shown == {
        "birnn_hatexplain": (0.001, 32, "balanced", 0.2),
        "bert": (5e-5, 16, "equal", 0.1),
        "bert_hatexplain": (2e-5, 16, "balanced", 0.1),
    }
    own = method("birnn_hatexplain").config_class()()
    assert (own.hidden_size, own.embedding_dropout, own.train_embeddings) == (64, 0.5, True)

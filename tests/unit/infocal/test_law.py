"""The classifiers of legal cases: the graph of their targets, and each piece against its naive form."""

import dataclasses
import json
import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from infocal.config import Task
from infocal.errors import ConfigError
from infocal.methods.fla import ArticleAttention, ArticleTexts, FlaConfig
from infocal.methods.mpbfn_wca import Collocations, MpbfnWcaConfig, product_of_experts, verified
from infocal.methods.registry import method
from infocal.methods.topjudge import TargetCell, TopjudgeConfig
from infocal.nn.encoders import Embedded
from infocal.nn.text_filters import TextFilters
from infocal.task_graph import TaskGraph
from pipeline.training.checkpoints import Package, load_package, save_package
from tests.small_encoder import given_to
from tests.small_model import LAW, SEVERAL, random_batch, random_embeddings

NAMES = ["charges", "articles", "terms"]
DEFAULT = TopjudgeConfig().dependencies
CPU = torch.device("cpu")
LENGTHS = [6, 3, 1, 5]
BATCH = random_batch(LENGTHS, task=LAW)


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


every_law_method = pytest.mark.parametrize("name", ["topjudge", "mpbfn_wca"])


def model_of(name, task=LAW, **changes):
    found = method(name)
    values = {"hidden_size": 3, "num_filters": 2, "embedding_dropout": 0.0, **changes}
    trainer = found.trainer_class()(
        found.config_class().from_mapping(values),
        task,
        given_to("cnn"),
        steps_per_epoch=3,
        seed=0,
        device=CPU,
    )
    return trainer.model.eval()


def texts(batch=BATCH):
    """What an encoder is given: the words, open gates and where tokens stand."""
    embedded = Embedded(random_embeddings()[batch.words.ids], batch.words.index)
    return embedded, batch.is_token.float(), batch.is_token


def wider(embedded, gate, is_token, by=3):
    """The same texts with more padding."""
    padded = [functional.pad(one, (0, by)) for one in (embedded.index, gate, is_token)]
    return Embedded(embedded.vectors, padded[0]), padded[1], padded[2]


# ---------------------------------------------------------------------------------------------- the graph


def test_the_default_graph_is_articles_then_charges_then_terms():
    graph = TaskGraph.of(DEFAULT, NAMES)
    assert [NAMES[number] for number in graph.order] == ["articles", "charges", "terms"]
    assert graph.before == ((1,), (), (1, 0))
    assert graph.after == ((2,), (0, 2), ())


def test_a_graph_may_be_another_one_or_empty():
    assert TaskGraph.of("", NAMES).order == (0, 1, 2)
    assert TaskGraph.of(" articles = terms ", NAMES).before == ((), (2,), ())
    assert TaskGraph.of("charges=terms,articles=charges", NAMES).order == (2, 0, 1)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "charges",
            "must be TARGET=TARGET.TARGET,TARGET=TARGET with each target at most once to the left of a `=` "
            "and at most once in a sum, but got",
            None,
        ),
        ("charges=", "must be TARGET=TARGET", None),
        ("charges=terms+terms", "must be TARGET=TARGET", None),
        ("charges=terms,charges=articles", "must be TARGET=TARGET", None),
        (
            "charges=article",
            "names the target `article`, but the targets are `charges`, `art",
            "did you mean",
        ),
        ("smell=palate", "names the target `smell`, but the targets are", "state what these targets read"),
        (
            "charges=charges",
            r"has a circle \(`charges` reads `charges`\), so no target can be predicted first",
            "leave one",
        ),
        ("charges=terms,terms=charges", "no target can be predicted first", "leave one of them out"),
    ],
)
def test_a_graph_that_is_none_is_refused(text, message, hint):
    with pytest.raises(ConfigError, match=message) as caught:
        TaskGraph.of(text, NAMES)
    assert (caught.value.hint is None) == (hint is None) or hint in caught.value.hint


@every_law_method
def test_a_graph_of_other_targets_is_refused_before_training(name):
    config = method(name).config_class()()
    with pytest.raises(ConfigError, match="names the target `charges`, but the targets are `charge`, `term`"):
        config.weighted(SEVERAL)
    with pytest.raises(ConfigError, match="`dependencies` must be TARGET=TARGET"):
        dataclasses.replace(config, dependencies="articles>charges")
    assert dataclasses.replace(config, dependencies="charge=article").weighted(SEVERAL) == SEVERAL


@every_law_method
def test_a_target_reads_what_the_graph_says_and_nothing_else(name):
    """The gradient of a target's logits reaches the layers of the targets that it reads, and no others."""
    model = model_of(name, dependencies="charges=articles")
    logit = model.logits(*texts())
    reached = {}
    for head, its in zip(LAW.heads, LAW.columns, strict=True):
        model.zero_grad()
        # of a sum of squares: the sum of log-probabilities' gradients vanishes at uniform ones
        logit[:, its].square().sum().backward(retain_graph=True)
        reached[head.name] = {n for n, p in model.named_parameters() if p.grad is not None and p.grad.any()}
    own = {"topjudge": "cells.2.", "mpbfn_wca": "forward_layers.2."}[name]
    assert any(n.startswith(own) for n in reached["terms"])
    assert not any(n.startswith(own) for n in reached["charges"] | reached["articles"])
    first = {"topjudge": "cells.1.", "mpbfn_wca": "forward_layers.1."}[name]
    assert any(n.startswith(first) for n in reached["charges"])
    assert not any(n.startswith(first) for n in reached["terms"])
    back = {n for n in reached["articles"] if n.startswith(("cells.0.", "verifiers.0-1"))}
    assert bool(back) == (name == "mpbfn_wca"), "MPBFN-WCA alone verifies an earlier target by a later one"


@every_law_method
def test_weights_of_targets_are_those_of_the_loss(name):
    found = method(name)
    trainer = found.trainer_class()(
        found.config_class().from_mapping({"hidden_size": 3, "target_weights": "terms=0,articles=2"}),
        LAW,
        given_to("cnn"),
        steps_per_epoch=3,
        seed=0,
        device=CPU,
    )
    trainer.model.eval()
    terms, _, _ = trainer.step_terms(BATCH)
    embedded = trainer.model.embed(BATCH.words)
    logit = trainer.model.logits(embedded, BATCH.is_token.float(), BATCH.is_token)
    target = BATCH.target.long()
    each = [
        functional.cross_entropy(logit[:, its], target[:, number]).item()
        for number, its in enumerate(LAW.columns)
    ]
    assert terms["sp"].item() == pytest.approx(each[0] + 2 * each[1], rel=1e-5)


def test_scores_are_no_targets_of_mpbfn():
    with pytest.raises(ConfigError, match="MPBFN-WCA predicts classes, but the target `term` is a score"):
        model_of("mpbfn_wca", SEVERAL, dependencies="charge=article")
    model_of("topjudge", SEVERAL, dependencies="charge=article")


# -------------------------------------------------------------------------------------------- the filters


def test_golden_filters():
    """One filter of each width that adds up words of one dimension: the largest sum of neighbours."""
    filters = TextFilters(1, 1, torch.relu)
    for layer in filters.filters:
        nn.init.ones_(layer.weight)
        nn.init.zeros_(layer.bias)
    embedded = Embedded(torch.tensor([[1.0], [2.0], [-4.0]]), torch.tensor([[0, 1, 2, 1, 1]]))
    everything = torch.ones(1, 5)
    # 1 2 -4 2 2: pairs 3 -2 -2 4 2; threes -1 0 0 4 2; fours 1 2 0 4 2; fives 3 2 0 4 2
    assert filters(embedded, everything, everything.bool()).tolist() == [[4, 4, 4, 4]]
    # without the last two words: 1 2 -4: 3 -2 -4; -1 -2 -4; the same; the same
    gate = torch.tensor([[1.0, 1, 1, 0, 0]])
    assert filters(embedded, gate, gate.bool()).tolist() == [[3, 0, 0, 0]]


def test_filters_equal_the_naive_form():
    filters = TextFilters(4, 3, functional.elu)
    embedded, gate, is_token = texts()
    gate = gate * torch.rand(gate.shape, generator=torch.Generator().manual_seed(1))
    found = filters(embedded, gate, is_token)
    for row, length in enumerate(LENGTHS):
        words = [gate[row, t] * embedded.vectors[embedded.index[row, t]] for t in range(length)]
        words += [torch.zeros(4)] * 4
        expected = []
        for width, layer in zip((2, 3, 4, 5), filters.filters, strict=True):
            places = [
                functional.elu(sum(layer.weight[:, :, k] @ words[t + k] for k in range(width)) + layer.bias)
                for t in range(length)
            ]
            expected.append(torch.stack(places).amax(dim=0))
        assert torch.allclose(found[row], torch.cat(expected), atol=1e-6)


def test_padding_changes_no_filter_and_the_gates_have_gradients():
    filters = TextFilters(4, 3, functional.elu)
    given = texts()
    assert torch.allclose(filters(*given), filters(*wider(*given)), atol=1e-7)
    filters.double()
    embedded, gate, is_token = given
    embedded = Embedded(embedded.vectors.double(), embedded.index)
    gate = (gate.double() * 0.7).requires_grad_()
    assert torch.autograd.gradcheck(lambda g: filters(embedded, g, is_token), (gate,))


# ---------------------------------------------------------------------------------------- TOPJUDGE's cells


def test_a_cell_is_torchs_from_the_sum_of_what_it_reads():
    torch.manual_seed(0)
    cell, theirs = TargetCell(4, 3, 2), nn.LSTMCell(4, 3)
    with torch.no_grad():
        theirs.weight_ih.copy_(cell.text_layer.weight)
        theirs.bias_ih.copy_(cell.text_layer.bias)
        theirs.weight_hh.copy_(cell.recurrent.weight)
        theirs.bias_hh.zero_()
    text, before = torch.randn(5, 4), [(torch.randn(5, 3), torch.randn(5, 3)) for _ in range(2)]
    h0, c0 = torch.zeros(5, 3), torch.zeros(5, 3)
    for (h, c), layer in zip(before, cell.starts, strict=True):
        moved = torch.cat([h, c], dim=1) @ layer.weight.T + layer.bias
        h0, c0 = h0 + moved[:, :3], c0 + moved[:, 3:]
    for mine, expected in zip(cell(text, before), theirs(text, (h0, c0)), strict=True):
        assert torch.allclose(mine, expected, atol=1e-6)


def test_golden_first_cell():
    """Zero weights and bias ln 3 of the value: tanh(ln 3) = 4/5, half of which is written and shown."""
    cell = TargetCell(1, 1, 0)
    nn.init.zeros_(cell.text_layer.weight)
    with torch.no_grad():
        cell.text_layer.bias.copy_(torch.tensor([0.0, 0.0, math.log(3), 0.0]))
    h, c = cell(torch.ones(1, 1), [])
    assert c.item() == pytest.approx(0.4)
    assert h.item() == pytest.approx(0.5 * math.tanh(0.4))


def test_the_gradients_of_a_cell():
    torch.manual_seed(0)
    cell = TargetCell(3, 2, 1).double()
    given = [torch.randn(2, n, dtype=torch.float64, requires_grad=True) for n in (3, 2, 2)]
    assert torch.autograd.gradcheck(lambda text, h, c: cell(text, [(h, c)]), given)


def test_a_cell_without_a_target_to_read_has_no_weight_for_one():
    assert {name for name, _ in TargetCell(3, 2, 0).named_parameters()} == {
        "text_layer.weight",
        "text_layer.bias",
    }


# ------------------------------------------------------------------------------------- MPBFN-WCA's pieces


def test_golden_product_of_experts():
    # (1/2 1/2), (3/4 1/4), (2/3 1/3): products 1/4, 1/24
    logits = [
        torch.tensor([[0.0, 0.0]]),
        torch.tensor([[math.log(3), 0.0]]),
        torch.tensor([[math.log(2), 0.0]]),
    ]
    assert product_of_experts(logits).exp().tolist() == [pytest.approx([6 / 7, 1 / 7])]
    assert torch.allclose(product_of_experts(logits[:1]), logits[0].log_softmax(dim=1))


def test_golden_verification():
    # p = (3/4 1/4); sigmoid(ln 1/3) = 1/4 and sigmoid(ln 3) = 3/4 for the classes: 3/16 and 3/16
    p, check = torch.tensor([[0.75, 0.25]]).log(), torch.tensor([[-math.log(3), math.log(3)]])
    assert verified(p, [check]).exp().tolist() == [pytest.approx([0.5, 0.5])]
    assert torch.equal(verified(p, []), p)
    # twice the same: 3/64 and 9/64
    assert verified(p, [check, check]).exp().tolist() == [pytest.approx([0.25, 0.75])]


def test_products_and_verification_equal_the_naive_form_and_have_gradients():
    generator = torch.Generator().manual_seed(0)
    draws = [torch.randn(4, 3, generator=generator, dtype=torch.float64) for _ in range(3)]
    naive = draws[0].softmax(dim=1) * draws[1].softmax(dim=1)
    naive = naive / naive.sum(dim=1, keepdim=True)
    assert torch.allclose(product_of_experts(draws[:2]).exp(), naive)
    checked = naive * torch.sigmoid(draws[2])
    found = verified(naive.log(), [draws[2]]).exp()
    assert torch.allclose(found, checked / checked.sum(dim=1, keepdim=True))
    wanted = [one.requires_grad_() for one in draws]
    assert torch.autograd.gradcheck(lambda a, b, c: verified(product_of_experts([a, b]), [c]), wanted)


def test_pairs_are_those_of_torchs_lstm():
    torch.manual_seed(0)
    pairs, theirs = Collocations(4, 3, 5), nn.LSTM(4, 3, batch_first=True)
    with torch.no_grad():
        theirs.weight_ih_l0.copy_(pairs.word_layer.weight)
        theirs.bias_ih_l0.copy_(pairs.word_layer.bias)
        theirs.weight_hh_l0.copy_(pairs.recurrent.weight)
        theirs.bias_hh_l0.zero_()
    embedded, _, _ = texts()
    found = pairs.states(embedded)
    for row, length in enumerate(LENGTHS):
        for t in range(length - 1):
            both = embedded.vectors[embedded.index[row, t : t + 2]]
            assert torch.allclose(found[row, t], theirs(both[None])[0][0, -1], atol=1e-6)


def test_attention_to_pairs_equals_the_naive_form():
    torch.manual_seed(0)
    pairs = Collocations(4, 3, 5)
    embedded, gate, is_token = texts()
    gate = gate * torch.rand(gate.shape)
    states, query = pairs.states(embedded), torch.randn(4, 5)
    found = pairs(states, gate, is_token, query)
    for row, length in enumerate(LENGTHS):
        share = [
            gate[row, t] * gate[row, t + 1] * torch.exp(query[row] @ torch.tanh(pairs.key(states[row, t])))
            for t in range(length - 1)
        ]
        expected = sum(s / sum(share) * states[row, t] for t, s in enumerate(share))
        assert torch.allclose(found[row], expected + torch.zeros(3), atol=1e-6)
    assert not found[2].any(), "a text of one word has no pair"


def test_padding_and_words_that_are_gated_off_are_in_no_pair():
    torch.manual_seed(0)
    pairs, query = Collocations(4, 3, 5), torch.randn(4, 5)

    def attended(embedded, gate, is_token):
        return pairs(pairs.states(embedded), gate, is_token, query)

    embedded, gate, is_token = texts()
    more = wider(embedded, gate, is_token)
    assert torch.allclose(attended(embedded, gate, is_token), attended(*more), atol=1e-7)
    gate[:, 0] = 0
    moved = Embedded(embedded.vectors, embedded.index.clone())
    moved.index[:, 0] = (moved.index[:, 0] + 1) % len(moved.vectors)
    assert torch.allclose(attended(embedded, gate, is_token), attended(moved, gate, is_token), atol=1e-7)


def test_attention_to_pairs_has_gradients():
    torch.manual_seed(0)
    pairs = Collocations(4, 2, 3).double()
    embedded, gate, is_token = texts()
    embedded = Embedded(embedded.vectors.double(), embedded.index)
    states = pairs.states(embedded).detach().requires_grad_()
    gate = (gate.double() * 0.6).requires_grad_()
    query = torch.randn(4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s, g, q: pairs(s, g, is_token, q), (states, gate, query))


def test_a_closed_gate_is_told_what_its_pairs_would_change():
    torch.manual_seed(0)
    pairs = Collocations(4, 2, 3)
    embedded, gate, is_token = texts()
    gate[0, 2] = 0
    gate.requires_grad_()
    pairs(pairs.states(embedded), gate, is_token, torch.randn(4, 3)).sum().backward()
    assert gate.grad[0, 2] != 0
    assert not gate.grad[~is_token].any()


def test_mpbfn_equals_the_naive_form():
    """Target by target with probabilities, as the equations of the class have it."""
    model = model_of("mpbfn_wca")
    embedded, gate, is_token = texts()
    embedded = model.embed(BATCH.words)
    found = model.logits(embedded, gate, is_token)
    layers, check, labels = model.forward_layers, model.verifiers, model.label_vectors
    d = model.filters(embedded, gate, is_token)
    pair_states = model.pairs.states(embedded)
    # charges 0, articles 1, terms 2
    article = layers["1"](d).softmax(dim=1)
    s_article = article @ labels["1"]
    m_article = functional.elu(model.meanings["1"](s_article))
    charge = layers["1-0"](d * m_article).softmax(dim=1)
    s_charge = charge @ labels["0"]
    m_charge = functional.elu(model.meanings["0"](s_charge))
    term = torch.ones(1)
    for key, m in (("1", m_article), ("0", m_charge)):
        w = model.pairs(pair_states, gate, is_token, m)
        rich = functional.elu(model.enriched[key](torch.cat([d, w], dim=1)))
        term = term * layers[f"{key}-2"](d * m * rich).softmax(dim=1)
    term = term / term.sum(dim=1, keepdim=True)
    s_term = term @ labels["2"]
    article = article * torch.sigmoid(check["0-1"](s_charge)) * torch.sigmoid(check["2-1"](s_term))
    charge = charge * torch.sigmoid(check["2-0"](s_term))
    for head, its in zip((charge, article, term), LAW.columns, strict=True):
        expected = head / head.sum(dim=1, keepdim=True)
        assert torch.allclose(found[:, its].softmax(dim=1), expected, atol=1e-6)
    assert set(check) == {"0-1", "2-1", "2-0"}


def test_published_hyper_parameters():
    topjudge, mpbfn = TopjudgeConfig(), MpbfnWcaConfig()
    for config in (topjudge, mpbfn):
        assert (config.num_filters, config.hidden_size, config.batch_size) == (64, 256, 128)
        assert config.learning_rate == 0.001
    assert (topjudge.weight_decay, topjudge.fc_dropout) == (0.001, 0.0)
    assert mpbfn.fc_dropout == 0.5
    assert method("topjudge").trainer_class().optimizer_class is torch.optim.Adam


# ------------------------------------------------------------------------------------------ FLA's attention


TEXTS = ((3, 4, 5), (6,))
WITH_TEXTS = dataclasses.replace(LAW, sides=(dataclasses.replace(LAW.sides[0], texts=TEXTS), *LAW.sides[1:]))


def fla(task=WITH_TEXTS, **changes):
    found = method("fla")
    values = {"hidden_size": 3, "embedding_dropout": 0.0, "inner_size": 5, "feature_size": 4, **changes}
    return found.trainer_class()(
        found.config_class().from_mapping(values),
        task,
        given_to("lstm"),
        steps_per_epoch=3,
        seed=0,
        device=CPU,
    )


def test_attention_to_words_of_articles_equals_the_naive_form():
    torch.manual_seed(0)
    layer, text, states = ArticleTexts(TEXTS, 4, 3), torch.randn(5, 4), torch.randn(2, 3, 4)
    found = layer(text, states)
    for row in range(5):
        for article, words in enumerate(TEXTS):
            asked = layer.query(text[row])
            share = [torch.exp(asked @ torch.tanh(layer.key(states[article, t]))) for t in range(len(words))]
            expected = sum(s / sum(share) * states[article, t] for t, s in enumerate(share))
            assert torch.allclose(found[row, article], expected, atol=1e-6)
    assert torch.allclose(found[:, 1], states[1, 0].expand(5, -1)), "an article of one word is that word"


def test_golden_attention_to_articles():
    """A text that asks for 1 in one dimension, and articles of ln 3 and 0: tanh(ln 3) = 4/5."""
    layer = ArticleAttention(1, 1)
    with torch.no_grad():
        for part in (layer.query, layer.key):
            part.weight.fill_(1.0)
            part.bias.zero_()
    law, log_share = layer(torch.tensor([[1.0]]), torch.tensor([[[math.log(3)], [0.0]]]))
    share = math.exp(0.8) / (math.exp(0.8) + 1)
    assert log_share.exp().tolist() == [pytest.approx([share, 1 - share])]
    assert law.item() == pytest.approx(share * math.log(3))


def test_attention_to_articles_has_gradients():
    torch.manual_seed(0)
    texts_, articles = ArticleTexts(TEXTS, 3, 2).double(), ArticleAttention(3, 2).double()
    given = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((2, 3), (2, 3, 3))]
    assert torch.autograd.gradcheck(lambda text, states: articles(text, texts_(text, states)), given)


def test_other_words_behind_an_article_change_nothing():
    torch.manual_seed(0)
    layer, text, states = ArticleTexts(TEXTS, 4, 3), torch.randn(5, 4), torch.randn(2, 3, 4)
    other = states.clone()
    other[1, 1:] = 7.0
    assert torch.equal(layer(text, states), layer(text, other))


@pytest.mark.parametrize("task", [LAW, WITH_TEXTS], ids=["learnt", "texts"])
def test_the_attention_to_articles_learns_the_article_of_the_case(task):
    trainer = fla(task, fc_dropout=0.0)
    terms, _, _ = trainer.step_terms(BATCH)
    model = trainer.model
    _, log_share = model.read_articles(*texts())
    wanted = BATCH.target[:, 1].long()
    expected = -sum(log_share[row, article].item() for row, article in enumerate(wanted.tolist())) / 4
    assert terms["article"].item() == pytest.approx(expected, rel=1e-5)
    assert trainer.objective(terms).item() == pytest.approx(
        terms["sp"].item() + 0.1 * terms["article"].item(), rel=1e-6
    )
    assert log_share.exp().sum(dim=1).tolist() == pytest.approx([1.0] * 4)


def test_learnt_articles_are_the_same_for_all_texts_and_texts_are_not():
    embedded, gate, is_token = texts()
    for task, is_same in ((LAW, True), (WITH_TEXTS, False)):
        model = fla(task).model.eval()
        text, _ = model.reader.attend(embedded, gate, is_token)
        articles = model.article_states(text)
        assert torch.equal(articles[0], articles[1]) is is_same


def test_a_text_of_words_is_read_through_the_models_vectors():
    """Other words in an article, or their vectors changed, give other answers."""
    model = fla(train_embeddings=True).model.eval()
    given = model.embed(BATCH.words), BATCH.is_token.float(), BATCH.is_token
    before = model.logits(*given)
    with torch.no_grad():
        model.embeddings[6] += 1
    assert not torch.allclose(before, model.logits(*given))
    before.sum().backward()
    assert model.embeddings.grad[[3, 4, 5, 6]].abs().sum(dim=1).gt(0).all()


def test_articles_must_be_a_target_with_classes_and_texts_for_all():
    config = FlaConfig()
    with pytest.raises(ConfigError, match="the target `articles`, but the targets are `charge`, `term`, `ar"):
        config.weighted(SEVERAL)
    with pytest.raises(ConfigError, match="FLA attends to classes, but the target `term` is a score"):
        fla(SEVERAL, articles="term")
    with pytest.raises(ConfigError, match="a text of at least one word for each of 2 classes, but got 1 tex"):
        dataclasses.replace(LAW.sides[0], texts=((1,),))
    with pytest.raises(ConfigError, match="but got 2 texts with 1 words"):
        dataclasses.replace(LAW.sides[0], texts=((1,), ()))


def test_a_task_with_texts_survives_the_way_through_json():
    stored = json.loads(json.dumps(WITH_TEXTS.to_dict()))
    assert Task.of_dict(stored) == WITH_TEXTS
    assert "texts" not in LAW.to_dict() and "texts" not in LAW.to_dict()["sides"][0]


def test_a_package_holds_the_articles(tmp_path):
    model = fla().evaluated_model.eval()
    words = [f"w{i}" for i in range(len(model.embeddings))]
    said = {"tokenizer": "whitespace", "targets": [{"name": head.name} for head in LAW.heads]}
    save_package(tmp_path / "model", Package(model, words, said))
    again = load_package(tmp_path / "model").model
    assert again.task == WITH_TEXTS
    with torch.no_grad():
        mine, theirs = (one.infer(BATCH.words, BATCH.is_token).output for one in (model, again))
    assert torch.equal(mine, theirs)


def test_what_tables_say_of_the_articles():
    assert FlaConfig().remarks() == [
        "the vectors of the articles are learnt, because no texts of the articles were given "
        "(`article_texts`)"
    ]
    assert FlaConfig(article_texts="law.json").remarks() == ["it reads the texts of the articles"]
    assert FlaConfig(article_texts="law.json", articles="law").class_texts() == {"law": "law.json"}
    assert TopjudgeConfig().remarks() == [] and TopjudgeConfig().class_texts() == {}

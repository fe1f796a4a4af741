"""The classifiers of [Mathew2021]: what they read, how they weigh classes, and what ranks their tokens."""

import dataclasses

import numpy as np
import pytest
import torch
from sklearn.utils.class_weight import compute_class_weight

from infocal.errors import ConfigError, StateError
from infocal.methods.classifier import balanced_class_weights
from infocal.methods.cnn_gru import pooled_maxima
from infocal.methods.registry import method
from infocal.nn.ranking import quantiles, top_tokens
from tests.small_encoder import given_to
from tests.small_model import CLASSES, REGRESSION, random_batch, random_embeddings

CPU = torch.device("cpu")
BATCH = random_batch([6, 3, 2, 5], task=CLASSES)
every_classifier = pytest.mark.parametrize("name", ["cnn_gru", "birnn", "birnn_attn"])


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


def trainer_of(name, task=CLASSES, counts=(5, 3, 2), **changes):
    found = method(name)
    config = found.config_class().from_mapping({"hidden_size": 3, "embedding_dropout": 0.0, **changes})
    counts = list(counts) if task.kind == "classification" and counts else None
    return found.trainer_class()(
        config, task, given_to(config.encoder), steps_per_epoch=3, seed=0, device=CPU, class_counts=counts
    )


def model_of(name, task=CLASSES, **changes):
    return trainer_of(name, task, **changes).model.eval()


# ------------------------------------------------------------------------------------------ class weights


def test_golden_class_weights():
    # 10 texts, 3 classes: 10 / (3 * 5), 10 / (3 * 3), 10 / (3 * 2)
    found = balanced_class_weights(torch.tensor([5, 3, 2]))
    assert found.tolist() == pytest.approx([2 / 3, 10 / 9, 5 / 3], rel=1e-6)


def test_class_weights_are_those_of_scikit_learn():
    labels = np.random.default_rng(0).integers(0, 4, 97)
    theirs = compute_class_weight("balanced", classes=np.arange(4), y=labels)
    ours = balanced_class_weights(torch.from_numpy(np.bincount(labels)))
    assert ours.tolist() == pytest.approx(theirs.tolist(), rel=1e-6)


def test_a_class_without_a_text_has_a_weight():
    assert balanced_class_weights(torch.tensor([4, 0])).tolist() == [0.5, 2.0]


@every_classifier
def test_rare_classes_count_more(name):
    trainer = trainer_of(name, fc_dropout=0.0)
    terms, _, _ = trainer.step_terms(BATCH)
    logit = trainer.model.logits(
        trainer.model.embed(BATCH.words), BATCH.is_token.float(), BATCH.is_token
    ).double()
    weight = [[2 / 3, 10 / 9, 5 / 3][label] for label in BATCH.target.tolist()]
    each = -logit.log_softmax(dim=1)[range(4), BATCH.target]
    expected = sum(w * one.item() for w, one in zip(weight, each, strict=True)) / sum(weight)
    assert terms["sp"].item() == pytest.approx(expected, rel=1e-5)


@every_classifier
def test_equal_weights_and_scores_need_no_counts(name):
    assert trainer_of(name, counts=None, class_weights="equal").class_weight is None
    assert trainer_of(name, REGRESSION).class_weight is None


@every_classifier
def test_balanced_classes_need_their_counts(name):
    message = "`class_weights` balanced needs the number of training texts of each class"
    with pytest.raises(StateError, match=message):
        trainer_of(name, counts=None)


def test_the_optimiser_decays_weights_apart_from_the_gradient():
    assert type(trainer_of("birnn").optimizer) is torch.optim.AdamW
    assert trainer_of("birnn").optimizer.defaults["eps"] == 1e-8


# ------------------------------------------------------------------------------------------------ reading


@every_classifier
def test_it_predicts_from_the_whole_text_whatever_it_selects(name):
    model = model_of(name)
    with torch.no_grad():
        found = model.infer(BATCH.words, BATCH.is_token)
        whole = model.predict_from(BATCH.words, BATCH.is_token, BATCH.is_token.float())
        part = model.predict_from(BATCH.words, BATCH.is_token, found.mask)
    assert torch.equal(found.output, whole)
    assert not torch.allclose(part[0], whole[0])


def test_attention_is_the_readers_and_sums_to_one():
    model = model_of("birnn_attn")
    embedded, gate = model.embed(BATCH.words), BATCH.is_token.float()
    share = model.read(embedded, gate, BATCH.is_token).log_attention.exp()
    _, weight = model.reader(embedded, gate, BATCH.is_token)
    assert torch.allclose(share[:, 0] * gate, weight, atol=1e-7)
    assert torch.allclose((share[:, 0] * gate).sum(dim=1), torch.ones(4), atol=1e-6)
    assert torch.allclose(model.importance(embedded, BATCH.is_token), weight, atol=1e-7)


def test_cnn_gru_equals_the_naive_form():
    """Text by text and place by place, with none of the padding of a batch."""
    model = model_of("cnn_gru", num_filters=4)
    embedded, table = model.embed(BATCH.words), random_embeddings()
    found = model.logits(embedded, BATCH.is_token.float(), BATCH.is_token)
    for row, n in enumerate((6, 3, 2, 5)):
        words = [torch.zeros(4)] * 2 + [table[i] for i in BATCH.token_ids[row, :n]] + [torch.zeros(4)]
        pooled = []
        for width, layer in zip((2, 3, 4), model.filters, strict=True):
            starts = [words[4 - width + t : 4 - width + t + width] for t in range(n)]
            places = [
                sum(layer.weight[:, :, k] @ word for k, word in enumerate(window)) + layer.bias
                for window in starts
            ]
            pooled += [torch.stack(places[i : i + 4]).amax(dim=0) for i in range(0, n, 4)]
        steps = [torch.stack(pooled[i : i + 4]).amax(dim=0) for i in range(0, len(pooled), 4)]
        states, _ = model.gru(torch.stack(steps)[None])
        expected = model.output(states[0].amax(dim=0))
        assert torch.allclose(found[row], expected, atol=1e-6), row


def test_golden_maxima():
    values = torch.tensor([[3.0, 1, 4, 1, 5, 9], [-2, -6, 5, 3, 5, 8]])[..., None]
    found = pooled_maxima(values, torch.tensor([5, 2]))
    # 3 1 4 1 | 5; -2 -6
    assert found.squeeze(-1).tolist() == [[4, 5], [-2, 0]]


# ------------------------------------------------------------------------------------------- explanations


@every_classifier
def test_the_rationale_is_the_tokens_that_rank_highest(name):
    model = model_of(name, num_top_tokens=2)
    embedded = model.embed(BATCH.words)
    score = model.importance(embedded, BATCH.is_token)
    mask = model.infer(BATCH.words, BATCH.is_token).mask
    for row, n in enumerate((6, 3, 2, 5)):
        best = sorted(range(n), key=lambda t, row=row: -score[row, t].item())[:2]
        assert sorted(best) == mask[row].nonzero().flatten().tolist()


@every_classifier
def test_a_share_instead_of_a_number_of_tokens(name):
    model = model_of(name, num_top_tokens=0, target_selection_rate=0.5)
    assert model.infer(BATCH.words, BATCH.is_token).mask.sum(dim=1).tolist() == [3, 2, 1, 3]


@every_classifier
def test_neither_a_share_nor_a_number_of_tokens_is_refused(name):
    with pytest.raises(
        ConfigError, match="one of `num_top_tokens` and `target_selection_rate` must be above 0"
    ):
        model_of(name, num_top_tokens=0, target_selection_rate=0.0)


def test_top_tokens_keep_their_order_on_either_side_of_a_half():
    generator = torch.Generator().manual_seed(0)
    score = torch.rand(BATCH.is_token.shape, generator=generator)
    found = top_tokens(score, BATCH.is_token, 3)
    for row, n in enumerate((6, 3, 2, 5)):
        order = score[row, :n].argsort()
        assert torch.equal(found[row, :n].argsort(), order)
        assert (found[row, :n] >= 0.5).sum() == min(3, n)
    assert ((found >= 0) & (found <= 1)).all()
    assert not found[~BATCH.is_token].any()
    assert (quantiles(score, BATCH.is_token)[BATCH.is_token] > 0).all()


@every_classifier
def test_gradient_times_input_is_the_slope_of_the_gates(name):
    model = model_of(name, explainer="gradient_x_input").double()
    embedded, gate = model.embed(BATCH.words), BATCH.is_token.double()
    found = model.importance(embedded, BATCH.is_token)
    with torch.no_grad():
        logit = model.logits(embedded, gate, BATCH.is_token)
        for row, t in [(0, 0), (0, 4), (1, 2), (3, 3)]:
            ends = []
            for step in (1e-4, -1e-4):
                moved = gate.clone()
                moved[row, t] += step
                ends.append(model.logits(embedded, moved, BATCH.is_token)[row, logit[row].argmax()])
            slope = ((ends[0] - ends[1]) / 2e-4).item()
            assert found[row, t].item() == pytest.approx(slope, rel=1e-3, abs=1e-6)


@every_classifier
def test_of_a_score_a_token_counts_whichever_way_it_moves_it(name):
    model = model_of(name, REGRESSION, explainer="gradient_x_input")
    assert (model.importance(model.embed(BATCH.words), BATCH.is_token) >= 0).all()


@pytest.mark.parametrize("name", ["cnn_gru", "birnn"])
def test_attention_is_no_explanation_of_a_model_without(name):
    message = "must be one of gradient_x_input, integrated_gradients, lime, but got 'attention'"
    with pytest.raises(ConfigError, match=message):
        model_of(name, explainer="attention")


def test_cnn_gru_has_no_other_encoder():
    with pytest.raises(ConfigError, match="`encoder` must be one of cnn, but got 'lstm'"):
        model_of("cnn_gru", encoder="lstm")
    config = method("cnn_gru").config_class()()
    with pytest.raises(ConfigError, match="CNN-GRU reads word vectors, but got a pretrained encoder"):
        method("cnn_gru").trainer_class().model_class(config, CLASSES, given_to("transformer"))


def test_the_published_hyper_parameters_are_the_defaults():
    shown = {}
    for name in ("cnn_gru", "birnn", "birnn_attn"):
        config = dataclasses.asdict(method(name).config_class()())
        keys = ("learning_rate", "batch_size", "hidden_size", "embedding_dropout", "fc_dropout")
        shown[name] = tuple(config[key] for key in keys)
        assert (config["class_weights"], config["clip_norm"], config["train_embeddings"]) == (
            "balanced",
            1.0,
            False,
        )
    assert shown == {
        "cnn_gru": (0.001, 32, 100, 0.2, 0.1),
        "birnn": (0.001, 32, 128, 0.2, 0.2),
        "birnn_attn": (0.001, 32, 128, 0.2, 0.2),
    }

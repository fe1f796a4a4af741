"""What every method with a selector must keep where each of several targets has its own rationale."""

import copy
import dataclasses
import functools
import json
import math

import numpy as np
import pytest
import torch

from infocal.batch import Batch, Words
from infocal.errors import ConfigError, StateError
from infocal.faithfulness import model_faithfulness
from infocal.methods import hardkuma
from infocal.methods.hardkuma import kuma_quantile
from infocal.methods.registry import METHODS, method
from infocal.metrics.scores import apply_threshold
from infocal.nn.rationalizer import Rationalizer
from infocal.objective import Terms
from infocal.trainer import Trainer, predict, probabilities_of_rationales
from pipeline.cli.explanations import as_json, line
from pipeline.tracking import served_model
from pipeline.training import checkpoints
from pipeline.training.checkpoints import Package, load_package, save_package
from pipeline.training.explainer import Explainer
from tests.contracts.test_methods import CPU, assert_same_state, padded, same_answers, small, trainer_of
from tests.small_model import CLASSES, NUM_WORDS, REGRESSION, SEVERAL, random_batch, random_batches

SELECTING = [name for name in METHODS if method(name).config_class().selects_per_head]
every_method = pytest.mark.parametrize("name", SELECTING)
VARIANTS = [
    *((name, {}) for name in SELECTING),
    *(("infocal", {"calibration_loss": form, "lambda_g": 0.5}) for form in ("policy_gradient", "invase")),
    ("infocal", {"lm_form": "expected", "coherence_form": "expected", "shared_encoder": True}),
    ("bernoulli", {"baseline": "mean"}),
    ("bernoulli", {"baseline": "none", "lambda_sparsity": 0.1}),
    ("rnp", {"num_selectors": 2, "lambda_norm": 0.1, "pace": "sparsity"}),
    ("hardkuma", {"encoder": "transformer"}),
    ("infocal", {"encoder": "transformer", "shared_encoder": True}),
]
every_variant = pytest.mark.parametrize(("name", "changes"), VARIANTS, ids=str)
NAMES = ["charge", "term", "article"]


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


@pytest.fixture
def no_noise(monkeypatch):
    """Whatever is drawn is what is likeliest, so that two models draw the same for the same text."""
    monkeypatch.setattr("infocal.nn.sampling.gumbel_noise", torch.zeros_like)
    monkeypatch.setattr(torch, "bernoulli", lambda p: (p > 0.5).to(p.dtype))
    monkeypatch.setattr(torch, "randn_like", torch.ones_like)
    monkeypatch.setattr(hardkuma, "kuma_quantile", lambda kuma, u: kuma_quantile(kuma, 0 * u + 0.7))


def per_head(name, task=SEVERAL, **changes) -> Trainer:
    return trainer_of(name, task, rationales="per_head", **changes)


@functools.cache
def _trained(name, changes) -> Trainer:
    trainer = per_head(name, **dict(changes))
    while trainer.epoch < math.ceil(trainer.config.start_epochs) + 2:
        trainer.train_epoch(random_batches(3, SEVERAL, seed=trainer.epoch))
    return trainer


def trained(name, **changes) -> Trainer:
    """A trainer past its start; tests that change nothing in its weights share one."""
    return _trained(name, tuple(changes.items()))


def halving(name, batch: Batch) -> Rationalizer:
    """A trained model whose thresholds select about half of a batch's tokens for each target."""
    model = copy.deepcopy(trained(name).evaluated_model).eval()
    found = probabilities_of_rationales(model, [batch], CPU)
    model.threshold, *model.side_thresholds = (float(np.median(np.concatenate(own))) for own in found)
    return model


def of_text(row: int, masks: torch.Tensor, num_texts: int) -> torch.Tensor:
    """The masks of one text, one below the other."""
    return masks.view(-1, num_texts, masks.shape[1])[:, row]


@every_variant
def test_it_trains_every_weight_and_names_what_each_target_cost(name, changes):
    trainer = per_head(name, **changes)
    before = {n: p.detach().clone() for n, p in trainer.model.named_parameters()}
    while trainer.epoch < math.ceil(trainer.config.start_epochs) + 2:
        means = trainer.train_epoch(random_batches(3, SEVERAL, seed=trainer.epoch))
        assert all(np.isfinite(value) for value in means.values())
    now = dict(trainer.model.named_parameters())
    assert [n for n in now if torch.equal(now[n], before[n])] == []
    rows = len(now["selector.output.weight"]) // 3
    for own, drawn in zip(*(x["selector.output.weight"].split(rows) for x in (now, before)), strict=True):
        assert not torch.equal(own, drawn), "each target's part of the selector learns"
    rates = [means[f"{head}/sampled_selection_rate"] for head in NAMES]
    assert means["sampled_selection_rate"] == pytest.approx(np.mean(rates))
    assert means["sp"] == pytest.approx(sum(means[f"{head}/sp"] for head in NAMES))


def step(trainer: Trainer, batch: Batch) -> tuple[Terms, dict[str, torch.Tensor]]:
    """The terms of one pass past the start, and the gradient of each parameter."""
    trainer.epoch = math.ceil(trainer.config.start_epochs)
    torch.manual_seed(1)
    terms, _, _ = trainer.step_terms(batch)
    trainer.model.zero_grad()
    trainer.objective(terms).backward()
    return terms, {n: p.grad for n, p in trainer.model.named_parameters() if p.grad is not None}


@every_variant
def test_the_objective_is_the_weighted_sum_of_those_of_the_targets(name, changes, no_noise):
    weights = {"charge": 1.0, "term": 2.0, "article": 0.5}
    batch = random_batch([6, 3, 2, 5], task=SEVERAL)

    def found(given: dict[str, float]) -> tuple[Terms, dict[str, torch.Tensor]]:
        text = ",".join(f"{head}={given.get(head, 0.0)}" for head in NAMES)
        return step(per_head(name, dropout_free=True, target_weights=text, **changes), batch)

    terms, gradients = found(weights)
    alone = [found({head: 1.0}) for head in NAMES]
    for term in terms:
        if "/" not in term:
            parts = [own[term].item() for own, _ in alone]
            total = sum(w * part for w, part in zip(weights.values(), parts, strict=True))
            assert terms[term].item() == pytest.approx(total, rel=1e-4, abs=1e-6), term
    for key, gradient in gradients.items():
        each = [own.get(key, torch.zeros_like(gradient)) for _, own in alone]
        total = sum(w * part for w, part in zip(weights.values(), each, strict=True))
        assert torch.allclose(gradient, total, rtol=1e-3, atol=1e-6), key


@pytest.mark.parametrize(("name", "changes"), [v for v in VARIANTS if v[1].get("encoder") is None], ids=str)
def test_one_target_alone_is_trained_as_a_model_of_that_target(name, changes, no_noise):
    """With weight 1 for the main target and 0 for the others."""
    single = trainer_of(name, CLASSES, dropout_free=True, **changes)
    several = per_head(name, dropout_free=True, target_weights="term=0,article=0", **changes)
    mine, theirs = single.model.state_dict(), several.model.state_dict()
    for key, value in theirs.items():
        value[: len(mine[key])] = mine[key]
    if hasattr(single, "discriminator"):
        several.discriminator.of_targets[0].load_state_dict(single.discriminator.state_dict())
    expected, own = step(single, random_batch([6, 3, 2, 5], task=CLASSES))
    found, gradients = step(several, random_batch([6, 3, 2, 5], task=SEVERAL))
    assert {n: v.item() for n, v in found.items() if "/" not in n} == pytest.approx(
        {n: v.item() for n, v in expected.items()}, rel=1e-4, abs=1e-6
    )
    for key, gradient in own.items():
        assert torch.allclose(gradients[key][: len(gradient)], gradient, rtol=1e-3, atol=1e-6), key
        assert not gradients[key][len(gradient) :].any(), f"{key}: targets of weight 0 have a gradient"


@every_method
def test_each_target_is_predicted_from_its_own_rationale(name):
    batch = random_batch([6, 3, 2, 5], task=SEVERAL)
    model = halving(name, batch)
    with torch.no_grad():
        found = model.infer(batch.words, batch.is_token)
        assert found.mask.shape == (12, 6)
        assert len({tuple(own.flatten().tolist()) for _, own in found.rationales()}) > 1, "they differ"
        for (_, mask), columns in zip(found.rationales(), SEVERAL.columns, strict=True):
            alone = model.predict_from(batch.words, batch.is_token, mask)
            assert torch.allclose(alone[:, columns], found.output[:, columns], atol=1e-6)
        given = model.predict_from(batch.words, batch.is_token, found.mask)
    assert torch.allclose(given, found.output, atol=1e-6)
    for row, prediction in enumerate(predict(model, [batch], CPU)):
        length = int(batch.is_token[row].sum())
        for number, one in enumerate((prediction, *prediction.sides)):
            shown = of_text(row, found.select_probability, 4)[number, :length]
            assert np.array_equal(one.select_probability, shown.numpy())
            assert one.has_own_rationale == (number > 0)


@every_method
def test_words_outside_of_a_rationale_change_no_prediction_from_it(name):
    batch = random_batch([6, 3, 2, 5], task=SEVERAL)
    model = halving(name, batch)
    with torch.no_grad():
        found = model.infer(batch.words, batch.is_token)
        for number, columns in enumerate(SEVERAL.columns):
            own = found.rationales()[number][1] > 0
            others = torch.where(own, batch.token_ids, 1) * batch.is_token
            again = model.predict_from(Words.of(others), batch.is_token, found.mask)
            assert torch.allclose(again[:, columns], found.output[:, columns], atol=1e-6)


@every_variant
def test_padding_and_other_texts_change_nothing(name, changes):
    model = trained(name, **changes).evaluated_model.eval()
    batch = random_batch([6, 3, 2, 5], task=SEVERAL)
    wider = padded(batch)
    with torch.no_grad():
        found, again = (model.infer(b.words, b.is_token) for b in (batch, wider))
        assert torch.allclose(found.output, again.output, rtol=1e-5, atol=1e-6)
        assert torch.allclose(found.select_probability, again.select_probability[:, :6], rtol=1e-5, atol=1e-6)
        assert not again.mask[:, 6:].any()
        for row, length in enumerate([6, 3, 2, 5]):
            words = Words.of(batch.token_ids[[row], :length])
            alone = model.infer(words, batch.is_token[[row], :length])
            assert torch.allclose(alone.output[0], found.output[row], rtol=1e-5, atol=1e-6)
            assert torch.equal(alone.mask, of_text(row, found.mask, 4)[:, :length])


@every_method
def test_each_rationale_is_held_at_the_rate(name):
    from pipeline.training.scoring import hold_rate

    class Data:
        task = SEVERAL
        val = annotated = None

        def in_order(self, size):
            return iter(random_batches(12, SEVERAL))

    data = Data()
    data.val = data.annotated = data
    trainer = trained(name)
    hold_rate(trainer, data, 0.25)
    model = trainer.evaluated_model
    assert len(model.side_thresholds) == 2
    for own, threshold in zip(
        probabilities_of_rationales(model, data.in_order(4), CPU),
        (model.threshold, *model.side_thresholds),
        strict=True,
    ):
        chosen = np.concatenate(apply_threshold(own, threshold))
        assert chosen.mean() == pytest.approx(0.25, abs=0.08)


def package_of(trainer: Trainer, folder) -> Package:
    targets = [{"name": head.name, "score_range": [0.0, 4.0]} for head in SEVERAL.heads]
    words = [f"w{i}" for i in range(NUM_WORDS)]
    metadata = {"tokenizer": "whitespace", "aspect": "charge+term+article", "targets": targets}
    save_package(folder, Package(trainer.evaluated_model.eval(), words, metadata))
    return load_package(folder)


@every_method
def test_a_package_keeps_each_rationale_and_answers_name_their_targets(name, tmp_path):
    trainer = trained(name)
    trainer.evaluated_model.threshold, trainer.evaluated_model.side_thresholds = 0.4, [0.3, 0.6]
    package = package_of(trainer, tmp_path / "model")
    assert (package.model.threshold, package.model.side_thresholds) == (0.4, [0.3, 0.6])
    batch = random_batch([5, 3], task=SEVERAL)
    assert same_answers(package.model, trainer.evaluated_model.eval(), batch)
    text = "w3 w4 w5 w6"
    (found,) = Explainer(package).explain([text])
    assert list(found.tokens_of) == NAMES
    assert found.tokens_of["charge"] == found.tokens
    spoken = json.loads(as_json(text, found))["targets"]
    answer = served_model.as_answer(found, all_tokens=True)
    assert served_model.Answer.model_validate(answer, strict=True).model_dump() == answer
    for head in NAMES:
        chosen = [token.token for token in found.tokens_of[head] if token.selected]
        assert spoken[head]["rationale"] == [one["token"] for one in answer["targets"][head]["rationale"]]
        assert spoken[head]["rationale"] == chosen
        assert len(answer["targets"][head]["tokens"]) == len(spoken[head]["tokens"]) == 4
    lines = line(text, found, ("[", "]")).splitlines()
    assert [one.split(":")[0] for one in lines] == [f"predicted {head}" for head in NAMES]
    for printed, head in zip(lines, NAMES, strict=True):
        assert printed.startswith(found.said_of(head) + "\t")
        inside = "".join(part.partition("]")[0] + " " for part in printed.split("\t")[1].split("[")[1:])
        assert inside.split() == [t.token for t in found.tokens_of[head] if t.selected]


@pytest.mark.parametrize("stored", [[], [0.5], [0.1, 0.2, 0.3]])
def test_thresholds_of_other_targets_are_refused(stored, tmp_path):
    package_of(per_head("rnp"), tmp_path / "model")
    config = tmp_path / "model" / checkpoints.CONFIG
    said = json.loads(config.read_text()) | {"side_thresholds": stored}
    config.write_text(json.dumps(said))
    checkpoints.write_digests(tmp_path / "model", checkpoints._PACKED)
    with pytest.raises(StateError, match=f"expected 2 thresholds of side targets, but got {len(stored)}"):
        load_package(tmp_path / "model")


@every_variant
def test_it_goes_on_exactly_from_a_state(name, changes):
    trainer, other = per_head(name, **changes), per_head(name, seed=5, **changes)
    batches = random_batches(3, SEVERAL)
    trainer.train_epoch(batches)
    state = copy.deepcopy(trainer.state_dict())
    trainer.train_epoch(batches)
    other.load_state_dict(state)
    other.train_epoch(batches)
    assert_same_state(other.state_dict(), trainer.state_dict())


@every_method
def test_faithfulness_is_of_each_target_on_its_own_rationale(name):
    model = trained(name).evaluated_model.eval()
    batches = random_batches(2, SEVERAL)
    charge, term, article = model_faithfulness(model, batches, CPU)
    assert term == {}, "a score has no class"
    falls = {"charge": [], "article": []}
    with torch.no_grad():
        for batch in batches:
            found = model.infer(batch.words, batch.is_token)
            full = model.predict_from(batch.words, batch.is_token, batch.is_token.float())
            for number, head in ((0, "charge"), (2, "article")):
                columns = SEVERAL.columns[number]
                mask = found.rationales()[number][1]
                only = model.predict_from(batch.words, batch.is_token, mask)[:, columns]
                best = full[:, columns].argmax(dim=1, keepdim=True)
                falls[head].append((full[:, columns] - only).gather(1, best))
    for head, scores in (("charge", charge), ("article", article)):
        assert scores["sufficiency"] == pytest.approx(torch.cat(falls[head]).mean().item(), abs=1e-6)


def test_every_token_is_each_targets_rationale_where_nothing_is_left_out():
    for name in SELECTING:
        trainer = per_head(name, target_selection_rate=1.0)
        batch = random_batch([6, 3], task=SEVERAL)
        trainer.train_epoch([batch])
        with torch.no_grad():
            found = trainer.model.eval().infer(batch.words, batch.is_token)
        assert torch.equal(found.mask, batch.is_token.float().repeat(3, 1))


@pytest.mark.parametrize("name", [name for name in METHODS if name not in SELECTING])
def test_a_method_without_a_selector_refuses_before_it_trains(name):
    config = dataclasses.replace(small(name), rationales="per_head")
    lack = "needs a method with a selector" if config.predicts_several else "this method predicts one target"
    with pytest.raises(ConfigError, match=lack):
        config.weighted(SEVERAL)


@pytest.mark.parametrize("task", [REGRESSION, CLASSES], ids=["score", "classes"])
def test_one_target_has_one_rationale(task):
    for name in SELECTING:
        with pytest.raises(ConfigError, match="per_head needs several targets, but there is one"):
            per_head(name, task)


def test_selectors_of_rationales_select_for_each_target():
    assert {"infocal", "rnp", "mcd", "hardkuma", "bernoulli", "sparse_ib"} <= set(SELECTING)

"""What every registered method must keep, with each encoder and each kind of task."""

import copy
import dataclasses
import functools
import io
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from infocal import gradient_shares
from infocal.batch import Batch, Words
from infocal.config import Task
from infocal.encoder_registry import ENCODERS
from infocal.errors import ConfigError
from infocal.kernels import build
from infocal.methods import fresh
from infocal.methods.registry import METHODS, method, method_of
from infocal.metrics.scores import apply_threshold, threshold_for_rate
from infocal.nn import rationalizer
from infocal.nn.transformer import Transformer
from infocal.trainer import probabilities_of_rationales
from pipeline.training.checkpoints import Package, load_best, load_package, save_best, save_package
from pipeline.training.epochs import Epoch
from pipeline.training.trainable import train
from search_spaces import lookup
from tests.small_encoder import given_to, naming, write_encoder
from tests.small_model import (
    CLASSES,
    NUM_WORDS,
    REGRESSION,
    fit,
    random_batch,
    random_batches,
    random_embeddings,
)
from tests.small_store import law_features
from tests.small_study import run_settings

CPU = torch.device("cpu")
RATE = 0.3
NEEDS_COMPILER = pytest.mark.skipif(
    build.compiler() is None, reason="no C++ compiler here: the kernel cannot be built"
)
every_method = pytest.mark.parametrize("name", METHODS)
PAIRS = [
    (name, encoder)
    for name, found in METHODS.items()
    for encoder in ENCODERS
    if encoder in (found.encoders or ENCODERS)
]
every_pair = pytest.mark.parametrize(("name", "encoder"), PAIRS)
every_encoder = pytest.mark.parametrize("encoder", ENCODERS)
every_task = pytest.mark.parametrize("task", [REGRESSION, CLASSES], ids=["score", "classes"])


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


def small(name, dropout_free=False, **changes):
    """A config of few units and a start of half an epoch where there is one."""
    kind = method(name).config_class()
    names = {field.name for field in dataclasses.fields(kind)}
    start = {n: 0.25 for n in ("dense_epochs", "ramp_epochs") if n in names}
    values = {"hidden_size": 3, "target_selection_rate": RATE, "learning_rate": 0.01, **start}
    values |= {"embedding_dropout": 0.0} if dropout_free else {}
    values |= {"encoder_learning_rate": 0.01} | naming(
        changes.pop("encoder", (METHODS[name].encoders or ("rcnn",))[0])
    )
    return kind.from_mapping(values | changes)


def trainer_of(name, task, seed=0, bf16=False, **changes):
    config = small(name, **changes)
    return method(name).trainer_class()(
        config,
        task,
        given_to(config.encoder),
        steps_per_epoch=3,
        seed=seed,
        device=CPU,
        bf16=bf16,
        class_counts=[3, 2, 1] if task.kind == "classification" else None,
    )


def trained(name, task, **changes):
    """A trainer past its start."""
    trainer = trainer_of(name, task, **changes)
    while trainer.epoch < math.ceil(trainer.config.start_epochs) + 1:
        trainer.train_epoch(random_batches(3, task, seed=trainer.epoch))
    return trainer


@functools.cache
def trained_model(name, task, encoder):
    """The model of such a trainer; tests that change nothing in it share one."""
    return trained(name, task, encoder=encoder).evaluated_model.eval()


def padded(batch: Batch) -> Batch:
    """The same texts with three positions of padding more."""
    wider = {
        f.name: functional.pad(value, (0, 3))
        for f in dataclasses.fields(batch)
        if f.init and (value := getattr(batch, f.name)).dim() == 2
    }
    return dataclasses.replace(batch, **wider)


def same_answers(first, second, batch):
    with torch.no_grad():
        mine, theirs = (model.infer(batch.words, batch.is_token) for model in (first, second))
    return all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


def assert_same_state(a, b):
    if isinstance(a, dict):
        assert a.keys() == b.keys()
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list | tuple):
        for mine, theirs in zip(a, b, strict=True):
            assert_same_state(mine, theirs)
    elif torch.is_tensor(a):
        assert torch.equal(a, b)
    else:
        assert a == b


@every_method
def test_it_has_a_search_under_the_same_name(name):
    assert lookup.implementation(name) is METHODS[name]
    assert method_of(small(name)) == name


@every_method
def test_an_unknown_hyper_parameter_is_refused(name):
    with pytest.raises(
        ConfigError, match=r"unknown hyper-parameter `hiden_size`; did you mean `hidden_size`?"
    ):
        small(name, hiden_size=3)


@every_method
def test_its_config_survives_the_way_through_a_mapping(name):
    config = small(name)
    assert type(config).from_mapping(config.to_dict()) == config


@every_pair
@every_task
def test_it_trains_every_weight_and_the_selection_moves(name, encoder, task):
    """No weight is left where it was drawn: no part is cut off from the loss."""
    task = fit(name, task)
    trainer = trainer_of(name, task, encoder=encoder)
    drawn = {name: value.clone() for name, value in trainer.model.named_parameters()}
    batches = random_batches(3, task)
    before = probabilities_of_rationales(trainer.model, batches, CPU)[0]
    while trainer.epoch < math.ceil(trainer.config.start_epochs) + 2:
        means = trainer.train_epoch(batches)
        assert {"sp", "objective", "sampled_selection_rate"} <= means.keys()
        assert all(np.isfinite(value) for value in means.values())
        assert 0 <= means["sampled_selection_rate"] <= 1
    after = probabilities_of_rationales(trainer.model, batches, CPU)[0]
    assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    assert trainer.is_presentable
    still = [name for name, value in trainer.model.named_parameters() if torch.equal(value, drawn[name])]
    assert still == []


@every_pair
@every_task
def test_padding_changes_nothing(name, encoder, task):
    task = fit(name, task)
    model = trained_model(name, task, encoder)
    (batch,) = random_batches(1, task)
    wider = padded(batch)
    width = batch.is_token.shape[1]
    with torch.no_grad():
        found, again = (model.infer(b.words, b.is_token) for b in (batch, wider))
    assert torch.allclose(found.output, again.output, rtol=1e-5, atol=1e-6)
    assert torch.allclose(found.select_probability, again.select_probability[:, :width], rtol=1e-5, atol=1e-6)
    assert not again.mask[:, width:].any()
    assert not again.select_probability[:, width:].any()


@every_pair
@every_task
def test_a_text_is_answered_alike_alone_and_among_others(name, encoder, task):
    task = fit(name, task)
    model = trained_model(name, task, encoder)
    (batch,) = random_batches(1, task)
    with torch.no_grad():
        together = model.infer(batch.words, batch.is_token)
        for row, length in enumerate(batch.is_token.sum(dim=1).tolist()):
            words = Words.of(batch.token_ids[[row], :length])
            alone = model.infer(words, batch.is_token[[row], :length])
            assert torch.allclose(alone.output[0], together.output[row], rtol=1e-5, atol=1e-6)
            assert torch.equal(alone.mask[0], together.mask[row, :length])


FORMS = [
    ("infocal", {"sampling": "relaxed"}),
    ("infocal", {"calibration_loss": "policy_gradient"}),
    ("sparse_ib", {"sampling": "straight_through"}),
    ("fresh", {"support_epochs": 0.1}),
]
every_sampling = pytest.mark.parametrize(
    ("name", "encoder", "changes"),
    [
        *[(name, encoder, {}) for name, encoder in PAIRS],
        *[(name, encoder, changes) for name, changes in FORMS for encoder in ENCODERS],
    ],
    ids=lambda value: value if isinstance(value, str) else "-".join(map(str, value.values())) or "default",
)


@every_sampling
@pytest.mark.parametrize(
    ("pooling", "task"),
    [("mean", REGRESSION), ("mean", CLASSES), ("max", REGRESSION), ("last", CLASSES)],
    ids=["mean-score", "mean-classes", "max-score", "last-classes"],
)
def test_leaving_tokens_out_changes_no_gradient(name, changes, encoder, task, pooling, monkeypatch):
    """What a method drops to be fast must be what training would not have seen anyway."""
    task = fit(name, task)
    gradients = []
    for is_short in (True, False):
        if not is_short:
            for module in (rationalizer, fresh):
                monkeypatch.setattr(module, "selected_only", lambda e, m, t: (e, m, t))
        trainer = trainer_of(name, task, encoder=encoder, pooling=pooling, dropout_free=True, **changes)
        trainer.epoch = 5
        torch.manual_seed(1)
        terms, _, _ = trainer.step_terms(random_batch([9, 7, 5], 3, task))
        trainer.objective(terms).backward()
        gradients.append({n: p.grad for n, p in trainer.model.named_parameters() if p.grad is not None})
    short, whole = gradients
    assert short.keys() == whole.keys()
    for part, gradient in whole.items():
        assert torch.allclose(short[part], gradient, rtol=1e-4, atol=1e-6), part


def gradient_by_words(model):
    """Size of the gradient by the vector of each word, or by those of its pieces in any encoder."""
    if model.lexicon is None:
        return model.embeddings.grad.abs().sum(dim=1)
    tables = [m.model.get_input_embeddings() for m in model.modules() if isinstance(m, Transformer)]
    pieces = sum(t.weight.grad.abs().sum(dim=1) for t in tables if t.weight.grad is not None)
    rows = model.lexicon.piece_ids.split(model.lexicon.first_piece.diff().tolist())
    return torch.stack([pieces[row].sum() for row in rows])


@every_sampling
@every_task
def test_training_sees_all_tokens(name, changes, encoder, task):
    """Over some draws every token is told what its selection costs, also where it is hardly ever selected."""
    task = fit(name, task)
    trainer = trainer_of(name, task, encoder=encoder, dropout_free=True, train_embeddings=True, **changes)
    batch = random_batch([9, 7, 5], 3, task)
    has_selector = hasattr(trainer.model, "selector")
    if has_selector:
        trainer.epoch = 5  # every weight is in force; FRESH is looked at while its support model reads
    told = torch.zeros(batch.is_token.shape)
    words = torch.zeros(NUM_WORDS)
    is_read = batch.token_ids[batch.is_token].unique()
    for seed in range(30):
        torch.manual_seed(seed)
        terms, _, rest = trainer.step_terms(batch)
        for part in trainer.heard(terms, rest)[:1]:
            found = torch.autograd.grad(part.terms[part.reference], part.at, retain_graph=True)
            told += sum(gradient.abs() for gradient in found)
        trainer.model.zero_grad()
        terms["sp"].backward()
        words += gradient_by_words(trainer.model)
        is_told = not has_selector or (told[batch.is_token] > 0).all()
        if seed >= 2 and is_told and (words[is_read] > 0).all():
            break  # sums of sizes: what is above zero stays there
    if has_selector:
        assert (told[batch.is_token] > 0).all()
        assert not told[~batch.is_token].any()
    assert (words[is_read] > 0).all()


@pytest.mark.parametrize("name", ["infocal", "sparse_ib"])
@every_encoder
def test_a_hard_mask_tells_every_token_in_one_pass(name, encoder):
    """Straight-through: an unselected token is told what would have changed had it been selected.

    The one selected token of a text may hear nothing: the mean over one state does not depend on its gate.
    """
    trainer = trainer_of(
        name,
        REGRESSION,
        encoder=encoder,
        dropout_free=True,
        sampling="straight_through",
        start_selection_rate=0.2,
    )
    torch.manual_seed(0)
    batch = random_batch([9, 7, 5], 3)
    terms, mask, rest = trainer.step_terms(batch)
    assert set(mask[batch.is_token].tolist()) == {0.0, 1.0}
    (gradient,) = torch.autograd.grad(terms["sp"], rest.select_logit)
    # a second copy of a word changes no mean of states that know their neighbours alone
    is_copy = torch.zeros_like(batch.is_token)
    for row, ids in enumerate(batch.token_ids):
        is_copy[row] = torch.isin(ids, ids[mask[row] > 0])
    told = gradient != 0
    assert told[batch.is_token & (mask == 0) & ~is_copy].all()
    assert encoder == "cnn" or told[batch.is_token & (mask == 0)].all()


@every_method
@pytest.mark.parametrize(
    ("form", "task"),
    [
        *(("torch", REGRESSION), ("torch", CLASSES), ("plain", CLASSES)),
        pytest.param("cpp", REGRESSION, marks=NEEDS_COMPILER),
    ],
    ids=["torch-score", "torch-classes", "plain-classes", "cpp-score"],
)
def test_measuring_shares_changes_no_bit(name, task, form, monkeypatch):
    task = fit(name, task)
    monkeypatch.setenv("INFOCAL_KERNEL", form)
    states = []
    for every in (1, 10**9):
        trainer = trainer_of(name, task, average_decay=0.9)
        monkeypatch.setattr(gradient_shares, "EVERY", every)
        if every > 1:
            monkeypatch.setattr(trainer, "_measure_shares", lambda terms, rest: None)
        for epoch in range(3):
            trainer.train_epoch(random_batches(3, task, seed=epoch))
        states.append(trainer.state_dict())
        if every == 1:
            has_selector = hasattr(trainer.model, "selector")
            assert bool(trainer.gradient_shares) == has_selector
            assert all(math.isfinite(share) and share >= 0 for share in trainer.gradient_shares.values())
    assert_same_state(*states)


@every_method
def test_shares_go_on_within_an_epoch(name, monkeypatch):
    monkeypatch.setattr(gradient_shares, "EVERY", 2)
    task = fit(name, REGRESSION)
    batches = random_batches(5, task)
    straight = trainer_of(name, task)
    straight.train_epoch(batches)
    broken = trainer_of(name, task)
    for batch in batches[:3]:
        for term, value in broken.train_step(batch).items():
            broken.sums[term] = broken.sums.get(term, 0) + value
    file = io.BytesIO()
    torch.save(broken.state_dict(), file)
    file.seek(0)
    again = trainer_of(name, task, seed=1)
    again.load_state_dict(torch.load(file, weights_only=True))
    again.train_epoch(batches[3:])
    assert again.gradient_shares == straight.gradient_shares


@every_pair
@every_task
def test_a_checkpoint_goes_on_bit_for_bit(name, encoder, task):
    task = fit(name, task)
    schedule = {"warmup_epochs": 0.5, "decay_epochs": 3.0} if encoder == "transformer" else {}
    changes = {"encoder": encoder, "average_decay": 0.9, **schedule}
    first = trainer_of(name, task, **changes)
    batches = random_batches(6, task)
    first.train_epoch(batches[:3])
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = trainer_of(name, task, seed=1, **changes)
    second.load_state_dict(torch.load(file, weights_only=True))
    for trainer in (first, second):
        torch.manual_seed(5)
        trainer.train_epoch(batches[3:])
    assert_same_state(first.state_dict(), second.state_dict())


@every_pair
@every_task
def test_packages_and_best_epochs_answer_as_the_model_does(name, encoder, task, tmp_path: Path):
    task = fit(name, task)
    model = copy.deepcopy(trained_model(name, task, encoder))
    model.threshold = 0.2
    words = ["<pad>", "<unk>", *map(str, range(len(model.embeddings) - 2))]
    targets = {"targets": [{"name": head.name} for head in task.heads]} if task.sides else {}
    save_package(tmp_path / "package", Package(model, words, {"tokenizer": "english", **targets}))
    save_best(tmp_path / "best", model, {}, [])
    (batch,) = random_batches(1, task)
    for read in (load_package(tmp_path / "package").model, load_best(tmp_path / "best", random_embeddings())):
        assert type(read) is type(model)
        assert read.config == model.config
        assert read.threshold == 0.2
        assert same_answers(model, read, batch)


@every_method
@every_task
def test_it_learns_from_human_rationales_only_if_it_is_called_supervised(name, task):
    task = fit(name, task)
    states = []
    for seed in (0, 1):
        trainer = trainer_of(name, task)
        for epoch in range(math.ceil(trainer.config.start_epochs) + 1):
            batches = random_batches(3, task, seed=epoch)
            trainer.train_epoch([marked(batch, seed) for batch in batches])
        states.append(trainer.model.state_dict())
    is_same = all(torch.equal(a, b) for a, b in zip(*(s.values() for s in states), strict=True))
    assert is_same is not METHODS[name].is_supervised


def marked(batch: Batch, seed: int) -> Batch:
    """The same texts with marks that nobody made."""
    share = torch.rand(batch.is_token.shape, generator=torch.Generator().manual_seed(seed)) * batch.is_token
    return dataclasses.replace(batch, human_rationale=share)


def test_supervised_is_what_its_name_says():
    named = {name for name in METHODS if name.endswith("_hatexplain")}
    assert {name for name, found in METHODS.items() if found.is_supervised} == named


@every_method
@every_task
def test_the_prediction_has_the_form_of_the_task(name, task: Task):
    task = fit(name, task)
    trainer = trained(name, task)
    for prediction in trainer.predict(random_batches(1, task)):
        assert prediction.output.shape == (task.num_classes,)
        assert prediction.guider_output is None or prediction.guider_output.shape == (task.num_classes,)
        assert ((prediction.select_probability >= 0) & (prediction.select_probability <= 1)).all()


@every_method
@pytest.mark.parametrize("rate", [0.07, 0.3])
def test_a_threshold_meets_the_rate(name, rate):
    task = fit(name, REGRESSION)
    trainer = trained(name, task, target_selection_rate=rate)
    batches = random_batches(100, task)
    found = probabilities_of_rationales(trainer.evaluated_model, batches, CPU)[0]
    threshold = threshold_for_rate(found, rate)
    selected = np.concatenate(apply_threshold(found, threshold))
    assert selected.mean() == pytest.approx(rate, abs=0.01)


@every_method
@every_task
def test_a_dense_row_selects_everything(name, task):
    task = fit(name, task)
    trainer = trained(name, task, target_selection_rate=1.0)
    for prediction in trainer.predict(random_batches(1, task)):
        assert (prediction.select_probability == 1).all()


@every_method
def test_the_pipeline_trains_it_on_the_sample(name, tmp_path: Path):
    encoder = (METHODS[name].encoders or ("lstm",))[0]
    base = small(name, target_selection_rate=0.18, encoder=encoder, batch_size=256).to_dict()
    if ENCODERS[encoder].is_pretrained:
        base["pretrained"] = str(write_encoder(tmp_path / "encoder", ["the"]))
    data = {}
    if not method(name).config_class().predicts_one:
        features = law_features()
        data = {"dataset": "cail-small", "aspect": features.aspect, "features_dir": str(features.directory)}
        data["criterion"] = lookup.criterion("cail-small", features.aspect)
    run = run_settings(method=name, num_epochs=1, hold_rate=True, **data)
    run = dataclasses.replace(run, base=base)
    results = []
    best = train({}, run, lambda result, _: results.append(result), tmp_path).best
    assert [type(result) for result in results] == [Epoch], results
    assert load_best(tmp_path / "best", _vectors(run)).config == run.config()
    assert best.scores["val_selection_rate"] == pytest.approx(0.18, abs=0.01)


def _vectors(run):
    from feature_store.store import load_features
    from pipeline.training.loaders import embeddings_of

    return embeddings_of(load_features(Path(run.features_dir)))


@pytest.mark.parametrize("name", [name for name, encoder in PAIRS if encoder == "transformer"])
@every_task
def test_a_transformer_trains_with_bf16_on_a_cpu(name, task, monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    trainer = trainer_of(name, task, encoder="transformer", bf16=True)
    encoder = next(module for module in trainer.model.modules() if isinstance(module, Transformer))
    types = set()
    block = encoder.model.encoder.layer[0].output.dense
    block.register_forward_hook(lambda module, inputs, output: types.add((module.training, output.dtype)))
    while trainer.epoch < math.ceil(trainer.config.start_epochs) + 1:
        means = trainer.train_epoch(random_batches(3, task, seed=trainer.epoch))
        assert all(math.isfinite(value) for value in means.values())
    assert (True, torch.bfloat16) in types
    assert {p.dtype for p in trainer.model.parameters()} == {torch.float32}
    types.clear()
    predictions = list(trainer.predict(random_batches(1, task)))
    assert len(predictions) == 4
    assert types <= {(False, torch.float32)}

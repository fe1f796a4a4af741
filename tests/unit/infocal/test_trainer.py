"""The trainer: steps, schedules, averages, predictions; and checkpoints that continue bit for bit."""

import io

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from infocal import losses
from infocal import trainer as trainer_module
from infocal.errors import StateError, TrainingFailure
from infocal.kernels import rcnn_torch
from infocal.methods.infocal.trainer import InfoCalTrainer
from infocal.trainer import check_bf16, predict, resolve_device
from tests.small_encoder import WORD_ENCODERS
from tests.small_model import (
    CLASSES,
    REGRESSION,
    random_batch,
    random_batches,
    random_embeddings,
    small_config,
    small_trainer,
)

# everything that draws or remembers is on
FULL = {
    "average_decay": 0.9,
    "embedding_dropout": 0.3,
    "target_selection_rate": 0.2,
    "lambda_coherence": 0.01,
    "dense_epochs": 0.5,
    "ramp_epochs": 1.0,
    "train_embeddings": True,
}


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    monkeypatch.setenv("INFOCAL_KERNEL", "torch")  # nothing to compile


def flat(state, prefix=""):
    """A nested state as one level of names."""
    if isinstance(state, dict):
        items = state.items()
    elif isinstance(state, list | tuple):
        items = enumerate(state)
    else:
        return {prefix: state}
    return {k: v for name, value in items for k, v in flat(value, f"{prefix}/{name}").items()}


def assert_same_state(a, b):
    first, second = flat(a), flat(b)
    assert first.keys() == second.keys()
    for name, value in first.items():
        same = torch.equal(value, second[name]) if torch.is_tensor(value) else value == second[name]
        assert same, name


def through_a_file(state):
    """Saved and read again, without pickle's freedom to run code."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def weights(module):
    return torch.cat([p.detach().flatten() for p in module.parameters()])


def gradients(module):
    return torch.cat([p.grad.flatten() for p in module.parameters()])


class Waits(TorchDispatchMode):
    """Names the operations for whose result the host waits on a GPU."""

    KINDS = ("_local_scalar_dense", "nonzero", "unique", "masked_select", "is_nonzero", "equal", "item")

    def __init__(self):
        super().__init__()
        self.found = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name.startswith(self.KINDS):
            self.found.add(name)
        return func(*args, **(kwargs or {}))


# ---------------------------------------------------------------- one step, one epoch


@pytest.mark.parametrize("encoder", WORD_ENCODERS)
@pytest.mark.parametrize("kernel", ["torch", "plain"])
def test_nothing_in_a_step_makes_the_host_wait_for_the_device(monkeypatch, encoder, kernel):
    monkeypatch.setenv("INFOCAL_KERNEL", kernel)
    # on a CPU, where waiting costs nothing, the torch form asks whether all gates are open
    monkeypatch.setattr(rcnn_torch, "_all_open", lambda gates: False)
    trainer = small_trainer(**FULL | {"encoder": encoder, "target_selection_rate": 0.2, "average_decay": 0.0})
    batches = random_batches(2)
    trainer.train_step(batches[0])  # the first step makes the optimisers' state
    with Waits() as waits:
        trainer.train_step(batches[1])
    assert waits.found == set()


def test_the_moving_average_counts_on_the_host():
    """It asks for its count at each update; elsewhere that would be a wait."""
    trainer = small_trainer(average_decay=0.9, device="meta")
    assert trainer.average.n_averaged.device.type == "cpu"
    assert {p.device.type for p in trainer.average.module.parameters()} == {"meta"}


def test_the_look_out_for_waits_sees_one():
    with Waits() as waits:
        torch.unique(torch.ones(3)).sum().item()
    assert waits.found == {"_unique2", "_local_scalar_dense"} or waits.found == {"_local_scalar_dense"}


def test_an_epoch_reports_the_mean_of_every_term():
    batches = random_batches(3)
    by_step = small_trainer(**FULL)
    steps = [by_step.train_step(batch) for batch in batches]
    means = small_trainer(**FULL).train_epoch(batches)
    assert set(means) == set(steps[0])
    for name, value in means.items():
        assert value == pytest.approx(sum(s[name].item() for s in steps) / 3, rel=1e-6, abs=1e-6), name


def test_the_objective_is_the_weighted_sum_of_the_reported_terms():
    weights_ = {
        "lambda_ib": 0.5,
        "lambda_g": 2.0,
        "lambda_mi": 0.25,
        "lambda_lm": 3.0,
        "lambda_coherence": 1.5,
    }
    terms = small_trainer(target_selection_rate=0.2, **weights_).train_step(random_batch([4, 2]))
    t = {name: value.item() for name, value in terms.items()}
    expected = t["sp"] + 0.5 * t["ib"] + 2 * t["g"] + t["guide"] + 0.25 * t["mi"] + 3 * t["lm"]
    assert t["objective"] == pytest.approx(expected + 1.5 * t["coherence"] + t["rate"], rel=1e-5)
    assert t["rate"] > 0
    assert not any(value.requires_grad for value in terms.values())


def test_dense_training_is_by_the_prediction_losses_alone():
    changes = {"dense_epochs": 1.0, "ramp_epochs": 1.0}
    trainer = small_trainer(lambda_ib=0.5, lambda_g=2.0, lambda_mi=0.25, lambda_lm=3.0, **changes)
    t = {name: value.item() for name, value in trainer.train_step(random_batch([4, 2])).items()}
    assert t["objective"] == pytest.approx(t["sp"] + t["guide"], rel=1e-6)
    # and the discriminator learns from the first step on
    assert gradients(trainer.discriminator).any()


def test_pressure_follows_the_steps():
    trainer = small_trainer(dense_epochs=1.0, ramp_epochs=1.0, num_batches=2)
    steps = [trainer.train_step(batch)["pressure"].item() for batch in random_batches(1)]
    trainer.position = 0
    for _ in range(3):
        for batch in random_batches(2):
            steps.append(trainer.train_step(batch)["pressure"].item())
        trainer.epoch, trainer.position = trainer.epoch + 1, 0
    assert steps == [0.0, 0.0, 0.0, 0.0, 0.5, 1.0, 1.0]


def test_epochs_are_counted():
    trainer = small_trainer(num_batches=2)
    assert trainer.epochs_done == 0.0
    trainer.train_step(random_batch([3]))
    assert trainer.epochs_done == 0.5
    trainer.train_epoch([random_batch([3])])
    assert (trainer.epoch, trainer.position, trainer.epochs_done) == (1, 0, 1.0)


@pytest.mark.parametrize("task", [REGRESSION, CLASSES], ids=["regression", "classification"])
@pytest.mark.parametrize("encoder", WORD_ENCODERS)
def test_training_lowers_the_prediction_losses(task, encoder):
    batches = random_batches(2, task)
    # hardly any L_mi: with eight texts its noise would be all that is left to see
    off = {"lambda_g": 0.1, "lambda_ib": 0.0, "lambda_lm": 0.0, "lambda_mi": 0.001}
    trainer = small_trainer(task, encoder=encoder, learning_rate=0.05, hidden_size=6, **off)
    first, *_, last = (trainer.train_epoch(batches) for _ in range(10))
    assert last["sp"] + last["guide"] < 0.4 * (first["sp"] + first["guide"])


def test_a_seed_decides_the_weights():
    def trained(seed):
        trainer = small_trainer(seed=seed, **FULL)
        trainer.train_epoch(random_batches(3))
        return weights(trainer.model)

    assert torch.equal(trained(5), trained(5))
    assert not torch.equal(trained(5), trained(6))


def test_the_discriminators_step_never_reaches_the_generator(monkeypatch):
    batch = random_batch([5, 4])
    plain = small_trainer()
    plain.train_step(batch)
    loss = losses.discriminator_loss
    monkeypatch.setattr(losses, "discriminator_loss", lambda *args: 1000 * loss(*args))
    changed = small_trainer()
    changed.train_step(batch)
    assert torch.equal(gradients(plain.model), gradients(changed.model))
    assert torch.equal(weights(plain.model), weights(changed.model))
    expected = 1000 * gradients(plain.discriminator)
    atol = 1e-5 * expected.abs().max().item()
    assert torch.allclose(gradients(changed.discriminator), expected, rtol=1e-4, atol=atol)


def test_the_generators_loss_never_moves_the_discriminator():
    # L_g's gradient flows through D and has to be cleared before D's own step
    steps = []
    for lambda_g in (0.0, 1000.0):
        trainer = small_trainer(lambda_g=lambda_g)
        trainer.train_step(random_batch([5, 4]))
        steps.append(gradients(trainer.discriminator))
    assert steps[0].any()
    assert torch.equal(*steps)


def test_the_generators_gradient_is_clipped():
    trainer = small_trainer(clip_norm=1e-3)
    trainer.train_step(random_batch([5, 4]))
    assert gradients(trainer.model).norm().item() == pytest.approx(1e-3, rel=1e-3)


def test_printed_discriminator_loss_can_be_chosen():
    batch = random_batch([5, 4])
    standard, printed = (
        small_trainer(discriminator_loss=f).train_step(batch) for f in ("standard", "printed")
    )
    assert standard["d"].item() != printed["d"].item()
    assert standard["objective"].item() == printed["objective"].item()


@pytest.mark.parametrize(("calibrate_to", "of_guider"), [("mean", "mu"), ("sample", "guider_feature")])
def test_the_discriminator_sees_the_guiders_mean_or_a_sample(calibrate_to, of_guider):
    trainer = small_trainer(calibrate_to=calibrate_to)
    passes, seen = [], []
    trainer.model.register_forward_hook(lambda module, inputs, output: passes.append(output))
    trainer.discriminator.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0]))
    terms = trainer.train_step(random_batch([5, 4]))
    (forward,) = passes
    real = forward.gaussian.mu if of_guider == "mu" else forward.guider_feature
    by_generator, by_guider, by_predictor = seen
    assert torch.equal(by_generator, forward.predictor_feature)
    assert by_generator.requires_grad
    assert torch.equal(by_guider, real)
    assert torch.equal(by_predictor, forward.predictor_feature)
    assert not by_guider.requires_grad
    assert not by_predictor.requires_grad
    assert not torch.equal(forward.gaussian.mu, forward.guider_feature)
    assert terms["d"].isfinite()


def test_what_the_discriminator_sees_decides_its_loss_alone():
    batch = random_batch([5, 4])
    mean, sample = (small_trainer(calibrate_to=c).train_step(batch) for c in ("mean", "sample"))
    assert mean["d"].item() != sample["d"].item()
    assert mean["objective"].item() == sample["objective"].item()


def test_the_discriminator_has_a_slope_of_its_own():
    batch = random_batch([5, 4])
    sizes = [
        small_trainer(discriminator_slope=slope).train_step(batch)["discriminator_logit_size"].item()
        for slope in (0.1, 1.0)
    ]
    assert sizes[1] == pytest.approx(10 * sizes[0], rel=1e-4)


# ---------------------------------------------------------------- failures


def test_a_loss_that_is_not_finite_stops_training():
    embeddings = random_embeddings()
    embeddings[3] = torch.nan
    trainer = InfoCalTrainer(
        small_config(), REGRESSION, embeddings, steps_per_epoch=3, seed=0, device=torch.device("cpu")
    )
    with pytest.raises(
        TrainingFailure, match=r"^non_finite: epoch 1: these losses are not finite: .*sp = nan"
    ) as caught:
        trainer.train_epoch(random_batches(3))
    assert caught.value.reason == "non_finite"
    assert trainer.epoch == 0


@pytest.mark.parametrize("logit", [0.0, 20.0, -20.0])
def test_a_discriminator_that_says_the_same_of_all_stops_training(logit):
    trainer = small_trainer()
    trainer.discriminator.register_forward_hook(lambda module, inputs, output: output * 0 + logit)
    with pytest.raises(
        TrainingFailure,
        match=r"^discriminator_stuck: epoch 1: the discriminator gives \(nearly\) the same output for all "
        r"features \(standard deviation of its logit: 0\)$",
    ) as caught:
        trainer.train_epoch(random_batches(3))
    assert caught.value.reason == "discriminator_stuck"


def winning(**changes):
    """With the product's slope: a guider that lies far off is told apart from every rationale."""
    trainer = small_trainer(discriminator_learning_rate=0.05, lambda_g=0.001, **changes)
    far = torch.full((trainer.config.feature_size,), 5.0)
    trainer.model.guider.register_forward_hook(
        lambda module, inputs, output: output._replace(mu=output.mu + far)
    )
    return trainer


@pytest.mark.parametrize("dense_epochs", [0.0, 50.0])
def test_a_discriminator_that_wins_is_reported_and_stops_nothing(dense_epochs):
    trainer = winning(dense_epochs=dense_epochs)
    epochs = [trainer.train_epoch(random_batches(3)) for _ in range(50)]
    assert epochs[-1]["discriminator_accuracy"] == 1.0
    assert (trainer.gradient_shares["g"] > 0) == (dense_epochs == 0), "L_g still reaches the selector"


@pytest.mark.parametrize("slope", [0.05, 1.0, 1e-9])
def test_a_discriminator_that_is_heard_says_different_things(slope):
    trainer = small_trainer(discriminator_slope=slope)
    if slope > 1e-6:
        assert trainer.train_epoch(random_batches(3))["discriminator_deviation"] > 0.01 * slope
        return
    with pytest.raises(TrainingFailure, match=r"^discriminator_stuck: epoch 1: the discriminator gives"):
        trainer.train_epoch(random_batches(3))


def test_the_discriminators_accuracy_is_the_mean_over_both_kinds():
    trainer = small_trainer(num_batches=1)
    logits = iter([torch.zeros(4), torch.tensor([1.0, 1.0, -1.0, 1.0]), torch.tensor([-1.0, 2.0, 3.0, -4.0])])
    trainer.discriminator.register_forward_hook(lambda module, inputs, output: output * 0 + next(logits))
    found = trainer.train_step(random_batch([3, 2, 4, 5]))
    assert found["discriminator_accuracy"].item() == pytest.approx((3 / 4 + 2 / 4) / 2)
    assert found["discriminator_deviation"].item() > 1


def test_how_far_the_guider_is_ahead_is_logged():
    found = small_trainer().train_step(random_batch([5, 4]))
    expected = found["guide"].item() - found["sp"].item()
    assert found["guider_minus_predictor"].item() == pytest.approx(expected)


@pytest.mark.parametrize("changes", [{"lambda_g": 0.0}, {"calibration_loss": "policy_gradient"}])
def test_a_discriminator_that_nobody_listens_to_may_stand_still(changes):
    trainer = small_trainer(**changes)
    trainer.discriminator.register_forward_hook(lambda module, inputs, output: output * 0)
    assert trainer.train_epoch(random_batches(3))["discriminator_logit_size"] == 0.0


def test_an_epoch_without_batches_is_refused():
    with pytest.raises(StateError, match="^epoch 1 has no batch left to train on$"):
        small_trainer().train_epoch([])


def test_bf16_is_refused_on_a_cpu_with_recurrent_encoders():
    with pytest.raises(
        StateError,
        match="^--bf16: bf16 autocast needs a CUDA device if the encoder is `rcnn`, but the device is cpu$",
    ):
        InfoCalTrainer(
            small_config(),
            REGRESSION,
            random_embeddings(),
            steps_per_epoch=1,
            seed=0,
            device=torch.device("cpu"),
            bf16=True,
        )


@pytest.mark.parametrize(
    ("found", "is_refused"),
    [
        ({}, True),
        ({"avx512_bf16": False, "avx512_fp16": True}, True),
        ({"avx512_bf16": True}, False),
        ({"amx_bf16": True}, False),
        ({"bf16": True}, False),
    ],
)
def test_bf16_needs_a_cpu_with_instructions_for_it(monkeypatch, found, is_refused):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: found, raising=False)
    if not is_refused:
        return check_bf16(True, torch.device("cpu"), "transformer")
    with pytest.raises(StateError, match="needs a CUDA device or a CPU with bfloat16 instructions"):
        check_bf16(True, torch.device("cpu"), "transformer")


def test_bf16_is_refused_where_torch_cannot_tell_what_the_cpu_has(monkeypatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    with pytest.raises(StateError, match="but torch reports none of avx512_bf16, amx_bf16, bf16$"):
        check_bf16(True, torch.device("cpu"), "transformer")


@pytest.mark.parametrize("name", ["tpu", "", "cudaX", "cuda:", "CPU"])
def test_an_unknown_device_is_refused(name):
    with pytest.raises(
        StateError, match=f"^--device: unknown device `{name}`; the devices are auto, cpu, cuda"
    ):
        resolve_device(name)


@pytest.mark.parametrize("name", ["cuda", "cuda:1"])
def test_an_absent_gpu_is_refused(monkeypatch, name):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        StateError, match=f"device `{name}` was asked for, but torch .* sees no CUDA"
    ) as caught:
        resolve_device(name)
    assert caught.value.hint == "use `--device auto`"


@pytest.mark.parametrize(("there", "expected"), [(True, "cuda"), (False, "cpu")])
def test_auto_takes_the_gpu_where_there_is_one(monkeypatch, there, expected):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert resolve_device("auto") == torch.device(expected)
    assert resolve_device("cpu") == torch.device("cpu")


# ---------------------------------------------------------------- learning rate and average


def test_learning_rate_falls_at_the_milestones_to_the_floor():
    changes = {"learning_rate_decay": 0.5, "min_learning_rate": 0.0002}
    trainer = small_trainer(learning_rate=0.001, discriminator_learning_rate=0.03, **changes)
    trainer.train_epoch(random_batches(1))
    rates = [trainer.optimizer.param_groups[0]["lr"]]
    for _ in range(99):
        for scheduler in trainer.schedulers:
            scheduler.step()
        rates.append(trainer.optimizer.param_groups[0]["lr"])
    # .001, halved after 25, 50 and 75 epochs, never below .0002
    assert {rates[i] for i in (0, 23)} == {0.001}
    assert {rates[i] for i in (24, 48)} == {0.0005}
    assert {rates[i] for i in (49, 73)} == {0.00025}
    assert {rates[i] for i in (74, 98)} == {0.0002}
    # the discriminator's falls by the same factor
    assert trainer.discriminator_optimizer.param_groups[0]["lr"] == pytest.approx(0.2 * 0.03)


def test_the_discriminator_has_a_learning_rate_of_its_own():
    batch = random_batch([5, 4])
    moved = []
    for rate in (0.0001, 0.01):
        trainer = small_trainer(learning_rate=0.001, discriminator_learning_rate=rate)
        before = [weights(part) for part in (trainer.model, trainer.discriminator)]
        trainer.train_step(batch)
        after = [weights(part) for part in (trainer.model, trainer.discriminator)]
        moved.append([(a - b).abs().max().item() for a, b in zip(after, before, strict=True)])
    # Adam's first step is the learning rate
    assert [generator for generator, _ in moved] == pytest.approx([0.001, 0.001], rel=0.02)
    assert [discriminator for _, discriminator in moved] == pytest.approx([0.0001, 0.01], rel=0.02)


def test_a_floor_above_the_start_does_not_raise_the_rate():
    trainer = small_trainer(learning_rate=0.001, min_learning_rate=0.5)
    trainer.train_epoch(random_batches(1))
    assert trainer.optimizer.param_groups[0]["lr"] == 0.001


def test_the_evaluated_model_is_the_moving_average():
    trainer = small_trainer(average_decay=0.75, learning_rate=0.05)
    seen = []
    for batch in random_batches(3):
        trainer.train_step(batch)
        seen.append(weights(trainer.model))
    # the first update starts the average, each later one moves it by a quarter
    expected = 0.75 * (0.75 * seen[0] + 0.25 * seen[1]) + 0.25 * seen[2]
    assert trainer.evaluated_model is not trainer.model
    assert torch.allclose(weights(trainer.evaluated_model), expected, atol=1e-6)
    assert not torch.allclose(expected, seen[2], atol=1e-3)


def test_without_an_average_the_weights_themselves_are_evaluated():
    trainer = small_trainer(average_decay=0.0)
    assert trainer.evaluated_model is trainer.model


# ---------------------------------------------------------------- predictions


@pytest.mark.parametrize("task", [REGRESSION, CLASSES], ids=["regression", "classification"])
def test_predictions_are_the_models_text_by_text(task):
    trainer = small_trainer(task, average_decay=0.5)
    batches = random_batches(2, task)
    trainer.train_epoch(batches)
    predictions = list(trainer.predict(batches))
    assert [p.index for p in predictions] == list(range(8))
    assert [len(p.select_probability) for p in predictions] == [6, 3, 2, 5] * 2
    model, batch, third = trainer.evaluated_model.eval(), batches[1], predictions[6]
    inference = model.infer(batch.words, batch.is_token)
    guided = model.guide(batch.words, batch.is_token).detach().numpy()
    np.testing.assert_array_equal(
        third.select_probability, inference.select_probability[2, :2].detach().numpy()
    )
    np.testing.assert_array_equal(third.output, inference.output[2].detach().numpy())
    np.testing.assert_array_equal(third.guider_output, guided[2])
    assert third.target == batch.target[2].item()
    assert third.output.shape == (task.num_classes,)


@pytest.mark.parametrize("training", [True, False])
def test_predicting_changes_neither_weights_nor_mode_nor_the_random_state(training):
    trainer = small_trainer(embedding_dropout=0.5)
    trainer.model.train(training)
    before, rng = weights(trainer.model), torch.get_rng_state()
    first, second = (list(predict(trainer.model, random_batches(1), trainer.device)) for _ in range(2))
    assert all(np.array_equal(a.output, b.output) for a, b in zip(first, second, strict=True))
    assert torch.equal(weights(trainer.model), before)
    assert torch.equal(torch.get_rng_state(), rng)
    assert trainer.model.training is training


# ---------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("changes", [FULL, {}, FULL | {"encoder": "lstm"}], ids=["full", "plain", "lstm"])
def test_two_epochs_are_one_saved_and_continued(changes):
    batches = random_batches(3)
    straight = small_trainer(**changes)
    straight.train_epoch(batches)
    expected = straight.train_epoch(batches)
    at_the_end = straight.state_dict()

    first = small_trainer(**changes)
    first.train_epoch(batches)
    saved = through_a_file(first.state_dict())
    continued = small_trainer(seed=99, **changes)
    continued.load_state_dict(saved)
    assert continued.train_epoch(batches) == expected
    assert_same_state(at_the_end, continued.state_dict())


def test_training_continues_within_an_epoch():
    batches = random_batches(4)
    straight = small_trainer(num_batches=4, **FULL)
    straight.train_epoch(batches)
    at_the_end = straight.state_dict()

    interrupted = small_trainer(num_batches=4, **FULL)
    for batch in batches[:3]:
        interrupted.train_step(batch)
    saved = through_a_file(interrupted.state_dict())
    assert (saved["epoch"], saved["position"]) == (0, 3)
    continued = small_trainer(seed=99, num_batches=4, **FULL)
    continued.load_state_dict(saved)
    continued.train_epoch(batches[continued.position :])
    assert_same_state(at_the_end, continued.state_dict())


def test_a_checkpoint_holds_what_evaluation_reads():
    trainer = small_trainer(**FULL)
    trainer.train_epoch(random_batches(3))
    other = small_trainer(seed=99, **FULL)
    other.load_state_dict(through_a_file(trainer.state_dict()))
    ours, theirs = (list(t.predict(random_batches(2))) for t in (trainer, other))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(a.select_probability, b.select_probability)
        np.testing.assert_array_equal(a.output, b.output)


def test_the_learning_rates_schedule_is_continued():
    def step(trainer, times):
        for scheduler in trainer.schedulers * times:
            scheduler.step()

    rates = {"learning_rate": 0.001, "discriminator_learning_rate": 0.02, "min_learning_rate": 0.0}
    changes = rates | {"learning_rate_decay": 0.5}
    trainer, continued = small_trainer(**changes), small_trainer(**changes)
    for one in (trainer, continued):
        one.train_epoch(random_batches(1))
    step(trainer, 29)
    continued.load_state_dict(through_a_file(trainer.state_dict()))
    step(continued, 20)
    # 30 epochs and 20 more: the milestone at 50 is the second one
    assert continued.optimizer.param_groups[0]["lr"] == 0.00025
    assert continued.discriminator_optimizer.param_groups[0]["lr"] == 0.005


def test_a_checkpoint_of_another_config_is_refused():
    state = small_trainer(lambda_ib=0.5, hidden_size=2).state_dict()
    with pytest.raises(StateError, match="other hyper-parameters") as caught:
        small_trainer(lambda_ib=0.25).load_state_dict(state)
    for said in (
        "hidden_size is 2 in the checkpoint and 3 in",
        "lambda_ib is 0.5 in the checkpoint and 0.25 in",
    ):
        assert said in str(caught.value)


@pytest.mark.parametrize(
    ("change", "shown"),
    [
        (
            lambda config: config.pop("clip_norm"),
            "clip_norm is 5.0 in the checkpoint and 4.5 in this run",
        ),  # it had the default
        (
            lambda config: config.update(lambda_x=1.0),
            "lambda_x is 1.0 in the checkpoint and None in this run",
        ),
    ],
)
def test_a_checkpoint_of_another_version_is_refused(change, shown):
    state = small_trainer(clip_norm=4.5).state_dict()
    change(state["config"])
    with pytest.raises(StateError, match="other hyper-parameters") as caught:
        small_trainer(clip_norm=4.5).load_state_dict(state)
    assert shown in str(caught.value)


def test_a_refused_checkpoint_changes_nothing():
    trainer = small_trainer()
    before = weights(trainer.model)
    with pytest.raises(StateError, match="lambda_ib"):
        trainer.load_state_dict(small_trainer(lambda_ib=0.5, seed=4).state_dict())
    assert torch.equal(weights(trainer.model), before)


def test_milestones_are_the_recipes():
    assert trainer_module._LEARNING_RATE_MILESTONES == (25, 50, 75)

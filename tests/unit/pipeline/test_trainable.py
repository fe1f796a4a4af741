import json
import re
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from feature_store.sources.hatexplain import CLASS_NAMES
from infocal.errors import ConfigError, StateError, TrainingFailure
from infocal.trainer import Trainer, predict
from pipeline.base import environment
from pipeline.base.trajectories import Failure
from pipeline.training import checkpoints, trainable
from pipeline.training.best import best_first
from pipeline.training.epochs import BestEpoch, Epoch, report_of
from pipeline.training.loaders import embeddings_of
from pipeline.training.scoring import Validation, ValidationData, validate
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import Progress, best_shown, epoch_of, shown_predictions, train
from search_spaces import lookup
from tests.small_store import post_features, sample_features
from tests.small_study import criterion, run_settings

TIMES = {"epoch_s", "train_s", "tokens_per_s"}
"""What a clock decides."""


@dataclass
class Reports:
    """What `train` reported, with a copy of each checkpoint."""

    folder: Path
    results: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, result: Epoch | Failure, checkpoint: Path):
        shutil.copytree(checkpoint, self.folder / f"checkpoint-{len(self.results)}")
        self.results.append(report_of(result))

    def checkpoint(self, number: int) -> Path:
        return self.folder / f"checkpoint-{number}"


@dataclass
class Trained:
    run: RunSettings
    reports: Reports
    progress: Progress
    directory: Path


def trained(
    folder: Path, run: RunSettings, values: dict[str, Any], checkpoint: Path | None = None
) -> Trained:
    working = folder / "work"
    working.mkdir(parents=True)
    reports = Reports(folder)
    return Trained(run, reports, train(values, run, reports, working, checkpoint), working)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Three epochs without a break; nothing else writes there."""
    return trained(tmp_path_factory.mktemp("whole"), run_settings(num_epochs=3), {"lambda_ib": 0.001})


def without_times(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{k: v for k, v in result.items() if k not in TIMES} for result in results]


def of_history(trained: Trained) -> list[dict[str, Any]]:
    return [epoch.as_json() for epoch in trained.progress.history]


def test_every_epoch_is_reported_with_its_checkpoint(whole: Trained):
    assert [result["epoch"] for result in whole.reports.results] == [0, 1, 2]
    assert of_history(whole) == whole.reports.results
    for number in range(3):
        stored = checkpoints.read_json(whole.reports.checkpoint(number) / checkpoints.HISTORY)
        assert stored == whole.reports.results[: number + 1]


def test_a_result_holds_losses_scores_speed_and_the_criterion(whole: Trained):
    result = whole.reports.results[-1]
    assert {"train_objective", "train_sp", "train_lm", "val_mse", "val_token_f1"} <= result.keys()
    assert {"objective", "best_objective", "best_epoch", "criterion_violation"} <= result.keys()
    assert result["learning_rate"] == 0.01
    assert 0 < result["train_s"] < result["epoch_s"]
    tokens = sum(len(ids) for ids in sample_features().table("train")["token_ids"].to_pylist())
    assert tokens / result["epoch_s"] < result["tokens_per_s"]
    assert all(np.isfinite(v) for v in result.values() if isinstance(v, float))
    # every epoch carries its language-model term, so the scores did reach the trainer
    assert all(r["train_lm"] != 0 for r in whole.reports.results)


def test_training_lowers_the_loss_of_the_task(whole: Trained):
    losses = [result["train_guide"] for result in whole.reports.results]
    assert losses[-1] < losses[0]


def test_the_best_epoch_is_the_first_with_the_highest_objective(whole: Trained):
    objectives = [result["objective"] for result in whole.reports.results]
    best = whole.progress.best
    assert best is not None
    assert best.epoch == int(np.argmax(objectives))
    assert best.value == max(objectives)
    assert [r["best_objective"] for r in whole.reports.results] == np.maximum.accumulate(objectives).tolist()
    last = whole.reports.results[-1]
    assert last["best_epoch"] == best.epoch
    repeated = best_shown("beer", best.scores, criterion())
    assert {"val_token_precision", "val_token_recall", "val_mse"} <= repeated.keys()
    for name, value in repeated.items():
        assert last[f"best_{name}"] == value == whole.progress.history[best.epoch].metrics[name]


@pytest.mark.parametrize(
    ("worse", "better"),
    [({"val_mse": 0.04}, {"val_mse": 0.03}), ({"val_macro_f1": 0.3}, {"val_macro_f1": 0.4})],
)
def test_where_the_criterion_sees_no_difference_the_prediction_decides(worse: dict, better: dict):
    def epoch(number: int, value: float, scores: dict) -> BestEpoch:
        return BestEpoch(epoch=number, value=value, violation=0.0, scores=scores)

    def best(*epochs: BestEpoch) -> int:
        return best_first(epochs, lambda one: one.standing)[0].epoch

    assert best(epoch(0, 0.5, worse), epoch(1, 0.5, better)) == 1
    assert best(epoch(0, 0.5, better), epoch(1, 0.6, worse)) == 1
    assert best(epoch(0, 0.5, better), epoch(1, 0.5, better)) == 0, "the first of equals stays"


def test_a_dense_row_is_its_best_predictor(tmp_path: Path):
    run = run_settings(method="infocal-dense", num_epochs=3)
    found = trained(tmp_path, run, lookup.fixed_by("infocal-dense"))
    errors = [epoch.metrics["val_mse"] for epoch in found.progress.history]
    assert found.progress.best.epoch == int(np.argmin(errors)) > 0


@pytest.mark.parametrize("number", [0, 1, 2])
def test_the_best_weights_of_a_checkpoint_give_its_reported_scores(whole: Trained, number: int):
    folder = whole.reports.checkpoint(number) / checkpoints.BEST
    stored = checkpoints.read_json(folder / checkpoints.BEST_SCORES)
    model = checkpoints.load_best(folder, embeddings_of(sample_features()))
    rate = model.config.target_selection_rate
    found = validate(
        lambda batches: predict(model, batches, torch.device("cpu")),
        ValidationData.of(sample_features()),
        rate,
    )
    assert found.scores == pytest.approx(stored["scores"], abs=1e-6)
    assert stored["value"] == whole.run.criterion.value(stored["scores"])
    assert stored["is_met"] == (stored["violation"] == 0)
    assert stored["environment"] == environment.facts(torch.device("cpu"))


def test_a_worse_epoch_leaves_the_best_weights_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    # objective of the three epochs: 0.2, 0.4, 0.3
    values = iter([0.2, 0.4, 0.3])
    real = trainable.validate

    def scripted(*args: Any) -> Any:
        found = real(*args)
        found.scores.update(val_token_precision=1.0, val_token_recall=next(values))
        return found

    monkeypatch.setattr(trainable, "validate", scripted)
    done = trained(tmp_path, run_settings(num_epochs=3), {})
    assert (done.progress.best.epoch, done.progress.best.value) == (1, 0.4)

    def weights(number: int) -> bytes:
        return (done.reports.checkpoint(number) / "best" / checkpoints.WEIGHTS).read_bytes()

    assert weights(0) != weights(1)
    assert weights(1) == weights(2)


def test_bounds_that_are_missed_rank_below_any_that_hold(tmp_path: Path):
    done = trained(tmp_path, run_settings(num_epochs=1, criterion=criterion(0.99)), {})
    (result,) = done.reports.results
    precision = result["val_token_precision"]
    assert result["criterion_violation"] == pytest.approx(0.99 - precision)
    assert result["objective"] == pytest.approx(precision - 0.99)
    assert not done.progress.best.is_met


def test_predictions_to_be_shown(whole: Trained):
    shown = json.loads((whole.directory / "best" / checkpoints.BEST_PREDICTIONS).read_text())
    table = sample_features().table("val_annotated")
    assert len(shown) == min(50, len(table))
    for one, row in zip(shown, table.slice(0, 50).to_pylist(), strict=True):
        assert (one["example_id"], one["tokens"]) == (row["example_id"], row["tokens"])
        human = None if row["rationale"] is None else row["rationale"]
        assert (one["human"] is None) == (human is None)
        if human is not None:
            assert [i for i, mark in enumerate(one["human"]) if mark] == human
        assert len(one["probability"]) == len(one["selected"]) == len(one["tokens"])
        assert one["target"] == pytest.approx(row["target"])
        assert 0 < one["prediction"] < 1
        assert 0 < one["guider_prediction"] < 1
    assert any(one["human"] and any(one["human"]) for one in shown)


def test_a_classification_trains_on_its_criterion_and_shows_classes_by_name(tmp_path: Path):
    features = post_features()
    run = run_settings(
        dataset="hatexplain",
        aspect="",
        features_dir=str(features.directory),
        criterion=lookup.criterion("hatexplain", ""),
        num_epochs=1,
    )
    done = trained(tmp_path, run, {})
    (result,) = done.reports.results
    bound = max(0.0, 0.61 - result["val_accuracy"]) + max(0.0, result["val_selection_rate"] - 0.5)
    assert result["objective"] == pytest.approx(-bound if bound else result["val_hatexplain_token_f1"])
    assert result["best_val_hatexplain_token_f1"] == result["val_hatexplain_token_f1"]
    shown = json.loads((done.directory / "best" / checkpoints.BEST_PREDICTIONS).read_text())
    rows = features.table("val").slice(0, 50).to_pylist()
    for one, row in zip(shown, rows, strict=True):
        assert one["target"] == CLASS_NAMES[row["target"]]
        assert (one["human"] is None) == (row["rationale"] is None)
        name, _, probability = one["prediction"].partition(" (")
        assert name in CLASS_NAMES and 1 / 3 <= float(probability.rstrip(")")) <= 1


# ---------------------------------------------------------------------------------------------- resume


@pytest.mark.parametrize("number", [0, 1])
def test_a_resumed_trial_equals_one_without_a_break(tmp_path: Path, whole: Trained, number: int):
    values = {"lambda_ib": 0.001}
    again = trained(tmp_path, whole.run, values, whole.reports.checkpoint(number))
    assert [result["epoch"] for result in again.reports.results] == [0, 1, 2][number + 1 :]
    assert without_times(of_history(again)) == without_times(of_history(whole))
    assert again.progress.best == whole.progress.best
    mine = torch.load(again.reports.checkpoint(1 - number) / "state.pt", weights_only=True)
    other = torch.load(whole.reports.checkpoint(2) / "state.pt", weights_only=True)
    for part in ("model", "discriminator"):
        for name, value in other["trainer"][part].items():
            assert torch.equal(mine["trainer"][part][name], value), name
    best = (again.directory / "best" / checkpoints.WEIGHTS).read_bytes()
    assert best == (whole.directory / "best" / checkpoints.WEIGHTS).read_bytes()


def test_a_finished_trial_that_is_resumed_trains_nothing(tmp_path: Path, whole: Trained):
    again = trained(tmp_path, whole.run, {"lambda_ib": 0.001}, whole.reports.checkpoint(2))
    assert again.reports.results == []
    assert again.progress.best == whole.progress.best


def test_a_checkpoint_of_another_point_is_refused(tmp_path: Path, whole: Trained):
    with pytest.raises(
        StateError, match="other hyper-parameters: .*lambda_ib is 0.001 in the checkpoint and 0.002 in"
    ):
        trained(tmp_path, whole.run, {"lambda_ib": 0.002}, whole.reports.checkpoint(0))


# ------------------------------------------------------------------------------------- values and seeds


def test_values_lie_over_the_base_and_a_seed_of_its_own_counts(tmp_path: Path):
    run = run_settings(num_epochs=1, base={"lambda_g": 0.5})
    first, same, other = (
        trained(tmp_path / name, run, {"lambda_g": 2.0, "seed": seed})
        for name, seed in (("a", 0), ("b", 0), ("c", 1))
    )
    stored = checkpoints.read_json(first.directory / "best" / checkpoints.CONFIG)
    assert stored["config"]["lambda_g"] == 2.0
    assert without_times(first.reports.results) == without_times(same.reports.results)
    assert first.reports.results[0]["train_sp"] != other.reports.results[0]["train_sp"]


def test_an_unknown_value_is_refused_before_anything_is_trained(tmp_path: Path):
    with pytest.raises(ConfigError, match="unknown hyper-parameter `lambda_gg`; did you mean `lambda_g`?"):
        trained(tmp_path, run_settings(), {"lambda_gg": 2.0})


# -------------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(("dense", "ramp", "failing"), [(0.0, 0.0, 0), (1.0, 0.0, 1), (0.5, 1.0, 2)])
def test_a_trivial_mask_fails_the_trial_only_after_the_ramp(
    tmp_path: Path, dense: float, ramp: float, failing: int
):
    # a learning rate at which the mask stays as it starts: everything is selected
    base = {"dense_epochs": dense, "ramp_epochs": ramp, "start_selection_rate": 0.999, "learning_rate": 1e-6}
    done = trained(tmp_path, run_settings(num_epochs=4, base=base), {})
    assert [result.get("failure") for result in done.reports.results] == [None] * failing + ["degenerate_all"]
    last = done.reports.results[-1]
    assert (
        last["failure_message"] == f"degenerate_all: epoch {failing + 1}: the selector has collapsed: "
        f"(nearly) all tokens have p >= 0.5"
    )
    assert last["epoch"] == failing
    # Tune compares these: below every epoch that was trained
    assert last["best_objective"] == last["objective"] == -1e9
    assert len(done.progress.history) == failing, "a failed epoch is none"
    assert (done.directory / "best").is_dir() == (failing > 0)


def test_a_loss_that_is_not_finite_ends_the_trial_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    real, calls = Trainer.train_epoch, [0]

    def breaks(self: Trainer, batches: Any) -> dict[str, float]:
        calls[0] += 1
        if calls[0] == 2:
            raise TrainingFailure("non_finite", "epoch 1: {'objective': nan}")
        return real(self, batches)

    monkeypatch.setattr(Trainer, "train_epoch", breaks)
    done = trained(tmp_path, run_settings(num_epochs=4), {})
    assert calls == [2]
    first, last = done.reports.results
    assert (last["failure"], last["epoch"]) == ("non_finite", 1)
    assert last["failure_message"] == "non_finite: epoch 1: {'objective': nan}"
    # the epoch before stays the trial's best
    assert done.progress.best.epoch == first["epoch"] == 0
    stored = checkpoints.read_json(done.reports.checkpoint(1) / "best" / checkpoints.BEST_SCORES)
    assert stored["epoch"] == 0


def test_a_trial_that_outgrows_its_card_ends_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*args: object):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nMore about it.")

    monkeypatch.setattr(Trainer, "train_epoch", full)
    done = trained(tmp_path, run_settings(num_epochs=4), {})
    (last,) = done.reports.results
    assert last["failure"] == "out_of_memory"
    assert last["failure_message"] == "out_of_memory: epoch 1: CUDA out of memory. Tried to allocate 2 GiB."


def test_a_trial_for_which_the_machine_has_no_memory_ends_with_its_reason(tmp_path: Path):
    # torch itself is asked for more than there is
    done = trained(tmp_path, run_settings(num_epochs=2), {"hidden_size": 2**25})
    (last,) = done.reports.results
    assert (last["failure"], last["epoch"]) == ("out_of_memory", 0)
    assert re.fullmatch(
        r"out_of_memory: start: .*DefaultCPUAllocator: can't allocate memory.*", last["failure_message"]
    )
    assert list(done.reports.checkpoint(0).iterdir()) == []


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MemoryError(), "no memory left"),
        (np._core._exceptions._ArrayMemoryError((9,), np.dtype(np.float32)), "Unable to allocate 36 bytes"),
        (
            RuntimeError("DefaultCPUAllocator: not enough memory: you tried"),
            "DefaultCPUAllocator: not enough",
        ),
        (StateError("cannot read the checkpoint"), "std::bad_alloc"),
    ],
    ids=["python", "numpy", "torch", "cause"],
)
def test_every_lack_of_memory_has_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
):
    def full(*args: object):
        raise error from (RuntimeError("std::bad_alloc") if isinstance(error, StateError) else None)

    monkeypatch.setattr(Trainer, "train_epoch", full)
    done = trained(tmp_path, run_settings(num_epochs=4), {})
    (last,) = done.reports.results
    assert last["failure"] == "out_of_memory"
    assert last["failure_message"].startswith(f"out_of_memory: epoch 1: {reason}")


@pytest.mark.parametrize("error", [RuntimeError("sizes differ"), StateError("cannot read it")])
def test_other_errors_are_no_lack_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    def breaks(*args: object):
        raise error

    monkeypatch.setattr(Trainer, "train_epoch", breaks)
    with pytest.raises(type(error), match=str(error)):
        trained(tmp_path, run_settings(num_epochs=4), {})


def test_a_trial_without_memory_to_go_on_keeps_its_checkpoint(
    whole: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(*args: object):
        raise MemoryError

    monkeypatch.setattr(checkpoints, "load_state", full)
    done = trained(tmp_path, whole.run, {"lambda_ib": 0.001}, whole.reports.checkpoint(1))
    (last,) = done.reports.results
    assert (last["failure"], last["epoch"]) == ("out_of_memory", 2)
    assert last["failure_message"] == "out_of_memory: start: no memory left"
    names = sorted(path.name for path in whole.reports.checkpoint(1).rglob("*"))
    assert sorted(path.name for path in done.reports.checkpoint(0).rglob("*")) == names


@pytest.mark.parametrize(
    ("device", "limited"),
    [("cuda", [(0.25, None)]), ("cuda:1", [(0.25, 1)]), ("cpu", [])],
)
def test_a_trial_is_held_to_its_share_of_the_card(
    device: str, limited: list[tuple[float, int | None]], monkeypatch: pytest.MonkeyPatch
):
    asked: list[tuple[float, int | None]] = []
    monkeypatch.setattr(torch.cuda, "set_per_process_memory_fraction", lambda *given: asked.append(given))
    trainable.limit_memory(torch.device(device), 0.25)
    assert asked == limited


def test_each_trial_sets_its_own_share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Trials that follow one another share a process."""
    asked: list[tuple[str, float]] = []
    monkeypatch.setattr(trainable, "limit_memory", lambda device, rate: asked.append((device.type, rate)))
    trained(tmp_path / "first", run_settings(num_epochs=1, gpu_memory_rate=0.25), {})
    trained(tmp_path / "second", run_settings(num_epochs=1), {})
    assert asked == [("cpu", 0.25), ("cpu", 1.0)]


def test_a_fault_of_ours_is_not_taken_for_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def breaks(*args: object):
        raise ZeroDivisionError("a fault")

    monkeypatch.setattr(trainable, "validate", breaks)
    with pytest.raises(ZeroDivisionError, match="a fault"):
        trained(tmp_path, run_settings(), {})


@pytest.mark.parametrize(("degenerate", "met"), [(None, True), ("degenerate_all", False)])
def test_a_trivial_mask_meets_no_criterion(degenerate: str | None, met: bool):
    found = Validation({"val_token_precision": 0.2, "val_token_recall": 1.0}, [], degenerate)
    best = epoch_of(criterion(0.1), found, 0, is_result=found.degenerate is None)
    assert best.is_met == met
    assert best.value == (1.0 if met else -1.0)
    assert best.violation == (0.0 if met else 1.0)


@pytest.mark.parametrize("method", ["infocal", "hardkuma", "bernoulli"])
def test_a_dead_selector_does_not_pass_because_its_rate_is_held(tmp_path: Path, method: str):
    dead = {"start_selection_rate": 0.0001, "dense_epochs": 0.0, "ramp_epochs": 0.0, "learning_rate": 1e-6}
    dead |= {"min_learning_rate": 0.0, "target_selection_rate": 0.18}
    run = run_settings(method=method, base=dead, hold_rate=True, num_epochs=1)
    found = trained(tmp_path, run, {}).reports.results[-1]
    assert found["failure"] == "degenerate_none"
    said = found["failure_message"]
    assert (
        said == "degenerate_none: epoch 1: the selector has collapsed: (nearly) no token has p >= 0.5; a "
        "separate threshold still selects 18.0% of the tokens, but that does not count"
    )


def test_the_best_epoch_says_how_far_its_scores_would_move_with_other_texts(whole: Trained):
    best = checkpoints.load_scores(whole.directory / checkpoints.BEST)
    result = whole.reports.results[-1]
    for name in ("val_token_precision", "val_token_recall", "val_token_f1", "val_mse"):
        drawn = best.intervals[name]
        assert drawn.low <= best.scores[name] <= drawn.high and 0 < drawn.error < 0.2
        assert result[f"best_{name}_se"] == drawn.error
    assert best.lower_bound == best.intervals["val_token_recall"].low == result["best_lower_bound"]


@pytest.mark.parametrize("doubts", [{"val_mse": [1.0, 2.0]}, {"val_mse": ["a", "b", "c"]}, [1.0]])
def test_intervals_that_are_none_are_refused(whole: Trained, tmp_path: Path, doubts: Any):
    shutil.copytree(whole.directory / checkpoints.BEST, tmp_path / "best")
    path = tmp_path / "best" / checkpoints.BEST_SCORES
    path.write_text(json.dumps(json.loads(path.read_text()) | {"intervals": doubts}))
    checkpoints.write_digests(tmp_path / "best", checkpoints._OF_BEST)
    with pytest.raises(StateError, match="expected intervals of three numbers"):
        checkpoints.load_scores(tmp_path / "best")


@pytest.mark.parametrize("ends", [(0.0, 1.0), (1.0, 5.0)])
def test_shown_scores_are_on_the_scale_of_the_data_and_say_it(ends: tuple[float, float]):
    rows = SimpleNamespace(
        slice=lambda start, length: SimpleNamespace(
            to_pylist=lambda: [{"example_id": "r1", "tokens": ["thin", "body"], "rationale": [1]}]
        )
    )
    features = SimpleNamespace(
        annotated_validation=lambda: rows,
        task=SimpleNamespace(class_names=None, score_range=ends, sides=()),
    )
    said = SimpleNamespace(
        select_probability=np.array([0.2, 0.7]), output=np.array([0.25]), guider_output=None, target=0.5
    )
    (shown,) = shown_predictions(SimpleNamespace(predictions=[said]), features)
    low, high = ends
    assert shown["score_range"] == [low, high]
    assert (shown["prediction"], shown["target"]) == (low + 0.25 * (high - low), low + 0.5 * (high - low))
    assert (shown["human"], shown["selected"]) == ([0, 1], [0, 1])
    features.task.class_names, said.output = ("bad", "good"), np.array([0.3, 0.7])
    (shown,) = shown_predictions(SimpleNamespace(predictions=[said]), features)
    assert (shown["prediction"], shown["target"], shown["score_range"]) == ("good (0.70)", "bad", None)

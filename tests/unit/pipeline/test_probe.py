from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from infocal.batch import Batch
from infocal.config import InfoCalConfig
from infocal.trainer import Trainer
from pipeline.base.errors import PipelineError
from pipeline.study import probe
from pipeline.study.packing import Measurement
from pipeline.study.probe import exercise, longest, measure, packed
from pipeline.training.scoring import BATCH_SIZE
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import Trial
from search_spaces.infocal import PAPER_BEER
from search_spaces.space import Range
from tests.small_study import run_settings, study_settings

GIB = 2**30


class FakeProbe:
    """A card of 16 GiB of which a trial takes 3.5 GiB; remembers what was to be measured."""

    def __init__(self) -> None:
        self.configs: list[InfoCalConfig] = []

    def __call__(self, run: RunSettings, config: InfoCalConfig) -> Sequence[Measurement]:
        self.configs.append(config)
        size = {"total": 16 * GIB, "reserved": 3 * GIB, "overhead": GIB // 2}
        return [Measurement(card="T4", num_cpus=16.0, **size)]


def test_a_study_is_packed_by_what_was_measured(caplog: pytest.LogCaptureFixture):
    settings = study_settings(packs_gpus=True)
    with caplog.at_level("INFO"):
        found = packed(settings, PAPER_BEER, FakeProbe())
    assert found.gpus_per_trial == 0.25
    assert found.run.gpu_memory_rate == pytest.approx(0.9 / 4 - 0.5 / 16)
    assert found.packs_gpus, "a resumed study measures again"
    assert caplog.messages == ["GPUs: a trial takes 3.50 GiB of 16.0 GiB (T4): 4 trials share a card"]


def test_a_study_that_asks_for_more_cores_is_packed_with_fewer_trials():
    found = packed(study_settings(packs_gpus=True, cpus_per_trial=8.0), PAPER_BEER, FakeProbe())
    assert found.gpus_per_trial == 0.5


def test_the_largest_configuration_of_the_space_is_measured():
    fake = FakeProbe()
    sizes = Range(name="hidden_size", low=2, high=6, is_integer=True, step=2, why="a test")
    packed(study_settings(packs_gpus=True), (*PAPER_BEER[:1], sizes), fake)
    (config,) = fake.configs
    assert (config.hidden_size, config.lambda_ib) == (6, 0.001)
    assert config.learning_rate == 0.01, "what is not searched over is the study's"


# ------------------------------------------------------------------------------------ the measured trial


def test_the_probe_trains_on_the_longest_texts_evaluates_and_restores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    run = run_settings(base={"batch_size": 8})
    trial = Trial(InfoCalConfig.from_mapping(run.base), run, 0, tmp_path / "work")
    shapes: dict[str, list[tuple[int, ...]]] = {"trained": [], "predicted": []}
    train_step, predict = Trainer.train_step, Trainer.predict

    def trained(self: Trainer, batch: Batch) -> Any:
        shapes["trained"].append(tuple(batch.token_ids.shape))
        return train_step(self, batch)

    def predicted(self: Trainer, batches: list[Batch]) -> Any:
        shapes["predicted"] += [tuple(batch.token_ids.shape) for batch in batches]
        return predict(self, batches)

    monkeypatch.setattr(Trainer, "train_step", trained)
    monkeypatch.setattr(Trainer, "predict", predicted)
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    exercise(trial, folder)
    lengths = trial.loader.token_ids.lengths
    assert shapes["trained"] == [(8, lengths.max())] * 3
    validation = [trial.validation.val, trial.validation.annotated]
    assert shapes["predicted"] == [
        (min(BATCH_SIZE, len(loader)), loader.token_ids.lengths.max()) for loader in validation
    ]
    assert (folder / "state.pt").is_file()
    states = trial.trainer.optimizer.state
    assert len(states) == sum(1 for _ in trial.trainer.model.parameters()), "Adam's states are there"


def test_no_batch_of_an_epoch_is_longer_than_the_measured_one(tmp_path: Path):
    run = run_settings(base={"batch_size": 8})
    trial = Trial(InfoCalConfig.from_mapping(run.base), run, 0, tmp_path)
    worst = longest(trial.loader, 8)
    assert int(worst.is_token.sum()) == int(np.sort(trial.loader.token_ids.lengths)[-8:].sum())
    for batch in trial.loader.shuffled(8, seed=0, epoch=0):
        assert batch.token_ids.numel() <= worst.token_ids.numel()
        assert int(batch.is_token.sum()) <= int(worst.is_token.sum())


class FakeCard:
    """torch.cuda's account of a card; the trial itself runs on the CPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "T4")
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (13 * GIB, 16 * GIB))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 2 * GIB)
        monkeypatch.setattr(torch.cuda, "max_memory_reserved", lambda: 5 * GIB)


def test_what_stands_on_the_card_beside_the_allocators_memory_is_overhead(monkeypatch: pytest.MonkeyPatch):
    FakeCard(monkeypatch)
    run = run_settings()
    # 16 - 13 GiB are taken at the end, 2 of them by the allocator, which once held 5
    assert measure(run, InfoCalConfig.from_mapping(run.base)) == {
        "card": "T4",
        "total": 16 * GIB,
        "reserved": 5 * GIB,
        "overhead": GIB,
    }


def test_a_card_that_torch_does_not_see_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run = run_settings()
    with pytest.raises(
        PipelineError, match="^--gpus-per-trial auto: Ray reports a GPU here, but torch .* sees none$"
    ):
        measure(run, InfoCalConfig.from_mapping(run.base))


def test_a_trial_that_does_not_fit_the_card_is_named(monkeypatch: pytest.MonkeyPatch):
    FakeCard(monkeypatch)

    def full(*args: object):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB.\nmore of it")

    monkeypatch.setattr(probe, "exercise", full)
    run = run_settings()
    message = r"does not fit into the memory of the GPU \(T4\): CUDA out of memory. Tried to allocate 9 GiB.$"
    with pytest.raises(PipelineError, match=message) as caught:
        measure(run, InfoCalConfig.from_mapping(run.base))
    assert "--set batch_size=16" in caught.value.hint

"""GPUs where no flag says how many: those that there are, if torch can use them."""

import logging
import re
from typing import Any

import pytest

from pipeline.base.errors import PipelineError
from pipeline.study import gpus
from pipeline.study.gpus import Torch
from tests.small_study import run_settings, study_settings

CUDA = Torch("2.13.0+cu130", True)


@pytest.fixture
def cards(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets how many GPUs Ray counts."""
    return lambda number: monkeypatch.setattr(
        gpus.ray, "cluster_resources", lambda: {"CPU": 4.0, "GPU": number}
    )


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the torch of a node with a free GPU; returns the parts of a GPU that were asked for."""

    def settle(torch: Torch | None) -> list[float]:
        told: list[float] = []
        monkeypatch.setattr(gpus, "torch_of_gpu_node", lambda part=1.0: told.append(part) or torch)
        return told

    return settle


def settings(**changes: Any) -> Any:
    return study_settings(run_settings(device="auto"), chooses_gpus=True, **changes)


def test_the_gpus_of_a_cluster_are_shared_as_measured(
    cards: Any, asked: Any, caplog: pytest.LogCaptureFixture
):
    cards(2.0)
    asked(CUDA)
    with caplog.at_level(logging.INFO, "pipeline.study.gpus"):
        found = gpus.chosen(settings())
    assert found.packs_gpus
    assert found.run.device == "auto"
    said = "GPUs: 2; the GPU memory of one trial is measured, then each GPU runs as many trials as fit"
    assert said in caplog.text


def test_without_gpus_trials_run_on_the_cpu(cards: Any, asked: Any, caplog: pytest.LogCaptureFixture):
    cards(0.0)
    asked(CUDA)
    with caplog.at_level(logging.INFO, "pipeline.study.gpus"):
        found = gpus.chosen(settings(packs_gpus=True, gpus_per_trial=0.25))
    assert (found.packs_gpus, found.gpus_per_trial, found.run.device) == (False, 0.0, "cpu")
    assert found.run.gpu_memory_rate == 1.0
    assert "GPUs: none here, so trials run on the CPU" in caplog.text


@pytest.mark.parametrize(
    ("torch", "message"),
    [
        (
            Torch("2.13.0+cpu", False),
            "2 in the cluster, but torch 2.13.0.cpu cannot use them: .* torch for CUDA",
        ),
        (None, "2 in the cluster, but none was free within 300 s: trials run on the CPU"),
    ],
)
def test_gpus_that_cannot_be_used_are_told(
    torch: Torch | None, message: str, cards: Any, asked: Any, caplog: pytest.LogCaptureFixture
):
    cards(2.0)
    asked(torch)
    found = gpus.chosen(settings())
    assert (found.packs_gpus, found.run.device) == (False, "cpu")
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert re.search(message, record.getMessage())


NO_CUDA = Torch("2.13.0+cpu", False)


@pytest.mark.parametrize(("part", "held"), [(2.0, 1.0), (0.25, 0.25)])
def test_gpus_that_trials_were_given_and_cannot_use_are_refused(
    part: float, held: float, cards: Any, asked: Any
):
    cards(2.0)
    given = study_settings(run_settings(device="auto"), gpus_per_trial=part)
    told = asked(NO_CUDA)
    message = f"--gpus-per-trial {part:g}: expected trials on GPUs, but torch 2.13.0.cpu of the nodes cannot"
    with pytest.raises(PipelineError, match=message) as caught:
        gpus.check_usable(given.run.device, given.gpus_per_trial)
    assert told == [held]
    assert "leave out the flag" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("number", "device", "torch"),
    [(2.0, "cuda", CUDA), (2.0, "auto", None), (0.0, "auto", NO_CUDA), (2.0, "cpu", NO_CUDA)],
    ids=["usable", "all busy", "not there yet", "asked for the CPU"],
)
def test_gpus_that_may_be_usable_are_not_refused(
    number: float, device: str, torch: Torch | None, cards: Any, asked: Any
):
    cards(number)
    asked(torch)
    given = study_settings(run_settings(device=device), gpus_per_trial=1.0)
    gpus.check_usable(given.run.device, given.gpus_per_trial)


def test_trials_that_wait_for_a_gpu_node_say_so(cards: Any, asked: Any, caplog: pytest.LogCaptureFixture):
    cards(0.0)
    asked(CUDA)
    with caplog.at_level("INFO"):
        gpus.check_usable("auto", 0.5)
        gpus.check_usable("cpu", 0.5)
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("GPUs: none in the cluster, so nothing is trained until a node with GPUs joins it")
    assert "`--gpus-per-trial 0.5`" in said


@pytest.mark.parametrize(
    ("number", "torch", "message"),
    [
        (0.0, None, "but the cluster has none$"),
        (2.0, None, "but the cluster has 2, and none is free$"),
        (2.0, Torch("2.13.0+cpu", False), "but the cluster has 2, and torch 2.13.0.cpu cannot use them$"),
    ],
)
def test_who_asks_for_cuda_is_not_given_the_cpu(
    number: float, torch: Torch | None, message: str, cards: Any, asked: Any
):
    cards(number)
    asked(torch)
    on_cuda = study_settings(run_settings(device="cuda"), chooses_gpus=True)
    with pytest.raises(PipelineError, match=f"--device cuda: usable GPUs are needed, {message}"):
        gpus.chosen(on_cuda)
    cards(2.0)
    asked(CUDA)
    assert gpus.chosen(on_cuda).packs_gpus

"""The Triton form of the RCNN layer is the same function, and is taken only where it runs.

No GPU is needed: Triton's interpreter runs the kernels on the CPU, and its compiler compiles them for GPUs.
"""

import importlib.util
import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from infocal import kernels
from infocal.errors import ConfigError

ROOT = Path(__file__).parents[3]
SCRIPT = Path(__file__).with_name("triton_cases.py")
CASES = ("open", "hard", "closed", "between", "one position", "paper's size")
TOLERANCE = 1e-5  # of the largest value, as for the other forms
SHARED = 48 * 1024  # bytes of shared memory that every GPU gives a program without being asked


def found(mode: str, cache: Path, **variables: str) -> dict[str, dict]:
    """What `triton_cases.py` finds in a mode."""
    if importlib.util.find_spec("triton") is None:
        pytest.skip("the package triton is missing: pip install -e '.[test]' -c constraints.txt brings it")
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTHONPATH": paths, "TRITON_CACHE_DIR": str(cache)} | variables
    command = [sys.executable, str(SCRIPT), mode]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def interpreted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    return found("interpret", tmp_path_factory.mktemp("triton"), TRITON_INTERPRET="1")


@pytest.mark.parametrize("case", CASES)
def test_equals_the_plain_form(interpreted: dict[str, dict], case: str) -> None:
    values = dict(interpreted[case])
    # in training and without, and once more
    assert values.pop("repeats")
    assert len(values) == 7  # states; gradients by words, gate, two weights, two biases
    assert {name: value for name, value in values.items() if not value <= TOLERANCE} == {}


def test_takes_projections_in_bfloat16_and_computes_in_float32(interpreted: dict[str, dict]) -> None:
    mixed = interpreted["mixed"]
    assert mixed["form"] == "triton"
    assert mixed["types"] == ["torch.float32", "torch.bfloat16"]
    assert mixed["states"] == 0
    assert mixed["grad"] < 2**-8  # the rounding of bfloat16


def test_runs_where_it_is_forced_and_suits_the_tensors(interpreted: dict[str, dict]) -> None:
    choice = interpreted["choice"]
    assert choice["forced"] == "triton"
    assert choice["too large"] == "torch"
    assert choice["double"] == "torch"
    assert choice["no such form"] == "plain"
    assert choice["automatic on CPU"] is False


def test_a_kernel_that_computes_something_else_is_not_used(interpreted: dict[str, dict]) -> None:
    choice = interpreted["choice"]
    assert "the Triton kernel cannot be used: it differs from the torch form by" in choice["wrong"]
    assert "the Triton kernel cannot be used: ZeroDivisionError: division by zero" in choice["failing"]


def test_compiles_for_gpus_and_fits_into_their_shared_memory(tmp_path: Path) -> None:
    kinds = found("compile", tmp_path, TRITON_INTERPRET="0")
    assert len(kinds) == 4
    for kind, made in kinds.items():
        assert made["shared"] <= SHARED, kind
        assert made["barrier"], kind
        assert made["cubin"] > 0, kind


def test_without_an_interpreter_tensors_on_cpu_go_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.VARIABLE, "triton")
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    weight = torch.zeros(2, 8, 8)
    assert kernels.choose(weight, weight) == "torch"


def test_without_the_package_torch_is_chosen_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "infocal.kernels.rcnn_triton", None)
    monkeypatch.setattr(kernels, "_suits_triton", lambda *_: True)
    kernels._triton_failure.cache_clear()
    weight = torch.zeros(2, 8, 8, device="meta")
    monkeypatch.setenv(kernels.VARIABLE, "auto")
    try:
        with caplog.at_level(logging.INFO, logger="infocal.kernels"):
            assert [kernels.choose(weight, weight) for _ in range(3)] == ["torch"] * 3
        monkeypatch.setenv(kernels.VARIABLE, "triton")
        with pytest.raises(
            ConfigError, match="INFOCAL_KERNEL: the Triton kernel cannot be used: .*pip install"
        ):
            kernels.choose(weight, weight)
    finally:
        kernels._triton_failure.cache_clear()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "RCNN layers run in torch operations on meta, which is slower: " in record.getMessage()

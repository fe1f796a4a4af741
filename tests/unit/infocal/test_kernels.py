"""Every form of a recurrent layer is the same function; the compiled one is built safely or given up."""

import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from infocal import kernels
from infocal.errors import ConfigError
from infocal.kernels import build, lstm_cpp, rcnn_cpp, rcnn_torch
from infocal.nn.encoders import LSTM, RCNN, Embedded, Recurrent

NEEDS_COMPILER = pytest.mark.skipif(
    build.compiler() is None, reason="no C++ compiler here: the kernel cannot be built"
)
COMPILED = pytest.param("cpp", marks=NEEDS_COMPILER)
COMPILED_CELLS = [pytest.param(cell, "cpp", marks=NEEDS_COMPILER) for cell in ("rcnn", "lstm")]
FAST_FORMS = [("rcnn", "torch"), *COMPILED_CELLS]
GATES = ("open", "hard", "closed", "between")
TOLERANCE = 1e-5  # of the largest value


def gates(kind: str, batch: int, length: int) -> Tensor:
    """Gates of one kind; `between` holds exact zeros and ones, too."""
    return {
        "open": torch.ones(batch, length),
        "hard": (torch.rand(batch, length) < 0.25).float(),
        "closed": torch.zeros(batch, length),
        "between": (1.5 * torch.rand(batch, length) - 0.25).clamp(0, 1),
    }[kind]


def encoder(cell: str, size: int) -> Recurrent:
    """An encoder of 5-dimensional words, none of whose parameters is zero."""
    made = {"rcnn": RCNN, "lstm": LSTM}[cell](5, size)
    for parameter in made.parameters():
        parameter.data.add_(0.3 * torch.randn_like(parameter))
    return made


def run(
    made: Recurrent, embedded: Embedded, gate: Tensor, gate_grad: bool, towards: Tensor
) -> dict[str, Tensor]:
    """States, and the gradients of their product with `towards` by everything there is."""
    made.zero_grad()
    words = embedded.vectors.clone().requires_grad_()
    gate = gate.clone().requires_grad_(gate_grad)
    states = made(Embedded(words, embedded.index), gate)
    (states * towards).sum().backward()
    values = {"states": states.detach(), "words": words.grad}
    values |= {name: parameter.grad.clone() for name, parameter in made.named_parameters()}
    return values | ({"gate": gate.grad} if gate_grad else {})


def assert_same(actual: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name, value in expected.items():
        scale = max(float(value.abs().max()), 1e-3)
        torch.testing.assert_close(
            actual[name], value, rtol=0, atol=TOLERANCE * scale, msg=lambda text, name=name: f"{name}: {text}"
        )


def compare(monkeypatch: pytest.MonkeyPatch, form: str, made: Recurrent, *arguments: object) -> None:
    monkeypatch.setenv(kernels.VARIABLE, "plain")
    expected = run(made, *arguments)
    monkeypatch.setenv(kernels.VARIABLE, form)
    assert_same(run(made, *arguments), expected)


@pytest.mark.parametrize(("cell", "form"), FAST_FORMS)
@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize("gate_grad", [False, True])
def test_equals_the_plain_form(
    monkeypatch: pytest.MonkeyPatch, cell: str, form: str, kind: str, gate_grad: bool
) -> None:
    torch.manual_seed(0)
    # more rows than run together in C++, and more units than fit whole vectors
    batch, length, size = 80, 9, 21
    embedded = Embedded(torch.randn(7, 5), torch.randint(0, 7, (batch, length)))
    towards = torch.randn(batch, length, 2 * size)
    compare(monkeypatch, form, encoder(cell, size), embedded, gates(kind, batch, length), gate_grad, towards)


@pytest.mark.parametrize(("cell", "form"), FAST_FORMS)
@settings(max_examples=15)
@given(
    batch=st.integers(1, 9),
    length=st.integers(1, 7),
    size=st.integers(1, 40),
    kind=st.sampled_from(GATES),
    seed=st.integers(0, 99),
)
def test_equals_the_plain_form_in_any_shape(
    cell: str, form: str, batch: int, length: int, size: int, kind: str, seed: int
) -> None:
    torch.manual_seed(seed)
    embedded = Embedded(torch.randn(4, 5), torch.randint(0, 4, (batch, length)))
    towards = torch.randn(batch, length, 2 * size)
    with pytest.MonkeyPatch.context() as monkeypatch:
        gate = gates(kind, batch, length)
        compare(monkeypatch, form, encoder(cell, size), embedded, gate, True, towards)


@pytest.mark.parametrize(("cell", "form"), FAST_FORMS)
def test_is_as_exact_as_single_precision_allows(
    monkeypatch: pytest.MonkeyPatch, cell: str, form: str
) -> None:
    # a long text, so that errors add up; the plain form in double precision has the true values
    torch.manual_seed(9)
    made, gate = encoder(cell, 24), gates("between", 3, 120)
    gate[1, 50:], gate[2] = 0, 0  # a padded text and an empty one
    index, towards, words = torch.randint(0, 30, (3, 120)), torch.randn(3, 120, 48), torch.randn(30, 5)
    monkeypatch.setenv(kernels.VARIABLE, form)
    single = run(made, Embedded(words, index), gate, True, towards)
    monkeypatch.setenv(kernels.VARIABLE, "plain")
    double = run(made.double(), Embedded(words.double(), index), gate.double(), True, towards.double())
    assert_same(single, {name: value.float() for name, value in double.items()})


@pytest.mark.parametrize(("kind", "gate_grad"), [("open", False), ("between", True)])
def test_torch_form_has_the_numeric_gradient(kind: str, gate_grad: bool) -> None:
    torch.manual_seed(1)
    steps, batch, size = 3, 2, 2
    gate = gates(kind, batch, 2 * steps).T.reshape(steps, 2, batch, 1).double().requires_grad_(gate_grad)
    weights = [torch.randn(2, rows, size, dtype=torch.double, requires_grad=True) for rows in (size, 1, 1)]
    inputs = torch.randn(steps, 2, batch, 3 * size, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda inputs, gate, *weights: rcnn_torch.recurrence(inputs, gate, weights), (inputs, gate, *weights)
    )


@pytest.mark.parametrize(("cell", "form"), FAST_FORMS)
def test_values_do_not_depend_on_whether_a_gradient_is_wanted(
    monkeypatch: pytest.MonkeyPatch, cell: str, form: str
) -> None:
    torch.manual_seed(2)
    monkeypatch.setenv(kernels.VARIABLE, form)
    made, gate = encoder(cell, 6), gates("between", 4, 8)
    embedded = Embedded(torch.randn(9, 5), torch.randint(0, 9, (4, 8)))
    with torch.no_grad():
        alone = made(embedded, gate)
    assert torch.equal(alone, made(embedded, gate))
    assert not alone.requires_grad


@pytest.mark.parametrize(("cell", "form"), FAST_FORMS)
def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch, cell: str, form: str) -> None:
    torch.manual_seed(3)
    monkeypatch.setenv(kernels.VARIABLE, form)
    made, gate, towards = encoder(cell, 8), gates("hard", 5, 6), torch.randn(5, 6, 16)
    embedded = Embedded(torch.randn(9, 5), torch.randint(0, 9, (5, 6)))
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(run(made, embedded, gate, True, towards))
    finally:
        torch.set_num_threads(before)
    assert_same(results[1], results[0])


@pytest.mark.parametrize(("cell", "form"), FAST_FORMS)
def test_a_graph_that_is_kept_gives_the_same_gradient_twice(
    monkeypatch: pytest.MonkeyPatch, cell: str, form: str
) -> None:
    torch.manual_seed(4)
    monkeypatch.setenv(kernels.VARIABLE, form)
    words = torch.randn(6, 5, requires_grad=True)
    states = encoder(cell, 7)(Embedded(words, torch.arange(6).view(2, 3)), gates("between", 2, 3))
    total = states.square().sum()
    (first,) = torch.autograd.grad(total, words, retain_graph=True)
    (second,) = torch.autograd.grad(total, words)
    assert torch.equal(first, second)
    assert first.abs().sum() > 0


@pytest.mark.parametrize(("cell", "form"), [("rcnn", "plain"), ("lstm", "plain"), *FAST_FORMS])
def test_nan_spreads_to_what_comes_after_it(monkeypatch: pytest.MonkeyPatch, cell: str, form: str) -> None:
    torch.manual_seed(5)
    monkeypatch.setenv(kernels.VARIABLE, form)
    words = torch.randn(4, 5)
    words[2] = torch.nan
    states = encoder(cell, 3)(Embedded(words, torch.arange(4).view(1, 4)), torch.ones(1, 4))[0]
    forward, backward = states[:, :3].isnan(), states[:, 3:].isnan()
    assert forward.tolist() == [[False] * 3] * 2 + [[True] * 3] * 2
    assert backward.tolist() == [[True] * 3] * 3 + [[False] * 3]


@pytest.mark.parametrize(("cell", "form"), COMPILED_CELLS)
def test_nan_at_a_closed_gate_reaches_that_gate_s_gradient_alone(
    monkeypatch: pytest.MonkeyPatch, cell: str, form: str
) -> None:
    torch.manual_seed(7)
    monkeypatch.setenv(kernels.VARIABLE, form)
    words = torch.randn(5, 5)
    words[2] = torch.nan
    gate = torch.tensor([[1.0, 0.0, 0.0, 0.0, 1.0]])
    values = run(
        encoder(cell, 3), Embedded(words, torch.arange(5).view(1, 5)), gate, True, torch.randn(1, 5, 6)
    )
    assert values["gate"].isnan().tolist() == [[False, False, True, False, False]]
    for name, value in values.items():
        assert name in ("gate", "words", "input_weight") or value.isfinite().all(), name


@pytest.mark.parametrize(("cell", "form"), FAST_FORMS)
def test_positions_of_a_closed_run_have_each_a_gradient_by_its_gate(
    monkeypatch: pytest.MonkeyPatch, cell: str, form: str
) -> None:
    # a run at the start, one between two tokens, one at the end; and a text that is closed throughout
    torch.manual_seed(8)
    gate = torch.tensor([[0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.5, 0.0], [0.0] * 8])
    embedded = Embedded(torch.randn(16, 5), torch.arange(16).view(2, 8))
    made, towards = encoder(cell, 6), torch.randn(2, 8, 12)
    compare(monkeypatch, form, made, embedded, gate, True, towards)
    by_gate = run(made, embedded, gate, True, towards)["gate"]
    assert len(by_gate.flatten().unique()) == 16


@pytest.mark.parametrize(("cell", "form"), FAST_FORMS)
def test_saturates_without_overflow(monkeypatch: pytest.MonkeyPatch, cell: str, form: str) -> None:
    torch.manual_seed(6)
    embedded = Embedded(1e4 * torch.randn(6, 5), torch.arange(6).view(2, 3))
    compare(monkeypatch, form, encoder(cell, 4), embedded, torch.ones(2, 3), False, torch.randn(2, 3, 8))


# ---------------------------------------------------------------------------------------------- choice


@pytest.fixture
def fresh_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache, and no memory of what was loaded before."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(kernels.VARIABLE, raising=False)
    forget()
    yield tmp_path
    monkeypatch.undo()
    forget()


def forget() -> None:
    build._load.cache_clear()
    kernels.compiled.cache_clear()


def test_without_a_compiler_torch_is_chosen_and_said_once(
    fresh_build: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler -v")
    tensor = torch.zeros(2, 2)
    with caplog.at_level(logging.INFO, logger="infocal.kernels"):
        assert [kernels.choose(tensor, tensor) for _ in range(3)] == ["torch"] * 3
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "slower: no C++ compiler (CXX=`no-such-compiler -v`" in record.getMessage()


def test_a_compiler_that_fails_is_quoted(fresh_build: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = fresh_build / "cxx"
    script.write_text("#!/bin/sh\ntest $1 = --version && exit\necho 'unknown -march' >&2\nexit 3\n")
    script.chmod(0o755)
    monkeypatch.setenv("CXX", str(script))
    assert build.library() is None
    assert "exit status 3: unknown -march" in str(build.failure())
    monkeypatch.setenv(kernels.VARIABLE, "cpp")
    with pytest.raises(
        ConfigError, match=r"INFOCAL_KERNEL: the C\+\+ kernel cannot be used: .*unknown -march"
    ):
        kernels.choose(torch.zeros(1), torch.zeros(1))
    assert not list(build.cache_folder().iterdir())


def test_an_unknown_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.VARIABLE, "cuda")
    with pytest.raises(
        ConfigError,
        match="INFOCAL_KERNEL: unknown kernel `cuda`; the kernels are auto, cpp, triton, torch, plain",
    ):
        kernels.choose(torch.zeros(1), torch.zeros(1))


@pytest.mark.parametrize("forced", ["auto", "torch", COMPILED])
def test_tensors_that_a_form_does_not_suit_go_to_the_next(
    monkeypatch: pytest.MonkeyPatch, forced: str
) -> None:
    monkeypatch.setenv(kernels.VARIABLE, forced)
    double, single = torch.zeros(1, dtype=torch.double), torch.zeros(1)
    assert kernels.choose(double, double) == "torch"
    assert kernels.choose(single.bfloat16(), single) == "plain"
    assert kernels.choose(torch.zeros(1, device="meta"), single) == "torch"


@NEEDS_COMPILER
def test_processes_that_build_at_once_leave_one_library(
    fresh_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a compiler in name, whose output is unfinished for a while
    script = fresh_build / "cxx"
    script.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\nprintf half > $2\nsleep 0.2\nprintf whole > $2\n'
    )
    script.chmod(0o755)
    target = build.cache_folder() / "kernel.so"
    code = (
        "import pathlib, runpy, sys\n"
        "runpy.run_path(sys.argv[1])['compile_to'](pathlib.Path(sys.argv[2]), (sys.argv[3],))"
    )
    command = [sys.executable, "-c", code, build.__file__, str(target), str(script)]
    running = [subprocess.Popen(command) for _ in range(2)]
    seen = set()
    while any(process.poll() is None for process in running):
        if target.exists():
            seen.add(target.read_text())
        time.sleep(0.01)
    assert [process.returncode for process in running] == [0, 0]
    assert seen | {target.read_text()} == {"whole"}
    assert sorted(path.name for path in target.parent.iterdir()) == ["kernel.sha256", "kernel.so"]


@pytest.mark.slow
@NEEDS_COMPILER
def test_a_damaged_library_is_compiled_again(fresh_build: Path) -> None:
    """Loading one that is cut short would kill the process without a word."""
    path = build.library_path()
    compiler = build.compiler()
    assert compiler is not None
    build.compile_to(path, compiler)
    whole, digest = path.read_bytes(), path.with_suffix(".sha256").read_bytes()
    assert build._is_whole(path)
    for damaged in (whole[:40_000], b""):
        path.write_bytes(damaged)
        assert not build._is_whole(path)
    path.with_suffix(".sha256").unlink()
    path.write_bytes(whole)
    assert not build._is_whole(path), "without a digest"
    path.with_suffix(".sha256").write_bytes(digest)
    path.write_bytes(whole[:40_000])
    build._load.cache_clear()
    assert build.library() is not None
    assert build._is_whole(path)
    assert len(path.read_bytes()) == len(whole)


def test_a_compiler_that_is_no_command_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "g++ 'unbalanced")
    assert build.compiler() is None


def test_an_empty_variable_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(kernels.VARIABLE, "")
    assert kernels.asked_for() == "auto"


def test_another_source_flag_or_processor_has_a_library_of_its_own(
    fresh_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {build.library_path()}
    monkeypatch.setattr(build, "_processor", lambda: "flags: other")
    paths.add(build.library_path())
    monkeypatch.setattr(build, "FLAGS", (*build.FLAGS, "-g"))
    paths.add(build.library_path())
    changed = fresh_build / "lanes.hpp"
    changed.write_text("// another header\n")
    sources = [changed if source.name == changed.name else source for source in build.SOURCES]
    assert sources.count(changed) == 1
    monkeypatch.setattr(build, "SOURCES", sources)
    paths.add(build.library_path())
    assert len(paths) == 4
    assert {path.parent for path in paths} == {fresh_build / "cache" / "infocal" / "kernels"}


@NEEDS_COMPILER
@pytest.mark.parametrize("index", [-1, 3])
def test_an_index_without_a_word_is_refused(index: int) -> None:
    words, gate = torch.tensor([[0, index]]), torch.ones(1, 2)
    bias = torch.zeros(2, 1, 4)
    with pytest.raises(IndexError, match="expected indices below 3, the number of projected words, but got"):
        rcnn_cpp.layer(torch.zeros(3, 24), words, gate, torch.zeros(2, 4, 4), bias, bias)
    with pytest.raises(IndexError, match="expected indices below 3, the number of projected words, but got"):
        lstm_cpp.layer(torch.zeros(3, 32), words, gate, torch.zeros(2, 4, 16), torch.zeros(2, 1, 16))

import torch

from infocal.kernels import VARIABLE
from pipeline.base import environment


def test_facts_say_what_the_last_digits_depend_on(monkeypatch):
    monkeypatch.setenv(VARIABLE, "plain")
    found = environment.facts(torch.device("cpu"))
    assert found["torch"] == torch.__version__
    assert (found["device"], found["kernel"]) == ("cpu", "plain")
    assert found["num_threads"] == torch.get_num_threads()
    assert set(found) == {"python", "torch", "device", "machine", "cpu", "num_threads", "kernel"}


def test_the_kernel_is_the_one_that_runs(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    for is_compiled, name in ((True, "cpp"), (False, "torch")):
        monkeypatch.setattr("infocal.kernels.compiled", lambda answer=is_compiled: answer)
        assert environment.facts(torch.device("cpu"))["kernel"] == name


def test_what_differs_is_said_of_facts_that_both_know():
    recorded = {"torch": "2.11.0", "cpu": "AVX2", "older": 1}
    here = {"torch": "2.13.0", "cpu": "AVX2", "newer": 2}
    assert environment.differences(recorded, here) == [
        "torch was 2.11.0 in the recorded training and is 2.13.0 now"
    ]
    assert environment.differences({}, here) == []

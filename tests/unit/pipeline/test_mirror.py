"""MLflow is written beside a search, and again when it is back."""

import logging
import threading
from typing import Any

import pytest

from pipeline.base.errors import PipelineError
from pipeline.study import mirror as module
from pipeline.study.mirror import Mirror


class FakeTracking:
    """Notes how it is called; fails as often as it is told to."""

    def __init__(self, num_failures: int = 0) -> None:
        self.left = num_failures
        self.calls: list[bool] = []
        self.done = threading.Semaphore(0)

    def sync(self, *, is_running: bool) -> None:
        self.calls.append(is_running)
        if self.left:
            self.left -= 1
            raise PipelineError("cannot log step 0: connection refused")
        self.done.release()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "RETRY_S", 0.01)


def mirror(tracking: Any) -> Mirror:
    return Mirror(tracking, "python -m pipeline.sync --name first")


def test_what_is_new_is_written_without_waiting_for_the_end():
    tracking = FakeTracking()
    one = mirror(tracking)
    with one.running():
        assert tracking.done.acquire(timeout=30)
        one.notify()
        assert tracking.done.acquire(timeout=30)
    assert set(tracking.calls) == {True}


def test_while_it_is_away_it_is_tried_again_and_said_once(caplog: pytest.LogCaptureFixture):
    tracking = FakeTracking(num_failures=3)
    with caplog.at_level(logging.WARNING, "pipeline.study.mirror"), mirror(tracking).running():
        assert tracking.done.acquire(timeout=30)
    assert len(caplog.messages) == 2
    assert (
        "cannot write to MLflow (cannot log step 0: connection refused); the search continues"
        in caplog.messages[0]
    )
    assert "MLflow is reachable again" in caplog.messages[1]


def test_the_end_waits_for_it():
    tracking = FakeTracking(num_failures=2)
    mirror(tracking).drain(patience_s=30)
    assert tracking.calls == [False, False, False]


def test_the_end_does_not_wait_for_ever():
    with pytest.raises(
        PipelineError, match=r"could not write to MLflow for 0 s: cannot log step 0"
    ) as caught:
        mirror(FakeTracking(num_failures=1000)).drain(patience_s=0.05)
    assert caught.value.hint is not None
    assert caught.value.hint.endswith("run: python -m pipeline.sync --name first")


def test_an_error_of_ours_in_the_thread_is_not_hidden(monkeypatch: pytest.MonkeyPatch):
    class Broken(FakeTracking):
        def sync(self, *, is_running: bool) -> None:
            raise ZeroDivisionError("a fault of ours")

    one = mirror(Broken())
    with pytest.raises(ZeroDivisionError, match="a fault of ours"), one.running():
        one.notify()

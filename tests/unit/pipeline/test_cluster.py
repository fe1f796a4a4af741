import contextlib
import os
import re
import signal
import tempfile
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import ray

from pipeline.base import interruption
from pipeline.base.errors import PipelineError
from pipeline.study import cluster


class FakeRay:
    """Notes how Ray is started and left; starts nothing."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> None:
        self.started: list[dict[str, Any]] = []
        self.stopped = 0
        self.error = error
        monkeypatch.setattr(ray, "init", self.init)
        monkeypatch.setattr(ray, "shutdown", self.shutdown)
        monkeypatch.setattr(ray, "is_initialized", lambda: len(self.started) > self.stopped)

    def init(self, **given: Any):
        if self.error is not None:
            raise self.error
        self.started.append(given)

    def shutdown(self):
        self.stopped += 1


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch):
    # what a session sets is taken back at the end of a test
    monkeypatch.setattr(os, "environ", os.environ.copy())
    for name in ("RAY_ADDRESS", "RAY_AUTH_TOKEN"):
        os.environ.pop(name, None)


def test_a_private_cluster_is_started_and_stopped(monkeypatch: pytest.MonkeyPatch):
    fake = FakeRay(monkeypatch)
    with cluster.session(None, num_cpus=2):
        assert fake.stopped == 0
    (started,) = fake.started
    # "local": without it Ray would join whatever cluster it finds on this machine
    assert (started["address"], started["num_cpus"]) == ("local", 2)
    assert started["include_dashboard"] is False
    # Ray's sockets lie deep below it and may have 107 bytes
    assert started["_temp_dir"] == os.path.join(tempfile.gettempdir(), "ray")
    assert fake.stopped == 1


def test_after_ray_the_signals_are_ours_again(monkeypatch: pytest.MonkeyPatch):
    fake = FakeRay(monkeypatch)
    with interruption.handled():
        before = signal.getsignal(signal.SIGTERM)
        with cluster.session(None):
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        assert fake.stopped == 1
        assert signal.getsignal(signal.SIGTERM) is before is not signal.SIG_DFL


def test_an_error_on_leaving_ray_is_not_lost(monkeypatch: pytest.MonkeyPatch):
    def leaving() -> None:
        raise RuntimeError("no way out")

    FakeRay(monkeypatch)
    monkeypatch.setattr(ray, "shutdown", leaving)
    with pytest.raises(RuntimeError, match="no way out"), cluster.session(None):
        pass


def test_a_private_cluster_has_a_token_of_its_own_unless_one_is_given(monkeypatch: pytest.MonkeyPatch):
    FakeRay(monkeypatch)
    with cluster.session(None):
        first = os.environ.pop("RAY_AUTH_TOKEN")
    with cluster.session(None):
        assert os.environ["RAY_AUTH_TOKEN"] != first
    assert re.fullmatch("[0-9a-f]{64}", first)
    os.environ["RAY_AUTH_TOKEN"] = "mine"
    with cluster.session(None):
        assert os.environ["RAY_AUTH_TOKEN"] == "mine"


@pytest.mark.parametrize(
    ("given", "environment", "used"),
    [
        ("10.0.0.1:6379", None, "10.0.0.1:6379"),
        (None, "10.0.0.2:6379", "10.0.0.2:6379"),
        ("10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.1:6379"),
    ],
)
def test_a_running_cluster_is_named_by_the_flag_or_the_environment(
    monkeypatch: pytest.MonkeyPatch, given: str | None, environment: str | None, used: str
):
    if environment is not None:
        monkeypatch.setenv("RAY_ADDRESS", environment)
    fake = FakeRay(monkeypatch)
    with cluster.session(given):
        pass
    assert fake.started[0]["address"] == used
    assert "num_cpus" not in fake.started[0], "a running cluster has its own cores"
    assert fake.stopped == 1


@pytest.mark.parametrize("error", [ConnectionError("nobody"), ValueError("nobody"), RuntimeError("nobody")])
def test_a_cluster_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch, error: Exception):
    fake = FakeRay(monkeypatch, error)
    with (
        pytest.raises(PipelineError, match="^--address: cannot reach Ray at `10.0.0.1:1`: nobody$"),
        cluster.session("10.0.0.1:1"),
    ):
        pytest.fail("the block ran without a cluster")
    assert fake.stopped == 0


@pytest.mark.parametrize(("num_slow", "is_there"), [(1, True), (2, True), (3, False)])
def test_a_private_ray_that_is_slow_to_start_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, num_slow: int, is_there: bool
):
    fake = FakeRay(monkeypatch)
    start, tries = ray.init, []

    def slow(**given: Any) -> None:
        tries.append(given)
        if len(tries) <= num_slow:
            raise RuntimeError("The current node timed out during startup. This could happen because ...")
        start(**given)

    monkeypatch.setattr(ray, "init", slow)
    if is_there:
        with cluster.session(None):
            assert len(tries) == num_slow + 1
    else:
        refused = pytest.raises(
            PipelineError, match="^cannot start Ray on this machine: The current node timed out"
        )
        with refused, cluster.session(None):
            pytest.fail("the block ran without Ray")
    assert fake.stopped == num_slow + is_there, "what has started in vain is ended"


def test_ray_is_left_after_an_error_too(monkeypatch: pytest.MonkeyPatch):
    fake = FakeRay(monkeypatch)
    with pytest.raises(KeyError, match="ours"), cluster.session(None):
        raise KeyError("ours")
    assert fake.stopped == 1


def test_an_error_of_the_search_is_not_taken_for_one_of_the_connection(monkeypatch: pytest.MonkeyPatch):
    FakeRay(monkeypatch)
    with pytest.raises(ValueError, match="^of the search$"), cluster.session(None):
        raise ValueError("of the search")


@contextlib.contextmanager
def slowly(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let Ray start only once the event is set."""
    may_start, start = threading.Event(), ray.init

    def init(**given: Any) -> None:
        assert may_start.wait(60)
        start(**given)

    monkeypatch.setattr(ray, "init", init)
    yield may_start
    may_start.set()


def test_ray_starts_while_something_else_is_done(monkeypatch: pytest.MonkeyPatch):
    fake = FakeRay(monkeypatch)
    with slowly(monkeypatch) as may_start, cluster.started_ahead(None):
        assert not fake.started, "the body does not wait"
        may_start.set()
        with cluster.session(None):
            (started,) = fake.started
            assert started["address"] == "local"
            threads = threading.active_count()
        assert fake.stopped == 1
    assert fake.stopped == 1, "it is left once"
    assert threading.active_count() < threads, "the thread that kept Ray's processes has ended"
    with cluster.session(None, num_cpus=1):
        assert len(fake.started) == 2, "a later session starts one of its own"


@pytest.mark.parametrize("error", [None, ValueError("of the body"), KeyboardInterrupt()])
def test_a_ray_that_nobody_used_is_left(monkeypatch: pytest.MonkeyPatch, error: BaseException | None):
    fake = FakeRay(monkeypatch)
    expected = contextlib.nullcontext() if error is None else pytest.raises(type(error))
    with expected, cluster.started_ahead(None):
        if error is not None:
            raise error
    assert (len(fake.started), fake.stopped) == (1, 1)


def test_a_start_ahead_that_fails_is_said_where_ray_is_needed(monkeypatch: pytest.MonkeyPatch):
    fake = FakeRay(monkeypatch, RuntimeError("no room"))
    with cluster.started_ahead(None):
        pass
    refused = pytest.raises(PipelineError, match="^cannot start Ray on this machine: no room$")
    with cluster.started_ahead(None), refused, cluster.session(None):
        pytest.fail("the block ran without Ray")
    assert not fake.started


def test_nothing_is_started_ahead_of_a_running_cluster(monkeypatch: pytest.MonkeyPatch):
    fake = FakeRay(monkeypatch)
    with cluster.started_ahead("10.0.0.1:1"):
        assert not fake.started
        with cluster.session("10.0.0.1:1"):
            assert fake.started[0]["address"] == "10.0.0.1:1"


def test_the_environment_is_prepared_and_what_the_user_set_stays():
    os.environ.pop("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", None)
    os.environ["TUNE_GLOBAL_CHECKPOINT_S"] = "30"
    cluster.prepare_environment()
    assert os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] == "1"
    assert os.environ["TUNE_GLOBAL_CHECKPOINT_S"] == "30"
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert os.environ["MLFLOW_DISABLE_TELEMETRY"] == "true"


def fake_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(ray, "cluster_resources", lambda: {"CPU": 2.0, "memory": 1e9})


@pytest.mark.parametrize(
    ("cpus", "gpus", "message"),
    [
        (64.0, 0.0, "--cpus-per-trial: one trial needs 64 CPU, but this machine has 2"),
        (1.0, 0.25, "--gpus-per-trial: one trial needs 0.25 GPU, but this machine has 0"),
    ],
)
def test_a_trial_that_could_never_start_is_refused(
    monkeypatch: pytest.MonkeyPatch, cpus: float, gpus: float, message: str
):
    fake_cluster(monkeypatch)
    with pytest.raises(PipelineError, match=message):
        cluster.check_resources(None, cpus, gpus)


def test_a_trial_that_fits_may_start(monkeypatch: pytest.MonkeyPatch):
    fake_cluster(monkeypatch)
    cluster.check_resources(None, 2.0, 0.0)


def test_a_cluster_may_still_grow(monkeypatch: pytest.MonkeyPatch):
    fake_cluster(monkeypatch)
    cluster.check_resources("10.0.0.1:6379", 64.0, 8.0)


def test_a_cluster_that_wants_a_token_is_named(monkeypatch: pytest.MonkeyPatch):
    FakeRay(monkeypatch, ray.exceptions.AuthenticationError("no authentication\ntoken was found"))
    with (
        pytest.raises(
            PipelineError, match=r"--address: cannot reach Ray at `10\.0\.0\.1:1`: no authentication"
        ),
        cluster.session("10.0.0.1:1"),
    ):
        pytest.fail("the session must not begin")


@pytest.mark.parametrize(
    ("address", "variable", "expected"),
    [(None, None, "0"), ("local", None, "0"), ("10.0.0.1:6379", None, None), (None, "10.0.0.1:6379", None)],
)
def test_only_a_private_cluster_listens_on_this_machine_alone(
    address: str | None, variable: str | None, expected: str | None, monkeypatch: pytest.MonkeyPatch
):
    """A driver that joins a cluster is called back by the other machines."""
    os.environ.pop("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", None)
    if variable:
        monkeypatch.setenv("RAY_ADDRESS", variable)
    cluster.prepare_environment(address)
    assert os.environ.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER") == expected


@pytest.mark.parametrize(
    ("cpus", "gpus", "most", "slots"),
    [
        (1.0, 0.0, 0, 8),
        (2.0, 0.0, 0, 4),
        (0.1, 0.0, 0, 80),
        (1.0, 0.0, 3, 3),
        (1.0, 0.5, 0, 4),
        (1.0, 2.0, 0, 1),
        (16.0, 0.0, 0, 1),
        (1.0, 4.0, 0, 1),
    ],
)
def test_trials_that_run_at_once(
    cpus: float, gpus: float, most: int, slots: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("ray.cluster_resources", lambda: {"CPU": 8.0, "GPU": 2.0, "memory": 1e9})
    assert cluster.num_slots(cpus, gpus, most) == slots

"""Servers that do not answer are found at once."""

import socket
import time
from collections.abc import Iterator

import pytest

from pipeline import reach
from pipeline.errors import PipelineError
from tests.integration.servers import free_port


@pytest.fixture
def listening() -> Iterator[int]:
    """A port on which somebody takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_a_cluster_that_is_not_there(form: str):
    started = time.monotonic()
    with pytest.raises(PipelineError, match="RAY_ADDRESS: cannot reach Ray at .*: Connection refused"):
        reach.check_ray(form.format(free_port()), "RAY_ADDRESS")
    assert time.monotonic() - started < reach.TIMEOUT_S


@pytest.mark.parametrize("address", ["auto", "local", "127.0.0.1:{}"])
def test_a_cluster_that_is_there_or_has_no_port(address: str, listening: int):
    reach.check_ray(address.format(listening), "--address")


def test_a_port_that_is_none_is_no_crash():
    with pytest.raises(PipelineError, match="cannot reach Ray"):
        reach.check_ray("127.0.0.1:99999999", "--address")


def test_a_tracking_server_that_is_not_there():
    with pytest.raises(PipelineError, match="no MLflow server answers at .*: .*Connection refused"):
        reach.check_tracking(f"http://127.0.0.1:{free_port()}")


def test_a_tracking_server_that_never_answers(listening: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(reach, "TIMEOUT_S", 0.2)
    with pytest.raises(PipelineError, match="no MLflow server answers at .*timed out"):
        reach.check_tracking(f"http://127.0.0.1:{listening}")


def test_nothing_is_asked_of_a_database():
    reach.check_tracking("sqlite:////nowhere/mlflow.db")

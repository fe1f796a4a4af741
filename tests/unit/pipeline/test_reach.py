"""Servers that do not answer are found at once."""

import base64
import http.server
import socket
import threading
import time
import urllib.request
from collections.abc import Iterator

import pytest

from pipeline.base import reach
from pipeline.base.errors import PipelineError
from tests.integration.servers import free_port


@pytest.fixture
def listening() -> Iterator[int]:
    """A port on which somebody takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("form", ["127.0.0.1:{}", "ray://127.0.0.1:{}"])
def test_a_cluster_that_is_not_there(form: str):
    started = time.monotonic()
    port = free_port()
    with pytest.raises(
        PipelineError, match="RAY_ADDRESS: cannot reach Ray at .*: Connection refused"
    ) as caught:
        reach.check_ray(form.format(port), "RAY_ADDRESS")
    assert f"can reach its port {port};" in str(caught.value.hint)
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


@pytest.mark.parametrize(
    ("uri", "told"),
    [
        ("http://h:5000/x?email=a@b.c", r"`http://h:5000/x\?email=a@b.c` contains `\?`"),
        ("https://ada:hush@h/#/models", "`https://ada:\\*\\*\\*@h/#/models` contains `#`"),
    ],
)
def test_a_page_is_no_address_of_a_server(uri: str, told: str):
    with pytest.raises(PipelineError, match=told) as caught:
        reach.check_tracking(uri)
    assert "remove the part that starts with" in str(caught.value.hint)


def test_nothing_is_asked_of_a_database():
    reach.check_tracking("sqlite:////nowhere/mlflow.db")


class _Guarded(http.server.BaseHTTPRequestHandler):
    """Answers whoever knows the password."""

    def do_GET(self) -> None:
        wanted = f"Basic {base64.b64encode(b'ada:p@ss/w#rd%1').decode()}"
        self.send_response(200 if self.headers["Authorization"] == wanted else 401)
        self.end_headers()
        self.server.seen.append(self.path)  # type: ignore[attr-defined]

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is said."""


def test_a_server_with_a_password_is_asked_with_it_and_by_its_own_name():
    with http.server.HTTPServer(("127.0.0.1", 0), _Guarded) as server:
        server.seen = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            uri = f"http://ada:p%40ss%2Fw%23rd%251@127.0.0.1:{server.server_port}/team"
            with urllib.request.urlopen(reach._health(uri)) as answer:
                assert answer.status == 200
            reach.check_tracking(uri)
            reach.check_tracking(uri.replace("rd", "other"))  # MLflow itself says that it is refused
        finally:
            server.shutdown()
            thread.join()
        assert server.seen == ["/team/health"] * 3  # type: ignore[attr-defined]


def test_a_password_is_no_part_of_the_message_where_no_server_answers():
    with pytest.raises(PipelineError, match=r"answers at http://ada:\*\*\*@127") as caught:
        reach.check_tracking(f"http://ada:hush-hush@127.0.0.1:{free_port()}")
    assert "hush" not in f"{caught.value} {caught.value.hint}"

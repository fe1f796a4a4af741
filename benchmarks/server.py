"""A model server in a process of its own, as `mlflow models serve` starts it, and requests to it."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_HOST = "127.0.0.1"
_READY_S = 240.0
_ANSWER_S = 120.0
_STOP_S = 60.0


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    body: str
    seconds: float
    """From the request to the last byte."""

    def predictions(self) -> list[dict[str, Any]]:
        """The answers of a request that succeeded."""
        found: list[dict[str, Any]] = json.loads(self.body)["predictions"]
        return found


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready."""

    port: int
    ready_s: float
    """From the command to the first answer to a ping."""
    log: Path

    def send(self, body: bytes, headers: Mapping[str, str], start: threading.Barrier | None = None) -> Reply:
        """Send a request to /invocations and wait for the reply, whatever its status.

        Args:
            body: of the request.
            headers: of the request.
            start: waited for once the connection stands, so that several requests go off together.
        """
        connection = http.client.HTTPConnection(_HOST, self.port, timeout=_ANSWER_S)
        with contextlib.closing(connection):
            connection.connect()
            if start is not None:
                start.wait()
            started = time.perf_counter()
            connection.request("POST", "/invocations", body, dict(headers))
            reply = connection.getresponse()
            text = reply.read().decode("utf-8")
            return Reply(reply.status, text, time.perf_counter() - started)

    def ask(self, payload: object, start: threading.Barrier | None = None) -> Reply:
        """Send JSON."""
        return self.send(json.dumps(payload).encode(), {"Content-Type": "application/json"}, start)

    def ask_at_once(self, payloads: Sequence[object]) -> list[Reply]:
        """Send as many requests as there are payloads, all at the same moment."""
        start = threading.Barrier(len(payloads), timeout=_ANSWER_S)
        with ThreadPoolExecutor(len(payloads)) as pool:
            return list(pool.map(lambda payload: self.ask(payload, start), payloads))


@contextlib.contextmanager
def model_server(
    model_uri: str,
    tracking_uri: str,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    workers: int = 1,
) -> Iterator[Server]:
    """Serve a registered model until the block ends.

    Args:
        model_uri: `models:/NAME@ALIAS`.
        tracking_uri: MLflow's.
        folder: empty; where the server runs and its log is written.
        environment: variables on top of this process' own.
        workers: processes that answer.

    Raises:
        RuntimeError: if the server ends or does not get ready; with what it printed last.
    """
    port, log = free_port(), folder / "server.log"
    command = [sys.executable, "-m", "mlflow", "models", "serve", "-m", model_uri, "--env-manager", "local"]
    command += ["-h", _HOST, "-p", str(port), "--workers", str(workers)]
    variables = {
        "MLFLOW_TRACKING_URI": tracking_uri,
        "PYTHONPATH": str(_ROOT),
        # the server starts `uvicorn` by its name
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    started = time.perf_counter()
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=os.environ | variables | dict(environment or {}),
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
        try:
            _wait(port, process, log)
            yield Server(port, time.perf_counter() - started, log)
        finally:
            _stop(process)


def free_port() -> int:
    """A port of the loopback device on which nobody listens."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline and process.poll() is None:
        connection = http.client.HTTPConnection(_HOST, port, timeout=5)
        with contextlib.closing(connection), contextlib.suppress(OSError):
            connection.request("GET", "/ping")
            if connection.getresponse().status == 200:
                return
        time.sleep(0.1)
    raise RuntimeError(f"the model server did not get ready:\n{log.read_text(errors='replace')[-4000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the server with all its processes, which are a session of their own."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):  # all have ended
            os.killpg(process.pid, sign)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
            return

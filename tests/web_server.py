"""Pages of an application, served from a thread of the test, and what they answer."""

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import uvicorn

from tests.integration.servers import free_port

Reply = tuple[int, dict[str, str], str]
"""Status, headers in small letters, and text."""


@contextlib.contextmanager
def in_thread(app: Any) -> Iterator[int]:
    """Serve an application on a free port while the block runs; gives the port."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="critical", access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while not server.started:
            assert thread.is_alive() and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.02)
        yield port
    finally:
        server.should_exit = True
        server.force_exit = True
        thread.join(30)


def ask(
    port: int, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
) -> Reply:
    """One request; a body that is not bytes is sent as JSON."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        sent = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method, path, sent, {"Content-Type": "application/json"} | (headers or {}))
        answer = connection.getresponse()
        return answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read().decode()
    finally:
        connection.close()


def ask_in_chunks(port: int, method: str, path: str, num_bytes: int) -> int:
    """Send blanks without saying how many; returns the status."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    chunks = (b" " * 65536 for _ in range(num_bytes // 65536 + 2))
    try:
        kind = {"Content-Type": "application/json"}
        connection.request(method, path, chunks, kind, encode_chunked=True)
        return connection.getresponse().status
    finally:
        connection.close()

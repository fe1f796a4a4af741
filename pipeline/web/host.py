"""A server on an address of this machine, until it is interrupted."""

import logging
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pipeline.base.errors import PipelineError
from pipeline.web.flags import is_local

if TYPE_CHECKING:
    from starlette.types import ASGIApp

logger = logging.getLogger("pipeline.web.host")

EVERYWHERE = ("0.0.0.0", "::")
_MAX_CONNECTIONS = 200


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Args:
        host: a name or an address of this machine.
        port: 0: a free one.

    Raises:
        PipelineError: if the port is taken, or the host is not this machine's.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError) as error:
        raise PipelineError(
            f"cannot listen on this address: {getattr(error, 'strerror', None) or error}",
            where=f"--host {host} --port {port}",
            hint="use `--port 0` for a free port; `--host` must be an address of this machine",
        ) from error


def address(listener: socket.socket, host: str, url: str | None) -> str:
    """How readers reach the server: `http://HOST:PORT`, without a slash at the end.

    Args:
        url: another address that leads to it.
    """
    if url:
        return url.rstrip("/")
    name = socket.gethostname() if host in EVERYWHERE else host
    return f"http://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}"


def is_unencrypted(host: str, url: str | None) -> bool:
    """Whether links go over the network as they are."""
    if not url:
        return not is_local(host)
    parts = urlsplit(url)
    return parts.scheme != "https" and not is_local(parts.hostname or "")


def run(app: "ASGIApp", listener: socket.socket) -> None:
    """Answer until the process is interrupted."""
    import uvicorn

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,  # the addresses are secrets
        limit_concurrency=_MAX_CONNECTIONS,
        server_header=False,
        timeout_graceful_shutdown=3,
    )
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:  # uvicorn has closed by now and passes the signal on
        logger.info("the server has ended")

"""Whether a server answers: asked before work is done that it would be needed for at the end."""

import base64
import re
import socket
import urllib.error
import urllib.parse
import urllib.request

from pipeline.base import tracking_address, uris
from pipeline.base.errors import PipelineError

TIMEOUT_S = 10.0
"""Seconds that a server has to answer."""


def check_tracking(uri: str) -> None:
    """Find an MLflow server that is not there at once, instead of after MLflow's many tries.

    Args:
        uri: where MLflow tracks; nothing is asked of a database.

    Raises:
        PipelineError: if no server answers.
    """
    if not uri.startswith(("http://", "https://")):
        return
    address, _ = uris.split(uri)
    if found := re.search(r"[?#].*", address, re.DOTALL):
        raise PipelineError(
            f"expected the address of an MLflow server, but `{uris.without_password(uri)}` contains "
            f"`{found[0][0]}`, and MLflow would append its own paths to it",
            where=tracking_address.named_by(uri),
            hint=f"remove the part that starts with `{found[0][0]}`",
        )
    try:
        with urllib.request.urlopen(_health(uri), timeout=TIMEOUT_S):
            pass
    except urllib.error.HTTPError:
        pass  # it answers: that it has no /health, or wants a password, is no matter here
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise PipelineError(
            f"no MLflow server answers at {uris.without_password(uri)}: "
            f"{uris.without_password_of(str(reason), uri)}",
            where=tracking_address.named_by(uri),
            hint="check that the server is running",
        ) from error


def _health(uri: str) -> urllib.request.Request:
    """What asks a server whether it is well; user and password go where HTTP has them, into a header."""
    address, credentials = uris.split(uri)
    headers = {}
    if credentials is not None:
        pair = ":".join(credentials.decoded()).encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    return urllib.request.Request(f"{address.rstrip('/')}/health", headers=headers)


def check_database(url: str, flag: str) -> None:
    """Find a database server that is not there before work is done; nothing is asked of a file.

    Args:
        url: of SQLAlchemy or Redis, with its password.
        flag: that named it.

    Raises:
        PipelineError: if nobody listens at the host and port that the URL names.
    """
    address, _ = uris.split(url)
    try:
        parts = urllib.parse.urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        return  # what opens it says why
    if not host or port is None:
        return
    try:
        socket.create_connection((host, port), timeout=TIMEOUT_S).close()
    except OSError as error:
        raise PipelineError(
            f"no server answers at `{uris.without_password(url)}`: {error.strerror or error}",
            where=flag,
            hint="check that the server is running",
        ) from error


def check_ray(address: str, where: str) -> None:
    """Find a Ray cluster that is not there at once: with a token, Ray itself would try for minutes.

    Args:
        address: `HOST:PORT` or `ray://HOST:PORT`; nothing is asked of another form, such as `auto`.
        where: what named it.

    Raises:
        PipelineError: if nobody listens there.
    """
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not (colon and port.isdigit()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        raise PipelineError(
            f"cannot reach Ray at `{address}`: {getattr(error, 'strerror', None) or error}",
            where=where,
            hint=f"check that the cluster is running, and that this machine can reach its port {port}; by "
            "default, a cluster listens on port 6379, and on 10001 for ray://",
        ) from error

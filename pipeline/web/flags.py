"""The flags that say where a command serves its pages."""

import argparse
import contextlib
import importlib.util
import ipaddress
import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from pipeline.base.errors import PipelineError

LOCAL = "127.0.0.1"
"""This machine, for itself alone."""

_NOT_IN_AN_ADDRESS = re.compile(r"""[\s\x00-\x1f\x7f"<>\\^`{|}?#@]""")


def add_address(
    group: argparse._ArgumentGroup, host_default: str | None = LOCAL, port_default: str = "a free one"
) -> None:
    """`--host`, `--port` and `--url`; `port_default` says which port is taken where none is given."""
    shown = LOCAL if host_default is None else host_default
    group.add_argument(
        "--host", default=host_default, help=f"address on which the server listens (default: {shown})"
    )
    group.add_argument(
        "--port", type=int, default=0, help=f"port on which the server listens (default: {port_default})"
    )
    group.add_argument(
        "--url", help="address under which others reach the pages, if it differs from --host and --port"
    )


def check_address(given: argparse.Namespace) -> None:
    """Refuse a port or an address that is none.

    Raises:
        PipelineError: names the flag.
    """
    if not 0 <= given.port < 2**16:
        raise PipelineError(f"expected a port from 0 to 65535, but got {given.port}", where="--port")
    if given.url is not None and not _is_address(given.url):
        raise PipelineError(
            f"expected an address such as https://judging.example or https://HOST:PORT/PATH, but got "
            f"`{given.url}`",
            where="--url",
            hint="give http:// or https:// and a host, without a user, a query (?) or a fragment (#)",
        )


def _is_address(url: str) -> bool:
    """Whether links can begin with it."""
    try:
        parts = urlsplit(url)
        is_port = parts.port is None or parts.port > 0
    except ValueError:  # an open bracket, or a port that is none
        return False
    is_web = parts.scheme in ("http", "https") and bool(parts.hostname)
    return is_web and is_port and not _NOT_IN_AN_ADDRESS.search(url)


def is_local(host: str) -> bool:
    """Whether nobody but this machine reaches a server that listens there."""
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def check_packages(names: Sequence[str]) -> None:
    """That the optional packages are there, before anything is made that needs them later."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise PipelineError(
            f"the package `{missing[0]}` is missing", hint="pip install 'infocal-pipeline[judge]'"
        )

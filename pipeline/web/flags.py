"""The flags that say where a command serves its pages."""

import argparse
import importlib.util
from collections.abc import Sequence

from pipeline.base.errors import PipelineError

LOCAL = "127.0.0.1"
"""This machine, for itself alone."""


def add_address(group: argparse._ArgumentGroup, host_default: str | None = LOCAL) -> None:
    """`--host`, `--port` and `--url`."""
    shown = LOCAL if host_default is None else host_default
    group.add_argument(
        "--host", default=host_default, help=f"address on which the server listens (default: {shown})"
    )
    group.add_argument(
        "--port", type=int, default=0, help="port on which the server listens (default: a free one)"
    )
    group.add_argument(
        "--url", help="address under which others reach the pages, if it differs from --host and --port"
    )


def check_address(given: argparse.Namespace) -> None:
    """Refuse a port that is none."""
    if not 0 <= given.port < 2**16:
        raise PipelineError(f"expected a port from 0 to 65535, but got {given.port}", where="--port")


def check_packages(names: Sequence[str]) -> None:
    """That the optional packages are there, before anything is made that needs them later."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise PipelineError(
            f"the package `{missing[0]}` is missing", hint="pip install 'infocal-pipeline[judge]'"
        )

"""What Ray has no public way for: each departure from its public interface, with its reason.

Checked with Ray 2.60.0; `pyproject.toml` admits no other minor version. For a new one run
tests/integration/test_ray_private.py, which starts a Ray and says which of these is no longer needed, or no
longer works. `READ` has the private attributes that subclasses of Tune's classes read.
"""

import contextlib
import functools
import sys
from collections.abc import Iterator
from typing import Any

READ = {
    "ray.tune.schedulers.ASHAScheduler": ("_brackets",),
    "ray.tune.search.optuna.OptunaSearch": ("_ot_study", "_ot_trials", "_completed_trials"),
}
"""Class -> private attributes of its objects that a subclass of this project reads."""
STARTS_LATE = "timed out during startup"
"""What Ray says, as a plain `Exception`, where a node has not started within its 30 s."""


@contextlib.contextmanager
def without_api_server() -> Iterator[None]:
    """Let `ray.init` start a private Ray without Ray's API server.

    With `include_dashboard=False` the API server has one module, usage statistics. Even where these are
    turned off it asks metadata.google.internal and 169.254.169.254 in which cloud it runs. No option prevents
    it: `Node.start_head_processes` always calls `Node.start_api_server`.
    """
    from ray._private import node

    kind: Any = node.Node
    start = kind.start_api_server

    def start_nothing(self: Any, **given: object) -> None:
        self._webui_url = ""  # as Ray has it without a dashboard

    kind.start_api_server = start_nothing
    try:
        yield
    finally:
        kind.start_api_server = start


@contextlib.contextmanager
def in_their_own_groups() -> Iterator[None]:
    """Let `ray.init` start Ray's processes outside of this process's group.

    `kill %1` of a shell and `timeout` signal the whole group, and raylet would end at SIGTERM, before the
    trials have saved their state. `ray.init` has no option for it. Only on Linux: elsewhere Ray finds by
    their group what it has to end after a driver that was killed.
    """
    from ray._private import services

    module: Any = services
    popen = module.ConsolePopen
    if sys.platform == "linux":
        module.ConsolePopen = functools.partial(popen, process_group=0)
    try:
        yield
    finally:
        module.ConsolePopen = popen

"""What Ray has no public way for: each departure from its public interface, with its reason.

Checked with Ray 2.60.0; `pyproject.toml` admits no other minor version. For a new one run
tests/integration/test_ray_private.py, which starts a Ray and says which of these is no longer needed, or no
longer works. `READ` has the private attributes that subclasses of Tune's classes read.
"""

import contextlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from pipeline.base import interruption

READ = {
    "ray.tune.schedulers.ASHAScheduler": ("_brackets",),
    "ray.tune.search.optuna.OptunaSearch": ("_ot_study", "_ot_trials", "_completed_trials"),
}
"""Class -> private attributes of its objects that a subclass of this project reads."""
STARTS_LATE = "timed out during startup"
"""What Ray says, as a plain `Exception`, where a node has not started within its 30 s."""
_RENEW_S = 0.01
"""How long, while Ray is left, SIGTERM may end this process at once."""


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


def shut_down() -> None:
    """Disconnect from Ray, and keep answering SIGTERM.

    Ray's core worker, which is C++, gives SIGTERM back to the system when it shuts down, so the signal would
    end the process before its runs are closed in MLflow. No option prevents it, and Python does not hear of
    it. So Ray shuts down in a thread, and this thread sets the handlers again until that is done.
    """
    import ray

    with ThreadPoolExecutor(1) as other:
        done = other.submit(ray.shutdown)
        while not done.done():
            interruption.renew()
            wait([done], _RENEW_S)
        interruption.renew()
        done.result()

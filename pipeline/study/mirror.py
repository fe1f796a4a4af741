"""Tracking beside a search: MLflow is written by a thread of its own, so that no trial waits for it."""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from pipeline.base.errors import USER_ERRORS, PipelineError
from pipeline.study.trial_tracking import TrialTracking

logger = logging.getLogger("pipeline.study.mirror")

RETRY_S = 5.0
"""Time between tries while MLflow is away."""
PATIENCE_S = 60.0
"""How long the end of a search waits for MLflow."""


class Mirror:
    """Keeps MLflow up to a study's ledger; where MLflow is away, it is tried again until it is back.

    Args:
        sync_command: writes later what could not be written.
    """

    def __init__(self, tracking: TrialTracking, sync_command: str) -> None:
        self.tracking, self.sync_command = tracking, sync_command
        self._news, self._stop = threading.Event(), threading.Event()
        self._away_since: float | None = None

    def notify(self) -> None:
        """The ledger has grown."""
        self._news.set()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Write while the body runs; what is not written by its end is left to `drain`."""
        with ThreadPoolExecutor(1, "mirror") as other:
            written = other.submit(self._keep_up)
            try:
                yield
            finally:
                self._stop.set()
                self._news.set()
        written.result()  # raises a fault of ours

    def _keep_up(self) -> None:
        while not self._stop.is_set():
            if self._try(is_running=True) is None:
                self._news.wait()
                self._news.clear()
            else:
                self._stop.wait(RETRY_S)

    def _try(self, *, is_running: bool) -> Exception | None:
        try:
            self.tracking.sync(is_running=is_running)
        except (OSError, *USER_ERRORS) as error:
            if self._away_since is None:
                self._away_since = time.monotonic()
                said = " ".join(str(error).split())
                logger.warning("cannot write to MLflow (%s); the search continues and will try again", said)
            return error
        if self._away_since is not None:
            seconds = time.monotonic() - self._away_since
            logger.warning("MLflow is reachable again after %.0f s; nothing is missing", seconds)
            self._away_since = None
        return None

    def drain(self, *, is_running: bool = False, patience_s: float = PATIENCE_S) -> None:
        """Write what is left.

        Args:
            is_running: whether trials that have not ended continue; else their runs become KILLED.
            patience_s: how long it is tried.

        Raises:
            PipelineError: if MLflow cannot be written all that time.
        """
        deadline = time.monotonic() + patience_s
        while (error := self._try(is_running=is_running)) is not None:
            if time.monotonic() + RETRY_S > deadline:
                raise PipelineError(
                    f"could not write to MLflow for {patience_s:.0f} s: {error}",
                    hint=f"nothing is lost: when MLflow is reachable again, run: {self.sync_command}",
                ) from error
            time.sleep(RETRY_S)

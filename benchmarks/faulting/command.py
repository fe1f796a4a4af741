"""Commands as processes that can be killed, and what is left of them."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 1200.0
"""No command takes longer, on a machine with other work too."""
LINGER_S = 150.0
"""How long processes may take to go by themselves; agents of a Ray that was killed take up to two minutes."""
SHORT_LINGER_S = 5.0
"""The same in the short form, which leaves those agents out."""
AGENT = re.compile(r"ray::\w+Agent\b")
"""Ray's titles of them."""
SMALL = (
    *("--dataset", "beer", "--aspect", "palate", "--sample", "--embedding", "random", "--device", "cpu"),
    *("--set", "hidden_size=4", "--set", "encoder=lstm", "--set", "batch_size=256"),
    # all weights act, a little: no mask becomes trivial enough to fail, and no trial is stopped early
    *("--set", "dense_epochs=0.0", "--set", "ramp_epochs=100.0", "--set", "start_selection_rate=0.5"),
)
"""A model that trains an epoch in half a second."""
EPOCH_LINE = re.compile(r"^trial (\d+) epoch (\d+)/\d+", re.MULTILINE)
_MARK = "INFOCAL_FAULT"
_POLL_S = 0.1


class Unexpected(RuntimeError):  # noqa: N818 - not a fault of this program: what it is there to find
    """A command did what the fault does not allow; ends this injection and is counted."""


class Command:
    """A started command in a session of its own.

    Args:
        arguments: of the interpreter.
        log: file that stdout and stderr are written to.
        temporary: TMPDIR of the command; a short path.
        environment: variables on top of this process' own.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        log: Path,
        temporary: Path,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log
        self._mark = uuid.uuid4().hex
        temporary.mkdir(parents=True, exist_ok=True)
        variables = {"PYTHONPATH": str(ROOT), "TMPDIR": str(temporary), _MARK: self._mark}
        variables |= {"OMP_NUM_THREADS": "1", **(environment or {})}
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=log.parent,
                env=os.environ | variables,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        _STARTED.append(self)
        self.started = time.monotonic()
        self._seen: set[psutil.Process] = set()

    def said(self) -> str:
        """Everything that it has written."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def num_epochs(self) -> int:
        """Epochs that it has reported."""
        return len(EPOCH_LINE.findall(self.said()))

    def seconds(self) -> float:
        """Since it was started."""
        return time.monotonic() - self.started

    def descendants(self) -> list[psutil.Process]:
        """Its processes, itself left out; all that were ever seen are remembered."""
        try:
            found = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        self._seen |= set(found)
        return found

    def wait_until(self, is_reached: Callable[[], bool], limit_s: float = LIMIT_S) -> bool:
        """Wait; False where the command ended before.

        Raises:
            Unexpected: if neither happens.
        """
        deadline = time.monotonic() + limit_s
        while not is_reached():
            if self.process.poll() is not None:
                return False
            if time.monotonic() > deadline:
                self.kill()
                raise Unexpected(f"no end after {limit_s:g} s:\n{self.tail()}")
            self.descendants()
            time.sleep(_POLL_S)
        self.descendants()
        return True

    def wait_for(self, pattern: str) -> bool:
        """Wait until it has written something; False where it ended before."""
        return self.wait_until(lambda: re.search(pattern, self.said()) is not None)

    def wait_for_epochs(self, number: int) -> bool:
        """Wait until it has reported so many; False where it ended before."""
        return self.wait_until(lambda: self.num_epochs() >= number)

    def finish(self, limit_s: float = LIMIT_S) -> int:
        """Wait for its end; returns its exit code, -9 where it was killed."""
        self.wait_until(lambda: self.process.poll() is not None, limit_s)
        return int(self.process.returncode)

    def kill(self) -> None:
        """Kill -9 its whole process group."""
        self.descendants()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def survivors(self, limit_s: float = LINGER_S) -> list[str]:
        """Names of its processes that are still there after a while; all are ended then."""
        deadline = time.monotonic() + limit_s
        while (alive := self._alive()) and time.monotonic() < deadline:
            time.sleep(2 * _POLL_S)
        names = [_named(process) for process in alive]
        for process in alive:
            with _gone():
                process.kill()
        return names

    def _alive(self) -> list[psutil.Process]:
        self._seen |= {process for process in psutil.process_iter() if self._is_marked(process)}
        return [process for process in self._seen if _is_running(process)]

    def _is_marked(self, process: psutil.Process) -> bool:
        with _gone():
            return process.pid != os.getpid() and process.environ().get(_MARK) == self._mark
        return False

    def tail(self) -> str:
        """The end of what it has written."""
        return self.said()[-2000:]


def _gone() -> contextlib.suppress:
    """For what may have ended, or belong to another user."""
    return contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess)


def _is_running(process: psutil.Process) -> bool:
    """Whether it does anything: one that has ended and whose parent does not care holds nothing."""
    with _gone():
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def _named(process: psutil.Process) -> str:
    with _gone():
        return f"{process.pid} {' '.join(process.cmdline())[:80] or process.name()}"
    return str(process.pid)


_STARTED: list[Command] = []


def end_all() -> None:
    """Kill every command that still runs: an injection that was given up leaves some."""
    for command in _STARTED:
        if command.process.poll() is None:
            command.kill()
    _STARTED.clear()


def search_arguments(runs: Path, cache: Path, *more: str) -> list[str]:
    """The interpreter's arguments for a small search with results in `runs`."""
    return ["-m", "pipeline.search", *SMALL, "--storage", str(runs), "--cache-dir", str(cache), *more]

"""How a command is stopped: at the first signal cleanly, at the second at once."""

import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from feature_store import terminal

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_FIRST = "stopping ... (press Ctrl-C again to stop at once)"
_SECOND = b"stopped at once\n"
_AGAIN_S = 0.01
"""How long after Python has dropped an interrupt it is raised again."""

Handler = Callable[[int, FrameType | None], None]
_active: list[Handler] = []
"""What answers signals now; nothing outside of `handled`."""
_resumes: list[Callable[[], str]] = []
"""Tells how what runs now is resumed; nothing where nothing is to be resumed."""
_received: list[int] = []
"""The first signal, once it has come: Ray raises a KeyboardInterrupt of its own in place of ours."""
_first_at = [0.0]
"""When it came, by the monotonic clock."""
SAME_S = 0.05
"""A further signal so soon is the same request: `timeout` signals a process, and then its group."""


@contextlib.contextmanager
def handled() -> Iterator[None]:
    """Raise KeyboardInterrupt at the first SIGINT or SIGTERM, and end the process at the second.

    Outside of the main thread, where Python takes no handlers, nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _received.clear()
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    before[signal.SIGALRM] = signal.getsignal(signal.SIGALRM)
    hook = sys.unraisablehook
    sys.unraisablehook = functools.partial(_unless_interrupt, hook)
    signal.signal(signal.SIGALRM, _again)
    _answer_with(_first)
    try:
        yield
    finally:
        sys.unraisablehook = hook
        signal.setitimer(signal.ITIMER_REAL, 0)
        _active.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def resumed_by(tells: Callable[[], str]) -> Iterator[None]:
    """Let the second signal say how to resume, too: the body has no time to.

    Args:
        tells: gives the sentence.
    """
    _resumes[:] = [tells]
    try:
        yield
    finally:
        _resumes.clear()


def exit_code() -> int:
    """What a shell expects of a process that a signal has ended."""
    return 128 + (_received[0] if _received else signal.SIGINT)


def renew() -> None:
    """Take the signals back from a library that has put handlers of its own in place of ours; Ray does."""
    if _active:
        _answer_with(_active[0])


def _answer_with(handler: Handler) -> None:
    _active[:] = [handler]
    for one in _SIGNALS:
        signal.signal(one, handler)


def _first(number: int, frame: FrameType | None) -> None:
    _answer_with(_second)
    if terminal.is_open():
        terminal.notice(_FIRST)  # shown by the thread that draws: a line in its midst would tear the table
    else:
        os.write(2, f"\n{_FIRST}\n".encode())  # not `print`, whose buffer may be in use just now
    _received[:], _first_at[:] = [number], [time.monotonic()]
    raise KeyboardInterrupt


def _again(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _unless_interrupt(
    hook: Callable[["sys.UnraisableHookArgs"], object], dropped: "sys.UnraisableHookArgs"
) -> None:
    """Say what Python drops, but raise an interrupt again.

    Python drops an error that comes while an object is thrown away, in `__del__` or a callback of `weakref`,
    and calls `sys.unraisablehook` with it. Raised in the hook it would be dropped, too, so a timer raises it
    once the object is gone. The timer is a signal, since nothing else ends a `sleep` of the main thread.
    """
    if isinstance(dropped.exc_value, KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
    else:
        hook(dropped)


def _second(number: int, frame: FrameType | None) -> None:
    if time.monotonic() - _first_at[0] < SAME_S:
        return
    said = b"".join(f"{tells()}\n".encode() for tells in _resumes)
    _kill_children()
    os.write(2, (terminal.SHOW_CURSOR + b"\n" if terminal.is_open() else b"") + said + _SECOND)
    os._exit(128 + number)


def _kill_children() -> None:
    """End what this process has started; some of Ray's processes would outlive it by a minute."""
    import psutil  # 15 ms that a command which is not stopped need not wait for

    with contextlib.suppress(psutil.Error):
        for one in psutil.Process().children(recursive=True):
            with contextlib.suppress(psutil.Error):
                one.kill()

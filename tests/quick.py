"""`pytest --quick`: the tests that an edit needs, without those that cost seconds.

A test is left out by what it does, so there is no list to keep: once it starts a process, opens a database or
trains a model, it is skipped, with that as the reason. Python's audit events tell the first two. A test that
catches the skip, or fails of it, is skipped as well.
"""

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

import pytest

OPTION = "--quick"
EVENTS = {
    "subprocess.Popen": "it starts a process",
    "os.fork": "it starts a process",
    "os.posix_spawn": "it starts a process",
    "sqlite3.connect": "it opens a database",
}
"""Audit event -> why a test is left out."""
COMPILERS = ("c++", "g++", "gcc", "cc", "ninja", "ldconfig", "which")
"""Programs that torch starts to compile and find the kernels, once on a machine."""
CALLS = (
    ("multiprocessing.process", "BaseProcess", "start", "it starts a process"),
    ("infocal.trainer", "Trainer", "train_epoch", "it trains a model"),
    ("infocal.methods.infocal.language_model", "LanguageModelTrainer", "train_epoch", "it trains a model"),
    ("infocal.language_models.recurrent", "RecurrentTrainer", "train", "it trains a model"),
)
"""Module, class and method that no event tells, and why a test that calls it is left out."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option of `make quick`."""
    parser.addoption(
        OPTION, action="store_true", help="skip a test once it starts a process, opens a database or trains"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Watch what tests do, where they are to be quick."""
    if config.getoption(OPTION):
        config.pluginmanager.register(Quick(), "quick")


class Quick:
    """The plugin; an audit hook stays for ever, so a process has one of it."""

    def __init__(self) -> None:
        self._is_watching, self._reason = False, ""
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._is_watching or event not in EVENTS:
            return
        if event == "subprocess.Popen" and PurePath(str(arguments[0])).name in COMPILERS:
            return
        self._leave_out(EVENTS[event])

    def _leave_out(self, reason: str) -> None:
        self._reason = reason
        if threading.current_thread() is threading.main_thread():  # in another thread it would be a fault
            pytest.skip(f"{OPTION}: {reason}")

    def _instead(self, does: Callable[..., Any], reason: str) -> Callable[..., Any]:
        def leave_out(*given: Any, **named: Any) -> Any:
            self._leave_out(reason)
            return does(*given, **named)

        return leave_out

    def pytest_collection_finish(self) -> None:
        """Leave what was imported out of each later garbage collection: half a million objects, a third of a
        second."""
        gc.collect()
        gc.freeze()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self) -> Iterator[None]:
        """Watch the fixtures."""
        return (yield from self._watched())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        """Watch the test."""
        return (yield from self._watched())

    def _watched(self) -> Iterator[None]:
        self._is_watching, self._reason = True, ""
        try:
            with pytest.MonkeyPatch.context() as patch:
                for module, kind, method, reason in CALLS:
                    if (there := sys.modules.get(module)) is not None:
                        does = getattr(getattr(there, kind), method)
                        patch.setattr(getattr(there, kind), method, self._instead(does, reason))
                yield
        finally:
            self._is_watching = False
            if self._reason:
                pytest.skip(f"{OPTION}: {self._reason}")

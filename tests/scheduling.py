"""The order of the test files, and which of them share a process, under `pytest -n 2 --dist loadfile`.

All tests of a file run in one process, so its module fixtures are made once. Files that use the same session
fixture run in one process as well. The slowest files start first: no process waits for another at the end.
"""

from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling

SHARING = {
    "the search of the sample corpus": (
        "tests/browser/test_pages_in_chromium.py",
        "tests/integration/test_compare.py",
        "tests/integration/test_reproduce.py",
        "tests/integration/test_search.py",
    ),
}
"""What files share -> the files that need it."""
FIRST = (
    "the search of the sample corpus",
    "tests/integration/test_gpus.py",
    "tests/integration/test_interruption.py",
)
"""The longest, longest first."""
SLOW = (
    "tests/integration/",
    "tests/browser/",
    "tests/real_data/",
    "tests/unit/benchmarks/",
    "tests/contracts/",
)
"""Folders of files that take more than some seconds; they follow."""


def group_of(file: str) -> str:
    """What a file shares with others, else the file."""
    return next((name for name, files in SHARING.items() if file in files), file)


def rank(group: str) -> tuple[int, int]:
    """Place of a group in the order; groups of the same place keep theirs."""
    if group in FIRST:
        return 0, FIRST.index(group)
    return (1 if group.startswith(SLOW) else 2), 0


class Scheduling(LoadFileScheduling):
    """Files that share something in one process, the longest first."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(super()._split_scope(nodeid))

    def _assign_work_unit(self, node: Any) -> None:
        first = min(self.workqueue, key=rank)
        self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling | None:
    """The scheduler of `--dist loadfile`."""
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None

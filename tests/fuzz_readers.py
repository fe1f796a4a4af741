"""Readers that misbehave, for tests of the fuzz run; its processes import them by name."""

import os
import time
from pathlib import Path

from benchmarks.fuzzing.reader import Reader

FILES = {"a.txt": b"0123456789" * 20}


def _reader(misbehave: object) -> Reader:
    def read(folder: Path) -> None:
        if (folder / "a.txt").read_bytes() != FILES["a.txt"]:
            misbehave(folder)  # type: ignore[operator]

    return Reader(files=FILES, targets=("a.txt",), read=read)


def dying() -> Reader:
    return _reader(lambda _: os._exit(9))


def hanging() -> Reader:
    return _reader(lambda _: time.sleep(600))


def greedy() -> Reader:
    return _reader(lambda _: bytearray(3 * 2**30))


def refusing_its_own() -> Reader:
    return Reader(files=FILES, targets=("a.txt",), read=lambda _: 1 / 0)

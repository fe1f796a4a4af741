"""What `make quick` leaves out: what a test does decides it."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = """
import multiprocessing
import sqlite3
import subprocess
import sys
import threading

import pytest
from infocal.trainer import Trainer


@pytest.fixture(scope="module")
def process():
    return subprocess.run([sys.executable, "-c", ""], check=True)


@pytest.mark.parametrize("number", [1, 2])
def test_whose_fixture_starts_a_process(process, number):
    pass


def test_that_starts_a_process():
    subprocess.run([sys.executable, "-c", ""], check=True)


def test_that_opens_a_database():
    sqlite3.connect(":memory:")


def test_that_trains():
    Trainer.train_epoch(None, [])


def test_that_starts_a_worker():
    multiprocessing.get_context("spawn").Process(target=print).start()


def test_whose_thread_starts_a_process():
    thread = threading.Thread(target=subprocess.run, args=([sys.executable, "-c", ""],))
    thread.start()
    thread.join()


def test_that_catches_everything():
    with pytest.raises(BaseException):
        subprocess.run([sys.executable, "-c", ""], check=True)


def test_that_fails_of_it():
    try:
        subprocess.run([sys.executable, "-c", ""], check=True)
    except BaseException:
        raise ValueError


def test_that_computes():
    assert 1 + 1 == 2


def test_that_is_wrong():
    assert 1 + 1 == 3
"""


def said_of(folder: Path, *options: str) -> str:
    """What pytest says of these tests."""
    (folder / "test_made_up.py").write_text(TESTS, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "tests.quick", *options, "test_made_up.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def test_a_test_is_left_out_once_it_costs_seconds(tmp_path: Path):
    said = said_of(tmp_path, "--quick")
    assert "1 failed, 1 passed, 9 skipped" in said, said
    assert "test_that_is_wrong" in said
    reasons: dict[str, int] = {}
    for number, reason in re.findall(r"^SKIPPED \[(\d)\].*--quick: (.*)$", said, re.MULTILINE):
        reasons[reason] = reasons.get(reason, 0) + int(number)
    assert reasons == {"it starts a process": 7, "it opens a database": 1, "it trains a model": 1}

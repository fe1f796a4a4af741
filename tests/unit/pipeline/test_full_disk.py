"""Every library that writes for us says that the disk is full in words, or with a number, that are known."""

import errno
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import safetensors
import safetensors.torch
import sqlalchemy
import torch

from pipeline.base import full_disk

FULL = "/dev/full"


def by_python(folder: Path) -> None:
    Path(FULL).write_bytes(b"x")


def by_torch(folder: Path) -> None:
    torch.save({"weights": torch.zeros(10)}, FULL)


def by_sqlite(folder: Path) -> None:
    with sqlite3.connect(folder / "full.db") as database:
        database.execute("PRAGMA max_page_count = 2")
        database.execute("CREATE TABLE rows (content)")
        database.execute("INSERT INTO rows VALUES (zeroblob(100000))")


def by_sqlalchemy(folder: Path) -> None:
    engine = sqlalchemy.create_engine(f"sqlite:///{folder / 'full.db'}")
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("PRAGMA max_page_count = 2"))
        connection.execute(sqlalchemy.text("CREATE TABLE rows (content)"))
        connection.execute(sqlalchemy.text("INSERT INTO rows VALUES (zeroblob(100000))"))


@pytest.mark.skipif(not Path(FULL).exists(), reason="needs Linux's device that is always full")
@pytest.mark.parametrize("write", [by_python, by_torch, by_sqlite, by_sqlalchemy])
def test_a_full_disk_is_known_by_the_error_and_by_its_text(write: Callable[[Path], None], tmp_path: Path):
    with pytest.raises(Exception, match=".") as caught:
        write(tmp_path)
    assert full_disk.is_meant(caught.value), repr(caught.value)
    assert full_disk.is_said(f"{type(caught.value).__name__}: {caught.value}"), "of a traceback as text"


def test_safetensors_says_the_number_of_the_system_in_words(tmp_path: Path):
    """It replaces a device by a file, so no device that is full shows it."""
    with pytest.raises(safetensors.SafetensorError, match=rf"\(os error {errno.ENOENT}\)") as caught:
        safetensors.torch.save_file({"weights": torch.zeros(1)}, tmp_path / "missing" / "model")
    said = str(caught.value)
    assert not full_disk.is_said(said)
    assert full_disk.is_said(said.replace(f"(os error {errno.ENOENT})", f"(os error {errno.ENOSPC})"))


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_number_of_the_system_decides_whatever_the_language(code: int):
    assert full_disk.is_meant(OSError(code, "kein Platz mehr"))
    assert full_disk.is_said(str(OSError(code, os.strerror(code), "state.pt")))


def test_the_number_of_sqlite_decides_whatever_its_words():
    error = sqlite3.OperationalError("voll")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    assert full_disk.is_meant(error)
    assert full_disk.is_meant(SimpleNamespace(orig=error))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.EACCES, "Permission denied", "state.pt"),
        OSError(errno.ENOENT, "No such file or directory"),
        RuntimeError("sizes differ"),
        sqlite3.OperationalError("database is locked"),
        ValueError("errno 28"),
    ],
)
def test_other_errors_are_not_of_the_disk(error: Exception):
    assert not full_disk.is_meant(error)
    assert not full_disk.is_said(str(error))


@pytest.mark.parametrize(
    ("code", "is_writable"), [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EROFS, False)]
)
@pytest.mark.parametrize("form", ["{0}", "[Errno {1}] {0}", "cannot write (os error {1})"])
def test_a_disk_that_may_not_be_written_is_not_told_to_be_emptied(code: int, is_writable: bool, form: str):
    said = full_disk.remedy(form.format(os.strerror(code), code), "the disk")
    assert said == ("delete files on the disk" if is_writable else "name a folder in which you may write")

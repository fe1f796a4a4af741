import argparse
import errno
import logging
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy.exc

import feature_store.errors
import infocal.errors
from infocal import kernels
from pipeline.base.errors import CriterionNotMet, PipelineError, describe, one_line, run_command


def raising(error: BaseException):
    def command(arguments: Sequence[str]) -> int:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (PipelineError("no such thing"), "error: no such thing"),
        (PipelineError("no such thing", where="--name"), "error: --name: no such thing"),
        (
            PipelineError("no such thing", where="--name", hint="try another"),
            "error: --name: no such thing\n\nhint: try another",
        ),
        (
            feature_store.errors.BadInputError("4 scores", where="reviews.txt:3", hint="mend the line"),
            "error: reviews.txt:3: 4 scores\n\nhint: mend the line",
        ),
        (
            infocal.errors.ConfigError("`dropout` must be < 1", where="run.toml"),
            "error: run.toml: `dropout` must be < 1",
        ),
    ],
)
def test_a_users_mistake_is_one_line_with_its_place_and_a_hint(error: Exception, text: str):
    assert describe(error) == text


@pytest.mark.parametrize(
    "kind", [PipelineError, CriterionNotMet, infocal.errors.StateError, feature_store.errors.MissingDataError]
)
def test_user_errors_of_every_room_give_2_and_nothing_on_stdout(
    kind: type[infocal.errors.UserError], capsys: pytest.CaptureFixture[str]
):
    assert run_command(raising(kind("wrong", where="--x", hint="right")), []) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "error: --x: wrong\n\nhint: right\n"


def test_debug_shows_the_traceback_before_the_line(capsys: pytest.CaptureFixture[str]):
    assert run_command(raising(PipelineError("wrong")), ["--debug"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last):")
    assert "in command" in shown
    assert shown.endswith("\nerror: wrong\n")


def test_an_interrupt_gives_130(capsys: pytest.CaptureFixture[str]):
    assert run_command(raising(KeyboardInterrupt()), ["--debug"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_a_fault_of_ours_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError, match="ours"):
        run_command(raising(ZeroDivisionError("ours")), [])


def test_the_exit_code_is_the_commands_own():
    assert run_command(lambda arguments: len(arguments), ["a", "b", "c"]) == 3


def test_arguments_default_to_those_of_the_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "argv", ["prog", "--flag", "7"])
    seen: list[str] = []

    def command(arguments: Sequence[str]) -> int:
        seen.extend(arguments)
        return 0

    assert run_command(command) == 0
    assert seen == ["--flag", "7"]


def test_argparse_ends_a_command_by_itself(capsys: pytest.CaptureFixture[str]):
    parser = argparse.ArgumentParser(prog="prog")
    with pytest.raises(SystemExit) as ended:
        run_command(lambda arguments: bool(parser.parse_args(arguments)), ["--nope"])
    assert ended.value.code == 2
    assert "prog: error: unrecognized arguments: --nope" in capsys.readouterr().err


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("num_lines", [1, 100_000])
def test_a_reader_of_stdout_who_has_gone_is_no_fault(num_lines: int, buffered: bool):
    source = (
        "import sys; from pipeline.base.errors import run_command; "
        f"sys.exit(run_command(lambda _: sys.stdin.read() or print('line\\n' * {num_lines}) or 0, []))"
    )
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    command = [sys.executable, *([] if buffered else ["-u"]), "-c", source]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        process.stdout.close()
        process.stdin.close()  # it may write now
        assert process.stderr.read() == b""
    assert process.returncode == 141


def test_a_broken_pipe_that_is_not_stdout_is_a_fault_of_ours(capfd: pytest.CaptureFixture[str]):
    with pytest.raises(BrokenPipeError, match="a socket"):
        run_command(raising(BrokenPipeError("a socket")), [])


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.ENOSPC, "delete files on the disk of this file, or on the disks of --storage"),
        (errno.EDQUOT, "delete files on the disk of this file, or on the disks of --storage"),
        (errno.EROFS, "name a folder in which you may write"),
    ],
)
def test_a_disk_that_takes_nothing_is_one_line_that_names_the_file(
    code: int, remedy: str, capsys: pytest.CaptureFixture[str]
):
    assert run_command(raising(OSError(code, os.strerror(code), "runs/study.json")), []) == 2
    error, _, hint = capsys.readouterr().err.splitlines()
    assert error == f"error: runs/study.json: cannot write the file: {os.strerror(code)}"
    assert hint.startswith(f"hint: {remedy}")


def test_a_database_that_lacks_room_is_one_line(capsys: pytest.CaptureFixture[str]):
    cause = sqlite3.OperationalError("database or disk is full")
    error = sqlalchemy.exc.OperationalError("CREATE TABLE studies (...)", {}, cause)
    assert run_command(raising(error), []) == 2
    assert capsys.readouterr().err.startswith(
        "error: cannot write a file: database or disk is full\n\nhint: "
    )


def test_of_many_files_that_could_not_be_copied_one_is_named():
    failed = [(f"from/{i}", f"to/{i}", "[Errno 28] No space left on device") for i in range(9)]
    assert one_line(shutil.Error(failed)) == "to/0: [Errno 28] No space left on device"


def test_what_another_library_says_ends():
    assert one_line(RuntimeError("a\n" * 1000)) == "a " * 200 + " ..."
    assert one_line(RuntimeError()) == "RuntimeError"


def test_another_error_of_the_system_is_a_fault_of_ours():
    with pytest.raises(PermissionError, match="denied"):
        run_command(raising(PermissionError(errno.EACCES, "Permission denied", "runs")), [])


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's device that is always full")
@pytest.mark.parametrize("num_lines", [1, 100_000])
def test_a_full_disk_below_stdout_is_said_once(num_lines: int):
    source = (
        "import sys; from pipeline.base.errors import run_command; "
        f"sys.exit(run_command(lambda _: print('line\\n' * {num_lines}) or 0, []))"
    )
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-c", source], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("error: cannot write a file: No space left on device\n\nhint: delete files")
    assert done.stderr.count("\n") == 3


@pytest.mark.parametrize("debug", [False, True])
def test_which_kernels_run_is_said_for_debug_alone(
    debug: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(kernels.build, "library", lambda: object())
    kernels.compiled.cache_clear()
    caplog.set_level(logging.INFO, logger="infocal")  # as it was, after the test
    caplog.handler.setLevel(logging.NOTSET)
    try:
        assert run_command(lambda given: int(not kernels.compiled()), ["--debug"] if debug else []) == 0
    finally:
        kernels.compiled.cache_clear()
    assert ["run in C++" in record.getMessage() for record in caplog.records] == [True] * debug

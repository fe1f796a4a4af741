"""One signal stops cleanly, a second one at once; shown on real processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pipeline.base import interruption
from pipeline.base.interruption import handled

ROOT = Path(interruption.__file__).parents[2]
SLOW_IMPORT = """
import sys, time

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            print("loading", flush=True)
            time.sleep(60)

sys.meta_path.insert(0, Slow())
"""
HEARS_INTERRUPTS = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore it
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
SCRIPT = """
import signal, subprocess, sys, time, weakref
from pipeline.base import interruption
from pipeline.base.errors import run_command

class Thing:
    pass

def wait(gone=None):
    print("ready", flush=True)
    time.sleep(60)

def command(arguments):
    if "library" in arguments:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
        interruption.renew()
    try:
        try:
            if "unraisable" in arguments:
                thing = Thing()
                watch = weakref.ref(thing, wait)
                del thing
                time.sleep(60)
            wait()
        except KeyboardInterrupt:  # as Ray does it
            raise KeyboardInterrupt from None
    finally:
        if "slow" in arguments:
            if "child" in arguments:
                print(subprocess.Popen(["sleep", "60"]).pid, flush=True)
            with interruption.resumed_by(lambda: "to resume: a command"):
                print("cleaning", flush=True)
                time.sleep(60)
        print("cleaning", flush=True)
        if "careful" in arguments:
            for _ in range(25):
                try:
                    raise ValueError
                except ValueError:
                    time.sleep(0.05)
                time.sleep(0.05)
            print("cleaned", flush=True)
    return 0

sys.exit(run_command(command, sys.argv[1:]))
"""


def process(*arguments: str) -> "subprocess.Popen[str]":
    pipe = subprocess.PIPE
    started = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments], cwd=ROOT, stdout=pipe, stderr=pipe, text=True
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "ready\n"
    return started


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.parametrize("arguments", [(), ("library",)], ids=["alone", "beside a library's handler"])
def test_the_first_signal_stops_cleanly(number: int, code: int, arguments: tuple[str, ...]):
    with process(*arguments) as one:
        one.send_signal(number)
        out, err = one.communicate(timeout=60)
    assert (one.returncode, out) == (code, "cleaning\n")
    assert err == "\nstopping ... (press Ctrl-C again to stop at once)\nerror: interrupted\n"


def test_an_interrupt_that_python_drops_is_raised_again():
    with process("unraisable") as one:
        one.send_signal(signal.SIGTERM)
        out, err = one.communicate(timeout=60)
    assert (one.returncode, out) == (143, "cleaning\n")
    assert err == "\nstopping ... (press Ctrl-C again to stop at once)\nerror: interrupted\n"


def test_no_timer_runs_unless_an_interrupt_was_dropped():
    source = """
import os, signal
from pipeline.base import interruption

with interruption.handled():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError
    except KeyboardInterrupt:
        print(signal.getitimer(signal.ITIMER_REAL))
"""
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "(0.0, 0.0)\n"


def test_an_interrupt_that_is_dropped_twice_is_raised_a_third_time():
    source = """
import os, signal, sys, time
from pipeline.base import interruption
from pipeline.base.errors import run_command

class Thing:
    def __init__(self, signalled):
        self.signalled = signalled

    def __del__(self):
        if self.signalled:
            os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

def command(arguments):
    Thing(True)
    Thing(False)  # the interrupt that is raised again is dropped, too
    time.sleep(60)

sys.exit(run_command(command, []))
"""
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=False, timeout=50
    )
    assert done.returncode == 143
    assert done.stderr == "\nstopping ... (press Ctrl-C again to stop at once)\nerror: interrupted\n"


def test_another_error_that_python_drops_is_said():
    source = """
from pipeline.base import interruption

class Thing:
    def __del__(self):
        raise ValueError("dropped")

with interruption.handled():
    Thing()
"""
    done = subprocess.run(
        [sys.executable, "-c", source], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "Exception ignored in" in done.stderr and "ValueError: dropped" in done.stderr


def test_nothing_is_raised_again_while_a_command_cleans_up():
    with process("careful") as one:
        one.send_signal(signal.SIGINT)
        out, err = one.communicate(timeout=60)
    assert (one.returncode, out) == (130, "cleaning\ncleaned\n")
    assert err == "\nstopping ... (press Ctrl-C again to stop at once)\nerror: interrupted\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_signal_stops_at_once(number: int, code: int):
    with process("slow") as one:
        one.send_signal(number)
        assert one.stdout is not None
        assert one.stdout.readline() == "cleaning\n"
        time.sleep(2 * interruption.SAME_S)
        one.send_signal(number)
        _, err = one.communicate(timeout=30)
    assert one.returncode == code
    assert err.endswith("\nto resume: a command\nstopped at once\n")


def test_signals_in_one_breath_are_one():
    """As of `timeout`, which signals a process and then its group."""
    with process("careful") as one:
        one.send_signal(signal.SIGTERM)
        one.send_signal(signal.SIGTERM)
        out, err = one.communicate(timeout=60)
    assert (one.returncode, out) == (143, "cleaning\ncleaned\n")
    assert "stopped at once" not in err


def test_the_second_signal_ends_what_was_started_too():
    with process("slow", "child") as one:
        one.send_signal(signal.SIGINT)
        assert one.stdout is not None
        child = psutil.Process(int(one.stdout.readline()))
        assert one.stdout.readline() == "cleaning\n"
        time.sleep(2 * interruption.SAME_S)
        one.send_signal(signal.SIGINT)
        one.communicate(timeout=30)
    _, alive = psutil.wait_procs([child], 10)
    assert not alive


def test_handlers_are_given_back():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    with pytest.raises(KeyboardInterrupt, match="^$"), handled():
        os.kill(os.getpid(), signal.SIGTERM)
    assert interruption.exit_code() == 143
    assert [signal.getsignal(number) for number in numbers] == before
    interruption.renew()
    assert [signal.getsignal(number) for number in numbers] == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


@pytest.mark.parametrize(
    ("command", "loading"),
    [
        ("pipeline.search", "pipeline.cli"),
        ("pipeline.explain", "pipeline.cli.text_input"),
        ("feature_store", "feature_store.command_line"),
        ("benchmarks", "benchmarks.timing"),
    ],
)
def test_an_interrupt_while_the_modules_are_loaded_prints_no_traceback(
    tmp_path: Path, command: str, loading: str
):
    (tmp_path / "sitecustomize.py").write_text(SLOW_IMPORT.format(name=loading))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])}
    process = subprocess.Popen(
        [sys.executable, "-c", HEARS_INTERRUPTS, "-m", command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None and process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert said == "error: interrupted\n"
    assert process.returncode == -signal.SIGINT, "a shell calls it 130"

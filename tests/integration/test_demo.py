"""`pipeline.demo` as a process of its own: its link, its answers, its end."""

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.integration.commands import ENVIRONMENT, run
from tests.small_store import NAME, new_store, registered, small_package


def started(folder: Path, *flags: str) -> tuple["subprocess.Popen[str]", str]:
    """The command, and the link that it prints."""
    command = [sys.executable, "-m", "pipeline.demo", *flags]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, text=True, env=ENVIRONMENT, cwd=folder, **pipes)
    assert process.stdout is not None
    link = process.stdout.readline().strip()
    if not link.startswith("http://"):
        raise AssertionError(f"no link, but {link!r}: {process.communicate()[1]}")
    return process, link


def posted(address: str, body: object) -> dict[str, object]:
    request = urllib.request.Request(
        address, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_a_registered_model_is_shown_until_ctrl_c_and_the_command_ends_quietly(tmp_path: Path):
    tracker = new_store(tmp_path / "store")
    registered(tracker, small_package(tmp_path / "model"))
    uri = ["--tracking-uri", tracker.uri]
    process, link = started(tmp_path, *uri, "--model", f"models:/{NAME}@challenger")
    try:
        assert link.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(link, timeout=60) as page:
            assert f"{NAME}@challenger" in page.read().decode()
        (found,) = posted(f"{link}read", {"text": "a smooth body"})["models"]
        assert len(found["tokens"]) == 3
        other = posted(f"{link}predict", {"text": "a smooth body", "model": 0, "marks": []})
        assert other != found["predicted"]
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(link.rpartition("/d/")[0], timeout=60)
        process.send_signal(signal.SIGINT)
        out, told = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, out) == (0, "")
    assert "Traceback" not in told and "only this machine can open the link" in told
    assert told.rstrip().endswith("the server has ended")


@pytest.mark.slow
def test_a_shared_page_says_so_and_listens_for_others(tmp_path: Path):
    process, link = started(tmp_path, "--share", "--package", str(small_package(tmp_path / "model")))
    try:
        port = link.split(":")[2].partition("/")[0]
        path = link.partition(port)[2]
        with urllib.request.urlopen(f"http://127.0.0.2:{port}{path}", timeout=60) as page:
            assert page.status == 200
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert f"//{os.uname().nodename}:" in link
    assert "everyone who has the link can open the page" in told and "unencrypted" in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--model", "nothing"], "no alias `champion` of model `nothing`"),
        (
            ["--model", f"{NAME}@champion"],
            f"no alias `champion` of model `{NAME}`; the model has versions 1 ",
        ),
    ],
)
def test_a_mistake_ends_the_command_with_2_and_a_hint(tmp_path: Path, flags: list[str], message: str):
    tracker = new_store(tmp_path / "store")
    registered(tracker, small_package(tmp_path / "model"))
    done = run([sys.executable, "-m", "pipeline.demo", "--tracking-uri", tracker.uri, *flags], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and "hint: " in done.stderr and "Traceback" not in done.stderr

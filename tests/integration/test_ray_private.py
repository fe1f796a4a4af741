"""What is used of Ray beside its public interface: each is there, and each is still needed."""

import importlib
import inspect
import os
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from pipeline.study import ray_private

ROOT = Path(__file__).resolve().parents[2]
MEND = "Ray has changed: see pipeline/study/ray_private.py"
SESSION = """
import os, signal, sys
from pathlib import Path
from pipeline.base import interruption
from pipeline.study import cluster

cluster.prepare_environment()
import psutil

def is_answered():
    (line,) = (l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("SigCgt"))
    return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)

with interruption.handled():
    before = signal.getsignal(signal.SIGTERM)
    with cluster.session(None, num_cpus=1):
        commands = [" ".join(child.cmdline()) for child in psutil.Process().children(recursive=True)]
        print("processes", len(commands), sum("dashboard/dashboard.py" in one for one in commands))
        print("ours", signal.getsignal(signal.SIGTERM) is before)
        if "alone" in sys.argv:
            interruption.renew = lambda: None
    print("answered", is_answered())
"""


def session(*arguments: str) -> dict[str, str]:
    """What a process says that starts a private Ray and leaves it."""
    left_out = ("RAY_AUTH", "RAY_ADDRESS")  # a Ray of another test in this process leaves them behind
    done = subprocess.run(
        [sys.executable, "-c", SESSION, *arguments],
        cwd=ROOT,
        env={name: value for name, value in os.environ.items() if not name.startswith(left_out)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_no_api_server_is_started_and_sigterm_stays_ours():
    found = session()
    total, servers = map(int, found["processes"].split())
    assert total >= 3 and servers == 0, MEND
    assert found["ours"] == "True"
    assert found["answered"] == "True", MEND


def test_left_alone_ray_gives_sigterm_to_the_system():
    """If this fails, `ray_private.shut_down` is `ray.shutdown`."""
    assert session("alone")["answered"] == "False"


def test_ray_always_starts_an_api_server():
    """If this fails, there may be an option in place of `ray_private.without_api_server`."""
    from ray._private.node import Node

    start = inspect.getsource(Node.start_head_processes)
    assert re.search(r"^        self\.start_api_server\($", start, re.MULTILINE), MEND
    names = list(inspect.signature(Node.start_api_server).parameters)
    assert names == ["self", "include_dashboard", "raise_on_failure"], MEND
    with ray_private.without_api_server():
        node: Any = type("Node", (), {})()
        Node.start_api_server(node, include_dashboard=False, raise_on_failure=False)
        assert node._webui_url == ""
    assert list(inspect.signature(Node.start_api_server).parameters) == names, "given back"


def test_ray_still_says_that_a_node_starts_late():
    from ray._private import node

    assert ray_private.STARTS_LATE in inspect.getsource(node), MEND


@pytest.mark.parametrize("path", ray_private.READ)
def test_private_attributes_are_there(path: str):
    module, _, name = path.rpartition(".")
    kind = getattr(importlib.import_module(module), name)
    for attribute in ray_private.READ[path]:
        assert f"self.{attribute}" in inspect.getsource(kind), f"{MEND}: {path}.{attribute}"


def test_every_private_name_of_ray_is_in_one_file():
    found = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "pipeline").rglob("*.py")
        if re.search(r"\bray\._\w+|unittest|from ray\.\S*_private", path.read_text(encoding="utf-8"))
    ]
    assert found == ["pipeline/study/ray_private.py"]


def test_ray_is_pinned_to_the_minor_version_that_was_checked():
    (checked,) = re.findall(r"Checked with Ray (\d+\.\d+\.\d+);", str(ray_private.__doc__))
    major, minor, _ = checked.split(".")
    assert metadata.version("ray") == checked
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    required = [*project["dependencies"], *project["optional-dependencies"]["cluster"]]
    bounds = [one.partition("]")[2] for one in required if one.startswith("ray[")]
    assert bounds == [f">={major}.{minor},<{major}.{int(minor) + 1}"] * 2

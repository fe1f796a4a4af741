"""A private Ray: who can reach it; and each private name of Ray that is used is there, and still needed."""

import functools
import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from pipeline.study import ray_private

ROOT = Path(__file__).resolve().parents[2]
MEND = "Ray has changed: see pipeline/study/ray_private.py"
SESSION = """
import contextlib, json, os, signal, sys, time
from pathlib import Path
from pipeline.base import interruption
from pipeline.study import cluster, ray_private

cluster.prepare_environment()
import psutil

def is_answered():
    (line,) = (l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("SigCgt"))
    return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)

def sockets(pid):
    links = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    return {link[8:-1] for link in links if link.startswith("socket:[")}

def listening(pids):
    mine = set().union(*map(sockets, pids))
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table]
    return [line[1].partition(":")[0] for line in lines if line[3] == "0A" and line[9] in mine]

def beside(parts):
    return sorted({one.name() for one in parts if os.getpgid(one.pid) == os.getpgid(0)})

if "alone" in sys.argv:
    ray_private.in_their_own_groups = contextlib.nullcontext
    del os.environ["RAY_DISABLE_FAILURE_SIGNAL_HANDLER"]

with interruption.handled():
    before = signal.getsignal(signal.SIGTERM)
    if "ahead" in sys.argv:
        with cluster.started_ahead(None):
            cluster._ahead[0].result()
            print("answered", is_answered() and signal.getsignal(signal.SIGTERM) is before)
            parts = psutil.Process().children(recursive=True)
            with contextlib.suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGTERM)
                time.sleep(20)
        print("left", psutil.wait_procs(parts, 30)[1])
        sys.exit()
    with cluster.session(None, num_cpus=1):
        import ray
        ray.get(ray.remote(lambda: 1).remote())
        ours = [psutil.Process(), *psutil.Process().children(recursive=True)]
        print("commands", json.dumps([" ".join(one.cmdline()) for one in ours[1:]]))
        print("listening", json.dumps(listening([one.pid for one in ours])))
        print("ours", signal.getsignal(signal.SIGTERM) is before)
        print("beside", json.dumps(beside(ours[1:])))
        if "alone" in sys.argv:
            interruption.renew = lambda: None
    print("answered", is_answered())
"""


LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
"""127.0.0.1, the same as an IPv6 address, and ::1, as /proc/net writes them."""


@functools.cache
def session(*arguments: str) -> dict[str, str]:
    """What a process says that starts a private Ray and leaves it."""
    # a Ray of another test in this process leaves them behind
    left_out = ("RAY_AUTH", "RAY_ADDRESS", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
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
    assert "SIGTERM received" not in done.stderr, "Ray's C++ answers no signal"
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


def test_no_api_server_is_started_and_sigterm_stays_ours():
    found = session()
    commands = json.loads(found["commands"])
    assert [one for one in commands if "gcs_server" in one], "Ray's processes are seen"
    # it would ask the cloud's own address which cloud it is in
    assert not [one for one in commands if "dashboard/dashboard.py" in one], MEND
    assert found["ours"] == "True"
    assert found["answered"] == "True", MEND
    assert json.loads(found["beside"]) == [], "a signal to the driver's group does not reach Ray"


def test_a_ray_that_is_started_ahead_leaves_sigterm_ours_and_nothing_behind():
    assert session("ahead") == {"answered": "True", "left": "[]"}


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's table of sockets")
def test_every_port_of_a_private_ray_is_on_the_loopback_device():
    listening = json.loads(session()["listening"])
    assert len(listening) >= 3, "GCS, raylet and a worker listen"
    assert set(listening) <= set(LOOPBACK)


def test_left_alone_ray_shares_its_drivers_group_and_takes_sigterm():
    """If this fails, `in_their_own_groups` or RAY_DISABLE_FAILURE_SIGNAL_HANDLER is no longer needed."""
    found = session("alone")
    assert {"gcs_server", "raylet"} <= set(json.loads(found["beside"]))
    assert found["answered"] == "False"


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


PYTHON = """
import sys
from pipeline.study import cluster

cluster.prepare_environment()
with cluster.session(None, num_cpus=1):
    import ray
    # Tune gives its workers an environment, too
    task = ray.remote(runtime_env={"env_vars": {"ANY": "1"}})(lambda: sys.executable).remote()
    print("worker", ray.get(task, timeout=120))
"""


@pytest.mark.slow
def test_workers_start_where_the_path_of_python_holds_a_blank(tmp_path: Path):
    """Ray writes that path into a line for bash: `make search` hung in a folder of such a name."""
    venv.create(tmp_path / "my é dir's" / "venv", with_pip=False)
    own = tmp_path / "my é dir's" / "venv"
    (site,) = own.glob("lib/python*/site-packages")
    (site / "all.pth").write_text("\n".join(path for path in sys.path if path.endswith("site-packages")))
    python = str(own / "bin" / "python")
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, "-c", PYTHON], capture_output=True, text=True, env=environment, timeout=300, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"worker {python}"

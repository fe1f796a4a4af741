"""A private Ray can be reached from this machine alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_SCRIPT = """
import json, os, re
from pathlib import Path
from pipeline.study import cluster

def descendants(pid):
    found = {pid}
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in task.read_text().split():
            found |= descendants(int(child))
    return found

def sockets(pid):
    links = [os.readlink(path) for path in Path(f"/proc/{pid}/fd").iterdir() if path.is_symlink()]
    return {link[8:-1] for link in links if link.startswith("socket:[")}

cluster.prepare_environment()
with cluster.session(None, num_cpus=1):
    import ray
    ray.get(ray.remote(lambda: 1).remote())
    mine = set().union(*map(sockets, descendants(os.getpid())))
    tables = [Path(f"/proc/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    lines = [line.split() for table in tables for line in table]
    listening = [line[1].partition(":")[0] for line in lines if line[3] == "0A" and line[9] in mine]
    commands = [Path(f"/proc/{one}/cmdline").read_text() for one in descendants(os.getpid())]
    print(json.dumps({"listening": listening, "commands": commands}))
"""
_LOOPBACK = ("0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000")
"""127.0.0.1, the same as an IPv6 address, and ::1, as /proc/net writes them."""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads Linux's table of sockets")
def test_every_port_of_a_private_ray_is_on_the_loopback_device():
    names = ("RAY_ADDRESS", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    listening = found["listening"]
    assert len(listening) >= 3, "GCS, raylet and a worker listen"
    assert set(listening) <= set(_LOOPBACK)
    # it would ask the cloud's own address which cloud it is in
    assert not [one for one in found["commands"] if "dashboard/dashboard.py" in one]
    assert [one for one in found["commands"] if "gcs_server" in one], "Ray's processes are seen"

"""Real servers on this machine for tests: each a process of its own on a free port, ended with its test."""

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

START_S = 240
"""Seconds that a server may take until it answers."""


def free_port() -> int:
    """A port of the loopback device on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def served(
    command: Sequence[str], answers: str, log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server while the block runs.

    Args:
        command: what starts it in the foreground.
        answers: address that answers as soon as it is ready.
        log: file that its output goes to.
        environment: all of its environment; None: ours.

    Raises:
        RuntimeError: if it ends, or does not answer in time; with the end of its output.
    """
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        try:
            _wait(process, answers, log)
            yield process
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: "subprocess.Popen[bytes]", answers: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            urllib.request.urlopen(answers, timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                tail = log.read_text(errors="replace")[-2000:]
                raise RuntimeError(f"no answer from {answers} ({error}): {tail}") from error
        time.sleep(0.1)


@dataclass(frozen=True)
class S3Server:
    """An S3-compatible server with one bucket."""

    url: str
    """Its address, as AWS_ENDPOINT_URL and MLFLOW_S3_ENDPOINT_URL take it."""
    bucket: str = "infocal"
    credentials: dict[str, str] = field(
        default_factory=lambda: {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    )

    @property
    def environment(self) -> dict[str, str]:
        """Variables that a client needs: pyarrow, boto3 and MLflow."""
        return {**self.credentials, "AWS_ENDPOINT_URL": self.url, "MLFLOW_S3_ENDPOINT_URL": self.url}

    def uri(self, path: str) -> str:
        """A path in the bucket, for a client with that environment."""
        return f"s3://{self.bucket}/{path}"

    def full_uri(self, path: str) -> str:
        """The same for a client that has the credentials only: it says where the server is."""
        return f"{self.uri(path)}?endpoint_override={self.url}"


@contextlib.contextmanager
def s3_server(
    folder: Path, bucket: str = "infocal", *, checks_credentials: bool = False
) -> Iterator[S3Server]:
    """Run moto's S3 server, which keeps everything in memory, with an empty bucket.

    Args:
        folder: where its log is written.
        bucket: name of the bucket.
        checks_credentials: refuse everybody once the bucket is made, for nobody has an account.
    """
    if importlib.util.find_spec("moto") is None:
        pytest.skip("no S3 server: moto is not installed (`pip install -e '.[cluster-test]'`)")
    port = free_port()
    server = S3Server(f"http://127.0.0.1:{port}", bucket)
    command = [sys.executable, "-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    # two requests: the one that finds the server ready, and the one that makes the bucket
    environment = {**os.environ, **({"INITIAL_NO_AUTH_ACTION_COUNT": "1"} if checks_credentials else {})}
    with served(command, f"{server.url}/moto-api/", folder / "s3.log", environment):
        # moto asks for no signature
        request = urllib.request.Request(f"{server.url}/{bucket}", method="PUT")
        urllib.request.urlopen(request, timeout=10).close()
        yield server


@contextlib.contextmanager
def ray_head(log: Path, environment: Mapping[str, str], num_cpus: int = 1) -> Iterator[str]:
    """Run a head node of Ray, whose workers have that environment; gives the cluster's address.

    Args:
        log: file that its output goes to.
        environment: all of its environment.
        num_cpus: logical cores.
    """
    address = f"127.0.0.1:{free_port()}"
    # sockets of a long temporary path would not fit their 107 bytes
    temporary = tempfile.mkdtemp(prefix="ray-", dir="/tmp")
    command = [
        *(sys.executable, "-c", "from ray.scripts.scripts import main; main()"),
        *(
            "start",
            "--block",
            "--head",
            "--node-ip-address",
            "127.0.0.1",
            "--port",
            address.rpartition(":")[2],
        ),
        *("--temp-dir", temporary, "--num-cpus", str(num_cpus), "--object-store-memory", "100000000"),
        *("--include-dashboard", "false"),
    ]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, env=environment, cwd=log.parent, start_new_session=True
        )
    try:
        deadline = time.monotonic() + START_S
        while "Ray runtime started" not in log.read_text(errors="replace"):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"no Ray at {address}: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)
        yield address
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with contextlib.suppress(ProcessLookupError):  # what did not end with it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        shutil.rmtree(temporary, ignore_errors=True)

"""What a cluster is made of, on this machine: Postgres, an MLflow server, Ray nodes."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.integration.servers import START_S, S3Server, free_port, served

_POSTGRES_FOLDERS = Path("/usr/lib/postgresql")
"""Where Debian and Ubuntu install the server's programs, by version."""
_USER = "infocal"


def _postgres_program(name: str) -> str:
    found = shutil.which(name)
    installed = sorted(_POSTGRES_FOLDERS.glob(f"*/bin/{name}"))
    if found is None and not installed:
        pytest.skip(f"no Postgres server: `{name}` is not installed (apt-get install postgresql)")
    return found or str(installed[-1])


def _as_postgres() -> list[str]:
    """Postgres refuses to run as root: then it runs as the user that Debian's package makes."""
    return [] if os.geteuid() else ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"]


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Run a Postgres server with two empty databases, `mlflow` and `optuna`, while the block runs.

    Yields:
        Its URL without the name of a database: `postgresql://USER@127.0.0.1:PORT`.
    """
    initdb, server, isready = (_postgres_program(name) for name in ("initdb", "postgres", "pg_isready"))
    # not pytest's folder, which belongs to one user alone
    folder = Path(tempfile.mkdtemp(prefix="infocal-postgres-"))
    if not os.geteuid():
        os.chown(folder, pwd.getpwnam("postgres").pw_uid, -1)
    port = free_port()
    data = str(folder / "data")
    try:
        # the encoding of a bare machine's locale is SQL_ASCII, which psycopg takes no text from
        made = [initdb, "-D", data, "-U", _USER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8"]
        subprocess.run([*_as_postgres(), *made], check=True, capture_output=True, cwd=folder)
        command = [server, "-D", data, "-p", str(port), "-h", "127.0.0.1", "-k", str(folder)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([*_as_postgres(), *command], stdout=log, stderr=log, cwd=folder)
        try:
            _until(lambda: _is_ready(isready, port), process, folder / "log")
            for name in ("mlflow", "optuna"):
                createdb = [_postgres_program("createdb"), "-h", "127.0.0.1", "-p", str(port), "-U", _USER]
                subprocess.run([*createdb, name], check=True, capture_output=True)
            yield f"postgresql://{_USER}@127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGINT)  # fast shutdown: does not wait for clients
            process.wait(30)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _is_ready(isready: str, port: int) -> bool:
    asked = [isready, "-q", "-h", "127.0.0.1", "-p", str(port)]
    return subprocess.run(asked, check=False).returncode == 0


def _until(is_ready: Callable[[], bool], process: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + START_S
    while not is_ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"it never became ready: {log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)


@contextlib.contextmanager
def mlflow_server(folder: Path, database: str, s3: S3Server) -> Iterator[str]:
    """Run an MLflow server that keeps runs in a database and artifacts, which pass through it, in a bucket.

    Yields:
        Its address.
    """
    port = free_port()
    command = [
        *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)),
        *("--workers", "1", "--backend-store-uri", database),
        *("--artifacts-destination", s3.uri("mlflow"), "--serve-artifacts"),
    ]
    environment = os.environ | s3.environment | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    address = f"http://127.0.0.1:{port}"
    with served(command, f"{address}/health", folder / "mlflow.log", environment):
        yield address


@dataclass(frozen=True)
class RayNode:
    """A node of a cluster: `ray start --block` and every process below it."""

    process: "subprocess.Popen[bytes]"
    log: Path

    def processes(self) -> list[psutil.Process]:
        """The node's processes, the trials' workers among them."""
        root = psutil.Process(self.process.pid)
        return [root, *root.children(recursive=True)]

    def kill(self) -> None:
        """End it as a machine that loses its power: every process at once, without a word."""
        found = self.processes()
        for one in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        self.process.wait()
        psutil.wait_procs(found, timeout=10)

    def stop(self) -> None:
        """End it in order."""
        if self.process.poll() is None:
            found = self.processes()
            self.process.terminate()
            _, alive = psutil.wait_procs(found, timeout=15)
            for one in alive:
                one.kill()
            self.process.wait()


@contextlib.contextmanager
def ray_node(folder: Path, arguments: list[str], environment: Mapping[str, str]) -> Iterator[RayNode]:
    """Run a Ray node with a working folder of its own while the block runs.

    Args:
        folder: its working folder.
        arguments: of `ray start`, besides what keeps it in the foreground.
        environment: all of its environment.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "ray.log"
    command = [
        *(str(Path(sys.executable).with_name("ray")), "start", "--block", "--disable-usage-stats"),
        *("--node-ip-address=127.0.0.1", *arguments),
    ]
    for tries_left in (2, 1, 0):
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=dict(environment),
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        node = RayNode(process, log)
        try:
            _until(lambda: "Ray runtime started" in log.read_text(errors="replace"), process, log)
            break
        except RuntimeError:  # on a busy machine it ends by itself after 30 s
            node.stop()
            if not tries_left:
                raise
    try:
        yield node
    finally:
        node.stop()


def keys(s3: S3Server, prefix: str) -> list[str]:
    """Names of the objects in the bucket that start with `prefix`."""
    import boto3

    names = {"AWS_ACCESS_KEY_ID": "aws_access_key_id", "AWS_SECRET_ACCESS_KEY": "aws_secret_access_key"}
    given = {names[key]: value for key, value in s3.credentials.items() if key in names}
    client = boto3.client("s3", endpoint_url=s3.url, region_name="us-east-1", **given)
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=s3.bucket, Prefix=prefix)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]

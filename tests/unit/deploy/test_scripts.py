"""deploy/join-cluster, deploy/prepare_stores.py and what deploy/try-compose refuses."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"


def run(*command: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return subprocess.run(
        [str(word) for word in command],
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


# ---------------------------------------------------------------------------------------- join-cluster


@pytest.fixture
def ray(tmp_path: Path) -> dict[str, str]:
    """Where `ray` notes its arguments, and fails: once where a head is slow, always where down."""
    program = tmp_path / "ray"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/given\n'
        'case "$*" in *down:*) echo "no head answers" >&2; exit 1;; esac\n'
        f'case "$*" in *slow:*) [ "$(wc -l < {tmp_path}/given)" = 2 ];; esac\n'
    )
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}


def test_a_search_joins_without_cores_and_ends_as_its_command_ends(ray: dict[str, str], tmp_path: Path):
    done = run(DEPLOY / "join-cluster", "sh", "-c", "echo ran; exit 7", RAY_ADDRESS="head:6379", **ray)
    assert (done.returncode, done.stdout, done.stderr) == (7, "ran\n", "")
    (line,) = (tmp_path / "given").read_text().splitlines()
    given = line.split()
    assert given[0] == "start" and {"--address=head:6379", "--num-cpus=0", "--num-gpus=0"} <= set(given)


def test_joining_is_tried_again(ray: dict[str, str], tmp_path: Path):
    done = run(DEPLOY / "join-cluster", "echo", "ran", RAY_ADDRESS="slow:6379", **ray)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ran\n", "")
    assert len((tmp_path / "given").read_text().splitlines()) == 2


def test_a_cluster_that_does_not_answer_is_named(ray: dict[str, str]):
    done = run(DEPLOY / "join-cluster", "echo", "ran", RAY_ADDRESS="down:6379", **ray)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: cannot join the Ray cluster at down:6379:\nno head answers\n"


def test_a_missing_address_is_refused(ray: dict[str, str]):
    done = run(DEPLOY / "join-cluster", "echo", "ran", **ray)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: RAY_ADDRESS is not set")


# -------------------------------------------------------------------------------------- prepare_stores


@pytest.fixture(scope="module")
def prepare_stores() -> Any:
    spec = importlib.util.spec_from_file_location("prepare_stores", DEPLOY / "prepare_stores.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class FakeStore:
    """boto3's client, with one bucket of somebody else's."""

    def __init__(self) -> None:
        self.buckets = ["other"]

    def list_buckets(self) -> dict[str, Any]:
        return {"Buckets": [{"Name": name} for name in self.buckets]}

    def create_bucket(self, **given: str) -> None:
        self.buckets.append(given["Bucket"])


def test_a_bucket_is_made_once(prepare_stores: Any):
    store = FakeStore()
    assert [prepare_stores.prepare_bucket(store, "infocal") for _ in range(2)] == [True, False]
    assert store.buckets == ["other", "infocal"]


class FakeConnection:
    """psycopg's connection to a server with one database."""

    def __init__(self) -> None:
        self.databases = ["mlflow"]
        self.found: tuple[int] | None = None

    def execute(self, query: str, parameters: list[str] | None = None) -> "FakeConnection":
        if parameters:
            self.found = (1,) if parameters[0] in self.databases else None
        else:
            self.databases.append(query.removeprefix("CREATE DATABASE "))
        return self

    def fetchone(self) -> tuple[int] | None:
        return self.found


def test_a_database_is_made_where_it_is_missing(prepare_stores: Any):
    server = FakeConnection()
    assert prepare_stores.prepare_database(server, "mlflow") is False
    assert prepare_stores.prepare_database(server, 'odd " name') is True
    assert server.databases == ["mlflow", '"odd "" name"']


def test_how_it_is_called():
    done = run(sys.executable, DEPLOY / "prepare_stores.py")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "usage: prepare-stores BUCKET DATABASE\n"


# ----------------------------------------------------------------------------------------- try-compose


@pytest.mark.parametrize("script", ["try-compose", "join-cluster", "podman/postgres-entrypoint"])
def test_a_script_can_be_run(script: str):
    path = DEPLOY / script
    assert path.stat().st_mode & 0o111
    shell = path.read_text(encoding="utf-8").splitlines()[0].split("/")[-1].split()[-1]
    assert run(shell, "-n", path).stderr == ""


def test_try_compose_says_what_it_lacks():
    done = run(DEPLOY / "try-compose", COMPOSE="/nowhere/docker-compose")
    assert (done.returncode, done.stdout) == (2, "")
    if os.geteuid() == 0:
        assert done.stderr.splitlines() == [
            "error: /nowhere/docker-compose is not Docker Compose",
            "hint: `make setup` installs one into .venv; COMPOSE=PATH names another",
        ]
    else:
        assert done.stderr.startswith("error: deploy/try-compose must run as root")

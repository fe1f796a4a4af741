"""One environment for every test: one thread, no telemetry, no foreign cluster; where real data lies."""

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.integration.servers import S3Server, s3_server
from tests.quick import pytest_addoption, pytest_configure
from tests.scheduling import pytest_xdist_make_scheduler

if TYPE_CHECKING:
    from tests.integration.studies import Compared, Searched

__all__ = ["pytest_addoption", "pytest_configure", "pytest_xdist_make_scheduler"]  # hooks of pytest

# Read when torch, numpy, ray and mlflow are first imported, hence before any test module.
# One thread per process: the suite runs in several processes (Makefile, JOBS).
os.environ.update(
    OMP_NUM_THREADS="1",
    MKL_NUM_THREADS="1",
    OPENBLAS_NUM_THREADS="1",
    POLARS_MAX_THREADS="1",
    MPLBACKEND="agg",
    DO_NOT_TRACK="true",
    MLFLOW_DISABLE_TELEMETRY="true",
    MLFLOW_HTTP_REQUEST_MAX_RETRIES="2",  # a client whose server is down retries for minutes otherwise
    RAY_USAGE_STATS_ENABLED="0",
    RAY_AUTH_MODE="disabled",  # unset, ray writes a token into the home folder and warns
    TUNE_GLOBAL_CHECKPOINT_S="1",  # tests kill and resume studies that last seconds
    TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S="0",
)
SERVERS = (
    "MLFLOW_TRACKING_URI",
    "MLFLOW_REGISTRY_URI",
    "RAY_ADDRESS",
    "AWS_ENDPOINT_URL",
    "AWS_ENDPOINT_URL_S3",
)
for name in SERVERS:  # nobody's server, nobody's cluster
    os.environ.pop(name, None)

# A killed process loses nothing of what it wrote, only a power failure does, and no test has one. Thousands
# of files wait for the disk otherwise.
os.fsync = lambda descriptor: None

# The machine is shared, so time says nothing; and what is red for one must be red for all.
hypothesis.settings.register_profile("house", deadline=None, derandomize=True)
hypothesis.settings.load_profile("house")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def no_server_is_left() -> Iterator[None]:
    """A test that leaves the address of a server lets later tests fail, as `mlflow.set_tracking_uri` does."""
    before = {name: os.environ.get(name) for name in SERVERS}
    yield
    after = {name: os.environ.get(name) for name in SERVERS}
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    assert after == before, "use monkeypatch.setenv instead"


class _Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_error(401)

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is said."""


@pytest.fixture
def refusing_server() -> Iterator[str]:
    """The address of a server that lets nobody in."""
    with HTTPServer(("127.0.0.1", 0), _Refusing) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the official corpora: INFOCAL_DATA, else ../shared/data beside the checkout."""
    stated = os.environ.get("INFOCAL_DATA")
    folder = Path(stated) if stated else ROOT.parent / "shared" / "data"
    if not (folder / "beer").is_dir():
        pytest.skip(f"no real data: {folder} has no folder `beer`; set INFOCAL_DATA to run this test")
    return folder


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3-compatible server with an empty bucket; skipped where moto is not installed."""
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


# Imported where they are used: the check of tensor shapes must be on before `infocal` is imported.


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory) -> "Searched":
    """A finished search with a registered challenger."""
    from tests.integration import studies

    return studies.search(tmp_path_factory.mktemp("search"))


@pytest.fixture(scope="session")
def promoted(searched: "Searched") -> "Searched":
    """The same search, after its challenger became the champion."""
    from tests.integration import studies

    return studies.promote_winner(searched)


@pytest.fixture(scope="session")
def compared(searched: "Searched", tmp_path_factory: pytest.TempPathFactory) -> "Compared":
    """A finished comparison with the features of that search, in a store of its own."""
    from tests.integration import studies

    return studies.compare(tmp_path_factory.mktemp("compare"), searched.cache)

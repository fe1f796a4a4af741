"""MLflow goes away in mid-search and comes back: its server, its database, its disk."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faulting.command import ROOT, Command, Unexpected
from benchmarks.faulting.disk import NoDisk, small_disk
from benchmarks.faulting.driver import Searches
from benchmarks.faulting.evidence import Expected, Place, count_study
from benchmarks.faulting.frame import Bench, Counts
from benchmarks.server import free_port
from pipeline.base.errors import PipelineError
from pipeline.base.reach import check_tracking

_EPOCHS = 8
"""Long enough that a search goes on while MLflow is away and after."""
FLAGS = ("--epochs", str(_EPOCHS))
EXPECTED = Expected(trials=3, epochs=_EPOCHS)
_READY_S = 240.0
_DISK = 64 * 2**20
_AWAY_S = (5.0, 20.0)
"""Seconds that MLflow is away; at most as long as the training takes, or it is the end of the search."""
_SHORT_AWAY_S = (5.0, 6.0)
"""The same in the short form."""


@dataclass(slots=True)
class MlflowServer:
    """`mlflow server` on a port that it keeps."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: "subprocess.Popen[bytes] | None" = None

    @property
    def uri(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def database(self) -> Path:
        """Where it keeps everything."""
        return self.folder / "mlflow.db"

    def start(self) -> None:
        """Start it and wait until it answers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{self.database}"]
        command += ["--artifacts-destination", str(self.folder / "artifacts"), "--serve-artifacts"]
        variables = {
            "PYTHONPATH": str(ROOT),
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
            # the server starts `uvicorn` by its name
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=os.environ | variables,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _READY_S
        while True:
            try:
                return check_tracking(self.uri)
            except PipelineError as error:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise Unexpected(f"no MLflow server: {error}") from error
            time.sleep(0.2)

    def signal(self, number: int) -> None:
        """Send a signal to all its processes."""
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, number)

    def stop(self) -> None:
        """End it."""
        self.signal(signal.SIGTERM)
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(20)
            self.signal(signal.SIGKILL)
            self.process.wait()


@contextlib.contextmanager
def _server(folder: Path) -> Iterator[MlflowServer]:
    server = MlflowServer(folder)
    server.start()
    try:
        yield server
    finally:
        server.signal(signal.SIGCONT)
        server.stop()


def _waited(bench: Bench) -> None:
    time.sleep(bench.random.uniform(*(_SHORT_AWAY_S if bench.is_short else _AWAY_S)))


def at_some_epoch(search: Command, bench: Bench) -> None:
    """Wait for a moment in the first half of the training.

    Raises:
        Unexpected: if the search ends before.
    """
    number = bench.random.randrange(0, _EPOCHS * EXPECTED.trials // 2)
    if not search.wait_for_epochs(number + 1):
        raise Unexpected(f"it ended before epoch {number + 1}:\n{search.tail()}")
    time.sleep(bench.random.random())


def _completed(searches: Searches, search: Command, place: Place, *more: str) -> None:
    """Wait for a search, and do what it says is left to do."""
    code = search.finish()
    if code or "pipeline.sync" in search.said():
        sync = ["-m", "pipeline.sync", "--storage", str(place.runs), "--name", place.name]
        log = search.log.with_suffix(".sync.log")
        synced = Command(
            [*sync, *(more if "--tracking-uri" in more else ())], log, searches.bench.folder / "tmp"
        )
        done = synced.finish()
        searches.counts.add("trials_lost", int(done != 0), f"sync: exit code {done}\n{synced.tail()}")
    if code:
        searches.complete(place, more=more)


def _with_server(bench: Bench, away: Callable[[MlflowServer, Command], None]) -> Counts:
    """Searches that track to a server that something befalls."""
    counts = Counts()
    searches = Searches(bench, counts)
    with _server(bench.folder / "server") as server:
        for number in range(bench.times):
            place = Place(bench.folder / "runs", f"away-{number:02d}", server.database, server.uri)
            flags = ("--tracking-uri", server.uri)
            search = searches.start(place, *FLAGS, *flags)
            at_some_epoch(search, bench)
            away(server, search)
            counts.injected += 1
            _completed(searches, search, place, *flags)
            count_study(counts, place, EXPECTED, bench.reference)
    searches.close()
    return counts


def stopped(bench: Bench) -> Counts:
    """The server does not answer for a while."""

    def away(server: MlflowServer, search: Command) -> None:
        server.signal(signal.SIGSTOP)
        _waited(bench)
        server.signal(signal.SIGCONT)

    return _with_server(bench, away)


def restarted(bench: Bench) -> Counts:
    """The server is ended, and started again on the same port."""

    def away(server: MlflowServer, search: Command) -> None:
        server.stop()
        _waited(bench)
        server.start()

    return _with_server(bench, away)


def gone(bench: Bench) -> Counts:
    """The server is ended and comes back when the search is over."""

    def away(server: MlflowServer, search: Command) -> None:
        server.stop()
        search.finish()
        server.start()

    return _with_server(bench, away)


def locked(bench: Bench) -> Counts:
    """Another process holds the SQLite file for longer than MLflow waits for it."""

    def away(place: Place) -> None:
        connection = sqlite3.connect(place.tracked, timeout=60, isolation_level=None)
        with contextlib.closing(connection):
            connection.execute("BEGIN EXCLUSIVE")
            time.sleep(bench.random.uniform(10.0, 30.0))
            connection.execute("ROLLBACK")

    counts = Counts()
    searches = Searches(bench, counts)
    for number in range(bench.times):
        place = Place(bench.folder / "runs", f"locked-{number:02d}")
        search = searches.start(place, *FLAGS)
        at_some_epoch(search, bench)
        away(place)
        counts.injected += 1
        _completed(searches, search, place)
        count_study(counts, place, EXPECTED, bench.reference)
    searches.close()
    return counts


def full(bench: Bench) -> Counts:
    """The disk of MLflow's database and artifacts fills, and has room again after a while."""
    counts = Counts()
    searches = Searches(bench, counts)
    try:
        for number in range(bench.times):
            with small_disk(bench.folder / f"disk-{number}", _DISK) as disk:
                database = disk.folder / "mlflow.db"
                place = Place(bench.folder / "runs", f"full-{number:02d}", database)
                flags = ("--tracking-uri", f"sqlite:///{database}")
                search = searches.start(place, *FLAGS, *flags)
                at_some_epoch(search, bench)
                filler = disk.fill()
                _waited(bench)
                filler.unlink()
                counts.injected += 1
                _completed(searches, search, place, *flags)
                count_study(counts, place, EXPECTED, bench.reference)
    except NoDisk as error:
        counts.impossible = str(error)
    searches.close()
    return counts


def shared(bench: Bench) -> Counts:
    """Two searches at once, from the first moment, on one SQLite file that is not there yet."""
    counts = Counts()
    searches = Searches(bench, counts)
    for number in range(bench.times):
        runs = bench.folder / f"runs-{number}"
        places = [Place(runs, f"shared-{which}") for which in "ab"]
        started = [searches.start(place, *FLAGS) for place in places]
        counts.injected += 1
        for search in started:
            code = search.finish()
            counts.add("trials_lost", int(code != 0), f"exit code {code}:\n{search.tail()}")
        for place in places:
            count_study(counts, place, EXPECTED, bench.reference)
    searches.close()
    return counts

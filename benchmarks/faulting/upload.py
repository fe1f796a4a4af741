"""An upload to an object store that is broken off: the object is the old or the new one, whole."""

import hashlib
import importlib.util
import os
import signal
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

from benchmarks.faulting.command import Command, Unexpected
from benchmarks.faulting.frame import Bench, Counts
from pipeline.base.storage import Location, Storage

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
_BYTES = 64 * 2**20
_START_S = 60.0
_TRIES, _FASTER = 6, 0.6
"""How often a moment may come after the end of the upload, and how much earlier the next one is then."""
_BUCKET = "faults"
_UPLOAD = """
import sys
from pathlib import Path
from pipeline.base.errors import run_command
from pipeline.base.storage import Storage

def main(given):
    print("uploading", flush=True)
    Storage(given[0]).opened().upload(Path(given[1]))
    return 0

sys.exit(run_command(main))
"""


def broken_off(bench: Bench) -> Counts:
    """Ctrl-C, SIGTERM and kill -9, in turn, at a random moment of an upload over an object of that name."""
    counts = Counts()
    if importlib.util.find_spec("moto") is None:
        counts.impossible = "no S3 server: moto is not installed"
        return counts
    server, address = _server(bench)
    try:
        before, after = (
            _file(bench.folder / name, letter) for name, letter in (("old", b"o"), ("new", b"n"))
        )
        place = Storage(f"s3://{_BUCKET}/object?endpoint_override={address}").opened()
        took = _whole(bench, place, after, address)
        for number in range(3 * bench.times):
            how = _SIGNALS[number % len(_SIGNALS)]
            for _ in range(_TRIES):
                place.upload(before)
                upload = _upload(bench, place, after, address, number)
                _wait(upload)
                time.sleep(bench.random.uniform(0, took))
                is_injected = upload.process.poll() is None
                if is_injected:
                    os.killpg(upload.process.pid, how)
                    counts.injected += 1
                upload.finish()
                _check(counts, place, (before, after), how)
                if is_injected:
                    break
                took *= _FASTER  # the machine is less busy than it was
    finally:
        server.kill()
    return counts


def _check(counts: Counts, place: Location, files: tuple[Path, Path], how: signal.Signals) -> None:
    found = hashlib.sha256(place.read()).hexdigest()
    whole = {hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    counts.add("metrics_lost", int(found not in whole), f"a torn object after {how.name}")
    folder = Location(place.filesystem, _BUCKET, _BUCKET)
    from pyarrow.fs import FileSelector

    left = [
        info for info in folder.filesystem.get_file_info(FileSelector(_BUCKET)) if info.path != place.path
    ]
    # who is killed cannot remove what it was writing
    counts.add("zombies", 0 if how is signal.SIGKILL else len(left), f"left over after {how.name}: {left}")
    for info in left:
        folder.filesystem.delete_file(info.path)


def _file(path: Path, letter: bytes) -> Path:
    path.write_bytes(letter * _BYTES)
    return path


def _upload(bench: Bench, place: Location, source: Path, address: str, number: int) -> Command:
    log = bench.folder / f"upload-{number:03d}.log"
    return Command(["-c", _UPLOAD, place.uri, str(source)], log, bench.folder / "tmp", _environment(address))


def _wait(upload: Command) -> None:
    while "uploading" not in upload.said():
        if upload.process.poll() is not None:
            raise Unexpected(f"no upload was begun:\n{upload.tail()}")
        time.sleep(0.01)


def _whole(bench: Bench, place: Location, source: Path, address: str) -> float:
    """Seconds of an upload that nothing befalls."""
    upload = _upload(bench, place, source, address, 999)
    _wait(upload)
    began = upload.seconds()
    if upload.finish():
        raise Unexpected(f"nothing can be uploaded:\n{upload.tail()}")
    return upload.seconds() - began


def _environment(address: str) -> dict[str, str]:
    return {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
    }


def _server(bench: Bench) -> tuple[Command, str]:
    """An S3 server of moto's with a bucket, and its address; this process can use it, too."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    os.environ.update(_environment(address))
    arguments = ["-m", "moto.server", "--host", "127.0.0.1", "--port", str(port)]
    server = Command(arguments, bench.folder / "s3.log", bench.folder / "tmp")
    deadline = time.monotonic() + _START_S
    while True:
        try:
            request = urllib.request.Request(f"{address}/{_BUCKET}", method="PUT")
            urllib.request.urlopen(request, timeout=10).close()
            return server, address
        except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
            if server.process.poll() is not None or time.monotonic() > deadline:
                raise Unexpected(f"no S3 server: {error}\n{server.tail()}") from error
            time.sleep(0.1)

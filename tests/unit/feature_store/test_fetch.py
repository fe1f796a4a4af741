"""Downloads from a server of our own: whole files only, once, and clear words when there is none."""

import gzip
import hashlib
import http.server
import io
import logging
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from feature_store.errors import FetchError
from feature_store.fetch import fetch
from feature_store.sources.base import RemoteFile
from feature_store.sources.beer import Beer


def zipped(**files: bytes) -> bytes:
    """A zip archive with a folder of its own name, as the official one of CAIL2018 has."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, content in files.items():
            archive.writestr(f"all/data/{name}.json", content)
        archive.writestr("all/readme", b"not wanted")
    return packed.getvalue()


MEMBERS = ("data/train.json", "data/test.json")
FILES = {
    "/all.zip": zipped(train=b"{}\n" * 500, test=b"{}\n"),
    "/bad.zip": b"no archive",
    "/a.txt.gz": gzip.compress(b"line\n" * 2000),
    "/b.json": b'{"x": 1}\n',
    "/cut.txt.gz": gzip.compress(b"line\n" * 2000)[:-20],
}


class Server(http.server.BaseHTTPRequestHandler):
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        if self.path not in FILES:
            self.send_error(404, "no such file")
            return
        content = FILES[self.path]
        self.send_response(200)
        short = self.path == "/b.json" and "short" in self.server.flags  # type: ignore[attr-defined]
        self.send_header("Content-Length", str(len(content) + (100 if short else 0)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[http.server.HTTPServer]:
    Server.asked = []
    made = http.server.HTTPServer(("127.0.0.1", 0), Server)
    made.flags = set()  # type: ignore[attr-defined]
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


class Source(Beer):
    name = "toy"

    def __init__(self, *files: RemoteFile) -> None:
        self.remote_files = files  # type: ignore[misc]


def remote(server: http.server.HTTPServer | None, name: str, **changes: Any) -> RemoteFile:
    port = 9 if server is None else server.server_address[1]  # nothing listens on port 9
    return RemoteFile(name=name, url=f"http://127.0.0.1:{port}/{name}", **changes)


def names(data_dir: Path) -> list[str]:
    return sorted(path.name for path in (data_dir / "toy").iterdir())


def test_files_are_fetched_once(server: http.server.HTTPServer, tmp_path: Path):
    sha = hashlib.sha256(FILES["/a.txt.gz"]).hexdigest()
    source = Source(remote(server, "a.txt.gz", sha256=sha), remote(server, "b.json"))
    for _ in range(2):
        paths = fetch(source, None, tmp_path)
        assert [path.name for path in paths] == ["a.txt.gz", "b.json"]
    assert Server.asked == ["/a.txt.gz", "/b.json"]
    assert names(tmp_path) == ["a.txt.gz", "b.json"]
    assert (tmp_path / "toy" / "a.txt.gz").read_bytes() == FILES["/a.txt.gz"]


def test_the_digest_of_a_file_without_a_known_one_is_said(
    server: http.server.HTTPServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.INFO, logger="feature_store")
    fetch(Source(remote(server, "b.json")), None, tmp_path)
    assert (
        f"no official digest is known; sha256 {hashlib.sha256(FILES['/b.json']).hexdigest()}" in caplog.text
    )


def test_a_plain_file_stands_for_its_gz(server: http.server.HTTPServer, tmp_path: Path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "a.txt").write_text("line\n")
    assert fetch(Source(remote(server, "a.txt.gz")), None, tmp_path) == [tmp_path / "toy" / "a.txt"]
    assert Server.asked == []


def test_another_aspects_files_are_left(server: http.server.HTTPServer, tmp_path: Path):
    source = Source(remote(server, "a.txt.gz", aspect="smell"), remote(server, "b.json"))
    assert [path.name for path in fetch(source, "palate", tmp_path)] == ["b.json"]


def test_another_digest_is_refused(server: http.server.HTTPServer, tmp_path: Path):
    with pytest.raises(FetchError, match=r"could not download `b.json`: SHA256 hash of downloaded file"):
        fetch(Source(remote(server, "b.json", sha256="0" * 64)), None, tmp_path)
    assert names(tmp_path) == []


def test_a_local_file_that_is_not_official_is_named_and_kept(server: http.server.HTTPServer, tmp_path: Path):
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "b.json").write_text("mine")
    with pytest.raises(
        FetchError, match="b.json: this is not the official file, whose sha256 starts with 000000000000"
    ):
        fetch(Source(remote(server, "b.json", sha256="0" * 64)), None, tmp_path)
    assert (tmp_path / "toy" / "b.json").read_text() == "mine"


@pytest.mark.parametrize("name", ["cut.txt.gz", "b.json"])
def test_a_partial_file_is_never_used(server: http.server.HTTPServer, tmp_path: Path, name: str):
    server.flags.add("short")  # type: ignore[attr-defined]
    with pytest.raises(FetchError, match=f"could not download `{name}`"):
        fetch(Source(remote(server, name)), None, tmp_path)
    assert names(tmp_path) == []


def test_a_file_that_the_server_lacks(server: http.server.HTTPServer, tmp_path: Path):
    source = Source(remote(server, "gone.json"), remote(server, "b.json"))
    with pytest.raises(FetchError, match="could not download `gone.json`: 404 Client Error") as caught:
        fetch(source, None, tmp_path)
    url = source.remote_files[0].url
    assert caught.value.hint == (
        f"place these files by hand, then build with `--data-dir {tmp_path}`:"
        f"\n  {tmp_path / 'toy' / 'gone.json'}  from {url}"
    )
    assert names(tmp_path) == ["b.json"]  # what could be had is there


def test_an_optional_file_may_be_missing(
    server: http.server.HTTPServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    source = Source(remote(server, "gone.json", optional=True), remote(server, "b.json"))
    assert [path.name for path in fetch(source, None, tmp_path)] == ["b.json"]
    assert "gone.json: not fetched (404 Client Error" in caplog.text


def test_a_server_that_cannot_be_reached_is_asked_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, logger="feature_store")
    source = Source(remote(None, "a.txt.gz"), remote(None, "b.json"))
    with pytest.raises(
        FetchError, match=r"could not download `a.txt.gz`, `b.json`: 127.0.0.1:9 cannot be reached"
    ):
        fetch(source, None, tmp_path)
    assert caplog.text.count("fetching http://127.0.0.1:9/") == 1


def packed(*members: tuple[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", kind) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return sink.getvalue()


@pytest.mark.parametrize("name", ["bomb.zip", "bomb.txt.gz"])
def test_a_bomb_is_refused_before_it_fills_the_disk(
    server: http.server.HTTPServer, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    content = bytes(5 * 2**20)
    monkeypatch.setitem(FILES, "/bomb.zip", packed((MEMBERS[0], content)))
    monkeypatch.setitem(FILES, "/bomb.txt.gz", gzip.compress(content))
    members = MEMBERS[:1] if name.endswith("zip") else ()
    source = Source(remote(server, name, members=members))
    with pytest.raises(
        FetchError, match="expected at most 1048576 bytes after decompression, but there are more"
    ):
        fetch(source, None, tmp_path, max_bytes=2**20)
    assert names(tmp_path) == []


def test_a_member_that_points_outside_is_not_unpacked(
    server: http.server.HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    link = zipfile.ZipInfo("data/test.json")
    link.external_attr = 0o120777 << 16
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("../../escaped", b"x")
        archive.writestr("data/train.json", b"{}")
        archive.writestr(link, b"/etc/passwd")
    monkeypatch.setitem(FILES, "/links.zip", sink.getvalue())
    goal = tmp_path / "a" / "b"
    _, test = fetch(Source(remote(server, "links.zip", members=MEMBERS)), None, goal)
    assert not test.is_symlink()
    assert test.read_bytes() == b"/etc/passwd"  # where it points, not what is there
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["train.json", "test.json"]


def _with_password(content: bytes) -> bytes:
    at = content.index(b"PK\x01\x02")
    return content[:6] + b"\x01" + content[7 : at + 8] + b"\x01" + content[at + 9 :]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (_with_password, "File 'data/train.json' is encrypted"),
        (
            lambda content: content.replace(
                b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x08\x00", b"PK\x01\x02\x14\x03\x14\x00\x00\x00\x63\x00"
            ),
            "compression",
        ),
    ],
    ids=["password", "method"],
)
def test_an_archive_that_cannot_be_unpacked_is_named(
    server: http.server.HTTPServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[bytes], bytes],
    reason: str,
):
    monkeypatch.setitem(FILES, "/odd.zip", change(packed((MEMBERS[0], b"{}" * 99))))
    with pytest.raises(FetchError, match=f"{tmp_path}: could not download `odd.zip`: .*{reason}"):
        fetch(Source(remote(server, "odd.zip", members=MEMBERS[:1])), None, tmp_path)


def test_lzma_that_is_none_is_named(
    server: http.server.HTTPServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    content = bytearray(packed((MEMBERS[0], bytes(range(256)) * 9), kind=zipfile.ZIP_LZMA))
    content[60:90] = bytes(30)
    monkeypatch.setitem(FILES, "/lzma.zip", bytes(content))
    with pytest.raises(FetchError, match="could not download `lzma.zip`: "):
        fetch(Source(remote(server, "lzma.zip", members=MEMBERS[:1])), None, tmp_path)


def test_the_official_list_of_beer():
    files = {file.name: file for file in Beer.remote_files}
    assert [name for name, file in files.items() if not file.optional] == [
        "reviews.aspect0.heldout.txt.gz",
        "reviews.aspect1.heldout.txt.gz",
        "reviews.aspect2.heldout.txt.gz",
        "annotations.json",
    ]
    assert files["reviews.aspect2.train.txt.gz"].aspect == "palate"
    assert all(file.url == f"http://people.csail.mit.edu/taolei/beer/{name}" for name, file in files.items())
    assert all(len(file.sha256) == 64 for name, file in files.items() if "heldout" in name and file.sha256)


def test_the_wanted_files_of_an_archive_are_unpacked_once(server: http.server.HTTPServer, tmp_path: Path):
    source = Source(remote(server, "all.zip", folder="shared", members=MEMBERS))
    for _ in range(2):
        paths = fetch(source, None, tmp_path)
        assert [str(path.relative_to(tmp_path / "shared")) for path in paths] == list(MEMBERS)
    assert Server.asked == ["/all.zip"]
    assert paths[0].read_bytes() == b"{}\n" * 500
    kept = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert kept == ["shared/data/test.json", "shared/data/train.json"]


@pytest.mark.parametrize(
    ("name", "members", "reason"),
    [
        ("bad.zip", MEMBERS, "File is not a zip file"),
        ("all.zip", (*MEMBERS, "data/valid.json"), "the archive has no `data/valid.json`"),
    ],
)
def test_an_archive_without_what_is_wanted(
    server: http.server.HTTPServer, tmp_path: Path, name: str, members: tuple[str, ...], reason: str
):
    source = Source(remote(server, name, folder="shared", members=members))
    with pytest.raises(FetchError, match=f"could not download `{name}`: {reason}") as caught:
        fetch(source, None, tmp_path)
    assert f"{tmp_path / 'shared' / 'data/train.json'}  from http" in str(caught.value.hint)
    assert not list(tmp_path.rglob("*.json"))
    assert not list(tmp_path.rglob(".fetching-*"))

"""A file system behind a URI: what is written is whole, what is wrong is one clear line."""

import hashlib
import io
import time
from pathlib import Path

import pytest
from pyarrow.fs import FileSelector

from pipeline.base import storage
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Location, Storage
from pipeline.base.uris import without_password
from tests.integration.servers import S3Server, free_port, s3_server


@pytest.fixture(params=["folder", "file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Location:
    """An empty place of each kind."""
    if request.param == "folder":
        return Storage(str(tmp_path / "place")).opened()
    if request.param == "file":
        return Storage((tmp_path / "place").as_uri()).opened()
    s3: S3Server = request.getfixturevalue("s3")
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return Storage(s3.uri(f"unit/{tmp_path.name}")).opened()


# --------------------------------------------------------------------------------------------- files


def test_what_is_written_is_read_back_and_removed(place: Location):
    assert not (place / "a").exists() and place.names() == []
    (place / "a" / "one.txt").write(b"first")
    (place / "a" / "one.txt").write(b"second")
    assert (place / "a" / "one.txt").read() == b"second"
    assert place.names() == ["a"] and (place / "a").names() == ["one.txt"], "no staged file is left"
    assert abs((place / "a" / "one.txt").modified() - time.time()) < 60
    (place / "a").remove()
    (place / "a").remove()
    assert not (place / "a").exists()
    assert (place / "a" / "one.txt").modified() == 0


def test_a_file_goes_there_and_back_with_its_digest(place: Location, tmp_path: Path):
    content = bytes(range(256)) * 40_000  # more than one block
    (tmp_path / "big").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    assert (place / "big").upload(tmp_path / "big") == digest
    assert (place / "big").download(tmp_path / "new" / "big") == digest
    assert (tmp_path / "new" / "big").read_bytes() == content


def test_only_what_is_asked_for_comes_to_this_machine(place: Location):
    for name in ("best/scores.json", "best/deep/a", "state.pt"):
        (place / name).write(name.encode())
    with place.localised("best", "none") as folder:
        assert (folder / "best/scores.json").read_bytes() == b"best/scores.json"
        assert (folder / "best/deep/a").read_bytes() == b"best/deep/a"
        assert (folder / "state.pt").exists() is place.is_local, "a local folder is used where it is"
    assert folder.exists() is place.is_local


@pytest.mark.parametrize("num_bytes", [2, 12 << 20], ids=["in one part", "in several parts"])
def test_what_is_cut_off_is_not_under_its_name(place: Location, num_bytes: int):
    for name in ("a", "new"):
        if name == "a":
            (place / name).write(b"whole")
        with pytest.raises(KeyboardInterrupt), (place / name)._replacing() as stream:
            stream.write(b"x" * num_bytes)
            raise KeyboardInterrupt
    assert (place / "a").read() == b"whole"
    assert place.names() == ["a"]
    hidden = place.filesystem.get_file_info(FileSelector(place.path))
    assert [info.base_name for info in hidden] == ["a"], "nothing half written is left"


class Breaking(io.BytesIO):
    """What is written to an object store: committed when it is closed, whatever happened before."""

    def __init__(self, store: "Store", path: str) -> None:
        super().__init__()
        self.store, self.path = store, path

    def write(self, content: bytes) -> int:
        super().write(content)
        if len(self.getvalue()) > self.store.room:
            raise OSError("When uploading part: AWS Error NETWORK_CONNECTION")
        return len(content)

    def close(self) -> None:
        self.store.objects[self.path] = self.getvalue()
        super().close()


class Store:
    """An object store that breaks in the middle of a write, or where it copies."""

    type_name = "s3"

    def __init__(self, room: int, copies: bool = True) -> None:
        self.room, self.copies = room, copies
        self.objects: dict[str, bytes] = {"bucket/a": b"good"}

    def open_output_stream(self, path: str) -> Breaking:
        return Breaking(self, path)

    def copy_file(self, source: str, target: str) -> None:
        if not self.copies:
            raise OSError("When copying key: HTTP status 403")
        self.objects[target] = self.objects[source]

    def delete_file(self, path: str) -> None:
        del self.objects[path]


@pytest.mark.parametrize("store", [Store(room=10), Store(room=10**9, copies=False)])
def test_a_store_that_breaks_keeps_its_good_object(store: Store, tmp_path: Path):
    (tmp_path / "big").write_bytes(b"n" * (20 << 20))
    target = Location(store, "bucket/a", "s3://bucket/a")
    with pytest.raises(PipelineError, match="it cannot be reached|access is refused"):
        target.upload(tmp_path / "big")
    assert store.objects == {"bucket/a": b"good"}


def test_a_source_that_cannot_be_read_replaces_nothing(tmp_path: Path):
    store = Store(room=10**9)
    with pytest.raises(FileNotFoundError, match="none"):
        Location(store, "bucket/a", "s3://bucket/a").upload(tmp_path / "none")
    assert store.objects == {"bucket/a": b"good"}


def test_what_is_too_large_to_be_copied_leaves_nothing_torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(storage, "_MAX_COPY", 10)
    (tmp_path / "big").write_bytes(b"n" * 20)
    whole, broken = Store(room=10**9, copies=False), Store(room=10)
    Location(whole, "bucket/new", "s3://bucket/new").upload(tmp_path / "big")
    assert whole.objects == {"bucket/a": b"good", "bucket/new": b"n" * 20}
    with pytest.raises(PipelineError, match="it cannot be reached"):
        Location(broken, "bucket/new", "s3://bucket/new").upload(tmp_path / "big")
    assert broken.objects == {"bucket/a": b"good"}


def test_a_missing_file_is_named(place: Location):
    with pytest.raises(PipelineError, match=r"/none\S*: there is no such file"):
        (place / "none").read()


# ---------------------------------------------------------------------------------------------- names


def test_a_child_keeps_what_the_uri_asks_for(s3: S3Server, monkeypatch: pytest.MonkeyPatch):
    for name, value in s3.credentials.items():
        monkeypatch.setenv(name, value)
    place = Storage(s3.full_uri("team/")).opened() / "studies" / "first"
    assert place.uri == f"s3://infocal/team/studies/first?endpoint_override={s3.url}"
    assert place.path == "infocal/team/studies/first"
    assert place.portable == place.uri, "it says already where the server is"


def test_a_portable_uri_says_where_the_server_is(s3: S3Server, monkeypatch: pytest.MonkeyPatch):
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    place = Storage(s3.uri("portable")).opened()
    place.write(b"here")
    portable = place.portable
    monkeypatch.delenv("AWS_ENDPOINT_URL")
    assert Storage(portable).opened().read() == b"here", "on a machine whose environment names no server"
    assert place.uri == s3.uri("portable")


@pytest.mark.parametrize(
    ("given", "is_remote"),
    [
        ("runs", False),
        ("/data/runs", False),
        ("a:b//c", False),
        ("s3://bucket/x", True),
        ("gs://bucket", True),
        ("file:///data", True),
    ],
)
def test_a_uri_has_a_scheme(given: str, is_remote: bool):
    assert Storage(given).is_remote is is_remote


def test_a_command_that_writes_locally_refuses_a_uri():
    with pytest.raises(PipelineError, match="expected a folder on this machine, but got `s3://bucket/x`"):
        _ = Storage("s3://bucket/x").folder


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://ada:secret@host:5432/db", "postgresql://ada:***@host:5432/db"),
        ("http://:p%40ss@host/", "http://:***@host/"),
        ("postgresql://ada@host/db", "postgresql://ada@host/db"),
        ("mysql://host/db?passwd=secret;sslPassword=other", "mysql://host/db?passwd=***;sslPassword=***"),
        ("--name=x", "--name=x"),
        (
            "postgresql://host/db?user=ada&password=secret&x=1",
            "postgresql://host/db?user=ada&password=***&x=1",
        ),
        ("http://[broken", "http://[broken"),
    ],
)
def test_a_password_is_not_shown(text: str, shown: str):
    assert without_password(text) == shown


# ------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        ("ftp://host/x", "ftp://host/x: expected a URI that pyarrow opens", "s3://BUCKET/PREFIX"),
        ("s3:///x", "expected a URI with a bucket, but got `s3:///x`", "s3://BUCKET/PREFIX"),
        ("s3://", "expected a URI with a bucket, but got `s3://`", "s3://BUCKET/PREFIX"),
        ("s3:/b/x", "expected a folder or a URI, but got `s3:/b/x`", "did you mean `s3://b/x`?"),
        ("file:/tmp/x", "expected a folder or a URI", "did you mean `file:///tmp/x`?"),
        ("s3://b/x?colour=red", "expected a URI that pyarrow opens .Unexpected query", "s3://BUCKET/PREFIX"),
        ("s3://k:hush@b/x", "without a password or key, .* got one in `s3://k:\\*\\*\\*@b/x`", "AWS_ACCESS"),
        ("s3://b/x?secret_key=hush", "without a password or key, .* got one in `s3://b/x`", "AWS_ACCESS"),
        ("abfs://c@a/x?sas_token=hush", "without a password or key, .* one in `abfs://c@a/x`", "AWS_ACCESS"),
    ],
)
def test_a_uri_that_cannot_be_used_is_refused(given: str, message: str, hint: str):
    with pytest.raises(PipelineError, match=message) as caught:
        Storage(given).opened()
    assert hint in str(caught.value.hint)
    assert "hush" not in str(caught.value)


def test_a_missing_bucket_is_named(s3: S3Server, monkeypatch: pytest.MonkeyPatch):
    for name, value in s3.credentials.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PipelineError, match="--storage s3://nobody/x.*: there is no bucket `nobody`"):
        Storage(f"s3://nobody/x?endpoint_override={s3.url}").opened().check()


def test_a_server_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    uri = f"s3://bucket/x?endpoint_override=http://127.0.0.1:{free_port()}"
    with pytest.raises(PipelineError, match=r"it cannot be reached .*NETWORK_CONNECTION") as caught:
        Storage(uri).opened().check()
    assert "AWS_ENDPOINT_URL" in str(caught.value.hint)


def test_unknown_credentials_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with s3_server(tmp_path, checks_credentials=True) as strict:
        for name, value in strict.credentials.items():
            monkeypatch.setenv(name, value)
        with pytest.raises(PipelineError, match="access is refused") as caught:
            Storage(strict.full_uri("x")).opened().check()
    assert "credentials" in str(caught.value.hint)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path):
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match=f"--storage {tmp_path.as_uri()}/file/x.*Not a directory"):
        Storage(f"{tmp_path.as_uri()}/file/x").opened().check()


def test_a_place_where_results_can_be_written_is_left_as_it_was(place: Location):
    place.check()
    assert place.names() == []

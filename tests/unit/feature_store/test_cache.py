"""Files are whole or not there; damage is found; locks are waited for; digests are remembered."""

import json
import logging
import multiprocessing
import os
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feature_store import cache
from feature_store.errors import CacheError, DamagedCacheError
from feature_store.fingerprint import file_digest, folder_digest

OLD = time.time() - 3600


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """A finished folder with one table and its manifest."""
    goal = tmp_path / "built"
    with cache.staging(goal) as stage:
        cache.write_table(stage / "t.arrow", pa.table({"x": list(range(1000))}))
        manifest = cache.Manifest(
            fingerprint="f", files=cache.describe_files(stage, ["t.arrow"]), meta={"n": 1}
        )
        cache.write_manifest(stage / cache.MANIFEST, manifest)
    return goal


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_staging_publishes_everything_at_once(tmp_path: Path):
    goal = tmp_path / "deep" / "goal"
    with cache.staging(goal) as stage:
        (stage / "a").write_text("1")
        assert not goal.exists()
        assert stage.parent == goal.parent  # a rename is atomic within a file system only
    assert (goal / "a").read_text() == "1"
    assert names(goal.parent) == ["goal"]


@pytest.mark.parametrize("error", [ValueError("broken row"), KeyboardInterrupt()])
def test_staging_leaves_nothing_after_an_error(tmp_path: Path, error: BaseException):
    with pytest.raises(type(error)), cache.staging(tmp_path / "goal") as stage:
        (stage / "a").write_text("1")
        raise error
    assert names(tmp_path) == []


def test_staging_keeps_the_old_folder_after_an_error(tmp_path: Path):
    (tmp_path / "goal").mkdir()
    (tmp_path / "goal" / "old").write_text("1")
    with pytest.raises(ValueError, match="broken row"), cache.staging(tmp_path / "goal"):
        raise ValueError("broken row")
    assert names(tmp_path / "goal") == ["old"]


def test_staging_replaces_the_old_folder(tmp_path: Path):
    (tmp_path / "goal").mkdir()
    (tmp_path / "goal" / "old").write_text("1")
    with cache.staging(tmp_path / "goal") as stage:
        (stage / "new").write_text("2")
    assert names(tmp_path) == ["goal"]
    assert names(tmp_path / "goal") == ["new"]


def test_staging_removes_what_a_killed_process_left(tmp_path: Path):
    (tmp_path / ".goal.staging-dead").mkdir()
    (tmp_path / ".goal.staging-dead" / "half").write_text("1")
    (tmp_path / ".other.staging-dead").mkdir()
    with cache.staging(tmp_path / "goal"):
        pass
    assert names(tmp_path) == [".other.staging-dead", "goal"]


def test_staging_names_a_folder_that_cannot_be_written(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(
            CacheError, match="file: cannot write to the cache: (Not a directory|File exists)"
        ) as caught,
        cache.staging(tmp_path / "file" / "goal"),
    ):
        pass
    assert caught.value.hint == "name another folder with `--cache-dir`"


def test_everything_is_flushed_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    events: list[str] = []
    replace = os.replace
    monkeypatch.setattr(
        cache, "_fsync", lambda path: events.append(f"fsync {Path(path).name.split('.stag')[0]}")
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append(f"rename {Path(b).name}"), replace(a, b)))
    with cache.staging(tmp_path / "goal") as stage:
        (stage / "a").write_text("1")
    assert events == ["fsync a", "fsync .goal", "rename goal", f"fsync {tmp_path.name}"]


def test_text_is_written_atomically(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    cache.write_text(tmp_path / "f", "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        cache.write_text(tmp_path / "f", "new")
    assert (tmp_path / "f").read_text() == "old"
    assert names(tmp_path) == ["f"]


def test_manifest_round_trip(built: Path):
    manifest = cache.read_manifest(built / cache.MANIFEST)
    assert manifest.fingerprint == "f"
    assert manifest.meta == {"n": 1}
    assert manifest.files["t.arrow"] == {
        "size": (built / "t.arrow").stat().st_size,
        "sha256": file_digest(built / "t.arrow"),
    }
    cache.verify_files(built, manifest)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "manifest.json: no manifest"),
        ("", "the manifest cannot be read"),
        ("{", "the manifest cannot be read"),
        ("[]", "the manifest cannot be read"),
        ('{"fingerprint": "f", "files": {"t.arrow": {}}}', "the manifest cannot be read .*size"),
        ('{"fingerprint": "f", "files": 3}', "the manifest cannot be read"),
        ('{"fingerprint": "f", "files": {}, "format": 0}', "expected format 1, but got 0"),
        ('{"fingerprint": "f", "files": {}, "format": 1}', "the manifest differs from its own sha256"),
        ("[" * 100_000, "the manifest cannot be read"),
        ('{"fingerprint": "f", "files": {"t.arrow": {"size": 1e999}}}', "the manifest cannot be read"),
    ],
)
def test_a_damaged_manifest_is_named(built: Path, text: str | None, message: str):
    path = built / cache.MANIFEST
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(DamagedCacheError, match=message):
        cache.read_manifest(path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"u.arrow": {"size": 1}}, "u.arrow: the file is missing"),
        ({"t.arrow": {"size": 1}}, r"t.arrow: expected 1 bytes, but got \d+"),
        ({"../t.arrow": {"size": 1}}, r"the manifest names `../t.arrow`, which is outside the folder"),
    ],
)
def test_a_manifest_of_other_files_is_named(built: Path, files: dict[str, object], message: str):
    cache.write_manifest(built / cache.MANIFEST, cache.Manifest(fingerprint="f", files=files))
    with pytest.raises(DamagedCacheError, match=message):
        cache.read_manifest(built / cache.MANIFEST)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_no_flipped_bit_of_a_manifest_is_read(built: Path, data: st.DataObject):
    """It has no digest in another file, so it carries its own; blanks between its values may differ."""
    path = built / cache.MANIFEST
    content = path.read_bytes()
    expected = cache.read_manifest(path)
    position = data.draw(st.integers(0, len(content) - 1))
    changed = bytearray(content)
    changed[position] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(changed)
    try:
        assert cache.read_manifest(path) == expected
    except DamagedCacheError:
        pass
    finally:
        path.write_bytes(content)


def test_a_manifest_that_cannot_be_opened_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DamagedCacheError, match="the manifest cannot be read .*Not a directory"):
        cache.read_manifest(tmp_path / "file" / cache.MANIFEST)


def test_a_file_that_a_disk_cannot_give_back_is_named(built: Path, monkeypatch: pytest.MonkeyPatch):
    def failing(path: Path) -> str:
        raise OSError(5, "Input/output error", str(path))

    manifest = cache.read_manifest(built / cache.MANIFEST)
    monkeypatch.setattr(cache, "file_digest", failing)
    with pytest.raises(DamagedCacheError, match="t.arrow: cannot be read: Input/output error"):
        cache.verify_files(built, manifest)


def test_a_flipped_bit_is_found_by_verify_alone(built: Path):
    flip(built / "t.arrow", 2000)
    manifest = cache.read_manifest(built / cache.MANIFEST)
    cache.open_table(built / "t.arrow")
    with pytest.raises(
        DamagedCacheError, match="t.arrow: the content differs from its sha256 in the manifest"
    ):
        cache.verify_files(built, manifest)


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", ["footer", "cut", "empty", "text"])
def test_a_broken_arrow_file_is_found_when_it_is_opened(built: Path, damage: str):
    path = built / "t.arrow"
    content = path.read_bytes()
    broken = {
        "footer": content[:-40] + b"\xff" * 40,
        "cut": content[: len(content) // 2],
        "empty": b"",
        "text": b"x" * len(content),
    }
    path.write_bytes(broken[damage])
    with pytest.raises(DamagedCacheError, match="t.arrow: not a readable Arrow file"):
        cache.open_table(path)


def test_opening_copies_nothing(built: Path):
    before = pa.total_allocated_bytes()
    table = cache.open_table(built / "t.arrow")
    assert table["x"].to_pylist() == list(range(1000))
    assert pa.total_allocated_bytes() - before < 1000  # the column alone has 8000 bytes


@settings(max_examples=30)
@given(st.lists(st.lists(st.text(max_size=4), max_size=4) | st.none(), max_size=6))
def test_table_round_trip(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str] | None]):
    path = tmp_path_factory.mktemp("round") / "t.arrow"
    table = pa.table({"rows": pa.array(rows, pa.list_(pa.string()))})
    cache.write_table(path, table)
    assert cache.open_table(path).equals(table)


def test_a_lock_is_waited_for_and_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, logger="feature_store")
    order: list[str] = []
    held, release = threading.Event(), threading.Event()

    def first() -> None:
        with cache.locked(tmp_path, "entry"):
            held.set()
            release.wait(10)
            order.append("first")

    def second() -> None:
        with cache.locked(tmp_path, "entry"):
            order.append("second")

    threads = [threading.Thread(target=first), threading.Thread(target=second)]
    threads[0].start()
    assert held.wait(10)
    threads[1].start()
    deadline = time.monotonic() + 10
    while "waiting for it" not in caplog.text and time.monotonic() < deadline:
        time.sleep(0.01)
    release.set()
    for thread in threads:
        thread.join(10)
    assert order == ["first", "second"]
    assert "another process is building entry: waiting for it" in caplog.text


def test_a_lock_is_let_go_after_an_error(tmp_path: Path):
    with pytest.raises(ValueError, match="stop"), cache.locked(tmp_path, "entry"):
        raise ValueError("stop")
    with cache.locked(tmp_path, "entry"):
        assert (tmp_path / "locks" / "entry.lock").exists()


def test_a_lock_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(CacheError, match=r"entry.lock: cannot make a lock file"),
        cache.locked(tmp_path / "file", "entry"),
    ):
        pass


def _hold_and_die(folder: Path) -> None:
    with cache.locked(folder, "entry"):
        os._exit(9)


def test_the_lock_of_a_killed_process_is_free(tmp_path: Path):
    process = multiprocessing.get_context("spawn").Process(target=_hold_and_die, args=(tmp_path,))
    process.start()
    process.join(30)
    assert process.exitcode == 9
    with cache.locked(tmp_path, "entry"):
        pass


@pytest.fixture
def raw(tmp_path: Path) -> Path:
    path = tmp_path / "raw.txt"
    path.write_text("one")
    os.utime(path, (OLD, OLD))
    return path


def _count_hashing(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    hashed: list[Path] = []
    monkeypatch.setattr(cache, "file_digest", lambda path: (hashed.append(path), file_digest(path))[1])
    return hashed


def test_a_digest_is_computed_once(tmp_path: Path, raw: Path, monkeypatch: pytest.MonkeyPatch):
    hashed = _count_hashing(monkeypatch)
    digests = {cache.DigestBook(tmp_path / "digests.json").digest(raw) for _ in range(3)}
    assert digests == {file_digest(raw)}
    assert hashed == [raw]


def test_a_changed_file_is_hashed_again(tmp_path: Path, raw: Path):
    book = tmp_path / "digests.json"
    before = cache.DigestBook(book).digest(raw)
    raw.write_text("two")  # of the same size
    os.utime(raw, (OLD + 5, OLD + 5))
    assert cache.DigestBook(book).digest(raw) == file_digest(raw) != before


def test_a_file_of_this_moment_is_not_remembered(tmp_path: Path, raw: Path, monkeypatch: pytest.MonkeyPatch):
    hashed = _count_hashing(monkeypatch)
    os.utime(raw)
    for _ in range(2):
        cache.DigestBook(tmp_path / "digests.json").digest(raw)
    assert len(hashed) == 2


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[1, 2]", '{"PATH": 3}', '{"PATH": {"stamp": [3, 0], "sha256": "x"}}', "[" * 100_000),
        '{"PATH": {"stamp": [3, STAMP], "sha256": "not a digest"}}',
    ],
)
def test_a_spoilt_book_is_no_harm(tmp_path: Path, raw: Path, text: str):
    book = tmp_path / "digests.json"
    book.write_text(text.replace("PATH", str(raw)).replace("STAMP", str(raw.stat().st_mtime_ns)))
    assert cache.DigestBook(book).digest(raw) == file_digest(raw)
    assert str(raw) in json.loads(book.read_text())


def test_a_book_that_cannot_be_written_is_a_warning(
    tmp_path: Path, raw: Path, caplog: pytest.LogCaptureFixture
):
    (tmp_path / "file").write_text("")
    assert cache.DigestBook(tmp_path / "file" / "digests.json").digest(raw) == file_digest(raw)
    assert "the SHA-256 of files cannot be stored" in caplog.text


@pytest.fixture
def raw_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    for name in ("a", "sub/b"):
        path = folder / name
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(name)
        os.utime(path, (OLD, OLD))
    return folder


def test_a_folders_digest_is_computed_once(tmp_path: Path, raw_folder: Path, monkeypatch: pytest.MonkeyPatch):
    folders: list[Path] = []
    monkeypatch.setattr(cache, "folder_digest", lambda path: (folders.append(path), folder_digest(path))[1])
    digests = {cache.DigestBook(tmp_path / "digests.json").digest(raw_folder) for _ in range(3)}
    assert digests == {folder_digest(raw_folder)}
    assert folders == [raw_folder]


@pytest.mark.parametrize("change", ["content", "name", "more", "less"])
def test_a_folders_digest_follows_names_and_contents(tmp_path: Path, raw_folder: Path, change: str):
    book = tmp_path / "digests.json"
    before = cache.DigestBook(book).digest(raw_folder)
    file = raw_folder / "sub" / "b"
    if change == "content":
        file.write_text("other")
    elif change == "name":
        file.rename(raw_folder / "sub" / "c")
    elif change == "more":
        (raw_folder / "c").write_text("")
    else:
        file.unlink()
    assert cache.DigestBook(book).digest(raw_folder) == folder_digest(raw_folder) != before


def test_an_empty_folder_has_a_digest(tmp_path: Path):
    (tmp_path / "docs").mkdir()
    assert cache.DigestBook(tmp_path / "digests.json").digest(tmp_path / "docs")

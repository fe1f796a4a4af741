"""Texts cut into words by processes: in order, bounded, kept, and clear words when something breaks."""

import multiprocessing
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from feature_store import cache, segmentation
from feature_store.errors import FeatureStoreError, RequestError
from feature_store.sample_cail import make_case
from feature_store.segmentation import TextFile, segment, word_lengths
from feature_store.segmenter import DictionaryWord, Segmenter

RNG = random.Random(7)
TEXTS = [make_case(RNG)["fact"] for _ in range(400)]
PLAIN = [[len(word) for word in Segmenter(fast=False).cut(text)] for text in TEXTS]


def text_file(texts: list[str] | None = None, digest: str = "d" * 64) -> TextFile:
    found = TEXTS if texts is None else texts
    return TextFile(name="f.json", digest=digest, texts=lambda: found, num_texts=len(found))


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segmentation, "_CHUNK_CHARACTERS", 2000)


def one_by_one(chunks: Iterator[tuple[object, object]]) -> list[list[int]]:
    rows: list[list[int]] = []
    for counts, lengths in chunks:
        numbers = iter(lengths)  # type: ignore[call-overload]
        rows += [[next(numbers) for _ in range(count)] for count in counts]  # type: ignore[attr-defined]
    return rows


@pytest.mark.parametrize("workers", [1, 2])
def test_any_number_of_processes_gives_jiebas_words_in_order(small_chunks: None, workers: int):
    assert one_by_one(segment(TEXTS, workers)) == PLAIN


def test_processes_know_the_users_words(small_chunks: None):
    words = (DictionaryWord("某在家中", 100_000),)
    found = one_by_one(segment(TEXTS, 2, words))
    assert found == one_by_one(segment(TEXTS, 1, words)) != PLAIN


def test_a_few_texts_need_no_process(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segmentation, "_in_parallel", lambda *_: pytest.fail("started processes"))
    assert one_by_one(segment(TEXTS, 8)) == PLAIN


def test_few_texts_are_read_ahead(small_chunks: None):
    read = []

    def texts() -> Iterator[str]:
        for text in TEXTS * 5:
            read.append(text)
            yield text

    chunks = segment(texts(), 2)
    next(chunks)
    ahead = sum(map(len, read))
    chunks.close()  # type: ignore[attr-defined]
    assert ahead < 2300 * (segmentation._WAITING * 2 + 1)
    assert not multiprocessing.active_children()


def test_a_process_that_dies_is_said(small_chunks: None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(segmentation, "measure_in_worker", _die)
    with pytest.raises(FeatureStoreError, match="a process that cuts texts into words died") as caught:
        list(segment(TEXTS, 2))
    assert "INFOCAL_WORKERS=1" in str(caught.value.hint)


def _die(texts: list[str]) -> None:
    import os

    os._exit(3)


def test_an_error_of_the_reader_ends_the_processes(small_chunks: None):
    def texts() -> Iterator[str]:
        yield from TEXTS
        raise RuntimeError("cut short")

    with pytest.raises(RuntimeError, match="cut short"):
        list(segment(texts(), 2))
    assert not multiprocessing.active_children()


def test_what_was_cut_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert list(word_lengths(text_file(), tmp_path)) == PLAIN
    monkeypatch.setattr(segmentation, "segment", lambda *_: pytest.fail("cut again"))
    assert list(word_lengths(text_file(), tmp_path)) == PLAIN


def test_another_content_or_dictionary_is_another_entry(tmp_path: Path):
    words = (DictionaryWord("某在家中", 100_000),)
    list(word_lengths(text_file(), tmp_path))
    list(word_lengths(text_file(digest="e" * 64), tmp_path))
    other = list(word_lengths(text_file(), tmp_path, words=words, dictionary_digest="f" * 64))
    assert other != PLAIN
    assert len(list((tmp_path / "segments").iterdir())) == 3


def test_without_a_folder_nothing_is_kept(tmp_path: Path):
    assert list(word_lengths(text_file(), None)) == PLAIN


@pytest.mark.parametrize("damage", ["short", "rows", "bit"])
def test_a_damaged_entry_is_cut_again(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture, small_chunks: None
):
    list(word_lengths(text_file(TEXTS[:-1] if damage == "rows" else TEXTS), tmp_path, num_workers=1))
    (path,) = tmp_path.rglob("lengths.arrow")
    if damage == "short":
        path.write_bytes(path.read_bytes()[:-8])
    if damage == "bit":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    assert list(word_lengths(text_file(), tmp_path, num_workers=1)) == PLAIN
    said = {
        "rows": "expected the word lengths of 400 texts of `f.json`, but got 399 texts",
        "short": "lengths.arrow: expected",
        "bit": "lengths.arrow: the content differs",
    }[damage]
    assert any(
        said in line and line.endswith("splitting the texts into words again") for line in caplog.messages
    )


def test_a_failure_leaves_nothing(tmp_path: Path):
    def texts() -> Iterator[str]:
        yield TEXTS[0]
        raise RuntimeError("cut short")

    file = TextFile(name="f.json", digest="d" * 64, texts=texts, num_texts=2)
    with pytest.raises(RuntimeError, match="cut short"):
        list(word_lengths(file, tmp_path))
    assert [path for path in tmp_path.rglob("*") if path.is_file() and path.parent.name != "locks"] == []


def test_another_process_may_have_cut_it_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    locked = cache.locked

    def late(cache_dir: Path, name: str) -> object:
        monkeypatch.setattr(cache, "locked", locked)
        list(word_lengths(text_file(), tmp_path))
        monkeypatch.setattr(segmentation, "segment", lambda *_: pytest.fail("cut again"))
        return locked(cache_dir, name)

    monkeypatch.setattr(cache, "locked", late)
    assert list(word_lengths(text_file(), tmp_path)) == PLAIN


def test_progress_is_said_in_plain_lines(
    tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(segmentation, "_REPORT_S", 0.0)
    caplog.set_level("INFO", "feature_store")
    list(word_lengths(text_file(), tmp_path, num_workers=1))
    lines = caplog.messages
    assert lines[0] == "cutting the 400 texts of f.json into words"
    assert lines[1].startswith("f.json: ") and "of 400 texts cut into words, about " in lines[1]
    assert lines[-1].startswith(f"f.json: cut {sum(map(len, TEXTS))} characters into words in ")


@pytest.mark.parametrize("given", ["0", "-1", "two", "1.5"])
def test_a_bad_number_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str):
    monkeypatch.setenv("INFOCAL_WORKERS", given)
    message = f"INFOCAL_WORKERS must be a number of processes, at least 1, but got `{given}`"
    with pytest.raises(RequestError, match=message):
        list(word_lengths(text_file(), tmp_path))


def test_the_number_of_processes(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("INFOCAL_WORKERS", raising=False)
    monkeypatch.setattr(segmentation.os, "sched_getaffinity", lambda _: set(range(5)))
    assert segmentation._workers() == 5
    monkeypatch.setenv("INFOCAL_WORKERS", "3")
    assert segmentation._workers() == 3

"""Chinese texts cut into words by several processes at once, each file of texts only once.

What is kept of a file is the length of every word, under `CACHE/segments/`, in a folder whose name holds the
digest of the file, that of the user's dictionary and the version of jieba. Aspects, recipes and stop words
change nothing in it, so all of them share it.
"""

import itertools
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pyarrow as pa

from feature_store import cache
from feature_store.errors import DamagedCacheError, FeatureStoreError, RequestError
from feature_store.fingerprint import fingerprint
from feature_store.segmenter import (
    DICTIONARY_FORMAT,
    DictionaryWord,
    Lengths,
    Segmenter,
    measure,
    measure_in_worker,
    start_worker,
)
from feature_store.wording import counted

logger = logging.getLogger("feature_store")

VERSION = 2
"""Raise it when equal texts give other words."""

ENV_WORKERS = "INFOCAL_WORKERS"
"""How many processes cut texts; all cores where it is not set."""

_TABLE = "lengths.arrow"
_SCHEMA = pa.schema([pa.field("lengths", pa.list_(pa.int32()), nullable=False)])
_CHUNK_CHARACTERS = 1 << 17
_FEW_CHUNKS = 4
"""So many chunks take less time than processes take to start."""

_WAITING = 3
"""Chunks under way for each process: what bounds the memory."""

_REPORT_S = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class TextFile:
    """The texts of one raw file."""

    name: str
    digest: str
    """SHA-256 of the raw file."""

    texts: Callable[[], Iterable[str]]
    """Reads them, in the order of the file."""

    num_texts: int


def word_lengths(
    file: TextFile,
    cache_dir: Path | None,
    *,
    words: Sequence[DictionaryWord] = (),
    dictionary_digest: str | None = None,
    num_workers: int | None = None,
) -> Iterator[list[int]]:
    """Length of each word of each text of a file; joined the words are the text.

    The texts are cut on the first call for a file and a dictionary; later calls, of any process, read what
    was kept. Equal texts give equal words, whatever the number of processes.

    Args:
        cache_dir: folder of everything that is built; None keeps nothing.
        dictionary_digest: SHA-256 of the file that they stand in.
        num_workers: processes; None takes INFOCAL_WORKERS, else as many as there are cores.

    Raises:
        RequestError: if INFOCAL_WORKERS is no number.
        CacheError: if the cache folder cannot be written to.
        FeatureStoreError: if a worker process dies.
    """
    workers = num_workers or _workers()
    if cache_dir is None:
        for chunk in segment(file.texts(), workers, words):
            yield from _list_column(chunk).to_pylist()
        return
    table = _kept_table(file, cache_dir, workers, words, dictionary_digest)
    for batch in table.to_batches():
        yield from batch.column("lengths").to_pylist()


def _kept_table(
    file: TextFile,
    cache_dir: Path,
    workers: int,
    words: Sequence[DictionaryWord],
    dictionary_digest: str | None,
) -> pa.Table:
    parameters = {"jieba": metadata.version("jieba"), "dictionary": dictionary_digest}
    if dictionary_digest is not None:
        parameters["dictionary_format"] = str(DICTIONARY_FORMAT)
    key = fingerprint("segments", VERSION, parameters, [file.digest])
    directory = cache_dir / "segments" / key[:32]
    table = _if_whole(directory, key, file)
    if table is None:
        with cache.locked(cache_dir, f"segments-{key[:32]}"):
            table = _if_whole(directory, key, file)
            if table is None:
                with cache.staging(directory) as stage:
                    _build(stage, file, words, workers)
                    files = cache.describe_files(stage, [_TABLE])
                    manifest = cache.Manifest(fingerprint=key, files=files, meta=parameters)
                    cache.write_manifest(stage / cache.MANIFEST, manifest)
                table = cache.open_table(directory / _TABLE)
    return table


def _list_column(chunk: Lengths) -> pa.ListArray:
    """Lengths as one list for each text."""
    counts, lengths = (np.asarray(numbers, np.int32) for numbers in chunk)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(cache.as_arrow(offsets), cache.as_arrow(lengths))


def _workers() -> int:
    given = os.environ.get(ENV_WORKERS)
    if not given:
        return len(os.sched_getaffinity(0))
    if not given.isdecimal() or int(given) < 1:
        raise RequestError(f"{ENV_WORKERS} must be a number of processes, at least 1, but got `{given}`")
    return int(given)


def _if_whole(directory: Path, key: str, file: TextFile) -> pa.Table | None:
    if not directory.exists():
        return None
    try:
        # every digest, for all of it is read in any case
        manifest = cache.read_manifest(directory / cache.MANIFEST)
        if manifest.fingerprint != key or _TABLE not in manifest.files:
            raise DamagedCacheError(
                f"expected word lengths with the fingerprint `{key[:16]}`, but the folder has those with "
                f"`{manifest.fingerprint[:16]}`",
                where=str(directory),
            )
        cache.verify_files(directory, manifest)
        table = cache.open_table(directory / _TABLE)
        if table.num_rows != file.num_texts:
            raise DamagedCacheError(
                f"expected the word lengths of {file.num_texts} texts of `{file.name}`, but got "
                f"{counted(table.num_rows, 'text')}",
                where=str(directory),
            )
    except DamagedCacheError as error:
        logger.warning("%s: splitting the texts into words again", error)
        return None
    return table


def _build(stage: Path, file: TextFile, words: Sequence[DictionaryWord], workers: int) -> None:
    with pa.OSFile(str(stage / _TABLE), "wb") as sink, pa.ipc.new_file(sink, _SCHEMA) as writer:
        for chunk in _followed(segment(file.texts(), workers, words), file):
            writer.write_batch(pa.RecordBatch.from_arrays([_list_column(chunk)], schema=_SCHEMA))


def segment(
    texts: Iterable[str], workers: int, words: Sequence[DictionaryWord] = (), *, fast: bool = True
) -> Iterator[Lengths]:
    """Lengths of the words of texts, a chunk at a time, in order; few texts are in memory at once.

    Args:
        workers: processes; with one, and for a few texts, this process does it.
        fast: whether to use rjieba where it can be used.

    Raises:
        FeatureStoreError: if a worker process dies.
    """
    chunks = _chunks(texts)
    head = list(itertools.islice(chunks, _FEW_CHUNKS))
    everything = itertools.chain(head, chunks)
    if workers == 1 or len(head) < _FEW_CHUNKS:
        segmenter = Segmenter(words, fast=fast)
        yield from (measure(segmenter, chunk) for chunk in everything)
    else:
        yield from _in_parallel(everything, workers, words, fast)


def _chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if size >= _CHUNK_CHARACTERS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _in_parallel(
    chunks: Iterable[list[str]], workers: int, words: Sequence[DictionaryWord], fast: bool
) -> Iterator[Lengths]:
    # spawn: a forked copy of a process with threads (pyarrow's, torch's) may wait for a lock for ever
    pool = ProcessPoolExecutor(workers, get_context("spawn"), start_worker, (words, fast))
    pending: deque[Future[Lengths]] = deque()
    try:
        for chunk in chunks:
            pending.append(pool.submit(measure_in_worker, chunk))
            if len(pending) == _WAITING * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except BrokenProcessPool as error:
        raise FeatureStoreError(
            f"a process that cuts texts into words died ({error})",
            hint=f"if memory ran out with {workers} processes, set {ENV_WORKERS}=1 to use one process; if "
            'your own script calls this, it needs `if __name__ == "__main__":` for its worker processes',
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _followed(chunks: Iterable[Lengths], file: TextFile) -> Iterator[Lengths]:
    """The chunks of a file; says how far the work is, in plain lines."""
    num_texts = num_characters = 0
    start = said = time.monotonic()
    logger.info("cutting the %s of %s into words", counted(file.num_texts, "text"), file.name)
    for chunk in chunks:
        yield chunk
        num_texts += len(chunk[0])
        num_characters += sum(chunk[1])
        now = time.monotonic()
        if now - said >= _REPORT_S:
            said = now
            left = (now - start) * (file.num_texts / num_texts - 1)
            progress = file.name, num_texts, file.num_texts, left
            logger.info("%s: %d of %d texts cut into words, about %.0f s left", *progress)
    took = time.monotonic() - start
    logger.info("%s: cut %d characters into words in %.1f s", file.name, num_characters, took)

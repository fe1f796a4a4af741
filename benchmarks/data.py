"""The data path: from raw files to features, a second open, and what padding wastes."""

import gzip
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.corpus import Corpus
from benchmarks.timing import Figure

SIZES = {"10k": None, "200k": 200_000}
"""Label -> texts of the training file; None: the corpus as it is."""
_BATCH_SIZES = (32, 64, 256)


def run(corpus: Corpus, rounds: int, work: Path) -> Iterator[Figure]:
    """Figures of the data path; needs some 600 MB in `work`."""
    yield from _padding(corpus)
    for label, num_texts in SIZES.items():
        source = corpus.data_dir
        if num_texts is not None:
            source = grown(corpus.data_dir / "beer", work / "data", num_texts)
        cache = work / f"cache-{label}"
        built = _open(source, cache)
        note = f"{built['num_texts']} training texts"
        yield Figure(f"build_s_{label}", built["seconds"], None, None, "s", f"{note}, random word vectors")
        yield Figure(f"build_peak_mb_{label}", built["peak_mb"], None, None, "MB", "of the whole process")
        opened = [_open(source, cache) for _ in range(rounds)]
        took = statistics.median(found["seconds"] for found in opened)
        added = statistics.median(found["added_mb"] for found in opened)
        yield Figure(f"warm_open_ms_{label}", 1000 * took, None, None, "ms", note)
        yield Figure(f"warm_open_mb_{label}", added, None, None, "MB", "resident memory that an open adds")


def _padding(corpus: Corpus) -> Iterator[Figure]:
    for size in _BATCH_SIZES:
        positions = tokens = 0
        for batch in corpus.loader.shuffled(size, seed=0, epoch=0):
            positions += batch.is_token.numel()
            tokens += int(batch.is_token.sum())
        name = "padding_waste_rate" if size == _BATCH_SIZES[0] else f"padding_waste_rate_b{size}"
        note = f"{corpus.label}, one epoch of batches of {size}"
        yield Figure(name, 1 - tokens / positions, None, None, "of positions", note)


def grown(folder: Path, target: Path, num_texts: int) -> Path:
    """The corpus with a training file of so many reviews: the held-out ones over and over, with new words."""
    (target / "beer").mkdir(parents=True, exist_ok=True)
    shutil.copy(folder / "annotations.json", target / "beer")
    (heldout,) = folder.glob("reviews.aspect2.heldout.txt*")
    shutil.copy(heldout, target / "beer")
    raw = heldout.read_bytes()
    lines = (gzip.decompress(raw) if heldout.suffix == ".gz" else raw).decode().splitlines()
    train = target / "beer" / "reviews.aspect2.train.txt"
    with train.open("w", encoding="utf-8") as file:
        for number in range(num_texts):  # a new word in each fourth text, for vocabularies grow too
            file.write(f"{lines[number % len(lines)]} word{number // 4}\n")
    return target


def _open(data_dir: Path, cache_dir: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.opening", str(data_dir), str(cache_dir)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found

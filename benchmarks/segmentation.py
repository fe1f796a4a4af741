"""Chinese texts cut into words: all cores against plain jieba in one process, to the same words."""

import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Figure, alternate, compare
from feature_store.segmentation import segment
from feature_store.segmenter import Segmenter, measure
from feature_store.sources import get_source

_FILE = "cail2018/final_all_data/exercise_contest/data_train.json"
_MAX_TEXTS = 5000


def run(data_dir: Path | None, rounds: int, work: Path) -> Iterator[Figure]:
    """One figure: milliseconds of both, processes' start included.

    Args:
        data_dir: folder that holds `cail2018/`; None, or one without it: the made-up cases.
        rounds: how often each is timed.
        work: where the made-up cases are written.

    Raises:
        RuntimeError: if the words differ.
    """
    label, path = "cail-small", (data_dir or work) / _FILE
    if not path.is_file():
        label = "made-up cases"
        work.mkdir(parents=True, exist_ok=True)
        get_source("cail-small").write_sample(work, seed=0)
        (path,) = work.rglob(path.name)
    with path.open(encoding="utf-8") as file:
        texts = [json.loads(line)["fact"] for line in itertools.islice(file, _MAX_TEXTS)]
    plain, cores = Segmenter(fast=False), os.cpu_count() or 1
    plain.cut("一")  # the dictionary is loaded once
    chunks = list(segment(texts, cores))
    ours = [[count for counts, _ in chunks for count in counts], [n for _, rows in chunks for n in rows]]
    if ours != [list(column) for column in measure(plain, texts)]:
        raise RuntimeError("the words are not those of plain jieba")
    seconds = alternate(
        {"ours": lambda: list(segment(texts, cores)), "jieba": lambda: measure(plain, texts)}, rounds
    )
    note = (
        f"{label}, {len(texts)} texts, {sum(map(len, texts))} characters, {cores} processes, the same words"
    )
    yield compare("segmentation_vs_jieba", seconds, "ours", "jieba", note)

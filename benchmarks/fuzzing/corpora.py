"""Readers of raw files: each builds features, or whatever its files are for, from a corpus of a few texts."""

import contextlib
import gzip
import http.server
import io
import json
import logging
import os
import tempfile
import threading
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.fuzzing.mutations import Files
from benchmarks.fuzzing.reader import OUTPUT, Make, Reader
from feature_store import embeddings, sample, sample_cail, sample_posts
from feature_store.checks import check_features
from feature_store.fetch import fetch
from feature_store.segmentation import ENV_WORKERS
from feature_store.segmenter import parse_dictionary, parse_stop_words
from feature_store.sources import cail, get_source
from feature_store.sources.base import Query, RemoteFile, Report, resolve_options
from feature_store.sources.lines import read_lines
from feature_store.store import FeatureRequest, open_features
from feature_store.vocabulary import Vocabulary
from infocal.config import InfoCalConfig
from pipeline import score, search
from pipeline.cli import planning
from search_spaces import own_space

MAX_BYTES = 4 * 2**20
"""Most bytes that the readers are told to accept of a file."""

_SIZES = {"train": 8, "val": 3, "test": 3}


def files_of(write: Callable[[Path], None], zipped: tuple[str, ...] = ()) -> Files:
    """Files that a sample's writer makes; the named ones compressed, under a name with .gz."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        paths = [path for path in sorted(Path(folder).rglob("*")) if path.is_file()]
        files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    for name in zipped:
        files[f"{name}.gz"] = gzip.compress(files.pop(name), mtime=0)
    return files


def _builds(
    dataset: str, aspect: str | None = None, options: Mapping[str, str] | None = None
) -> Callable[[Path], None]:
    """Reads a source to its end; where it takes everything, builds features and looks at each of their rows.

    A build reads the same lines through the same source: what that refuses need not be built as well.
    """
    source = get_source(dataset)
    chosen = resolve_options(source, options or {})

    def read(folder: Path) -> None:
        inputs = source.inputs(folder, aspect)
        query = Query(inputs=inputs, aspect=aspect, options=chosen, max_bytes=MAX_BYTES)
        report = Report()
        for _ in source.frames(query, source.task(query, report), report):
            pass
        request = FeatureRequest(
            dataset=dataset,
            aspect=aspect,
            data_dir=folder,
            cache_dir=folder.parent / OUTPUT,
            embedding="random",
            embedding_size=2,
            max_input_bytes=MAX_BYTES,
            options=chosen,
        )
        problems = check_features(open_features(request, verify=True))
        if problems:
            raise AssertionError(f"features that do not agree with one another: {problems}")

    return read


def _of_few_cases(read: Callable[[Path], None]) -> Callable[[Path], None]:
    """Reads CAIL though no label of so small a corpus has a hundred cases; starts no process."""

    def reading(folder: Path) -> None:
        with (
            mock.patch.object(cail, "MIN_CASES", 1),
            mock.patch.dict(os.environ, {ENV_WORKERS: "1"}),
        ):
            read(folder)

    return reading


# ---------------------------------------------------------------------------------------------------- sources


def _beer_files() -> Files:
    def write(folder: Path) -> None:
        sample.write_beer(folder / "beer", seed=0, num_reviews=8, num_annotated=8)
        train = "reviews.aspect2.train.txt"
        (folder / "beer" / "reviews.aspect0.heldout.txt").rename(folder / "beer" / train)
        (folder / "beer" / "reviews.aspect1.heldout.txt").unlink()

    return files_of(write, ("beer/reviews.aspect2.heldout.txt",))


def beer_reviews() -> Reader:
    """The review files of beer, one compressed."""
    return Reader(files=_beer_files(), targets=("beer/reviews.*",), read=_builds("beer", "palate"))


def beer_annotations() -> Reader:
    """The annotated reviews of beer."""
    return Reader(files=_beer_files(), targets=("beer/annotations.json",), read=_builds("beer", "palate"))


def _posts_files() -> Files:
    def write(folder: Path) -> None:
        sample_posts.write_hatexplain(folder / "hatexplain", seed=0, num_posts=dict(_SIZES), num_undecided=1)

    return files_of(write)


def hatexplain_posts() -> Reader:
    """The posts of HateXplain."""
    return Reader(files=_posts_files(), targets=("hatexplain/dataset.json",), read=_builds("hatexplain"))


def hatexplain_divisions() -> Reader:
    """The division of HateXplain's posts, compressed."""
    files = _posts_files()
    name = "hatexplain/post_id_divisions.json"
    files[f"{name}.gz"] = gzip.compress(files.pop(name), mtime=0)
    return Reader(files=files, targets=(f"{name}.gz",), read=_builds("hatexplain"))


_CAIL_FOLDER = "cail2018/final_all_data/exercise_contest"


def _cail_files(cases: int = 12) -> Files:
    names = {"train": "data_train.json", "val": "data_valid.json", "test": "data_test.json"}
    paths = {split: Path("final_all_data/exercise_contest") / name for split, name in names.items()}

    def write(folder: Path) -> None:
        sizes = {"train": 2 * cases, "val": cases, "test": cases}
        sample_cail.write_cail(folder / "cail2018", paths, seed=0, num_cases=sizes)

    return files_of(write, (f"{_CAIL_FOLDER}/data_valid.json",))


def cail_cases() -> Reader:
    """The cases of CAIL, in two encodings, one file compressed."""
    files = _cail_files()
    test = f"{_CAIL_FOLDER}/data_test.json"
    files[test] = files[test].decode().encode("gb18030")
    return Reader(
        files=files, targets=(f"{_CAIL_FOLDER}/*",), read=_of_few_cases(_builds("cail-small", "charges"))
    )


def cail_lists() -> Reader:
    """CAIL's official lists of charges and articles."""
    return Reader(
        files=_cail_files(),
        targets=("cail2018/meta/*",),
        read=_of_few_cases(_builds("cail-small", "articles")),
    )


def jsonl_lines() -> Reader:
    """Lines of one's own data: texts with spans of characters, and some with tokens and a mask."""
    files = files_of(lambda folder: sample.write_jsonl(folder, seed=0, sizes=_SIZES), ("val.jsonl",))
    given = {"tokens": ["so", "smooth"], "score": 4, "rationale": [0, 1], "id": "t", "groups": ["a"]}
    files["train.jsonl"] += json.dumps(given).encode() + b"\n"
    return Reader(files=files, targets=("*.jsonl", "*.gz"), read=_builds("jsonl"))


def task_toml() -> Reader:
    """The description of one's own data."""
    files = files_of(lambda folder: sample.write_jsonl(folder, seed=0, sizes=_SIZES))
    files["task.toml"] += b'tokenizer = "english"\n'
    return Reader(files=files, targets=("task.toml",), read=_builds("jsonl"))


def eraser_lines() -> Reader:
    """The annotations of ERASER's format, with the query in the text."""
    files = files_of(lambda folder: sample.write_eraser(folder, seed=0, sizes=_SIZES), ("val.jsonl",))
    targets = ("train.jsonl", "val.jsonl.gz", "test.jsonl")
    return Reader(files=files, targets=targets, read=_builds("eraser", options={"query": "prepend"}))


def eraser_documents() -> Reader:
    """The documents of ERASER's format in one file."""
    files = files_of(lambda folder: sample.write_eraser(folder, seed=0, sizes=_SIZES))
    return Reader(files=files, targets=("docs.jsonl",), read=_builds("eraser"))


def eraser_folder() -> Reader:
    """The documents of ERASER's format in a folder, one compressed."""
    files = files_of(lambda folder: sample.write_eraser(folder, seed=0, sizes=_SIZES))
    for line in files.pop("docs.jsonl").splitlines():
        record = json.loads(line)
        files[f"docs/{record['docid']}"] = record["document"].encode()
    return Reader(files=files, targets=("docs/t*",), read=_builds("eraser"))


# ----------------------------------------------------------------------------------- files that options name


def dictionary() -> Reader:
    """The user's dictionary for jieba."""
    import jieba

    jieba.setLogLevel(logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "dict.txt"
        plain.write_text("被告 10 n\n告人 5 n\n盗窃 7 v\n", encoding="utf-8")
        kept = jieba.Tokenizer()
        # the real dictionary takes half a second to read, and each input needs a tokenizer of its own
        frequencies, total = kept.gen_pfdict(plain.open("rb"))

    def read(folder: Path) -> None:
        path = folder / "words.txt"
        tokenizer = jieba.Tokenizer()
        tokenizer.FREQ, tokenizer.total, tokenizer.initialized = dict(frequencies), total, True
        for word in parse_dictionary(read_lines(path, max_bytes=MAX_BYTES), str(path)):
            tokenizer.add_word(word.text, word.frequency)
        text = "被告人盗窃 abc 123。"
        if "".join(tokenizer.lcut(text)) != text:
            raise AssertionError("the words are not the text")

    files = {"words.txt": "被告人 100 n\n入户盗窃\nabc 3\n某某 20\n".encode()}
    return Reader(files=files, targets=("words.txt",), read=read)


def stop_words() -> Reader:
    """The user's stop words."""

    def read(folder: Path) -> None:
        parse_stop_words(read_lines(folder / "stop.txt", max_bytes=MAX_BYTES))

    return Reader(files={"stop.txt": "的\n了\n \n，\n".encode()}, targets=("stop.txt",), read=read)


def word_vectors() -> Reader:
    """Files of word vectors, with the header of word2vec and compressed, or neither."""
    words = [*"abcdefgh", "naïve", "1"]
    lines = [f"{word} {i / 7:.4f} {-i / 3:.3e} 0.5 1\n" for i, word in enumerate(words)]
    vocabulary = Vocabulary(["<pad>", "<unk>", *words[::2], "z"])

    def read(folder: Path) -> None:
        for path in sorted(folder.iterdir()):
            matrix, found = embeddings.from_file(path, vocabulary, size=4, max_bytes=MAX_BYTES)
            if not (matrix.shape == (len(vocabulary), 4) and np.isfinite(matrix).all() and found > 0):
                raise AssertionError(f"a strange matrix: {matrix}")

    files = {
        "v.txt.gz": gzip.compress("".join([f"{len(words)} 4\n", *lines]).encode(), mtime=0),
        "v.txt": "".join(lines).encode(),
    }
    return Reader(files=files, targets=("v.*",), read=read)


def config_toml() -> Reader:
    """The file of hyper-parameters behind `--config`."""

    def read(folder: Path) -> None:
        flags = ["--sample", "--aspect", "palate", "--config", str(folder / "config.toml")]
        planning.run_settings(search.build_parser().parse_args(flags), {})

    lines = ("hidden_size = 64", "lambda_ib = 1e-3", 'encoder = "lstm"', "train_embeddings = true")
    text = "".join(f"{line}\n" for line in lines)
    return Reader(files={"config.toml": text.encode()}, targets=("config.toml",), read=read)


def space_toml() -> Reader:
    """The file of a search space behind `--space`."""

    def read(folder: Path) -> None:
        own_space.read(folder / "space.toml", InfoCalConfig)

    lines = (
        "[lambda_ib]\nlow = 1e-4\nhigh = 1e-2\nlog = true",
        '[encoder]\nchoices = ["rcnn", "lstm"]\nwhy = "which?"',
        '[hidden_size]\nlow = 50\nhigh = 200\nstep = 50\nwhen.encoder = ["lstm"]',
        '[[first]]\nlambda_ib = 1e-3\nencoder = "rcnn"',
    )
    text = "\n".join(f"{line}\n" for line in lines)
    return Reader(files={"space.toml": text.encode()}, targets=("space.toml",), read=read)


def masks() -> Reader:
    """A file of masks, scored against the annotated reviews of beer."""
    (spans, *_, last) = _beer_files()["beer/annotations.json"].splitlines(keepends=True)
    human = [json.loads(spans), json.loads(last)]
    lines = [
        {
            "id": human[0]["rid"],
            "tokens": human[0]["x"],
            "rationale": [i % 2 for i in range(len(human[0]["x"]))],
        },
        {"id": human[1]["rid"], "rationale": [[0, 3], [5, 6]], "scores": [0.5] * len(human[1]["x"])},
    ]

    def read(folder: Path) -> None:
        flags = ["--dataset", "beer", "--aspect", "palate"]
        files = ["--human", str(folder / "human.json"), "--rationale", str(folder / "masks.jsonl")]
        with contextlib.redirect_stdout(io.StringIO()):
            score.main([*flags, *files])

    files = {"human.json": spans + last, "masks.jsonl": _json_lines(lines)}
    return Reader(files=files, targets=("*",), read=read)


def _json_lines(records: Sequence[object]) -> bytes:
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def table() -> Reader:
    """A table of scores to audit."""

    def read(folder: Path) -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            score.main(["--audit", str(folder / "table.csv"), "--gold-density", "0.126"])

    text = "method,precision,recall,f1,selected,note\nours,50.5,40,44.6,13,x\ntheirs,60,40,48,-,\n"
    return Reader(files={"table.csv": text.encode()}, targets=("table.csv",), read=read)


# -------------------------------------------------------------------------------------------------- downloads


class _Server(http.server.BaseHTTPRequestHandler):
    """Gives out the one file that it was told to."""

    content = b""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(_Server.content)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):
            self.wfile.write(_Server.content)

    def log_message(self, *_: Any) -> None:
        pass


def _port() -> int:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return int(server.server_address[1])


def _downloads(port: int, file: RemoteFile) -> Callable[[Path], None]:
    class Downloaded:
        name = "downloaded"
        remote_files = (replace(file, url=f"http://127.0.0.1:{port}/{file.name}"),)

    def read(folder: Path) -> None:
        _Server.content = (folder / file.name).read_bytes()
        goal = folder.parent / OUTPUT
        found = fetch(Downloaded(), None, goal, max_bytes=MAX_BYTES)  # type: ignore[arg-type]
        there = {path for path in goal.rglob("*") if path.is_file()}
        if there != set(found):
            raise AssertionError(f"asked for {found}, but there are {there}")

    return read


def archive() -> Reader:
    """A zip archive that `fetch` downloads and unpacks."""
    member = "final_all_data/exercise_contest/data_train.json"
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("cail/", b"")
        written.writestr(f"cail/{member}", b'{"fact": "x"}\n' * 50)
        written.writestr("cail/final_all_data/other.json", b"{}\n" * 50)
    file = RemoteFile(name="cail.zip", url="", members=(member,))
    return Reader(files={"cail.zip": sink.getvalue()}, targets=("cail.zip",), read=_downloads(_port(), file))


def compressed_download() -> Reader:
    """A gzip file that `fetch` downloads and reads to its end."""
    file = RemoteFile(name="reviews.txt.gz", url="")
    files = {"reviews.txt.gz": gzip.compress(b"0.5 0.5 0.5 0.5 0.5\ta b c\n" * 50, mtime=0)}
    return Reader(files=files, targets=("reviews.txt.gz",), read=_downloads(_port(), file))


READERS: dict[str, Make] = {
    "beer-reviews": beer_reviews,
    "beer-annotations": beer_annotations,
    "hatexplain-posts": hatexplain_posts,
    "hatexplain-divisions": hatexplain_divisions,
    "cail-cases": cail_cases,
    "cail-lists": cail_lists,
    "cail-archive": archive,
    "download-gz": compressed_download,
    "jsonl": jsonl_lines,
    "task-toml": task_toml,
    "eraser": eraser_lines,
    "eraser-docs": eraser_documents,
    "eraser-folder": eraser_folder,
    "embeddings": word_vectors,
    "dictionary": dictionary,
    "stop-words": stop_words,
    "config-toml": config_toml,
    "space-toml": space_toml,
    "masks": masks,
    "table": table,
}

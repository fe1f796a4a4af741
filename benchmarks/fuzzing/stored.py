"""Readers of what the project wrote itself: cached tables, checkpoints, models, settings of a study."""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import shutil
import tempfile
import typing
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from benchmarks.fuzzing.corpora import files_of
from benchmarks.fuzzing.mutations import Files, change_value
from benchmarks.fuzzing.reader import OUTPUT, Make, Reader
from feature_store import cache, sample
from feature_store.errors import UserError
from feature_store.segmentation import TextFile, word_lengths
from feature_store.store import FeatureRequest, Features, derived, load_features, open_features
from infocal.config import InfoCalConfig, Task
from infocal.methods.infocal.model import InfoCal
from infocal.methods.infocal.trainer import InfoCalTrainer
from pipeline import search
from pipeline.base.command_text import parsed_again
from pipeline.base.storage import Storage
from pipeline.base.stored_files import read_settings
from pipeline.cli.text_input import windows
from pipeline.study.ledger import LEDGER, Ledger, Proposal
from pipeline.study.scheduler import asha
from pipeline.study.study import Study
from pipeline.study.study_folder import SETTINGS, SETTINGS_COPY, StudyFolder
from pipeline.study.study_settings import StudySettings
from pipeline.tracking.record import Stored
from pipeline.tracking.tracking import CONFIG_ARTIFACT
from pipeline.training import checkpoints
from pipeline.training.epochs import OBJECTIVE, VIOLATION, BestEpoch, Epoch
from pipeline.training.explainer import Explainer
from pipeline.training.loaders import Loader, embeddings_of, task_of
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import Progress
from search_spaces.lookup import criterion, first_points, space

_SCORES = "lm_logit"
_HOSTILE: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**63,
    -0.5,
    float("nan"),
    1e308,
    "",
    "x",
    "\ud800",
    [],
    {},
    [[0]],
    {"a": [1]},
)

# ---------------------------------------------------------------------------------------------------- Arrow


def _request(data: Path, folder: Path) -> FeatureRequest:
    return FeatureRequest(
        dataset="jsonl", data_dir=data, cache_dir=folder, embedding="random", embedding_size=2
    )


def _derive(features: Features) -> pa.Table:
    def build() -> pa.Table:
        lengths = [len(row) for row in features.table("train")["token_ids"].to_pylist()]
        rows = [[position / 8 for position in range(length)] for length in lengths]
        return pa.table({_SCORES: pa.array(rows, pa.list_(pa.float32()))})

    return derived(features, _SCORES, 1, {"size": 2}, build)


def _built() -> Files:
    """A small corpus and its features, built, with a derived table."""

    def write(folder: Path) -> None:
        sizes = {"train": 12, "val": 4, "test": 4}
        sample.write_jsonl(folder / "data", seed=0, sizes=sizes)
        _derive(open_features(_request(folder / "data", folder / "cache")))
        shutil.rmtree(folder / "cache" / "locks")

    return files_of(write)


def _content(features: Features) -> str:
    """A digest of everything that features hold."""
    tables = {split: features.table(split).to_pydict() for split in features.splits}
    values = (features.aspect, features.task, features.tokenizer, features.notes, features.tokenizer_files)
    known = (features.vocabulary.tokens, features.token_counts.tolist(), features.embeddings.tobytes())
    text = repr((tables, values, known, sorted(features.provenance.items()), _derive(features).to_pydict()))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _rewrite_table(random: Random, files: Files) -> Files:
    """One Arrow file written anew with other columns, types, rows or offsets."""
    name = random.choice([name for name in files if name.endswith(".arrow")])
    with contextlib.suppress(pa.ArrowException):
        table = pa.ipc.open_file(files[name]).read_all()
        change = random.choice((_other_columns, _other_types, _other_rows, _other_offsets, _other_numbers))
        sink = pa.BufferOutputStream()
        table = change(random, table)
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        files[name] = sink.getvalue().to_pybytes()
    return files


def _other_columns(random: Random, table: pa.Table) -> pa.Table:
    name = random.choice(table.column_names)
    kept = table.drop_columns([name])
    return random.choice(
        (kept, kept.append_column("other", table[name]), table.append_column(name, table[name]))
    )


def _other_types(random: Random, table: pa.Table) -> pa.Table:
    at = random.randrange(table.num_columns)
    kind = random.choice(
        (pa.string(), pa.int64(), pa.float64(), pa.list_(pa.string()), pa.null(), pa.large_string())
    )
    return table.set_column(at, table.column_names[at], pa.nulls(table.num_rows, kind))


def _other_rows(random: Random, table: pa.Table) -> pa.Table:
    return random.choice((table.slice(0, 0), table.slice(1), pa.concat_tables([table, table])))


def _list_columns(table: pa.Table) -> list[int]:
    return [at for at, kind in enumerate(table.schema.types) if pa.types.is_list(kind)]


def _other_offsets(random: Random, table: pa.Table) -> pa.Table:
    """Offsets of a list or text column that go back, below zero, or beyond the values."""
    at = random.randrange(table.num_columns)
    array = table.column(at).combine_chunks()
    if not (pa.types.is_list(array.type) or pa.types.is_string(array.type)) or len(array) == 0:
        return table
    validity, offsets, *rest = array.buffers()[: 2 if pa.types.is_list(array.type) else 3]
    numbers = np.frombuffer(offsets, np.int32).copy()
    numbers[random.randrange(len(numbers))] = random.choice((-1, 2**31 - 1, -(2**31), 10**6, 0, 1))
    children = [array.values] if pa.types.is_list(array.type) else None
    buffers = [validity, pa.py_buffer(numbers), *rest]
    damaged = pa.Array.from_buffers(array.type, len(array), buffers, children=children)
    return table.set_column(at, table.schema.field(at), damaged)


def _other_numbers(random: Random, table: pa.Table) -> pa.Table:
    """Numbers in a list column that point nowhere."""
    columns = [at for at in _list_columns(table) if pa.types.is_integer(table.schema.types[at].value_type)]
    if not columns:
        return table
    at = random.choice(columns)
    rows = table.column(at).to_pylist()
    row = random.choice([row for row in rows if row] or [[0]])
    row[0] = random.choice((0, 999, 65_535))
    return table.set_column(at, table.schema.field(at), pa.array(rows, table.schema.types[at]))


def _seal_cache(files: Files) -> Files:
    """Sizes and digests of the manifests as the files are now."""
    for name in [name for name in files if name.endswith(cache.MANIFEST)]:
        folder = name.removesuffix(cache.MANIFEST)
        with contextlib.suppress(ValueError, TypeError, AttributeError, KeyError, RecursionError):
            manifest = json.loads(files[name])
            for file, entry in manifest["files"].items():
                content = files[folder + file]
                entry |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            files[name] = cache.sealed(manifest).encode()
    return files


def features_rebuilt() -> Reader:
    """Built features opened with every digest compared: what is damaged is built again, never read wrong."""
    files = _built()
    expected: list[str] = []

    def read(folder: Path) -> None:
        work = folder.parent / OUTPUT
        shutil.copytree(folder / "cache", work)
        try:
            found = _content(open_features(_request(folder / "data", work), verify=True))
        except UserError as error:
            raise AssertionError("damage that was not mended") from error
        expected.append(found) if not expected else None
        if found != expected[0]:
            raise AssertionError("features that differ from those that were built")

    return Reader(files=files, targets=("cache/features/*",), read=read, special=_rewrite_table)


def features_opened() -> Reader:
    """Built features used as a worker does, which compares no digest of theirs."""
    files = _built()

    def read(folder: Path) -> None:
        (directory,) = (folder / "cache" / "features").iterdir()
        features = load_features(directory)
        task = task_of(features)
        table = embeddings_of(features)
        for split in ("train", "val", "test"):
            loader = Loader(features.table(split), task)
            loader.annotated_rows(), loader.golds()
            for batch in loader.in_order(4):
                table[batch.token_ids]
        features.annotated_validation().slice(0, 3).to_pylist()
        len(features.vocabulary)

    return Reader(
        files=files, targets=("cache/features/*",), read=read, special=_rewrite_table, seal=_seal_cache
    )


def segments() -> Reader:
    """Kept lengths of the words of Chinese texts: damaged ones are computed again."""
    texts = ["被告人盗窃。", "abc 12", "入户盗窃他人财物。"]
    file = TextFile(name="t", digest="0" * 64, texts=lambda: texts, num_texts=len(texts))
    expected = list(word_lengths(file, None, num_workers=1))

    def write(folder: Path) -> None:
        list(word_lengths(file, folder / "cache", num_workers=1))
        shutil.rmtree(folder / "cache" / "locks")

    def read(folder: Path) -> None:
        work = folder.parent / OUTPUT
        shutil.copytree(folder / "cache", work)
        if list(word_lengths(file, work, num_workers=1)) != expected:
            raise AssertionError("other words than those that were cut")

    return Reader(files=files_of(write), targets=("cache/*",), read=read, special=_rewrite_table)


def digest_book() -> Reader:
    """The digests of raw files that are remembered."""

    def read(folder: Path) -> None:
        shutil.copytree(folder, folder.parent / OUTPUT)
        work = folder.parent / OUTPUT
        digest = cache.DigestBook(work / "digests.json").digest(work / "raw.txt")
        if not isinstance(digest, str):
            raise AssertionError(f"a digest that is none: {digest!r}")

    book = {"/x/raw.txt": {"stamp": [3, 1], "sha256": "0" * 64}}
    files = {"digests.json": json.dumps(book).encode(), "raw.txt": b"abc"}
    return Reader(files=files, targets=("digests.json",), read=read)


# ------------------------------------------------------------------------------------------------ checkpoints


_NUM_WORDS = 8
_TASK = Task(kind="classification", num_classes=2)


def _config() -> InfoCalConfig:
    return InfoCalConfig(hidden_size=2, feature_size=2, encoder="lstm", target_selection_rate=0.2)


def _vectors() -> torch.Tensor:
    return torch.linspace(-1, 1, 2 * _NUM_WORDS).reshape(_NUM_WORDS, 2)


def _model() -> InfoCal:
    torch.manual_seed(0)
    return InfoCal(_config(), _TASK, _vectors()).eval()


def _trainer() -> InfoCalTrainer:
    return InfoCalTrainer(_config(), _TASK, _vectors(), steps_per_epoch=2, seed=0, device=torch.device("cpu"))


class Harmful:
    """Would write a file when it is unpickled."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.target,)


_BEST_SCORES = BestEpoch(epoch=1, value=0.5, violation=0.0, scores={"val_mse": 0.1}).as_json()

_EPOCH = Epoch.of_numbers(0, {OBJECTIVE: 0.1, VIOLATION: 0.0, "val_mse": 0.02})


def training_state() -> Reader:
    """A trial's state to go on from."""
    trainer = _trainer()
    ran = Path(tempfile.gettempdir()) / f"infocal-fuzz-ran-{os.getpid()}"

    def write(folder: Path) -> None:
        checkpoints.save_state(folder, trainer, {"history": [_EPOCH.as_json()], "best": _BEST_SCORES})

    def read(folder: Path) -> None:
        kept = checkpoints.load_state(folder, trainer)
        Progress.of_json(kept, folder)
        if ran.exists():
            ran.unlink()
            raise AssertionError("code in the input was run")

    def special(random: Random, files: Files) -> Files:
        if random.random() < 0.1:
            return files | {checkpoints.STATE: _saved({"trainer": Harmful(ran), "progress": {}})}
        state = torch.load(io.BytesIO(files[checkpoints.STATE]), weights_only=True)
        holder = [state]
        change_value(random, holder, lambda: random.choice((*_HOSTILE, torch.zeros(1), torch.ones(2, 2))))
        with contextlib.suppress(UnicodeEncodeError):
            files[checkpoints.STATE] = _saved(holder[0])
        return files

    files = files_of(write)
    return Reader(files=files, targets=("*",), read=read, special=special, seal=_sealer(checkpoints.DIGESTS))


def _saved(value: object) -> bytes:
    sink = io.BytesIO()
    torch.save(value, sink)
    return sink.getvalue()


def _sealer(book: str) -> Callable[[Files], Files]:
    """Makes the digests in a file agree with the others beside it."""

    def seal(files: Files) -> Files:
        with contextlib.suppress(ValueError, AttributeError, KeyError, RecursionError):
            names = json.loads(files[book]).keys()
            digests = {name: hashlib.sha256(files[name]).hexdigest() for name in names}
            return files | {book: json.dumps(digests).encode()}
        return files

    return seal


def best_epoch() -> Reader:
    """The weights of a trial's best epoch, their scores and what is shown of them."""
    text = {
        "example_id": "a",
        "tokens": ["x", "y"],
        "human": [0, 1],
        "probability": [0.1, 0.9],
        "selected": [0, 1],
    }

    def write(folder: Path) -> None:
        checkpoints.save_best(folder / "best", _model(), _BEST_SCORES, [text])

    def read(folder: Path) -> None:
        checkpoints.load_best(folder / "best", _vectors())
        found = checkpoints.load_scores(folder / "best")
        if not (isinstance(found.epoch, int) and isinstance(found.value, int | float)):
            raise AssertionError(f"no scores: {found}")
        checkpoints.load_predictions(folder / "best" / checkpoints.BEST_PREDICTIONS)

    files = files_of(write)
    return Reader(
        files=files, targets=("*",), read=read, seal=_in_folder("best/", _sealer(checkpoints.DIGESTS))
    )


def _in_folder(prefix: str, seal: Callable[[Files], Files]) -> Callable[[Files], Files]:
    def sealed(files: Files) -> Files:
        inner = {name.removeprefix(prefix): content for name, content in files.items()}
        return {prefix + name: content for name, content in seal(inner).items()}

    return sealed


def package() -> Reader:
    """A model's package, as it is registered, and an answer of the model in it."""

    def write(folder: Path) -> None:
        words = ["<pad>", "<unk>", *"abcdef"]
        metadata = {"tokenizer": "english", "class_names": ["no", "yes"], "dataset": "jsonl", "aspect": ""}
        checkpoints.save_package(folder, checkpoints.Package(_model(), words, metadata))

    def read(folder: Path) -> None:
        (answer,) = Explainer(checkpoints.load_package(folder)).explain(["a b unknown ."])
        if len(answer.tokens) != 4:
            raise AssertionError(f"not the text's tokens: {answer}")

    files = files_of(write)
    return Reader(files=files, targets=("*",), read=read, seal=_sealer(checkpoints.DIGESTS))


# --------------------------------------------------------------------------------------------------- settings


def _a_study() -> StudySettings:
    run = RunSettings(
        dataset="beer",
        aspect="palate",
        method="infocal",
        options={},
        features_dir="features",
        language_model={"num_epochs": 1},
        base={"hidden_size": 8},
        criterion=criterion("beer", "palate"),
        num_epochs=3,
        seed=0,
        device="cpu",
        bf16=False,
        num_threads=1,
    )
    return StudySettings(
        name="study",
        run=run,
        space_name="paper",
        sampler="tpe",
        num_trials=2,
        max_concurrent=0,
        cpus_per_trial=1.0,
        gpus_per_trial=0.0,
        num_seeds=1,
        sample=True,
        model_name="infocal-beer-palate",
        command="python -m pipeline.search",
        first_points=first_points("infocal", "beer"),
    )


def study_settings() -> Reader:
    """The settings of a study, from which it is resumed."""
    settings = _a_study()

    def write(folder: Path) -> None:
        (folder / "study").mkdir()
        settings.save(folder / "study")
        (folder / "study" / SETTINGS_COPY).unlink()  # it would be read in place of what is damaged

    def read(folder: Path) -> None:
        found = StudySettings.load(folder / "study", "study")
        _check_types(found)
        _check_types(found.run)
        if found.name != "study":
            raise AssertionError(f"a study of another folder: {found.name!r}")
        parsed_again(found.command, str(folder / "study" / SETTINGS), search.build_parser())

    return Reader(files=files_of(write), targets=(f"study/{SETTINGS}",), read=read)


def run_settings() -> Reader:
    """The settings that MLflow keeps of a trial, from which it is evaluated and trained again."""
    document = {"config": {"hidden_size": 8, "seed": 3}, "run": dataclasses.asdict(_a_study().run)}

    def read(folder: Path) -> None:
        found = read_settings(Stored, folder / CONFIG_ARTIFACT, "the settings of a trial")
        _check_types(found.run)
        if not isinstance(found.config, dict):
            raise AssertionError(f"no hyper-parameters: {found.config!r}")

    files = {CONFIG_ARTIFACT: json.dumps(document).encode()}
    return Reader(files=files, targets=(CONFIG_ARTIFACT,), read=read)


def texts() -> Reader:
    """Texts to explain, one a line."""
    lines = ["A fine beer.", "", "Nothing to \u00fcber-think: 3.5/5", "\u5473\u9053\u4e0d\u9519"]

    def read(folder: Path) -> None:
        path = folder / "texts.txt"
        with path.open("rb") as file:
            for window in windows(file, str(path)):
                if not all(line.text.strip() for line in window):
                    raise AssertionError("a text that is none")

    return Reader(files={"texts.txt": "\n".join(lines).encode()}, targets=("texts.txt",), read=read)


def ledger() -> Reader:
    """The ledger of a study, from which its search is built again."""
    settings, (point,) = _a_study(), first_points("infocal", "beer")[:1]

    def write(folder: Path) -> None:
        written = Ledger(folder / "study")
        for name, num_epochs in (("a", 3), ("b", 1)):
            written.begin(name, point, Proposal(point, {}))
            for number in range(num_epochs):
                epoch = dataclasses.replace(_EPOCH, number=number)
                place = f"tune/{name}/checkpoint_{number:06d}"
                written.epoch(name, epoch, place, is_last=number == 2)
        written.fail("b", "non_finite", "epoch 1: the loss is nan")

    def read(folder: Path) -> None:
        found = Ledger(folder / "study")
        place = StudyFolder.local(Storage(str(folder)), settings.name)
        study = Study(settings, space("infocal", "beer", settings.space_name), place, found)
        study.searcher(study.searched)
        asha(study.base_config, settings.run.num_epochs, study.searched)
        for record in found.trials():
            for epoch in record.epochs.values():
                _check_types(epoch)
            if any(".." in name for name in record.checkpoints):
                raise AssertionError(f"a checkpoint elsewhere: {record.checkpoints}")

    return Reader(files=files_of(write), targets=(f"study/{LEDGER}/*",), read=read, seal=_seal_ledger)


def _seal_ledger(files: Files) -> Files:
    """With the sums that the damaged lines would have."""
    for name, content in files.items():
        lines = content.split(b"\n")
        for i, line in enumerate(lines):
            with contextlib.suppress(ValueError, AttributeError, TypeError, RecursionError):
                event = json.loads(line)
                event.pop("crc32", None)
                event["crc32"] = zlib.crc32(json.dumps(event).encode())
                lines[i] = json.dumps(event).encode()
        files[name] = b"\n".join(lines)
    return files


def _check_types(value: Any) -> None:
    """Every field of a dataclass holds what it is declared to."""
    for name, kind in typing.get_type_hints(type(value)).items():
        origin = typing.get_origin(kind) or kind
        found = getattr(value, name)
        is_number = origin is float and type(found) is int
        if not is_number and (
            not isinstance(found, origin) or (isinstance(found, bool) and origin is not bool)
        ):
            raise AssertionError(f"{name} is {found!r}")


def json_file() -> Reader:
    """Any JSON file of the pipeline's."""
    content = json.dumps({"history": [{"epoch": 0, "loss": 0.5}], "names": ["a", "é"]}, indent=1).encode()
    return Reader(
        files={"history.json": content},
        targets=("history.json",),
        read=lambda folder: checkpoints.read_json(folder / "history.json"),
    )


READERS: Mapping[str, Make] = {
    "features-verified": features_rebuilt,
    "features-opened": features_opened,
    "segments": segments,
    "digest-book": digest_book,
    "state": training_state,
    "best-epoch": best_epoch,
    "package": package,
    "study-json": study_settings,
    "run-settings": run_settings,
    "texts": texts,
    "ledger": ledger,
    "json": json_file,
}

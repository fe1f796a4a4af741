"""What a run is asked to do: the flags that commands share, and the settings that a worker needs."""

import argparse
import datetime
import json
import math
import os
import re
import shlex
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from feature_store import command_line
from feature_store.command_line import cache_folder
from feature_store.toml import read_toml
from infocal.config import MethodConfig
from infocal.methods.registry import INFOCAL
from pipeline.base import credentials
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Storage
from pipeline.base.uris import file_of_sqlite, of_sqlite, without_password
from search_spaces import registry
from search_spaces.base import Criterion

SAMPLERS = ("tpe", "random", "grid", "gp")
"""Who may propose points; `pipeline.study.scheduler` makes them."""

AUTO = "auto"
"""In place of a number of GPUs: as many trials on each as are measured to fit."""
GPU_STEPS = 10_000
"""Ray gives out a GPU in ten-thousandths."""

MAX_NAME = 128
"""Characters of the name of a registered model."""

SAMPLE_STORAGE, STORAGE = "runs/sample", "runs"
DATASET = "beer"
"""Where no data set is named."""
_TRACKING = "MLFLOW_TRACKING_URI"


@dataclass(frozen=True, kw_only=True, slots=True)
class RunSettings:
    """Everything that a worker needs besides the hyper-parameters; plain values, so that it travels."""

    dataset: str
    aspect: str
    method: str
    options: dict[str, str]
    """Choices that the data set offers, as given."""
    features_dir: str
    """Built features, memory-mapped by the worker."""
    language_model: dict[str, Any]
    """Its config; the scores lie beside the features."""
    base: dict[str, Any]
    """Hyper-parameters that the search does not vary."""
    criterion: Criterion
    num_epochs: int
    seed: int
    device: str
    bf16: bool
    num_threads: int
    gpu_memory_rate: float = 1.0
    """Share of its card's memory that a trial may hold, in (0, 1]; the rest belongs to its neighbours."""
    features_uri: str = ""
    """Where a machine without that folder fetches the features from; empty: all share the folder."""
    hold_rate: bool = False
    """Whether the threshold is set on validation texts so that the target selection rate is met."""
    criterion_kind: str = ""
    """`relative` where the threshold on precision is a rival's, which is measured before the search; `paper`
    where it is fixed; empty in what older versions stored, and where nobody searches."""
    rival: dict[str, Any] = field(default_factory=dict)
    """What was measured for that threshold, as `pipeline.study.rival` says it; empty until then."""
    checkpoint_s: float = 60.0
    """Seconds of training between the states that a search keeps within an epoch; 0: none."""
    origin: dict[str, Any] = field(default_factory=dict)
    """What the features were made of, as `origin.py` says it; empty in what older versions stored."""

    def config(self, **changes: Any) -> MethodConfig:
        """The method's hyper-parameters: `base`, with changes.

        Raises:
            ConfigError: if a name is unknown to the method, or a value is bad.
        """
        return registry.implementation(self.method).config_class().from_mapping(self.base | changes)


def storage(given: str | None, sample: bool) -> Storage:
    """Where all results are: as given, else in `runs`, or `runs/sample` for the sample corpus."""
    return Storage(given or (SAMPLE_STORAGE if sample else STORAGE))


def make_folder(path: Path, where: str) -> None:
    """Make a folder and those above it, where they are missing.

    Args:
        path: the folder.
        where: flag that named it.

    Raises:
        PipelineError: if it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PipelineError(
            f"cannot make the folder `{path}`: {error.strerror}",
            where=where,
            hint="name a folder of your own",
        ) from error


def tracking_uri(given: str | None, storage: Storage) -> str:
    """Where MLflow tracks: the flag, else MLFLOW_TRACKING_URI, else an SQLite file in the local storage.

    Raises:
        PipelineError: if none of these is there, or its password was left out or is not percent-encoded.
    """
    stated = given or os.environ.get(_TRACKING)
    credentials.check(stated, "--tracking-uri" if given else _TRACKING)
    if not stated and storage.is_remote:
        raise PipelineError(
            f"expected an MLflow server to go with `--storage {storage}`, but none is named",
            where="--tracking-uri",
            hint="name it here or in MLFLOW_TRACKING_URI, as in http://HOST:5000; "
            "sqlite:///mlflow.db tracks in a file of this machine",
        )
    return stated or of_sqlite((storage.folder / "mlflow.db").resolve())


@dataclass(frozen=True, slots=True)
class Commands:
    """What a user types next, quoted for a shell; passwords are left out."""

    resume: str
    """Goes on with a study or a comparison."""
    sync: str
    """Writes to MLflow what it lacks of a study."""
    register: str
    """Registers a trial of a study that has ended, under a criterion to be added."""


def commands(
    name: str,
    storage: Storage,
    tracking_uri: str | None,
    address: str | None = None,
    module: str = "pipeline.search",
) -> Commands:
    """The commands for a study or a comparison.

    Args:
        name: of it.
        storage: where it is.
        tracking_uri: as it was given; None: by MLFLOW_TRACKING_URI, or not at all.
        address: the same, of the Ray cluster.
        module: that resumes it.
    """
    places = ["--name", name, *storage_flags(storage)]
    stated = tracking_uri or os.environ.get(_TRACKING)
    if stated and stated != _own_tracking(storage):
        places += ["--tracking-uri", without_password(stated)]
    cluster = ["--address", address] if address else []
    return Commands(
        resume=shlex.join(["python", "-m", module, "--resume", *places, *cluster]),
        sync=shlex.join(["python", "-m", "pipeline.sync", *places]),
        register=shlex.join(["python", "-m", "pipeline.register", *places]),
    )


def storage_flags(storage: Storage, *, sample: bool = False) -> list[str]:
    """The flags that name a storage to a command; none where it is the command's default.

    Args:
        storage: of all results.
        sample: whether the command gets `--sample`, which has a default of its own.
    """
    given = str(storage)
    if given == (SAMPLE_STORAGE if sample else STORAGE):
        return []
    return [f"--storage={given}"] if given.startswith("-") else ["--storage", given]


def tracking_flags(storage: Storage, uri: str) -> list[str]:
    """The flags that name a tracking store to a command that reads nothing but that.

    Args:
        storage: of all results.
        uri: of the store; a password in it is left out.
    """
    if uri != _own_tracking(storage) or os.environ.get(_TRACKING, uri) != uri:
        return ["--tracking-uri", without_password(uri)]
    return ["--sample"] if str(storage) == SAMPLE_STORAGE else storage_flags(storage)


def _own_tracking(storage: Storage) -> str | None:
    """The store that lies in a storage; None where that is no folder of this machine."""
    return None if storage.is_remote else of_sqlite((storage.folder / "mlflow.db").resolve())


def cache_dir(given: str | None) -> Path:
    """Folder of cached features; see `cache_folder`."""
    return cache_folder(given)


def title(dataset: str, aspect: str | None, sign: str = "/") -> str:
    """How a data set's target is called: `beer/palate`, or `hatexplain`, which has but one."""
    return sign.join(part for part in (dataset, aspect) if part)


def default_name(dataset: str, aspect: str) -> str:
    """A study's name where none is given: what it searches and when it was started."""
    return f"{title(dataset, aspect, '-')}-{datetime.datetime.now():%Y%m%d-%H%M%S}"


def model_name(given: argparse.Namespace, aspect: str) -> str:
    """Name of the registered model: the flag, else `METHOD-DATASET-ASPECT`; own data add their folder.

    Args:
        given: parsed flags; `model_name`, `dataset`, `data_dir`, `sample` and, where there is one, `method`
            are read.
        aspect: target of the data set; empty where there is none.
    """
    if given.model_name:
        return str(given.model_name)
    corpus = ""
    folder = given.data_dir or os.environ.get("INFOCAL_DATA")
    if registry.depends_on_data(given.dataset) and folder and not given.sample:
        corpus = re.sub(r"[^\w.-]+", "-", Path(folder).resolve().name).strip("-")
    method = getattr(given, "method", INFOCAL)
    return title(default_model_name(given.dataset, aspect, method), corpus, "-")[:MAX_NAME]


def default_model_name(dataset: str, aspect: str, method: str = INFOCAL) -> str:
    """Name of the registered model of a data set's target, where nobody names another."""
    return title(f"{method}-{dataset}", aspect, "-")


def target_flags(dataset: str, aspect: str) -> str:
    """The flags that name a data set's target in a command."""
    return f"--dataset {dataset}" + (f" --aspect {aspect}" if aspect else "")


class _Parser(command_line.Parser):
    failure = PipelineError


def parser(module: str, description: str) -> argparse.ArgumentParser:
    """A parser with the habits of all commands: no abbreviations, and `--debug`."""
    made = _Parser(prog=f"python -m {module}", description=description)
    made.add_argument("--debug", action="store_true", help="show an error's traceback, and which kernels run")
    return made


def stored_command(module: str, arguments: Sequence[str]) -> str:
    """A command as it is stored: without passwords, its databases named from the root, quoted for a shell.

    Args:
        module: that was run.
        arguments: as they were given.
    """
    words = ["python", "-m", module]
    for argument in arguments:
        flag, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        words.append(flag + equals + without_password(_from_root(value)))
    return shlex.join(words)


def _from_root(uri: str) -> str:
    """A database's URI that means the same in every folder; other text stays as it is."""
    file, (address, question, options) = file_of_sqlite(uri), uri.partition("?")
    if file is not None and not str(file).startswith(":"):
        return of_sqlite(file.resolve()) + question + options
    found = re.fullmatch(r"journal:///([^/:].*)", address)
    return f"journal:///{Path(found[1]).resolve()}{question}{options}" if found else uri


def parsed_again(command: str, where: str, by: argparse.ArgumentParser | None = None) -> argparse.Namespace:
    """Flags of a command that was stored; what the parser does not know is left out.

    Args:
        command: `python -m MODULE` with its flags, quoted for a shell.
        where: it is stored, for messages.
        by: the parser; None: one of the flags that say where results and tracking are.

    Raises:
        PipelineError: if it is no such command.
    """
    if by is None:
        by = parser("pipeline", "")
        add_storage_arguments(by)
    try:
        return by.parse_known_args(shlex.split(command)[3:])[0]
    except (ValueError, PipelineError, SystemExit) as error:  # `--help` would end the process
        raise PipelineError(
            f"expected the command that it was begun with, but got `{command[:100]}` ({error})", where=where
        ) from error


def add_data_arguments(target: argparse.ArgumentParser) -> None:
    """Flags that say which data set is meant and where its files are."""
    group = target.add_argument_group("data")
    group.add_argument("--dataset", default=DATASET, help="data set (default: %(default)s)")
    group.add_argument(
        "--aspect",
        "--task",
        help="target of the data set: beer has appearance, smell, palate; CAIL charges, articles, terms",
    )
    group.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a choice that the data set offers, see `python -m feature_store list`; may be repeated",
    )
    group.add_argument(
        "--data-dir",
        metavar="DIR",
        help="folder with DATASET/ in it, or (jsonl, eraser) that of your own data (default: INFOCAL_DATA)",
    )
    group.add_argument(
        "--sample", action="store_true", help="use the small made-up corpus instead of real data"
    )
    group.add_argument(
        "--cache-dir",
        metavar="DIR",
        help="folder of cached features (default: INFOCAL_CACHE, else ~/.cache/infocal)",
    )


def add_feature_arguments(target: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Flags that say where the features of an earlier run are; returns their group."""
    group = target.add_argument_group("features, where the cache does not hold them any more")
    group.add_argument("--data-dir", metavar="DIR", help="folder with DATASET/ in it (default: INFOCAL_DATA)")
    group.add_argument(
        "--cache-dir", metavar="DIR", help="cached features (default: INFOCAL_CACHE, else ~/.cache/infocal)"
    )
    return group


def word_vectors(dataset: str, embedding: str | None) -> dict[str, Any]:
    """What a request for features says about word vectors: the data set's preset, then the flag."""
    return registry.features_preset(dataset) | ({} if embedding is None else {"embedding": embedding})


def add_model_name(target: argparse._ActionsContainer) -> None:
    """The flag that names the registered model."""
    target.add_argument(
        "--model-name",
        type=registered_name,
        metavar="NAME",
        help="registered model (default: METHOD-DATASET-ASPECT; of your own data, METHOD-DATASET-FOLDER)",
    )


def add_storage_arguments(target: argparse.ArgumentParser) -> None:
    """Flags that say where results and tracking are."""
    group = target.add_argument_group("results")
    group.add_argument(
        "--storage",
        metavar="DIR|URI",
        help="folder of all results, or a URI such as s3://BUCKET/PREFIX (default: runs, with --sample "
        "runs/sample)",
    )
    group.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="MLflow (default: MLFLOW_TRACKING_URI, else SQLite in the storage, where that is a folder)",
    )


def add_training_arguments(target: argparse.ArgumentParser, *, has_one_method: bool = True) -> None:
    """Flags of how one configuration is trained.

    Args:
        target: gets them.
        has_one_method: whether `--method` is among them.
    """
    group = target.add_argument_group("training")
    if has_one_method:
        group.add_argument(
            "--method",
            default=INFOCAL,
            help=f"method to train: {', '.join(registry.method_names())} (default: %(default)s)",
        )
    group.add_argument(
        "--target-selection-rate",
        type=fraction,
        metavar="RATE",
        help="hold the share of selected tokens at this rate, in training and by the threshold; 1: all",
    )
    group.add_argument("--min-precision", type=fraction, help="another precision threshold for the criterion")
    group.add_argument(
        "--epochs", type=positive_int, default=50, help="epochs of a trial (default: %(default)s)"
    )
    group.add_argument(
        "--seed", type=seed, default=0, help="seed, the first one of several (default: %(default)s)"
    )
    group.add_argument(
        "--device", type=device, default="auto", help="auto, cpu, cuda or cuda:N (default: %(default)s)"
    )
    group.add_argument("--bf16", action="store_true", help="bfloat16 autocast, on cuda only")
    group.add_argument(
        "--embedding",
        help="word2vec, random or a file of word vectors (default: the preset's, else word2vec)",
    )
    group.add_argument("--config", metavar="FILE", help="TOML file with hyper-parameters")
    group.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="one hyper-parameter; may be repeated"
    )


def json_target(name: str | None, *inputs: str | None) -> Path | None:
    """Where `--json` writes to; a folder that is missing is found here, before anything is read.

    Args:
        name: as given; None or `-`, which is stdout, are no file.
        inputs: files that the command reads, where they are given.

    Raises:
        PipelineError: if there is no such folder, it is one itself, or an input would be overwritten.
    """
    if name is None or name == "-":
        return None
    target = Path(name)
    if not target.absolute().parent.is_dir():
        raise PipelineError(f"there is no folder `{target.parent}`", where=f"--json {target}")
    if target.is_dir():
        raise PipelineError("expected a file, but this is a folder", where=f"--json {target}")
    if target.exists() and any(one and Path(one).exists() and target.samefile(one) for one in inputs):
        raise PipelineError(
            "this file is read by the command, and would be overwritten",
            where=f"--json {target}",
            hint="name another file, or `-` for stdout",
        )
    return target


def dumped(document: Mapping[str, Any]) -> str:
    """What `--json` writes: readable, in the order given, without NaN."""
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)


def write_json(target: Path | None, document: Mapping[str, Any]) -> None:
    """Write it to the file that `json_target` found, where there is one.

    Raises:
        PipelineError: if it cannot be written.
    """
    if target is None:
        return
    try:
        target.write_text(dumped(document) + "\n", encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"cannot be written: {error.strerror}", where=f"--json {target}") from error


def count(text: str) -> int:
    """An argument that is a whole number, 0 or above."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected a whole number of 0 or more, but got {text!r}")
    return int(text)


def positive_int(text: str) -> int:
    """An argument that is a whole number above zero."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number above 0, but got {text!r}")
    return value


def seed(text: str) -> int:
    """An argument that can seed every generator: a whole number from 0 to 2**32 - 1."""
    if not (text.isascii() and text.isdigit() and int(text) < 2**32):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to 2**32 - 1, but got {text!r}")
    return int(text)


def study_name(text: str) -> str:
    """An argument that can name a folder: letters, digits, `.`, `_` and `-`, not starting with `.` or `-`."""
    if not re.fullmatch(r"\w[\w.-]{0,127}", text, re.ASCII):
        raise argparse.ArgumentTypeError(
            f"expected letters, digits, `.`, `_` or `-`, starting with a letter or digit, but got {text!r}"
        )
    return text


def registered_name(text: str) -> str:
    """An argument that can name a registered model: as `study_name`, with letters of any script."""
    if len(text) > MAX_NAME or not re.fullmatch(r"\w[\w.-]*", text):
        raise argparse.ArgumentTypeError(
            f"expected letters, digits, `.`, `_` or `-`, starting with a letter or digit, but got {text!r}"
        )
    return text


def fraction(text: str) -> float:
    """An argument that lies in [0, 1]."""
    return _number(text, lambda value: 0 <= value <= 1, "a number from 0 to 1")


def tolerance(text: str) -> float:
    """An argument that is a finite number, 0 or above."""
    return _number(text, lambda value: 0 <= value < math.inf, "a number of 0 or more")


def positive_float(text: str) -> float:
    """An argument that is a finite number above zero."""
    return _number(text, lambda value: 0 < value < math.inf, "a number above 0")


def num_gpus(text: str) -> float | str:
    """An argument that says what GPUs a trial gets: `AUTO`, none, whole ones, or a part of one.

    A part is rounded down to Ray's step, so that 0.16667 lets six trials share a card.
    """
    if text == AUTO:
        return AUTO
    value = _number(text, lambda value: 0 <= value < math.inf, f"`{AUTO}` or a number of 0 or more")
    if value >= 1 and value != int(value):
        raise argparse.ArgumentTypeError(f"expected whole GPUs or a part of one, but got {text!r}")
    steps = math.floor(value * GPU_STEPS + 1e-6)  # 0.0003 * 10000 lies just below 3
    if value > 0 and steps == 0:
        raise argparse.ArgumentTypeError(f"expected at least {1 / GPU_STEPS:g} of a GPU, but got {text!r}")
    return steps / GPU_STEPS


def _number(text: str, fits: Callable[[float], bool], wanted: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not fits(value):
        raise argparse.ArgumentTypeError(f"expected {wanted}, but got {text!r}")
    return value


def device(text: str) -> str:
    """An argument that names a device; whether it is there is found out when it is used."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", text):
        raise argparse.ArgumentTypeError(f"expected auto, cpu, cuda or cuda:N, but got {text!r}")
    return text


def hyper_parameters(config_file: str | None, assignments: Sequence[str]) -> dict[str, Any]:
    """Hyper-parameters from a TOML file and `key=value` flags; the flags win.

    Raises:
        PipelineError: if the file cannot be read or a flag has no `=`.
    """
    values: dict[str, Any] = dict(_read_toml(Path(config_file))) if config_file else {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise PipelineError(
                f"expected KEY=VALUE, but got `{assignment}`",
                where="--set",
                hint="for instance `--set hidden_size=64`",
            )
        values[name.strip()] = _value(text.strip())
    return values


def _read_toml(path: Path) -> Mapping[str, Any]:
    try:
        return read_toml(path)
    except (OSError, ValueError) as error:
        raise PipelineError(
            f"cannot read the file: {error}",
            where=f"--config {path}",
            hint="it is a TOML file with lines such as `hidden_size = 64`",
        ) from error


def _value(text: str) -> Any:
    """A TOML value; a bare word is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text

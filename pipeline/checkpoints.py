"""What is written of a model: a trial's checkpoint to go on from, and a package to predict with.

Nothing here is a pickle: weights are safetensors, everything else is JSON, and a training state is
read with `weights_only`. A package is refused where a file does not match its digest.
"""

import dataclasses
import hashlib
import json
import os
import pickle
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from infocal.config import Task
from infocal.errors import StateError
from infocal.methods.registry import INFOCAL, method, method_of
from infocal.rationalizer import HALF, Rationalizer
from infocal.trainer import Trainer

STATE, BEST, HISTORY = "state.pt", "best", "history.json"
WEIGHTS, CONFIG, VOCABULARY, DIGESTS = "model.safetensors", "config.json", "vocabulary.json", "digests.json"
_PACKED = (WEIGHTS, CONFIG, VOCABULARY)
"""Files of a package that have a digest."""
TOKENIZER = "tokenizer.json"
"""One more where the user's own files change how a text is split: their contents."""
BEST_SCORES, BEST_PREDICTIONS = "scores.json", "predictions.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Package:
    """A model with everything it needs to predict from text."""

    model: Rationalizer
    vocabulary: list[str]
    metadata: dict[str, Any]
    """Where the model comes from: dataset, aspect, run, threshold, fingerprints; JSON."""
    tokenizer_files: dict[str, str] = dataclasses.field(default_factory=dict)
    """Contents of the user's files that change how a text is split, by the option that named them."""


def save_package(directory: Path, package: Package) -> None:
    """Write a package into `directory`, which must not exist or be empty."""
    directory.mkdir(parents=True, exist_ok=True)
    weights = {name: value.detach().cpu().contiguous() for name, value in package.model.state_dict().items()}
    weights["embeddings"] = package.model.embeddings.detach().cpu().contiguous()
    save_file(weights, directory / WEIGHTS)
    description = {
        "format": _FORMAT,
        **_described(package.model),
        "metadata": package.metadata,
    }
    write_json(directory / CONFIG, description)
    write_json(directory / VOCABULARY, package.vocabulary)
    packed: tuple[str, ...] = _PACKED
    if package.tokenizer_files:
        write_json(directory / TOKENIZER, package.tokenizer_files)
        packed = (*_PACKED, TOKENIZER)
    write_json(directory / DIGESTS, {name: _digest(directory / name) for name in packed})


def load_package(directory: Path) -> Package:
    """Read a package, on the CPU and in evaluation mode.

    Raises:
        StateError: if a file is missing, does not match its digest or has another format.
    """
    digests = read_json(directory / DIGESTS)
    if not isinstance(digests, dict) or digests.keys() - {TOKENIZER} != set(_PACKED):
        raise StateError(
            f"expected a digest of each of {', '.join(_PACKED)}, but got {digests}",
            where=str(directory / DIGESTS),
        )
    for name, digest in digests.items():
        if not (directory / name).is_file() or _digest(directory / name) != digest:
            raise StateError(
                f"`{name}` is missing or does not match its sha256 {digest}", where=str(directory)
            )
    description = read_json(directory / CONFIG)
    if description["format"] != _FORMAT:
        raise StateError(
            f"expected format {_FORMAT}, but got {description['format']}", where=str(directory / CONFIG)
        )
    weights = load_weights(directory / WEIGHTS)
    model = _as_described(description, weights["embeddings"])
    if not model.config.train_embeddings:
        del weights["embeddings"]
    model.load_state_dict(weights)
    files = read_json(directory / TOKENIZER) if TOKENIZER in digests else {}
    return Package(model.eval(), read_json(directory / VOCABULARY), description["metadata"], files)


def load_weights(path: Path) -> dict[str, torch.Tensor]:
    """Tensors of a safetensors file, by name.

    Raises:
        StateError: if the file is missing or damaged.
    """
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise StateError(f"cannot read the weights: {error}", where=str(path)) from error


def save_best(
    directory: Path, model: Rationalizer, scores: Mapping[str, Any], predictions: list[dict[str, Any]]
) -> None:
    """Replace a trial's best weights, their scores and the predictions to show; without the word vectors."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    save_file({k: v.detach().cpu().contiguous() for k, v in model.state_dict().items()}, directory / WEIGHTS)
    write_json(directory / CONFIG, _described(model))
    write_json(directory / BEST_SCORES, scores)
    write_json(directory / BEST_PREDICTIONS, predictions)


def load_best(directory: Path, embeddings: torch.Tensor) -> Rationalizer:
    """The model that `save_best` wrote, in evaluation mode.

    Args:
        directory: a folder written by `save_best`.
        embeddings: the features' word vectors.

    Raises:
        StateError: if a file is missing or damaged, or the word vectors have another size.
    """
    model = _as_described(read_json(directory / CONFIG), embeddings)
    try:
        model.load_state_dict(load_weights(directory / WEIGHTS))
    except RuntimeError as error:
        reason = " ".join(str(error).split())  # torch's own has a line for each tensor
        raise StateError(f"the weights do not fit the features: {reason}", where=str(directory)) from error
    return model.eval()


def _described(model: Rationalizer) -> dict[str, Any]:
    """What has to be known of a model besides its weights, as JSON."""
    return {
        "method": method_of(model.config),
        "config": model.config.to_dict(),
        "task": dataclasses.asdict(model.task),
        "threshold": model.threshold,
    }


def _as_described(description: Mapping[str, Any], embeddings: torch.Tensor) -> Rationalizer:
    """A model with fresh weights from what `_described` said of it.

    A description from before there were other methods names none, and knows no threshold.
    """
    found = method(description.get("method", INFOCAL))
    config = found.config_class().from_mapping(description["config"])
    model: Rationalizer = found.trainer_class().model_class(config, Task(**description["task"]), embeddings)
    model.threshold = description.get("threshold", HALF)
    return model


def save_state(directory: Path, trainer: Trainer, progress: Mapping[str, Any]) -> None:
    """Write the trainer's full state and the loop's own `progress` (JSON values) into `directory`."""
    torch.save({"trainer": trainer.state_dict(), "progress": dict(progress)}, directory / STATE)


def load_state(directory: Path, trainer: Trainer) -> dict[str, Any]:
    """Put the trainer where `save_state` left it; returns the `progress` stored with it.

    Raises:
        StateError: if the file is missing or damaged, or belongs to other hyper-parameters.
    """
    path = directory / STATE
    try:
        state = torch.load(path, map_location=trainer.device, weights_only=True)
        trainer.load_state_dict(state["trainer"])
    except (OSError, KeyError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        reason = " ".join(str(error).split())
        raise StateError(f"cannot read the checkpoint: {reason}", where=str(path)) from error
    progress: dict[str, Any] = state["progress"]
    return progress


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder where there is one; nothing where there is none yet."""
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, readable and in the order given."""
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_json_whole(path: Path, value: Any) -> None:
    """The same, whole or not at all: who reads it meanwhile finds the old file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    write_json(temporary, value)
    temporary.replace(path)


def read_json(path: Path) -> Any:
    """Read a JSON file.

    Raises:
        StateError: if it is missing or not JSON.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StateError(f"cannot read the file: {error}", where=str(path)) from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()

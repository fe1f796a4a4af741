"""What is written of a model: a trial's checkpoint to continue from, and a package to predict with.

Nothing here is a pickle: weights are safetensors, everything else is JSON, and a training state is
read with `weights_only`. A package is refused where a file does not match its digest.
"""

import dataclasses
import hashlib
import io
import logging
import pickle
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from feature_store.tokenize import make_tokenizer
from feature_store.wording import counted
from infocal.config import Task
from infocal.errors import ConfigError, StateError
from infocal.methods.registry import INFOCAL, method, method_of
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import HALF, Rationalizer
from infocal.trainer import Trainer
from pipeline.base.errors import PipelineError, one_line
from pipeline.base.stored_files import (
    BROKEN,
    DIGESTS,
    check_digest,
    check_digests,
    check_folder,
    names_its_folder,
    read_json,
    write_digests,
    write_json,
)
from pipeline.training.epochs import BestEpoch, Epoch
from pipeline.training.weights import load_weights, save_weights

__all__ = ["DIGESTS", "read_json"]  # known by this module's name

logger = logging.getLogger("pipeline.training.checkpoints")

STATE, BEST, HISTORY = "state.pt", "best", "history.json"
WEIGHTS, CONFIG, VOCABULARY = "model.safetensors", "config.json", "vocabulary.json"
_PACKED = (WEIGHTS, CONFIG, VOCABULARY)
"""Files of a package that have a digest."""
TOKENIZER = "tokenizer.json"
"""One more where the user's own files change how a text is split: their contents."""
TARGETS = "targets"
"""Entry of a package's metadata: what is known of each target, where there are several."""
BEST_SCORES, BEST_PREDICTIONS = "scores.json", "predictions.json"
_OF_BEST = (WEIGHTS, CONFIG, BEST_SCORES, BEST_PREDICTIONS)
PARTS = (STATE, DIGESTS, HISTORY, BEST)
"""Files and folders of a trial's checkpoint."""
_PRETRAINED = "pretrained"
"""Entry of a model's description where its encoders started from a pretrained one."""
_REFERENCE = "reference"
"""One more, of a package whose encoders are not trained: where they are found, and their digest."""
_MARKS = ("human", "selected", "probability")
"""Entries of a text that is shown, a number for each token."""
_SPLITS_WORDS = "tokenizer"
"""One more: the tokenizer as JSON; older models have none."""
_SIDE_THRESHOLDS = "side_thresholds"
"""Entry of a model's description where each of several targets has its own rationale."""
_OF_PRETRAINED = ("architecture", "prefix", "suffix")
_FORMAT = 1
_WRITERS = "a search writes its best model to STORAGE/studies/NAME/model, `pipeline.train` to its `--output`"
_NEWER = "if a newer version of this project wrote the model, install that version"


@dataclass(frozen=True, slots=True)
class Package:
    """A model with everything it needs to predict from text."""

    model: Rationalizer
    vocabulary: list[str]
    metadata: dict[str, Any]
    """Where the model comes from: dataset, aspect, run, threshold, fingerprints; JSON."""
    tokenizer_files: dict[str, str] = dataclasses.field(default_factory=dict)
    """Contents of the user's files that change how a text is split, by the option that named them."""

    def __post_init__(self) -> None:
        """Refuse parts that do not fit one another: they would give wrong answers, or fail at one."""
        words = self.vocabulary
        if not all(isinstance(word, str) for word in words) or len(words) != len(self.model.embeddings):
            raise StateError(
                f"expected one word for each of {counted(len(self.model.embeddings), 'word vector')}, but "
                f"got {counted(len(words), 'word')}"
            )
        for said, head in zip(self.targets(), self.model.task.heads, strict=True):
            _check_target(said, head)
        for pair in self.tokenizer_files.items():
            if not all(isinstance(text, str) for text in pair):
                raise StateError(
                    f"expected text as content of the tokenizer's files, but got {str(pair)[:100]}"
                )

    def targets(self) -> list[dict[str, Any]]:
        """What the metadata say of each target, the main one first: `class_names`, `score_range`.

        Raises:
            StateError: if they are of other targets than the model's.
        """
        said, heads = self.metadata.get(TARGETS), self.model.task.heads
        if said is None and len(heads) == 1:
            return [self.metadata]
        names = [head.name for head in heads]
        listed = said if isinstance(said, list) else []
        if [one.get("name") if isinstance(one, dict) else None for one in listed] != names:
            raise StateError(f"expected the targets {', '.join(names)}, but got {str(said)[:100]}")
        return listed


def _check_target(said: Mapping[str, Any], head: Task) -> None:
    """Refuse ends of scores, or names of classes, that do not fit a target."""
    ends = said.get("score_range", [0.0, 1.0])
    if not isinstance(ends, list) or len(ends) != 2 or not all(type(end) in (int, float) for end in ends):
        raise StateError(f"expected the lowest and the highest score, but got {str(ends)[:100]}")
    names = said.get("class_names") or []
    if not all(isinstance(name, str) for name in names):
        raise StateError(f"expected names of classes, but got {str(names)[:100]}")
    if names and head.kind == "classification" and len(names) != head.num_classes:
        raise StateError(f"expected {counted(head.num_classes, 'class name')}, but got {len(names)}")


def save_package(directory: Path, package: Package) -> None:
    """Write a package into `directory`, which must not exist or be empty.

    Raises:
        StateError: if it cannot be written.
    """
    try:
        _write_package(directory, package)
    except (OSError, SafetensorError) as error:
        raise StateError(
            f"cannot write the package: {one_line(error)}",
            where=str(directory),
            hint="check that the disk has free space",
        ) from error


def _write_package(directory: Path, package: Package) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    weights = {**package.model.state_dict(), "embeddings": package.model.embeddings}
    description = {
        "format": _FORMAT,
        **_described(package.model),
        "metadata": package.metadata,
    }
    if referred := package.model.given_weights():
        description[_PRETRAINED][_REFERENCE] = _left_out(package.model.config.pretrained, referred, weights)
    save_weights(directory / WEIGHTS, weights)
    write_json(directory / CONFIG, description)
    write_json(directory / VOCABULARY, package.vocabulary)
    packed: tuple[str, ...] = _PACKED
    if package.tokenizer_files:
        write_json(directory / TOKENIZER, package.tokenizer_files)
        packed = (*_PACKED, TOKENIZER)
    write_digests(directory, packed)


@names_its_folder
def load_package(directory: Path) -> Package:
    """Read a package, on the CPU and in evaluation mode.

    Raises:
        StateError: if a file is missing, does not match its digest, has another format or does not fit the
        others.
    """
    check_folder(directory, "a model", _WRITERS)
    digests = read_json(directory / DIGESTS)
    check_digests(directory, digests, (*_PACKED, TOKENIZER) if TOKENIZER in digests else _PACKED)
    description = read_json(directory / CONFIG)
    if description["format"] != _FORMAT:
        raise StateError(
            f"expected format {_FORMAT}, but got {description['format']}",
            where=str(directory / CONFIG),
            hint=_NEWER,
        )
    weights = load_weights(directory / WEIGHTS)
    weights |= _referred(description.get(_PRETRAINED, {}).get(_REFERENCE))
    embeddings = weights["embeddings"]
    if not description["config"]["train_embeddings"] or _PRETRAINED in description:
        del weights["embeddings"]
    try:
        model = _model_of(description, embeddings, weights)
    except ConfigError as error:
        raise StateError(error.message, where=str(directory / CONFIG), hint=_NEWER) from error
    files = read_json(directory / TOKENIZER) if TOKENIZER in digests else {}
    make_tokenizer(description["metadata"]["tokenizer"], files)  # refuses what is none
    return Package(model.eval(), read_json(directory / VOCABULARY), description["metadata"], files)


def _left_out(
    name: str, parts: Mapping[str, Sequence[str]], weights: dict[str, torch.Tensor]
) -> dict[str, Any]:
    """Take the weights of encoders that nothing was trained of out of a package; what stands for them."""
    for part, names in parts.items():
        own = {one: weights.pop(part + one) for one in names}
    return {"name": name, "digest": digest_of(own), "parts": list(parts)}


def _referred(reference: Mapping[str, Any] | None) -> dict[str, torch.Tensor]:
    """The weights that `_left_out` took out of a package; none where it did not.

    Raises:
        StateError: if the encoder is not where it was, or is another one.
    """
    if reference is None:
        return {}
    from pipeline.training import pretrained

    try:
        given = pretrained.read_weights(pretrained.opened(reference["name"]))
    except PipelineError as error:
        raise StateError(
            f"cannot load the frozen encoder, whose weights are stored outside the package: {error.message}",
            hint=f"put the encoder that the model was trained with at `{reference['name']}`",
        ) from error
    if digest_of(given) != reference["digest"]:
        raise StateError(
            f"the encoder at `{reference['name']}` is not the encoder that the model was trained with",
            hint=f"put the original encoder of the training at `{reference['name']}`",
        )
    return {part + one: value for part in reference["parts"] for one, value in given.items()}


def digest_of(weights: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 of weights: of their names, shapes and numbers."""
    found = hashlib.sha256()
    for name, value in sorted(weights.items()):
        found.update(f"{name} {tuple(value.shape)} {value.dtype}\n".encode())
        found.update(value.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()


def _model_of(
    description: Mapping[str, Any], embeddings: torch.Tensor, weights: Mapping[str, torch.Tensor]
) -> Rationalizer:
    """The model that a file describes, with its weights.

    Raises:
        StateError: if the weights have other names or shapes; found before memory is taken for the model, of
            which a file can ask for any amount.
    """
    given = _given(description, embeddings, weights)
    with torch.device("meta"):
        planned = _as_described(description, _on_meta(given)).state_dict()
    shapes, wanted = (
        {name: tuple(value.shape) for name, value in held.items()} for held in (weights, planned)
    )
    if wrong := sorted(name for name in shapes | wanted if shapes.get(name) != wanted.get(name)):
        name = wrong[0]
        got = f"has shape {shapes[name]}" if name in shapes else "is missing"
        expected = f"shape {wanted[name]}" if name in wanted else "no such weight"
        raise StateError(f"the weights do not match the model: `{name}` {got}, but {expected} was expected")
    model = _as_described(description, given)
    say_defaults(model.config.defaults_for(description["config"]), "the model's config")
    model.load_state_dict(weights)
    return model


def is_pretrained(package_dir: Path) -> bool:
    """Whether the encoders of a package's model were pretrained, so that loading it needs transformers."""
    return _PRETRAINED in read_json(package_dir / CONFIG)


def save_best(
    directory: Path, model: Rationalizer, scores: Mapping[str, Any], predictions: list[dict[str, Any]]
) -> None:
    """Replace a trial's best weights, their scores and the predictions to show; without the word vectors."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    save_weights(directory / WEIGHTS, model.state_dict())
    write_json(directory / CONFIG, _described(model))
    write_json(directory / BEST_SCORES, scores)
    write_json(directory / BEST_PREDICTIONS, predictions)
    write_digests(directory, _OF_BEST)


@names_its_folder
def load_best(directory: Path, embeddings: torch.Tensor) -> Rationalizer:
    """The model that `save_best` wrote, in evaluation mode.

    Args:
        directory: a folder written by `save_best`.
        embeddings: the features' word vectors; a model whose encoders are pretrained has no use for them.

    Raises:
        StateError: if a file is missing or damaged, or the word vectors have another size.
    """
    check_digests(directory, read_json(directory / DIGESTS), _OF_BEST)
    description = read_json(directory / CONFIG)
    return _model_of(description, embeddings, load_weights(directory / WEIGHTS)).eval()


@names_its_folder
def load_scores(directory: Path) -> BestEpoch:
    """The epoch that `save_best` wrote.

    Raises:
        StateError: if the file is missing, does not match its digest or holds something else.
    """
    check_digest(directory, BEST_SCORES)
    try:
        return BestEpoch.of_json(read_json(directory / BEST_SCORES))
    except ValueError as error:
        raise StateError(str(error), where=str(directory / BEST_SCORES)) from error


def save_history(directory: Path, history: Sequence[Epoch]) -> None:
    """Write a trial's epochs."""
    write_json(directory / HISTORY, [epoch.as_json() for epoch in history])


@names_its_folder
def load_history(directory: Path) -> list[Epoch]:
    """The epochs that `save_history` wrote.

    Raises:
        StateError: if the file is missing or holds something else.
    """
    try:
        return [Epoch.of_json(one) for one in read_json(directory / HISTORY)]
    except ValueError as error:
        raise StateError(str(error), where=str(directory / HISTORY)) from error


@names_its_folder
def load_predictions(path: Path) -> list[dict[str, Any]]:
    """The texts that `save_best` wrote, each with its marks.

    Raises:
        StateError: if the file is missing or holds something else.
    """
    found = read_json(path)
    for text in found:
        own = [text, *(text.get("sides") or ())]
        marks = [one[key] for one in own for key in _MARKS if one.get(key) is not None]
        if not all(isinstance(token, str) for token in text["tokens"]) or not all(
            type(mark) in (int, float) for row in marks for mark in row
        ):
            raise StateError(f"expected texts with marks, but got {str(text)[:200]}", where=str(path))
    return list(found)


def _described(model: Rationalizer) -> dict[str, Any]:
    """What has to be known of a model besides its weights, as JSON."""
    found: dict[str, Any] = {
        "method": method_of(model.config),
        "config": model.config.to_dict(),
        "task": model.task.to_dict(),
        "threshold": model.threshold,
    }
    if model.side_thresholds:
        found[_SIDE_THRESHOLDS] = model.side_thresholds
    if model.pretrained is not None:
        found[_PRETRAINED] = {name: getattr(model.pretrained, name) for name in _OF_PRETRAINED}
        if model.pretrained.tokenizer:
            found[_PRETRAINED][_SPLITS_WORDS] = model.pretrained.tokenizer
    return found


def _given(
    description: Mapping[str, Any], embeddings: torch.Tensor, weights: Mapping[str, torch.Tensor]
) -> torch.Tensor | Pretrained:
    """What a described model is made from: word vectors, or an encoder with weights among the model's."""
    if _PRETRAINED not in description:
        return embeddings
    return Pretrained(
        **{name: description[_PRETRAINED][name] for name in _OF_PRETRAINED},
        piece_ids=weights["lexicon.piece_ids"],
        first_piece=weights["lexicon.first_piece"],
        tokenizer=description[_PRETRAINED].get(_SPLITS_WORDS, ""),
    )


def _on_meta(given: torch.Tensor | Pretrained) -> torch.Tensor | Pretrained:
    """The same without its content."""
    if isinstance(given, torch.Tensor):
        return given.to("meta")
    return dataclasses.replace(
        given, piece_ids=given.piece_ids.to("meta"), first_piece=given.first_piece.to("meta")
    )


def _as_described(description: Mapping[str, Any], embeddings: torch.Tensor | Pretrained) -> Rationalizer:
    """A model with fresh weights from what `_described` said of it.

    A description from before there were other methods names none, and knows no threshold.
    """
    found = method(description.get("method", INFOCAL))
    config = found.config_class().from_mapping(description["config"])
    model: Rationalizer = found.trainer_class().model_class(
        config, Task.of_dict(description["task"]), embeddings
    )
    model.threshold = float(description.get("threshold", HALF))
    thresholds = [float(one) for one in description.get(_SIDE_THRESHOLDS, ())]
    if len(thresholds) != len(model.side_thresholds):
        raise StateError(
            f"expected {counted(len(model.side_thresholds), 'threshold')} of side targets, "
            f"but got {len(thresholds)}"
        )
    model.side_thresholds = thresholds
    return model


def say_defaults(filled: Mapping[str, Any], where: Path | str) -> None:
    """Say which hyper-parameters something written by an older version had no word of."""
    if filled:
        listed = ", ".join(f"`{name}` = {'none' if value == '' else value}" for name, value in filled.items())
        logger.info(
            "%s was written by an older version without some hyper-parameters; defaults are used: %s",
            where,
            listed,
        )


def config_of_best(directory: Path) -> Mapping[str, Any]:
    """The hyper-parameters that a checkpoint's best epoch was stored with."""
    return dict(read_json(directory / BEST / CONFIG)["config"])


def save_state(directory: Path, trainer: Trainer, progress: Mapping[str, Any]) -> None:
    """Write the trainer's full state and the loop's own `progress` (JSON values) into `directory`."""
    content = io.BytesIO()
    torch.save({"trainer": trainer.state_dict(), "progress": dict(progress)}, content)
    # not by torch, to which a full disk is an inner error of its own
    (directory / STATE).write_bytes(content.getbuffer())
    write_digests(directory, (STATE,))


@names_its_folder
def load_state(directory: Path, trainer: Trainer) -> dict[str, Any]:
    """Put the trainer where `save_state` left it; returns the `progress` stored with it.

    Raises:
        StateError: if the file is missing or damaged, or belongs to other hyper-parameters.
    """
    check_digests(directory, read_json(directory / DIGESTS), (STATE,))
    path = directory / STATE
    try:
        with warnings.catch_warnings(
            action="ignore"
        ):  # of other versions of the format, before it is refused
            state = torch.load(path, map_location=trainer.device, weights_only=True)
        progress: dict[str, Any] = dict(state["progress"])
        trainer.load_state_dict(state["trainer"])
        say_defaults(trainer.config.defaults_for(state["trainer"]["config"]), path)
    except pickle.UnpicklingError as error:  # PyTorch's own message says how to run what is in it
        raise StateError("the file is not a checkpoint, or it contains code", where=str(path)) from error
    except BROKEN as error:
        raise StateError(f"cannot read the checkpoint: {one_line(error)}", where=str(path)) from error
    return progress


@names_its_folder
def check(directory: Path) -> None:
    """See whether a checkpoint is whole.

    Raises:
        StateError: if a file is missing or does not match its digest.
    """
    check_digests(directory, read_json(directory / DIGESTS), (STATE,))
    check_digests(directory / BEST, read_json(directory / BEST / DIGESTS), _OF_BEST)


def copy_tree(source: Path, target: Path) -> None:
    """Copy a folder where there is one; nothing where there is none yet."""
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)

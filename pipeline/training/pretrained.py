"""Pretrained encoders from a folder or a hub's cache, and the pieces of the words of features.

Weights are read from safetensors alone, and no code that comes with them is run.
"""

import hashlib
import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import torch

from feature_store.cache import as_numpy
from feature_store.store import Features, derived
from feature_store.wording import counted
from infocal.config import MethodConfig
from infocal.encoder_registry import ENCODERS
from infocal.nn.pieces import EXTRA, Pretrained, longest_window
from pipeline.base.errors import PipelineError, one_line
from pipeline.training.loaders import embeddings_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

logger = logging.getLogger("pipeline.training.pretrained")

STEP, VERSION = "pieces", 1
_FLAG = "--set pretrained"
_CONFIG, _WEIGHTS, _INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl", "*.h5", "*.msgpack")
_WANTED = "a folder with config.json, model.safetensors and tokenizer.json"
_FETCHED = ["*.json", "*.txt", "*.model", "*.safetensors"]
"""Files of a hub's model that are wanted: no pickles, no code."""
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?", re.ASCII)
_LEAST_SHARE = 0.9
"""Least share of an encoder's vectors that its tokenizer has pieces for: some have a few to spare, so that
their number is a multiple of 64 or 128."""
_MANY_UNKNOWN = 0.05
"""Share of the vocabulary that the tokenizer does not know, from which on it is said."""


@dataclass(frozen=True, slots=True)
class PretrainedFiles:
    """A pretrained encoder where it lies."""

    folder: Path
    name: str
    """As the user gave it."""
    architecture: dict[str, Any]
    tokenizer: "PreTrainedTokenizerBase"
    prefix: list[int]
    suffix: list[int]

    @property
    def tokenizer_digest(self) -> str:
        """Of everything that decides how a word is split."""
        text: str = self.tokenizer.backend_tokenizer.to_str()
        return hashlib.sha256(text.encode()).hexdigest()


def inputs_of(features: Features, config: MethodConfig) -> torch.Tensor | Pretrained:
    """What a model of this config is given for its words: their vectors, or a pretrained encoder.

    Raises:
        PipelineError: if the pretrained encoder is not there, damaged, or none.
    """
    if not ENCODERS[config.encoder].is_pretrained:
        return embeddings_of(features)
    if not config.pretrained:
        raise PipelineError(
            f"the encoder `{config.encoder}` needs `pretrained`, a folder or a model's name on the hub",
            hint="add `--set pretrained=FOLDER`",
        )
    source = opened(config.pretrained)
    table = pieces(features, source)
    weights = read_weights(source)
    piece_ids, first_piece = table
    return Pretrained(
        source.architecture,
        source.prefix,
        source.suffix,
        piece_ids,
        first_piece,
        weights,
        source.tokenizer.backend_tokenizer.to_str(),
    )


def opened(name: str) -> PretrainedFiles:
    """Find a pretrained encoder and read all but its weights.

    Args:
        name: a folder, or a model's name on the hub; a model that was fetched before needs no network.

    Raises:
        PipelineError: if there is none, it has no weights or pickled ones, or its tokenizer does not fit.
    """
    _quiet()
    folder = _folder(name)
    where = f"{_FLAG}={name}"
    _check_files(folder, where)
    architecture = _architecture(folder, where)
    tokenizer = _tokenizer(folder, where)
    num_vectors = architecture.get("vocab_size", 0)
    if not _LEAST_SHARE * num_vectors <= len(tokenizer) <= num_vectors:
        raise PipelineError(
            f"the tokenizer has {len(tokenizer)} pieces, but the encoder has {num_vectors} vectors",
            where=where,
            hint="the folder must hold the tokenizer that the encoder was trained with",
        )
    longest_window(architecture)  # says what it lacks
    # one word between the marks: what stands before it and what behind
    alone = tokenizer("a", add_special_tokens=False)["input_ids"]
    marked = tokenizer("a")["input_ids"]
    start = next((i for i in range(len(marked)) if marked[i : i + len(alone)] == alone), 0)
    prefix, suffix = marked[:start], marked[start + len(alone) :]
    if not prefix and not suffix:
        raise PipelineError(
            "the tokenizer adds no special token such as [CLS] around a text",
            where=where,
            hint="use a BERT-like encoder, whose tokenizer adds one",
        )
    return PretrainedFiles(folder, name, architecture, tokenizer, prefix, suffix)


def _quiet() -> None:
    """Import transformers and let it be silent: what matters is raised or logged by us.

    Raises:
        PipelineError: if it is not installed.
    """
    try:
        from transformers.utils import logging as library
    except ImportError as error:
        raise PipelineError(
            "`encoder` transformer needs the package transformers, which is not installed",
            where="--set encoder=transformer",
            hint=f"pip install '{EXTRA}'",
        ) from error
    library.set_verbosity_error()
    library.disable_progress_bar()
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)


def _folder(name: str) -> Path:
    """Where the files of a model lie on this machine; fetched from the hub where they do not."""
    folder = Path(name).expanduser()
    if folder.is_dir():
        return folder
    if folder.exists() or not _HUB_NAME.fullmatch(name):
        raise PipelineError(
            f"no folder `{name}`" if not folder.exists() else f"`{name}` is a file, but a folder is needed",
            where=_FLAG,
            hint=f"name a model on the hub, or {_WANTED}",
        )
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, allow_patterns=_FETCHED, local_files_only=True))
    except (OSError, ValueError) as error:
        logger.info("`%s` was not fetched before (%s)", name, type(error).__name__)
    logger.info("fetching `%s` from the hub", name)
    try:
        return Path(snapshot_download(name, allow_patterns=_FETCHED))
    except Exception as error:  # each version of the hub's client has its own
        raise PipelineError(
            f"`{name}` is not a folder on this machine, and cannot be fetched from the hub: "
            f"{_first_line(error)}",
            where=_FLAG,
            hint=f"without a network, name {_WANTED}",
        ) from error


def _check_files(folder: Path, where: str) -> None:
    if not (folder / _CONFIG).is_file():
        raise PipelineError(
            f"expected {_CONFIG} in `{folder}`, but there is none",
            where=where,
            hint="give the folder that directly contains the model's files",
        )
    if (folder / _WEIGHTS).is_file() or (folder / _INDEX).is_file():
        return
    pickled = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickled:
        raise PipelineError(
            f"expected {_WEIGHTS} in `{folder}`, but got {pickled[0]}, which may run code when it is read",
            where=where,
            hint="if you trust this file, load the model and save it with `save_pretrained`, which writes "
            "safetensors",
        )
    raise PipelineError(
        f"expected {_WEIGHTS} in `{folder}`, but it holds no weights",
        where=where,
        hint=f"name {_WANTED}, as `save_pretrained` writes them",
    )


def _first_line(error: Exception) -> str:
    """What an error says first: the hub's client adds advice of several sentences."""
    return str(error).strip().partition("\n")[0] or one_line(error)


def _architecture(folder: Path, where: str) -> dict[str, Any]:
    from transformers import AutoConfig

    try:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PipelineError(
            f"{_CONFIG} names no architecture that transformers knows: {one_line(error)}", where=where
        ) from error
    found: dict[str, Any] = json.loads(json.dumps(config.to_dict()))
    # where it lay, and what it was trained for, are no part of what it is
    return {k: v for k, v in found.items() if k not in ("_name_or_path", "id2label", "label2id", "auto_map")}


def _tokenizer(folder: Path, where: str) -> "PreTrainedTokenizerBase":
    from transformers import AutoTokenizer

    try:
        # a word in the middle of a text, to tokenizers for which a space is part of a piece
        found = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=False, local_files_only=True, add_prefix_space=True
        )
    except Exception as error:  # a broken tokenizer.json is a bare Exception of the Rust library
        raise PipelineError(f"cannot read the tokenizer: {one_line(error)}", where=where) from error
    if not found.is_fast or (found.unk_token_id is None and found.pad_token_id is None):
        raise PipelineError(
            "expected a fast tokenizer with an unknown or a padding token, but got a tokenizer of class "
            f"{type(found).__name__}",
            where=where,
            hint="name a model whose folder has a `tokenizer.json`",
        )
    return found


def read_weights(source: PretrainedFiles) -> dict[str, torch.Tensor]:
    """The encoder's weights, float32, without heads.

    Raises:
        PipelineError: if the file is damaged, or lacks some of them.
    """
    from transformers import AutoModel

    where = f"{_FLAG}={source.name}"
    try:
        model, report = AutoModel.from_pretrained(
            source.folder,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
    except Exception as error:  # of safetensors, of torch, or transformers' own
        raise PipelineError(f"cannot read the weights: {one_line(error)}", where=where) from error
    lacking = sorted(name for name in report["missing_keys"] if not name.startswith("pooler."))
    if lacking:
        raise PipelineError(
            f"{counted(len(lacking), 'tensor of the architecture is', 'tensors of the architecture are')} "
            f"missing from the weights, such as `{lacking[0]}`",
            where=where,
            hint=f"check that {_CONFIG} and {_WEIGHTS} come from the same model",
        )
    found = model.state_dict()
    return {name: value for name, value in found.items() if not name.startswith("pooler.")}


def pieces(features: Features, source: PretrainedFiles) -> tuple[torch.Tensor, torch.Tensor]:
    """The pieces of each word of the features' vocabulary, cached beside them under the tokenizer's digest.

    Returns:
        `piece_ids` and `first_piece` of `infocal.nn.pieces.Pretrained`.
    """

    def build() -> pa.Table:
        rows = split_words(features.vocabulary.tokens, source)
        return pa.Table.from_pydict({STEP: pa.array(rows, pa.list_(pa.int32()))})

    parameters: Mapping[str, Any] = {"tokenizer": source.tokenizer_digest}
    column = derived(features, STEP, VERSION, parameters, build)[STEP].combine_chunks()
    lengths = np.diff(as_numpy(column.offsets))
    first = np.concatenate([[0], np.cumsum(lengths)])
    values = as_numpy(column.flatten())
    return torch.from_numpy(values.astype(np.int64)), torch.from_numpy(first.astype(np.int64))


def split_words(words: list[str], source: PretrainedFiles) -> list[list[int]]:
    """The pieces of each word; none of the first one, the padding, and the unknown piece where there is none.

    The second word, which stands for all unknown ones, is the unknown piece.
    """
    tokenizer = source.tokenizer
    unknown = tokenizer.unk_token_id if tokenizer.unk_token_id is not None else tokenizer.pad_token_id
    # a tokenizer keeps its marks whole: a text that spells one has no mark
    safe = ["" if word in tokenizer.all_special_tokens else word for word in words[2:]]
    found = tokenizer(safe, add_special_tokens=False)["input_ids"] if safe else []
    rows = [[], [unknown], *([row or [unknown] for row in found])]
    lost = sum(row == [unknown] for row in rows[2:])
    if found and lost / len(found) > _MANY_UNKNOWN:
        logger.warning(
            "the tokenizer of `%s` cannot represent %s of the %s: check that it was made for this language",
            source.name,
            f"{lost:,}",
            counted(len(found), "word", spec=","),
        )
    return rows

"""A pretrained encoder of a few units: in memory, and as a folder such as `save_pretrained` writes."""

import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from infocal.encoder_registry import ENCODERS
from infocal.nn.pieces import Pretrained
from tests.small_model import NUM_WORDS, random_embeddings

WORD_ENCODERS = tuple(name for name, kind in ENCODERS.items() if not kind.is_pretrained)
"""Encoders that are made from word vectors."""
CLS, SEP, UNKNOWN = 2, 3, 1
NUM_PIECES = 24
ARCHITECTURE: dict[str, Any] = {
    "model_type": "bert",
    "vocab_size": NUM_PIECES,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.5,
    "pad_token_id": 0,
}


def small_pretrained(seed: int = 0, weights: dict[str, Tensor] | None = None, **changes: Any) -> Pretrained:
    """Twelve words of one, two or three pieces of their own; `changes` of the architecture on top."""
    lengths = torch.tensor([0, 1, *(1 + word % 3 for word in range(2, NUM_WORDS))])
    generator = torch.Generator().manual_seed(seed)
    return Pretrained(
        architecture=ARCHITECTURE | changes,
        prefix=[CLS],
        suffix=[SEP],
        piece_ids=torch.randint(4, NUM_PIECES, (int(lengths.sum()),), generator=generator),
        first_piece=torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)]),
        weights=weights,
    )


def given_to(encoder: str) -> Tensor | Pretrained:
    """What a small model with this encoder is made from."""
    return small_pretrained() if ENCODERS[encoder].is_pretrained else random_embeddings()


def naming(encoder: str) -> dict[str, str]:
    """The hyper-parameters that name an encoder."""
    return {"encoder": encoder} | ({"pretrained": "small"} if ENCODERS[encoder].is_pretrained else {})


def write_encoder(folder: Path, words: list[str], *, num_vectors: int | None = None, seed: int = 0) -> Path:
    """A folder with a random encoder and a tokenizer whose pieces are these words and all letters."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel

    letters = "abcdefghijklmnopqrstuvwxyz"
    entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *letters, *(f"##{letter}" for letter in letters)]
    entries += [word for word in dict.fromkeys(words) if word not in entries]
    vocabulary = {piece: number for number, piece in enumerate(entries)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=10_000))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", SEP), ("[CLS]", CLS))
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    described = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **{f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep")},
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(described))
    torch.manual_seed(seed)
    shape = {name: value for name, value in ARCHITECTURE.items() if name != "model_type"}
    config = BertConfig(**shape | {"vocab_size": num_vectors or len(entries)})
    BertModel(config, add_pooling_layer=False).save_pretrained(folder)
    return folder

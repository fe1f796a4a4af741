"""Words that a vocabulary lacks, as pieces of a pretrained tokenizer."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

UNKNOWN = 1
"""Number of the word that stands for all words that a vocabulary lacks."""
_KEPT = 1 << 16
"""Words whose pieces are kept in memory."""


@dataclass(frozen=True, slots=True)
class FurtherWords:
    """Pieces of the words that a vocabulary of V words lacks; the numbers of these words are V, V + 1, ..."""

    piece_ids: Int[Tensor, " N"]
    """The pieces of all of them, one word after the other."""
    first_piece: Int[Tensor, " K1"]
    """Where the pieces of each word begin, then N."""


class Splitter:
    """Splits single words into pieces, as a model was given those of its vocabulary.

    Args:
        tokenizer: JSON of a tokenizer of the package `tokenizers`.
        unknown: the piece for what has none.
        num_words: V, words of the vocabulary.
    """

    def __init__(self, tokenizer: str, unknown: int, num_words: int) -> None:
        from tokenizers import Tokenizer  # only with pretrained encoders

        self.num_words, self._unknown = num_words, unknown
        self._tokenizer: Any = Tokenizer.from_str(tokenizer)
        # settings for whole texts, which some models' files have
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        added = self._tokenizer.get_added_tokens_decoder().values()
        self._marks = {str(token) for token in added if token.special}
        self.pieces = functools.lru_cache(_KEPT)(self._pieces)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Splitter":
        """Itself: nothing in it changes."""
        return self

    def _pieces(self, word: str) -> tuple[int, ...]:
        """The pieces of a word; the unknown one where there is none, and for a text that spells a mark."""
        if word in self._marks:
            return (self._unknown,)
        found = self._tokenizer.encode(word, add_special_tokens=False).ids
        return tuple(found) or (self._unknown,)

    def knows(self, word: str) -> bool:
        """Whether a word has other pieces than the unknown one."""
        return self.pieces(word) != (self._unknown,)

    def further(self, words: Sequence[str]) -> FurtherWords:
        """The pieces of words, numbered in this order."""
        rows = [self.pieces(word) for word in words]
        lengths = torch.tensor([0, *map(len, rows)])
        return FurtherWords(torch.tensor([piece for row in rows for piece in row]), lengths.cumsum(0))


@functools.lru_cache(4)
def splitter_of(tokenizer: str, unknown: int, num_words: int) -> Splitter:
    """The splitter of these, made once."""
    return Splitter(tokenizer, unknown, num_words)


def numbered(
    token_ids: Int[Tensor, "B T"], texts: Sequence[Sequence[str]], splitter: Splitter
) -> tuple[Int[Tensor, "B T"], FurtherWords | None]:
    """Numbers of words in which those that the vocabulary lacks have their own, and the pieces of these.

    Args:
        token_ids: with one number for all unknown words, `UNKNOWN`.
        texts: the tokens of each text; may be missing where no word is unknown.
        splitter: of the model that reads them.
    """
    places = (token_ids == UNKNOWN).nonzero().tolist()
    if not places:
        return token_ids, None
    own: dict[str, int] = {}
    for row, place in places:
        own.setdefault(texts[row][place], splitter.num_words + len(own))
    found = token_ids.clone()
    for row, place in places:
        found[row, place] = own[texts[row][place]]
    return found, splitter.further(list(own))

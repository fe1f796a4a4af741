"""Words and their numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

PAD = "<pad>"
UNK = "<unk>"
PAD_ID = 0
UNK_ID = 1


class Vocabulary:
    """Words of the training split; `<pad>` is 0 and `<unk>`, which stands for every other word, is 1."""

    def __init__(self, tokens: Sequence[str]) -> None:
        """Args: tokens: words in the order of their numbers, the two special ones first.

        Raises:
            ValueError: if the special words are not first, or a word stands twice.
        """
        self.tokens = list(tokens)
        if self.tokens[:2] != [PAD, UNK]:
            raise ValueError(f"a vocabulary starts with {PAD} and {UNK}, but got {self.tokens[:2]}")
        self._ids = {token: number for number, token in enumerate(self.tokens) if number != PAD_ID}
        if len(self._ids) != len(self.tokens) - 1:
            twice = next(token for token, count in Counter(self.tokens).items() if count > 1)
            raise ValueError(f"the word {twice!r} stands twice in the vocabulary")

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._ids

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Numbers of the words, 1 for an unknown one; never 0, even for a text that spells `<pad>`."""
        return [self._ids.get(token, UNK_ID) for token in tokens]


def build_vocabulary(counts: Counter[str], min_count: int) -> tuple[Vocabulary, npt.NDArray[np.int64]]:
    """Vocabulary by falling count, then by spelling, and the count of each word, int64 (V,).

    The count of `<unk>` is that of all words seen fewer than `min_count` times.
    """
    words = {word: count for word, count in counts.items() if word not in (PAD, UNK)}
    kept = sorted((word for word, count in words.items() if count >= min_count), key=lambda w: (-words[w], w))
    frequencies = np.zeros(len(kept) + 2, dtype=np.int64)
    frequencies[2:] = [words[word] for word in kept]
    frequencies[UNK_ID] = counts.total() - frequencies.sum()
    return Vocabulary([PAD, UNK, *kept]), frequencies


def encode_column(tokens: pa.ListArray, words: pa.StringArray) -> pa.ListArray:
    """Numbers for a column of token lists, list<int32>; `words` are the vocabulary's in order."""
    flat = tokens.flatten()
    found = pc.max_element_wise(pc.fill_null(pc.index_in(flat, value_set=words), UNK_ID), UNK_ID)
    lengths = np.concatenate([[0], np.cumsum(pc.list_value_length(tokens).to_numpy())])
    return pa.ListArray.from_arrays(pa.array(lengths, pa.int32()), found.cast(pa.int32()))

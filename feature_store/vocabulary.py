"""Words and their numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence

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
            raise ValueError(f"the word {twice!r} is in the vocabulary twice")

    def __len__(self) -> int:
        return len(self.tokens)

    def __contains__(self, token: str) -> bool:
        return token in self._ids

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Numbers of the words, 1 for an unknown one; never 0, even for a text that spells `<pad>`."""
        return [self._ids.get(token, UNK_ID) for token in tokens]

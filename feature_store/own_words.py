"""The user's dictionary and stop words of one corpus, and whether they change anything in its texts."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from feature_store.errors import quoted
from feature_store.segmenter import DictionaryWord, Segmenter, is_one_block
from feature_store.wording import counted

_NAMED = 5
"""Entries that a note names."""


@dataclass(frozen=True, slots=True)
class OwnWords:
    """What the user's two files hold, and which of it the texts have shown so far."""

    words: tuple[DictionaryWord, ...] = ()
    stop_words: frozenset[str] = frozenset()
    _texts: frozenset[str] = field(init=False)
    _found: set[str] = field(default_factory=set, init=False)
    _left_out: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_texts", frozenset(word.text for word in self.words))

    def see(self, tokens: Sequence[str]) -> None:
        """Remember which entries a text has, from its words with the stop words among them."""
        if self.words:
            self._found.update(self._texts.intersection(tokens))
        if self.stop_words:
            self._left_out.update(self.stop_words.intersection(tokens))

    def notes(self) -> list[str]:
        """How many entries of each file the texts have, and which ones no text can have."""
        notes = []
        if self.words:
            texts = [word.text for word in self.words]
            notes.append(_note("dictionary", "words", texts, self._found, never_cut(self.words)))
        if self.stop_words:
            never = [text for text in sorted(self.stop_words) if len(text) > 1 and not is_one_block(text)]
            notes.append(_note("stop words", "entries", self.stop_words, self._left_out, never))
        return notes


def never_cut(words: Sequence[DictionaryWord]) -> list[str]:
    """Entries of a dictionary that no text is cut into: with a blank or a mark, or too rare for their length.

    A text is cut at blanks and marks before the dictionary is asked; and where the parts of an entry are
    likelier than it is when it stands alone, they are so beside other words.
    """
    cut = Segmenter(words).cut
    return [word.text for word in words if cut(word.text) != [word.text]]


def _note(
    what: str, unit: str, entries: Collection[str], found: Collection[str], never: Iterable[str]
) -> str:
    apart = list(dict.fromkeys(text for text in never if text not in found))
    said = f"{what}: {len(found)} of {len(set(entries))} {unit} occur in the texts"
    if not apart:
        return said
    named = quoted((text[:30] for text in apart), _NAMED)
    which = counted(len(apart), "has", "have")
    parts = "it" if len(apart) == 1 else "them"
    return f"{said}; {which} no effect, because the tokenizer always splits {parts}: {named}"

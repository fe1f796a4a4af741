"""In what script a text is, as far as that decides what can split it into words.

Chinese, Japanese, Thai, Lao, Burmese and Khmer part no words by blanks. jieba cuts Chinese; for the others
there is no tokenizer here. Korean, and every script whose words stand apart, is split at blanks and
punctuation.
"""

import re
from collections import Counter
from collections.abc import Mapping

CHINESE, JAPANESE = "Chinese", "Japanese"

_LETTERS = {
    CHINESE: "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003fffd",
    JAPANESE: "\u3041-\u3096\u30a1-\u30fa\uff66-\uff9d",
    "Thai": "\u0e01-\u0e3a\u0e40-\u0e4e",
    "Lao": "\u0e81-\u0ebd\u0ec0-\u0ecd",
    "Burmese": "\u1000-\u103f\u1050-\u108f\uaa60-\uaa7a",
    "Khmer": "\u1780-\u17d3",
}
"""Language -> letters that it alone has; Japanese has those of Chinese besides."""

_FINDERS = {name: re.compile(f"[{letters}]+") for name, letters in _LETTERS.items()}
_OTHER_WORD = re.compile(rf"[^\W\d_{''.join(_LETTERS.values())}]+")
_UNSPACED = re.compile(f"[{''.join(_LETTERS.values())}]")

_SURVEYED_CHARACTERS = 500
_KANA_RATE = 0.1
"""Japanese has more kana among its letters than this, Chinese next to none."""

_LETTERS_PER_WORD = 2
"""So many letters of such a script weigh as much as a word of another."""

_LONGEST_WORDS = {CHINESE: 5.0, JAPANESE: 5.0}
_LONGEST_ELSEWHERE = 10.0
"""Mean length above which tokens are no words: those of Chinese have 1.7 letters, those of Thai about 4."""

_CLAUSE_RATE = 0.05
"""Share of the tokens below which it is not worth saying."""


def language(text: str) -> str | None:
    """The language without blanks between words that most of the text's beginning is in; None for another."""
    start = text[:_SURVEYED_CHARACTERS]
    counts = {name: sum(map(len, finder.findall(start))) for name, finder in _FINDERS.items()}
    kana = counts.pop(JAPANESE)
    ideographs = counts.pop(CHINESE)
    counts[JAPANESE if kana > _KANA_RATE * (kana + ideographs) else CHINESE] = kana + ideographs
    name, most = max(counts.items(), key=lambda item: item[1])
    return name if most > _LETTERS_PER_WORD * len(_OTHER_WORD.findall(start)) else None


def lacks_blanks(text: str) -> str | None:
    """The language of a text whose pieces between blanks are clauses; None where they are words.

    A text of such a language that was cut already has a blank behind each word.
    """
    name = language(text)
    pieces = text.split()
    length = sum(map(len, pieces)) / max(len(pieces), 1)
    return name if name is not None and length > _LONGEST_WORDS.get(name, _LONGEST_ELSEWHERE) else None


def clauses(words: Mapping[str, int], tokenizer: str) -> str | None:
    """A note that tokens of such a language are whole clauses; None where they are words, or few.

    Args:
        words: how often each token stands in train.
    """
    total = sum(words.values())
    tokens: Counter[str] = Counter()
    letters: Counter[str] = Counter()
    for word, count in words.items():
        name = language(word) if _UNSPACED.search(word) else None
        if name is not None:
            tokens[name] += count
            letters[name] += count * len(word)
    for name, count in tokens.most_common(1):
        length = letters[name] / count
        if count >= _CLAUSE_RATE * total and length > _LONGEST_WORDS.get(name, _LONGEST_ELSEWHERE):
            cure = "give the words as `tokens`"
            if name == CHINESE:
                cure = 'write `tokenizer = "chinese"` to split the texts into words'
            return (
                f"{count} of {total} training tokens are {name} and have {length:.0f} characters on average: "
                f"`{tokenizer}` makes a token of each clause; {cure}"
            )
    return None

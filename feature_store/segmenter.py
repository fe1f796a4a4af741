"""Cuts Chinese text into words: exactly those of jieba, several times faster where rjieba is installed.

jieba first cuts a text into blocks of ideographs, Latin letters, digits and `+ # & . _ % -`, and everything
between them into single characters. Within a block it takes the likeliest sequence of dictionary words, and
then looks by a hidden Markov model for unknown words in each run of single characters. Here rjieba gives the
sequence, in which it agrees with jieba (tests compare them). Its Markov model is not used: its numbers have
fewer digits, which gave other words in 1 of 229,665 blocks of real facts; `_MarkovModel` has jieba's own.
rjieba cannot read a user's dictionary, so where there is one jieba does all of it. Neither package is
imported before a text is cut.
"""

import functools
import importlib.util
import logging
import re
import signal
import warnings
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from feature_store.errors import BadInputError

DICTIONARY, STOP_WORDS = "dictionary", "stop_words"
"""Names of the two files that change the words of a text."""

_BLOCK = re.compile(r"([\u4E00-\u9FD5a-zA-Z0-9+#&._%\-]+)")  # jieba 0.42.1, `re_han_default`
_IDEOGRAPHS = re.compile(r"([\u4E00-\u9FD5]+)")  # jieba 0.42.1, `finalseg.re_han`
_NUMBERS = re.compile(r"([a-zA-Z0-9]+(?:\.\d+)?%?)")  # jieba 0.42.1, `finalseg.re_skip`
_BETWEEN = re.compile("\r\n|.", re.DOTALL)
_REMEMBERED_RUNS = 1 << 16
_MAX_DIGITS = 18
"""Of a frequency: more than any corpus has words, and Python refuses to read thousands."""
_MAX_CHARACTERS = 256
_ENTRY = re.compile(r"(?P<word>.+?)(?:[ \t]+(?P<frequency>[0-9]+))?(?:[ \t]+[a-zA-Z]+)?")
"""jieba 0.42.1's `re_userdict`, with tabs as well as blanks."""

DICTIONARY_FORMAT = 3
"""Raise it when an equal dictionary, or equal stop words, give other words."""


@dataclass(frozen=True, slots=True)
class DictionaryWord:
    """An entry of the user's dictionary."""

    text: str
    frequency: int | None
    """How often it is met; None lets jieba choose a number that keeps the word in one piece."""


def parse_dictionary(lines: Iterable[tuple[int, str]], where: str) -> tuple[DictionaryWord, ...]:
    """Words of a dictionary in jieba's format: `WORD [FREQUENCY] [TAG]` a line, with blanks or tabs between.

    Raises:
        BadInputError: for a frequency of 0, which jieba would apply to every text of the process, a number or
        a word without end, or a file without a word.
    """
    words = []
    for number, line in lines:
        match = _ENTRY.fullmatch(_clean(line))
        if match is None:
            continue  # an empty line
        digits = match["frequency"] or "1"
        if len(digits) > _MAX_DIGITS or int(digits) == 0:
            raise BadInputError(
                f"expected a frequency of at least 1 and at most {_MAX_DIGITS} digits, "
                f"but got {line.strip()[-60:]!r}",
                where=f"{where}:{number}",
            )
        frequency = None if match["frequency"] is None else int(digits)
        if len(match["word"]) > _MAX_CHARACTERS:  # jieba keeps each of its beginnings
            raise BadInputError(
                f"a word of {len(match['word'])} characters; at most {_MAX_CHARACTERS} are supported",
                where=f"{where}:{number}",
            )
        words.append(DictionaryWord(match["word"], frequency))
    if not words:
        raise BadInputError("no word in the dictionary", where=where)
    return tuple(words)


def parse_stop_words(lines: Iterable[tuple[int, str]]) -> frozenset[str]:
    """Words to leave out, one a line; what stands behind a tab, such as a count, is not read."""
    return frozenset(word for _, line in lines if (word := _clean(_clean(line).partition("\t")[0])))


def _clean(line: str) -> str:
    """The line without blanks around it, and without the byte order mark of files that were joined."""
    return line.strip("\ufeff \t\r\n\v\f\u3000")


def is_one_block(text: str) -> bool:
    """Whether the text holds nothing at which every text is cut: no blank, no mark."""
    return _BLOCK.fullmatch(text) is not None


class Segmenter:
    """Cuts texts into words.

    Args:
        words: of the user's dictionary, in the order of its lines.
        fast: whether to use rjieba where it can be used and is installed.
    """

    def __init__(self, words: Sequence[DictionaryWord] = (), *, fast: bool = True) -> None:
        self._words = tuple(words)
        self._fast = fast and not words

    @functools.cached_property
    def cut(self) -> Callable[[str], list[str]]:
        """Cuts a text into words, white space and punctuation included: joined they are the text."""
        if not self._fast or importlib.util.find_spec("rjieba") is None:
            return _load_jieba(self._words).lcut  # type: ignore[no-any-return]
        return _fast_cut()


@functools.lru_cache(2)
def _load_jieba(words: tuple[DictionaryWord, ...]) -> Any:
    jieba = _import_jieba()
    tokenizer = jieba.Tokenizer()
    # What its `initialize` does, without the cache in the temporary folder, where anybody may leave a file
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    for word in words:
        tokenizer.add_word(word.text, word.frequency)
    return tokenizer


def _import_jieba() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # jieba 0.42.1 has escapes and an import that Python has given up
        import jieba
    jieba.setLogLevel(logging.WARNING)
    return jieba


class _FastCut:
    """Cuts a text as jieba does, with rjieba's dictionary."""

    def __init__(self) -> None:
        import rjieba

        self._dictionary_words = functools.partial(rjieba.cut, hmm=False)
        self._is_word = rjieba.has_word
        self._model = _MarkovModel(_import_jieba().finalseg)
        self._unknown_words = functools.lru_cache(_REMEMBERED_RUNS)(self._look_for_words)

    def __call__(self, text: str) -> list[str]:
        words: list[str] = []
        for number, part in enumerate(_BLOCK.split(text)):
            words += self._cut_block(part) if number % 2 else _BETWEEN.findall(part)
        return words

    def _cut_block(self, block: str) -> Iterator[str]:
        run = ""
        for word in self._dictionary_words(block):
            # rjieba joins Latin letters and digits that are no word of the dictionary
            if len(word) == 1 or (word.isascii() and word.isalnum()):
                run += word
                continue
            if run:
                yield from self._unknown_words(run)
                run = ""
            yield word
        if run:
            yield from self._unknown_words(run)

    def _look_for_words(self, run: str) -> tuple[str, ...]:
        """What jieba makes of single characters in a row."""
        if len(run) == 1 or self._is_word(run):
            return tuple(run)
        words: list[str] = []
        for number, part in enumerate(_IDEOGRAPHS.split(run)):
            words += self._model.cut(part) if number % 2 else filter(None, _NUMBERS.split(part))
        return tuple(words)


_fast_cut = functools.cache(_FastCut)
"""One for the whole process: its tables take a moment to build."""


class _MarkovModel:
    """jieba's model of unknown words, with its tables.

    A character begins a word (B), continues in its middle (M), ends it (E) or is a word by itself (S).

    `jieba.finalseg.cut` computes the same, several times slower. Sums are made in its order and equal ones
    settled as it does, by the later letter of B < E < M < S, so that the last digit agrees.
    """

    def __init__(self, finalseg: Any) -> None:
        self._start, self._step = finalseg.start_P, finalseg.trans_P
        emit, nowhere = finalseg.emit_P, finalseg.MIN_FLOAT
        characters = set().union(*(emit[state] for state in "BMES"))
        self._emit = {c: tuple(emit[state].get(c, nowhere) for state in "BMES") for c in characters}
        self._unseen = (nowhere,) * 4

    def cut(self, run: str) -> list[str]:
        """Words of a run of ideographs."""
        states = self._likeliest_states(run)
        words, begin = [], 0
        for end, state in enumerate(states, start=1):
            if state in "ES":
                words.append(run[begin:end])
                begin = end
        return words

    def _likeliest_states(self, run: str) -> list[str]:
        start, step = self._start, self._step
        be, bm, me, mm = step["B"]["E"], step["B"]["M"], step["M"]["E"], step["M"]["M"]
        eb, es, sb, ss = step["E"]["B"], step["E"]["S"], step["S"]["B"], step["S"]["S"]
        at_b, at_m, at_e, at_s = self._emit.get(run[0], self._unseen)
        b, m, e, s = start["B"] + at_b, start["M"] + at_m, start["E"] + at_e, start["S"] + at_s
        came_from = []
        for character in run[1:]:
            at_b, at_m, at_e, at_s = self._emit.get(character, self._unseen)
            b_from_e, b_from_s = e + eb + at_b, s + sb + at_b
            m_from_m, m_from_b = m + mm + at_m, b + bm + at_m
            e_from_b, e_from_m = b + be + at_e, m + me + at_e
            s_from_s, s_from_e = s + ss + at_s, e + es + at_s
            came_from.append(
                {
                    "B": "S" if b_from_s >= b_from_e else "E",
                    "M": "M" if m_from_m >= m_from_b else "B",
                    "E": "M" if e_from_m >= e_from_b else "B",
                    "S": "S" if s_from_s >= s_from_e else "E",
                }
            )
            b, m = max(b_from_e, b_from_s), max(m_from_m, m_from_b)
            e, s = max(e_from_b, e_from_m), max(s_from_s, s_from_e)
        states = ["S" if s >= e else "E"]
        for step_back in reversed(came_from):
            states.append(step_back[states[-1]])
        return states[::-1]


# ------------------------------------------------------------------------------------- in a worker process

Lengths = tuple["array[int]", "array[int]"]
"""Number of words of each text, and number of characters of each word, one text after the other."""

_segmenter: Segmenter | None = None


def start_worker(words: Sequence[DictionaryWord], fast: bool) -> None:
    """Prepare a worker process; an interrupt is left to the process that started it."""
    global _segmenter
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _segmenter = Segmenter(words, fast=fast)


def measure_in_worker(texts: Sequence[str]) -> Lengths:
    """`measure` with the worker's own segmenter."""
    if _segmenter is None:
        raise RuntimeError("this process was not prepared by `start_worker`")
    return measure(_segmenter, texts)


def measure(segmenter: Segmenter, texts: Sequence[str]) -> Lengths:
    """Lengths of the words of each text, which are all that is needed to cut it again."""
    counts, lengths = array("i"), array("i")
    for text in texts:
        words = segmenter.cut(text)
        counts.append(len(words))
        lengths.extend(map(len, words))
    return counts, lengths

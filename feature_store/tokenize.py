"""Splits free text into tokens as a corpus is split, with offsets into the original.

English is split in the style of the beer corpus, Chinese by jieba. The beer corpus is lower-cased, with
punctuation and clitics apart: "It's Good, isn't it?" is `it 's good , is n't it ?`. Words keep inner hyphens,
slashes, dots and apostrophes (`off-white`, `m/d`, `7.5`), and a trailing hyphen or slash (`a-`, `w/`), as
they stand there. Text that is in this form already comes out unchanged; so do 99.8 % of the reviews of the
real corpus, the rest being full of `...this`.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping

from feature_store import tokenize_posts
from feature_store.errors import RequestError, quoted
from feature_store.own_words import OwnWords
from feature_store.segmenter import DICTIONARY, STOP_WORDS, Segmenter, parse_dictionary, parse_stop_words
from feature_store.tokens import Token, without_invisible

__all__ = [
    "ALIASES",
    "TOKENIZERS",
    "ChineseTokenizer",
    "Token",
    "Tokenizer",
    "make_tokenizer",
    "split_at_blanks",
    "tokenize",
]


_ACCENTS = "".join(
    chr(code) for code in range(0x300, 0x3100) if unicodedata.category(chr(code)) in ("Mn", "Mc", "Me")
)
_CHAR = rf"[\w{_ACCENTS}]"  # letters, digits, and accents and vowel signs that are characters of their own
_END = rf"(?!{_CHAR})"
_CLITIC = rf"(?:n['’]t|['’](?:s|re|ve|ll|d|m)){_END}"
_PIECE = re.compile(
    rf"""
    {_CLITIC}
    | (?:\.(?=\d))? {_CHAR}
      (?: (?!{_CLITIC}) (?: {_CHAR} | [-/.&@+'’](?={_CHAR}) | (?<=\d)[,:](?=\d) ) )*
      (?:[-/]+(?!\S))?
    | \.{{2,}} | -{{2,}} | `` | '' | [^\x00-\x7f\s‘’“”]\ufe0f? | \S
    """,
    re.VERBOSE | re.IGNORECASE,
)
_CHUNK = re.compile(r"[^ \t\r\n]+")  # some tokens of the corpus hold a no-break space
_CORPUS_MARK = re.compile(rf"[,!?;:]|\.+|{_CLITIC}")
_CLOSING = "''"
_WRITTEN_AS = str.maketrans({"’": "'", "‘": "'", "“": "``", "”": _CLOSING})


def tokenize(text: str) -> list[Token]:
    """Tokens of an English text in order: all of it but white space and characters without width."""
    return without_invisible(_lower_cased, text)


def tokenize_cased(text: str) -> list[Token]:
    """The same tokens with their capital letters, for corpora that keep them."""
    return without_invisible(_cased, text)


def _lower_cased(text: str) -> list[Token]:
    if text == text.lower() and _stands_apart(text):
        return split_at_blanks(text)
    return [Token(_written(match, text).lower(), *match.span()) for match in _PIECE.finditer(text)]


def _cased(text: str) -> list[Token]:
    if _stands_apart(text):
        return split_at_blanks(text)
    return [Token(_written(match, text), *match.span()) for match in _PIECE.finditer(text)]


def split_at_blanks(text: str) -> list[Token]:
    """What stands between blanks, tabs and line ends, as it is written."""
    return [Token(match[0], *match.span()) for match in _CHUNK.finditer(text)]


def _written(match: re.Match[str], text: str) -> str:
    if match[0] == '"':
        opens = match.start() == 0 or text[match.start() - 1].isspace() or text[match.start() - 1] in "([{"
        return "``" if opens else _CLOSING
    return match[0].translate(_WRITTEN_AS)


def _stands_apart(text: str) -> bool:
    """Whether punctuation stands apart more often than it clings to a word.

    The corpus itself is not split without exception (`.no`, `st.`), so one clinging dot must not decide.
    """
    apart = clinging = 0
    for chunk in _CHUNK.findall(text):
        if _CORPUS_MARK.fullmatch(chunk):
            apart += 1
        else:
            pieces = [_written(match, chunk).lower() for match in _PIECE.finditer(chunk)]
            clinging += pieces != [chunk.lower()]
    return apart > clinging


class ChineseTokenizer:
    """Splits Chinese text into jieba's words; white space and stop words are left out.

    Args:
        own: the user's words; it is shown those of each text.
    """

    def __init__(self, own: OwnWords) -> None:
        self._segmenter = Segmenter(own.words)
        self._own = own

    @classmethod
    def of_files(cls, files: Mapping[str, str]) -> "ChineseTokenizer":
        """The tokenizer of a package.

        Args:
            files: contents of the user's `dictionary` and `stop_words`, where there are any.

        Raises:
            BadInputError: if the dictionary breaks its format.
        """
        numbered = {name: list(enumerate(text.split("\n"), start=1)) for name, text in files.items()}
        words = parse_dictionary(numbered[DICTIONARY], DICTIONARY) if DICTIONARY in files else ()
        return cls(OwnWords(words, parse_stop_words(numbered.get(STOP_WORDS, ()))))

    def __call__(self, text: str) -> list[Token]:
        """Tokens of a text in order."""
        return without_invisible(self._tokens, text)

    def _tokens(self, text: str) -> list[Token]:
        tokens, start = [], 0
        words = self._segmenter.cut(text)
        self._own.see(words)
        for word in words:
            if not word.isspace() and word not in self._own.stop_words:
                tokens.append(Token(word, start, start + len(word)))
            start += len(word)
        return tokens


Tokenizer = Callable[[str], list[Token]]

TOKENIZERS: dict[str, Tokenizer] = {
    "english": tokenize,
    "english_cased": tokenize_cased,
    "whitespace": split_at_blanks,
    "posts": tokenize_posts.tokenize,
    "jieba": ChineseTokenizer(OwnWords()),
}
"""What splits a free text, by the name that sources and built features give."""

ALIASES = {"chinese": "jieba"}
"""Other names of tokenizers."""


def make_tokenizer(name: str, files: Mapping[str, str]) -> Tokenizer:
    """The tokenizer of that name, with the user's files that change its tokens.

    Args:
        files: contents by the name of the option that named the file (`SourceOption.for_tokenizer`).

    Raises:
        BadInputError: if a file breaks its format.
        RequestError: if there is no such tokenizer, or it takes no files.
    """
    if name not in TOKENIZERS or (files and name != "jieba"):
        what = f" that takes {quoted(files)}" if files else ""
        raise RequestError(f"no tokenizer `{name}`{what}; the tokenizers are {quoted(TOKENIZERS)}")
    return ChineseTokenizer.of_files(files) if files else TOKENIZERS[name]

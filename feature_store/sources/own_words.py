"""Reads the user's dictionary and stop words."""

from feature_store.own_words import OwnWords
from feature_store.segmenter import DICTIONARY, STOP_WORDS, DictionaryWord, parse_dictionary, parse_stop_words
from feature_store.sources.base import Query, SourceOption
from feature_store.sources.lines import read_lines


def word_options(dictionary_help: str, stop_words_help: str) -> tuple[SourceOption, ...]:
    """The options that name the two files."""
    return tuple(
        SourceOption(name=name, default="", is_file=True, for_tokenizer=True, help=text)
        for name, text in ((DICTIONARY, dictionary_help), (STOP_WORDS, stop_words_help))
    )


def read_own_words(query: Query) -> OwnWords:
    """What the files of the options `dictionary` and `stop_words` hold; empty where there are none.

    Raises:
        BadInputError: if a file breaks its format; names file and line.
    """
    words: tuple[DictionaryWord, ...] = ()
    if path := query.inputs.get(DICTIONARY):
        words = parse_dictionary(read_lines(path, max_bytes=query.max_bytes), str(path))
    stop_words: frozenset[str] = frozenset()
    if path := query.inputs.get(STOP_WORDS):
        stop_words = parse_stop_words(read_lines(path, max_bytes=query.max_bytes))
    return OwnWords(words, stop_words)

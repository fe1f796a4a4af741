"""Word vectors: trained on the training tokens, read from a text file, or drawn at random.

All return float32 (V, E) for a vocabulary of V words: row 0 (`<pad>`) is zero, row 1 (`<unk>`) the mean of
the words'.
"""

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from feature_store.errors import BadInputError, RequestError
from feature_store.sources.lines import filled_lines
from feature_store.vocabulary import PAD_ID, UNK_ID, Vocabulary
from feature_store.wording import counted

logger = logging.getLogger("feature_store")

Matrix = npt.NDArray[np.float32]

STANDARD_DEVIATION = 0.5
"""Standard deviation of all entries of the words' vectors, for `word2vec` and `random`; vectors of a file
stay as they are. Within the range of published vectors (GloVe about 0.4 to 0.6), so that one learning rate
fits all three."""

WINDOW = 5
MAX_SIZE = 2**16
"""Most values of a vector: each word of the vocabulary takes memory for as many."""
_NUM_LINES = 20
"""Lines of a file from which the size of its vectors is found out."""
_MAX_BYTES = 1 << 40
"""Of a file of which only the first lines are read."""
_MAX_EPOCHS = 30
_MIN_EPOCHS = 3
_EPOCH_TOKENS = 13_500_000
"""Epochs are so many that about this number of tokens is seen, within the two bounds above: 10 epochs of
9,000 beer reviews, half a minute on one thread."""


class Sentences:
    """Texts that can be gone through several times, as gensim asks."""

    def __init__(self, read: Callable[[], Iterator[list[str]]]) -> None:
        self._read = read

    def __iter__(self) -> Iterator[list[str]]:
        return self._read()


def word2vec(
    vocabulary: Vocabulary,
    counts: npt.NDArray[np.int64],
    sentences: Iterable[list[str]],
    *,
    size: int,
    seed: int,
) -> Matrix:
    """Continuous bag of words with negative sampling (gensim) on the training tokens.

    Every word of the vocabulary gets a vector. The same tokens, size and seed give the same vectors: one
    thread, and no dependence on PYTHONHASHSEED.

    Args:
        counts: training counts of the words, int64 (V,).
        sentences: the training texts, gone through once per epoch.
    """
    from gensim.models import Word2Vec

    logging.getLogger("gensim").setLevel(logging.WARNING)  # it reports every second of training as INFO
    frequencies = {word: int(n) for word, n in zip(vocabulary.tokens[2:], counts[2:], strict=True) if n}
    num_tokens = sum(frequencies.values())
    epochs = min(_MAX_EPOCHS, max(_MIN_EPOCHS, _EPOCH_TOKENS // max(1, num_tokens)))
    said = counted(len(frequencies), "word"), counted(num_tokens, "token"), counted(epochs, "epoch")
    logger.info("training word2vec: %s, %s, %s", *said)
    model = Word2Vec(
        vector_size=size,
        window=WINDOW,
        min_count=1,
        workers=1,
        seed=seed,
        epochs=epochs,
        hashfxn=_stable_hash,
    )
    model.build_vocab_from_freq(frequencies)
    model.train(sentences, total_words=num_tokens, epochs=epochs)
    matrix = np.zeros((len(vocabulary), size), dtype=np.float32)
    matrix[2:] = [model.wv[word] for word in vocabulary.tokens[2:]]
    matrix[2:] *= STANDARD_DEVIATION / matrix[2:].std()
    return _with_special_rows(matrix)


def random(vocabulary: Vocabulary, *, size: int, seed: int) -> Matrix:
    """Normal vectors of mean 0 and standard deviation `STANDARD_DEVIATION`."""
    matrix = np.random.default_rng(seed).standard_normal((len(vocabulary), size), dtype=np.float32)
    return _with_special_rows(matrix * np.float32(STANDARD_DEVIATION))


def from_file(path: Path, vocabulary: Vocabulary, *, size: int, max_bytes: int) -> tuple[Matrix, int]:
    """Vectors from a text file, plain or .gz: a word and `size` numbers a line.

    Blanks or tabs part them; the last `size` values of a line are the vector, so that a word may hold
    blanks. A first line `N size`, as word2vec writes it, is passed over. Words that the file lacks get the
    mean of those found.

    Returns:
        The matrix, and how many of the vocabulary's words were found.

    Raises:
        BadInputError: at a line with another number of values or one that is no finite number; or if no word
            is found.
        RequestError: if the file's vectors have another size.
    """
    ids = {word: number for number, word in enumerate(vocabulary.tokens) if number > UNK_ID}
    matrix = np.zeros((len(vocabulary), size), dtype=np.float32)
    found = np.zeros(len(vocabulary), dtype=bool)
    size_is_stated = False
    fitting: int | None = None
    for number, line in filled_lines(path, max_bytes=max_bytes):
        word, *values = line.replace("\t", " ").rstrip(" ").split(" ")
        if number == 1 and len(values) == 1 and word.isdecimal():
            size_is_stated = values[0] == str(size)
            continue  # the header of the word2vec text format
        if len(values) > size and (size_is_stated or not all(map(_is_number, values[:-size]))):
            word = " ".join([word, *values[:-size]])
            values = values[-size:]
        if len(values) != size:
            raise _wrong_size(path, number, given=len(values), size=size, fitting=fitting)
        fitting = fitting or number
        if word in ids:
            matrix[ids[word]] = _numbers(values, f"{path}:{number}")
            found[ids[word]] = True
    if not found.any():
        raise BadInputError(
            f"none of the {len(ids)} words of the vocabulary is in this file", where=str(path)
        )
    with np.errstate(over="ignore"):
        mean = matrix[found].mean(axis=0)
    if not np.isfinite(mean).all():
        raise BadInputError("the mean of the word vectors in this file is not finite", where=str(path))
    found[PAD_ID] = True
    matrix[~found] = mean
    return matrix, int(found.sum()) - 1


def size_in_file(embedding: str | None) -> int | None:
    """Number of values in each vector, where the embedding is the name of a file; None where it is not.

    Raises:
        BadInputError: if the file breaks its format.
    """
    return size_of(Path(embedding)) if embedding is not None and Path(embedding).is_file() else None


def size_of(path: Path) -> int:
    """Number of values in each vector of a text file, as its header or most of its first lines show.

    Raises:
        BadInputError: if the file breaks its format.
    """
    return _size_and_line(path)[0]


def _size_and_line(path: Path) -> tuple[int, int]:
    """The same, and the number of the first line that shows it."""
    sizes: Counter[int] = Counter()
    shown: dict[int, int] = {}
    for number, line in itertools.islice(filled_lines(path, max_bytes=_MAX_BYTES), _NUM_LINES):
        word, *values = line.replace("\t", " ").rstrip(" ").split(" ")
        if number == 1 and len(values) == 1 and word.isdecimal() and values[0].isdecimal():
            return _stated_size(values[0], f"{path}:{number}"), number
        # a word may hold blanks, and parts of it may look like numbers
        size = sum(1 for _ in itertools.takewhile(_is_number, reversed(values)))
        sizes[size] += 1
        shown.setdefault(size, number)
    # of sizes that are equally frequent the smaller: a word that ends in numbers lengthens its line
    found = max(sizes, key=lambda size: (sizes[size], -size), default=1)
    return max(1, found), shown.get(found, 1)


def _stated_size(text: str, where: str) -> int:
    """The size that a header states."""
    if len(text) > len(str(MAX_SIZE)) or int(text) > MAX_SIZE:
        raise BadInputError(
            f"expected a header `WORDS SIZE` with a size of at most {MAX_SIZE}, but got {text[:20]}",
            where=where,
        )
    return max(1, int(text))


_ENDS_IN_NUMBERS = (
    "if the file has words with blanks and numbers in them, such as `route 66`, begin it with the line "
    "`N {size}`, where N is the number of words"
)


def _wrong_size(
    path: Path, number: int, *, given: int, size: int, fitting: int | None
) -> BadInputError | RequestError:
    """What to say of a line with another number of values: another size was asked for, or the line is bad.

    Args:
        fitting: number of a line before it that has `size` values; None where none has.
    """
    where = f"{path}:{number}"
    there, line = (size, fitting) if fitting else _size_and_line(path)
    if there != size:
        return RequestError(
            f"expected vectors of {size} values, but the file has vectors of {counted(there, 'value')}",
            where=where,
            hint=f"add `--embedding-size {there}`",
        )
    expected = f"expected a word and {counted(size, 'value')}, as line {line} has"
    return BadInputError(
        f"{expected}, but got {counted(given, 'value')}",
        where=where,
        hint=_ENDS_IN_NUMBERS.format(size=size) if given > size else None,
    )


def _is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


def _numbers(values: list[str], where: str) -> Matrix:
    try:
        with np.errstate(over="ignore"):  # it is infinite then, and refused
            vector = np.array(values, dtype=np.float32)
    except ValueError as error:
        raise BadInputError(
            f"expected numbers, but got {str(error).rsplit(':', 1)[-1].strip()}", where=where
        ) from error
    if not np.isfinite(vector).all():
        raise BadInputError(
            f"expected finite numbers, but got {values[int(np.argmin(np.isfinite(vector)))]}", where=where
        )
    return vector


def _with_special_rows(matrix: Matrix) -> Matrix:
    matrix[PAD_ID] = 0
    matrix[UNK_ID] = matrix[UNK_ID + 1 :].mean(axis=0) if len(matrix) > UNK_ID + 1 else 0
    return matrix


def _stable_hash(text: str) -> int:
    """A hash that is the same in every process, unlike `hash`."""
    return int.from_bytes(text.encode()[:8].ljust(8, b"\0"), "big")

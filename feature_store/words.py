"""Words of a build: numbered as they are met, counted, and put in the order of the vocabulary."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from feature_store.vocabulary import PAD, UNK, UNK_ID, Vocabulary


class WordCodes:
    """Gives each word that a build meets a code, the same wherever it stands."""

    def __init__(self) -> None:
        self._categories = pl.Categories.random()
        self._type = pl.Categorical(self._categories)
        # polars forgets categories that no column has
        self._column = pl.Series([], dtype=self._type)

    def encode(self, tokens: pl.Series) -> npt.NDArray[np.uint32]:
        """Codes of words, one for each entry of a column of text without nulls."""
        codes: npt.NDArray[np.uint32] = tokens.cast(self._type).to_physical().to_numpy()
        return codes

    def words(self, num_codes: int) -> pl.Series:
        """The words by their codes."""
        codes = pl.Series("word", np.arange(num_codes, dtype=np.uint32))
        return codes.cat.to(self._type).cast(pl.String)


class WordCounts:
    """How often each word stands in one table."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, np.int64)

    def add(self, codes: npt.NDArray[np.uint32]) -> None:
        """Count words by their codes."""
        more = np.bincount(codes, minlength=len(self._counts))
        more[: len(self._counts)] += self._counts
        self._counts = more

    @property
    def num_codes(self) -> int:
        """One more than the highest code of the table."""
        return len(self._counts)

    def by_code(self, num_codes: int) -> npt.NDArray[np.int64]:
        """Counts of all words, those that the table lacks included."""
        return np.pad(self._counts, (0, num_codes - len(self._counts)))


def build_vocabulary(words: pl.DataFrame, min_count: int) -> tuple[Vocabulary, npt.NDArray[np.int64]]:
    """Vocabulary by falling count, then by spelling, and the count of each word, int64 (V,).

    The count of `<unk>` is that of all words seen fewer than `min_count` times.

    Args:
        words: columns `word`, each once, and `count`.
        min_count: least count of a word that is kept.
    """
    is_kept = (pl.col("count") >= min_count) & ~pl.col("word").is_in([PAD, UNK])
    kept = words.filter(is_kept).sort("count", "word", descending=[True, False])
    frequencies = np.concatenate([[0, 0], kept["count"].to_numpy()]).astype(np.int64)
    frequencies[UNK_ID] = words["count"].sum() - frequencies.sum()
    return Vocabulary([PAD, UNK, *kept["word"].to_list()]), frequencies


def ids_by_code(words: pl.Series, vocabulary: Sequence[str]) -> npt.NDArray[np.int32]:
    """Number in the vocabulary of each word, 1 for one that it lacks; never 0, even for `<pad>`."""
    known = pl.DataFrame({"word": vocabulary[UNK_ID + 1 :]}, schema={"word": pl.String})
    numbered = known.with_row_index("id", offset=UNK_ID + 1)
    found = words.to_frame("word").join(numbered, on="word", how="left", maintain_order="left")
    ids: npt.NDArray[np.int32] = found["id"].fill_null(UNK_ID).cast(pl.Int32).to_numpy()
    return ids

"""Word vectors from three sources."""

import gzip
import random as python_random
from pathlib import Path

import numpy as np
import pytest

from feature_store import embeddings
from feature_store.errors import BadInputError, RequestError
from feature_store.vocabulary import PAD, UNK, Vocabulary

VOCABULARY = Vocabulary([PAD, UNK, "good", "bad", "rare"])
MAX_BYTES = 10_000


def read(path: Path, size: int = 2) -> tuple[embeddings.Matrix, int]:
    return embeddings.from_file(path, VOCABULARY, size=size, max_bytes=MAX_BYTES)


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt"
    path.write_text("good 1 2\nother 9 9\nbad 3 4.5\n")
    return path


@pytest.mark.parametrize(
    ("lines", "size"),
    [
        (["3 5", "a 1 2 3 4 5"], 5),
        (["the 0.1 -2 3e-4", "a b 1 2 3"], 3),
        (["in 2019 0.5 0.25", "x 0.5 0.25"], 2),
        (["a\t1\t2", "", "b 1 2"], 2),
        (["a 1 2 3", "b 1 2 3", "c 1 2", "d 1 2 3"], 3),
        (["a 1 2", "b 1 2 3", "c 1 2 3"], 3),
        (["in 2019 1 2", "b 1 2", "on 5 3 1 2", "d 1 2"], 2),
        (["2 2", "a 1 2 3", "b 1 2 3"], 2),
    ],
)
def test_the_size_of_vectors_is_found_in_their_file(tmp_path: Path, lines: list[str], size: int):
    path = tmp_path / "vectors.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert embeddings.size_of(path) == size


@pytest.mark.parametrize("bad", [1, 2, 3, 5, 6])
@pytest.mark.parametrize(
    ("line", "header"), [("bad 1 2", []), ("bad 1 2 3 4", []), ("bad 1 2", ["6 3"]), ("bad", [])]
)
def test_one_line_of_another_length_is_named_and_not_the_others(
    tmp_path: Path, bad: int, line: str, header: list[str]
):
    path = tmp_path / "vectors.txt"
    lines = [f"w{number} 1 2 3" for number in range(1, 7)]
    lines[bad - 1] = line
    path.write_text("\n".join([*header, *lines]) + "\n")
    given = len(line.split()) - 1
    message = f"vectors.txt:{bad + len(header)}: expected a word and 3 values, as line . has, but got {given}"
    with pytest.raises(BadInputError, match=message):
        read(path, size=embeddings.size_of(path))


def test_a_header_with_an_absurd_size_is_refused(tmp_path: Path):
    path = tmp_path / "vectors.txt"
    for size in ("65537", "99999999999", "9" * 5000):
        path.write_text(f"3 {size}\ngood 1 2\n")
        with pytest.raises(BadInputError, match="vectors.txt:1: expected a header `WORDS SIZE` .* 65536"):
            embeddings.size_of(path)


def test_a_file_gives_its_vectors_and_the_mean_to_the_rest(vectors: Path):
    matrix, found = read(vectors)
    assert found == 2
    assert matrix.dtype == np.float32
    assert matrix.tolist() == [[0, 0], [2, 3.25], [1, 2], [3, 4.5], [2, 3.25]]


def test_a_zipped_file_with_a_header_gives_the_same(vectors: Path, tmp_path: Path):
    packed = tmp_path / "vectors.txt.gz"
    packed.write_bytes(gzip.compress(b"3 2\n" + vectors.read_bytes()))
    np.testing.assert_array_equal(read(packed)[0], read(vectors)[0])


def test_trailing_blanks_do_no_harm(vectors: Path):
    vectors.write_text("good 1 2 \nbad 3 4 \n")
    assert read(vectors)[1] == 2


def test_another_size_is_named_with_the_flag_to_use(vectors: Path):
    with pytest.raises(
        RequestError,
        match=r"vectors.txt:1: expected vectors of 5 values, but the file has vectors of 2 values",
    ) as caught:
        read(vectors, size=5)
    assert caught.value.hint == "add `--embedding-size 2`"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bad 3", r"vectors.txt:2: expected a word and 2 values, as line 1 has, but got 1 value"),
        ("bad 3 4 5", r"vectors.txt:2: expected a word and 2 values, as line 1 has, but got 3 values"),
        ("bad 3 x", r"vectors.txt:2: expected numbers, but got 'x'"),
        ("bad 3 nan", r"vectors.txt:2: expected finite numbers, but got nan"),
        ("bad inf 1", r"vectors.txt:2: expected finite numbers, but got inf"),
    ],
)
def test_a_bad_line_is_named(vectors: Path, line: str, message: str):
    vectors.write_text(f"good 1 2\n{line}\n")
    with pytest.raises(BadInputError, match=message):
        read(vectors)


def test_lines_of_two_lengths_are_both_named(tmp_path: Path):
    path = tmp_path / "vectors.txt"
    path.write_text("good 0.1 0.2\nbad 0.1\n")
    with pytest.raises(BadInputError, match=r"txt:1: expected a word and 1 value, as line 2 has, but got 2"):
        read(path, size=embeddings.size_of(path))


def test_a_word_that_ends_in_numbers_is_told_how_it_can_be_read(vectors: Path):
    lines = "good 1 2\nroute 66 3 4\n"
    vectors.write_text(lines)
    with pytest.raises(BadInputError, match=r"vectors.txt:2: expected a word and 2 values") as caught:
        read(vectors)
    assert caught.value.hint is not None
    assert "begin it with the line `N 2`" in caught.value.hint
    vectors.write_text(f"2 2\n{lines}")
    assert read(vectors)[1] == 1


def test_a_line_with_too_few_values_has_no_such_hint(vectors: Path):
    vectors.write_text("good 1 2\nbad 3\n")
    with pytest.raises(BadInputError, match="but got 1 value") as caught:
        read(vectors)
    assert caught.value.hint is None


def test_a_file_of_other_words_is_refused(vectors: Path):
    vectors.write_text("foo 1 2\nbar 3 4\n")
    with pytest.raises(BadInputError, match="none of the 3 words of the vocabulary is in this file"):
        read(vectors)


def test_a_number_too_large_for_a_vector_is_refused_without_a_warning(tmp_path: Path):
    path = tmp_path / "v.txt"
    path.write_text("a 1e300 1\n")
    with pytest.raises(BadInputError, match=f"{path}:1: expected finite numbers, but got 1e300"):
        embeddings.from_file(path, Vocabulary(["<pad>", "<unk>", "a"]), size=2, max_bytes=1000)


def test_vectors_whose_mean_is_endless_are_refused(tmp_path: Path):
    path = tmp_path / "v.txt"
    path.write_text("".join(f"{word} 3e38 1\n" for word in "abc"))
    with pytest.raises(
        BadInputError, match=f"{path}: the mean of the word vectors in this file is not finite"
    ):
        embeddings.from_file(path, Vocabulary(["<pad>", "<unk>", *"abc"]), size=2, max_bytes=1000)


def test_random_vectors():
    vocabulary = Vocabulary([PAD, UNK, *(f"w{i}" for i in range(500))])
    matrix = embeddings.random(vocabulary, size=20, seed=1)
    assert matrix.shape == (502, 20)
    assert not matrix[0].any()
    np.testing.assert_allclose(matrix[1], matrix[2:].mean(axis=0), atol=1e-6)
    assert matrix[2:].std() == pytest.approx(embeddings.STANDARD_DEVIATION, rel=0.03)
    np.testing.assert_array_equal(matrix, embeddings.random(vocabulary, size=20, seed=1))
    assert (matrix[2:] != embeddings.random(vocabulary, size=20, seed=2)[2:]).all()


def test_a_vocabulary_without_words():
    assert embeddings.random(Vocabulary([PAD, UNK]), size=3, seed=0).tolist() == [[0, 0, 0], [0, 0, 0]]


def _texts() -> list[list[str]]:
    """`cat` and `dog` stand among animals, `car` and `bus` among vehicles."""
    rng = python_random.Random(0)
    animals, vehicles = (
        ["cat", "dog", "purrs", "barks", "fur", "tail"],
        ["car", "bus", "wheel", "road", "fuel", "drives"],
    )
    return [rng.choices(animals if i % 2 else vehicles, k=12) for i in range(120)]


def _train(seed: int) -> tuple[Vocabulary, embeddings.Matrix]:
    texts = _texts()
    names = sorted({word for text in texts for word in text})
    vocabulary = Vocabulary([PAD, UNK, *names])
    counts = np.array([0, 0, *(sum(text.count(name) for text in texts) for name in names)], dtype=np.int64)
    sentences = embeddings.Sentences(lambda: iter(texts))
    return vocabulary, embeddings.word2vec(vocabulary, counts, sentences, size=8, seed=seed)


def test_word2vec_is_deterministic_scaled_and_finds_neighbours():
    vocabulary, matrix = _train(seed=1)
    np.testing.assert_array_equal(matrix, _train(seed=1)[1])
    assert (matrix[2:] != _train(seed=2)[1][2:]).any()
    assert not matrix[0].any()
    assert matrix[2:].std() == pytest.approx(embeddings.STANDARD_DEVIATION, rel=1e-4)
    np.testing.assert_allclose(matrix[1], matrix[2:].mean(axis=0), atol=1e-6)
    cat, dog, car = (matrix[vocabulary.encode([word])[0]] for word in ("cat", "dog", "car"))
    assert _cosine(cat, dog) > _cosine(cat, car) + 0.5


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


def test_sentences_can_be_gone_through_again():
    sentences = embeddings.Sentences(lambda: iter([["a"]]))
    assert [list(sentences), list(sentences)] == [[["a"]], [["a"]]]


def test_the_hash_for_gensim_is_stable():
    # the first eight bytes as a number: the same in every process, unlike `hash`
    assert embeddings._stable_hash("ab") == 0x6162 << 48

"""A file with a text for each class."""

import json
from pathlib import Path

import pytest

from feature_store import class_texts
from feature_store.class_texts import class_words, read_class_texts
from feature_store.errors import BadInputError, MissingDataError, RequestError
from tests.small_store import law_features, sample_features


def names() -> tuple[str, ...]:
    return law_features().task.sides[0].class_names or ()


def written(folder: Path, content: object) -> Path:
    path = folder / "law.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False), "utf-8")
    return path


def test_the_texts_are_read_by_the_name_of_their_class(tmp_path: Path):
    path = written(tmp_path, "\ufeff" + json.dumps({"264": "盗窃 公私 财物"}))
    assert read_class_texts(path) == {"264": "盗窃 公私 财物"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"264": "a"', "law.json:1: not JSON: Expecting"),
        ("[" * 100_000, "not JSON: nested too deeply"),
        ([], r'expected a JSON object, \{"CLASS": "TEXT", ...\}, but got \[\]'),
        ({}, "expected a JSON object"),
        ({"264": ["a"]}, "expected a text for the class `264`, but got"),
        ({"264": "  "}, "expected a text for the class `264`"),
        ('{"264": "a", "263": "b", "264": "c"}', "the class `264` has two texts"),
    ],
)
def test_another_file_is_refused(tmp_path: Path, content: object, message: str):
    with pytest.raises(BadInputError, match=message):
        read_class_texts(written(tmp_path, content))


def test_a_file_of_other_bytes_or_too_many_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "law.json"
    path.write_bytes('{"264": "盗窃"}'.encode("gb18030"))
    with pytest.raises(BadInputError, match="not UTF-8"):
        read_class_texts(path)
    monkeypatch.setattr(class_texts, "MAX_BYTES", 5)
    with pytest.raises(BadInputError, match="expected at most 5 bytes, but there are more"):
        read_class_texts(path)


def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path):
    with pytest.raises(MissingDataError, match="none.json: expected a file, but it does not exist"):
        read_class_texts(tmp_path / "none.json")
    with pytest.raises(MissingDataError, match="expected a file, but this is a folder"):
        read_class_texts(tmp_path)


def test_the_words_are_those_of_the_data_set(tmp_path: Path):
    """Split by its tokenizer, whatever blanks the file has; in the order of the classes."""
    features = law_features()
    words = features.vocabulary.tokens
    known = next(word for word in words[2:] if len(word) > 1)
    path = written(tmp_path, dict.fromkeys(reversed(names()), f"{known}。"))
    found = class_words(features, "articles", path)
    assert len(found) == len(names())
    for row in found:
        assert words[row[0]] == known
        assert 0 not in row
    path = written(tmp_path, dict.fromkeys(names(), f"{known} 龘龘"))
    assert class_words(features, "articles", path)[0][-1] == 1, "an unknown word"


def test_a_class_without_a_text_is_named(tmp_path: Path):
    path = written(tmp_path, {"999": "被告人"})
    with pytest.raises(
        BadInputError, match=f"of the .* classes of `articles` have no text: `{names()[0]}`"
    ) as e:
        class_words(law_features(), "articles", path)
    assert e.value.hint == "add the missing texts; the file has texts for `999`"


def test_texts_of_another_language_are_refused(tmp_path: Path):
    path = written(tmp_path, dict.fromkeys(names(), "whoever steals"))
    with pytest.raises(BadInputError, match="no word in the text of class `.*` occurs in a training text"):
        class_words(law_features(), "articles", path)


def test_a_target_without_classes_has_no_texts(tmp_path: Path):
    path = written(tmp_path, {"1": "a"})
    with pytest.raises(
        RequestError, match="no target `article`; the targets are `charges`, `articles`, `ter"
    ):
        class_words(law_features(), "article", path)
    with pytest.raises(RequestError, match="the target `` is a score"):
        class_words(sample_features(), "", path)

"""Tokens in the corpus's style, with offsets into the original."""

import random
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feature_store.errors import BadInputError, RequestError
from feature_store.sample import make_review
from feature_store.tokenize import TOKENIZERS, Token, make_tokenizer, split_at_blanks, tokenize

ENGLISH = st.text(alphabet="abcN tT'’\"“”-./,!?()0159$%&;:sSİéß\u0301\n\t", max_size=40)


VISIBLE = re.compile("[^\\s\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


VISIBLE = re.compile("[^\\s\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")


def words(text: str) -> list[str]:
    return [token.text for token in tokenize(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It's Good, isn't it?", "it 's good , is n't it ?"),
        ("Can't, won't; I'd say they're I've", "ca n't , wo n't ; i 'd say they 're i 've"),
        ("I’m sure it isn’t", "i 'm sure it is n't"),
        ("Off-white head, m/d, 7.5% and 1,000 IBU.", "off-white head , m/d , 7.5 % and 1,000 ibu ."),
        ("A- Pours black w/ foam", "a- pours black w/ foam"),
        ("A .5 inch head...then nothing--at all", "a .5 inch head ... then nothing -- at all"),
        ('The "Great" one ("ha")', "the `` great '' one ( `` ha '' )"),
        ("“Quoted”", "`` quoted ''"),
        ("O'Brien's ale & co.", "o'brien 's ale & co ."),
        ("Poured (slowly), at 45°!", "poured ( slowly ) , at 45 ° !"),
        ("Café BRÛLÉE", "café brûlée"),
        ("  \t\n ", ""),
        ("", ""),
    ],
)
def test_free_text(text: str, expected: str):
    assert words(text) == expected.split()


@pytest.mark.parametrize(
    "text",
    [
        "pours a golden color . it 's good , is n't it ?",
        "served in a st. bottle , nice ... .this is ok. really , not bad .",
        "a- pours 1/2 inch head , off-white . w/ some lacing",
        "just words without any mark",
        "tan head , as\xa0they say .",  # the corpus has tokens with a no-break space
        "'plain jane ' they said , and `` so '' on .",
    ],
)
def test_corpus_form_comes_out_unchanged(text: str):
    assert words(text) == text.split(" ")


def test_one_mark_apart_does_not_make_a_corpus():
    assert " ".join(words("nice beer - good, really. yes!")) == "nice beer - good , really . yes !"


def test_upper_case_is_never_corpus_form():
    assert " ".join(words("Nice . st. beer , ok")) == "nice . st . beer , ok"


def test_sample_reviews_come_out_unchanged(rng: random.Random):
    for _ in range(50):
        review = make_review(rng)
        assert words(" ".join(review.tokens)) == review.tokens


@given(ENGLISH | st.text(max_size=30))
def test_offsets_cover_everything_but_white_space(text: str):
    tokens = tokenize(text)
    position = 0
    for token in tokens:
        assert position <= token.start < token.end <= len(text)
        assert not VISIBLE.search(text[position : token.start])
        position = token.end
    assert not VISIBLE.search(text[position:])


@given(ENGLISH)
def test_a_token_is_its_own_slice(text: str):
    for token in tokenize(text):
        original = text[token.start : token.end]
        plain = original.replace("’", "'").replace("“", "``").replace("”", "''").lower()
        assert token.text == plain or (original == '"' and token.text in ("``", "''"))


@given(ENGLISH | st.text(max_size=30))
def test_no_token_is_empty_or_has_white_space(text: str):
    for token in tokenize(text):
        assert token.text
        assert not set(token.text) & set(" \t\r\n")


@given(ENGLISH)
def test_capital_letters_are_all_that_the_cased_tokenizer_keeps(text: str):
    cased = TOKENIZERS["english_cased"](text)
    assert [token.text for token in TOKENIZERS["english_cased"](" ".join(t.text for t in cased))] == [
        token.text for token in cased
    ]
    if text == text.lower():
        assert cased == tokenize(text)
    for token in cased:
        plain = text[token.start : token.end].replace("’", "'").replace("“", "``").replace("”", "''")
        assert token.text in (plain, "``", "''")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We stayed two nights. It's OK!", ["We", "stayed", "two", "nights", ".", "It", "'s", "OK", "!"]),
        ("The ROOM was filthy.", ["The", "ROOM", "was", "filthy", "."]),
        ("Don't go, Ana!", ["Do", "n't", "go", ",", "Ana", "!"]),
    ],
)
def test_cased_words(text: str, expected: list[str]):
    assert [token.text for token in TOKENIZERS["english_cased"](text)] == expected
    assert words(text) == [word.lower() for word in expected]


@given(ENGLISH)
def test_twice_is_once(text: str):
    once = words(text)
    assert words(" ".join(once)) == once


def test_chinese_words_stand_where_they_say():
    text = " 被告人张某\r\n盗窃 手机2部。"
    tokens = TOKENIZERS["jieba"](text)
    assert [token.text for token in tokens] == ["被告人", "张某", "盗窃", "手机", "2", "部", "。"]
    assert all(text[token.start : token.end] == token.text for token in tokens)
    assert TOKENIZERS["jieba"](" \n\u3000") == []


def test_the_users_files_change_chinese_words():
    tokenizer = make_tokenizer("jieba", {"dictionary": "盗窃手机\n", "stop_words": "被告人\n。\n"})
    assert tokenizer("被告人盗窃手机。") == [Token("盗窃手机", 3, 7)]
    assert make_tokenizer("jieba", {"stop_words": "手机"})("盗窃手机") == [Token("盗窃", 0, 2)]
    assert make_tokenizer("english", {}) is tokenize
    assert make_tokenizer("jieba", {}) is TOKENIZERS["jieba"]


def test_a_tokenizer_that_there_is_not():
    with pytest.raises(
        RequestError,
        match="`klingon`; the tokenizers are `english`, `english_cased`, `whitespace`, `posts`, `jieba`",
    ):
        make_tokenizer("klingon", {})
    with pytest.raises(
        RequestError, match="no tokenizer `english` that takes `stop_words`; the tokenizers are"
    ):
        make_tokenizer("english", {"stop_words": "the"})
    with pytest.raises(
        BadInputError, match="dictionary:2: expected a frequency of at least 1 .*, but got '乙 0'"
    ):
        make_tokenizer("jieba", {"dictionary": "甲\n乙 0\n"})


@given(ENGLISH)
def test_blanks_alone_split_and_nothing_is_changed(text: str):
    tokens = split_at_blanks(text)
    assert [token.text for token in tokens] == [text[token.start : token.end] for token in tokens]
    assert [token.text for token in tokens] == [word for word in re.split("[ \t\r\n]", text) if word]

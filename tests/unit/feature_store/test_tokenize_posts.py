"""Free text of social media in the form of the HateXplain posts, with offsets into the original."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feature_store.tokenize import TOKENIZERS
from feature_store.tokenize_posts import tokenize

TEXT = st.text(alphabet="abcNsT tT'’@#<>:/.,!?()0159$%*😂é\u200d\n", max_size=40)


def words(text: str) -> list[str]:
    return [token.text for token in tokenize(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello, WORLD! (really)", "hello world really"),
        ("@ann and @bob_2: see https://t.co/x?y=1 or www.a.org", "<user> and <user> see <url> or <url>"),
        ("write to a.b@c.org", "write to <email>"),
        ("3 cats, 1,000 dogs, 7.5 mice", "<number> cats <number> dogs <number> mice"),
        ("20% off for $5.50 or £3k", "<percent> off for <money> or <money>"),
        ("at 5:30 pm or 5pm on 1/2/2020", "at <time> or <time> on <date>"),
        (
            "can't won't isn't I'm you're we've he'll she'd",
            "can not will not is not i am you are we have he will she would",
        ),
        ("Ann's it’s", "ann it ’"),
        ("#HashTag", "hashtag"),
        ("so good :) :( ;-) :D", "so good <happy> <sad> <happy> <laugh>"),
        ("ha😂😂ha", "ha 😂 😂 ha"),
        ("h**p the u.s.a. now.", "h**p the u.s.a. now"),
        ("<user> said <number> things", "<user> said <number> things"),
        ("abc2 2nd", "abc2 2nd"),
        (" .,!?\n", ""),
        ("", ""),
    ],
)
def test_free_text(text: str, expected: str):
    assert words(text) == expected.split()


@given(TEXT)
def test_offsets_ascend_and_point_at_what_the_token_was_made_from(text: str):
    last = 0
    for token in tokenize(text):
        assert last <= token.start < token.end <= len(text)
        assert token.text and token.text == token.text.lower()
        last = token.end


@given(TEXT)
def test_only_white_space_ascii_marks_and_a_lone_s_are_dropped(text: str):
    kept = {i for token in tokenize(text) for i in range(token.start, token.end)}
    for i, character in enumerate(text):
        if i not in kept:
            without_width = unicodedata.category(character) == "Cf"
            assert (
                character.isspace()
                or without_width
                or (character.isascii() and (not character.isalnum() or character in "sS"))
            )


@given(st.lists(st.sampled_from(["<user>", "<number>", "word", "é", "😂", "abc2", "h*p", "not"]), max_size=8))
def test_corpus_form_comes_out_unchanged(tokens: list[str]):
    assert words(" ".join(tokens)) == tokens


def test_it_is_registered():
    assert TOKENIZERS["posts"] is tokenize

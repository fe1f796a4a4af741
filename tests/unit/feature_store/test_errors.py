"""Errors say where, what and what to do, and survive a trip to another process."""

import pickle

import pytest

from feature_store import errors


def test_text_gives_where_and_message():
    assert str(errors.UserError("no tab", where="a.txt:3")) == "a.txt:3: no tab"


def test_text_without_where_is_the_message_alone():
    assert str(errors.UserError("no tab", hint="add one")) == "no tab"


@pytest.mark.parametrize(
    "kind",
    [
        errors.RequestError,
        errors.MissingDataError,
        errors.BadInputError,
        errors.CacheError,
        errors.DamagedCacheError,
        errors.FetchError,
    ],
)
def test_every_error_is_a_user_error_with_its_parts(kind: type[errors.UserError]):
    error = kind("message", where="here", hint="do this")
    assert isinstance(error, errors.FeatureStoreError)
    assert (error.message, error.where, error.hint) == ("message", "here", "do this")


def test_a_worker_can_send_an_error_home():
    error = pickle.loads(pickle.dumps(errors.BadInputError("bad", where="f:1", hint="mend it")))
    assert type(error) is errors.BadInputError
    assert (str(error), error.hint) == ("f:1: bad", "mend it")


def test_quoted():
    assert errors.quoted(["a", "b"]) == "`a`, `b`"


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("palete", "did you mean `--aspect palate`?"),
        ("PALATE", "did you mean `--aspect palate`?"),
        ("xyz", None),
    ],
)
def test_did_you_mean(given: str, hint: str | None):
    assert errors.did_you_mean(given, ["smell", "palate"], "--aspect ") == hint


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("class number 4", None),
        ("class numbr 54", "did you mean `class number 54`?"),
        ("class number 054", "did you mean `class number 54`?"),
        ("264", None),
        ("class number", "did you mean `class number 54`?"),
        ("refunds 2", "did you mean `refund`?"),
    ],
)
def test_another_number_is_not_a_slip(given: str, hint: str | None):
    assert errors.did_you_mean(given, ["class number 54", "263", "refund"]) == hint


def test_keys_are_named_in_words():
    assert errors.keys_in_words({"b": 1, "a": 2}) == "the keys are `a`, `b`"
    assert errors.keys_in_words({}) == "it has no keys"


def test_a_message_is_one_line_that_ends():
    error = errors.BadInputError("got\n" + "9" * 5000, where="f:1")
    assert str(error) == "f:1: got " + "9" * 996 + " ... (5004 characters)"
    assert error.message == error.args[0]

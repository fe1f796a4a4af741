"""Errors a user can mend: what is wrong, where it is, and what to do about it."""

import difflib
import functools
import io
import re
import sys
from collections.abc import Iterable, Mapping
from typing import TextIO

MAX_MESSAGE = 1000
"""Characters of a message; a value that it quotes may be longer than one can read."""


_SHOWN = 60
"""Characters of a wrong value that a message quotes."""

_DIGITS = re.compile(r"[0-9]+")
_JSON_WORDS = {None: "null", True: "true", False: "false"}


class UserError(Exception):
    """An error that a user can mend; `str()` gives `WHERE: message`.

    Args:
        message: what was expected and what was given.
        where: file (with line, as `FILE:LINE`) or flag that the message is about.
    """

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.message = _readable(message)
        super().__init__(self.message)
        self.where = where and _readable(where)
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message

    def __reduce__(self) -> tuple[object, ...]:
        return functools.partial(type(self), self.message, where=self.where, hint=self.hint), ()


def _readable(message: str) -> str:
    """The message, or its place, in one line that ends."""
    line = " ".join(message.splitlines())
    return line if len(line) <= MAX_MESSAGE else f"{line[:MAX_MESSAGE]} ... ({len(line)} characters)"


class FeatureStoreError(UserError):
    """Any error of the feature store."""


class RequestError(FeatureStoreError):
    """A request that cannot be met: an unknown name or a value out of range."""


class MissingDataError(FeatureStoreError):
    """A raw file that has to be there is not."""


class BadInputError(FeatureStoreError):
    """A raw file breaks its format; `where` holds file and line."""


class CacheError(FeatureStoreError):
    """The cache folder cannot be used."""


class DamagedCacheError(CacheError):
    """A cached file is missing, cut short or altered; building it again mends it."""


class FetchError(FeatureStoreError):
    """A raw file could not be downloaded."""


def reason(error: BaseException) -> str:
    """What an error says, without the file's name, which the message names itself, and without an errno."""
    return (isinstance(error, OSError) and error.strerror) or str(error)


def quoted(names: Iterable[str], most: int | None = None) -> str:
    """Names in backticks, separated by commas; of more than `most` the first ones, and dots."""
    in_ticks = [f"`{name}`" for name in names]
    if most is not None and len(in_ticks) > most:
        in_ticks[most:] = ["..."]
    return ", ".join(in_ticks)


def shown(value: object) -> str:
    """A wrong value for messages, with quotes around text; the start of a long one.

    What JSON calls null, true and false is called so here.
    """
    written = _JSON_WORDS[value] if value is None or isinstance(value, bool) else repr(value)
    return written if len(written) <= _SHOWN else f"{written[:_SHOWN]}..."


def keys_in_words(record: Mapping[str, object]) -> str:
    """What keys a record has, for a message about one that it lacks."""
    return f"the keys are {quoted(sorted(record))}" if record else "it has no keys"


def slip_of_key(key: str, others: Iterable[str]) -> str | None:
    """A hint that one of a record's other keys is a slip of the one that it lacks; None where none is."""
    near = nearest(key, others, 0.7)
    return f"did you mean `{key}` instead of `{near}`?" if near else None


def did_you_mean(given: str, known: Iterable[str], prefix: str = "") -> str | None:
    """A hint naming the known name nearest to the given one, or None when none is near.

    A name with another number in it is another thing, no slip: `article 54` is not meant by `article 4`.
    """
    numbers = _numbers(given)
    near = nearest(
        given.lower(), (one for one in known if _numbers(one) in ([], numbers) or not numbers), 0.5
    )
    return f"did you mean `{prefix}{near}`?" if near else None


def _numbers(name: str) -> list[str]:
    """The numbers in a name, without leading zeros."""
    return [digits.lstrip("0") for digits in _DIGITS.findall(name)]


def nearest(given: str, known: Iterable[str], cutoff: float) -> str | None:
    """The known word that is most like a given one; None where none is.

    Args:
        cutoff: least ratio of like characters, of `difflib`.
    """
    found = difflib.get_close_matches(given, list(known), n=1, cutoff=cutoff)
    return found[0] if found else None


def let_streams_take_every_text() -> None:
    """Write a character that the encoding of stdout or stderr lacks as an escape, and never fail at it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def takes_every_character(stream: TextIO) -> bool:
    """Whether a stream's encoding has every character; where not, JSON is written in ASCII."""
    return (getattr(stream, "encoding", None) or "utf-8").lower().startswith("utf")

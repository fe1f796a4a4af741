"""The encoding of a command's arguments and of the names of its files: UTF-8, whatever the locale says."""

import codecs
import os
import sys
from collections.abc import Sequence

from feature_store.errors import RequestError

_UTF8_MODE = "PYTHONUTF8"
_HINT = f"set {_UTF8_MODE}=1, or a locale such as C.UTF-8"
_SHOWN = 60
"""Characters that are shown of an argument."""


def start_in_utf8() -> None:
    """Where Python takes the locale's ASCII for all names and texts, start it again with the same command.

    A name beyond ASCII could otherwise be neither opened nor written. Processes that it starts inherit UTF-8.
    """
    if _file_encoding() != "ascii" or os.environ.get(_UTF8_MODE) == "1" or not sys.executable:
        return
    again = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
    os.execve(sys.executable, again, {**os.environ, _UTF8_MODE: "1"})


def check_arguments(arguments: Sequence[str]) -> None:
    """Refuse an argument that is no text.

    Raises:
        RequestError: if its bytes are not in the encoding of the command line.
    """
    for argument in arguments:
        if any("\ud800" <= character <= "\udfff" for character in argument):
            shown = argument[:_SHOWN].encode("ascii", "backslashreplace").decode()
            raise RequestError(
                f"expected arguments in {_file_encoding().upper()}, but got `{shown}`",
                hint="write the argument in UTF-8" if _file_encoding() == "utf-8" else _HINT,
            )


def of_locale(error: BaseException) -> RequestError | None:
    """What to tell of a character that the locale's encoding lacks; None for any other error."""
    if not isinstance(error, UnicodeEncodeError) or _name(error.encoding) == "utf-8":
        return None
    character = error.object[error.start].encode("ascii", "backslashreplace").decode()
    return RequestError(
        f"the encoding of the locale, {error.encoding}, has no character `{character}`", hint=_HINT
    )


def _file_encoding() -> str:
    return _name(sys.getfilesystemencoding())


def _name(encoding: str) -> str:
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        return encoding

"""URIs: how they are shown without their secrets, taken apart, and made of a path."""

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote

MASKED = ":***@"
"""What a URI shows in place of a password, and the characters around it."""

_SCHEME = r"[A-Za-z][A-Za-z0-9+.-]*"
_URI = rf"(?P<scheme>(?:{_SCHEME}:)*{_SCHEME})://"
"""`jdbc:postgresql://` as well: it opens nothing here, but people paste it, with its password."""
_WHOLE = re.compile(rf"{_URI}(?P<rest>.*)", re.DOTALL)
_PORT = r"\d{1,5}(?![^\s/?#,;.:)'\"`\]])"
_WITH_BLANKS = rf"[^\s:/?#@]*:(?!{_PORT})(?=\S)(?:(?!{_SCHEME}://)[^\n])*@\S*"
"""A password in which there are blanks: it ends at the last `@` of its line, before the next URI."""
_MASKED_BEFORE = r"[^\s:/?#@]*:\*\*\*@[^\s@]*(?!\S)"
"""The rest of a URI that shows no password any more: an `@` that follows in its line is not of it."""
_SERVER = r"(?:https?|postgres(?:ql)?|mysql|mariadb|mssql|oracle|rediss?)(?:\+\w+)?"
_OF_SERVERS = re.compile(_SERVER, re.IGNORECASE)
_OF_PATHS = r"(?:[A-Za-z]|models|runs|file|sqlite|journal|s3a?|gs|gcs|abfss?|hdfs|viewfs|dbfs|local|memory)"
"""What stands before `:/` and a path in which there may be an `@`: schemes, and the letter of a disk."""
_MISTYPED = (
    rf"(?P<start>{_SCHEME}:[/\\](?!/)|{_SCHEME}[;,.]?//+|{_SERVER}[:;,./\\]+|//+)?"
    rf"(?P<user>(?!{_OF_PATHS}:[/\\])[^\s:/\\=?#`'\"(<>\[]*):"
)
"""A user behind a scheme that is mistyped, or behind none: what follows, up to an `@`, is a password."""
_WHOLE_MISTYPED = re.compile(rf"{_MISTYPED}(?P<password>(?!//).+)@(?P<host>[^@]*)", re.DOTALL)
_TOKEN_MISTYPED = rf"(?<![^\s`'\"(<=\[,]){_MISTYPED}(?P<password>(?!//)(?:(?!://)\S)+)@"
_IN_TEXT = re.compile(rf"{_URI}(?P<rest>{_MASKED_BEFORE}|{_WITH_BLANKS}|\S*)|{_TOKEN_MISTYPED}")
_PORT_AND_QUERY = re.compile(r"\d{1,5}(?:/[^?#]*)?\?[^=]*=.*", re.DOTALL)
_IN_BRACKETS = re.compile(r"\[[0-9A-Fa-f:.]+\](?::\d|[/?#])")
"""A host that is an IPv6 address, and what shows that it is no user's name."""
_WORD = r"[^=&;?\s]*"
_SECRET_NAME = (
    rf"(?:{_WORD}(?:pass(?:word|wd)?|pwd|secret|token|sas|odbc_connect){_WORD}|{_WORD}(?<!ssl)(?<!ssl_)key)"
)
_SECRET_OF_QUERY = re.compile(
    rf"([?&;]{_SECRET_NAME}=)[^&;\s]+?(?=[`'\")]*[.,:]*(?:[&;\s]|$))", re.IGNORECASE
)
"""Without the quote that closes around the URI."""
_SECRET_IN_QUERY = re.compile(rf"[?&;]{_SECRET_NAME}=", re.IGNORECASE)
_WEB = ("http", "https")
_UNENCODED = re.compile(r"[@/?#\[\]\\\s\x00-\x1f]|%(?![0-9A-Fa-f]{2})")
"""What ends the part of a URI in which a password stands, or changes it when it is decoded."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """User and password as they stand in a URI, still percent-encoded."""

    user: str
    password: str | None

    @property
    def are_encoded(self) -> bool:
        """Whether every library reads them as they are meant."""
        return not any(_UNENCODED.search(part) for part in (self.user, self.password or ""))

    def decoded(self) -> tuple[str, str]:
        """User and password as a server knows them; an absent password is empty."""
        return unquote(self.user), unquote(self.password or "")


def split(uri: str) -> tuple[str, Credentials | None]:
    """A URI without its credentials, and these; None where it has none.

    The credentials end at the last `@`: a password in which an `@`, a `/` or a `#` was not percent-encoded
    belongs to them as a whole. An `@` in the query behind `HOST:PORT` is none of theirs.
    """
    found = _WHOLE.fullmatch(uri)
    credentials = _credentials(found) if found else None
    if found is None or credentials is None:
        return uri, None
    return f"{found['scheme']}://{found['rest'].rpartition('@')[2]}", credentials


def _credentials(found: re.Match[str]) -> Credentials | None:
    rest = found["rest"]
    if _OF_SERVERS.fullmatch(found["scheme"]):
        rest = rest.lstrip("/")  # a slash too many
    before, at, _ = rest.rpartition("@")
    user, colon, password = before.partition(":")
    # a path: of a file, or of a bucket that has an `@` in a name
    is_host = _PORT_AND_QUERY.fullmatch(password) or _IN_BRACKETS.match(rest)
    if not at or is_host or re.search(r"[/?#]", user):
        return None
    return Credentials(user, password if colon else None)


def without_password(uri: str) -> str:
    """A URI as it may be shown and stored: without its password. Other text stays as it is.

    What looks like `USER:PASSWORD@HOST` is masked where the scheme is mistyped or missing, too.
    """
    if _WHOLE.fullmatch(uri):
        return _WHOLE.sub(_masked, uri)
    found = _mistyped(uri)
    return uri if found is None else f"{_shown_mistyped(found)}{found['host']}"


def is_mistyped(uri: str) -> bool:
    """Whether a user and a password stand in it, but not behind `SCHEME://` as in a URI."""
    found = _WHOLE.fullmatch(uri)
    if found is None:
        return _mistyped(uri) is not None
    return found["rest"].startswith("/") and _credentials(found) is not None


def _mistyped(uri: str) -> re.Match[str] | None:
    found = _WHOLE_MISTYPED.fullmatch(uri)
    if found is None or _PORT_AND_QUERY.fullmatch(found["password"]):
        return None
    has_blank = re.search(r"\s", uri) is not None
    return None if has_blank and not found["start"] else found  # a sentence


def _shown_mistyped(found: re.Match[str]) -> str:
    return f"{found['start'] or ''}{found['user']}{MASKED}"


def without_passwords(text: str) -> str:
    """A text in which each URI is without its password, blanks in it included."""
    return _IN_TEXT.sub(_masked_in_text, text)


def _masked_in_text(found: re.Match[str]) -> str:
    if found["scheme"] is not None:
        return _masked(found)
    return found[0] if _PORT_AND_QUERY.fullmatch(found["password"]) else _shown_mistyped(found)


def _masked(found: re.Match[str]) -> str:
    start, rest = f"{found['scheme']}://", found["rest"]
    credentials = _credentials(found)
    if credentials is not None and credentials.password:
        rest = f"{credentials.user}{MASKED}{rest.rpartition('@')[2]}"
    elif credentials is not None and found["scheme"].lower() in _WEB:
        rest = f"{MASKED}{rest.rpartition('@')[2]}"  # a lone user name is how a token is given
    path, mark, query = rest.partition("?")
    query = re.sub(r"(?<==)[^&;\s]+", _masked_value, query)
    return start + _SECRET_OF_QUERY.sub(r"\1***", f"{path}{mark}{query}")


def _masked_value(found: re.Match[str]) -> str:
    """A value of a query, without the password where it is a URI itself, percent-encoded or not."""
    for value in (found[0], unquote(found[0])):
        if _WHOLE.fullmatch(value) and without_password(value) != value:
            return without_password(value)
    return found[0]


def without_password_of(text: str, uri: str) -> str:
    """A text, such as a library's message about a URI, in which neither the URI nor its password stands."""
    text = text.replace(uri, without_password(uri))
    _, credentials = split(uri)
    password = (credentials.password if credentials else None) or ""
    for form in sorted({password, unquote(password), quote(password, safe="")}, key=len, reverse=True):
        text = text.replace(form, "***") if form else text
    return without_passwords(text)


def is_masked(uri: str) -> bool:
    """Whether that is a URI as `without_password` shows it."""
    return MASKED in uri or "=***" in uri


def holds_secret(uri: str) -> bool:
    """Whether a URI contains a password or a key."""
    _, credentials = split(uri)
    named = bool(credentials and credentials.password) or bool(_SECRET_IN_QUERY.search(uri))
    return named or without_password(uri) != uri  # in a URI within its query


def of_sqlite(file: Path) -> str:
    """The URI of an SQLite database, named from the root, encoded as SQLAlchemy 2.1 decodes it.

    Where something is encoded, the driver is named as well: MLflow makes the folder of a plain `sqlite:` URI
    without decoding it, which would be another one.
    """
    path = str(file.absolute())
    encoded = path.replace("%", "%25").replace("?", "%3F")
    return f"{'sqlite' if encoded == path else 'sqlite+pysqlite'}:///{encoded}"


def file_of_sqlite(uri: str) -> Path | None:
    """The file of an SQLite database; None where the URI names none."""
    found = re.fullmatch(r"sqlite(?:\+\w+)?:///(?P<path>[^?]+)(?:\?.*)?", uri)
    return None if found is None or found["path"] == ":memory:" else Path(unquote(found["path"]))

"""Whether a text can be the address of a tracking store: asked of the text alone; nothing is opened."""

import os
import re
from importlib.metadata import entry_points

from infocal.errors import did_you_mean
from pipeline.base import credentials, uris
from pipeline.base.errors import PipelineError

VARIABLE, FLAG = "MLFLOW_TRACKING_URI", "--tracking-uri"
_WEB, _DATABASES = ("http", "https"), ("sqlite", "postgresql", "mysql", "mssql")
_OTHER_NAMES = {"postgres": "postgresql", "mariadb": "mysql", "sqlite3": "sqlite"}
_FORMS = "http://HOST:5000, postgresql://HOST/DATABASE or sqlite:///FILE"
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*)(?P<between>:/*|//+)")
_AUTHORITY = re.compile(r"[^:/]+://(?:\[[^\]]*\]|[^/?#:]*)(?::(?P<port>[^/?#]*))?")
"""Scheme, host and port of an address without user and password; an IPv6 address is in brackets."""
_LAST_PORT = 65535
_HOST = re.compile(r"[\w.-]+:\d{1,5}(?:/.*)?")


def named_by(uri: str) -> str:
    """What named an address: the environment variable, or the flag."""
    return VARIABLE if os.environ.get(VARIABLE) == uri else FLAG


def check(uri: str | None, flag: str) -> None:
    """Refuse an address that MLflow does not know, or whose password cannot be read as it is meant.

    Args:
        uri: None: there is none.
        flag: that named it, or the environment variable.

    Raises:
        PipelineError: if it is refused; the message holds no password.
    """
    if not uri:
        return
    found = re.match(r"([^:/]+)://", uri)
    scheme = found[1] if found else ""
    database, plus, driver = scheme.partition("+")
    is_database = database in _DATABASES and bool(driver) == bool(plus)
    if not (scheme in _WEB or is_database or scheme in _plugins()) or uris.is_mistyped(uri):
        raise PipelineError(
            "expected the address of an MLflow server or of its database, but got "
            f"`{uris.without_password(uri)}`",
            where=flag,
            hint=_hint(uri),
        )
    if scheme in _WEB and not re.match(r"[^/:?#]", uris.split(uri)[0].partition("://")[2]):
        raise PipelineError(
            f"expected `{scheme}://HOST:PORT`, but `{uris.without_password(uri)}` names no host", where=flag
        )
    found = _AUTHORITY.match(uris.split(uri)[0])
    port = found["port"] if found and database != "sqlite" else None
    if port and not (port.isascii() and port.isdigit() and 0 < int(port) <= _LAST_PORT):
        raise PipelineError(
            f"expected a port from 1 to {_LAST_PORT} in `{uris.without_password(uri)}`, but got `{port}`",
            where=flag,
        )
    if database == "sqlite" and uris.file_of_sqlite(uri) is None:
        raise PipelineError(
            f"expected `sqlite:///FILE`, but got `{uris.without_password(uri)}`",
            where=flag,
            hint="write `sqlite:///` followed by the file's path: sqlite:///runs/mlflow.db (relative) or "
            "sqlite:////srv/mlflow.db (absolute)",
        )
    credentials.check(uri, flag)


def usual_name(database: str) -> str | None:
    """How addresses call a kind of database that people know by another name; None: by no other."""
    return _OTHER_NAMES.get(database)


def _plugins() -> set[str]:
    """Schemes that packages on this machine add to MLflow."""
    return {one.name for one in entry_points(group="mlflow.tracking_store")}


def _hint(uri: str) -> str:
    """The address that was probably meant, or the forms that there are; never a password."""
    forms = f"give it as {_FORMS}"
    if _HOST.fullmatch(uri):
        return f"did you mean `http://{uri}`? Other forms: {_FORMS}"
    if uri.endswith((".db", ".sqlite")) and "@" not in uri and ":" not in uri:
        return f"did you mean `sqlite:///{uri}`? Other forms: {_FORMS}"
    found = _SCHEME.match(re.sub(r"^(?:\w+:)+(?=\w+://)", "", uri))
    if found is None:
        return forms
    database, plus, driver = found["scheme"].lower().partition("+")
    known = (*_WEB, *_DATABASES)
    name = usual_name(database) or (database if database in known else None)
    slashes = ":///" if name == "sqlite" else "://"
    if name is not None:
        return f"did you mean `{name}{plus}{driver}{slashes}`? Give it as {_FORMS}"
    near = did_you_mean(database, known, suffix="://")
    return f"{near} Give it as {_FORMS}" if near else forms

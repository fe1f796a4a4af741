"""URIs: no password is ever shown, and a path comes back as it was."""

from pathlib import Path
from urllib.parse import quote

import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.base import credentials, uris
from pipeline.base.command_text import stored_command
from pipeline.base.errors import PipelineError, describe
from pipeline.base.storage import Storage

PASSWORDS = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FF, exclude_categories=("C", "Z")), min_size=3
).map(lambda text: f"pw-{text}-pw")
"""Of every sign that can be typed; long enough not to stand in a message by chance."""
STARTS = st.sampled_from(
    [
        "http://ada:{}@host:5000",
        "https://ada:{}@host/a/b",
        "postgresql+psycopg://ada:{}@10.0.0.1:5432/db",
        "redis://:{}@[::1]/0",
        "s3://key:{}@bucket/a?region=eu",
        "mysql://ada:{}@host/db?charset=utf8",
    ]
)


@given(STARTS, PASSWORDS)
def test_no_password_is_shown_stored_or_told(start: str, password: str):
    raw, encoded = start.format(password), start.format(quote(password, safe=""))
    shown = start.replace(":{}@", uris.MASKED)
    for uri in (raw, encoded):
        assert uris.without_password(uri) == shown
        assert password not in stored_command("pipeline.search", ["--tracking-uri", uri, f"--a={uri}"])
        assert password not in describe(
            PipelineError(f"cannot use `{uri}` now", where=uri, hint=f"try {uri}")
        )
        said = f"no host {password!s} or {quote(password, safe='')} of {uri}"
        told = uris.without_password_of(said, uri)
        assert password not in told and quote(password, safe="") not in told
    credentials.check(encoded, "--tracking-uri")


@given(STARTS, PASSWORDS, st.sampled_from("@/#?%"))
def test_a_password_that_would_be_misread_is_refused_and_not_told(start: str, password: str, bare: str):
    given_password = f"pw-{password}{bare}{password}"
    with pytest.raises(PipelineError, match="expected a percent-encoded user name and password") as caught:
        credentials.check(start.format(given_password), "--tracking-uri")
    told = describe(caught.value)
    assert password not in told
    assert "%40" in told and "%2F" in told
    shown = uris.without_password(start.format(given_password))
    assert f"but got an unencoded `@`, `/`, `#`, `?`, `%` or blank in `{shown}`" in told, "nothing is eaten"


@pytest.mark.parametrize(
    "uri", ["postgresql://ada:***@host/db", "http://:***@host", "mysql://h/d?passwd=***"]
)
def test_a_masked_uri_is_refused(uri: str):
    with pytest.raises(PipelineError, match="is not stored"):
        credentials.check(uri, "--tracking-uri")


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://user:p@ss%w#rd/1@h/db", "postgresql://user:***@h/db"),
        ("https://token@host/a", "https://:***@host/a"),
        ("postgresql://ada@host/db", "postgresql://ada@host/db"),
        ("s3://bucket/a:b@c", "s3://bucket/a:b@c"),
        ("s3://bucket/a@b?region=eu", "s3://bucket/a@b?region=eu"),
        ("sqlite:////home/a:b@c/mlflow.db", "sqlite:////home/a:b@c/mlflow.db"),
        ("file:///data/a:b@c", "file:///data/a:b@c"),
        ("abfs://c@account/x?sas_token=hush", "abfs://c@account/x?sas_token=***"),
        ("postgresql://h/db?sslkey=/k.pem&password=hush", "postgresql://h/db?sslkey=/k.pem&password=***"),
        ("mssql+pyodbc:///?odbc_connect=PWD%3Dhush", "mssql+pyodbc:///?odbc_connect=***"),
        ("models:/name@champion", "models:/name@champion"),
        ("jdbc:postgresql://ada:p@ss@h/db", "jdbc:postgresql://ada:***@h/db"),
        ("x:jdbc:mysql://h/db?user=ada&password=hush", "x:jdbc:mysql://h/db?user=ada&password=***"),
        ("http://h:5000/x?email=a@b.c", "http://h:5000/x?email=a@b.c"),
        ("https://h:443?to=a@b&token=hush", "https://h:443?to=a@b&token=***"),
        ("http://[::1]:5000/team@home", "http://[::1]:5000/team@home"),
        ("postgresql://[fe80::1]/db?options=a:b@c", "postgresql://[fe80::1]/db?options=a:b@c"),
    ],
)
def test_what_is_no_secret_stays(uri: str, shown: str):
    assert uris.without_password(uri) == shown
    assert uris.without_passwords(f"see {uri} there") == f"see {shown} there"


BLANKS = st.lists(st.text("aB1@#/?%:\t", min_size=1, max_size=5), min_size=2, max_size=4).map(
    lambda words: f"pw{' '.join(words)}pw"
)


@given(STARTS, PASSWORDS)
def test_what_follows_a_masked_uri_stays(start: str, password: str):
    """A text is masked where it is made, and once more where it is printed."""
    shown = uris.without_password(start.format(quote(password, safe="")))
    for said in (f"`{shown}`, or an unencoded `@`", f"store {shown} has models:/m@champion version 3"):
        assert uris.without_passwords(said) == said


@given(STARTS, BLANKS)
def test_a_password_with_blanks_is_masked_as_a_whole_in_what_a_library_says(start: str, password: str):
    uri, shown = start.format(password), start.replace(":{}@", uris.MASKED)
    said = f'cannot open "{uri}": no route\nwrite to ops@example.org'
    assert uris.without_passwords(said) == f'cannot open "{shown}": no route\nwrite to ops@example.org'
    assert uris.without_passwords(f"{uri} or {uri}") == f"{shown} or {shown}"
    with pytest.raises(PipelineError, match="expected a percent-encoded user name and password"):
        credentials.check(uri, "--tracking-uri")


@pytest.mark.parametrize(
    "said",
    [
        "see http://h:5000/ and mail ada@example.org",
        "http://h:5000 is down, mail ada@example.org",
        "http://h: is down, mail ada@example.org",
        "models:/name@champion of http://h:5000, by ada@example.org",
    ],
)
def test_what_stands_behind_a_uri_stays(said: str):
    assert uris.without_passwords(said) == said


@pytest.mark.parametrize(
    "uri", ["http://h:5000/x?email=a@b.c", "http://[::1]:5000/a@b", "http://ada:pw@h:5000/x", "https://h/a@b"]
)
def test_an_at_sign_elsewhere_is_no_password(uri: str):
    credentials.check(uri, "--tracking-uri")


NAMES = (
    st.lists(st.sampled_from([*"ab%@#?&=+: ü中", "%2F", "%41", "%25", "%3F"]), min_size=1, max_size=6)
    .map("".join)
    .filter(lambda name: name.strip() == name)
)


@given(NAMES)
def test_the_file_of_a_database_comes_back_from_its_uri(name: str):
    file = Path("/runs") / name / "mlflow.db"
    assert uris.file_of_sqlite(uris.of_sqlite(file)) == file


@settings(max_examples=10, deadline=None)
@given(name=NAMES)
def test_a_database_lies_in_the_folder_that_was_named(name: str, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("place")
    (folder / name).mkdir()
    (folder / "expA").mkdir(exist_ok=True)
    storage = optuna.storages.RDBStorage(uris.of_sqlite(folder / name / "optuna.db"))
    storage.engine.dispose()
    assert [path.relative_to(folder) for path in folder.rglob("*.db")] == [Path(name) / "optuna.db"]


def test_a_uri_that_names_no_file_has_none():
    for uri in ("sqlite://", "sqlite:///:memory:", "http://host", "postgresql://h/db"):
        assert uris.file_of_sqlite(uri) is None


MISTYPED = [
    "http:/ada:{}@h:5000",
    "http//ada:{}@h",
    "http;//ada:{}@h",
    "http:ada:{}@h",
    "https/ada:{}@h",
    "http:///ada:{}@h",
    "postgresql:/ada:{}@h/db",
    "postgresql+psycopg:/ada:{}@h/db",
    "//ada:{}@h",
    "ada:{}@h:5000",
    "ada@corp.example:{}@h",
    ":{}@h",
]


@pytest.mark.parametrize("inner", ["http://ada:hush@h:9", "http%3A%2F%2Fada%3Ahush%40h%3A9"])
@pytest.mark.parametrize("end", ["", "&region=x"])
def test_a_password_of_a_uri_within_a_query_is_masked(inner: str, end: str):
    uri = f"s3://bucket/x?endpoint_override={inner}{end}"
    assert uris.holds_secret(uri)
    assert not uris.holds_secret(f"s3://bucket/x?endpoint_override=http%3A%2F%2Fh%3A9{end}")
    for shown in (uris.without_password(uri), uris.without_passwords(f"cannot open {uri}: away")):
        assert "hush" not in shown
        assert "s3://bucket/x?endpoint_override=http://ada:***@h:9" + end in shown


@pytest.mark.parametrize("form", MISTYPED)
@pytest.mark.parametrize("password", ["hush-hush", "hush@hush", "hu/sh", "hush#1", "%68ush"])
def test_a_password_is_masked_where_the_scheme_is_mistyped_or_missing(form: str, password: str):
    uri, shown = form.format(password), form.replace(":{}@", uris.MASKED).replace(":///", "://")
    assert uris.is_mistyped(uri)
    assert uris.without_password(uri) == uris.without_password(shown) == shown
    assert uris.without_passwords(f"cannot use `{uri}`, see x") == f"cannot use `{shown}`, see x"
    assert password not in stored_command("pipeline.search", ["--tracking-uri", uri, f"--tracking-uri={uri}"])
    with pytest.raises(PipelineError, match="expected a folder or a URI") as caught:
        Storage(uri if "://" not in uri else form.replace("///", "/").format(password)).opened()
    assert password not in describe(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        *["runs/a@b", "runs/10:30@home", "./10:30@home", "/data/a:b@c", "D:/notes/a@b", "ada@example.org"],
        *["models:/name@champion", "s3:/bucket/x@y", "file:/data/a:b@c", "git@host", "note: mail ada@b.org"],
        *["http://h:5000", "h:5000/x?email=a@b.c"],
    ],
)
def test_what_only_resembles_a_password_stays(text: str):
    assert not uris.is_mistyped(text)
    assert uris.without_password(text) == text
    assert uris.without_passwords(f"see `{text}`, {text} and {text}") == f"see `{text}`, {text} and {text}"


def test_a_setting_in_a_stored_command_stays():
    assert uris.without_password("labels=a:b@c") == "labels=a:b@c"


def test_a_masked_query_leaves_the_quote_behind_it():
    said = "`postgresql://h/db?password=hu`sh` failed ('mysql://h/d?passwd=hush')."
    assert (
        uris.without_passwords(said) == "`postgresql://h/db?password=***` failed ('mysql://h/d?passwd=***')."
    )

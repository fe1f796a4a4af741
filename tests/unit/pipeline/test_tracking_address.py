"""An address that MLflow does not know is refused by every command, before anything is read or built."""

from importlib.metadata import EntryPoint

import pytest

from pipeline import compare, evaluate, explain, promote, relocate, report, reproduce, search, train
from pipeline.base import tracking_address
from pipeline.base.errors import PipelineError, run_command
from pipeline.base.locations import TRACKING_VARIABLE

BEER = ["--aspect", "palate", "--sample"]
COMMANDS = {
    "search": (search.main, [*BEER, "--dry-run"]),
    "compare": (compare.main, [*BEER, "--methods", "infocal,fresh", "--dry-run"]),
    "report": (report.main, BEER),
    "promote": (promote.main, BEER),
    "train": (train.main, [*BEER, "--from-run", "x"]),
    "explain": (explain.main, ["--model", "models:/m@champion", "--text", "ok"]),
    "evaluate": (evaluate.main, ["--run", "x"]),
    "reproduce": (reproduce.main, ["--run", "x"]),
    "relocate": (relocate.main, ["--dry-run"]),
}


@pytest.mark.parametrize(
    ("uri", "meant"),
    [
        ("htp://foo", "http://"),
        ("HTTPS://foo", "https://"),
        ("http:/foo:5000", "http://"),
        ("postgres://ada:hush@h/db", "postgresql://"),
        ("postgresq://h/db", "postgresql://"),
        ("jdbc:mysql://ada:hush@h/db", "mysql://"),
        ("sqlite:/x.db", "sqlite:///"),
        ("runs/mlflow.db", "sqlite:///runs/mlflow.db"),
        ("localhost:5000", "http://localhost:5000"),
    ],
)
def test_the_address_that_was_meant_is_asked_for(uri: str, meant: str):
    with pytest.raises(PipelineError, match="expected the address of an MLflow server") as caught:
        tracking_address.check(uri, "--tracking-uri")
    assert f"did you mean `{meant}`?" in str(caught.value.hint)
    assert "hush" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("uri", ["redis://h", "databricks", "file:///runs", "nonsense", "sqlite+://x.db"])
def test_another_store_is_refused(uri: str):
    with pytest.raises(PipelineError, match=f"FLAG: expected the address .* but got `{uri[:5]}") as caught:
        tracking_address.check(uri, "FLAG")
    assert "http://HOST:5000" in str(caught.value.hint)


@pytest.mark.parametrize("uri", ["http://", "https:///x", "http://ada@", "http://ada:hush@", "http://:5000"])
def test_a_server_needs_a_host(uri: str):
    with pytest.raises(PipelineError, match="--tracking-uri: expected `https?://HOST:PORT`, but ") as caught:
        tracking_address.check(uri, "--tracking-uri")
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize("port", ["notaport", "0", "70000", "5_0", "-1", "²"])
@pytest.mark.parametrize(
    "start", ["http://h", "https://ada:hush@h", "postgresql://ada:hush@h", "mysql+x://[::1]"]
)
def test_a_port_is_a_number(start: str, port: str):
    message = f"--tracking-uri: expected a port from 1 to 65535 in .* but got `{port}`$"
    for rest in ("", "/db", "?a=b"):
        with pytest.raises(PipelineError, match=message) as caught:
            tracking_address.check(f"{start}:{port}{rest}", "--tracking-uri")
        assert "hush" not in str(caught.value)


@pytest.mark.parametrize("stated", [None, "http://h", "http://other"])
def test_a_message_names_what_named_the_address(stated: str | None, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    if stated:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", stated)
    named = "MLFLOW_TRACKING_URI" if stated == "http://h" else "--tracking-uri"
    assert tracking_address.named_by("http://h") == named


@pytest.mark.parametrize("uri", ["sqlite://", "sqlite:///:memory:", "sqlite:///"])
def test_a_database_needs_a_file(uri: str):
    with pytest.raises(PipelineError, match="expected `sqlite:///FILE`"):
        tracking_address.check(uri, "--tracking-uri")


@pytest.mark.parametrize(
    "uri",
    [
        *["http://h", "https://ada:pw@h:5000/mlflow", "sqlite:///x.db", "sqlite+pysqlite:////a/x.db"],
        *[
            "postgresql://ada:pw@h/db",
            "postgresql+psycopg:///db",
            "mysql+pymysql://h/d",
            "mssql+pyodbc://h/d",
        ],
        None,
        "",
    ],
)
def test_what_mlflow_knows_is_taken(uri: str | None):
    tracking_address.check(uri, "--tracking-uri")


def test_a_store_of_a_plugin_is_taken(monkeypatch: pytest.MonkeyPatch):
    own = EntryPoint("azureml", "a:b", "mlflow.tracking_store")
    monkeypatch.setattr(tracking_address, "entry_points", lambda group: [own] if "tracking" in group else [])
    tracking_address.check("azureml://h/x", "--tracking-uri")


@pytest.mark.parametrize("given_by", ["flag", "environment"])
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("uri", ["htp://foo", "ada:hush@h:5000"])
def test_every_command_refuses_it_at_once(name, given_by, uri, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command, flags = COMMANDS[name]
    if given_by == "flag":
        flags, where = [*flags, "--tracking-uri", uri], "--tracking-uri"
    else:
        monkeypatch.setenv(TRACKING_VARIABLE, uri)
        where = TRACKING_VARIABLE
    assert run_command(command, flags) == 2
    told = capsys.readouterr().err
    assert f"error: {where}: expected the address of an MLflow server" in told
    assert "hush" not in told
    assert list(tmp_path.iterdir()) == []

"""A database of another MLflow is refused, and not a byte of it changes."""

import hashlib
import re
import shlex
import sqlite3
import subprocess
from pathlib import Path

import optuna
import pytest
from alembic import command
from mlflow.store.db.utils import _get_alembic_config
from sqlalchemy import create_engine

from pipeline import explain, report, train
from pipeline.base.errors import PipelineError, run_command
from pipeline.base.uris import of_sqlite
from pipeline.tracking import schema
from pipeline.tracking.tracking import Tracker

OLDER = {"2.14.3": "5b0e9adcef9c", "3.1.4": "bda7b8c39065"}
"""MLflow's version -> revision of the tables that it makes."""


def database_of(folder: Path, revision: str) -> Path:
    """A database as an older MLflow left it, in a folder of its own."""
    folder.mkdir()
    file = folder / "mlflow.db"
    engine = create_engine(of_sqlite(file))
    from mlflow.store.tracking.dbmodels.initial_models import Base

    Base.metadata.create_all(engine)
    engine.dispose()
    command.upgrade(_get_alembic_config(of_sqlite(file)), revision)
    return file


def state_of(folder: Path) -> dict[str, tuple[str, int]]:
    """Digest and time of change of every file."""
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.fixture(params=list(OLDER), scope="module")
def older(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return database_of(tmp_path_factory.mktemp("older") / "team", OLDER[request.param])


@pytest.mark.parametrize("create", [True, False])
def test_an_older_database_is_refused_and_left_as_it_is(older: Path, create: bool):
    before = state_of(older.parent)
    with pytest.raises(PipelineError, match="was written by an older MLflow") as caught:
        Tracker(of_sqlite(older), create=create)
    assert caught.value.where is None, "it may come from a default or from the environment"
    assert str(caught.value.hint) == (
        f"upgrade a copy: `cp {older} mlflow-copy.db && mlflow db upgrade sqlite:///mlflow-copy.db`; then "
        "name the copy: `--tracking-uri sqlite:///mlflow-copy.db`"
    )
    assert state_of(older.parent) == before


@pytest.mark.parametrize(
    ("main", "arguments"),
    [
        (report.main, ["--dataset", "beer", "--aspect", "palate"]),
        (explain.main, ["--model", "models:/infocal-beer-palate@champion", "--text", "ok"]),
        (train.main, ["--aspect", "palate", "--sample", "--from-run", "x"]),
    ],
)
def test_no_command_migrates_it(
    main, arguments: list[str], older: Path, tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    before = state_of(older.parent)
    assert run_command(main, [*arguments, "--tracking-uri", of_sqlite(older)]) == 2
    assert "was written by an older MLflow" in capsys.readouterr().err
    assert state_of(older.parent) == before


def test_the_commands_of_the_hint_make_a_copy_usable_and_leave_the_database(tmp_path: Path, monkeypatch):
    file = database_of(tmp_path / "the team's", OLDER["2.14.3"])
    before = state_of(file.parent)
    with pytest.raises(PipelineError, match="was written by an older MLflow") as caught:
        schema.refuse_another_schema(of_sqlite(file))
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    copying, upgrading, naming = re.findall(r"`(.+?) && (.+?)`.*`(.+?)`", str(caught.value.hint))[0]
    subprocess.run(shlex.split(copying), check=True)
    uri = shlex.split(upgrading)[-1]
    assert shlex.split(naming) == ["--tracking-uri", uri]
    command.upgrade(_get_alembic_config(uri), "heads")
    schema.refuse_another_schema(uri)
    assert state_of(file.parent) == before


def test_the_database_of_a_server_is_upgraded_by_its_owner(monkeypatch: pytest.MonkeyPatch):
    found = ({"experiments", "alembic_version"}, OLDER["2.14.3"])
    monkeypatch.setattr(schema, "_found_on_server", lambda uri: found)
    with pytest.raises(PipelineError, match="was written by an older MLflow") as caught:
        schema.refuse_another_schema("postgresql://ada:hush@h/db")
    hint = str(caught.value.hint)
    assert "ask the owner" in hint and "***" not in hint and "upgrade the copy" in hint


def test_a_database_of_a_newer_version_says_that_ours_is_old(tmp_path: Path):
    Tracker(of_sqlite(tmp_path / "mlflow.db"))
    with sqlite3.connect(tmp_path / "mlflow.db") as database:
        database.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    database.close()
    before = state_of(tmp_path)
    with pytest.raises(PipelineError, match=r"belongs to a newer MLflow .* here is older") as caught:
        Tracker(of_sqlite(tmp_path / "mlflow.db"), create=False)
    assert "install the MLflow version that wrote the database" in str(caught.value.hint)
    assert state_of(tmp_path) == before


def test_the_database_of_another_program_is_refused(tmp_path: Path):
    file = tmp_path / "optuna.db"
    optuna.storages.RDBStorage(of_sqlite(file)).engine.dispose()
    before = state_of(tmp_path)
    with pytest.raises(PipelineError, match=r"expected an MLflow database, but .* has other tables"):
        Tracker(of_sqlite(file))
    assert state_of(tmp_path) == before


def test_a_version_in_a_write_ahead_log_counts(tmp_path: Path):
    file = tmp_path / "mlflow.db"
    Tracker(of_sqlite(file))
    writer = sqlite3.connect(file)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("UPDATE alembic_version SET version_num = 'ffffffffffff'")
    writer.commit()
    with pytest.raises(PipelineError, match="belongs to a newer MLflow"):
        schema.refuse_another_schema(of_sqlite(file))
    writer.close()


def test_a_command_that_reads_makes_no_tables_in_an_empty_database(tmp_path: Path):
    file = tmp_path / "empty.db"
    file.touch()
    with pytest.raises(PipelineError, match="nothing was tracked in `sqlite:///.*empty.db` yet"):
        Tracker(of_sqlite(file), create=False)
    assert not file.stat().st_size


def test_the_copy_of_an_open_database_has_its_log(tmp_path: Path):
    file = database_of(tmp_path / "team", OLDER["2.14.3"])
    file.with_name(f"{file.name}-wal").touch()
    with pytest.raises(PipelineError, match="was written by an older MLflow") as caught:
        schema.refuse_another_schema(of_sqlite(file))
    copies = f"`cp {file} {file.stem}-copy.db && cp {file}-wal {file.stem}-copy.db-wal && mlflow"
    assert copies in str(caught.value.hint)


@pytest.mark.parametrize("name", ["mlflow.db", "empty.db"])
def test_a_database_of_ours_or_an_empty_one_is_taken(name: str, tmp_path: Path):
    (tmp_path / "empty.db").touch()
    Tracker(of_sqlite(tmp_path / name))
    schema.refuse_another_schema(of_sqlite(tmp_path / name))
    schema.refuse_another_schema(of_sqlite(tmp_path / "none.db"))


def test_a_database_server_that_is_not_there_is_one_line_without_the_password():
    with pytest.raises(PipelineError, match="cannot use the tracking store `postgresql://ada:") as caught:
        schema.refuse_another_schema("postgresql://ada:hush-hush@127.0.0.1:1/db")
    assert "hush" not in str(caught.value)

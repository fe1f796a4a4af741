"""After a folder of results was moved, MLflow's own commands find its artifacts again."""

import shutil
import sqlite3
from pathlib import Path

import mlflow
import pytest

from pipeline import relocate
from pipeline.base import moved
from pipeline.base.errors import run_command
from pipeline.tracking import model_registry, relocation
from pipeline.tracking.tracking import Tracker
from tests.small_store import NAME, new_store, small_package


class Results:
    """A folder of results with a run, its pages, and a registered model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        tracker = new_store(folder)
        self.run_id = tracker.start_run(tracker.experiment("beer", "palate"), "trial-00", {}, {})
        tracker.experiment("beer", "smell")  # without an artifact
        tracker.log_artifact(self.run_id, "rationales", "rationales.html")
        package = small_package(folder / "package")
        model_registry.register(tracker, package, name=NAME, run_id=self.run_id, tags={})

    def go_to(self, target: Path, *, is_copy: bool = False) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if is_copy else shutil.move)(self.folder, target)
        return target


@pytest.fixture
def results(tmp_path: Path) -> Results:
    return Results(tmp_path / "old")


def served(folder: Path) -> Path:
    """Where MLflow itself finds the registered model."""
    address = f"sqlite:///{folder / 'mlflow.db'}"
    client = mlflow.MlflowClient(address, registry_uri=address)
    path = moved.path_of(client.get_model_version_download_uri(NAME, "1"))
    assert path is not None
    return path


def page_of(folder: Path, run_id: str, target: Path) -> str:
    address = f"sqlite:///{folder / 'mlflow.db'}"
    client = mlflow.MlflowClient(address, registry_uri=address)
    target.mkdir(exist_ok=True)
    return Path(client.download_artifacts(run_id, "rationales.html", str(target))).read_text(encoding="utf-8")


@pytest.mark.parametrize("is_copy", [False, True])
@pytest.mark.parametrize("name", ["new", "neu 100% ä/50% new"])
def test_mlflow_finds_what_was_moved(
    results: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, is_copy: bool
):
    target = results.go_to(tmp_path / name, is_copy=is_copy)
    assert not served(target).is_relative_to(target)
    before = (target / "mlflow.db").read_bytes()
    assert run_command(relocate.main, ["--storage", str(target), "--dry-run"]) == 0
    planned = capsys.readouterr().out
    assert "paths of artifacts would be changed (" in planned
    assert f"they would then begin with {(target / 'artifacts').as_uri()}" in planned
    assert (target / "mlflow.db").read_bytes() == before
    assert run_command(relocate.main, ["--storage", str(target)]) == 0
    assert f"they now begin with {(target / 'artifacts').as_uri()}" in capsys.readouterr().out
    found = served(target)
    assert found.is_relative_to(target) and (found / "MLmodel").is_file()
    model = mlflow.pyfunc.load_model(str(found))
    assert len(model.predict(["a thin body ."])) == 1
    assert page_of(target, results.run_id, tmp_path / "copies") == "rationales"
    with sqlite3.connect(target / "mlflow.db") as database:
        for table, column in relocation.COLUMNS:
            for (value,) in database.execute(f"SELECT {column} FROM {table}"):
                path = moved.path_of(value)
                assert path is None or not path.is_relative_to(results.folder), (table, value)
    assert run_command(relocate.main, ["--storage", str(target)]) == 0
    assert capsys.readouterr().out.startswith("nothing to change: ")
    if is_copy:
        assert served(results.folder).is_relative_to(results.folder), "the original stays what it was"


def test_a_folder_that_was_moved_is_told_once(
    results: Results, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    target = results.go_to(tmp_path / "far away" / "new")
    tracker = Tracker(f"sqlite:///{target / 'mlflow.db'}", create=False)
    for number in range(2):
        tracker.download(results.run_id, "rationales.html", tmp_path / f"copy-{number}")
    said = [line for line in caplog.messages if "python -m pipeline.relocate" in line]
    assert len(said) == 1
    assert f"were moved or copied here from {results.folder}; " in said[0]
    assert said[0].endswith(f"`python -m pipeline.relocate --storage '{target}'`")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--storage", "nowhere"], "there is no tracking database `"),
        (["--tracking-uri", "http://team:pa55@127.0.0.1:9"], "but got `http://team:***@127.0.0.1:9`"),
    ],
)
def test_what_cannot_be_changed_is_named(
    flags: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert run_command(relocate.main, flags) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_no_mlflow_database_is_left_alone(tmp_path: Path, capsys):
    file = tmp_path / "mlflow.db"
    with sqlite3.connect(file) as database:
        database.execute("CREATE TABLE runs (artifact_uri TEXT)")
    before = file.read_bytes()
    assert run_command(relocate.main, ["--storage", str(tmp_path)]) == 2
    assert "expected an MLflow database" in capsys.readouterr().err
    assert file.read_bytes() == before


def test_a_database_that_is_in_use_is_told(
    results: Results, monkeypatch: pytest.MonkeyPatch, tmp_path, capsys
):
    target = results.go_to(tmp_path / "new")
    connect = sqlite3.connect
    monkeypatch.setattr(
        relocation.sqlite3, "connect", lambda file, **more: connect(file, **{"timeout": 0, **more})
    )
    with connect(target / "mlflow.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert run_command(relocate.main, ["--storage", str(target)]) == 2
    assert "cannot change the database: database is locked" in capsys.readouterr().err

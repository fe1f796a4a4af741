import shlex
from pathlib import Path

import pytest

from pipeline.base import command_text, locations
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Storage
from pipeline.base.uris import of_sqlite, without_password


def test_a_command_to_go_on_names_the_tracking_that_the_environment_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@host:5000")
    found = command_text.next_commands("first", Storage("runs"), None)
    for command in (found.resume, found.sync, found.register):
        assert command.endswith("--name first"), "the environment holds the password, which a flag would lack"
    other = command_text.next_commands("first", Storage("runs"), "http://me:secret@other:5000")
    assert other.sync.endswith("--name first"), "a masked password would name no store"
    assert other.how_to_sync == (
        f"{other.sync} (first set MLFLOW_TRACKING_URI to the full address of http://me:***@other:5000, with "
        "its password)"
    )
    assert found.how_to_sync == found.sync, "the environment holds it"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://host:5000")
    found = command_text.next_commands("first", Storage("runs"), None)
    assert found.sync.endswith("--name first --tracking-uri http://host:5000")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", of_sqlite(Path("runs/mlflow.db").resolve()))
    assert (
        command_text.next_commands("first", Storage("runs"), None).sync
        == "python -m pipeline.sync --name first"
    )


@pytest.mark.parametrize(
    "uri", ["http://me:secret@host:5000", "https://token@host", "postgresql://ada:s%40t@h/d"]
)
def test_a_printed_command_finds_the_store_that_the_environment_holds(uri: str, monkeypatch):
    storage = Storage("runs")
    shown = without_password(uri)
    assert command_text.tracking_flags(storage, shown) == []
    assert f" full address of {shown}, " in command_text.variable_to_set(shown)
    with pytest.raises(PipelineError, match="is not stored") as caught:
        locations.tracking_uri(shown, storage)
    assert "set MLFLOW_TRACKING_URI" in str(caught.value.hint)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    assert locations.tracking_uri(shown, storage) == uri
    assert command_text.tracking_flags(storage, shown) == []
    assert command_text.variable_to_set(shown) == ""
    assert locations.tracking_uri(None, storage) == uri
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri.replace("h", "i"))
    with pytest.raises(PipelineError, match="is not stored"):
        locations.tracking_uri(shown, storage)


@pytest.mark.parametrize(
    ("given", "left"),
    [
        (["--a", "1", "--force", "--b", "2"], ["--b", "2"]),
        (["--a=1", "--b", "x y"], ["--b", "x y"]),
        (["--b", "2", "--a", "1"], ["--b", "2"]),
        (["--ab", "1"], ["--ab", "1"]),
    ],
)
def test_flags_can_be_left_out_of_a_command(given: list[str], left: list[str]):
    command = shlex.join(["python", "-m", "m", *given])
    assert shlex.split(command_text.without_flags(command, {"--a": 1, "--force": 0}))[3:] == left


def test_a_stored_command_holds_no_password_and_means_the_same_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    given = ["--tracking-uri=http://me:secret@host", "--tracking-uri", "sqlite:///a b.db?timeout=5"]
    given += ["--optuna-storage", "journal:///deep/o.log", "--storage", "runs", "--set", "encoder=lstm"]
    command = command_text.stored_command("pipeline.search", given)
    assert shlex.split(command) == [
        *["python", "-m", "pipeline.search", "--tracking-uri=http://me:***@host"],
        *["--tracking-uri", f"sqlite:///{tmp_path}/a b.db?timeout=5"],
        *[
            "--optuna-storage",
            f"journal:///{tmp_path}/deep/o.log",
            "--storage",
            "runs",
            "--set",
            "encoder=lstm",
        ],
    ]
    again = command_text.stored_command("pipeline.search", shlex.split(command)[3:])
    assert again == command
    assert "--storage=-lead" in command_text.next_commands("first", Storage("-lead"), None).resume

import shlex
from pathlib import Path

import pytest

from pipeline.base import command_text, locations
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Storage


@pytest.mark.parametrize(
    ("given", "sample", "folder"),
    [
        (None, False, "runs"),
        (None, True, "runs/sample"),
        ("elsewhere", False, "elsewhere"),
        ("elsewhere", True, "elsewhere"),
    ],
)
def test_results_of_the_sample_stay_apart(given: str | None, sample: bool, folder: str):
    assert locations.storage(given, sample).folder == Path(folder)


def test_tracking_goes_to_the_flag_then_the_environment_then_sqlite_in_the_storage(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    # absolute: a worker or a later command may stand in another folder
    own = f"sqlite:///{tmp_path.resolve()}/runs/mlflow.db"
    assert locations.tracking_uri(None, Storage("runs")) == own
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking:5000")
    assert locations.tracking_uri(None, Storage("runs")) == "http://tracking:5000"
    assert locations.tracking_uri("sqlite:///x.db", Storage("runs")) == "sqlite:///x.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "")
    assert locations.tracking_uri(None, Storage("runs")) == own


@pytest.mark.parametrize("by_variable", [False, True])
def test_a_tracking_database_in_a_missing_folder_is_refused(
    by_variable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    wrong, given = "sqlite:///rnus/team a/mlflow.db", "sqlite:///rnus/team a/mlflow.db"
    if by_variable:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", wrong)
        given = None
    flag = "MLFLOW_TRACKING_URI" if by_variable else "--tracking-uri"
    with pytest.raises(PipelineError, match=f"{flag}: there is no folder `rnus/team a` for") as caught:
        locations.tracking_uri(given, Storage("runs"))
    assert "mkdir -p 'rnus/team a'" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []
    for own in ("sqlite:///runs/mlflow.db", "sqlite:///mine/mlflow.db"):
        assert locations.tracking_uri(own, Storage("mine")) == own, "folders of results are made"


def test_results_at_a_uri_need_a_tracking_server(monkeypatch: pytest.MonkeyPatch):
    storage = Storage("s3://bucket/x")
    with pytest.raises(PipelineError, match="`--storage s3://bucket/x` needs an MLflow server"):
        locations.tracking_uri(None, storage)
    assert locations.tracking_uri("sqlite:///own.db", storage) == "sqlite:///own.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracking:5000")
    assert locations.tracking_uri(None, storage) == "http://tracking:5000"


def test_a_folder_that_cannot_be_made_is_named_with_its_flag(tmp_path: Path):
    (tmp_path / "file").write_text("")
    with pytest.raises(PipelineError, match="--storage: expected a folder, but `.*file` is a file"):
        locations.make_folder(tmp_path / "file" / "studies", "--storage")


def test_a_folder_is_made_with_those_above_it(tmp_path: Path):
    locations.make_folder(tmp_path / "a" / "b", "--storage")
    locations.make_folder(tmp_path / "a" / "b", "--storage")
    assert (tmp_path / "a" / "b").is_dir()


def test_what_is_to_be_typed_is_quoted_and_holds_no_password():
    commands = command_text.next_commands(
        "first", Storage("my runs/ä"), "http://me:secret@host:5000", address="10.0.0.1:6379"
    )
    places = ["--name", "first", "--storage", "my runs/ä"]
    cluster = ["--address", "10.0.0.1:6379"]
    assert shlex.split(commands.resume) == ["python", "-m", "pipeline.search", "--resume", *places, *cluster]
    assert shlex.split(commands.sync) == ["python", "-m", "pipeline.sync", *places]
    short = command_text.next_commands("first", Storage("runs"), None, module="pipeline.compare")
    assert short.resume == "python -m pipeline.compare --resume --name first"
    with pytest.raises(PipelineError, match="the password of `http://me:\\*\\*\\*@host:5000` is not stored"):
        locations.tracking_uri("http://me:***@host:5000", Storage("runs"))

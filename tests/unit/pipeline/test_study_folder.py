"""A study's folder has one owner, and a study that trained nothing keeps no name."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.base.errors import PipelineError
from pipeline.base.storage import Storage
from pipeline.comparing import places as comparison_places
from pipeline.comparing.places import COMPARISON
from pipeline.study import study_folder
from pipeline.study.ledger import LEDGER
from pipeline.study.study_folder import SETTINGS, claimed, opened

ROOT = Path(study_folder.__file__).parents[2]


def test_a_study_that_trained_nothing_leaves_nothing(tmp_path: Path):
    with pytest.raises(PipelineError, match="no GPU"), claimed(tmp_path / "runs/studies/a", resume=False):
        (tmp_path / "runs/studies/a/study.json").write_text("{}")
        raise PipelineError("no GPU")
    assert list(tmp_path.iterdir()) == []


def test_what_stands_beside_it_is_left(tmp_path: Path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/mlflow.db").touch()
    with claimed(tmp_path / "runs/studies/a", resume=False):
        pass
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["mlflow.db"]


def test_a_study_that_trained_is_kept_and_its_name_taken(tmp_path: Path):
    with claimed(tmp_path / "a", resume=False):
        (tmp_path / "a" / LEDGER).mkdir()
    assert (tmp_path / "a" / LEDGER).is_dir()
    there = pytest.raises(PipelineError, match="there is a study `a` already")
    with there, claimed(tmp_path / "a", resume=False):
        pass
    with claimed(tmp_path / "a", resume=True):
        pass


def test_a_folder_in_which_a_study_died_before_training_may_be_taken(tmp_path: Path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "study.json").write_text("{}")
    with claimed(tmp_path / "a", resume=False):
        (tmp_path / "a" / LEDGER).mkdir()


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path):
    source = """
import os, signal, sys, tempfile
from pathlib import Path
from pipeline.comparing import places as comparison_places
from pipeline.comparing.places import COMPARISON
from pipeline.study import study_folder
from pipeline.base.storage import STAGED
from pipeline.base.stored_files import write_json_whole
folder = Path(sys.argv[1])
with study_folder.claimed(folder, resume=False):
    (folder / "ledger").mkdir()
    os.replace = os.rename = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    with tempfile.TemporaryDirectory(dir=folder, prefix=STAGED) as working:
        (Path(working) / "optuna.db").touch()
        write_json_whole(folder / "study.json", {})
"""
    killed = subprocess.run([sys.executable, "-c", source, str(tmp_path / "one")], check=False)
    assert killed.returncode == -signal.SIGKILL
    left = {path.name for path in (tmp_path / "one").iterdir()} - {".lock", "ledger"}
    assert len(left) == 2
    with claimed(tmp_path / "one", resume=True):
        assert {path.name for path in (tmp_path / "one").iterdir()} == {".lock", "ledger"}


@pytest.mark.parametrize("resume", [False, True])
def test_another_process_is_kept_out_until_it_has_ended(tmp_path: Path, resume: bool):
    script = (
        "import sys; from pathlib import Path; from pipeline.study.study_folder import claimed\n"
        "with claimed(Path(sys.argv[1]), resume=True): print('mine', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "a")]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == "mine\n"
        with (
            pytest.raises(PipelineError, match="another process is running the study `a`"),
            claimed(tmp_path / "a", resume=resume),
        ):
            pass
        other.kill()
        other.wait()
    with claimed(tmp_path / "a", resume=resume):
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    refused = pytest.raises(PipelineError, match="expected a folder, but `.*/file` is a file")
    with refused, claimed(tmp_path / "file/a", resume=False):
        pass


# --------------------------------------------------------------------------------------------- at a URI


@pytest.fixture
def remote(tmp_path: Path) -> Storage:
    return Storage((tmp_path / "store").as_uri())


def test_finished_files_are_copied_to_the_uri(remote: Storage):
    with opened(remote, "a", resume=False) as folder:
        (folder.directory / "model").mkdir(parents=True)
        (folder.directory / "model" / "config.json").write_text("{}")
        (folder.directory / SETTINGS).write_text("settings")
        folder.publish(SETTINGS, "model/config.json", "report.html")
        (remote.opened() / "studies/a" / LEDGER / "0000-a.jsonl").write(b"")
        assert str(folder.shown) == f"{remote}/studies/a"
    assert not folder.directory.exists(), "a working folder, no more"
    study = remote.opened() / "studies/a"
    assert (study / SETTINGS).read() == b"settings"
    assert (study / "model").names() == ["config.json"]
    assert not (study / "report.html").exists(), "there was none"


def test_a_name_at_the_uri_is_taken_by_a_study_that_trained(remote: Storage):
    with opened(remote, "a", resume=False) as folder:
        (folder.remote / LEDGER / "0000-a.jsonl").write(b"")
    taken = pytest.raises(PipelineError, match="there is a study `a` already")
    with taken, opened(remote, "a", resume=False):
        pass
    with opened(remote, "a", resume=True):
        running = pytest.raises(PipelineError, match="the study `a` is already being run by process")
        with running, opened(remote, "a", resume=True):
            pass


def test_a_study_that_trained_nothing_keeps_no_name_at_the_uri(remote: Storage):
    with pytest.raises(PipelineError, match="no GPU"), opened(remote, "a", resume=False) as folder:
        (folder.remote / SETTINGS).write(b"{}")
        raise PipelineError("no GPU")
    assert (remote.opened() / "studies").names() == []
    with opened(remote, "a", resume=False):
        pass


def test_a_study_and_a_comparison_of_one_name_are_two(tmp_path: Path):
    storage = Storage(f"file://{tmp_path}")
    with (
        opened(storage, "a", resume=False) as study,
        opened(storage, "a", resume=False, kind=COMPARISON) as comparison,
    ):
        for folder, sign in ((study, LEDGER), (comparison, comparison_places.SETTINGS)):
            folder.directory.mkdir(parents=True)
            (folder.directory / sign).write_text("{}")
            folder.publish(sign)
    assert (tmp_path / "studies/a" / LEDGER).is_file()
    assert (tmp_path / "comparisons/a" / comparison_places.SETTINGS).is_file()
    taken = pytest.raises(PipelineError, match="there is a comparison `a` already")
    with taken, opened(storage, "a", resume=False, kind=COMPARISON):
        pass
    running = pytest.raises(PipelineError, match="the comparison `a` is already being run by process")
    with opened(storage, "a", resume=True, kind=COMPARISON) as comparison:
        with running, opened(storage, "a", resume=True, kind=COMPARISON):
            pass
        assert (comparison.directory / comparison_places.SETTINGS).read_text() == "{}", "a copy to read"

"""The command that writes to MLflow what it lacks; what it writes is tested in test_conduct.py."""

import dataclasses
import shlex
from pathlib import Path
from typing import Any

import pytest

from pipeline import sync
from pipeline.base.errors import run_command
from pipeline.base.storage import Storage
from pipeline.study.ledger import Ledger
from pipeline.study.study_folder import SETTINGS, SETTINGS_COPY, StudyFolder
from pipeline.tracking.studies import latest_study
from pipeline.tracking.tracking import Tracker
from tests.small_ledger import train
from tests.small_store import new_store
from tests.small_study import study_settings


def study_in(folder: Path) -> StudyFolder:
    place = StudyFolder.local(Storage(str(folder)), "first")
    train(Ledger(place.directory), "open", 1)
    study_settings().save(place.directory)
    return place


def test_a_study_is_written_and_the_result_alone_stands_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    place = study_in(tmp_path / "runs")
    tracker = new_store(tmp_path / "runs")
    assert sync.main(["--name", "first", "--storage", str(tmp_path / "runs")]) == 0
    out = capsys.readouterr().out
    assert out.startswith("MLflow now has all 1 epoch of 1 trial\n")
    study = latest_study(tracker, tracker.experiment("beer", "palate"), "first")
    assert study is not None
    assert [run.status for run in tracker.children(study.run_id)] == ["KILLED"]
    assert study.tags["results"].endswith(str(place.directory))


def test_an_unknown_study_is_answered_with_the_known_ones(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    study_in(tmp_path / "runs")
    assert run_command(sync.main, ["--name", "second", "--storage", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert "error: --name: there is no study `second` in" in said
    assert "known names: first\n\nhint: check that `--storage` names the storage of the study\n" in said


def test_a_server_that_is_still_away_is_told_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    study_in(tmp_path / "runs")
    server = ["--tracking-uri", "http://127.0.0.1:9"]
    assert run_command(sync.main, ["--name", "first", "--storage", str(tmp_path / "runs"), *server]) == 2
    assert "http://127.0.0.1:9" in capsys.readouterr().err


def test_a_study_without_settings_is_told_as_the_search_tells_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    place = study_in(tmp_path / "runs")
    for name in (SETTINGS, SETTINGS_COPY):
        (place.directory / name).unlink()
    assert run_command(sync.main, ["--name", "first", "--storage", str(tmp_path / "runs")]) == 2
    said = capsys.readouterr().err
    assert (
        "studies/first/study.json: this file is missing, and the study cannot be resumed without it" in said
    )


def test_a_study_is_written_where_its_first_command_tracked_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    place = study_in(tmp_path / "two words")
    uri = f"sqlite:///{tmp_path}/elsewhere.db"
    command = shlex.join(["python", "-m", "pipeline.search", "--sample", "--tracking-uri", uri])
    dataclasses.replace(study_settings(), command=command).save(place.directory)
    new_store(tmp_path / "two words")
    assert sync.main(["--name", "first", "--storage", str(tmp_path / "two words")]) == 0
    tracker = Tracker(uri, create=False)
    assert latest_study(tracker, tracker.experiment("beer", "palate"), "first") is not None
    printed = capsys.readouterr().out.partition("to resume: ")[2]
    assert shlex.split(printed)[4:] == [
        *["--name", "first", "--storage", str(tmp_path / "two words"), "--tracking-uri", uri]
    ]


def test_an_interrupt_leaves_no_run_open_and_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    log, calls = Tracker.log_metrics, list[str]()

    def interrupted(self: Tracker, run_id: str, *given: Any, **more: Any) -> Any:
        calls.append(run_id)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return log(self, run_id, *given, **more)

    place = study_in(tmp_path / "runs")
    train(Ledger(place.directory), "whole", 2)
    tracker = new_store(tmp_path / "runs")
    command = ["--name", "first", "--storage", str(tmp_path / "runs")]
    with monkeypatch.context() as patch:
        patch.setattr(Tracker, "log_metrics", interrupted)
        assert run_command(sync.main, command) == 130
    assert "to write the rest, run the same command again" in caplog.messages
    study = latest_study(tracker, tracker.experiment("beer", "palate"), "first")
    assert study is not None and study.status == "KILLED"
    assert {run.status for run in tracker.children(study.run_id)} == {"KILLED"}
    assert sync.main(command) == 0
    assert len(tracker.children(study.run_id)) == 2

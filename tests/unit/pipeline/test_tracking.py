import errno
import getpass
import logging
import math
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.exceptions import MlflowException

from pipeline.base.errors import PipelineError
from pipeline.tracking import tracking
from pipeline.tracking.sealed_split import READING_TIME_TAG, READINGS_TAG, log_test_reading
from pipeline.tracking.studies import (
    config_of,
    end_children,
    latest_study,
    refuse_another_study,
    start_study,
)
from pipeline.tracking.tracking import (
    PARENT_TAG,
    RESULTS_TAG,
    TRIAL_TAG,
    Tracker,
    read_back,
    warn_skipped,
    written,
)
from tests.small_store import empty_database, new_store


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Tracker:
    """One store for all: to open one takes MLflow a third of a second."""
    return new_store(tmp_path_factory.mktemp("store"))


@pytest.fixture
def experiment(tracker: Tracker, request: pytest.FixtureRequest) -> str:
    """An experiment of the test's own."""
    return tracker.experiment("beer", request.node.name)


def child(tracker: Tracker, experiment: str, study: str, trial_id: str, status: str | None = None) -> str:
    run_id = tracker.start_run(experiment, f"trial-{trial_id}", {}, {PARENT_TAG: study, TRIAL_TAG: trial_id})
    if status:
        tracker.finish(run_id, status)
    return run_id


# -------------------------------------------------------------------------------------------- values


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_parses_back_equal(value: float):
    assert read_back(written(value)) == value
    assert float(written(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (None, "null"), (3, "3"), (1e-5, "1e-05"), ("rcnn", "rcnn"), ([1, 2], "[1, 2]")],
)
def test_values_are_spelt_as_json_and_text_as_it_is(value: object, text: str):
    assert written(value) == text
    assert read_back(text) == value


# --------------------------------------------------------------------------------------------- store


def test_sqlite_store_is_made_with_its_folder_and_artifacts_beside_it(tmp_path: Path):
    assert empty_database().is_file()  # made by a tracker, in a folder that was missing
    tracker = new_store(tmp_path / "new")
    run_id = tracker.start_run(tracker.experiment("beer", "smell"), "one", {}, {})
    tracker.log_artifact(run_id, "hello", "notes/a.txt")
    stored = tmp_path / "new" / "artifacts" / "beer-smell"
    assert [path.read_text() for path in stored.rglob("a.txt")] == ["hello"]


def test_artifact_root_can_be_named(tmp_path: Path):
    new_store(tmp_path)
    tracker = Tracker(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path / "kept")
    tracker.log_artifact(tracker.start_run(tracker.experiment("beer", ""), "one", {}, {}), "x", "x.txt")
    assert len(list((tmp_path / "kept" / "beer").rglob("x.txt"))) == 1


def test_missing_store_is_an_error_where_only_reading(tmp_path: Path):
    with pytest.raises(PipelineError, match="there is no tracking database `.*none.db`") as caught:
        Tracker(f"sqlite:///{tmp_path}/none.db", create=False)
    assert "--storage" in (caught.value.hint or "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("sqlite://", "expected `sqlite:///FILE`, but got `sqlite://`"),
        ("ftp://nowhere", "expected the address of an MLflow server .* but got `ftp://nowhere`"),
    ],
)
def test_unusable_store_is_named(uri: str, message: str):
    with pytest.raises(PipelineError, match=message):
        Tracker(uri)


def test_file_that_is_no_database_is_named(tmp_path: Path):
    (tmp_path / "mlflow.db").write_text("not a database, and long enough to be none " * 10)
    with pytest.raises(
        PipelineError, match="cannot use the tracking store .*mlflow.db`: file is not a database"
    ):
        Tracker(f"sqlite:///{tmp_path / 'mlflow.db'}")


def test_server_that_is_down_is_found_at_once():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(PipelineError, match=f"no MLflow server answers at http://127.0.0.1:{port}"):
            Tracker(f"http://127.0.0.1:{port}")


def test_server_that_refuses_is_named(refusing_server: str):
    with pytest.raises(PipelineError, match=f"cannot use the tracking store `{refusing_server}`.*401"):
        Tracker(refusing_server)


@pytest.mark.parametrize(
    ("status", "way"),
    [
        ("401", "does not accept this user"),
        ("403", "ask the server's owner"),
        ("404", "not an MLflow server"),
        ("400", "see"),
    ],
)
def test_what_to_do_about_a_server_that_refuses(status: str, way: str):
    with (
        pytest.raises(PipelineError, match=f"cannot: .* {status}") as caught,
        tracking.translated("cannot", hint="see `--tracking-uri`"),
    ):
        raise MlflowException(f"API request to endpoint failed with error code {status} != 200")
    assert way in str(caught.value.hint)


def test_tracker_can_be_pickled(tracker: Tracker, experiment: str):
    copy = pickle.loads(pickle.dumps(tracker))
    assert copy.client.get_experiment(experiment).experiment_id == experiment


# --------------------------------------------------------------------------------- experiments, studies


def test_experiment_is_made_once(tracker: Tracker):
    experiment = tracker.experiment("beer", "palate")
    assert tracker.experiment("beer", "palate") == experiment
    assert tracker.experiment("beer", "smell") != experiment
    assert tracker.client.get_experiment(experiment).name == "beer/palate"


def test_deleted_experiment_is_named(tracker: Tracker):
    experiment = tracker.experiment("beer", "gone")
    tracker.client.delete_experiment(experiment)
    with pytest.raises(PipelineError, match="the experiment `beer/gone` was deleted") as caught:
        tracker.experiment("beer", "gone")
    assert f"--experiment-id {experiment}" in (caught.value.hint or "")


def test_an_experiment_that_another_user_makes_meanwhile_is_taken(
    tracker: Tracker, monkeypatch: pytest.MonkeyPatch
):
    find, found = tracker.client.get_experiment_by_name, []

    def slow(name: str) -> object:
        found.append(find(name))
        if len(found) == 1:  # somebody else is faster
            tracker.client.create_experiment(name)
        return found[-1]

    monkeypatch.setattr(tracker.client, "get_experiment_by_name", slow)
    made = tracker.experiment("beer", "raced")
    assert found[0] is None
    assert made == find("beer/raced").experiment_id


def test_a_study_of_that_name_with_results_elsewhere_is_not_gone_on_with(tracker: Tracker, experiment: str):
    refuse_another_study(tracker, experiment, "taken", "here:/runs")
    start_study(tracker, experiment, "taken", {}, {RESULTS_TAG: "there:/runs"})
    refuse_another_study(tracker, experiment, "taken", "there:/runs")
    with pytest.raises(
        PipelineError, match="--name: .* already tracks a study `taken`, whose results are in there:/"
    ):
        refuse_another_study(tracker, experiment, "taken", "here:/runs")


def test_two_users_who_start_studies_of_one_name_at_once_have_a_run_each(tracker: Tracker, experiment: str):
    mine, theirs = ({RESULTS_TAG: f"{host}:/runs"} for host in ("here", "there"))
    first = start_study(tracker, experiment, "at once", {}, theirs, resumed=False)
    second = start_study(tracker, experiment, "at once", {}, mine, resumed=False)
    assert first != second
    assert start_study(tracker, experiment, "at once", {}, theirs) == first, "each goes on with its own"
    assert start_study(tracker, experiment, "at once", {}, mine, resumed=False) == second
    moved = start_study(tracker, experiment, "at once", {}, {RESULTS_TAG: "elsewhere:/runs"})
    assert moved == second, "the folder has moved"


def test_study_is_opened_again_by_its_name(tracker: Tracker, experiment: str):
    first = start_study(
        tracker, experiment, "a study's name", {"num_trials": 4, "seed": 0}, {"corpus": "real"}
    )
    tracker.finish(first, "KILLED")
    again = start_study(
        tracker, experiment, "a study's name", {"num_trials": 8, "seed": 0, "new": 1}, {"x": "y"}
    )
    run = tracker.run(first)
    assert again == first
    assert (run.status, run.name) == ("RUNNING", "a study's name")
    assert run.params == {"num_trials": "4", "seed": "0", "new": "1"}
    assert run.tags["resumed.num_trials"] == "8"
    assert "resumed.seed" not in run.tags
    assert (run.tags["corpus"], run.tags["x"]) == ("real", "y")


def test_another_name_is_another_study_and_the_latest_is_found(tracker: Tracker, experiment: str):
    assert latest_study(tracker, experiment) is None
    first = start_study(tracker, experiment, "one", {}, {})
    second = start_study(tracker, experiment, "two", {}, {})
    tracker.start_run(experiment, "a run without study", {}, {})
    child(tracker, experiment, second, "t1")
    latest, named = latest_study(tracker, experiment), latest_study(tracker, experiment, "one")
    assert latest is not None and latest.run_id == second
    assert named is not None and named.run_id == first
    assert latest_study(tracker, experiment, "three") is None


@pytest.mark.parametrize("has_name", [True, False])
def test_runs_say_who_made_them_and_with_what(
    tracker: Tracker, experiment: str, monkeypatch: pytest.MonkeyPatch, has_name: bool
):
    def user() -> str:
        if not has_name:
            raise KeyError("getpwuid(): uid not found: 4711")
        return "ada"

    monkeypatch.setattr(getpass, "getuser", user)
    monkeypatch.setattr(sys, "argv", ["/somewhere/pipeline/search.py", "--sample"])
    made = {"mlflow.source.type": "LOCAL", "mlflow.source.name": "search.py"}
    if has_name:
        made["mlflow.user"] = "ada"
    for run_id in (
        start_study(tracker, experiment, "first", {}, {}),
        tracker.start_run(experiment, "trial", {}, {}),
    ):
        tags = tracker.run(run_id).tags
        assert made.items() <= tags.items()
        assert ("mlflow.user" in tags) == has_name


def test_many_parameters_are_all_logged(tracker: Tracker, experiment: str):
    run_id = tracker.start_run(experiment, "one", {f"p{i}": i for i in range(230)}, {})
    assert len(tracker.run(run_id).params) == 230


def test_children_come_in_order_and_of_one_study_only(tracker: Tracker, experiment: str):
    one, two = (start_study(tracker, experiment, name, {}, {}) for name in ("one", "two"))
    ids = [child(tracker, experiment, one, f"t{i}") for i in range(3)]
    child(tracker, experiment, two, "other")
    assert [run.run_id for run in tracker.children(one)] == ids


def test_all_pages_of_children_are_read(tracker: Tracker, experiment: str, monkeypatch: pytest.MonkeyPatch):
    study = start_study(tracker, experiment, "one", {}, {})
    ids = {child(tracker, experiment, study, f"t{i}") for i in range(5)}
    search = tracker.client.search_runs

    def two_at_a_time(*args: object, **kwargs: object):
        return search(*args, **kwargs, max_results=2)

    monkeypatch.setattr(tracker.client, "search_runs", two_at_a_time)
    assert {run.run_id for run in tracker.children(study)} == ids


def test_unknown_run_is_named(tracker: Tracker):
    with pytest.raises(PipelineError, match="there is no run `nope`"):
        tracker.run("nope")
    with pytest.raises(PipelineError, match="cannot list the trials of run nope"):
        tracker.children("nope")


# -------------------------------------------------------------------------------- metrics and artifacts


def test_what_still_runs_is_killed_whatever_runs_of_its_name_came_to(tracker: Tracker, experiment: str):
    parent = tracker.start_run(experiment, "comparison", {}, {})
    tags = {PARENT_TAG: parent, TRIAL_TAG: "infocal-seed0"}
    statuses = ["FINISHED", "FAILED", "KILLED", "RUNNING"]
    runs = [tracker.start_run(experiment, "infocal-seed0", {}, tags) for _ in statuses]
    for run_id, status in zip(runs, statuses, strict=True):
        if status != "RUNNING":
            tracker.finish(run_id, status)
    end_children(tracker, parent)
    assert [tracker.run(run_id).status for run_id in runs] == ["FINISHED", "FAILED", "KILLED", "KILLED"]


def test_metrics_are_logged_by_step_and_the_rest_is_counted(tracker: Tracker, experiment: str):
    run_id = tracker.start_run(experiment, "one", {}, {})
    values = {"val_mse": 0.5, "flag": True, "text": "x", "bad": math.nan, "worse": math.inf, "a#b": 1.0}
    assert tracker.log_metrics(run_id, values, 0) == Counter({"bad": 1, "worse": 1, "a#b": 1})
    tracker.log_metrics(run_id, {"val_mse": 1}, 1)
    assert tracker.run(run_id).metrics == {"val_mse": 1.0}
    assert tracker.history(run_id, "val_mse") == [(0, 0.5), (1, 1.0)]
    assert tracker.history(run_id, "never") == []


def test_more_metrics_than_a_batch_takes(tracker: Tracker, experiment: str):
    run_id = tracker.start_run(experiment, "one", {}, {})
    tracker.log_metrics(run_id, {f"m{i}": i for i in range(1203)}, 0)
    assert tracker.run(run_id).metrics["m1202"] == 1202


def test_what_was_left_out_is_said(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING, "pipeline.tracking.tracking"):
        warn_skipped(Counter())
        assert caplog.messages == []
        warn_skipped(Counter({"val_mse": 2}))
    assert caplog.messages == [
        "not logged, because the value is not finite or MLflow does not accept the name: val_mse (2 x)"
    ]


def test_finish_stores_texts_files_and_folders(tracker: Tracker, experiment: str, tmp_path: Path):
    run_id = tracker.start_run(experiment, "one", {}, {})
    (tmp_path / "best").mkdir()
    (tmp_path / "best" / "a.json").write_text("{}")
    (tmp_path / "local.db").write_bytes(b"\x00\x01")
    artifacts = {"page.html": "<p>", "best": tmp_path / "best", "stored/optuna.db": tmp_path / "local.db"}
    tracker.finish(run_id, metrics={"f1": 0.5}, tags={"winner": "3"}, artifacts=artifacts)
    run = tracker.run(run_id)
    assert (run.status, run.metrics, run.tags["winner"]) == ("FINISHED", {"f1": 0.5}, "3")
    assert run.ended is not None and run.ended >= run.started
    assert tracker.download(run_id, "page.html", tmp_path / "out").read_text() == "<p>"
    assert (tracker.download(run_id, "best", tmp_path / "out") / "a.json").read_text() == "{}"
    assert tracker.download(run_id, "stored/optuna.db", tmp_path / "out").read_bytes() == b"\x00\x01"


def test_missing_files_are_named(tracker: Tracker, experiment: str, tmp_path: Path):
    run_id = tracker.start_run(experiment, "one", {}, {})
    with pytest.raises(PipelineError, match=f"run {run_id} has no artifact `best`"):
        tracker.download(run_id, "best", tmp_path / "out")
    with pytest.raises(PipelineError, match="cannot store `x.txt` in run .*none.txt"):
        tracker.log_artifact(run_id, tmp_path / "none.txt", "x.txt")


def test_each_reading_of_the_test_split_is_kept(tracker: Tracker, experiment: str):
    run_id = tracker.start_run(experiment, "one", {}, {})
    assert log_test_reading(tracker, run_id, {"test_token_f1": 0.5}) == 1
    assert log_test_reading(tracker, run_id, {"test_token_f1": 0.25}) == 2
    run = tracker.run(run_id)
    assert tracker.history(run_id, "test_token_f1") == [(1, 0.5), (2, 0.25)]
    assert run.tags[READINGS_TAG] == "2"
    assert run.tags[READING_TIME_TAG].endswith("+00:00")


# ----------------------------------------------------------------------------------------------- replay


def test_config_of_a_trial_is_what_was_logged(tracker: Tracker, experiment: str):
    config = {"lambda_ib": 3e-7, "encoder": "rcnn", "train_embeddings": False, "hidden_size": 4}
    run_id = tracker.start_run(experiment, "trial-00", {**config, "seed": 3}, {})
    assert config_of(tracker.run(run_id)) == config


def test_config_of_a_study_is_refused(tracker: Tracker, experiment: str):
    study = start_study(tracker, experiment, "one", {"lambda_ib": 1}, {})
    with pytest.raises(PipelineError, match=f"run {study} is the study `one`") as caught:
        config_of(tracker.run(study))
    assert caught.value.hint == "name the run of one of its trials"
    tracker.finish(study, tags={"winner_run_id": "abc"})
    with pytest.raises(PipelineError, match="is the study `one`") as caught:
        config_of(tracker.run(study))
    assert caught.value.hint == "name the run of a trial, such as the winner's: abc"


def test_a_database_may_be_made_by_several_processes_at_once(tmp_path: Path):
    """Alembic's first migration is not safe against another one."""
    script = (
        "import sys; from pipeline.tracking.tracking import Tracker\n"
        "Tracker(sys.argv[1]).experiment('beer', 'palate')"
    )
    command = [sys.executable, "-c", script, f"sqlite:///{tmp_path / 'mlflow.db'}"]
    root = Path(tracking.__file__).parents[2]
    processes = [subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    said = [process.communicate(timeout=300)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], "\n".join(said)


@pytest.mark.parametrize(("is_resumed", "is_at_once"), [(False, False), (True, False), (False, True)])
def test_a_study_that_is_interrupted_while_its_run_starts_leaves_none_open(
    tracker: Tracker, monkeypatch: pytest.MonkeyPatch, is_resumed: bool, is_at_once: bool
):
    experiment, name = tracker.experiment("beer", "palate"), f"interrupted-{is_resumed}-{is_at_once}"
    if is_resumed:
        tracker.finish(start_study(tracker, experiment, name, {}, {}), "FINISHED", ended=1_800_000_000.0)
    create_run, log_params = tracker.client.create_run, Tracker.log_params

    def interrupted(self: Tracker, run_id: str, parameters: Mapping[str, Any]) -> None:
        log_params(self, run_id, parameters)
        raise KeyboardInterrupt

    def interrupted_at_once(*arguments: Any, **given: Any) -> None:
        create_run(*arguments, **given)
        raise KeyboardInterrupt

    if is_at_once:
        monkeypatch.setattr(tracker.client, "create_run", interrupted_at_once)
    else:
        monkeypatch.setattr(Tracker, "log_params", interrupted)
    with pytest.raises(KeyboardInterrupt):
        start_study(tracker, experiment, name, {"seed": 1}, {})
    study = latest_study(tracker, experiment, name)
    assert study is not None
    if is_resumed:
        assert (study.status, study.ended) == ("FINISHED", 1_800_000_000.0), "as it was: nothing was trained"
    else:
        assert study.status == "KILLED"


_KILLED_AT = """
import os, signal, sys
import sqlalchemy
from pipeline.tracking.tracking import Tracker
left = int(sys.argv[2])

@sqlalchemy.event.listens_for(sqlalchemy.Engine, "before_cursor_execute")
def count(*given):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

Tracker(sys.argv[1])
"""


@pytest.mark.parametrize("statement", [2, 400, 1500])
def test_a_process_that_is_killed_while_it_makes_a_database_leaves_none(tmp_path: Path, statement: int):
    uri = f"sqlite:///{tmp_path / 'mlflow.db'}"
    killed = subprocess.run([sys.executable, "-c", _KILLED_AT, uri, str(statement)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "mlflow.db").exists()
    tracker = Tracker(uri)
    assert tracker.experiment("beer", "palate")
    assert {path.name for path in tmp_path.iterdir()} == {"mlflow.db", ".mlflow.db.lock"}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")])
def test_making_a_database_that_ends_early_leaves_nothing(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def broken(uri: str, root: str) -> None:
        Path(uri.removeprefix("sqlite:///")).write_bytes(b"SQLite")
        raise error

    monkeypatch.setattr(tracking, "SqlAlchemyStore", broken)
    with pytest.raises((KeyboardInterrupt, PipelineError)):
        Tracker(f"sqlite:///{tmp_path / 'mlflow.db'}")
    assert {path.name for path in tmp_path.iterdir()} == {".mlflow.db.lock"}


def test_a_folder_may_be_called_anything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folder = tmp_path / 'it\'s a "q" -:d 100% ö'
    folder.mkdir()
    monkeypatch.chdir(folder)
    tracker = Tracker("sqlite:///mlflow.db")
    run_id = tracker.start_run(tracker.experiment("beer", "palate"), "one", {}, {})
    tracker.finish(run_id, artifacts={"config.json": "{}"})
    assert tracker.download(run_id, "config.json", tmp_path).read_text() == "{}"


def test_a_link_to_a_database_that_is_missing_stays_one(tmp_path: Path):
    (tmp_path / "there").mkdir()
    (tmp_path / "mlflow.db").symlink_to(tmp_path / "there" / "own.db")
    assert Tracker(f"sqlite:///{tmp_path / 'mlflow.db'}").experiment("beer", "palate")
    assert (tmp_path / "mlflow.db").is_symlink()
    assert (tmp_path / "there" / "own.db").stat().st_size


def test_an_empty_file_becomes_a_database(tmp_path: Path):
    (tmp_path / "mlflow.db").touch()
    assert Tracker(f"sqlite:///{tmp_path / 'mlflow.db'}").experiment("beer", "palate")


def test_a_folder_for_a_store_that_cannot_be_made_is_named(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    message = f"^--tracking-uri: expected a folder, but `{tmp_path}/file` is a file"
    with pytest.raises(PipelineError, match=message):
        Tracker(f"sqlite:///{tmp_path}/file/new/mlflow.db")


class _Refusing(BaseHTTPRequestHandler):
    def answer(self) -> None:
        self.send_response(401)
        self.end_headers()

    do_GET = do_POST = answer  # noqa: N815

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def test_a_server_that_refuses_the_password_is_told_how_one_is_given():
    with HTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with pytest.raises(PipelineError, match="401") as caught:
            Tracker(f"http://ada:wrong@127.0.0.1:{server.server_port}").experiment("beer", "palate")
        server.shutdown()
    assert "does not accept this user and password" in (caught.value.hint or "")
    assert "wrong" not in str(caught.value)

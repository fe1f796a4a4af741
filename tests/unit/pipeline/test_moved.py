"""A folder of results that was moved: its artifacts are read and written where they are now."""

import shutil

import pytest

from pipeline import explain, promote
from pipeline.base.errors import PipelineError
from pipeline.base.moved import relocated
from pipeline.tracking.tracking import Tracker
from tests.small_store import NAME, new_store, registered, sample_cache, sample_package


@pytest.fixture
def results(tmp_path):
    """Results with a run that has two artifacts, moved elsewhere; the database's URI and the run's id."""
    tracker = new_store(tmp_path / "old")
    run_id = tracker.start_run(tracker.experiment("beer", "palate"), "trial", {}, {})
    tracker.log_artifact(run_id, "rationales", "rationales.html")
    tracker.log_artifact(run_id, "scores", "best/scores.json")
    target = tmp_path / "far away" / "new 100%"
    target.parent.mkdir()
    shutil.move(tmp_path / "old", target)
    return Tracker(f"sqlite:///{target / 'mlflow.db'}", create=False), run_id, target


def test_artifacts_are_found_beside_the_database(results, tmp_path):
    tracker, run_id, target = results
    found = tracker.download(run_id, "rationales.html", tmp_path / "copies")
    assert found.read_text(encoding="utf-8") == "rationales"
    folder = tracker.download(run_id, "best", tmp_path / "copies")
    assert (folder / "scores.json").read_text(encoding="utf-8") == "scores"
    assert tracker.artifact_paths(run_id) == {"rationales.html", "best"}
    assert tracker.artifact_paths(run_id, "best") == {"best/scores.json"}
    assert tracker.artifact_folder(run_id) == target / "artifacts" / "beer-palate" / run_id / "artifacts"


def test_artifacts_are_written_beside_the_database(results, tmp_path):
    tracker, run_id, target = results
    tracker.log_artifact(run_id, "page", "report.html")
    later = tracker.start_run(tracker.experiment("beer", "palate"), "later", {}, {})
    tracker.log_artifact(later, target / "mlflow.db", "copies/database")
    assert (tracker.artifact_folder(run_id) / "report.html").read_text(encoding="utf-8") == "page"
    assert (tracker.artifact_folder(later) / "copies" / "database").is_file()
    assert not (tmp_path / "old").exists(), "nothing is written where the results were"


def test_an_artifact_that_is_nowhere_is_named(results, tmp_path):
    tracker, run_id, _ = results
    with pytest.raises(PipelineError, match=f"run {run_id} has no artifact `never.html`"):
        tracker.download(run_id, "never.html", tmp_path)


def test_what_was_not_moved_stays_where_it_is(tmp_path):
    root = tmp_path / "artifacts"
    (root / "beer-palate").mkdir(parents=True)
    assert relocated((root / "beer-palate" / "run" / "artifacts").as_uri(), root) is None
    assert relocated("s3://bucket/artifacts/beer-palate/run", root) is None
    assert relocated("file:///elsewhere/artifacts/another/run", root) is None, "not of these results"
    assert relocated("file:///elsewhere/artifacts/beer-palate/run", None) is None, "a server has them"
    moved = relocated("file:///else%20where/artifacts/beer-palate/run/artifacts", root)
    assert moved == root / "beer-palate" / "run" / "artifacts"


def test_a_copy_of_results_has_its_own_artifacts(tmp_path):
    """What is written in a copy must not change the original, which may be another person's."""
    stored = tmp_path / "first" / "artifacts" / "beer-palate" / "run"
    stored.mkdir(parents=True)
    copy = tmp_path / "second" / "artifacts"
    (copy / "beer-palate").mkdir(parents=True)
    assert relocated(stored.as_uri(), copy) is None, "the copy has not this run"
    (copy / "beer-palate" / "run").mkdir()
    assert relocated(stored.as_uri(), copy) == copy / "beer-palate" / "run"


def test_commands_answer_from_a_folder_that_was_moved(tmp_path, capsys):
    tracker = new_store(tmp_path / "old")
    registered(tracker, sample_package(tmp_path / "package"))
    text = ["--text", "the body is smooth and creamy ."]
    assert explain.main(["--model", f"models:/{NAME}@challenger", "--tracking-uri", tracker.uri, *text]) == 0
    before = capsys.readouterr().out
    shutil.move(tmp_path / "old", tmp_path / "new")
    new = f"sqlite:///{tmp_path / 'new' / 'mlflow.db'}"
    assert explain.main(["--model", f"models:/{NAME}@challenger", "--tracking-uri", new, *text]) == 0
    assert capsys.readouterr().out == before
    flags = ["--dataset", "beer", "--aspect", "palate", "--sample", "--cache-dir", str(sample_cache())]
    assert promote.main([*flags, "--tracking-uri", new, "--min-precision", "0"]) == 0
    assert f"`champion` of {NAME} is version 1 now" in capsys.readouterr().out
    assert explain.main(["--model", f"models:/{NAME}@champion", "--tracking-uri", new, *text]) == 0
    assert capsys.readouterr().out == before
    assert not (tmp_path / "old").exists(), "nothing is written where the results were"

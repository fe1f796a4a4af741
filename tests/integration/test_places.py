"""Results in folders whose names mean something in a URI."""

from pathlib import Path

import pytest

from pipeline.base.uris import of_sqlite
from pipeline.tracking import registry
from pipeline.tracking.tracking import Tracker
from tests.integration.commands import run, search_command

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["job%2Fmain", "exp%41", "a?b#c ü"])
def test_a_search_leaves_its_results_in_the_folder_that_was_named(name: str, tmp_path: Path):
    for neighbour in ("job", "expA", "a"):
        (tmp_path / neighbour).mkdir()
    place = tmp_path / name
    counts = ["--trials", "1", "--epochs", "2", "--min-precision", "0.01", "--name", "first"]
    command = search_command(tmp_path, *counts)
    command[command.index("--storage") + 1] = str(place)
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["job", "expA", "a", "cache", name])
    assert not any(
        (*(tmp_path / "job").iterdir(), *(tmp_path / "expA").iterdir(), *(tmp_path / "a").iterdir())
    )
    tracker = Tracker(of_sqlite(place / "mlflow.db"), create=False)
    assert registry.find(tracker, "infocal-beer-palate", registry.CHALLENGER).version == 1
    store = ["--tracking-uri", tracker.uri, "--model", "models:/infocal-beer-palate@challenger"]
    explained = run([command[0], "-m", "pipeline.explain", *store, "--text", "a smooth body ."], tmp_path)
    assert explained.returncode == 0, explained.stderr

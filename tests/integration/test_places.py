"""Results in folders whose names mean something in a URI."""

from pathlib import Path

import pytest

from pipeline.base.uris import of_sqlite
from pipeline.tracking import model_registry
from pipeline.tracking.tracking import Tracker
from tests.integration.commands import run, search_command

pytestmark = pytest.mark.slow


NAME = "a%41 b%2Fc?d#e ü"
"""A letter, a slash, a query, a fragment, a blank and two bytes, as a URI would read them."""
NEIGHBOURS = ["aA b", "a%41 b", "a%41 b%2Fc"]
"""What is left of the name where one of them is read."""


def test_a_search_leaves_its_results_in_the_folder_that_was_named(tmp_path: Path):
    for neighbour in NEIGHBOURS:
        (tmp_path / neighbour).mkdir()
    place = tmp_path / NAME
    counts = ["--trials", "1", "--epochs", "2", "--min-precision", "0.01", "--name", "first"]
    command = search_command(tmp_path, *counts)
    command[command.index("--storage") + 1] = str(place)
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*NEIGHBOURS, "cache", NAME])
    assert not any(any((tmp_path / neighbour).iterdir()) for neighbour in NEIGHBOURS)
    tracker = Tracker(of_sqlite(place / "mlflow.db"), create=False)
    assert model_registry.find(tracker, "infocal-beer-palate", model_registry.CHALLENGER).version == 1
    store = ["--tracking-uri", tracker.uri, "--model", "models:/infocal-beer-palate@challenger"]
    explained = run([command[0], "-m", "pipeline.explain", *store, "--text", "a smooth body ."], tmp_path)
    assert explained.returncode == 0, explained.stderr

"""A search whose driver and workers share no disk: everything goes through an S3-compatible server."""

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import optuna
import pytest

from pipeline.base.storage import Storage
from pipeline.study.study_folder import STUDIES
from pipeline.tracking import model_registry
from pipeline.tracking.tracking import Tracker
from tests.integration.commands import ENVIRONMENT, SMALL, kill_after, run, study_run
from tests.integration.servers import S3Server, ray_head

pytestmark = pytest.mark.slow

NUM_TRIALS, NUM_EPOCHS = 2, 3


@dataclass
class Shared:
    """A search that was killed on one machine and resumed on another, with the workers on a third."""

    folder: Path
    tracker: Tracker
    storage: Storage
    killed: str
    resumed: CompletedProcess[str]
    page: CompletedProcess[str]

    @property
    def optuna_storage(self) -> str:
        return f"sqlite:///{self.folder / 'optuna.db'}"


def machine(folder: Path, name: str, s3: S3Server) -> tuple[Path, dict[str, str]]:
    """An empty working folder, and an environment with an empty cache beside it."""
    working = folder / name
    working.mkdir()
    return working, {**ENVIRONMENT, **s3.environment, "INFOCAL_CACHE": str(folder / f"{name}-cache")}


@pytest.fixture(scope="module")
def shared(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("storage")
    places = ["--storage", s3.uri("team"), "--tracking-uri", f"sqlite:///{folder / 'mlflow.db'}"]
    search = [sys.executable, "-m", "pipeline.search", "--name", "shared"]
    export = ["--optuna-storage", f"sqlite:///{folder / 'optuna.db'}"]
    counts = ["--trials", str(NUM_TRIALS), "--epochs", str(NUM_EPOCHS), "--min-precision", "0.01"]
    counts += ["--checkpoint-every", "0.01"]  # in the store, too
    node, node_environment = machine(folder, "node", s3)
    with ray_head(node / "ray.log", node_environment) as address, pytest.MonkeyPatch.context() as patch:
        for name, value in s3.environment.items():
            patch.setenv(name, value)
        ray = ["--address", address]
        one, environment = machine(folder, "one", s3)
        begun = [*search, *SMALL, *counts, *places, *ray]
        killed = kill_after(begun, one, rf"trial 01 epoch 1/{NUM_EPOCHS}", environment)
        two, environment = machine(folder, "two", s3)
        resumed = run([*search, "--resume", *places, *ray, *export], two, environment)
        report = [sys.executable, "-m", "pipeline.report", "--aspect", "palate"]
        page = run([*report, *places], two, environment)
        tracker = Tracker(f"sqlite:///{folder / 'mlflow.db'}", create=False)
        yield Shared(folder, tracker, Storage(s3.uri("team")), killed, resumed, page)


def test_a_killed_search_ends_on_another_machine_with_the_model_registered(shared: Shared):
    assert shared.resumed.returncode == 0, shared.resumed.stderr
    assert f"report   {shared.storage}/studies/shared/report.html" in shared.resumed.stdout
    parent = study_run(shared.tracker, "shared")
    statuses = [child.status for child in shared.tracker.children(parent.run_id)]
    assert (parent.status, statuses) == ("FINISHED", ["FINISHED"] * NUM_TRIALS)
    version = model_registry.find(shared.tracker, "infocal-beer-palate", model_registry.CHALLENGER)
    assert version.run_id == parent.tags["winner_run_id"]


def test_every_machine_fetched_the_features_once_and_none_trained_the_language_model_again(shared: Shared):
    sent = (shared.storage.opened() / "features").names()
    assert len(sent) == 1
    for name in ("node", "two"):
        assert os.listdir(shared.folder / f"{name}-cache" / "features") == sent
    assert sent[0] not in os.listdir(shared.folder / "one-cache" / "features"), "there they were built"
    assert "language model: epoch" in shared.killed
    assert "language model: epoch" not in shared.resumed.stderr
    assert f"fetching features from {shared.storage}/features/{sent[0]}" in shared.resumed.stderr


def test_results_lie_in_the_store_and_nowhere_else(shared: Shared):
    study = shared.storage.opened() / STUDIES / "shared"
    names = ["ledger", "model", "optuna.db", "report.html", "study.json", "study.json.bak", "tune", "tune-1"]
    assert study.names() == names
    assert (study / "model").names() == [
        "config.json",
        "digests.json",
        "model.safetensors",
        "vocabulary.json",
    ]
    assert os.listdir(shared.folder / "two") == []
    assert os.listdir(shared.folder / "one") == ["killed.log"]


def test_the_page_is_written_from_a_machine_that_has_nothing(shared: Shared):
    assert (shared.page.returncode, shared.page.stderr) == (0, "")
    assert shared.page.stdout == f"{shared.storage}/studies/shared/report.html\n"
    page = (shared.storage.opened() / STUDIES / "shared" / "report.html").read()
    assert b"shared" in page and page.endswith(b"</html>")


def test_the_finished_study_is_in_the_optuna_storage_that_was_named(shared: Shared):
    there = optuna.load_study(study_name="shared", storage=shared.optuna_storage)
    assert [trial.state.name for trial in there.trials] == ["COMPLETE"] * NUM_TRIALS
    assert there.user_attrs["infocal_results"] == f"{shared.storage}/studies/shared"


def test_its_name_is_taken(shared: Shared, s3: S3Server, tmp_path: Path):
    working, environment = machine(tmp_path, "three", s3)
    places = ["--storage", s3.uri("team"), "--tracking-uri", shared.tracker.uri, "--name", "shared"]
    done = run([sys.executable, "-m", "pipeline.search", *SMALL, *places], working, environment)
    assert done.returncode == 2
    assert "error: --name: there is a study `shared` already\n" in done.stderr

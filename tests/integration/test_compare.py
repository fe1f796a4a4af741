"""Two methods with two seeds on the sample corpus, compared in a process of their own, and resumed."""

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from pipeline.base.storage import Location, Storage
from pipeline.tracking.epoch_steps import history
from pipeline.tracking.tracking import NOTE_TAG, PARENT_TAG, TRIAL_TAG, TrackedRun, Tracker
from tests.integration.cluster_servers import ray_node
from tests.integration.commands import ENVIRONMENT, kill_after, run
from tests.integration.servers import S3Server, ray_head
from tests.integration.studies import COMPARISON, RUNS, Compared

pytestmark = pytest.mark.slow


def test_each_run_is_a_child_whose_one_reading_of_test_is_recorded(compared: Compared):
    assert sorted(child.tags[TRIAL_TAG] for child in compared.children) == RUNS
    assert {child.status for child in compared.children} == {"FINISHED"}
    assert {child.tags["test_readings"] for child in compared.children} == {"1"}
    assert {child.tags["metric_mode"] for child in compared.children} == {"paper"}
    for child in compared.children:
        epochs = [epoch for epoch, _ in history(compared.tracker, child, "val_token_f1")]
        assert epochs == [0, 1]
        assert "test_token_f1" in child.metrics


def test_the_table_is_printed_and_kept_with_the_parent(compared: Compared, tmp_path: Path):
    parent = compared.children[0].tags[PARENT_TAG]
    for name in ("table.md", "table.tex", "table.html", "table.json"):
        stored = compared.tracker.download(parent, name, tmp_path)
        assert stored.read_text("utf-8") == (compared.directory / name).read_text("utf-8")
    assert (compared.directory / "table.md").read_text("utf-8") == compared.stdout
    files = [str(compared.directory / f"table.{kind}") for kind in ("html", "json", "md", "tex")]
    assert compared.stderr.endswith(f"tables: {', '.join(files)}\n")
    assert compared.stdout.startswith("### beer/palate: methods at 18 % of the tokens, on test\n")
    assert compared.stdout.splitlines()[2].startswith("**Made-up sample corpus**: the published rows say")
    for name in ("InfoCal", "HardKuma", "[Sha2023] table 2: HardKuma", "random_k", "oracle_k"):
        assert f"\n| {name} " in compared.stdout
    assert (
        compared.tracker.run(parent).tags[NOTE_TAG].startswith("A comparison on **beer/palate** of `infocal`")
    )
    for child in compared.children:
        assert child.tags[NOTE_TAG].startswith("A training of the comparison `")


def test_resuming_trains_what_is_missing_alone(compared: Compared):
    (compared.directory / "outcomes" / "hardkuma-seed1.json").unlink()
    before = {child.run_id for child in compared.children}
    done = run([*compared.command, "--resume"], cwd=compared.folder)
    assert done.returncode == 0, done.stderr
    assert "3 of 4 trainings are already done" in done.stderr
    children = compared.tracker.children(compared.children[0].tags[PARENT_TAG])
    new = [child for child in children if child.run_id not in before]
    assert [child.tags[TRIAL_TAG] for child in new] == ["hardkuma-seed1"]
    # the same seed gives the same row
    assert done.stdout == compared.stdout


# -------------------------------------------------- a cluster, an object store, and a driver that is killed


@dataclass
class Shared:
    """A comparison that was killed on one machine and resumed on another; a third and, after that, a fourth
    machine train."""

    folder: Path
    tracker: Tracker
    storage: Location
    killed: str
    resumed: CompletedProcess[str]

    @property
    def children(self) -> list[TrackedRun]:
        settings = json.loads((self.storage / "comparisons/shared/comparison.json").read())
        return self.tracker.children(settings["run_id"])


@pytest.fixture(scope="module")
def shared(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    folder = tmp_path_factory.mktemp("shared")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    places = ["--name", "shared", "--storage", s3.uri("compared"), "--tracking-uri", uri]

    def machine(name: str) -> tuple[Path, dict[str, str]]:
        working = folder / name
        working.mkdir()
        return working, {**ENVIRONMENT, **s3.environment, "INFOCAL_CACHE": str(folder / f"{name}-cache")}

    node, node_environment = machine("node")
    with ray_head(node / "ray.log", node_environment) as address, pytest.MonkeyPatch.context() as patch:
        for name, value in s3.environment.items():
            patch.setenv(name, value)
        storage = Storage(s3.uri("compared")).opened()
        kept = storage / "comparisons/shared/outcomes/infocal-seed0.json"
        compare = [sys.executable, "-m", "pipeline.compare", *COMPARISON, *places, "--address", address]
        one, environment = machine("one")
        # one trains at a time: the first one has its outcome, and the second one is under way
        killed = kill_after(compare, one, r"hardkuma-seed0 epoch 1/2", environment, is_time=kept.exists)
        two, environment = machine("two")
        second, second_environment = machine("second-node")
        with ray_node(second, [f"--address={address}", "--num-cpus=1"], second_environment):
            resumed = run([*compare, "--resume"], two, environment)
        yield Shared(folder, Tracker(uri, create=False), storage, killed, resumed)


def test_a_killed_comparison_ends_on_two_nodes_with_the_same_table(shared: Shared, compared: Compared):
    assert shared.resumed.returncode == 0, shared.resumed.stderr
    assert (
        "4 of 4" not in shared.resumed.stderr and " of 4 trainings are already done" in shared.resumed.stderr
    )
    assert shared.resumed.stdout == compared.stdout
    files = [f"{shared.storage}/comparisons/shared/table.{kind}" for kind in ("html", "json", "md", "tex")]
    assert shared.resumed.stderr.endswith(f"tables: {', '.join(files)}\n")


def test_each_epoch_is_logged_once_and_each_model_reads_test_once(shared: Shared):
    children = shared.children
    assert sorted(child.tags[TRIAL_TAG] for child in children) == RUNS
    assert {child.status for child in children} == {"FINISHED"}
    for child in children:
        logged = shared.tracker.client.get_metric_history(child.run_id, "train/epoch_s")
        logged += shared.tracker.client.get_metric_history(child.run_id, "epoch_s")
        assert [one.step for one in logged] == [1, 2], child.name
        assert child.tags["test_readings"] == "1"


def test_its_results_are_in_the_store_and_nowhere_else(shared: Shared):
    comparison = shared.storage / "comparisons/shared"
    tables = [f"table.{kind}" for kind in ("html", "json", "md", "tex")]
    assert comparison.names() == ["comparison.json", "ledger", "outcomes", *tables]
    assert (comparison / "outcomes").names() == [f"{name}.json" for name in RUNS]
    assert os.listdir(shared.folder / "two") == []
    assert os.listdir(shared.folder / "one") == ["killed.log"]
    sent = (shared.storage / "features").names()
    assert len(sent) == 1, "both methods have the same features"
    for node in ("node", "second-node"):
        assert os.listdir(shared.folder / f"{node}-cache" / "features") == sent, f"{node} trains"

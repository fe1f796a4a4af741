"""A search over two Ray nodes that share no folder, reporting to servers, while one of the nodes dies."""

import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import optuna
import psutil
import pytest

from pipeline.tracking import model_registry
from pipeline.tracking.epoch_steps import history
from pipeline.tracking.studies import latest_study
from pipeline.tracking.tracking import TRIAL_TAG, Tracker
from tests.integration.cluster_servers import (
    RayNode,
    keys,
    mlflow_server,
    postgres,
    ray_node,
)
from tests.integration.commands import ENVIRONMENT, SMALL, run
from tests.integration.servers import S3Server, free_port
from tests.small_store import small_package

pytestmark = pytest.mark.slow

NUM_TRIALS, NUM_EPOCHS, TIMEOUT_S = 4, 10, 400


@dataclass
class Cluster:
    folder: Path
    address: str
    tracking: str
    optuna: str
    environment: dict[str, str]
    nodes: list[RayNode]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, s3: S3Server) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    port = free_port()
    address = f"127.0.0.1:{port}"
    environment = {
        **ENVIRONMENT,
        **s3.environment,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with ExitStack() as stack:
        database = stack.enter_context(postgres())
        tracking = stack.enter_context(mlflow_server(folder, f"{database}/mlflow", s3))
        # sockets under pytest's long folder would not fit their 107 bytes
        temporary = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True)
        )
        head = ["--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={temporary}"]
        nodes = []
        for number, arguments in enumerate([head, [f"--address={address}"]]):
            home = folder / f"node{number}"
            own = environment | {"INFOCAL_CACHE": str(home / "cache")}
            nodes.append(stack.enter_context(ray_node(home, [*arguments, "--num-cpus=1"], own)))
        yield Cluster(folder, address, tracking, f"{database}/optuna", environment, nodes)


@dataclass
class Ended:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def ended(cluster: Cluster, s3: S3Server) -> Ended:
    """A search of which one node died while it trained."""
    driver = cluster.folder / "driver"
    driver.mkdir()
    log, output = driver / "stderr", driver / "stdout"
    environment = cluster.environment | {
        "RAY_ADDRESS": cluster.address,
        "MLFLOW_TRACKING_URI": cluster.tracking,
        "INFOCAL_CACHE": str(driver / "cache"),
    }
    command = [
        *(sys.executable, "-m", "pipeline.search", *SMALL, "--name", "two-nodes"),
        *("--storage", s3.uri("studies")),
        *("--trials", str(NUM_TRIALS), "--epochs", str(NUM_EPOCHS), "--min-precision", "0.0"),
        *("--sampler", "random", "--optuna-storage", cluster.optuna),
    ]
    with log.open("w") as stderr, output.open("w") as stdout:
        process = subprocess.Popen(command, cwd=driver, env=environment, stdout=stdout, stderr=stderr)
    try:
        # a trial that the head has ended may hand its worker to the next one before the second node is up
        _wait_for(
            lambda said: bool(_trials_on(cluster.nodes[1])), "of a trial on the second node", log, process
        )
        before = log.read_text().count(" epoch ")
        _wait_for(lambda said: said.count(" epoch ") >= before + 3, "of three more epochs", log, process)
        assert _trials_on(cluster.nodes[1]), "a trial runs on the node that is killed"
        cluster.nodes[1].kill()
        process.wait(TIMEOUT_S)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return Ended(process.returncode, output.read_text(), log.read_text())


def _wait_for(holds: Callable[[str], bool], what: str, log: Path, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds(log.read_text()):
        assert process.poll() is None, f"it ended before it could be seen {what}:\n{log.read_text()}"
        assert time.monotonic() < deadline, f"nothing was seen {what}:\n{log.read_text()}"
        time.sleep(0.1)


def _trials_on(node: RayNode) -> list[psutil.Process]:
    return [one for one in node.processes() if "ImplicitFunc" in " ".join(one.cmdline())]


def test_every_trial_ends_though_a_node_died(ended: Ended, cluster: Cluster):
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("beer/palate: 4 trials"), "stdout holds the result alone"
    tracker = Tracker(cluster.tracking, create=False)
    study = latest_study(tracker, tracker.experiment("beer", "palate"), "two-nodes")
    assert study is not None and study.status == "FINISHED"
    trials = tracker.children(study.run_id)
    assert len(trials) == len({trial.tags[TRIAL_TAG] for trial in trials}) == NUM_TRIALS
    assert {trial.status for trial in trials} == {"FINISHED"}
    for trial in trials:
        epochs = [epoch for epoch, _ in history(tracker, trial, "val_token_f1")]
        assert epochs == list(range(NUM_EPOCHS)), "each epoch once, those before the node's death too"


def test_trials_of_the_cluster_are_the_same_in_one_process_elsewhere(
    ended: Ended, cluster: Cluster, s3: S3Server, tmp_path: Path
):
    tracker = Tracker(cluster.tracking, create=False)
    study = latest_study(tracker, tracker.experiment("beer", "palate"), "two-nodes")
    assert study is not None
    environment = {**ENVIRONMENT, **s3.environment}
    for trial in tracker.children(study.run_id)[:2]:
        command = [sys.executable, "-m", "pipeline.reproduce", "--run", trial.run_id, "--tolerance", "0"]
        places = ["--storage", s3.uri("studies"), "--tracking-uri", cluster.tracking]
        done = run([*command, *places, "--cache-dir", str(tmp_path / "cache")], tmp_path, environment)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "agrees bit for bit: " in done.stdout and f" over {NUM_EPOCHS} epochs" in done.stdout


def test_the_winner_is_registered_and_its_files_are_in_the_bucket(
    ended: Ended, cluster: Cluster, s3: S3Server
):
    assert "registered infocal-beer-palate version 1 as `challenger`" in ended.stdout
    tracker = Tracker(cluster.tracking, create=False)
    version = model_registry.find(tracker, "infocal-beer-palate", model_registry.CHALLENGER)
    assert version.version == 1
    logged = [key for key in keys(s3, "mlflow/") if key.endswith("model.safetensors")]
    assert logged, "artifacts pass through the server into the bucket"
    names = keys(s3, "studies/studies/two-nodes/")
    assert any(name.endswith("report.html") for name in names)
    assert any(name.endswith("model/model.safetensors") for name in names)


def test_the_database_behind_the_server_takes_a_model_without_it(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    tracker = Tracker(f"{cluster.optuna.rpartition('/')[0]}/mlflow")
    experiment = tracker.client.create_experiment("direct", artifact_location=(tmp_path / "own").as_uri())
    run_id = tracker.start_run(experiment, "trial-00", {}, {})
    package = small_package(tmp_path / "model")
    assert model_registry.register(tracker, package, name="direct", run_id=run_id, tags={}) == 1
    assert not (tmp_path / "mlflow.db").exists(), "the global store of MLflow is not asked"


def test_the_second_node_had_localised_the_features(ended: Ended, cluster: Cluster):
    (localised,) = (cluster.folder / "node1" / "cache" / "features").glob("beer-palate-*/")
    assert (localised / "train.arrow").is_file()


def test_the_study_is_in_optunas_own_storage(ended: Ended, cluster: Cluster):
    storage = optuna.storages.RDBStorage(cluster.optuna)
    study = optuna.load_study(study_name="two-nodes", storage=storage)
    states = [trial.state for trial in study.trials]
    storage.remove_session()
    storage.engine.dispose()
    assert states == [optuna.trial.TrialState.COMPLETE] * NUM_TRIALS

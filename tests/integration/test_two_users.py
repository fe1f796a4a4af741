"""Two people search at once: one server, one registry, one empty feature cache, and by chance one name."""

import subprocess
import sys
from pathlib import Path

import pytest

from pipeline.tracking import model_registry
from pipeline.tracking.tracking import RESULTS_TAG, STUDY_TAG, Tracker
from tests.integration.cluster_servers import mlflow_server
from tests.integration.commands import ENVIRONMENT, SMALL, TIMEOUT_S
from tests.integration.servers import S3Server

pytestmark = pytest.mark.slow


def test_two_searches_at_once_share_server_registry_and_cache(tmp_path: Path, s3: S3Server):
    with mlflow_server(tmp_path, f"sqlite:///{tmp_path / 'mlflow.db'}", s3) as address:
        command = [
            *(sys.executable, "-m", "pipeline.search", *SMALL, "--name", "ours", "--tracking-uri", address),
            *("--trials", "2", "--epochs", "2", "--min-precision", "0.0"),
            *("--cache-dir", str(tmp_path / "cache")),
        ]
        users = []
        for user in ("one", "two"):
            home = tmp_path / user
            home.mkdir()
            with (home / "stderr").open("w") as stderr:
                users.append(
                    subprocess.Popen(
                        command, cwd=home, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=stderr
                    )
                )
        codes = [process.wait(TIMEOUT_S) for process in users]
        said = [(tmp_path / user / "stderr").read_text() for user in ("one", "two")]
        if 2 in codes:  # the second came late enough to see that the name is taken, and lost nothing
            assert sorted(codes) == [0, 2] and "already tracks a study `ours`" in said[codes.index(2)]
        else:
            assert codes == [0, 0], said
        finished = codes.count(0)
        tracker = Tracker(address, create=False)
        runs = tracker.client.search_runs(
            [tracker.experiment("beer", "palate")], f"tags.{STUDY_TAG} = 'ours'"
        )
        studies = [run for run in runs if RESULTS_TAG in run.data.tags]
        assert len(studies) == finished
        for study in studies:
            trials = tracker.children(study.info.run_id)
            assert [trial.status for trial in trials] == ["FINISHED"] * 2
        for version in range(1, finished + 1):
            assert model_registry.find(tracker, "infocal-beer-palate", version).run_id
        assert len(list((tmp_path / "cache" / "features").glob("beer-palate-*/"))) == 1

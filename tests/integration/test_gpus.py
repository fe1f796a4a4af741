"""Trials on a Ray that counts two GPUs; there are none, so what runs on them runs on the CPU."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from ray import tune

from infocal.config import InfoCalConfig
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Storage
from pipeline.study import cluster, engine, gpus
from pipeline.study.ledger import Ledger
from pipeline.study.packing import Measurement
from pipeline.study.probe import measured
from pipeline.study.scheduler import OBJECTIVE, VIOLATION
from pipeline.study.study import Study
from pipeline.study.study_folder import StudyFolder
from pipeline.study.study_settings import StudySettings
from pipeline.training.epochs import EPOCHS
from pipeline.training.settings import RunSettings
from search_spaces.infocal import PAPER_BEER
from tests.small_study import run_settings, study_settings

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PER_CARD, NUM_GPUS = 2, 2
WAIT_S = 120.0


def start_ray() -> None:
    """A private Ray; below a short path, for its sockets' sake."""
    ray.init(
        address="local",
        num_cpus=4,
        num_gpus=NUM_GPUS,
        _temp_dir=os.path.join(tempfile.gettempdir(), "ray"),
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
    )


@pytest.fixture(scope="module", autouse=True)
def two_gpus() -> Iterator[None]:
    """A private Ray with two logical GPUs, whose workers find the checkout and no thread settings."""
    before = os.environ.copy()
    cluster.prepare_environment()
    os.environ["PYTHONPATH"] = str(ROOT)
    # as on a cluster, where Ray sets it from the cores of a task
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.pop(name, None)
    start_ray()
    yield
    ray.shutdown()
    os.environ.clear()
    os.environ.update(before)


def overlapping(intervals: list[tuple[float, float]]) -> int:
    """Most of these intervals that hold at one moment."""
    return max(sum(start <= moment < end for start, end in intervals) for moment, _ in intervals)


def epoch(number: int) -> dict[str, Any]:
    """As much of an epoch's result as the driver reads; a trial has two."""
    return {"epoch": number, EPOCHS: number + 1, OBJECTIVE: 0.5, VIOLATION: 0.0}


def study_in(folder: Path, settings: StudySettings) -> Study:
    place = StudyFolder.local(Storage(str(folder)), "study")
    return Study(settings, PAPER_BEER, place, Ledger(place.directory))


def waiting_trial(folder: Path, wanted: int) -> Any:
    """A trial that lasts until `wanted` have started, and a second more: what could run beside it, does."""
    last = epoch(1)  # made here: the workers need not import this file, and with it torch

    def trainable(values: dict[str, Any], runs: Any, study: str) -> None:
        from ray import tune

        started = time.time()
        name = tune.get_context().get_trial_id()
        (folder / f"{name}.started").touch()
        while len(list(folder.glob("*.started"))) < wanted and time.time() < started + WAIT_S:
            time.sleep(0.05)
        time.sleep(1)
        (folder / f"{name}.times").write_text(f"{started} {time.time()}")
        tune.report(last)

    return trainable


@pytest.mark.parametrize(
    ("gpus", "max_concurrent", "at_once"), [(1 / PER_CARD, 0, PER_CARD * NUM_GPUS), (1.0, 0, 2), (0.25, 3, 3)]
)
def test_so_many_trials_run_at_once_as_share_the_cards(
    gpus: float, max_concurrent: int, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(engine, "tune_trainable", waiting_trial(tmp_path, at_once))
    settings = study_settings(
        run_settings(),
        num_trials=at_once + 1,
        max_concurrent=max_concurrent,
        cpus_per_trial=0.1,
        gpus_per_trial=gpus,
    )
    study_in(tmp_path, settings).run([])
    times = [tuple(map(float, path.read_text().split())) for path in tmp_path.glob("*.times")]
    assert len(times) == settings.num_trials
    assert overlapping([(start, end) for start, end in times]) == at_once


class Interruption(tune.Callback):
    """Ends a study at its first report, once."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: Any, **info: Any
    ) -> None:
        if not self.mark.exists():
            self.mark.touch()
            raise KeyboardInterrupt("of a test")


def test_a_resumed_study_goes_on_with_the_part_that_was_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Were a trial restored with its old part, more could share a card than their memory allows."""
    first, last = epoch(0), epoch(1)

    def telling(values: dict[str, Any], runs: Any, study: str) -> None:
        from ray import tune

        part = ray.get_runtime_context().get_assigned_resources()["GPU"]
        with (tmp_path / "parts").open("a") as file:
            file.write(f"{part}\n")
        tune.report(first)
        time.sleep(1)
        tune.report(last)

    monkeypatch.setattr(engine, "tune_trainable", telling)

    def with_gpus(part: float) -> Study:
        changes = {"num_trials": 1, "cpus_per_trial": 0.5, "gpus_per_trial": part}
        return study_in(tmp_path, study_settings(run_settings(), **changes))

    with pytest.raises(KeyboardInterrupt, match="of a test"):
        with_gpus(0.25).run([Interruption(tmp_path / "interrupted")])
    # the interrupted study's trial still holds its part of a card
    ray.shutdown()
    start_ray()
    with_gpus(0.5).run([])
    assert (tmp_path / "parts").read_text().split() == ["0.25", "0.5"]


# ------------------------------------------------------------------------------------------------ probe


def read_here(run: RunSettings, config: InfoCalConfig) -> dict[str, Any]:
    """Stands for a measurement on a card; says which card Ray gave to this process."""
    devices = os.environ["CUDA_VISIBLE_DEVICES"]
    return {"card": devices, "total": os.getpid(), "reserved": config.hidden_size, "overhead": 0}


def test_a_trial_is_measured_on_one_card_in_a_process_of_its_own():
    config = InfoCalConfig.from_mapping(run_settings().base)
    given = {"is_local": False, "wait_s": WAIT_S, "reading": read_here}
    (first,), (second,) = (measured(run_settings(), config, **given) for _ in range(2))
    assert isinstance(first, Measurement)
    assert first.card in ("0", "1")
    assert (first.reserved, first.num_cpus) == (4, 2.0), "four cores for two cards"
    assert len({first.total, second.total, os.getpid()}) == 3, "a process that ends gives its memory back"


def test_a_mistake_on_the_node_is_one_line_here():
    """The real measurement, on a GPU that only Ray believes in."""
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    config = InfoCalConfig.from_mapping(run_settings().base)
    message = "^--gpus-per-trial auto: Ray reports a GPU here, but torch [^\n]* sees none$"
    with pytest.raises(PipelineError, match=message):
        measured(run_settings(), config, is_local=True, wait_s=WAIT_S)


def test_cards_that_stay_taken_are_named():
    @ray.remote(num_gpus=NUM_GPUS, num_cpus=0)
    class Taken:
        def ready(self) -> bool:
            return True

    holder = Taken.remote()
    assert ray.get(holder.ready.remote(), timeout=WAIT_S)
    config = InfoCalConfig.from_mapping(run_settings().base)
    message = "no GPU was free within 1 s to measure a trial on; nodes with a GPU: 1$"
    with pytest.raises(PipelineError, match=message) as caught:
        measured(run_settings(), config, is_local=False, wait_s=1.0, reading=read_here)
    ray.kill(holder)
    assert "--gpus-per-trial 0.25" in caught.value.hint


def test_a_machine_without_a_gpu_is_named_at_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ray, "nodes", lambda: [])
    config = InfoCalConfig.from_mapping(run_settings().base)
    with pytest.raises(PipelineError, match="^--gpus-per-trial auto: this machine has no GPU$"):
        measured(run_settings(), config, is_local=True)


# ---------------------------------------------------------------------------------------------- threads


@pytest.mark.parametrize(("cpus", "threads"), [(2.0, 2), (0.5, 1)])
def test_a_trials_threads_are_as_many_as_its_cores(
    cpus: float, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """torch's own number, and the environment that OpenMP and MKL would read, say the same."""

    def counting(values: dict[str, Any], runs: dict[str, RunSettings], study: str) -> None:
        from ray import tune

        from pipeline.training.trainable import Trial

        run = runs[""]
        config = InfoCalConfig.from_mapping(run.base)
        Trial(config, run, 0, Path(tempfile.mkdtemp(dir=tmp_path)))
        found = [
            torch.get_num_threads(),
            os.environ.get("OMP_NUM_THREADS"),
            os.environ.get("MKL_NUM_THREADS"),
        ]
        (tmp_path / "found").write_text(repr(found))
        tune.report(epoch(1))

    monkeypatch.setattr(engine, "tune_trainable", counting)
    run = run_settings(num_threads=threads)
    settings = study_settings(run, num_trials=1, cpus_per_trial=cpus)
    study_in(tmp_path, settings).run([])
    assert (tmp_path / "found").read_text() == repr([threads, str(threads), None])


def test_a_cluster_with_gpus_and_a_torch_without_cuda_is_told_so(caplog: pytest.LogCaptureFixture):
    """These two GPUs are there for Ray alone: torch sees none, as where a build for CPUs was installed."""
    settings = study_settings(run_settings(device="auto"), chooses_gpus=True)
    found = gpus.chosen(settings)
    assert (found.packs_gpus, found.gpus_per_trial, found.run.device) == (False, 0.0, "cpu")
    (record,) = [record for record in caplog.records if record.name == "pipeline.study.gpus"]
    assert f"2 in the cluster, but torch {torch.__version__} cannot use them" in record.getMessage()
    given = study_settings(run_settings(device="auto"), gpus_per_trial=0.5)
    message = "--gpus-per-trial 0.5: expected trials on GPUs, but torch .* of the nodes cannot use them"
    with pytest.raises(PipelineError, match=message):
        gpus.check_usable(given.run.device, given.gpus_per_trial)

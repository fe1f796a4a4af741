"""A trial that ends in mid-epoch goes on there, and ends as one that was never interrupted."""

import dataclasses
import functools
import itertools
import logging
import pickle
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from infocal.trainer import Trainer
from pipeline.base.storage import Location, Storage
from pipeline.base.stored_files import write_digests
from pipeline.base.trajectories import Failure
from pipeline.training import checkpoints, midway, trainable
from pipeline.training.epochs import Epoch, report_of
from pipeline.training.midway import MIDWAY, Interruptible, Midway
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import train
from search_spaces import lookup
from tests.integration.servers import S3Server
from tests.small_store import session_folder
from tests.small_study import run_settings

EVERY_BATCH = 1e-9
TIMES = {"epoch_s", "train_s", "tokens_per_s"}
"""What a clock decides."""


class Died(Exception):  # noqa: N818 - what happens to it, not what goes wrong
    """A worker is killed."""


class Dying(Midway):
    """One whose worker dies before it trains on a batch of that number, counted over epochs."""

    def __init__(self, study: Location, at: int, every_s: float = EVERY_BATCH):
        super().__init__(study, "a", every_s)
        self._counter = itertools.count()
        self._at = at

    def watched(self, batches: Iterable[Any], trial: Interruptible) -> Iterator[Any]:
        for batch in super().watched(batches, trial):
            if next(self._counter) == self._at:
                raise Died
            yield batch
        if next(self._counter) == self._at:
            raise Died


@dataclass
class Worker:
    """What a worker's trial reports, and the state after its last epoch."""

    folder: Path
    results: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self):
        (self.folder / "work").mkdir(parents=True)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def __call__(self, result: Epoch | Failure, checkpoint: Path):
        shutil.rmtree(self.checkpoint, ignore_errors=True)
        shutil.copytree(checkpoint, self.checkpoint)
        self.results.append({name: value for name, value in report_of(result).items() if name not in TIMES})

    def train(self, run: RunSettings, checkpoint: Path | None = None, within: Midway | None = None):
        train({}, run, self, self.folder / "work", checkpoint, within)
        return self

    def state(self) -> dict[str, Any]:
        kept: dict[str, Any] = torch.load(self.checkpoint / checkpoints.STATE, weights_only=True)
        return kept["trainer"]


@pytest.fixture(autouse=True)
def writes_every_batch(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(midway, "_COST", 0)


@pytest.fixture
def study(tmp_path: Path) -> Location:
    return Storage(str(tmp_path / "study")).opened()


def equal(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, torch.Tensor):
        return torch.equal(mine, theirs)
    if isinstance(mine, dict):
        return mine.keys() == theirs.keys() and all(equal(mine[key], theirs[key]) for key in mine)
    if isinstance(mine, list | tuple):
        return len(mine) == len(theirs) and all(map(equal, mine, theirs))
    return bool(mine == theirs)


def settings(method: str = "infocal") -> RunSettings:
    run = run_settings(method=method, num_epochs=2)
    known = lookup.implementation(method).config_class()().to_dict()
    return dataclasses.replace(run, base={name: run.base[name] for name in run.base if name in known})


@functools.cache
def uninterrupted(method: str) -> Worker:
    """A trial that was never interrupted; trained once, and only read."""
    return Worker(Path(tempfile.mkdtemp(dir=session_folder()))).train(settings(method))


def states(study: Location) -> list[str]:
    return (study / MIDWAY / "a").names()


BATCHES = 6
"""Batches of an epoch of the small settings; the tests below check it."""


@pytest.mark.parametrize(
    ("method", "at"),
    [
        *(("infocal", at) for at in (1, BATCHES, BATCHES + 1, BATCHES + 2, 2 * BATCHES + 1)),
        *(("hardkuma", BATCHES + 3), ("fresh", BATCHES + 3)),
    ],
)
def test_a_trial_that_dies_in_mid_epoch_ends_as_if_it_had_not(
    method: str, at: int, tmp_path: Path, study: Location
):
    run = settings(method)
    whole = uninterrupted(method)
    first = Worker(tmp_path / "first")
    with pytest.raises(Died):
        first.train(run, within=Dying(study, at))
    epoch, position = divmod(at, BATCHES + 1)
    assert len(first.results) == epoch
    kept = [f"{epoch}-{position}"] if position else [f"0-{BATCHES}"] * epoch
    assert states(study) == kept, "one state, or where the epoch has just begun that of the one before"
    second = Worker(tmp_path / "second")
    second.train(run, first.checkpoint if epoch else None, Midway(study, "a", EVERY_BATCH))
    assert first.results + second.results == whole.results
    assert equal(second.state(), whole.state())


def test_a_trial_whose_study_lies_behind_a_uri_goes_on_in_mid_epoch(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
):
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    study = Storage(s3.uri(f"midway/{tmp_path.name}")).opened()
    whole = uninterrupted("infocal")
    break_off(tmp_path / "first", study, at=3)
    assert states(study) == ["0-3"]
    second = Worker(tmp_path / "second").train(settings(), None, Midway(study, "a", EVERY_BATCH))
    assert second.results == whole.results
    (study / MIDWAY / "stop" / "asked").write(b"")
    thread = threading.Thread(target=Midway(study, "a", 0.0).rest)
    thread.start()
    midway.stop(study, ["a"])
    assert (study / MIDWAY / "stop").names() == ["a", "asked"]
    midway.clear(study)
    thread.join(2 * midway._REMOTE_POLL_S)
    assert not thread.is_alive()
    assert not (study / MIDWAY).exists()


def test_no_batch_is_trained_twice(tmp_path: Path, study: Location, monkeypatch: pytest.MonkeyPatch):
    steps: list[tuple[int, int]] = []
    step = Trainer.train_step

    def counting(self: Trainer, batch: Any) -> Any:
        steps.append((self.epoch, self.position))
        return step(self, batch)

    monkeypatch.setattr(Trainer, "train_step", counting)
    # a method whose trainer has no step of its own
    run = settings("hardkuma")
    with pytest.raises(Died):
        Worker(tmp_path / "first").train(run, within=Dying(study, 2))
    Worker(tmp_path / "second").train(run, None, Midway(study, "a", 0.0))
    assert steps == [(epoch, position) for epoch in range(2) for position in range(BATCHES)]


def test_the_time_before_the_break_counts(tmp_path: Path, study: Location, monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(trainable, "time", SimpleNamespace(monotonic=lambda: now[0]))

    class Timed(Dying):
        def watched(self, batches: Iterable[Any], trial: Interruptible) -> Iterator[Any]:
            for batch in super().watched(batches, trial):
                yield batch
                now[0] += 100.0

    with pytest.raises(Died):
        Worker(tmp_path / "first").train(settings(), within=Timed(study, 2))
    told: list[float] = []
    (tmp_path / "work").mkdir()
    within = Timed(study, at=-1)
    train({}, settings(), lambda result, _: told.append(result.train_s), tmp_path / "work", None, within)
    assert told == [100.0 * BATCHES] * 2


def break_off(folder: Path, study: Location, at: int = 2) -> None:
    with pytest.raises(Died):
        Worker(folder).train(settings(), within=Dying(study, at))


def test_a_damaged_state_costs_the_start_of_the_epoch_alone(
    tmp_path: Path, study: Location, caplog: pytest.LogCaptureFixture
):
    whole = uninterrupted("infocal")
    break_off(tmp_path / "first", study)
    path = Path(study.path) / MIDWAY / "a" / "0-2" / checkpoints.STATE
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    second = Worker(tmp_path / "second").train(settings(), None, Midway(study, "a", 0.0))
    assert second.results == whole.results
    assert "the saved state is not used" in caplog.text


def pickled(folder: Path) -> None:
    (folder / checkpoints.STATE).write_bytes(pickle.dumps(print))


def of_whole_epochs(folder: Path) -> None:
    """As an `Interruptible` of another version might write it."""
    kept = torch.load(folder / checkpoints.STATE, weights_only=True)
    torch.save({**kept, "progress": {}}, folder / checkpoints.STATE)


def half_there(folder: Path) -> None:
    kept = torch.load(folder / checkpoints.STATE, weights_only=True)
    del kept["trainer"]["optimizer"]  # what comes before it is loaded by then
    torch.save(kept, folder / checkpoints.STATE)


@pytest.mark.parametrize("replace", [pickled, of_whole_epochs, half_there])
def test_a_state_of_something_else_costs_the_start_of_the_epoch_alone(
    tmp_path: Path, study: Location, caplog: pytest.LogCaptureFixture, replace: Callable[[Path], None]
):
    whole = uninterrupted("infocal")
    break_off(tmp_path / "first", study, BATCHES + 3)
    folder = Path(study.path) / MIDWAY / "a" / "1-2"
    replace(folder)
    write_digests(folder, (checkpoints.STATE,))
    second = Worker(tmp_path / "second")
    second.train(settings(), tmp_path / "first" / "checkpoint", Midway(study, "a", 0.0))
    assert second.results == whole.results[1:]
    assert equal(second.state(), whole.state())
    assert "the epoch is trained from its start" in caplog.text
    assert states(study) == []


def test_a_state_that_was_not_written_to_its_end_is_none(tmp_path: Path, study: Location):
    break_off(tmp_path / "first", study)
    folder = Path(study.path) / MIDWAY / "a"
    shutil.copytree(folder / "0-2", folder / "0-3")
    (folder / "0-3" / checkpoints.DIGESTS).unlink()
    seen: list[int] = []

    class Watching(Midway):
        def watched(self, batches: Iterable[Any], trial: Interruptible) -> Iterator[Any]:
            seen.append(trial.trainer.position)
            return super().watched(batches, trial)

    Worker(tmp_path / "second").train(settings(), None, Watching(study, "a", 0.0))
    assert seen == [2, 0]


def test_states_of_other_epochs_and_trials_are_not_taken(tmp_path: Path, study: Location):
    whole = uninterrupted("infocal")
    break_off(tmp_path / "first", study)
    folder = Path(study.path) / MIDWAY
    shutil.copytree(folder / "a", folder / "b")
    (folder / "a" / "0-2").rename(folder / "a" / "1-2")
    (folder / "a" / "notes").mkdir()
    second = Worker(tmp_path / "second").train(settings(), None, Midway(study, "a", 0.0))
    assert second.results == whole.results


def test_a_trial_that_may_not_write_trains_on(
    tmp_path: Path, study: Location, caplog: pytest.LogCaptureFixture
):
    Path(study.path).mkdir()
    (Path(study.path) / MIDWAY).write_text("in the way", encoding="utf-8")
    worker = Worker(tmp_path / "first").train(settings(), None, Midway(study, "b", EVERY_BATCH))
    assert len(worker.results) == 2
    assert "cannot write the state of an unfinished epoch" in caplog.text


def test_states_are_written_no_more_often_than_is_worth_it(
    tmp_path: Path, study: Location, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(midway, "_COST", 1e6)
    break_off(tmp_path / "first", study, at=3)
    assert states(study) == ["0-1"]


def test_without_an_interval_nothing_is_written(tmp_path: Path, study: Location):
    Worker(tmp_path / "first").train(settings(), None, Midway(study, "a", 0.0))
    assert not (study / MIDWAY).exists()


def test_states_are_cleared(tmp_path: Path, study: Location):
    break_off(tmp_path / "first", study)
    Midway(study, "a", 0.0).clear()
    assert (study / MIDWAY).names() == []
    midway.clear(study)
    assert not (study / MIDWAY).exists()


def test_a_trial_that_is_asked_keeps_its_state_answers_and_waits(tmp_path: Path, study: Location):
    reported: list[Epoch | Failure] = []
    (tmp_path / "work").mkdir()
    thread = threading.Thread(
        target=train,
        args=({}, settings(), lambda result, _: reported.append(result), tmp_path / "work", None),
        kwargs={"midway": Midway(study, "a", 0.0)},
    )
    (study / MIDWAY / "stop" / "asked").write(b"")
    thread.start()
    started = time.monotonic()
    midway.stop(study, ["a"])
    assert time.monotonic() - started < midway._PATIENCE_S
    assert states(study) == ["0-1"]
    time.sleep(0.5)
    assert thread.is_alive()
    assert not reported
    midway.reset(study)  # no driver does so while they live; this one is to end
    thread.join(60)
    assert [result.number for result in reported] == [0, 1]


def test_between_epochs_a_trial_answers_too(study: Location):
    within, cleared = Midway(study, "a", 60.0), list[bool]()
    within.before_rest = lambda: cleared.append((study / MIDWAY / "stop" / "a").exists())
    within.rest()  # nobody asks
    assert not cleared
    (study / MIDWAY / "stop" / "asked").write(b"")
    thread = threading.Thread(target=within.rest)
    thread.start()
    midway.stop(study, ["a"])
    assert (study / MIDWAY / "stop").names() == ["a", "asked"]
    assert cleared == [False], "before it answers: the driver then ends its process"
    midway.reset(study)
    thread.join(10)
    assert not thread.is_alive()


def test_a_trial_that_does_not_answer_is_not_waited_for(study: Location, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(midway, "_PATIENCE_S", 0.5)
    started = time.monotonic()
    midway.stop(study, ["a", "b"])
    assert 0.5 <= time.monotonic() - started < 5


def test_a_driver_that_cannot_ask_ends_all_the_same(
    study: Location, caplog: pytest.LogCaptureFixture, tmp_path: Path
):
    Path(study.path).write_text("in the way", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        midway.stop(study, ["a"])
    assert "cannot ask for the state" in caplog.text

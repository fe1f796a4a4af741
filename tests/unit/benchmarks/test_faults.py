"""The frame of the fault injection: whatever is wrong with a study is counted, and a sound one is not."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import optuna
import pytest
import torch

from benchmarks import faults
from benchmarks.faulting import FAULTS, cache
from benchmarks.faulting.command import Command, Unexpected
from benchmarks.faulting.driver import Window
from benchmarks.faulting.evidence import (
    Expected,
    Place,
    count_study,
    count_trained_again,
    finished,
    last_checkpoint,
)
from benchmarks.faulting.frame import COLUMNS, Bench, Counts, Fault
from benchmarks.faulting.reference import Reference, state_differs
from pipeline.base.errors import PipelineError
from pipeline.base.trajectories import Failure
from pipeline.study.ledger import Ledger
from pipeline.study.study_folder import OPTUNA_DB, TUNE
from pipeline.tracking.studies import config_of, start_study
from pipeline.tracking.tracking import PARENT_TAG, TRIAL_TAG, Tracker
from pipeline.training import checkpoints
from pipeline.training.epochs import Epoch
from pipeline.training.trainable import train
from tests.small_store import new_store
from tests.small_study import POINT, run_settings, study_settings

TRIALS, EPOCHS = 2, 2
EXPECTED = Expected(trials=TRIALS, epochs=EPOCHS)
POINTS = [POINT, POINT | {"lambda_g": 0.5}]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A storage with a study of two trials that is as it should be; nothing else writes there."""
    runs = tmp_path_factory.mktemp("sound") / "runs"
    place = Place(runs, "first")
    place.folder.mkdir(parents=True)
    study_settings(num_trials=TRIALS).save(place.folder)
    tracker = new_store(runs)
    experiment = tracker.experiment("beer", "palate")
    parent = start_study(tracker, experiment, "first", {}, {})
    copy = optuna.create_study(storage=f"sqlite:///{place.folder / OPTUNA_DB}", study_name="first")
    for number, point in enumerate(POINTS):
        child = _train(tracker, place, experiment, parent, number, point)
        copy.add_trial(optuna.trial.create_trial(value=float(number)))
    source = str(runs)
    tracker.client.create_registered_model("infocal-beer-palate")
    tracker.client.create_model_version("infocal-beer-palate", source=source, run_id=child)
    tracker.client.set_registered_model_alias("infocal-beer-palate", "challenger", "1")
    tracker.finish(parent)
    return runs


def _train(
    tracker: Tracker, place: Place, experiment: str, parent: str, number: int, point: dict[str, float]
) -> str:
    """A trial, trained and tracked as a search does it; returns its run."""
    run = run_settings(num_epochs=EPOCHS)
    tags = {PARENT_TAG: parent, TRIAL_TAG: f"t{number}", "seed": "0"}
    run_id = tracker.start_run(experiment, f"trial-{number:02d}", run.config(**point).to_dict(), tags)
    ledger, folder_of = Ledger(place.folder), f"{TUNE}/folder-{number}"
    ledger.begin(f"t{number}", point, None)

    def report(result: Epoch | Failure, folder: Path) -> None:
        assert isinstance(result, Epoch)
        tracker.log_metrics(run_id, result.numbers, result.number)
        checkpoint = f"{folder_of}/checkpoint_{result.number:06d}"
        shutil.copytree(folder, place.folder / checkpoint)
        ledger.epoch(f"t{number}", result, checkpoint, is_last=result.number + 1 == EPOCHS)

    working = place.runs / f"work-{number}"
    working.mkdir()
    train(point, run, report, working)
    names = ("config.json", "best/scores.json", "rationales.html", "curve.html")
    tracker.finish(run_id, artifacts=dict.fromkeys(names, "x"))
    return run_id


@dataclass
class Kept:
    """A copy of the sound study that may be damaged."""

    place: Place

    def sql(self, statement: str, *values: Any) -> None:
        with sqlite3.connect(self.place.tracked) as connection:
            assert connection.execute(statement, values).rowcount > 0
        connection.close()

    @property
    def child(self) -> str:
        """Id of the first trial's run."""
        with sqlite3.connect(self.place.tracked) as connection:
            query = "SELECT run_uuid FROM tags WHERE key = ? AND value = 't0'"
            (found,) = connection.execute(query, (TRIAL_TAG,)).fetchone()
        connection.close()
        return str(found)


@pytest.fixture
def kept(sound: Path, tmp_path: Path) -> Kept:
    shutil.copytree(sound, tmp_path / "runs")
    return Kept(Place(tmp_path / "runs", "first"))


def figures(kept: Kept, reference: Reference | None = None) -> dict[str, int]:
    """What is counted, without the zeros."""
    counts = Counts(injected=1)
    count_study(counts, kept.place, EXPECTED, reference)
    found = {column: getattr(counts, column) for column in COLUMNS if getattr(counts, column)}
    assert bool(found) == bool(counts.findings) == (not counts.is_clean)
    return found


def test_a_sound_study_has_zeros_only(kept: Kept, tmp_path: Path):
    assert figures(kept, Reference(tmp_path / "reference")) == {}


def _row_twice(kept: Kept) -> None:
    kept.sql(
        "INSERT INTO metrics SELECT key, value, timestamp + 1, run_uuid, step, is_nan FROM metrics "
        "WHERE run_uuid = ? AND key = 'objective' AND step = 1",
        kept.child,
    )


def _row_gone(kept: Kept) -> None:
    kept.sql("DELETE FROM metrics WHERE run_uuid = ? AND step = 1", kept.child)


def _epoch_more(kept: Kept) -> None:
    tracker = Tracker(f"sqlite:///{kept.place.tracked}", create=False)
    tracker.log_metrics(kept.child, {"objective": 0.5}, EPOCHS + 5)


def _optuna_was_told_it_failed(kept: Kept) -> None:
    path = kept.place.folder / OPTUNA_DB
    path.unlink()
    copy = optuna.create_study(storage=f"sqlite:///{path}", study_name="first")
    copy.add_trial(optuna.trial.create_trial(value=1.0))
    copy.add_trial(optuna.trial.create_trial(state=optuna.trial.TrialState.FAIL))


def _running(kept: Kept) -> None:
    kept.sql("UPDATE runs SET status = 'RUNNING' WHERE run_uuid = ?", kept.child)


def _parent_running(kept: Kept) -> None:
    kept.sql("UPDATE runs SET status = 'RUNNING' WHERE name = 'first'")


def _killed(kept: Kept) -> None:
    kept.sql("UPDATE runs SET status = 'KILLED' WHERE run_uuid = ?", kept.child)


def _another_child(kept: Kept, trial: str) -> None:
    tracker = Tracker(f"sqlite:///{kept.place.tracked}", create=False)
    found = tracker.run(kept.child)
    tags = {PARENT_TAG: found.tags[PARENT_TAG], TRIAL_TAG: trial, "seed": "0"}
    again = tracker.start_run(found.experiment_id, "again", config_of(found), tags)
    for step in range(EPOCHS):
        tracker.log_metrics(again, {"objective": 0.5}, step)
    names = ("config.json", "best/scores.json", "rationales.html", "curve.html")
    tracker.finish(again, artifacts=dict.fromkeys(names, "x"))


def _optuna_running(kept: Kept) -> None:
    path = kept.place.folder / OPTUNA_DB
    optuna.load_study(study_name="first", storage=f"sqlite:///{path}").ask()


def _optuna_short(kept: Kept) -> None:
    path = kept.place.folder / OPTUNA_DB
    path.unlink()
    copy = optuna.create_study(storage=f"sqlite:///{path}", study_name="first")
    copy.add_trial(optuna.trial.create_trial(value=1.0))


def _version_twice(kept: Kept) -> None:
    tracker = Tracker(f"sqlite:///{kept.place.tracked}", create=False)
    tracker.client.create_model_version("infocal-beer-palate", source="x", run_id=kept.child)
    tracker.client.set_registered_model_alias("infocal-beer-palate", "challenger", "2")


def _half_a_model(kept: Kept) -> str:
    tracker = Tracker(f"sqlite:///{kept.place.tracked}", create=False)
    experiment = tracker.run(kept.child).experiment_id
    made = tracker.client.create_logged_model(experiment, name="model", source_run_id=kept.child)
    return str(made.model_id)


def _models_more(kept: Kept) -> None:
    tracker = Tracker(f"sqlite:///{kept.place.tracked}", create=False)
    for _ in range(2):  # the version of the sound study has none
        tracker.client.finalize_logged_model(_half_a_model(kept), "READY")


@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (_row_twice, {"duplicates": 1}),
        (_row_gone, {"metrics_lost": 1}),
        (_epoch_more, {"duplicates": 1}),
        (_running, {"trials_lost": 1, "zombies": 1}),
        (_parent_running, {"zombies": 1}),
        (
            lambda kept: kept.sql("UPDATE runs SET status = 'FAILED' WHERE name = 'first'"),
            {"trials_lost": 1},
        ),
        (_killed, {"trials_lost": 2}),
        (lambda kept: _another_child(kept, "t0"), {"duplicates": 1}),
        (lambda kept: _another_child(kept, "t9"), {"duplicates": 1}),
        (lambda kept: (kept.place.folder / ".new-optuna.db").mkdir(), {"zombies": 1}),
        (_optuna_running, {"duplicates": 1, "zombies": 1}),
        (_optuna_short, {"trials_lost": 1}),
        (_optuna_was_told_it_failed, {"trials_lost": 1}),
        (lambda kept: (kept.place.folder / OPTUNA_DB).unlink(), {"trials_lost": 2}),
        (_version_twice, {"duplicates": 1}),
        (lambda kept: kept.sql("DELETE FROM model_versions"), {"trials_lost": 1}),
        (lambda kept: kept.sql("DELETE FROM registered_model_aliases"), {"trials_lost": 1}),
        (_half_a_model, {"zombies": 1}),
        (_models_more, {"duplicates": 1}),
        (lambda kept: kept.sql("UPDATE tags SET value = 'other' WHERE key = 'study'"), {"trials_lost": 1}),
        (lambda kept: kept.sql("UPDATE runs SET artifact_uri = '/gone'"), {"metrics_lost": 8}),
    ],
    ids=[
        *(
            "metric-twice",
            "metric-gone",
            "epoch-more",
            "run-running",
            "study-running",
            "study-failed",
            "run-killed",
            "run-twice",
            "trial-more",
        ),
        *(
            "half-written",
            "optuna-running",
            "optuna-short",
            "optuna-failed",
            "optuna-none",
            "version-twice",
            "version-none",
            "alias-none",
            "model-half",
            "model-more",
        ),
        *("study-none", "artifacts-none"),
    ],
)
def test_whatever_is_wrong_is_counted(kept: Kept, damage: Callable[[Kept], Any], expected: dict[str, int]):
    damage(kept)
    assert figures(kept) == expected


def test_numbers_and_states_that_training_without_a_break_has_not_are_counted(kept: Kept, tmp_path: Path):
    kept.sql(
        "UPDATE metrics SET value = value + 1e-9 WHERE key = 'train/sp' AND step = 1 AND run_uuid = ?",
        kept.child,
    )
    path = kept.place.folder / TUNE / "folder-1" / f"checkpoint_{EPOCHS - 1:06d}" / checkpoints.STATE
    state = torch.load(path, weights_only=True)
    next(iter(state["trainer"]["model"].values())).view(-1)[0] += 1e-6
    torch.save(state, path)
    assert figures(kept, Reference(tmp_path / "reference")) == {"metrics_lost": 2}


def test_a_finished_trial_that_is_trained_again_is_counted(kept: Kept):
    before = finished(kept.place)
    assert sorted(before) == ["t0", "t1"]
    counts = Counts(injected=1)
    count_trained_again(counts, kept.place, before)
    assert counts.is_clean
    last = last_checkpoint(kept.place.folder, "t0")
    assert last is not None
    history = json.loads((last / checkpoints.HISTORY).read_text())
    history[0]["epoch_s"] += 0.5
    (last / checkpoints.HISTORY).write_text(json.dumps(history))
    count_trained_again(counts, kept.place, before)
    assert counts.duplicates == 1
    assert counts.findings == ["duplicates 1: trial t0 was trained again"]


def test_there_is_nothing_finished_without_a_database(tmp_path: Path):
    assert finished(Place(tmp_path, "none")) == {}


def test_states_differ_in_their_first_other_part(tmp_path: Path):
    one, two = tmp_path / "one.pt", tmp_path / "two.pt"
    torch.save({"trainer": {"a": {"w": [torch.zeros(2), 1]}}}, one)
    torch.save({"trainer": {"a": {"w": [torch.zeros(2), 2]}}}, two)
    assert state_differs(one, one) is None
    assert state_differs(one, two) == "a.w.1"


# ------------------------------------------------------------------------------------------------ processes

_PARENT = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print("trial 00 epoch 1/3  started", flush=True)
time.sleep(60)
"""


def test_processes_that_a_killed_command_leaves_behind_are_found_and_ended(tmp_path: Path):
    command = Command(["-c", _PARENT], tmp_path / "log", tmp_path / "tmp")
    assert command.wait_for_epochs(1)
    command.kill()
    assert command.finish() == -9
    (left,) = command.survivors(0.2)
    assert "time.sleep(60)" in left
    assert command.survivors(5.0) == []


def test_a_command_that_does_not_end_is_killed_and_said(tmp_path: Path):
    command = Command(["-c", "import time; time.sleep(60)"], tmp_path / "log", tmp_path / "tmp")
    with pytest.raises(Unexpected, match=r"no end after 0.3 s"):
        command.finish(0.3)
    assert command.process.returncode == -9


def test_a_command_that_ends_before_what_is_waited_for_is_told_apart(tmp_path: Path):
    command = Command(["-c", "print('done'); raise SystemExit(3)"], tmp_path / "log", tmp_path / "tmp")
    assert not command.wait_for_epochs(1)
    assert command.finish() == 3
    assert command.tail() == "done\n"


def test_moments_move_with_the_machines_pace():
    window = Window(first_epoch=10.0, last_epoch=20.0, end=40.0)
    window.shrink(20.0)
    assert (window.first_epoch, window.last_epoch, window.end) == (5.0, 10.0, 20.0)
    window.shrink(80.0)  # ended later: it was not killed for another reason
    assert window.end == 20.0


# --------------------------------------------------------------------------------------------------- caches


def _part(code: str) -> cache.Part:
    return cache.Part("part", ("-c", code), "start", "end", "")


def _builds(tmp_path: Path, counts: Counts) -> cache.Builds:
    return cache.Builds(Bench(tmp_path, tmp_path / "cache", Random(0), 1), counts)


def test_what_is_built_for_comparison_is_built_once(tmp_path: Path):
    """It is asked for again where a fault is injected more often than there are parts."""
    part = _part(
        "import pathlib, sys; made = pathlib.Path(sys.argv[-1]) / 'a.txt'; made.parent.mkdir(); "
        "print('start', flush=True); made.write_text('1'); print('end')"
    )
    builds = _builds(tmp_path, Counts())
    assert builds.whole(part) == builds.whole(part)
    assert builds.started == 1
    assert list(builds.whole(part)[0]) == ["a.txt"]


@pytest.mark.parametrize(
    ("files", "code", "column"),
    [
        ({"a.npy": "1"}, 0, None),
        ({"a.npy": "1"}, 2, "trials_lost"),
        ({}, 0, "trials_lost"),
        ({"a.npy": "2"}, 0, "metrics_lost"),
        ({"a.npy": "1", "b.npy": "1"}, 0, "duplicates"),
        ({"a.npy": "1", ".a.staging-1/x": ""}, 0, "zombies"),
    ],
    ids=["sound", "failed", "missing", "wrong", "more", "half"],
)
def test_what_a_build_leaves_is_counted(tmp_path: Path, files: dict[str, str], code: int, column: str | None):
    counts, folder = Counts(), tmp_path / "built"
    expected = cache.digests(_written(tmp_path / "whole", {"a.npy": "1"}))
    _written(folder, files)
    part = _part(f"raise SystemExit({code})")
    builds = _builds(tmp_path, counts)
    builds.check(part, builds.start(part, folder), folder, expected)
    assert {name: getattr(counts, name) for name in COLUMNS} == {
        name: int(name == column) for name in COLUMNS
    }


def _written(folder: Path, files: dict[str, str]) -> Path:
    folder.mkdir()
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


# -------------------------------------------------------------------------------------------------- command


def _run(
    monkeypatch: pytest.MonkeyPatch, inject: Callable[[Bench], Counts], *flags: str, short: int = 2
) -> int:
    monkeypatch.setitem(FAULTS, "made-up", Fault("made-up", inject, "nothing", 0.25, short))
    return faults.main(["--only", "made-up", *flags])


def _clean(bench: Bench) -> Counts:
    return Counts(injected=bench.times)


def _losing(bench: Bench) -> Counts:
    counts = Counts(injected=bench.times)
    counts.add("trials_lost", 2, "two of three trials")
    return counts


def _giving_up(bench: Bench) -> Counts:
    left.append(Command(["-c", "import time; time.sleep(60)"], bench.folder / "log", bench.folder / "tmp"))
    raise Unexpected("it never said so")


def _ruined(bench: Bench) -> Counts:
    raise PipelineError("cannot use the tracking store")


left: list[Command] = []
"""Commands of injections that were given up."""


def _impossible(bench: Bench) -> Counts:
    return Counts(impossible="nothing can be mounted")


@pytest.mark.parametrize(
    ("inject", "code", "row", "said"),
    [
        (_clean, 0, ["made-up", "5", "0", "0", "0", "0"], ""),
        (_losing, 1, ["made-up", "5", "2", "0", "0", "0"], "made-up: trials_lost 2: two of three trials"),
        (_giving_up, 1, ["made-up", "0", "1", "0", "0", "0"], "given up: it never said so"),
        (_ruined, 1, ["made-up", "0", "1", "0", "0", "0"], "given up: cannot use the tracking store"),
        (lambda _: Counts(), 1, ["made-up", "0", "0", "0", "0", "0"], "never injected"),
        (_impossible, 0, ["made-up", "not", "possible", "here"], "made-up: nothing can be mounted"),
    ],
)
def test_a_row_is_printed_and_written(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    inject: Callable[[Bench], Counts],
    code: int,
    row: list[str],
    said: str,
):
    path = tmp_path / "figures.json"
    assert _run(monkeypatch, inject, "--json", str(path)) == code
    printed = capsys.readouterr()
    head, line = printed.out.splitlines()
    assert head.split()[0] == "fault"
    assert line.split()[: len(row)] == row
    assert said in printed.err
    assert all(command.process.poll() == -9 for command in left)
    (figures,) = json.loads(path.read_text())
    assert figures["fault"] == "made-up"
    assert figures["trials_lost"] == int(row[2] if row[2].isdigit() else 0)


@pytest.mark.parametrize(("flags", "times"), [((), 5), (("--moments", "3"), 1), (("--short",), 2)])
def test_how_often_a_fault_is_injected(monkeypatch: pytest.MonkeyPatch, flags: tuple[str, ...], times: int):
    seen: list[Bench] = []

    def inject(bench: Bench) -> Counts:
        seen.append(bench)
        return _clean(bench)

    assert _run(monkeypatch, inject, *flags) == 0
    assert [bench.times for bench in seen] == [times]


def test_a_seed_repeats_its_moments(monkeypatch: pytest.MonkeyPatch):
    seen: list[float] = []

    def inject(bench: Bench) -> Counts:
        seen.append(bench.random.random())
        return Counts()

    for seed in ("1", "1", "2"):
        _run(monkeypatch, inject, "--seed", seed)
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--only", "earthquake"], "--only: no fault `earthquake`; the faults are driver, "),
        (["--json", "gone/f.json"], "--json: there is no folder `gone`"),
    ],
)
def test_a_wrong_flag_is_named(flags: list[str], message: str):
    with pytest.raises(PipelineError, match=message):
        faults.main(flags)

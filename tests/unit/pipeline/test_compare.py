import contextlib
import dataclasses
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

from infocal.errors import TrainingFailure
from pipeline import compare
from pipeline.base.errors import run_command
from pipeline.cli import planning
from pipeline.comparing import comparison
from pipeline.comparing.comparison import Comparison, ComparisonSettings, Entry
from pipeline.reporting.standings import Outcome
from pipeline.tracking.tracking import TRIAL_TAG
from pipeline.training import checkpoints, trainable
from pipeline.training.settings import RunSettings
from search_spaces import lookup
from tests.small_store import new_store, sample_features
from tests.small_study import SCORES, run_settings

SAMPLE = ["--aspect", "palate", "--sample", "--embedding", "random", "--device", "cpu"]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[ComparisonSettings]:
    """What would be compared; nothing is."""
    found: list[ComparisonSettings] = []

    def conduct(prepared: ComparisonSettings, directory: Path, uri: str, width: int | None):
        prepared.save(directory)
        found.append(prepared)
        return "the table", {}

    def with_features(given, run, *, is_first):
        return dataclasses.replace(run, features_dir="/features")

    monkeypatch.setattr(comparison, "conduct", conduct)
    monkeypatch.setattr(planning, "with_features", with_features)
    return found


# --------------------------------------------------------------------------------------------- command


def test_all_methods_get_one_target_one_budget_and_the_same_seeds(planned, capsys):
    assert run_command(compare.main, [*SAMPLE, "--epochs", "7", "--seed", "3", "--name", "first"]) == 0
    assert capsys.readouterr().out == "the table\n"
    (prepared,) = planned
    assert [run.method for run in prepared.runs] == lookup.method_names()
    assert prepared.seeds == [3, 4, 5]
    assert prepared.target_rate == 0.18, "the preset's"
    assert {run.num_epochs for run in prepared.runs} == {7}
    for run in prepared.runs:
        is_dense = run.method == "infocal-dense"
        assert run.base["target_selection_rate"] == (1.0 if is_dense else 0.18)
        assert run.hold_rate is not is_dense


def test_a_list_of_methods_and_another_target(planned):
    chosen = ["--methods", "hardkuma, infocal,hardkuma", "--target-selection-rate", "0.1", "--seeds", "1"]
    assert run_command(compare.main, [*SAMPLE, *chosen]) == 0
    (prepared,) = planned
    assert [run.method for run in prepared.runs] == ["hardkuma", "infocal"]
    assert {run.base["target_selection_rate"] for run in prepared.runs} == {0.1}


def test_an_option_of_the_data_is_every_methods(planned):
    chosen = ["--methods", "hardkuma,infocal", "--seeds", "1", "--option", "pool=plain"]
    assert run_command(compare.main, [*SAMPLE, *chosen]) == 0
    assert [run.options for run in planned[0].runs] == [{"pool": "plain"}] * 2


def test_one_method_may_have_a_value_of_its_own(planned):
    chosen = ["--methods", "hardkuma,fresh,infocal-no-adv", "--seeds", "1"]
    values = ["hardkuma.lambda_coherence=0.5", "hidden_size=7", "infocal-no-adv.hidden_size=9"]
    assert run_command(compare.main, [*SAMPLE, *chosen, *(f"--set={value}" for value in values)]) == 0
    hardkuma, fresh, variant = (run.base for run in planned[0].runs)
    assert hardkuma["lambda_coherence"] == 0.5
    assert (hardkuma["hidden_size"], fresh["hidden_size"], variant["hidden_size"]) == (7, 7, 9)
    assert variant["lambda_coherence"] == 0.03, "the preset's"


def test_a_comparison_is_resumed_with_its_own_settings(planned, capsys):
    run_command(compare.main, [*SAMPLE, "--methods", "fresh", "--name", "first", "--seeds", "2"])
    assert run_command(compare.main, [*SAMPLE, "--name", "first"]) == 2
    assert "there is a comparison `first` already" in capsys.readouterr().err
    assert run_command(compare.main, ["--sample", "--device", "cpu", "--resume", "--name", "first"]) == 0
    assert planned[1] == planned[0]


def test_what_broke_is_said_after_the_table(planned, monkeypatch, capsys):
    monkeypatch.setattr(comparison, "conduct", lambda *_: ("the table", {"fresh-seed0": "killed"}))
    assert run_command(compare.main, [*SAMPLE, "--methods", "fresh", "--seeds", "2", "--name", "x"]) == 2
    said = capsys.readouterr()
    assert said.out == "the table\n"
    assert "error: 1 of 2 trainings broke; fresh-seed0: killed" in said.err
    going_on = "python -m pipeline.compare --resume --name x --storage runs/sample\n"
    assert said.err.endswith(f"what is missing is trained with: {going_on}")


def test_a_comparison_that_is_interrupted_before_it_began_says_so(planned, monkeypatch, caplog):
    def interrupted(*_: Any, **given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(planning, "with_features", interrupted)
    assert run_command(compare.main, [*SAMPLE, "--methods", "fresh", "--name", "x"]) == 130
    assert "no training was begun: start the same command again" in caplog.text


def test_an_interrupted_comparison_says_how_to_go_on(
    planned, tmp_path: Path, monkeypatch, capsys, caplog: pytest.LogCaptureFixture
):
    given = [*SAMPLE, "--methods", "fresh", "--storage", "two words", "--tracking-uri", "sqlite:///a b.db"]
    run_command(compare.main, [*given, "--name", "x"])

    def interrupted(prepared: ComparisonSettings, directory: Path, uri: str, width: int | None):
        assert uri == f"sqlite:///{tmp_path}/a b.db", "where the first command tracked it"
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "conduct", interrupted)
    again = ["--resume", "--name", "x", "--storage", "two words"]
    assert run_command(compare.main, ["--sample", *again]) == 130
    printed = caplog.text.partition("to resume: ")[2]
    assert shlex.split(printed)[3:] == [*again, "--tracking-uri", f"sqlite:///{tmp_path}/a b.db"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--methods", "hardkum"], "error: --methods: no method on beer `hardkum`; it has "),
        (["--methods", "infocal,"], "error: --methods: no method on beer ``"),
        (["--target-selection-rate", "0"], "error: --target-selection-rate: a selection rate of 0 "),
        (["--target-selection-rate", "2"], "error: argument --target-selection-rate: expected a number from"),
        (["--seeds", "0"], "error: argument --seeds: expected a whole number above 0, but got '0'"),
        (["--gpus-per-run", "auto"], "error: --gpus-per-run: expected a number of GPUs, but got `auto`"),
        (["--set", "lambda_q=1"], "error: --set: infocal: unknown hyper-parameter `lambda_q`"),
        (
            ["--methods", "infocal,fresh", "--set", "hardkuma.lambda_coherence=1"],
            "error: --set: `hardkuma` is not compared; the methods are infocal, fresh\n",
        ),
        (["--set", "fresh.lambda_q=1"], "error: --set: fresh: unknown hyper-parameter `lambda_q`"),
        (
            ["--target-selection-rate", "1"],
            "error: --target-selection-rate: a selection rate of 1 selects every",
        ),
        (
            ["--set", "target_selection_rate=0.5"],
            "error: --set target_selection_rate=0.5: methods are compared",
        ),
        (
            ["--set", "hardkuma.target_selection_rate=0.5", "--target-selection-rate", "0.1"],
            "error: --set hardkuma.target_selection_rate=0.5: methods are compared at one selection rate",
        ),
        (["--cpus-per-run", "9999"], "error: --cpus-per-run: a run asks for 9999 CPU, but this machine has "),
        (["--gpus-per-run", "99"], "error: --gpus-per-run: a run asks for 99 GPU, but this machine has "),
        (["--method", "infocal"], "error: unrecognized arguments: --method infocal"),
        (["--resume"], "error: --resume: which comparison is to be resumed?"),
        (["--resume", "--name", "x"], "error: --name: there is no comparison `x` in "),
        (["--storage", "s3://bucket/x"], "error: --storage: expected a folder of this machine"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing_behind(arguments, message, empty_folder, planned, capsys):
    assert run_command(compare.main, [*SAMPLE, *arguments]) == 2
    said = capsys.readouterr()
    assert said.err.startswith(message)
    assert said.err.count("error: ") == 1
    assert said.out == ""
    assert planned == []
    assert list(empty_folder.iterdir()) == []


def test_the_nearest_method_is_named(planned, capsys):
    run_command(compare.main, [*SAMPLE, "--methods", "hardkum"])
    assert "hint: did you mean `--methods hardkuma`?" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------ the driver


@pytest.fixture
def under_way(tmp_path: Path) -> Comparison:
    """Two methods, two seeds; the parent run is started."""
    tracker = new_store(tmp_path / "store")
    runs = [run_settings(method=name) for name in ("infocal", "infocal-no-lm")]
    prepared = ComparisonSettings(
        name="first",
        runs=runs,
        seeds=[0, 1],
        target_rate=0.18,
        sample=True,
        data_dir=None,
        cpus_per_run=1.0,
        gpus_per_run=0.0,
        command="python -m pipeline.compare",
        run_id=tracker.start_run(tracker.experiment("beer", "palate"), "first", {}, {}),
    )
    directory = tmp_path / "comparisons" / "first"
    directory.mkdir(parents=True)
    return Comparison(prepared, directory, tracker)


def finished(under_way: Comparison, entry: Entry, **changes) -> Outcome:
    folder = under_way.directory / "outcomes"
    folder.mkdir(exist_ok=True)
    scores = {name.removeprefix("val_"): value for name, value in SCORES.items()}
    values = {"method": entry.run.method, "seed": entry.run.seed, "epoch": 1, "scores": scores}
    found = Outcome(**{**values, **changes})
    checkpoints.write_json(folder / f"{entry.name}.json", dataclasses.asdict(found))
    return found


def test_settings_come_back_as_they_were_written(under_way: Comparison):
    under_way.prepared.save(under_way.directory)
    assert ComparisonSettings.load(under_way.directory) == under_way.prepared


def test_entries_take_every_method_before_the_next_seed(under_way: Comparison):
    names = [entry.name for entry in comparison.entries(under_way.prepared)]
    assert names == ["infocal-seed0", "infocal-no-lm-seed0", "infocal-seed1", "infocal-no-lm-seed1"]


def test_nothing_is_trained_where_all_is_done(under_way: Comparison, monkeypatch):
    def session(*_):
        raise AssertionError("Ray was started")

    monkeypatch.setattr(comparison.cluster, "session", session)
    outcomes = [finished(under_way, entry) for entry in comparison.entries(under_way.prepared)]
    under_way.run()
    assert [under_way.outcome(entry) for entry in comparison.entries(under_way.prepared)] == outcomes


class Here:
    """As much of Ray as the driver uses, in this process: a task is done when it is asked for."""

    exceptions = ray.exceptions

    def __init__(self, results: dict[str, Any]) -> None:
        self.results = results
        self.trained: list[str] = []

    def remote(self, **_: Any) -> Any:
        return lambda function: SimpleNamespace(remote=self._train)

    def _train(self, run: RunSettings, folder: str) -> str:
        self.trained.append(Path(folder).name)
        checkpoints.write_json(Path(folder) / checkpoints.HISTORY, [])
        return Path(folder).name

    def wait(self, references: list[str], timeout: float) -> tuple[list[str], list[str]]:
        return references[:1], references[1:]

    def get(self, reference: str) -> Any:
        if isinstance(self.results[reference], Exception):
            raise self.results[reference]
        return self.results[reference]


@pytest.fixture
def without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparison.cluster, "session", lambda address: contextlib.nullcontext())
    monkeypatch.setattr(comparison.cluster, "check_resources", lambda *_, **__: None)
    monkeypatch.setattr(comparison.cluster, "num_slots", lambda *args: 2)


def test_only_what_is_missing_is_trained_and_a_failure_stops_nothing(
    under_way: Comparison, monkeypatch: pytest.MonkeyPatch, without_ray: None
):
    first, second, third, fourth = comparison.entries(under_way.prepared)
    finished(under_way, first)
    finished(under_way, third)
    failure = {"failure": "all_tokens", "failure_message": "epoch 3: selection rate 1.000"}
    here = Here({second.name: failure, fourth.name: ray.exceptions.WorkerCrashedError()})
    monkeypatch.setattr(comparison, "ray", here)
    under_way.run()
    assert here.trained == [second.name, fourth.name]
    kept = under_way.outcome(second)
    assert kept is not None
    assert (kept.failure, kept.failure_message) == ("all_tokens", "epoch 3: selection rate 1.000")
    assert under_way.outcome(fourth) is None, "it is trained again on resuming"
    assert list(under_way.broken) == [fourth.name]
    children = under_way.tracker.children(under_way.prepared.run_id)
    assert [(run.tags[TRIAL_TAG], run.status) for run in children] == [
        (second.name, "FAILED"),
        (fourth.name, "FAILED"),
    ]
    assert children[0].tags["failure"] == "all_tokens"
    failed = next(row for row in under_way.table().rows if row.name == "InfoCal - L_lm")
    assert failed.note == "1 of 1 seeds failed: all_tokens: epoch 3: selection rate 1.000"
    again = Here({fourth.name: failure})
    monkeypatch.setattr(comparison, "ray", again)
    under_way.run()
    assert again.trained == [fourth.name]


def trained_epochs(folder: Path) -> list[dict[str, Any]]:
    clocked = {"epoch_s", "train_s", "tokens_per_s"}
    history = checkpoints.read_json(folder / checkpoints.HISTORY)
    return [{name: value for name, value in epoch.items() if name not in clocked} for epoch in history]


def test_an_interrupted_training_goes_on_from_its_last_epoch(tmp_path: Path, monkeypatch):
    run = run_settings(num_epochs=3)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    assert comparison.train_entry(run, str(whole)) == {}
    comparison.train_entry(dataclasses.replace(run, num_epochs=2), str(broken))
    epochs = []
    epoch = trainable.Trial.epoch

    def counted(trial: trainable.Trial, midway: Any = None) -> Any:
        epochs.append(trial.trainer.epoch)
        return epoch(trial, midway)

    monkeypatch.setattr(trainable.Trial, "epoch", counted)
    assert comparison.train_entry(run, str(broken)) == {}
    assert epochs == [2], "the third alone"
    assert trained_epochs(broken) == trained_epochs(whole)
    assert checkpoints.load_scores(broken / "best") == checkpoints.load_scores(whole / "best")
    assert comparison.train_entry(run, str(broken)) == {}, "all done, but not yet read on test"
    assert epochs == [2]


def test_a_failed_epoch_is_no_checkpoint_to_go_on_from(tmp_path: Path, monkeypatch):
    def failing(trial: trainable.Trial, midway: Any = None) -> Any:
        raise TrainingFailure("non_finite", "epoch 0: sp is nan")

    monkeypatch.setattr(trainable.Trial, "epoch", failing)
    failure = comparison.train_entry(run_settings(num_epochs=2), str(tmp_path))
    assert failure["failure"] == "non_finite"
    assert not (tmp_path / "last").exists()


def test_of_an_interrupted_training_only_the_checkpoint_is_left(
    under_way: Comparison,
):
    first = comparison.entries(under_way.prepared)[0]
    folder = under_way.directory / "working" / first.name
    for name in ("last", ".last", "best", "tmp123"):
        (folder / name).mkdir(parents=True)
    (folder / checkpoints.HISTORY).write_text("[]")
    assert sorted(path.name for path in under_way._folder(first).iterdir()) == ["last"]


def test_the_table_is_written_in_every_format(under_way: Comparison):
    for entry in comparison.entries(under_way.prepared):
        finished(under_way, entry)
    table = under_way.table()
    names = [row.name for row in table.rows]
    assert names[-5:] == ["all_tokens", "no_tokens", "random_k", "first_k", "oracle_k"]
    assert sample_features().notes[0] in table.notes
    files = under_way.write(table)
    assert sorted(files) == ["table.html", "table.json", "table.md", "table.tex"]
    page = files["table.html"].read_text("utf-8")
    assert "Made-up sample corpus" in page
    assert "python -m pipeline.compare" in page
    assert "InfoCal - L_lm" in page
    document = checkpoints.read_json(files["table.json"])
    assert document["rows"][0]["cells"]["token_f1"] == {"mean": pytest.approx(1 / 3), "deviation": 0.0}

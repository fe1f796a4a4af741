import contextlib
import dataclasses
import logging
import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from infocal.errors import StateError
from pipeline import compare
from pipeline.base.errors import PipelineError, run_command
from pipeline.base.storage import Storage
from pipeline.base.stored_files import write_json
from pipeline.cli import planning
from pipeline.comparing import comparison
from pipeline.comparing.comparison import Comparison, ComparisonSettings
from pipeline.comparing.places import COMPARISON, SETTINGS
from pipeline.reporting.standings import Outcome
from pipeline.study import cluster
from pipeline.study.mirror import Mirror
from pipeline.study.recorder import ERROR
from pipeline.study.scheduler import Listed
from pipeline.study.study_folder import StudyFolder
from pipeline.tracking.epoch_steps import history
from pipeline.tracking.tracking import PARENT_TAG, TRIAL_TAG, Tracker
from pipeline.training import checkpoints
from pipeline.training.settings import RUN, RunSettings
from pipeline.training.trainable import RESUMED
from search_spaces import lookup
from tests.small_ledger import an_epoch, checkpoint
from tests.small_store import new_store, sample_features, sample_model, save_trial_checkpoint
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

    def conduct(prepared: ComparisonSettings, folder: StudyFolder, *given: Any):
        prepared.save(folder.directory)
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
    assert [run.method for run in prepared.runs] == lookup.unaided_names()
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


@pytest.mark.parametrize(
    ("flags", "chooses", "gpus"),
    [
        (["--device", "auto"], True, 0.0),
        (["--device", "auto", "--gpus-per-run", "0.25"], False, 0.25),
        (["--device", "auto", "--gpus-per-run", "99", "--cpus-per-run", "999"], False, 99.0),
        (["--device", "cpu"], False, 0.0),
    ],
)
def test_a_cluster_decides_itself_what_fits_and_whether_it_has_gpus(
    planned, monkeypatch: pytest.MonkeyPatch, flags: list[str], chooses: bool, gpus: float
):
    monkeypatch.setattr(cluster, "check_address", lambda address: None)
    given = [*SAMPLE, "--methods", "fresh", "--address", "10.0.0.1:6379", *flags]
    assert run_command(compare.main, given) == 0
    (prepared,) = planned
    assert (prepared.chooses_gpus, prepared.gpus_per_run) == (chooses, gpus)


def test_the_plan_says_that_the_cluster_decides(planned, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(cluster, "check_address", lambda address: None)
    given = [*SAMPLE, "--methods", "fresh", "--address", "10.0.0.1:6379", "--device", "auto", "--dry-run"]
    assert run_command(compare.main, given) == 0
    assert (
        "\nGPUs         1 for each training; without GPUs in the cluster, trainings run on the CPU\n"
        in capsys.readouterr().out
    )
    assert planned == []


def test_the_command_that_resumes_names_the_cluster(planned, monkeypatch: pytest.MonkeyPatch, capsys):
    monkeypatch.setattr(cluster, "check_address", lambda address: None)
    monkeypatch.setattr(comparison, "conduct", lambda *_: ("the table", {"fresh-seed0": "killed"}))
    given = [*SAMPLE, "--methods", "fresh", "--name", "x", "--address", "10.0.0.1:6379"]
    assert run_command(compare.main, given) == 2
    going_on = "--resume --name x --storage runs/sample --address 10.0.0.1:6379\n"
    assert capsys.readouterr().err.endswith(going_on)


def test_what_broke_is_said_after_the_table(planned, monkeypatch, capsys):
    monkeypatch.setattr(comparison, "conduct", lambda *_: ("the table", {"fresh-seed0": "killed"}))
    assert run_command(compare.main, [*SAMPLE, "--methods", "fresh", "--seeds", "2", "--name", "x"]) == 2
    said = capsys.readouterr()
    assert said.out == "the table\n"
    assert "error: 1 of 2 trainings crashed; fresh-seed0: killed" in said.err
    going_on = "python -m pipeline.compare --resume --name x --storage runs/sample\n"
    assert said.err.endswith(f"train the missing runs with: {going_on}")


def test_a_comparison_that_is_interrupted_before_it_began_says_so(planned, monkeypatch, caplog):
    def interrupted(*_: Any, **given: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(planning, "with_features", interrupted)
    assert run_command(compare.main, [*SAMPLE, "--methods", "fresh", "--name", "x"]) == 130
    assert "no training was started: run the same command again" in caplog.text


def test_an_interrupted_comparison_says_how_to_go_on(
    planned, tmp_path: Path, monkeypatch, capsys, caplog: pytest.LogCaptureFixture
):
    given = [*SAMPLE, "--methods", "fresh", "--storage", "two words", "--tracking-uri", "sqlite:///a b.db"]
    run_command(compare.main, [*given, "--name", "x"])

    def interrupted(prepared: ComparisonSettings, folder: StudyFolder, uri: str, *given: Any):
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
        (["--methods", "hardkum"], "error: --methods: unknown method `hardkum`; known: "),
        (["--methods", "infocal,"], "error: --methods: unknown method ``"),
        (
            ["--target-selection-rate", "0"],
            "error: --target-selection-rate: expected a selection rate between 0 and 1, but got 0",
        ),
        (["--target-selection-rate", "2"], "error: argument --target-selection-rate: expected a number from"),
        (["--seeds", "0"], "error: argument --seeds: expected a whole number above 0, but got '0'"),
        (["--gpus-per-run", "auto"], "error: --gpus-per-run: expected a number of GPUs, but got `auto`"),
        (["--set", "lambda_q=1"], "error: --set: infocal: unknown hyper-parameter `lambda_q`"),
        (
            ["--methods", "infocal,fresh", "--set", "hardkuma.lambda_coherence=1"],
            "error: --set: `hardkuma` is not compared; the methods are infocal, fresh\n",
        ),
        (
            ["--methods", "fresh,infocal,hardkuma", "--set", "lambda_ib=0.1"],
            "error: --set lambda_ib=0.1: not every method that is compared has the hyper-parameter "
            "`lambda_ib`: only infocal has it\n\nhint: `--set infocal.lambda_ib=0.1` sets it for one "
            "method\n",
        ),
        (["--methods", "infocal,fla"], "error: --methods fla: `fla` predicts several targets together, but"),
        (
            ["--methods", "infocal,fresh", "--set", "fresh.encoder=transformer"],
            "error: --set: fresh: the encoder `transformer` needs `pretrained`, a folder or a model's name "
            "on the hub\n\nhint: add `--set fresh.pretrained=FOLDER`",
        ),
        (
            [
                *("--methods", "infocal,fresh", "--set", "fresh.encoder=transformer"),
                *("--set", "fresh.pretrained=/none/such"),
            ],
            "error: --set pretrained: fresh: no folder `/none/such`",
        ),
        (["--set", "fresh.lambda_q=1"], "error: --set: fresh: unknown hyper-parameter `lambda_q`"),
        (
            ["--target-selection-rate", "1"],
            "error: --target-selection-rate: expected a selection rate between 0 and 1, but got 1, "
            "which selects everything",
        ),
        (
            ["--set", "target_selection_rate=0.5"],
            "error: --set target_selection_rate=0.5: methods are compared",
        ),
        (
            ["--set", "hardkuma.target_selection_rate=0.5", "--target-selection-rate", "0.1"],
            "error: --set hardkuma.target_selection_rate=0.5: methods are compared at one selection rate",
        ),
        (["--cpus-per-run", "9999"], "error: --cpus-per-run: one run needs 9999 CPU, but this machine has "),
        (
            ["--device", "auto", "--gpus-per-run", "99"],
            "error: --gpus-per-run: one run needs 99 GPU, but this machine has ",
        ),
        (
            ["--device", "cpu", "--gpus-per-run", "0.5"],
            "error: --gpus-per-run 0.5: expected no GPUs with `--device cpu`, but got 0.5",
        ),
        (["--method", "infocal"], "error: unrecognized arguments: --method infocal"),
        (["--resume"], "error: --resume: expected the name of the comparison, but got none"),
        (["--resume", "--name", "x"], "error: --name: there is no comparison `x` in "),
        (
            ["--storage", "s3://bucket/x"],
            "error: --tracking-uri: `--storage s3://bucket/x` needs an MLflow server",
        ),
        (["--address", "127.0.0.1:1"], "error: --address: cannot reach Ray at `127.0.0.1:1`"),
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
    return opened(prepared, tmp_path, tracker)


def opened(prepared: ComparisonSettings, folder: Path, tracker: Tracker) -> Comparison:
    """A comparison as a process finds it in its folder."""
    place = StudyFolder.local(Storage(str(folder)), prepared.name, COMPARISON)
    place.directory.mkdir(parents=True, exist_ok=True)
    return Comparison(prepared, place, tracker)


def again(one: Comparison) -> Comparison:
    """The same comparison in a further process."""
    return opened(one.prepared, one.folder.directory.parents[1], one.tracking.tracker)


def finished(under_way: Comparison, entry: RunSettings, **changes) -> Outcome:
    folder = under_way.folder.directory / "outcomes"
    folder.mkdir(exist_ok=True)
    scores = {name.removeprefix("val_"): value for name, value in SCORES.items()}
    values = {"method": entry.method, "seed": entry.seed, "epoch": 1, "scores": scores}
    found = Outcome(**{**values, **changes})
    write_json(folder / f"{entry.name}.json", dataclasses.asdict(found))
    return found


def test_settings_come_back_as_they_were_written(under_way: Comparison):
    under_way.prepared.save(under_way.folder.directory)
    assert ComparisonSettings.load(under_way.folder.directory, "first") == under_way.prepared


def test_settings_of_another_comparison_are_refused(under_way: Comparison):
    under_way.prepared.save(under_way.folder.directory)
    with pytest.raises(
        StateError, match=r"comparison.json: .* comparison `other`, but got the settings of `first`"
    ):
        ComparisonSettings.load(under_way.folder.directory, "other")


def test_settings_of_an_older_version_are_read(under_way: Comparison):
    under_way.prepared.save(under_way.folder.directory)
    path = under_way.folder.directory / SETTINGS
    stored = checkpoints.read_json(path)
    del stored["chooses_gpus"]
    write_json(path, stored)
    assert ComparisonSettings.load(under_way.folder.directory, "first") == under_way.prepared


def test_entries_take_every_method_before_the_next_seed(under_way: Comparison):
    names = [entry.name for entry in comparison.entries(under_way.prepared)]
    assert names == ["infocal-seed0", "infocal-no-lm-seed0", "infocal-seed1", "infocal-no-lm-seed1"]


def test_nothing_is_trained_where_all_is_done(under_way: Comparison, monkeypatch):
    def session(*_):
        raise AssertionError("Ray was started")

    monkeypatch.setattr(comparison.cluster, "session", session)
    outcomes = [finished(under_way, entry) for entry in comparison.entries(under_way.prepared)]
    under_way.run(None, "resume")
    assert [under_way.tracking.outcome(entry) for entry in comparison.entries(under_way.prepared)] == outcomes


Ends = dict[str, Callable[[Comparison, str], None]]


@dataclasses.dataclass
class Here:
    """Stands for the engine: writes into the ledger, in this process, how each trial ends."""

    under_way: Comparison
    ends: Ends
    """By the names of the entries."""
    configs: dict[str, dict[str, Any]] = dataclasses.field(default_factory=dict)

    def train(self, experiment: str, searcher: Listed, num_trials: int, callbacks: list[Any]) -> None:
        assert (experiment, len(callbacks)) == ("tune", 1)
        for _ in range(num_trials):
            config = searcher.suggest("")
            assert config is not None
            name, state = config[RUN], config[RESUMED]
            self.configs[name] = state
            self.under_way.ledger.begin(state["trial_id"], {RUN: name}, None)
            self.ends[name](self.under_way, state["trial_id"])


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> Callable[[Comparison, Ends], Here]:
    monkeypatch.setattr(comparison.cluster, "session", lambda address: contextlib.nullcontext())
    monkeypatch.setattr(comparison.cluster, "check_resources", lambda *_, **__: None)
    monkeypatch.setattr(comparison.cluster, "num_slots", lambda *args: 2)

    def train(under_way: Comparison, ends: Ends) -> Here:
        here = Here(under_way, ends)
        monkeypatch.setattr(
            comparison,
            "Engine",
            lambda **given: SimpleNamespace(train=here.train, cpus_per_trial=1.0, gpus_per_trial=0.0),
        )
        under_way.run(None, "resume")
        return here

    return train


def fails(reason: str, message: str, num_epochs: int = 0) -> Callable[[Comparison, str], None]:
    def end(under_way: Comparison, trial_id: str) -> None:
        epochs(under_way, trial_id, num_epochs, num_all=9)
        under_way.ledger.fail(trial_id, reason, message)

    return end


def epochs(under_way: Comparison, trial_id: str, num_epochs: int, num_all: int = 2) -> None:
    """Epochs of a trial up to that one, each with a checkpoint that holds a best epoch."""
    (known,) = [record for record in under_way.ledger.trials() if record.trial_id == trial_id]
    for number in range(len(known.epochs), num_epochs):
        folder = under_way.folder.directory / checkpoint(trial_id, number)
        save_trial_checkpoint(folder, sample_model(), SCORES)
        checkpoints.save_history(folder, [an_epoch(i, **SCORES) for i in range(number + 1)])
        given, is_last = an_epoch(number, **SCORES), number + 1 == num_all
        under_way.ledger.epoch(trial_id, given, checkpoint(trial_id, number), is_last=is_last)


def ends(under_way: Comparison, trial_id: str) -> None:
    epochs(under_way, trial_id, 2)


CRASH = fails(ERROR, "ray.exceptions.WorkerCrashedError: died", num_epochs=1)
ALL_TOKENS = fails("all_tokens", "epoch 3: selection rate 1.000", num_epochs=1)


def test_only_what_is_missing_is_trained_and_a_failure_stops_nothing(under_way: Comparison, training):
    first, second, third, fourth = comparison.entries(under_way.prepared)
    finished(under_way, first)
    finished(under_way, third)
    here = training(under_way, {second.name: ALL_TOKENS, fourth.name: CRASH})
    assert list(here.configs) == [second.name, fourth.name]
    kept = under_way.tracking.outcome(second)
    assert kept is not None
    assert (kept.failure, kept.failure_message) == ("all_tokens", "epoch 3: selection rate 1.000")
    assert under_way.tracking.outcome(fourth) is None, "it is trained again on resuming"
    assert under_way.broken == {fourth.name: "ray.exceptions.WorkerCrashedError: died"}
    children = under_way.tracking.tracker.children(under_way.prepared.run_id)
    assert [(run.tags[TRIAL_TAG], run.status) for run in children] == [
        (second.name, "FAILED"),
        (fourth.name, "FAILED"),
    ]
    assert children[0].tags["failure"] == "all_tokens"
    failed = next(row for row in under_way.table().rows if row.name == "InfoCal - L_lm")
    assert failed.note == "1 of 1 seed failed: all_tokens: epoch 3: selection rate 1.000"
    here = training(again(under_way), {fourth.name: ALL_TOKENS})
    assert list(here.configs) == [fourth.name]


def test_what_broke_goes_on_from_its_last_epoch_in_a_run_of_its_own(under_way: Comparison, training):
    first, *others = comparison.entries(under_way.prepared)
    for entry in others:
        finished(under_way, entry)
    training(under_way, {first.name: CRASH})
    resumed = again(under_way)

    def end(one: Comparison, trial_id: str) -> None:
        (known,) = [record for record in one.ledger.trials() if record.trial_id == trial_id]
        assert sorted(known.epochs) == [0]
        epochs(one, trial_id, 2)

    here = training(resumed, {first.name: end})
    assert here.configs[first.name] == {
        "trial_id": f"{first.name}-2",
        "checkpoints": [checkpoint(first.name, 0)],
    }
    assert resumed.broken == {}
    tracker = resumed.tracking.tracker
    broke, second = tracker.children(resumed.prepared.run_id)
    assert [(run.name, run.tags[TRIAL_TAG], run.status) for run in (broke, second)] == [
        (first.name, first.name, "FAILED"),
        (first.name, first.name, "FINISHED"),
    ]
    assert [number for number, _ in history(tracker, second, "epoch_s")] == [0, 1]
    kept = resumed.tracking.outcome(first)
    assert kept is not None and kept.run_id == second.run_id


def test_an_interrupted_training_goes_on_in_its_own_run(under_way: Comparison, training):
    first, *others = comparison.entries(under_way.prepared)
    for entry in others:
        finished(under_way, entry)

    def interrupt(one: Comparison, trial_id: str) -> None:
        epochs(one, trial_id, 1)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training(under_way, {first.name: interrupt})
    here = training(again(under_way), {first.name: ends})
    state = {"trial_id": first.name, "checkpoints": [checkpoint(first.name, 0)]}
    assert here.configs == {first.name: state}
    tracker = under_way.tracking.tracker
    (run,) = tracker.children(under_way.prepared.run_id)
    assert (run.status, run.tags["test_readings"]) == ("FINISHED", "1")
    assert [number for number, _ in history(tracker, run, "epoch_s")] == [0, 1]


def test_a_training_that_ended_is_read_where_the_process_died_before(
    under_way: Comparison, training, monkeypatch: pytest.MonkeyPatch
):
    first, *others = comparison.entries(under_way.prepared)
    for entry in others:
        finished(under_way, entry)
    under_way.ledger.begin(first.name, {RUN: first.name}, None)
    ends(under_way, first.name)
    resumed = again(under_way)
    assert training(resumed, {}).configs == {}, "nothing is trained"
    kept = resumed.tracking.outcome(first)
    assert kept is not None
    run = resumed.tracking.tracker.run(kept.run_id)
    assert (run.status, run.tags["test_readings"], run.tags["method"]) == ("FINISHED", "1", "infocal")
    assert kept.scores["token_f1"] == run.metrics["test_token_f1"]
    assert not (resumed.folder.directory / "tune" / first.name).exists(), "its checkpoints are not needed"
    # who removes the outcome wants it trained again
    (resumed.folder.directory / "outcomes" / f"{first.name}.json").unlink()
    here = training(again(resumed), {first.name: ends})
    assert here.configs == {first.name: {"trial_id": f"{first.name}-2", "checkpoints": []}}


def test_an_outcome_that_is_there_is_not_read_again(under_way: Comparison, monkeypatch: pytest.MonkeyPatch):
    """As where the process died between the outcome and the end of the run."""
    first = comparison.entries(under_way.prepared)[0]
    under_way.ledger.begin(first.name, {RUN: first.name}, None)
    ends(under_way, first.name)
    tracker = under_way.tracking.tracker
    with monkeypatch.context() as broken, pytest.raises(PipelineError, match="gone"):
        broken.setattr(tracker, "finish", raising(PipelineError("gone")))
        under_way.tracking.sync(is_running=True)
    kept = under_way.tracking.outcome(first)
    assert kept is not None
    resumed = again(under_way)
    resumed.tracking.sync(is_running=True)
    assert resumed.tracking.outcome(first) == kept
    (run,) = tracker.children(under_way.prepared.run_id)
    assert (run.run_id, run.status, run.tags["test_readings"]) == (kept.run_id, "FINISHED", "1")
    assert {"best", "curve.html", "rationales.html"} <= tracker.artifact_paths(run.run_id)


def raising(error: Exception) -> Callable[..., Any]:
    def fail(*args: Any, **keywords: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(("usable", "gpus", "device"), [(True, 1.0, "auto"), (False, 0.0, "cpu")])
def test_trainings_get_the_gpus_that_the_cluster_has(
    tmp_path: Path,
    under_way: Comparison,
    monkeypatch: pytest.MonkeyPatch,
    usable: bool,
    gpus: float,
    device: str,
):
    checked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(comparison.cluster, "check_resources", lambda *given, what: checked.append(given))
    monkeypatch.setattr(comparison.gpus, "are_usable", lambda device: usable)
    runs = [dataclasses.replace(run, device="auto") for run in under_way.prepared.runs]
    prepared = dataclasses.replace(under_way.prepared, runs=runs, chooses_gpus=True)
    one = opened(prepared, tmp_path, under_way.tracking.tracker)
    engine = one._engine("10.0.0.1:6379", Mirror(one.tracking, "resume"))
    assert engine.gpus_per_trial == gpus
    assert {run.device for run in engine.runs.values()} == {device}
    assert list(engine.runs) == [entry.name for entry in comparison.entries(prepared)]
    assert checked == [("10.0.0.1:6379", 1.0, gpus)]


def test_a_ledger_of_other_trainings_is_refused(under_way: Comparison):
    under_way.ledger.begin("x", {RUN: "fresh-seed7"}, None)
    message = "expected trials of infocal-seed0, .* but got one of {'run': 'fresh-seed7'}"
    with pytest.raises(StateError, match=message):
        under_way.tracking.sync(is_running=True)


def test_a_comparison_that_an_older_version_began_goes_on(
    under_way: Comparison, training, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Its outcomes hold; what it was training starts anew, and the runs that it left open are ended."""
    tracker, prepared = under_way.tracking.tracker, under_way.prepared
    first, second, *others = comparison.entries(prepared)
    tags = {PARENT_TAG: prepared.run_id, TRIAL_TAG: second.name}
    left = tracker.start_run(tracker.experiment("beer", "palate"), second.name, {}, tags)
    for entry in (first, *others):
        finished(under_way, entry)
    working = under_way.folder.directory / "working" / second.name / "last"
    working.mkdir(parents=True)
    seen: list[Comparison] = []

    def run(one: Comparison, address: str | None, command: str) -> None:
        monkeypatch.undo()
        seen.append(one)
        training(one, {second.name: ends})

    monkeypatch.setattr(Comparison, "run", run)
    with caplog.at_level(logging.WARNING):
        text, broken = comparison.conduct(prepared, under_way.folder, tracker.uri, None, "resume")
    assert broken == {} and text.startswith("### beer/palate")
    said = (
        "an older version of this project started some trainings: those that did not finish are trained "
        "from the beginning"
    )
    assert said in caplog.text
    assert not working.parents[1].exists()
    one, new = tracker.children(prepared.run_id)
    assert (one.run_id, one.status) == (left, "KILLED")
    assert (new.tags[TRIAL_TAG], new.status) == (second.name, "FINISHED")
    assert tracker.run(prepared.run_id).status == "FINISHED"
    names = {path.name for path in under_way.folder.directory.iterdir()}
    kept = {SETTINGS, "ledger", "outcomes"}
    assert names == kept | {f"table.{kind}" for kind in ("html", "json", "md", "tex")}


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

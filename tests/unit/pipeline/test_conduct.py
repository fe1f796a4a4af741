"""A study from its settings to its end, with scripted trials in place of Ray's."""

import contextlib
import dataclasses
import functools
import logging
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from mlflow.exceptions import MlflowException

from infocal.config import InfoCalConfig
from infocal.errors import StateError
from pipeline.base.command_text import Commands
from pipeline.base.errors import CriterionNotMet, PipelineError
from pipeline.base.storage import Storage
from pipeline.study import cluster, findings, mirror, outcome, probe, study_report
from pipeline.study.conduct import conduct, synchronise
from pipeline.study.criterion import CRITERION_TAG, RIVAL_TAG, Candidate
from pipeline.study.ledger import Ledger
from pipeline.study.packing import Measurement
from pipeline.study.registration import Wanted, register
from pipeline.study.rival import Rival
from pipeline.study.study import Study
from pipeline.study.study_folder import StudyFolder
from pipeline.study.study_settings import StudySettings
from pipeline.tracking import model_registry
from pipeline.tracking.studies import latest_study
from pipeline.tracking.tracking import NOTE_TAG, PARENT_TAG, TRIAL_TAG, TrackedRun, Tracker
from pipeline.training import checkpoints
from pipeline.training.epochs import OBJECTIVE, VIOLATION
from pipeline.training.settings import RunSettings
from search_spaces.base import Criterion
from tests.small_ledger import checkpoint, train
from tests.small_store import (
    NAME,
    new_store,
    next_version,
    sample_features,
    sample_model,
    save_trial_checkpoint,
)
from tests.small_study import POINT, SCORES, criterion, run_settings, study_settings


@pytest.fixture
def tracker(tmp_path: Path) -> Tracker:
    return new_store(tmp_path / "store")


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch):
    """Sessions of Ray, and the language model's scores, are for the integration tests."""

    @contextlib.contextmanager
    def session(address: str | None) -> Iterator[None]:
        yield

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(cluster, "session", session)
    monkeypatch.setattr(cluster, "check_resources", lambda *args: None)
    monkeypatch.setattr(cluster, "num_cores", lambda: 2.0)
    monkeypatch.setattr(cluster, "num_slots", lambda *args: 2)
    monkeypatch.setattr(outcome, "language_model_scores", lambda *args, **kwargs: None)


def found(study: Study, trial_id: str, *, config: dict[str, Any] | None = None, **best: Any) -> None:
    """A trial that has ended, whose last checkpoint holds a sample model."""
    train(study.ledger, trial_id, 2, config=config, is_replicate="seed" in (config or {}))
    given = {"value": 0.25, **best}
    scores = given.pop("scores", SCORES)
    folder = study.folder.directory / checkpoint(trial_id, 1)
    save_trial_checkpoint(folder, sample_model(), scores, **given)
    study.notify()


def failed(study: Study, trial_id: str) -> None:
    train(study.ledger, trial_id, 0, failure=("error", "errors.LostError: no disk"))


Found = Callable[[Study], None]


def searching(monkeypatch: pytest.MonkeyPatch, *trials: Found, replicates: tuple[Found, ...] = ()):
    """Let a search, and its replicates, do this in place of training."""

    def run(self: Study, callbacks: list[Any]) -> None:
        for one in trials:
            one(self)

    def replicate(self: Study, candidates: list[Candidate], callbacks: list[Any]) -> None:
        for one in replicates:
            one(self)

    monkeypatch.setattr(Study, "run", run)
    monkeypatch.setattr(Study, "replicate", replicate)


def trial(trial_id: str, **changes: Any) -> Found:
    return functools.partial(found, trial_id=trial_id, **changes)


THREE = (trial("a"), trial("b", value=0.1), trial("c", value=0.1))


COMMAND = "python -m pipeline.search --resume --name first"
COMMANDS = Commands(
    resume=COMMAND,
    sync="python -m pipeline.sync --name first",
    register="python -m pipeline.register --name first",
)


def conducted(tracker: Tracker, folder: Path, *, resume: bool = False, **changes: Any) -> str:
    settings, place = study_settings(**changes), results(folder)
    return conduct(settings, place, tracker.uri, address=None, resume=resume, commands=COMMANDS)


def results(folder: Path) -> StudyFolder:
    """Where the results of the study `first` go."""
    return StudyFolder.local(Storage(str(folder / "runs")), "first")


def parent(tracker: Tracker) -> TrackedRun:
    run = latest_study(tracker, tracker.experiment("beer", "palate"), "first")
    assert run is not None
    return run


# ------------------------------------------------------------------------------------------- the winner


def test_a_version_states_every_score_that_its_criterion_reads(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    scores = {**SCORES, "val_auprc": 0.4321, "val_sufficiency": -0.00001}
    searching(monkeypatch, trial("a", scores=scores))
    stated = Criterion.parse("best val_auprc with val_sufficiency <= 0.1")
    conducted(tracker, tmp_path, run=run_settings(criterion=stated))
    version = model_registry.find(tracker, NAME, model_registry.CHALLENGER)
    assert (version.tags["val_auprc"], version.tags["val_sufficiency"]) == ("0.4321", "0.0000")
    said = tracker.client.get_model_version(NAME, str(version.version)).description
    assert "auprc 0.4321, sufficiency 0.0000" in said


def test_a_winner_that_meets_the_criterion_is_registered_with_its_origin(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searching(monkeypatch, *THREE)
    text = conducted(tracker, tmp_path, run=run_settings(options={"pool": "plain"}))
    version = model_registry.find(tracker, NAME, model_registry.CHALLENGER)
    run = parent(tracker)
    assert (run.status, run.tags["criterion_met"]) == ("FINISHED", "true")
    for tags in (run.tags, version.tags, tracker.run(version.run_id).tags):
        assert tags["option.pool"] == "plain"
    assert "Data: **beer/palate (pool=plain)**." in parent(tracker).tags[NOTE_TAG]
    assert "beer/palate (pool=plain)" in text
    assert run.tags["winner_trial_id"] == "a"
    assert version.run_id == run.tags["winner_run_id"]
    assert tracker.run(version.run_id).tags[TRIAL_TAG] == "a"
    assert version.tags["min_precision"] == "0.05"
    assert version.tags["val_token_precision"] == "0.5000"
    assert version.tags["criterion"] == str(criterion())
    assert Criterion.from_json(version.tags[CRITERION_TAG]) == criterion()
    assert Criterion.from_json(run.tags[CRITERION_TAG]) == criterion()
    assert f"registered {NAME} version 1 as `challenger`" in text
    assert f"registered as `{NAME} version 1`" in run.tags[NOTE_TAG]
    assert "`challenger` is the newest version" in tracker.client.get_registered_model(NAME).description
    package = checkpoints.load_package(tmp_path / "runs/studies/first/model")
    assert package.metadata["run_id"] == version.run_id
    assert package.metadata["study"] == "first"
    assert package.metadata["data_fingerprint"] == sample_features().fingerprint
    assert package.vocabulary == list(sample_features().vocabulary.tokens)


def four_fit(run: RunSettings, config: InfoCalConfig, *, is_local: bool) -> list[Measurement]:
    """Four trials fit a card."""
    assert is_local
    return [Measurement(card="T4", total=1000, reserved=200, overhead=20, num_cpus=8.0)]


@pytest.mark.parametrize(("packs", "gpus", "rate"), [(True, 0.25, 0.205), (False, 0.0, 1.0)])
def test_a_study_is_packed_before_its_first_trial(
    packs: bool, gpus: float, rate: float, tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(probe, "measured", four_fit)
    checked: list[tuple[object, ...]] = []
    monkeypatch.setattr(cluster, "check_resources", lambda *given: checked.append(given))
    searching(monkeypatch, *THREE)
    conducted(tracker, tmp_path, packs_gpus=packs)
    assert checked == [(None, 1.0, gpus)]
    stored = StudySettings.load(tmp_path / "runs/studies/first", "first")
    assert (stored.packs_gpus, stored.gpus_per_trial) == (packs, gpus)
    assert stored.run.gpu_memory_rate == pytest.approx(rate)
    assert parent(tracker).metrics.get("gpus_per_trial_measured") == (gpus if packs else None)


def test_the_winner_of_a_race_is_registered_and_the_page_says_how_it_won(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    configs = {name: {**POINT, "lambda_lm": lm} for name, lm in (("a", 0.001), ("b", 0.002))}
    searched = [trial(name, config=configs[name], value=v) for name, v in (("a", 0.5), ("b", 0.4))]
    again = [
        trial(f"{name}{seed}", config={**configs[name], "seed": seed}, value=value)
        for name, value in (("a", 0.1), ("b", 0.4))
        for seed in (1, 2, 3)
    ]
    searching(monkeypatch, *searched, replicates=tuple(again))
    text = conducted(tracker, tmp_path, is_raced=True, num_trials=2)
    stood = "trial-01 0.400 (4 seeds), trial-00 0.200 (4 seeds)"
    said = f"the first row wins: of the trials with the most seeds, it has the best mean recall: {stood}"
    assert said in text
    assert "winner over 4 seeds: " in text
    run = parent(tracker)
    assert run.tags["winner_trial_id"] == "b"
    assert said in run.tags[NOTE_TAG]
    assert run.metrics["num_seeds"] == 4
    version = model_registry.find(tracker, NAME, model_registry.CHALLENGER)
    assert tracker.run(version.run_id).tags[TRIAL_TAG] == "b"


def test_nothing_is_registered_where_the_best_misses_the_criterion(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searching(
        monkeypatch, trial("a", value=-0.4, violation=0.4), *(lambda s, n=n: failed(s, n) for n in "bc")
    )
    text = conducted(tracker, tmp_path, run=run_settings(criterion=criterion(0.9)))
    assert "nothing was registered" in text
    assert (parent(tracker).status, parent(tracker).tags["criterion_met"]) == ("FINISHED", "false")
    with pytest.raises(PipelineError, match="registered models: none"):
        model_registry.find(tracker, NAME, model_registry.CHALLENGER)


def test_the_studys_run_holds_settings_figures_trivial_lines_and_files(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    seed = trial("s", config={**POINT, "seed": 1}, scores={**SCORES, "val_token_precision": 0.7})
    searching(monkeypatch, *THREE, replicates=(seed,))
    text = conducted(tracker, tmp_path, num_seeds=2)
    run = parent(tracker)
    assert run.metrics["val_token_precision"] == 0.5
    assert run.metrics["val_token_precision_mean"] == pytest.approx(0.6)
    assert "winner over 2 seeds: precision 0.600 +- 0.141" in text
    experiment = tracker.client.get_experiment(tracker.run(run.run_id).experiment_id)
    link = f"#/experiments/{experiment.experiment_id}/runs?viewStateShareKey={run.run_id}"
    assert f"  the trials as a table: http://127.0.0.1:5000/{link}" in text
    assert f"[first]({link}).\n\nPredictions with rationales on **" in experiment.tags[NOTE_TAG]
    assert run.metrics["trivial_all_tokens_token_recall"] == 1.0
    assert run.metrics["trivial_random_k_selection_rate"] == pytest.approx(0.125, abs=0.01)
    assert (run.params["num_trials"], run.params["base.hidden_size"]) == ("3", "4")
    assert run.params["criterion"] == str(criterion())
    assert run.params["language_model.hidden_size"] == "4"
    assert "origin" not in run.params, "a trial's config.json has it"
    exported = tracker.download(run.run_id, "optuna.db", tmp_path / "out")
    assert len(optuna.load_study(study_name="first", storage=f"sqlite:///{exported}").trials) == 3
    assert "<html" in tracker.download(run.run_id, "report.html", tmp_path / "out").read_text()
    assert "<html" in (tmp_path / "runs/studies/first/report.html").read_text()
    children = tracker.children(run.run_id)
    assert [child.tags["seed"] for child in children] == ["0", "0", "0", "1"]
    assert {child.tags[PARENT_TAG] for child in children} == {run.run_id}
    assert {child.status for child in children} == {"FINISHED"}


# --------------------------------------------------------------------------------------- other endings


def test_a_search_in_which_every_trial_fails_says_so_and_fails(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searching(monkeypatch, *(functools.partial(failed, trial_id=name) for name in "abc"))
    message = (
        "^none of the 3 trials finished an epoch; the last trial failed with: errors.LostError: no disk$"
    )
    with pytest.raises(PipelineError, match=message) as caught:
        conducted(tracker, tmp_path)
    assert caught.value.hint == (
        "MLflow shows why each of them failed: "
        f"`MLFLOW_DISABLE_TELEMETRY=true mlflow ui --backend-store-uri {tracker.uri}`"
    )
    run = parent(tracker)
    assert run.status == "FAILED"
    # what Optuna saw is there all the same
    assert tracker.download(run.run_id, "optuna.db", tmp_path / "out").is_file()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"device": "cpu", "bf16": True}, "--bf16: bf16 autocast needs a CUDA device"),
        ({"device": "cuda:99"}, "--device: device `cuda:99` was asked for"),
    ],
)
def test_a_device_that_is_not_there_leaves_no_study_behind(
    tmp_path: Path, changes: dict[str, Any], message: str
):
    run = dataclasses.replace(run_settings(), **changes)
    prepared = dataclasses.replace(study_settings(), run=run)
    with pytest.raises(StateError, match=message):
        uri = f"sqlite:///{tmp_path}/runs/mlflow.db"
        conduct(prepared, results(tmp_path), uri, address=None, resume=False, commands=COMMANDS)
    assert not (tmp_path / "runs").exists()


def ending(monkeypatch: pytest.MonkeyPatch, error: BaseException, *trials: Found):
    """Let a search end with this, when it has done that."""

    def run(self: Study, callbacks: list[Any]) -> None:
        for one in trials:
            one(self)
        raise error

    monkeypatch.setattr(Study, "run", run)


def still_open(study: Study) -> None:
    train(study.ledger, "open", 1)


def test_an_interrupt_before_a_first_epoch_claims_no_checkpoint(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    ending(monkeypatch, KeyboardInterrupt(), trial("done"), lambda study: train(study.ledger, "open", 0))
    with pytest.raises(KeyboardInterrupt), caplog.at_level(logging.WARNING):
        conducted(tracker, tmp_path)
    said = "1 of 3 trials have finished; on resuming the study, the others continue from the beginning"
    assert said in caplog.text


def test_an_interrupt_ends_open_trials_and_says_how_to_go_on(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    ending(monkeypatch, KeyboardInterrupt(), trial("done"), still_open)
    with pytest.raises(KeyboardInterrupt), caplog.at_level(logging.WARNING):
        conducted(tracker, tmp_path)
    run = parent(tracker)
    assert run.status == "KILLED"
    ended = {run.tags[TRIAL_TAG]: run.status for run in tracker.children(run.run_id)}
    assert ended == {"done": "FINISHED", "open": "KILLED"}
    said = (
        "1 of 3 trials have finished; on resuming the study, the others continue from their last checkpoints"
    )
    assert said in caplog.text
    assert "to resume" not in caplog.text, "the command says it"


@pytest.mark.parametrize(
    ("error", "status"), [(SystemExit("out"), "KILLED"), (RuntimeError("no worker"), "FAILED")]
)
def test_however_a_search_ends_no_run_is_left_running(
    tracker: Tracker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    status: str,
):
    ending(monkeypatch, error, still_open)
    with pytest.raises(type(error), match=str(error)):
        conducted(tracker, tmp_path)
    run = parent(tracker)
    assert (run.status, [child.status for child in tracker.children(run.run_id)]) == (status, ["KILLED"])


def test_a_failure_after_the_search_is_a_failure_that_can_be_mended(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searching(monkeypatch, *THREE)
    with monkeypatch.context() as broken, pytest.raises(PipelineError, match="no such vector"):
        broken.setattr(outcome, "pack", raising(StateError("no such vector")))
        conducted(tracker, tmp_path)
    assert parent(tracker).status == "FAILED"
    assert "registered" in conducted(tracker, tmp_path, resume=True)
    assert parent(tracker).status == "FINISHED"


def raising(error: BaseException) -> Callable[..., Any]:
    def fail(*args: Any, **keywords: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize(
    "broken",
    [
        (outcome, "pack_winner"),
        (model_registry, "_log_model"),
        (model_registry, "_ensure_model"),
        (model_registry, "_advance"),
        (outcome, "final_validation"),
        (outcome.study_report, "write"),
        (outcome.summary, "of_study"),
    ],
    ids=lambda pair: pair[1],
)
def test_a_conclusion_that_was_cut_short_is_gone_on_with_and_does_nothing_twice(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: tuple[Any, str]
):
    searching(monkeypatch, *THREE)
    with monkeypatch.context() as patched, contextlib.suppress(SystemExit):
        patched.setattr(*broken, raising(SystemExit("the machine is gone")))  # type: ignore[arg-type]
        conducted(tracker, tmp_path)
    for _ in range(2):
        text = conducted(tracker, tmp_path, resume=True)
        assert f"registered {NAME} version 1 as `challenger`" in text
    run = parent(tracker)
    assert run.status == "FINISHED"
    versions = tracker.client.search_model_versions(f"name = '{NAME}'")
    assert [int(version.version) for version in versions] == [1]
    assert model_registry.find(tracker, NAME, model_registry.CHALLENGER).version == 1
    models = tracker.client.search_logged_models([run.experiment_id])
    assert len(models) == 1
    assert models[0].model_id in versions[0].source
    assert len(tracker.history(run.run_id, "val_token_precision")) == 1, "each figure once"


def test_a_resumed_study_goes_on_in_the_same_run(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ending(monkeypatch, KeyboardInterrupt(), trial("a"))
    with pytest.raises(KeyboardInterrupt):
        conducted(tracker, tmp_path)
    first = parent(tracker)
    searching(monkeypatch, trial("b"), trial("c"))
    conducted(tracker, tmp_path, resume=True)
    assert parent(tracker).run_id == first.run_id
    assert parent(tracker).status == "FINISHED"
    assert [run.name for run in tracker.children(first.run_id)] == ["trial-00", "trial-01", "trial-02"]


def test_while_mlflow_is_away_a_search_goes_on_and_is_written_later(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searching(monkeypatch, *THREE)
    monkeypatch.setattr(mirror, "PATIENCE_S", 0.0)
    monkeypatch.setattr(mirror, "RETRY_S", 0.01)
    monkeypatch.setattr(mirror.Mirror, "drain", functools.partialmethod(mirror.Mirror.drain, patience_s=0.0))
    with monkeypatch.context() as away:
        away.setattr(Tracker, "log_metrics", raising(PipelineError("connection refused")))
        with pytest.raises(PipelineError, match="could not write to MLflow for 0 s: connection refused"):
            conducted(tracker, tmp_path)
    text = synchronise(study_settings(), results(tmp_path), tracker.uri, COMMAND)
    assert f"registered {NAME} version 1" in text
    run = parent(tracker)
    assert (run.status, [child.status for child in tracker.children(run.run_id)]) == (
        "FINISHED",
        ["FINISHED"] * 3,
    )


def test_a_study_that_is_not_over_is_written_as_far_as_it_is(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    ledger = Ledger(results(tmp_path).directory)
    train(ledger, "over", 2)
    train(ledger, "open", 1)
    text = synchronise(study_settings(), results(tmp_path), tracker.uri, COMMAND)
    assert text == (
        f"MLflow now has all 3 epochs of 2 trials\n2 of 3 trials have not ended; to resume: {COMMAND}"
    )
    run = parent(tracker)
    assert [child.status for child in tracker.children(run.run_id)] == ["FINISHED", "KILLED"]
    assert run.status == "KILLED"


def test_where_no_trial_was_begun_there_is_nothing_to_write(tracker: Tracker, tmp_path: Path):
    with pytest.raises(PipelineError, match="no trial of the study `first` has started"):
        synchronise(study_settings(), results(tmp_path), tracker.uri, COMMAND)


# --------------------------------------------------------------------- registered after the study's end

MISSES = {"value": -0.4, "violation": 0.4}


def ended(tracker: Tracker, folder: Path, monkeypatch: pytest.MonkeyPatch) -> StudySettings:
    """A study whose three trials miss its criterion; the settings that it was stored with."""
    useful = {**SCORES, "val_token_precision": 0.48, "val_token_recall": 0.45, "val_token_f1": 0.46}
    searching(monkeypatch, trial("a", **MISSES), trial("b", **MISSES, scores=useful), trial("c", **MISSES))
    text = conducted(tracker, folder, run=run_settings(criterion=criterion(0.9)))
    command = f"python -m pipeline.register --name first --storage {folder / 'runs'}"
    assert f"  {command} --min-precision 0.48" in text.splitlines()
    return StudySettings.load(folder / "runs/studies/first", "first")


def test_a_trial_of_a_study_that_missed_is_registered_under_a_criterion_stated_later(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    prepared = ended(tracker, tmp_path, monkeypatch)
    search_ended = parent(tracker).ended
    text = register(prepared, results(tmp_path), tracker.uri, Wanted(min_precision=0.48))
    assert text.startswith("trial-01 at its epoch 2: precision 0.480, recall 0.450")
    assert f"registered {NAME} version 1 as `challenger`. Next:" in text
    version = model_registry.find(tracker, NAME, model_registry.CHALLENGER)
    assert tracker.run(version.run_id).tags[TRIAL_TAG] == "b"
    stated = criterion(0.48)
    assert (version.tags["criterion"], version.tags["min_precision"]) == (str(stated), "0.48")
    why = "threshold 0.48 was stated with `--min-precision`"
    assert Criterion.from_json(version.tags[CRITERION_TAG]) == dataclasses.replace(stated, why=why)
    for run in (tracker.run(version.run_id), parent(tracker)):
        assert run.tags["registered_as"] == f"{NAME} version 1"
        assert run.tags["registered_criterion"] == str(stated)
        assert run.tags["criterion"] == str(criterion(0.9)), "by which the study was searched"
    assert parent(tracker).status == "FINISHED"
    assert parent(tracker).ended == search_ended, "when the search ended"
    metadata = checkpoints.load_package(tmp_path / "runs/studies/first/model").metadata
    assert (metadata["run_id"], metadata["min_precision"]) == (version.run_id, 0.48)
    page = (tmp_path / "runs/studies/first/report.html").read_text()
    by = "registered by another criterion: best recall with precision ≥ 0.48, on validation."
    assert f"{NAME} version 1 (challenger), {by}" in page
    synced = synchronise(prepared, results(tmp_path), tracker.uri, "a command")
    assert f"): {NAME} version 1 was registered by another criterion ({stated})." in synced
    assert f"{NAME} version 1 was registered by another criterion" in parent(tracker).tags[NOTE_TAG]
    kept = checkpoints.load_package(tmp_path / "runs/studies/first/model").metadata
    assert kept == metadata, "the nearest trial does not replace the one that the user chose"
    model_registry.promote(tracker, version)
    again = register(prepared, results(tmp_path), tracker.uri, Wanted(min_precision=0.48))
    assert f"{NAME} version 1 is `champion`. Next:" in again, "the same weights are registered once"
    assert "pipeline.promote" not in again


def test_a_page_that_keeps_its_rationales_does_not_undo_a_registration(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    prepared = ended(tracker, tmp_path, monkeypatch)
    kept = study_report.WouldLoseRationales("`report.html` was not replaced", hint="restore the artifacts")
    monkeypatch.setattr(study_report, "write", raising(kept))
    text = register(prepared, results(tmp_path), tracker.uri, Wanted(min_precision=0.48))
    assert f"registered {NAME} version 1 as `challenger`. Next:" in text
    assert "note: `report.html` was not replaced" in caplog.messages
    assert parent(tracker).status == "FINISHED"


def test_mlflow_that_fails_when_a_registration_is_recorded_is_said_in_a_line(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise MlflowException("the server is away")

    prepared = ended(tracker, tmp_path, monkeypatch)
    set_tags = Tracker.set_tags
    monkeypatch.setattr(
        Tracker,
        "set_tags",
        lambda self, run_id, tags: (fail if "registered_as" in tags else set_tags)(self, run_id, tags),
    )
    with pytest.raises(
        PipelineError,
        match=f"cannot record in MLflow that {NAME} version 1 was registered: the server is away",
    ):
        register(prepared, results(tmp_path), tracker.uri, Wanted(min_precision=0.48))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), PipelineError("the disk is full")])
@pytest.mark.parametrize("step", ["pack_winner", "register_winner", "publish"])
def test_a_command_that_ends_early_leaves_a_finished_study_as_it_was(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
):
    prepared = ended(tracker, tmp_path, monkeypatch)
    before = parent(tracker)
    with monkeypatch.context() as patched:
        patched.setattr(outcome, step, raising(error))
        with pytest.raises(type(error)):
            register(prepared, results(tmp_path), tracker.uri, Wanted(min_precision=0.48))
        assert (parent(tracker).status, parent(tracker).ended) == ("FINISHED", before.ended)
        if step != "register_winner":  # nothing meets the study's own criterion
            for again in (
                lambda: synchronise(prepared, results(tmp_path), tracker.uri, "a command"),
                lambda: conducted(tracker, tmp_path, resume=True, run=prepared.run),
            ):
                with pytest.raises(type(error)):
                    again()
                assert (parent(tracker).status, parent(tracker).ended) == ("FINISHED", before.ended)
    register(prepared, results(tmp_path), tracker.uri, Wanted(min_precision=0.48))
    assert (parent(tracker).status, parent(tracker).ended) == ("FINISHED", before.ended)


def trial_runs(tracker: Tracker) -> list[Any]:
    """MLflow's runs of the trials of every study."""
    found = tracker.client.search_runs([one.experiment_id for one in tracker.client.search_experiments()])
    return [run for run in found if "mlflow.parentRunId" in run.data.tags]


def test_a_trial_registered_under_another_criterion_carries_that_one(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What is printed is so: the version named is the challenger, and its criterion the one stated."""
    prepared = ended(tracker, tmp_path, monkeypatch)
    ends = {run.info.run_id: run.info.end_time for run in trial_runs(tracker)}
    wishes = [(0.48, 1), (0.3, 2), (0.48, 1), (0.3, 2)]
    for limit, number in wishes:
        text = register(prepared, results(tmp_path), tracker.uri, Wanted(number=1, min_precision=limit))
        assert f"registered {NAME} version {number} as `challenger`. Next:" in text
        found = model_registry.find(tracker, NAME, model_registry.CHALLENGER)
        assert (found.version, found.tags["criterion"]) == (number, str(criterion(limit)))
        assert found.tags["min_precision"] == str(limit)
    assert {run.info.run_id: run.info.end_time for run in trial_runs(tracker)} == ends, "a trial ended before"


def test_a_resumed_study_says_which_version_is_challenger(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searching(monkeypatch, *THREE)
    conducted(tracker, tmp_path)
    later = next_version(tracker, weights_sha256="0" * 64)
    text = conducted(tracker, tmp_path, resume=True)
    assert f"{NAME} version 1 was registered before, and `challenger` is version 2. Next:" in text
    assert f"models:/{NAME}/1" in text and "--version 1" in text
    assert model_registry.find(tracker, NAME, model_registry.CHALLENGER).version == later.version == 2


@pytest.mark.parametrize(
    ("wanted", "said", "hint"),
    [
        (Wanted(), "no trial meets the criterion", r"--min-precision 0.48. would register trial-01 \(prec"),
        (Wanted(min_precision=0.7), "no trial meets the criterion .best .* >= 0.7", "--min-precision 0.48"),
        (
            Wanted(number=0),
            "trial-00 does not meet",
            "--trial 0 --min-precision 0.5. would register trial-00",
        ),
        (
            Wanted(criterion=Criterion.parse("best val_token_f1 with val_selection_rate <= 0.1")),
            "no trial meets",
            "--criterion 'best val_token_f1 with val_selection_rate <= 0.13'",
        ),
    ],
)
def test_a_criterion_that_is_missed_is_answered_with_one_that_would_do(
    wanted: Wanted,
    said: str,
    hint: str,
    tracker: Tracker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    prepared = ended(tracker, tmp_path, monkeypatch)
    with pytest.raises(CriterionNotMet, match=said) as caught:
        register(prepared, results(tmp_path), tracker.uri, wanted)
    assert re.search(hint, caught.value.hint or "")
    with pytest.raises(PipelineError, match="registered models: none"):
        model_registry.find(tracker, NAME, model_registry.CHALLENGER)


@pytest.mark.parametrize(
    ("wanted", "message", "hint"),
    [
        (
            Wanted(number=7),
            "trial 7 of the study `first` does not exist or has no weights; the trials with weights are 0, "
            "1, 2",
            None,
        ),
        (
            Wanted(criterion=Criterion.parse("val_tokn_f1")),
            "no validation score `val_tokn_f1`; the main scores are val_token_precision, ",
            "did you mean `val_token_f1`?",
        ),
        (
            Wanted(criterion=Criterion.parse("f1")),
            "no validation score `f1`; the main scores are val_token_precision, ",
            "did you mean `val_token_f1`?",
        ),
        (
            Wanted(criterion=Criterion.parse("val_loss")),  # of `val_mse`, only the `val_` is near
            "no validation score `val_loss`; the main scores are val_token_precision, ",
            "the page of a trial in MLflow shows all scores",
        ),
    ],
)
def test_what_is_not_there_cannot_be_registered(
    wanted: Wanted,
    message: str,
    hint: str | None,
    tracker: Tracker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    prepared = ended(tracker, tmp_path, monkeypatch)
    with pytest.raises(PipelineError, match=message) as caught:
        register(prepared, results(tmp_path), tracker.uri, wanted)
    assert caught.value.hint == hint


def test_any_criterion_can_be_stated_and_the_model_be_named(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    prepared = ended(tracker, tmp_path, monkeypatch)
    stated = Criterion.parse("best val_token_f1 with val_selection_rate <= 0.2")
    register(prepared, results(tmp_path), tracker.uri, Wanted(criterion=stated, model_name="mine"))
    version = model_registry.find(tracker, "mine", model_registry.CHALLENGER)
    assert version.tags["criterion"] == str(stated)
    assert "min_precision" not in version.tags


def test_the_second_best_is_never_taken_in_silence(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def lose(study: Study) -> None:
        shutil.rmtree(study.folder.directory / checkpoint("b", 1))

    searching(monkeypatch, trial("a", value=0.1), trial("b", value=0.2), lose)
    with pytest.raises(
        PipelineError, match="the weights of trial-01 .best epoch. are missing; this trial is the best one$"
    ) as caught:
        conducted(tracker, tmp_path, num_trials=2)
    assert caught.value.where == str(tmp_path / "runs/studies/first" / checkpoint("b", 1))
    assert (caught.value.hint or "").endswith(
        f"python -m pipeline.register --name first --storage {tmp_path / 'runs'} --trial 0"
    )
    prepared = StudySettings.load(tmp_path / "runs/studies/first", "first")
    # nor by `register`, whatever the criterion is
    other = Criterion.parse("best val_token_f1")
    for wanted, said, flags in (
        (Wanted(), "is the best one", ""),
        (Wanted(criterion=other), "may be the best one", " --criterion 'best val_token_f1'"),
        (Wanted(min_precision=0.01), "may be the best one", " --min-precision 0.01"),
        (
            Wanted(min_precision=0.01, model_name="my own"),
            "may be the best one",
            " --model-name 'my own' --min-precision 0.01",
        ),
        # what the command states is met by the trial that it names
        (Wanted(min_precision=0.99), "may be the best one", " --min-precision 0.5"),
    ):
        with pytest.raises(
            PipelineError, match=f"the weights of trial-01 .best epoch. are missing; this trial {said}$"
        ) as refused:
            register(prepared, results(tmp_path), tracker.uri, wanted)
        assert (refused.value.hint or "").endswith(f"/runs{flags} --trial 0")
    text = register(prepared, results(tmp_path), tracker.uri, Wanted(number=0))
    assert text.startswith("trial-00 at its epoch 2")


def test_the_command_for_a_study_that_missed_names_the_trial_where_another_one_is_lost(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def lost(study: Study) -> None:
        worse = {OBJECTIVE: -0.6, "objective": -0.6, VIOLATION: 0.6}
        train(study.ledger, "b", 2, **worse)  # its checkpoint is not there

    searching(monkeypatch, trial("a", **MISSES), lost)
    text = conducted(tracker, tmp_path, num_trials=2, run=run_settings(criterion=criterion(0.9)))
    (printed,) = [line for line in text.splitlines() if "pipeline.register" in line]
    assert " --trial 0 --min-precision " in printed
    assert f"`{printed.strip()}` registers trial-0" in parent(tracker).tags[findings.ADVICE_TAG]
    prepared = StudySettings.load(tmp_path / "runs/studies/first", "first")
    with pytest.raises(CriterionNotMet) as refused:
        register(prepared, results(tmp_path), tracker.uri, Wanted())
    assert (refused.value.hint or "").startswith(f"`{printed.strip()}` would register trial-00 ")
    limit = float(printed.rpartition(" ")[2])
    register(prepared, results(tmp_path), tracker.uri, Wanted(number=0, min_precision=limit))


def test_a_study_that_has_lost_all_weights_is_not_called_one_without_epochs(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def lose(study: Study) -> None:
        for name in "ab":
            shutil.rmtree(study.folder.directory / checkpoint(name, 1) / "best")

    searching(monkeypatch, trial("a", value=0.1), trial("b", value=0.2), lose)
    told = r"checkpoint_\d+: the weights of every trial are missing \(2 trials reported epochs\)"
    with pytest.raises(PipelineError, match=told) as caught:
        conducted(tracker, tmp_path, num_trials=2)
    assert "restore the folders of all trials" in str(caught.value.hint)
    prepared = StudySettings.load(tmp_path / "runs/studies/first", "first")
    with pytest.raises(PipelineError, match=told):
        register(prepared, results(tmp_path), tracker.uri, Wanted())


@pytest.mark.parametrize(
    ("harm", "told"), [("missing", "is missing"), ("torn", "was changed or is damaged: it does not match")]
)
def test_a_best_trial_with_damaged_weights_leaves_a_way_on(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str, told: str
):
    def damage(study: Study) -> None:
        weights = study.folder.directory / checkpoint("b", 1) / "best" / "model.safetensors"
        weights.unlink() if harm == "missing" else weights.write_bytes(b"torn")

    searching(monkeypatch, trial("a", value=0.1), trial("b", value=0.2), damage)
    with pytest.raises(
        PipelineError, match=f"trial-01 cannot be packaged: `model.safetensors` {told}"
    ) as caught:
        conducted(tracker, tmp_path, num_trials=2)
    way_on = f"python -m pipeline.register --name first --storage {tmp_path / 'runs'}"
    assert (caught.value.hint or "").endswith(f"{way_on} --trial 0")
    prepared = StudySettings.load(tmp_path / "runs/studies/first", "first")
    other = Criterion.parse("best val_token_recall with val_selection_rate <= 0.9")
    for wanted, flags in ((Wanted(), ""), (Wanted(criterion=other), f" --criterion '{other}'")):
        with pytest.raises(
            PipelineError,
            match=f"trial-01 cannot be packaged: `model.safetensors` {told}",
        ) as refused:
            register(prepared, results(tmp_path), tracker.uri, wanted)
        assert (refused.value.hint or "").endswith(f"{way_on}{flags} --trial 0")
    text = register(prepared, results(tmp_path), tracker.uri, Wanted(number=0))
    assert text.startswith("trial-00 at its epoch 2")
    assert "\nmeets the study's criterion: " in text


def test_a_study_of_other_data_is_refused_before_it_trains(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searching(monkeypatch, *THREE)
    conducted(tracker, tmp_path)
    version = model_registry.find(tracker, NAME, model_registry.CHALLENGER)
    assert version.tags["task_kind"] == "regression"
    model_registry.tag(tracker, version, {"task_kind": "classification", "classes": "billing, technical"})
    searching(monkeypatch, lambda study: pytest.fail("it trained"))
    with pytest.raises(
        PipelineError, match="`infocal-beer-palate` is for another task or corpus: a task of kind class"
    ):
        conducted(tracker, tmp_path / "second", name="second")


# ------------------------------------------------------------------------------ at a rate, against a rival


def test_a_criterion_for_another_selection_rate_is_refused(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    prepared = ended(tracker, tmp_path, monkeypatch)
    stated = Criterion.parse("best val_token_f1, at 8 % of the tokens")
    with pytest.raises(
        PipelineError,
        match="--criterion: the study judged its models at p >= 0.5, .* at 8 % of the tokens",
    ):
        register(prepared, results(tmp_path), tracker.uri, Wanted(criterion=stated))


RIVAL = {
    "method": "hardkuma",
    "config": {},
    "num_epochs": 2,
    "rate": 0.125,
    "criterion": criterion(0.0).to_json(),
    "seed": 0,
    "precision": 0.52,
    "epoch": 1,
}


def test_a_winner_keeps_its_rate_and_its_rival(
    tracker: Tracker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searching(monkeypatch, trial("a"))
    relative = dataclasses.replace(criterion(0.5), rate=0.125, why="threshold 0.5 = HardKuma's 0.520 - 0.02")
    run = run_settings(criterion=relative, criterion_kind="relative", rival=RIVAL, hold_rate=True)
    text = conducted(tracker, tmp_path, run=run)
    assert text.splitlines()[0].endswith(f"{relative}") and "at 12.5 % of the tokens" in str(relative)
    assert text.splitlines()[1] == relative.why
    version = model_registry.find(tracker, NAME, model_registry.CHALLENGER)
    assert version.tags["selection_rate_held"] == "0.125"
    assert Rival.of_tag(version.tags[RIVAL_TAG], "a tag") == Rival(**RIVAL)
    assert "at 12.5 % of the tokens" in parent(tracker).tags["criterion"]
    page = (tmp_path / "runs/studies/first/report.html").read_text()
    assert "at 12.5 % of the tokens" in page and "The threshold 0.5 = HardKuma" in page
    prepared = StudySettings.load(tmp_path / "runs/studies/first", "first")
    register(prepared, results(tmp_path), tracker.uri, Wanted(min_precision=0.4, model_name="other"))
    other = model_registry.find(tracker, "other", model_registry.CHALLENGER)
    assert RIVAL_TAG not in other.tags, "a threshold that was stated is no rival's"
    stated = Criterion.from_json(other.tags[CRITERION_TAG])
    assert (stated.rate, stated.why) == (0.125, "threshold 0.4 was stated with `--min-precision`")

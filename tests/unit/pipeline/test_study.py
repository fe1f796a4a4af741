import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from ray import tune
from ray.tune import TuneError

from infocal.errors import StateError
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Storage
from pipeline.base.stored_files import write_json
from pipeline.study import study
from pipeline.study.ledger import Ledger
from pipeline.study.recorder import Recorder
from pipeline.study.scheduler import VIOLATION, Listed
from pipeline.study.study import Study
from pipeline.study.study_folder import SETTINGS, SETTINGS_COPY, StudyFolder
from pipeline.study.study_settings import StudySettings
from pipeline.training import checkpoints, midway
from pipeline.training.midway import MIDWAY
from pipeline.training.trainable import RESUMED
from search_spaces import lookup
from search_spaces.infocal import PAPER_BEER
from search_spaces.space import num_points
from tests.small_ledger import checkpoint, train
from tests.small_store import sample_model, save_trial_checkpoint
from tests.small_study import POINT, SCORES, run_settings, study_settings


def small_study(folder: Path, **changes: Any) -> Study:
    place = StudyFolder.local(Storage(str(folder)), "first")
    place.directory.mkdir(parents=True, exist_ok=True)
    return Study(study_settings(**changes), PAPER_BEER, place, Ledger(place.directory))


def with_best(study: Study, trial_id: str, num_epochs: int = 2, *, config: Any = None, **best: Any) -> None:
    """A trial in the ledger, with a best epoch in its last checkpoint."""
    train(study.ledger, trial_id, num_epochs, config=config, is_replicate="seed" in (config or {}))
    folder = study.folder.directory / checkpoint(trial_id, num_epochs - 1)
    save_trial_checkpoint(folder, sample_model(), SCORES, **{"value": 0.25, **best})


@pytest.mark.parametrize(
    ("over", "open_", "asked", "missing"),
    [
        ([0, 1, 2], [], 30, 8),
        ([0, 1, 1, 1, 2], [], 30, 8),  # an older version drew a point again
        ([*range(10), 3, 3, 4], [], 30, 1),
        ([*range(11), 3], [], 30, 0),
        ([*range(11)], [5], 30, 1),  # what was begun is ended
        ([0, 0, 1], [2], 11, 9),
        ([0, 0, 1], [2], 4, 1),  # as many trials as were asked for
        ([0, 1, 2, 3], [], 4, 0),
    ],
)
def test_a_study_that_has_tried_a_point_twice_still_tries_the_others(
    tmp_path: Path, over: list[int], open_: list[int], asked: int, missing: int
):
    space = lookup.space("attention", "beer", "paper")
    assert num_points(space) == 11
    (searched,) = space
    place = StudyFolder.local(Storage(str(tmp_path)), "first")
    place.directory.mkdir(parents=True)
    study = Study(study_settings(num_trials=asked), space, place, Ledger(place.directory))
    for number, point in enumerate([*over, *open_]):
        num_epochs = 2 if number < len(over) else 1
        train(study.ledger, f"t{number}", num_epochs, config={searched.name: searched.grid[point]})
    assert study.num_missing == missing


class FakeTuner:
    """Stands for Tune's Tuner: keeps what it was made with."""

    def __init__(self) -> None:
        self.made: list[dict[str, Any]] = []

    def __call__(self, trainable: Any, **given: Any) -> "FakeTuner":
        self.made.append(given)
        return self

    def fit(self) -> None:
        """Nothing is trained."""


@pytest.fixture
def tuner(monkeypatch: pytest.MonkeyPatch) -> FakeTuner:
    fake = FakeTuner()
    monkeypatch.setattr(tune, "Tuner", fake)
    return fake


# ------------------------------------------------------------------------------------------- settings


def folder_of(settings: StudySettings, storage: Path) -> Path:
    folder = storage / settings.name
    folder.mkdir()
    return folder


def test_settings_are_read_back_equal(tmp_path: Path):
    settings = study_settings(run_settings(base={"lambda_coherence": 0.5}), first_points=[POINT])
    folder = folder_of(settings, tmp_path)
    settings.save(folder)
    assert StudySettings.load(folder, "first") == settings
    assert sorted(path.name for path in folder.iterdir()) == [SETTINGS, SETTINGS_COPY], "nothing else is left"


@pytest.mark.parametrize("content", [None, b"", b'{"name": "first"', b"\xff"])
def test_damaged_settings_are_read_from_their_copy(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes | None
):
    settings = study_settings()
    settings.save(tmp_path)
    (tmp_path / SETTINGS).unlink()
    if content is not None:
        (tmp_path / SETTINGS).write_bytes(content)
    assert StudySettings.load(tmp_path, "first") == settings
    assert "study.json: " in caplog.text and "the copy of the file is used" in caplog.text
    (tmp_path / SETTINGS_COPY).write_bytes(b"{")
    with pytest.raises(StateError, match=r"study.json: ") as caught:
        StudySettings.load(tmp_path, "first")
    assert "`study.json.bak`, cannot be used either: restore one of the two" in str(caught.value.hint)


def test_settings_that_are_cut_short_and_have_no_copy_say_what_to_do(tmp_path: Path):
    (tmp_path / SETTINGS).write_text("{")
    with pytest.raises(
        StateError, match=r"but the file is cut short or damaged \(Invalid JSON: EOF"
    ) as caught:
        StudySettings.load(tmp_path, "first")
    assert "`study.json.bak`, is missing: restore one of the two" in str(caught.value.hint)


def test_settings_can_be_saved_again(tmp_path: Path):
    folder = folder_of(study_settings(), tmp_path)
    study_settings(num_trials=3).save(folder)
    study_settings(num_trials=5).save(folder)
    assert StudySettings.load(folder, "first").num_trials == 5


def test_settings_are_readable(tmp_path: Path):
    study_settings().save(tmp_path)
    stored = json.loads((tmp_path / SETTINGS).read_text())
    assert stored["run"]["criterion"]["bounds"] == [
        {"metric": "val_token_precision", "limit": 0.05, "kind": "at_least"}
    ]


def test_missing_or_broken_settings_are_named(tmp_path: Path):
    with pytest.raises(StateError, match=f"{tmp_path / SETTINGS}: cannot read the file: .*No such file"):
        StudySettings.load(tmp_path, "first")
    (tmp_path / SETTINGS).write_text("{")
    with pytest.raises(StateError, match=f"{tmp_path / SETTINGS}: expected the settings of a study"):
        StudySettings.load(tmp_path, "first")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"num_trials": "8"}, "num_trials: Input should be a valid integer"),
        ({"sample": 1}, "sample: Input should be a valid boolean"),
        (
            {"first_points": [{"lambda_ib": None}]},
            "first_points.0.lambda_ib.int: Input should be",
        ),
        ({"command": None}, "command: Input should be a valid string"),
    ],
)
def test_settings_of_another_type_are_named(tmp_path: Path, change: dict[str, object], place: str):
    folder = folder_of(study_settings(), tmp_path)
    study_settings().save(folder)
    (folder / SETTINGS_COPY).unlink()
    path = folder / SETTINGS
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(
        StateError, match=f"{path}: expected the settings of a study, but the content does not match .{place}"
    ):
        StudySettings.load(folder, "first")


def test_settings_nested_too_deeply_are_refused(tmp_path: Path):
    (tmp_path / SETTINGS).write_text('{"run":' * 100_000)
    with pytest.raises(StateError, match="expected the settings of a study"):
        StudySettings.load(tmp_path, "first")


def test_settings_cannot_send_a_study_to_another_folder(tmp_path: Path):
    (tmp_path / "study").mkdir()
    study_settings(name="../../elsewhere").save(tmp_path / "study")
    message = (
        r"study.json: expected the settings of the study `study`, "
        r"but got the settings of `\.\./\.\./elsewhere`"
    )
    with pytest.raises(StateError, match=message):
        StudySettings.load(tmp_path / "study", "study")


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"run": {}}', '{"run": {"criterion": {"bounds": [{"metric": "x"}]}}}']
)
def test_settings_of_something_else_are_refused(tmp_path: Path, text: str):
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(
        StateError, match="study.json: expected the settings of a study, but the content does not match"
    ):
        StudySettings.load(tmp_path, "first")


# ---------------------------------------------------------------------------------------------- tuning


def test_what_tune_is_asked_for(tmp_path: Path, tuner: FakeTuner):
    one = small_study(tmp_path, num_trials=7, max_concurrent=2)
    one.run([])
    (given,) = tuner.made
    config, run_config = given["tune_config"], given["run_config"]
    assert (config.num_samples, config.max_concurrent_trials, config.reuse_actors) == (7, 2, True)
    assert run_config.name == "tune"
    assert run_config.storage_path == str(one.folder.directory.resolve())
    assert run_config.checkpoint_config.num_to_keep == 2, "the one before the last may be needed"
    assert run_config.failure_config.max_failures == 2, "a worker that died starts again"
    assert isinstance(run_config.callbacks[0], Recorder), "the ledger hears of everything first"


def test_the_workers_of_a_search_start_one_after_the_other_those_of_a_list_at_once(
    tmp_path: Path, tuner: FakeTuner
):
    """Which trials are stopped early follows from their order, so a search keeps it."""
    one = small_study(tmp_path, num_trials=7, max_concurrent=0)
    one.run([])
    one.engine.train("listed", Listed([POINT] * 5), 5, [])
    assert [given["tune_config"].max_concurrent_trials for given in tuner.made] == [0, 5]


def test_trials_are_asked_to_keep_their_state_where_a_search_is_interrupted(
    tmp_path: Path, tuner: FakeTuner, monkeypatch: pytest.MonkeyPatch
):
    one = small_study(tmp_path)
    (one.folder.directory / MIDWAY / "stop").mkdir(parents=True)  # by a driver that has ended
    (one.folder.directory / MIDWAY / "stop" / "asked").touch()
    asked: list[set[str]] = []
    monkeypatch.setattr(midway, "stop", lambda place, running: asked.append(set(running)))

    def interrupted() -> None:
        assert not (one.folder.directory / MIDWAY / "stop").exists(), "these trials train"
        recorder = tuner.made[0]["run_config"].callbacks[0]
        for name in ("a", "b", "c"):
            trial = SimpleNamespace(trial_id=name, config=POINT, error_file=None)
            recorder.search = None
            recorder.on_trial_start(iteration=0, trials=[], trial=trial)
        recorder.on_trial_complete(iteration=0, trials=[], trial=SimpleNamespace(trial_id="a", config=POINT))
        recorder.on_trial_error(iteration=0, trials=[], trial=trial)
        raise KeyboardInterrupt

    monkeypatch.setattr(tuner, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.run([])
    assert asked == [{"b"}]


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), TuneError("a\nOSError: [Errno 28] b")]
)
def test_a_disk_that_is_too_full_for_tune_is_told_in_a_line(
    tmp_path: Path, tuner: FakeTuner, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    def failing() -> None:
        raise error

    monkeypatch.setattr(tuner, "fit", failing)
    with pytest.raises(PipelineError, match="checkpoints of trials can no longer be written: .*Errno 28"):
        small_study(tmp_path).run([])


@pytest.mark.parametrize("is_ours", [True, False])
def test_what_the_recorder_could_not_write_ends_a_search_with_its_own_words(
    tmp_path: Path, tuner: FakeTuner, monkeypatch: pytest.MonkeyPatch, is_ours: bool
):
    def failing() -> None:
        recorder = tuner.made[0]["run_config"].callbacks[0]
        recorder.fault = PipelineError("no room") if is_ours else None
        raise TuneError("Traceback ... PipelineError: nothing that is known")

    monkeypatch.setattr(tuner, "fit", failing)
    with pytest.raises(
        PipelineError if is_ours else TuneError, match="^no room$" if is_ours else "Traceback"
    ):
        small_study(tmp_path).run([])


def test_a_relative_folder_is_named_whole(tmp_path: Path, tuner: FakeTuner, monkeypatch: pytest.MonkeyPatch):
    """pyarrow takes a relative path for a URI without a scheme, and `runs` is the default."""
    monkeypatch.chdir(tmp_path)
    small_study(Path("runs")).run([])
    assert tuner.made[0]["run_config"].storage_path == str(tmp_path / "runs/studies/first")


def test_what_is_there_is_not_done_again(tmp_path: Path, tuner: FakeTuner):
    one = small_study(tmp_path, num_trials=4)
    with_best(one, "over")
    with_best(one, "open", 1, config={**POINT, "lambda_lm": 0.007})
    train(one.ledger, "failed", 1, failure=("non_finite", "nan"))
    (one.folder.directory / "tune").mkdir(exist_ok=True)
    assert (one.num_missing, one.is_complete) == (2, False)
    one.run([])
    (given,) = tuner.made
    assert given["run_config"].name == "tune-1", "what a driver that died has left stays as it is"
    config = given["tune_config"]
    assert config.num_samples == 2
    first = config.search_alg.suggest("x")
    assert first == {
        **POINT,
        "lambda_lm": 0.007,
        RESUMED: {"trial_id": "open", "checkpoints": [checkpoint("open", 0)]},
    }
    assert RESUMED not in config.search_alg.suggest("y")


def test_trials_of_another_search_are_refused(tmp_path: Path):
    one = small_study(tmp_path)
    train(one.ledger, "a", 2, config={**POINT, "lambda_lm": 7.0})
    message = (
        f"{one.ledger.directory}: the stored trials of this study do not fit its search space: .*lambda_lm"
    )
    with pytest.raises(StateError, match=message):
        one.run([])


def test_a_search_that_is_over_is_not_run(tmp_path: Path, tuner: FakeTuner):
    one = small_study(tmp_path, num_trials=1)
    with_best(one, "over")
    assert one.is_complete
    one.run([])
    assert tuner.made == []


def test_candidates_come_best_first(tmp_path: Path):
    one = small_study(tmp_path)
    with_best(one, "low", value=0.1)
    train(one.ledger, "broken", 0, failure=("error", "errors.LostError: no disk"))
    with_best(one, "missed", value=-0.3, violation=0.3)
    train(one.ledger, "silent", 2)  # its checkpoint holds no best epoch
    with_best(one, "high", value=0.4, epoch=6)
    found = one.candidates(one.searched)
    assert [c.trial_id for c in found] == ["high", "low", "missed"]
    assert (found[0].value, found[0].epoch, found[0].scores) == (0.4, 6, SCORES)
    assert found[0].checkpoint.path == str(one.folder.directory / checkpoint("high", 1))
    assert [c.is_met for c in found] == [True, True, False]
    assert one.failures == ["errors.LostError: no disk"]


def test_replicates_are_the_winner_with_further_seeds(tmp_path: Path, tuner: FakeTuner):
    one = small_study(tmp_path, run=run_settings(seed=5), num_seeds=4, num_trials=1)
    with_best(one, "winner")
    (winner,) = one.candidates(one.searched)
    with_best(one, "r6", config={**POINT, "seed": 6})
    with_best(one, "r7", 1, config={**POINT, "seed": 7})
    assert not one.is_complete
    one.replicate([winner], [])
    (given,) = tuner.made
    search = given["tune_config"].search_alg
    assert given["tune_config"].num_samples == 2
    assert search.suggest("x") == {
        **POINT,
        "seed": 7,
        RESUMED: {"trial_id": "r7", "checkpoints": [checkpoint("r7", 0)]},
    }
    assert search.suggest("y") == {**POINT, "seed": 8}
    assert search.suggest("z") is None
    assert given["run_config"].name == "replicates"
    assert [c.trial_id for c in one.candidates(one.replicates)] == ["r6", "r7"]
    assert [r.trial_id for r in one.searched] == ["winner"]


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_no_replicate_is_trained_twice(tmp_path: Path, tuner: FakeTuner, num_seeds: int):
    one = small_study(tmp_path, num_seeds=num_seeds, num_trials=1)
    with_best(one, "winner")
    with_best(one, "r1", config={**POINT, "seed": 1})
    (winner,) = one.candidates(one.searched)
    one.replicate([winner], [])
    assert tuner.made == []
    assert one.is_complete


def test_the_best_trials_race_over_seeds(tmp_path: Path, tuner: FakeTuner):
    one = small_study(tmp_path, run=run_settings(seed=5), is_raced=True, num_trials=3)
    configs = {
        name: {**POINT, "lambda_lm": lm} for name, lm in zip("abc", (0.001, 0.002, 0.003), strict=True)
    }
    for name, value in zip("abc", (0.5, 0.4, 0.3), strict=True):
        with_best(one, name, config=configs[name], value=value)
    candidates = one.candidates(one.searched)
    assert not one.is_complete
    with_best(one, "a6", config={**configs["a"], "seed": 6}, value=0.1)
    with_best(one, "b6", 1, config={**configs["b"], "seed": 6})
    one.replicate(candidates, [])
    search = tuner.made[0]["tune_config"].search_alg
    assert tuner.made[0]["tune_config"].num_samples == 2
    resumed = search.suggest("x")
    assert resumed[RESUMED] == {"trial_id": "b6", "checkpoints": [checkpoint("b6", 0)]}
    assert search.suggest("y") == {**configs["c"], "seed": 6}
    two = small_study(tmp_path / "two", run=run_settings(seed=5), is_raced=True, num_trials=2)
    for name, value in zip("ab", (0.5, 0.4), strict=True):
        with_best(two, name, config=configs[name], value=value)
        for seed in (6, 7, 8):
            again = {**configs[name], "seed": seed}
            with_best(two, f"{name}{seed}", config=again, value=0.1 if name == "a" else 0.4)
    assert two.is_complete
    winner, other = two.racers(two.candidates(two.searched))
    assert (winner.trial.trial_id, other.trial.trial_id) == ("b", "a")
    assert [result.trial_id for result in winner.results] == ["b6", "b7", "b8"]


# ---------------------------------------------------------------------------------------------- export


def test_the_exported_study_holds_what_has_ended(tmp_path: Path):
    one = small_study(tmp_path)
    train(one.ledger, "a", 2, criterion_violation=0.2)
    train(one.ledger, "open", 1)
    train(one.ledger, "c", 1, config={**POINT, "lambda_lm": 0.007}, failure=("error", "boom"))
    path = one.export()
    assert path == one.folder.directory / study.OPTUNA_DB
    read = optuna.load_study(study_name="first", storage=f"sqlite:///{path}")
    first, failed = read.trials
    assert [trial.state.name for trial in (first, failed)] == ["COMPLETE", "FAIL"]
    assert (first.value, first.params, first.constraints) == (0.2, POINT, {VIOLATION: 0.2})
    assert first.intermediate_values == {1: 0.1, 2: 0.2}
    assert failed.params == {**POINT, "lambda_lm": 0.007}
    begun = one.searched[0].begin.time
    assert first.datetime_start is not None
    assert first.datetime_start.timestamp() == pytest.approx(begun, abs=0.01)


def test_a_second_export_replaces_the_first(tmp_path: Path):
    one = small_study(tmp_path)
    train(one.ledger, "a", 2)
    one.export()
    train(one.ledger, "b", 2)
    read = optuna.load_study(study_name="first", storage=f"sqlite:///{one.export()}")
    assert len(read.trials) == 2
    assert {path.name for path in one.folder.directory.iterdir()} == {"ledger", "optuna.db"}


def test_a_resumed_study_says_which_defaults_its_open_trials_get(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """The worker that reads the checkpoint says so as well, where nobody hears it."""
    caplog.set_level("INFO")
    study = small_study(tmp_path)
    train(study.ledger, "over", 2)
    train(study.ledger, "open", 1)
    for name, left_out in (("over", "lambda_g"), ("open", "discriminator_slope")):
        config = study.base_config.to_dict()
        del config[left_out]
        folder = study.folder.directory / checkpoint(name, 0) / checkpoints.BEST
        folder.mkdir(parents=True)
        write_json(folder / checkpoints.CONFIG, {"config": config})
    study.say_defaults()
    (said,) = [message for message in caplog.messages if "defaults are used" in message]
    assert said == (
        "the checkpoint of trial 01 was written by an older version without some hyper-parameters; "
        "defaults are used: `discriminator_slope` = 0.05"
    )

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import optuna
import pytest
from ray import tune

from infocal.errors import StateError
from pipeline import checkpoints, study
from pipeline.errors import PipelineError
from pipeline.scheduler import OBJECTIVE, VIOLATION, ConstrainedOptunaSearch, sampler
from pipeline.study import SETTINGS, Study, StudySettings
from search_spaces.infocal import PAPER_BEER
from tests.small_study import POINT, SCORES, candidate, run_settings, study_settings


def small_study(folder: Path, **changes: Any) -> Study:
    return Study(study_settings(**changes), PAPER_BEER, folder)


def result_of(folder: Path, trial_id: str, **best: Any) -> Any:
    """As much of Tune's Result as a study reads, with a best epoch in its checkpoint."""
    path = folder / trial_id
    (path / checkpoints.BEST).mkdir(parents=True)
    scores = {
        "epoch": 1,
        "value": 0.25,
        "violation": 0.0,
        "is_met": True,
        "degenerate": None,
        "scores": SCORES,
    } | best
    checkpoints.write_json(path / checkpoints.BEST / checkpoints.BEST_SCORES, scores)
    checkpoint = tune.Checkpoint.from_directory(str(path))
    return SimpleNamespace(metrics={"trial_id": trial_id}, config=POINT, checkpoint=checkpoint, error=None)


class FakeTuner:
    """Stands for Tune's Tuner: keeps what it was made with and gives ready results."""

    made: list[dict[str, Any]]

    def __init__(self, results: list[Any]) -> None:
        self.results = results
        self.made = []

    def __call__(self, trainable: Any, **given: Any) -> "FakeTuner":
        self.made.append(given)
        return self

    def fit(self) -> list[Any]:
        return self.results


# ------------------------------------------------------------------------------------------- settings


def folder_of(settings: StudySettings, storage: Path) -> Path:
    folder = storage / settings.name
    folder.mkdir()
    return folder


def test_settings_are_read_back_equal(tmp_path: Path):
    settings = study_settings(run_settings(base={"lambda_coherence": 0.5}), first_points=[POINT])
    folder = folder_of(settings, tmp_path)
    settings.save(folder)
    assert StudySettings.load(folder) == settings
    assert [path.name for path in folder.iterdir()] == [SETTINGS], "no temporary file is left"


def test_settings_can_be_saved_again(tmp_path: Path):
    folder = folder_of(study_settings(), tmp_path)
    study_settings(num_trials=3).save(folder)
    study_settings(num_trials=5).save(folder)
    assert StudySettings.load(folder).num_trials == 5


def test_settings_are_readable(tmp_path: Path):
    study_settings().save(tmp_path)
    stored = json.loads((tmp_path / SETTINGS).read_text())
    assert stored["run"]["criterion"]["bounds"] == [
        {"metric": "val_token_precision", "limit": 0.05, "kind": "at_least"}
    ]


def test_missing_or_broken_settings_are_named(tmp_path: Path):
    with pytest.raises(StateError, match=f"{tmp_path / SETTINGS}: cannot read the file: .*No such file"):
        StudySettings.load(tmp_path)
    (tmp_path / SETTINGS).write_text("{")
    with pytest.raises(StateError, match=f"{tmp_path / SETTINGS}: expected the settings of a study"):
        StudySettings.load(tmp_path)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"num_trials": "8"}, "num_trials: Input should be a valid integer"),
        ({"sample": 1}, "sample: Input should be a valid boolean"),
        ({"first_points": [{"lambda_ib": None}]}, "first_points.0.lambda_ib: Input should be a valid number"),
        ({"command": None}, "command: Input should be a valid string"),
    ],
)
def test_settings_of_another_type_are_named(tmp_path: Path, change: dict[str, object], place: str):
    folder = folder_of(study_settings(), tmp_path)
    study_settings().save(folder)
    path = folder / SETTINGS
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(
        StateError, match=f"{path}: expected the settings of a study, but got something else .{place}"
    ):
        StudySettings.load(folder)


def test_settings_nested_too_deeply_are_refused(tmp_path: Path):
    (tmp_path / SETTINGS).write_text('{"run":' * 100_000)
    with pytest.raises(StateError, match="expected the settings of a study"):
        StudySettings.load(tmp_path)


def test_settings_cannot_send_a_study_to_another_folder(tmp_path: Path):
    (tmp_path / "study").mkdir()
    study_settings(name="../../elsewhere").save(tmp_path / "study")
    with pytest.raises(
        StateError, match=r"study.json: these are the settings of the study `\.\./\.\./elsewhere`"
    ):
        StudySettings.load(tmp_path / "study")


# ---------------------------------------------------------------------------------------------- tuning


def test_what_tune_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake = FakeTuner([])
    monkeypatch.setattr(tune, "Tuner", fake)
    one = small_study(tmp_path, num_trials=7, max_concurrent=2)
    assert one.run([], resume=False) == []
    (given,) = fake.made
    config, run_config = given["tune_config"], given["run_config"]
    assert (config.num_samples, config.max_concurrent_trials, config.reuse_actors) == (7, 2, True)
    assert config.search_alg is one.search
    assert run_config.storage_path == str(tmp_path.resolve())
    assert run_config.checkpoint_config.num_to_keep == 2, "a snapshot may name the one before the last"
    assert run_config.failure_config.max_failures == 2, "a worker that died starts again"


def test_candidates_come_best_first_and_every_trial_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    error = ValueError("Traceback\n  in a worker\nerrors.LostError: no disk\n\nAn unexpected error occurred.")
    broken = SimpleNamespace(metrics={"trial_id": "broken"}, config=POINT, checkpoint=None, error=error)
    silent = SimpleNamespace(metrics=None, config=POINT, checkpoint=None, error=None)
    failed = result_of(tmp_path, "failed")
    (Path(failed.checkpoint.path) / checkpoints.BEST / checkpoints.BEST_SCORES).unlink()
    (Path(failed.checkpoint.path) / checkpoints.BEST).rmdir()
    results = [
        result_of(tmp_path, "low", value=0.1),
        broken,
        result_of(tmp_path, "missed", value=-0.3, violation=0.3),
        failed,
        silent,
        result_of(tmp_path, "high", value=0.4, epoch=6),
    ]
    monkeypatch.setattr(tune, "Tuner", FakeTuner(results))
    one = small_study(tmp_path)
    found = one.run([], resume=False)
    assert [c.trial_id for c in found] == ["high", "low", "missed"]
    assert (found[0].value, found[0].epoch, found[0].scores) == (0.4, 6, SCORES)
    assert found[0].checkpoint.path == str(tmp_path / "high")
    assert [c.is_met for c in found] == [True, True, False]
    # tracking must not end the runs of trials that only failed
    assert one.trial_ids == {"low", "broken", "missed", "failed", "high"}
    assert one.failures == ["errors.LostError: no disk"]


def test_replicates_are_the_winner_with_further_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake = FakeTuner([result_of(tmp_path, "r1"), result_of(tmp_path, "r2")])
    monkeypatch.setattr(tune, "Tuner", fake)
    one = small_study(tmp_path, run=run_settings(seed=5), num_seeds=3)
    found = one.replicate(candidate("a"), [])
    (given,) = fake.made
    assert given["param_space"] == {**POINT, "seed": {"grid_search": [6, 7]}}
    assert given["run_config"].name == "replicates"
    assert [c.trial_id for c in found] == ["r1", "r2"]
    assert one.trial_ids == {"r1", "r2"}


def test_one_seed_asks_for_no_replicate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake = FakeTuner([])
    monkeypatch.setattr(tune, "Tuner", fake)
    assert small_study(tmp_path, num_seeds=1).replicate(candidate(), []) == []
    assert fake.made == []


def test_a_folder_without_a_search_cannot_be_resumed(tmp_path: Path):
    with pytest.raises(PipelineError, match="tune: study `first` holds no search to resume$") as caught:
        small_study(tmp_path).run([], resume=True)
    assert caught.value.hint == "leave out `--resume`"


# ---------------------------------------------------------------------------------------------- export


def finished_search() -> ConstrainedOptunaSearch:
    search = ConstrainedOptunaSearch(PAPER_BEER, sampler("random", PAPER_BEER, 0), [POINT])
    for name, value, violation in (("a", 0.5, 0.0), ("b", -0.2, 0.2)):
        search.suggest(name)
        search.on_trial_complete(name, {OBJECTIVE: value, VIOLATION: violation})
    search.suggest("c")
    search.on_trial_complete("c", None, error=True)
    return search


def test_the_exported_study_holds_the_same_trials(tmp_path: Path):
    one = small_study(tmp_path)
    one.search = finished_search()
    path = one.export()
    assert path == tmp_path / study.OPTUNA_DB
    read = optuna.load_study(study_name="first", storage=f"sqlite:///{path}")
    live = one.search.study.get_trials()
    assert len(read.trials) == len(live) == 3
    for theirs, mine in zip(read.trials, live, strict=True):
        assert (theirs.state, theirs.value, theirs.params) == (mine.state, mine.value, mine.params)
        assert theirs.distributions == mine.distributions
        assert theirs.constraints == mine.constraints
    assert read.best_trial.number == 0
    assert read.trials[0].params == POINT


def test_a_second_export_replaces_the_first(tmp_path: Path):
    one = small_study(tmp_path)
    one.search = finished_search()
    one.export()
    read = optuna.load_study(study_name="first", storage=f"sqlite:///{one.export()}")
    assert len(read.trials) == 3


def test_a_study_that_has_not_run_has_nothing_to_export(tmp_path: Path):
    with pytest.raises(PipelineError, match="study `first` has not run yet: nothing to export"):
        small_study(tmp_path).export()


@pytest.mark.parametrize(
    "text", ["{}", "[]", '{"run": {}}', '{"run": {"criterion": {"bounds": [{"metric": "x"}]}}}']
)
def test_settings_of_something_else_are_refused(tmp_path: Path, text: str):
    (tmp_path / "study.json").write_text(text)
    with pytest.raises(StateError, match="study.json: expected the settings of a study, but got something"):
        StudySettings.load(tmp_path)


def test_a_study_in_a_relative_folder_is_looked_for_by_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """pyarrow takes a relative path for a URI without a scheme, and `runs` is the default."""
    monkeypatch.chdir(tmp_path)
    asked: list[str] = []
    monkeypatch.setattr(tune.Tuner, "can_restore", lambda path, filesystem: asked.append(path))
    study = Study(study_settings(), PAPER_BEER, Path("runs/studies/first"))
    with pytest.raises(PipelineError, match="holds no search to resume"):
        study.run([], resume=True)
    assert asked == [str(tmp_path / "runs/studies/first/tune")]

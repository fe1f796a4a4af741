"""From the sample corpus to a promoted model that answers: one search, and what every command makes of it."""

import json
import re
import sqlite3
import sys
from pathlib import Path
from statistics import mean, stdev

import optuna
import pytest

from infocal.config import InfoCalConfig
from pipeline import evaluate, explain, report, search, train
from pipeline.base.errors import run_command
from pipeline.tracking import model_registry
from pipeline.tracking.epoch_steps import history
from pipeline.tracking.studies import config_of
from pipeline.tracking.tracking import PARENT_TAG, TRIAL_TAG
from pipeline.training import checkpoints
from search_spaces.infocal import PAPER_BEER, PAPER_BEER_BEST
from tests.integration.commands import SMALL, run
from tests.integration.studies import NUM_EPOCHS, NUM_SEEDS, NUM_TRIALS, Searched

pytestmark = pytest.mark.slow

NAME = "infocal-beer-palate"


# ---------------------------------------------------------------------------------------- what is said


def test_results_go_to_stdout_and_progress_to_stderr(searched: Searched):
    assert searched.stdout.startswith(f"beer/palate: {NUM_TRIALS} trials, best val_token_recall with ")
    assert f"registered {NAME} version 1 as `challenger`" in searched.stdout
    assert "trial 00 epoch 1/2" in searched.stderr
    assert "trial 00" not in searched.stdout
    first, second = searched.stderr.splitlines()[:2]
    assert first.startswith("note: all losses reach their full weight only after 101.5 epochs")
    assert second == f"results: {searched.directory}"
    for noise in ("Traceback", "Warning", "wandb"):
        assert noise not in searched.stderr


def test_the_spread_over_seeds_is_said_and_tracked(searched: Searched):
    winner = searched.tracker.run(searched.parent.tags["winner_run_id"])
    seeds = [winner, *searched.children[NUM_TRIALS:]]
    assert [run.tags["seed"] for run in seeds] == ["0", "1"]
    precision = [run.metrics["best_val_token_precision"] for run in seeds]
    metrics = searched.parent.metrics
    assert metrics["num_seeds"] == NUM_SEEDS
    assert metrics["val_token_precision_mean"] == pytest.approx(mean(precision))
    assert metrics["val_token_precision_sd"] == pytest.approx(stdev(precision))
    assert f"winner over {NUM_SEEDS} seeds: precision {mean(precision):.3f} +- " in searched.stdout


# --------------------------------------------------------------------------------------------- tracking


def test_a_study_has_a_child_run_for_each_trial_and_replicate(searched: Searched):
    assert searched.parent.status == "FINISHED"
    assert len(searched.children) == NUM_TRIALS + NUM_SEEDS - 1
    assert {run.status for run in searched.children} == {"FINISHED"}
    assert {run.tags[PARENT_TAG] for run in searched.children} == {searched.parent.run_id}
    assert len({run.tags[TRIAL_TAG] for run in searched.children}) == len(searched.children)


def test_parameters_read_back_as_the_config_that_was_trained(searched: Searched):
    for trial in searched.trials:
        config = InfoCalConfig.from_mapping(config_of(trial))
        assert (config.hidden_size, config.encoder, config.dense_epochs) == (4, "lstm", 100.0)
        for one in PAPER_BEER:
            assert one.contains(getattr(config, one.name))
    first = config_of(searched.trials[0])
    assert {name: first[name] for name in PAPER_BEER_BEST} == PAPER_BEER_BEST, (
        "the paper's best is tried first"
    )


def test_each_epoch_is_logged_once(searched: Searched):
    for trial in searched.children:
        for metric in ("objective", "train_objective", "val_mse", "val_token_f1"):
            epochs = [epoch for epoch, _ in history(searched.tracker, trial, metric)]
            assert epochs == list(range(NUM_EPOCHS)), (trial.name, metric)


def test_tags_say_where_a_trial_comes_from(searched: Searched):
    for trial in searched.children:
        assert len(trial.tags["data_fingerprint"]) == 64
        assert trial.tags["corpus"] == "sample"
        assert trial.tags["metric_mode"] == "paper"
        assert trial.tags["git_commit"]
        assert "made-up sample corpus" in trial.tags["notes"]
    assert searched.parent.tags["criterion_met"] == "true"
    assert searched.parent.tags["winner_run_id"] in {run.run_id for run in searched.trials}


def test_artifacts_of_a_trial_and_of_the_study(searched: Searched, tmp_path: Path):
    def stored(run_id: str, name: str) -> Path:
        return searched.tracker.download(run_id, name, tmp_path / run_id)

    trial = searched.trials[0]
    config = json.loads(stored(trial.run_id, "config.json").read_text())
    assert config["config"] == InfoCalConfig.from_mapping(config_of(trial)).to_dict()
    assert config["run"]["num_epochs"] == NUM_EPOCHS
    for page in ("rationales.html", "curve.html"):
        text = stored(trial.run_id, page).read_text()
        assert "<html" in text
        assert not re.search(r"(src|href)=.?https?:", text), f"{page} must be readable on its own"
    best = stored(trial.run_id, "best")
    scores = checkpoints.read_json(best / "scores.json")
    assert scores["scores"]["val_token_recall"] == trial.metrics["best_val_token_recall"]
    assert "<html" in stored(searched.parent.run_id, "report.html").read_text()
    path = stored(searched.parent.run_id, "optuna.db")
    study = optuna.load_study(study_name="first", storage=f"sqlite:///{path}")
    assert [t.state.name for t in study.trials] == ["COMPLETE"] * NUM_TRIALS
    values = {run.metrics["best_objective"] for run in searched.trials}
    assert {trial.value for trial in study.trials} == values


def test_the_winner_is_the_trial_with_the_highest_objective(searched: Searched):
    objectives = {run.run_id: run.metrics["best_objective"] for run in searched.trials}
    winner = searched.parent.tags["winner_run_id"]
    assert objectives[winner] == max(objectives.values())
    assert searched.parent.metrics["val_token_recall"] == objectives[winner]


def test_no_pickle_is_left_among_results_that_are_loaded(searched: Searched):
    assert {path.suffix for path in (searched.directory / "model").iterdir()} == {".json", ".safetensors"}
    artifacts = [path for path in (searched.folder / "runs" / "artifacts").rglob("*") if path.is_file()]
    assert artifacts
    assert [path.name for path in artifacts if path.suffix in {".pkl", ".pickle", ".pt", ".bin"}] == []


def test_a_name_that_is_taken_is_refused(searched: Searched, capsys: pytest.CaptureFixture[str]):
    before = {path.name for path in searched.directory.parent.iterdir()}
    assert run_command(search.main, [*SMALL, *searched.places, "--name", "first"]) == 2
    assert capsys.readouterr().err == (
        "error: --name: there is a study `first` already\n\nhint: choose another name, or add `--resume`\n"
    )
    assert {path.name for path in searched.directory.parent.iterdir()} == before


# ------------------------------------------------------------------------------------ the model's life


def test_the_winner_is_registered_as_challenger(searched: Searched):
    version = model_registry.find(searched.tracker, NAME, 1)
    assert model_registry.CHALLENGER in version.aliases
    assert version.run_id == searched.parent.tags["winner_run_id"]
    assert version.tags["min_precision"] == "0.01"
    assert version.tags["study"] == "first"
    assert version.tags["corpus"] == "sample"


def test_promotion_reads_the_test_split_and_moves_the_alias(promoted: Searched):
    version = model_registry.find(promoted.tracker, NAME, model_registry.CHAMPION)
    assert (version.version, version.tags["test_criterion_met"]) == (1, "true")
    winner = promoted.tracker.run(version.run_id)
    assert int(winner.tags["test_readings"]) >= 1
    assert winner.metrics["test_token_precision"] >= 0.01


PREDICT = """
import json, sys, mlflow
mlflow.set_tracking_uri(sys.argv[1])
model = mlflow.pyfunc.load_model("models:/infocal-beer-palate@champion")
print(json.dumps(model.predict(json.loads(sys.argv[2]), params={"all_tokens": True})))
"""


def test_the_champion_answers_in_another_process_and_folder(
    promoted: Searched, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    texts = ["A smooth and creamy body.", "thin , watery mouthfeel . " * 100]
    done = run([sys.executable, "-c", PREDICT, promoted.tracker.uri, json.dumps(texts)], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    assert len(answers) == 2
    for text, answer in zip(texts, answers, strict=True):
        assert 0 < answer["prediction"] < 1
        pieces = [text[token["start"] : token["end"]].lower() for token in answer["tokens"]]
        assert pieces == [token["token"] for token in answer["tokens"]]
    assert len(answers[1]["tokens"]) == 500
    # `explain` says the same
    model = f"models:/{NAME}@champion"
    arguments = ["--model", model, "--tracking-uri", promoted.tracker.uri, "--json", "--text", texts[0]]
    assert run_command(explain.main, arguments) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["prediction"] == pytest.approx(answers[0]["prediction"], abs=1e-6)
    assert said["rationale"] == [token["token"] for token in answers[0]["rationale"]]


def test_evaluate_scores_a_trial_and_the_champion_alike(
    promoted: Searched, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    version = model_registry.find(promoted.tracker, NAME, model_registry.CHAMPION)
    which = {"run": ["--run", version.run_id], "model": ["--model", f"models:/{NAME}@champion"]}
    scores = {}
    for name, arguments in which.items():
        file = tmp_path / f"{name}.json"
        given = [*arguments, "--sample", "--json", str(file), *promoted.places]
        assert run_command(evaluate.main, given) == 0, capsys.readouterr().err
        scores[name] = json.loads(file.read_text())["scores"]
    assert scores["run"] == scores["model"]
    assert scores["run"]["test_token_precision"] == pytest.approx(
        promoted.tracker.run(version.run_id).metrics["test_token_precision"]
    )


def test_a_report_of_the_study_can_be_written_again(searched: Searched, tmp_path: Path):
    output = tmp_path / "again.html"
    arguments = ["--aspect", "palate", "--sample", "--study", "first", "--output", str(output)]
    assert run_command(report.main, [*arguments, "--storage", str(searched.folder / "runs")]) == 0
    text = output.read_text()
    assert "palate" in text
    for one in PAPER_BEER:
        assert one.name in text


def test_a_trial_is_trained_again_from_its_run(
    searched: Searched, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    trial = searched.trials[-1]
    places = [*searched.places, "--output", str(tmp_path / "model")]
    data = SMALL[: SMALL.index("--set")]
    arguments = [*data, "--from-run", trial.run_id, "--epochs", str(NUM_EPOCHS), "--min-precision", "0.01"]
    assert run_command(train.main, [*arguments, *places]) == 0, capsys.readouterr().err
    package = checkpoints.load_package(tmp_path / "model")
    assert package.model.config.to_dict() == config_of(trial)
    # same seed, same data, same thread count: the same numbers as in Ray's worker
    assert package.metadata["scores"]["val_token_recall"] == pytest.approx(
        trial.metrics["best_val_token_recall"]
    )


def test_the_databases_are_whole(searched: Searched):
    for path in (searched.folder / "runs" / "mlflow.db", searched.directory / "optuna.db"):
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()

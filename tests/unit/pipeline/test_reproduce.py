import dataclasses
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from feature_store.sample import write_beer
from pipeline import reproduce
from pipeline.base.errors import run_command
from pipeline.tracking.tracking import Tracker
from pipeline.training import checkpoints, origin
from pipeline.training.epochs import Epoch
from pipeline.training.settings import RunSettings
from pipeline.training.trainable import Trial
from tests.small_store import new_store, sample_cache, sample_features
from tests.small_study import BASE, run_settings
from tests.small_trial import record_trial

FAILS = {"dense_epochs": 1.0, "ramp_epochs": 0.0, "start_selection_rate": 0.999, "learning_rate": 1e-6}
"""Everything stays selected, which is no rationale from the second epoch on."""
FRESH = {name: value for name, value in BASE.items() if name != "start_selection_rate"} | {
    "support_epochs": 1.0
}


@pytest.fixture(scope="module")
def tracker(tmp_path_factory: pytest.TempPathFactory) -> Tracker:
    return new_store(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def trial(tracker: Tracker) -> str:
    """Two epochs of InfoCal with a seed of its own."""
    return record_trial(tracker, run_settings(), {"lambda_ib": 0.001, "seed": 3})


def flags(tracker: Tracker, run_id: str, *more: str, cache: Path | None = None) -> list[str]:
    places = ["--tracking-uri", tracker.uri, "--cache-dir", str(cache or sample_cache())]
    return ["--run", run_id, *places, *more]


def off_by(amount: float, epoch: int = 1, metric: str = "val_mse") -> Any:
    """A change of what is logged: one metric of one epoch."""

    def change(result: Epoch) -> dict[str, float]:
        numbers = result.numbers
        return {**numbers, metric: numbers[metric] + amount} if result.number == epoch else numbers

    return change


def verdict(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.splitlines()[-1]


# --------------------------------------------------------------------------------------------- agrees


def test_a_trial_is_reproduced_bit_for_bit(tracker: Tracker, trial: str, capsys: pytest.CaptureFixture[str]):
    assert reproduce.main(flags(tracker, trial)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"run trial-00 ({trial}): infocal on beer/palate, seed 3"
    assert lines[2].split() == ["metric", "epoch", "recorded", "repeated", "difference"]
    shown = [line.split() for line in lines if line.startswith(("objective", "val_", "train_objective"))]
    assert [row[0] for row in shown][:3] == ["objective", "train_objective", "val_token_precision"]
    assert {(row[1], row[4]) for row in shown} == {("2", "0")}
    assert "note: the weights of the best epoch are identical (byte comparison)" in lines
    num_metrics = int(lines[-1].split()[4])
    assert lines[-1] == f"agrees bit for bit: {num_metrics} metrics over 2 epochs"
    assert num_metrics > 50


@pytest.mark.parametrize(
    "run",
    [
        run_settings(method="bernoulli", hold_rate=True, base={"target_selection_rate": 0.3}),
        run_settings(method="hardkuma"),
        dataclasses.replace(run_settings(method="fresh", num_epochs=3), base=FRESH),
        run_settings(method="infocal-no-adv"),
    ],
    ids=lambda run: run.method,
)
def test_every_kind_of_run_is_reproduced(
    tracker: Tracker, run: RunSettings, capsys: pytest.CaptureFixture[str]
):
    assert reproduce.main(flags(tracker, record_trial(tracker, run))) == 0
    assert verdict(capsys).startswith("agrees bit for bit: ")


def test_a_trial_that_was_stopped_early_is_trained_as_long(
    tracker: Tracker, capsys: pytest.CaptureFixture[str]
):
    run_id = record_trial(tracker, run_settings(num_epochs=50), stop_after=2)
    assert reproduce.main(flags(tracker, run_id)) == 0
    said = capsys.readouterr()
    assert said.out.endswith(" metrics over 2 epochs\n")


@pytest.mark.parametrize(("dense", "num_logged"), [(0.0, 0), (1.0, 1)])
def test_a_failure_is_reproduced(
    tracker: Tracker, dense: float, num_logged: int, capsys: pytest.CaptureFixture[str]
):
    run_id = record_trial(tracker, run_settings(num_epochs=4, base=FAILS | {"dense_epochs": dense}))
    assert tracker.run(run_id).tags["failure"] == "degenerate_all"
    assert reproduce.main(flags(tracker, run_id)) == 0
    out = capsys.readouterr().out
    failed = (
        f"degenerate_all at epoch {num_logged + 1} (the selector has collapsed: (nearly) all tokens "
        f"have p >= 0.5)"
    )
    assert f"note: recorded training: {failed}; repeated training: {failed}" in out
    assert out.splitlines()[-1].startswith("agrees bit for bit: ")


def test_an_error_that_has_no_name_is_reproduced_by_another_error(
    tracker: Tracker, trial: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    tags = {"failure": "error", "failure_message": "RuntimeError: it broke"}
    run_id = record_trial(tracker, run_settings(num_epochs=3), stop_after=1, tags=tags)
    assert reproduce.main(flags(tracker, run_id)) == 1
    assert verdict(capsys) == (
        "differs: the recorded training had error at epoch 2 (RuntimeError: it broke), "
        "the repeated training had no failure"
    )
    real = Trial.epoch

    def breaks(self: Trial, midway: Any = None) -> Epoch:
        if self.trainer.epoch == 1:
            raise RuntimeError("it broke again")
        return real(self, midway)

    monkeypatch.setattr(Trial, "epoch", breaks)
    assert reproduce.main(flags(tracker, run_id)) == 0
    assert "repeated training: error at epoch 2 (RuntimeError: it broke again)" in capsys.readouterr().out
    with pytest.raises(RuntimeError, match="it broke again"):
        reproduce.main(flags(tracker, trial))


def test_features_that_are_gone_are_built_again_with_the_language_models_scores(
    tracker: Tracker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    copy = tmp_path / "copy"
    shutil.copytree(sample_features().directory, copy)
    run = run_settings(features_dir=str(copy), origin=origin.origin_of(sample_features()))
    run_id = record_trial(tracker, dataclasses.replace(run, features_uri=""))
    shutil.rmtree(copy)
    assert reproduce.main(flags(tracker, run_id, cache=tmp_path / "cache")) == 0
    assert verdict(capsys).startswith("agrees bit for bit: ")
    assert list((tmp_path / "cache" / "features").glob("*/derived/lm*")), "the model was trained here"


# -------------------------------------------------------------------------------------------- differs


def test_a_changed_metric_is_found(
    tracker: Tracker, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
):
    run_id = record_trial(tracker, run_settings(), change=off_by(0.25))
    with caplog.at_level(logging.INFO, "pipeline.comparing.repetition"):
        assert reproduce.main(flags(tracker, run_id)) == 1
    out = capsys.readouterr().out
    assert out.splitlines()[-1].startswith("differs: first at epoch 2 in val_mse (recorded training 0.3")
    assert "note: largest difference by epoch: 0.0e+00 at epoch 1, 2.5e-01 at epoch 2\n" in out
    first, second = (r.getMessage() for r in caplog.records if r.getMessage().startswith("epoch "))
    assert first.startswith("epoch 1/2  ")
    assert "  as recorded; about " in first
    assert second.endswith("  largest difference 0.25")


def test_a_small_difference_agrees_within_the_tolerance(tracker: Tracker, capsys: pytest.CaptureFixture[str]):
    run_id = record_trial(tracker, run_settings(), change=off_by(1e-7, epoch=0))
    assert reproduce.main(flags(tracker, run_id)) == 0
    line = verdict(capsys)
    assert line.startswith("agrees within 0.001: ") and line.endswith(
        "difference is 1e-07 at epoch 1 in val_mse"
    )
    assert reproduce.main(flags(tracker, run_id, "--tolerance", "0")) == 1
    assert verdict(capsys).startswith("differs: first at epoch 1 in val_mse")
    assert reproduce.main(flags(tracker, run_id, "--tolerance", "1e-8")) == 1


def test_a_failure_that_does_not_come_back_is_a_difference(
    tracker: Tracker, capsys: pytest.CaptureFixture[str]
):
    tags = {"failure": "non_finite", "failure_message": "non_finite: epoch 1: {'objective': nan}"}
    run_id = record_trial(tracker, run_settings(num_epochs=3), stop_after=1, tags=tags)
    assert reproduce.main(flags(tracker, run_id)) == 1
    assert verdict(capsys) == (
        "differs: the recorded training had non_finite at epoch 2 ({'objective': nan}), "
        "the repeated training had no failure"
    )


# ------------------------------------------------------------------------------------------- said about


def test_another_commit_and_another_machine_are_said(
    tracker: Tracker,
    trial: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr("pipeline.comparing.repetition.git_commit", lambda: "1" * 40)
    monkeypatch.setattr("platform.python_version", lambda: "3.99.0")
    monkeypatch.setattr("pipeline.comparing.repetition.train", lambda *given: None)
    assert reproduce.main(flags(tracker, trial, "--threads", "2")) == 1
    out = capsys.readouterr().out
    for text in (
        f"the code differs: commit {'0' * 40} in the recorded training, {'1' * 40} now",
        "num_threads was 1 in the recorded training and is 2 now",
    ):
        assert f"note: {text}\n" in out
        assert f"warning: {text}" in caplog.messages, "said before hours of training, not after"
    assert " in the recorded training and is 3.99.0 now\n" in out


@pytest.mark.parametrize("commit", ["unknown", "2" * 40 + "-dirty"])
def test_code_that_is_not_known_is_said(
    tracker: Tracker, commit: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("pipeline.comparing.repetition.git_commit", lambda: commit)
    run_id = record_trial(tracker, run_settings(num_epochs=1), tags={"git_commit": commit})
    assert reproduce.main(flags(tracker, run_id)) == 0
    assert (
        f"the current code is {commit}; the run does not record the exact code with which it was trained"
        in capsys.readouterr().out
    )


def test_json_holds_every_metric_of_every_epoch(
    tracker: Tracker, trial: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    target = tmp_path / "found.json"
    assert reproduce.main(flags(tracker, trial, "--json", str(target))) == 0
    assert capsys.readouterr().out.startswith("run trial-00")
    written = json.loads(target.read_text())
    assert (written["run_id"], written["seed"], written["agrees"]) == (trial, 3, True)
    assert written["verdict"] == "bit_for_bit"
    assert written["same_weights"] is True
    assert written["first_difference"] is None
    assert written["environment"]["recorded"] == written["environment"]["again"]
    assert written["git_commit"]["recorded"] == "0" * 40
    values = {(cell["epoch"], cell["metric"]): cell["recorded"] for cell in written["cells"]}
    assert values[1, "val_mse"] == tracker.run(trial).metrics["val_mse"]
    assert not {"epoch_s", "train_s", "tokens_per_s"} & {metric for _, metric in values}
    assert reproduce.main(flags(tracker, trial, "--json", "-")) == 0
    assert json.loads(capsys.readouterr().out) == written


def test_nothing_is_logged(tracker: Tracker, trial: str):
    before = tracker.run(trial)
    assert reproduce.main(flags(tracker, trial)) == 0
    assert tracker.run(trial) == before
    assert tracker.history(trial, "val_mse") == sorted(set(tracker.history(trial, "val_mse")))


def test_the_model_is_kept_where_it_is_asked_for(tracker: Tracker, trial: str, tmp_path: Path):
    output = tmp_path / "models" / "again"
    assert reproduce.main(flags(tracker, trial, "--output", str(output))) == 0
    package = checkpoints.load_package(output)
    assert (package.metadata["run_id"], package.metadata["sample"]) == (trial, True)
    assert package.metadata["data_fingerprint"] == sample_features().fingerprint
    assert [path.name for path in output.parent.iterdir()] == ["again"], "no working folder is left"


def test_a_failure_before_the_first_epoch_leaves_no_model(
    tracker: Tracker, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    run_id = record_trial(tracker, run_settings(num_epochs=4, base=FAILS | {"dense_epochs": 0.0}))
    assert reproduce.main(flags(tracker, run_id, "--output", str(tmp_path / "again"))) == 0
    assert "no model to keep: no epoch was finished" in caplog.messages
    assert list(tmp_path.iterdir()) == []


# --------------------------------------------------------------------------------------------- refused


def test_other_data_are_refused_before_anything_is_trained(
    tracker: Tracker, trial: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    write_beer(tmp_path / "beer", seed=5)
    assert run_command(reproduce.main, flags(tracker, trial, "--data-dir", str(tmp_path))) == 2
    said = capsys.readouterr()
    wanted = sample_features().fingerprint[:16]
    assert f"error: --data-dir {tmp_path}: the run was trained on features {wanted}, but " in said.err
    assert "\nhint: " in said.err
    assert said.out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--run", "nope"], "error: there is no run `nope`"),
        (
            ["--run", "nope"],
            "check whether the run is in another store (`--sample`, `--storage`, `--tracking-uri`)",
        ),
        (["--run", "x", "--tolerance", "-1"], "--tolerance: expected a number of 0 or more, but got '-1'"),
        (
            ["--run", "x", "--json", "missing/a.json"],
            "error: --json missing/a.json: there is no folder `missing`",
        ),
        (["--run", "x", "--output", "."], "error: --output: `.` exists already"),
        (["--run", "x", "--device", "tpu"], "--device: expected auto, cpu, cuda or cuda:N, but got 'tpu'"),
        ([], "error: the following arguments are required: --run"),
    ],
)
def test_mistakes_are_named(
    tracker: Tracker, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
):
    assert run_command(reproduce.main, ["--tracking-uri", tracker.uri, *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert run_command(reproduce.main, ["--run", "x", "--storage", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert "error: there is no tracking database" in said and "`--sample`: runs/sample" in said
    assert list(tmp_path.iterdir()) == []

import argparse
import contextlib
import dataclasses
import json
import os
import re
import shlex
import signal
import socket
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy.exc
import torch

from feature_store.sample import write_beer
from pipeline import search
from pipeline.base.errors import PipelineError, run_command
from pipeline.base.storage import Storage
from pipeline.cli import planning, search_settings
from pipeline.study import cluster, conduct, optuna_export
from pipeline.study.ledger import LEDGER, Ledger
from pipeline.study.optuna_export import Export
from pipeline.study.study_folder import SETTINGS, StudyFolder
from pipeline.study.study_settings import StudySettings
from pipeline.tracking import export_place, model_registry
from search_spaces.infocal import PAPER_BEER_BEST
from tests.small_ledger import an_epoch, train
from tests.small_store import sample_cache, store_with_model
from tests.small_study import POINT, run_settings, study_settings

PALATE = ["--dataset", "beer", "--aspect", "palate"]
AT_A_URI = ["--tracking-uri", "http://127.0.0.1:9", "--storage"]
SAMPLE = [*PALATE, "--sample", "--embedding", "random", "--cache-dir", str(sample_cache())]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("INFOCAL_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture(autouse=True)
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Addresses for which a Ray would have been started ahead; none is."""
    asked: list[str | None] = []

    def started_ahead(address: str | None) -> contextlib.nullcontext[None]:
        asked.append(address)
        return contextlib.nullcontext()

    monkeypatch.setattr(cluster, "started_ahead", started_ahead)
    return asked


# -------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (
            ["--dataset", "ber", "--aspect", "palate"],
            "no dataset `ber`; the data sets are `beer`",
            "--dataset beer",
        ),
        (["--aspect", "palat"], "no aspect `palat` in dataset `beer`", "--aspect palate"),
        ([], "dataset `beer` needs an aspect: `appearance`", "add `--aspect NAME`"),
        ([*PALATE, "--method", "infocall"], "--method: unknown method `infocall`", "--method infocal"),
        ([*PALATE, "--space", "pape"], "--space: unknown search space `pape`", "--space paper"),
        ([*PALATE, "--set", "hidden_size"], "--set: expected KEY=VALUE", "for instance"),
        ([*PALATE, "--set", "hiden_size=4"], "--set: unknown hyper-parameter `hiden_size`", "--dry-run"),
        ([*PALATE, "--set", "hidden_size=0"], "--set: `hidden_size` must be > 0, but got 0", "--dry-run"),
        ([*PALATE, "--config", "no.toml"], "--config no.toml: cannot read the file", "TOML"),
        (
            [*PALATE, "--sampler", "grid", "--method", "hardkuma", "--space", "wide"],
            "--sampler grid: range of `",
            "use `--sampler tpe`, or a space in which every range has a `step`, such as `--space paper`",
        ),
        ([*PALATE, "--set", "lambda_g=1.0"], "--set: `lambda_g` is searched over", "pipeline.train"),
        (
            [*PALATE, "--storage", "s3://b/x"],
            "--tracking-uri: `--storage s3://b/x` needs an MLflow server",
            "http://HOST",
        ),
        ([*PALATE, *AT_A_URI, "ftp://host/x"], "--storage ftp://host/x: expected a URI that", "s3://"),
        ([*PALATE, *AT_A_URI, "s3://b/x?secret_key=k"], "--storage: expected a URI without", "AWS_ACCESS"),
        ([*PALATE, "--sample", "--optuna-storage", "x.db"], "--optuna-storage: expected a URL", "sqlite:///"),
        (["--resume"], "--resume: expected the name of the study, but got none", "add `--name NAME`"),
        (PALATE, "no data folder was named for dataset `beer`", "--data-dir"),
    ],
)
def test_a_mistake_is_one_line_with_a_hint_and_leaves_nothing_behind(
    arguments: list[str],
    message: str,
    hint: str,
    empty_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.delenv("INFOCAL_DATA", raising=False)
    assert run_command(search.main, arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    first, empty, last = captured.err.strip().splitlines()[-3:]
    assert first.startswith(f"error: {message}")
    assert empty == ""
    assert last.startswith("hint: ")
    assert hint in last
    assert captured.err.count("error:") == 1
    assert "Traceback" not in captured.err
    assert list(empty_folder.iterdir()) == []


DID_YOU_MEAN = {"tpee": "did you mean `--sampler tpe`?", "3": "did you mean `--trials`?"}
"""Value of a bad flag -> hint."""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trials", "0"], "argument --trials: expected a whole number above 0, but got '0'"),
        (["--epochs", "0"], "argument --epochs: expected a whole number above 0, but got '0'"),
        (["--seeds", "-1"], "argument --seeds: expected `auto` or a whole number above 0, but got '-1'"),
        (
            ["--min-precision", "1.5"],
            "argument --min-precision: expected a number from 0 to 1",
        ),
        (["--cpus-per-trial", "-1"], "argument --cpus-per-trial: expected a number above 0, but got '-1'"),
        (
            ["--gpus-per-trial", "x"],
            "argument --gpus-per-trial: expected `auto` or a number of 0 or more, but got 'x'",
        ),
        (
            ["--gpus-per-trial", "1.5"],
            "argument --gpus-per-trial: expected a whole number of GPUs or a fraction below 1, but got '1.5'",
        ),
        (["--device", "tpu"], "argument --device: expected auto, cpu, cuda or cuda:N, but got 'tpu'"),
        (["--sampler", "tpee"], "argument --sampler: invalid choice: 'tpee'"),
        (["--trial", "3"], "unrecognized arguments: --trial 3"),
    ],
)
def test_a_bad_flag_ends_with_2_and_leaves_nothing_behind(
    arguments: list[str], message: str, empty_folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert run_command(search.main, [*PALATE, *arguments]) == 2
    shown = capsys.readouterr().err.splitlines()
    assert shown[0].startswith(f"error: {message}")
    hint = DID_YOU_MEAN.get(arguments[-1], "`python -m pipeline.search --help` lists the flags")
    assert shown[-1] == f"hint: {hint}"
    assert list(empty_folder.iterdir()) == []


@pytest.mark.parametrize("gpus", ["0.5", "2"])
def test_gpus_for_trials_on_the_cpu_are_refused(
    gpus: str, empty_folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert run_command(search.main, [*SAMPLE, "--device", "cpu", "--gpus-per-trial", gpus]) == 2
    said = capsys.readouterr().err
    message = f"error: --gpus-per-trial {gpus}: expected no GPUs with `--device cpu`, but got {gpus}"
    assert said.startswith(f"{message}\n\nhint: leave out `--gpus-per-trial`")
    assert list(empty_folder.iterdir()) == []


def test_debug_shows_where_a_mistake_was_found(capsys: pytest.CaptureFixture[str]):
    assert run_command(search.main, ["--debug", *PALATE, "--space", "pape"]) == 2
    assert "Traceback (most recent call last)" in capsys.readouterr().err
    assert run_command(search.main, [*PALATE, "--space", "pape"]) == 2
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seeds", "stored", "line"),
    [
        ("1", (1, False), None),
        ("3", (3, False), "seeds        3 for the best trial"),
        (
            "auto",
            (1, True),
            "seeds        the best 4 trials are trained with further seeds and compared by their mean: at "
            "most 8 further trainings",
        ),
    ],
)
def test_seeds_are_a_number_or_a_race(
    seeds: str,
    stored: tuple[int, bool],
    line: str | None,
    conducted: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
):
    search.main([*SAMPLE, "--seeds", seeds])
    prepared = conducted[0]["prepared"]
    assert (prepared.num_seeds, prepared.is_raced) == stored
    search.main([*SAMPLE, "--seeds", seeds, "--dry-run"])
    said = [one for one in capsys.readouterr().out.splitlines() if one.startswith("seeds")]
    assert said == ([] if line is None else [line])


def test_one_trial_has_no_race(capsys: pytest.CaptureFixture[str]):
    search.main([*SAMPLE, "--seeds", "auto", "--trials", "1", "--dry-run"])
    assert "`--seeds auto` has no effect" in capsys.readouterr().out


LIGHT = """
import json, sys
from pipeline import search
from pipeline.base.errors import PipelineError, run_command
code = run_command(search.main, sys.argv[1:])
print(json.dumps([code, [name for name in ("torch", "ray", "mlflow", "optuna") if name in sys.modules]]))
"""


@pytest.mark.parametrize(
    "mistake", [["--aspect", "palat"], [*PALATE, "--set", "hiden_size=4"], ["--resume", "--name", "x"]]
)
def test_a_mistake_is_found_before_anything_heavy_is_loaded(mistake: list[str]):
    root = Path(search.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", LIGHT, *mistake], cwd=root, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [2, []]


# ------------------------------------------------------------------------------------------------ plan


def test_a_dry_run_prints_the_plan_and_writes_nothing(empty_folder: Path, capsys: pytest.CaptureFixture[str]):
    arguments = [*SAMPLE, "--dry-run", "--name", "first", "--trials", "7", "--epochs", "9", "--seed", "5"]
    assert search.main([*arguments, "--set", "hidden_size=16", "--min-precision", "0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "study        first  (infocal on beer/palate)"
    assert "results      runs/sample/studies/first" in lines
    assert f"tracking     sqlite:///{empty_folder.resolve()}/runs/sample/mlflow.db" in lines
    assert "trials       7, each of 9 epochs" in lines
    assert "sampler      tpe, seed 5" in lines
    assert any(line.startswith("criterion") and "val_token_precision >= 0.5" in line for line in lines)
    assert any(line.split()[:2] == ["hidden_size", "16"] for line in lines)
    (first,) = (line for line in lines if line.startswith("first"))
    assert first.split(None, 1)[1] == ", ".join(f"{name} = {x:g}" for name, x in PAPER_BEER_BEST.items())
    searched, fixed = "\n".join(lines).split("\nsearched\n")[1].split("\nfixed\n")
    for name in PAPER_BEER_BEST:
        assert name in searched
        assert name not in fixed
    assert list(empty_folder.iterdir()) == []


def test_real_results_lie_apart_from_those_of_the_sample(
    empty_folder: Path, capsys: pytest.CaptureFixture[str]
):
    write_beer(empty_folder / "data" / "beer", seed=3, num_reviews=60, num_annotated=30)
    search.main([*PALATE, "--data-dir", "data", "--dry-run", "--name", "first"])
    assert "results      runs/studies/first" in capsys.readouterr().out.splitlines()


# ----------------------------------------------------------------------------------------- what is run


def test_a_model_of_another_corpus_is_refused_before_a_rival_or_a_language_model_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    tracker, version = store_with_model(tmp_path / "runs" / "sample")
    model_registry.tag(tracker, version, {"task_kind": "classification", "classes": "billing, technical"})
    for module, name in ((search_settings, "with_rival"), (conduct, "conduct")):
        monkeypatch.setattr(module, name, lambda *given, **more: pytest.fail("it went on"))
    assert run_command(search.main, [*SAMPLE, "--trials", "1", "--epochs", "12"]) == 2
    said = capsys.readouterr().err
    assert (
        "--model-name: the registered model `infocal-beer-palate` is for another task or corpus: a task of "
        "kind class" in said
    )
    with pytest.raises(pytest.fail.Exception, match="it went on"):
        run_command(search.main, [*SAMPLE, "--model-name", "another", "--epochs", "12"])


@pytest.fixture
def conducted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What would be conducted; only the study's settings are stored, as `conduct.conduct` does."""
    calls: list[dict[str, Any]] = []

    def conducting(prepared: StudySettings, folder: StudyFolder, uri: str, **given: Any) -> str:
        directory = folder.directory
        directory.mkdir(parents=True, exist_ok=True)
        (directory / LEDGER).mkdir(exist_ok=True)
        prepared.save(directory)
        calls.append({"prepared": prepared, "directory": directory, "uri": uri, **given})
        return "the table"

    monkeypatch.setattr(conduct, "conduct", conducting)
    monkeypatch.setattr(
        planning, "with_features", lambda given, run: dataclasses.replace(run, features_dir="/features/built")
    )
    return calls


def test_the_flags_become_a_stored_study(
    empty_folder: Path, conducted: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
):
    arguments = [*SAMPLE, "--name", "first", "--trials", "3", "--seeds", "2", "--sampler", "random"]
    flags = ["--max-concurrent", "2", "--cpus-per-trial", "2", "--gpus-per-trial", "0.5", "--address", "auto"]
    assert search.main([*arguments, *flags]) == 0
    (call,) = conducted
    prepared = call["prepared"]
    assert (prepared.num_trials, prepared.num_seeds, prepared.sampler) == (3, 2, "random")
    assert (prepared.max_concurrent, prepared.cpus_per_trial, prepared.gpus_per_trial) == (2, 2.0, 0.5)
    assert prepared.run.num_threads == 2, "as many threads as cores"
    assert prepared.run.gpu_memory_rate == 0.5, "of the card's memory no more than of the card"
    assert prepared.run.checkpoint_s == 60.0
    assert not prepared.packs_gpus
    assert prepared.run.features_dir == "/features/built"
    assert prepared.first_points == [PAPER_BEER_BEST]
    assert prepared.command == "python -m pipeline.search " + " ".join([*arguments, *flags])
    assert (call["address"], call["resume"]) == ("auto", False)
    assert call["directory"] == Path("runs/sample/studies/first")
    assert StudySettings.load(empty_folder / "runs/sample/studies/first", "first") == prepared
    assert capsys.readouterr().out == "the table\n", "stdout holds the result alone"


def test_how_often_trials_keep_their_state_is_stored(conducted: list[dict[str, Any]]):
    search.main([*SAMPLE, "--checkpoint-every", "0"])
    assert conducted[0]["prepared"].run.checkpoint_s == 0.0


@pytest.mark.parametrize(("gpus", "rate"), [("0", 1.0), ("0.25", 0.25), ("1", 1.0), ("2", 1.0)])
def test_who_shares_a_card_holds_its_share_of_the_memory(
    gpus: str, rate: float, conducted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(cluster, "num_local_gpus", lambda: 2)
    search.main([*SAMPLE, "--gpus-per-trial", gpus])
    assert conducted[0]["prepared"].run.gpu_memory_rate == rate


@pytest.mark.parametrize(
    ("flags", "chooses", "device"),
    [
        ([], True, "auto"),
        (["--address", "10.0.0.1:6379"], True, "auto"),
        (["--device", "cpu"], False, "cpu"),
        (["--gpus-per-trial", "0"], False, "cpu"),
        (["--gpus-per-trial", "0.5"], False, "auto"),
    ],
)
def test_gpus_are_chosen_where_no_flag_says_how_many(
    flags: list[str],
    chooses: bool,
    device: str,
    conducted: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(cluster, "num_local_gpus", lambda: 2)
    search.main([*SAMPLE, *flags])
    prepared = conducted[0]["prepared"]
    assert (prepared.chooses_gpus, prepared.packs_gpus, prepared.run.device) == (chooses, False, device)


@pytest.mark.parametrize(
    ("flags", "num_gpus", "line"),
    [
        ([], 0, "none here: trials run on the CPU"),
        ([], 2, "2; the GPU memory of one trial is measured, then each GPU runs as many trials as fit"),
        (
            ["--address", "10.0.0.1:6379"],
            0,
            "GPUs of the cluster; the GPU memory of one trial is measured, then each GPU runs as many "
            "trials as fit",
        ),
        (["--device", "cpu"], 2, "none (device cpu)"),
        (["--gpus-per-trial", "0.5"], 2, "0.5 for each trial (device auto)"),
        (["--device", "cuda:1"], 2, "every trial on cuda:1, as many at once as there are cores for"),
    ],
)
def test_the_plan_says_what_gpus_trials_get(
    flags: list[str],
    num_gpus: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    empty_folder: Path,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(cluster, "num_local_gpus", lambda: num_gpus)
    monkeypatch.setattr(cluster, "check_address", lambda address: None)
    monkeypatch.setattr(planning, "check_device", lambda run, address: None)
    assert search.main([*SAMPLE, "--dry-run", *flags]) == 0
    assert f"GPUs         {line}" in capsys.readouterr().out


def test_automatic_packing_is_stored_and_left_to_the_cluster(
    empty_folder: Path, conducted: list[dict[str, Any]]
):
    search.main([*SAMPLE, "--name", "first", "--gpus-per-trial", "auto", "--address", "10.0.0.1:6379"])
    stored = StudySettings.load(empty_folder / "runs/sample/studies/first", "first")
    assert (stored.packs_gpus, stored.gpus_per_trial, stored.run.gpu_memory_rate) == (True, 0.0, 1.0)
    assert conducted[0]["prepared"] == stored


@pytest.mark.parametrize(
    ("flags", "message", "hint"),
    [
        (
            [],
            "torch .* sees no GPU on this machine",
            "leave out the flag, or name a cluster with `--address`",
        ),
        (
            ["--device", "cpu", "--address", "10.0.0.1:6379"],
            "this flag needs GPUs that Ray chooses, but `--device` is cpu",
            "use `--device auto`",
        ),
    ],
)
def test_automatic_packing_without_a_gpu_is_refused_before_anything_is_built(
    flags: list[str],
    message: str,
    hint: str,
    empty_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run_command(search.main, [*SAMPLE, "--gpus-per-trial", "auto", *flags]) == 2
    said = capsys.readouterr().err
    assert re.search(f"^error: --gpus-per-trial auto: {message}\n\nhint: {hint}\n$", said, re.M)
    assert list(empty_folder.iterdir()) == []


def test_a_study_is_kept_and_resumed_at_a_uri(
    empty_folder: Path, conducted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("INFOCAL_CACHE", "")  # undone at the end: the command sets it
    there = (empty_folder / "store").as_uri()
    place = ["--storage", there, "--tracking-uri", "sqlite:///own.db", "--name", "first"]
    search.main([*SAMPLE, *place, "--trials", "3"])
    study = Storage(there).opened() / "studies/first"
    (study / LEDGER / "0000-a.jsonl").write(b"")
    stored = dataclasses.replace(
        conducted[0]["prepared"],
        run=dataclasses.replace(
            conducted[0]["prepared"].run, features_uri="s3://old/features/beer-palate-1?endpoint_override=x"
        ),
    )
    stored.save(empty_folder)
    (study / SETTINGS).upload(empty_folder / SETTINGS)
    search.main(["--sample", "--resume", *place])
    resumed = conducted[1]["prepared"]
    assert (resumed.num_trials, conducted[1]["resume"]) == (3, True)
    assert resumed.run.features_uri == f"{there}/features/beer-palate-1", "in the storage as it is called now"
    assert not Path(conducted[1]["directory"]).is_relative_to(empty_folder), "a working folder"
    assert os.environ["INFOCAL_CACHE"] == str(sample_cache()), "a private Ray looks there as well"


def test_a_study_of_the_sample_stays_one_when_it_is_resumed(
    empty_folder: Path, conducted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    """Killed before it had features: real data that the environment names must not take their place."""
    place = ["--name", "first", "--storage", "runs"]
    search.main([*SAMPLE, *place])
    study = empty_folder / "runs/studies/first"
    without = dataclasses.replace(conducted[0]["prepared"].run, features_dir="")
    dataclasses.replace(conducted[0]["prepared"], run=without).save(study)
    monkeypatch.setenv("INFOCAL_DATA", str(empty_folder / "real"))
    search.main(["--resume", *place])
    assert conducted[1]["prepared"] == conducted[0]["prepared"]


def test_the_finished_study_is_exported(
    empty_folder: Path, conducted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    exported: list[Any] = []
    monkeypatch.setattr(Export, "run", lambda self, database: exported.append((self, database)))
    url = f"sqlite:///{empty_folder}/team.db"
    search.main([*SAMPLE, "--name", "first", "--optuna-storage", url])
    ((export, database),) = exported
    origin = f"{socket.gethostname()}:{empty_folder}/runs/sample/studies/first"
    assert (export.url, export.name, export.origin) == (url, "first", origin)
    assert database == Path("runs/sample/studies/first/optuna.db")


def test_an_export_that_fails_names_the_command_that_exports(
    conducted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def full(self: Export, database: Path) -> None:
        with optuna_export._translated(self.url):
            cause = sqlite3.OperationalError("database or disk is full")
            raise sqlalchemy.exc.OperationalError("INSERT INTO studies ...", {}, cause)

    monkeypatch.setattr(Export, "run", full)
    assert run_command(search.main, [*SAMPLE, "--name", "first", "--optuna-storage", "sqlite:///a.db"]) == 2
    error, _, hint = capsys.readouterr().err.splitlines()
    assert error.endswith("cannot use the Optuna storage `sqlite:///a.db`: database or disk is full")
    assert hint.startswith(
        "hint: delete files on this disk; the study is complete; to export it, run: python -m pipeline."
    )


def test_a_password_is_not_stored_with_the_study(
    conducted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Export, "check", lambda self: None)
    monkeypatch.setattr(Export, "run", lambda self, database: None)
    monkeypatch.setattr(export_place, "check", lambda url: None)  # there is no such server
    search.main([*SAMPLE, "--optuna-storage", "postgresql://ada:hush@host/db"])
    assert "hush" not in json.dumps(dataclasses.asdict(conducted[0]["prepared"]))
    assert "postgresql://ada:***@host/db" in conducted[0]["prepared"].command


def test_what_libraries_print_goes_to_stderr(
    conducted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def chatty(*given: Any, **more: Any) -> str:
        print("a node died")
        return "the table"

    monkeypatch.setattr("pipeline.study.conduct.conduct", chatty)
    search.main(SAMPLE)
    captured = capsys.readouterr()
    assert captured.out == "the table\n" and "a node died" in captured.err


def test_half_a_core_still_has_a_thread(conducted: list[dict[str, Any]]):
    search.main([*SAMPLE, "--cpus-per-trial", "0.5"])
    assert conducted[0]["prepared"].run.num_threads == 1


def test_a_point_outside_the_space_is_not_tried_first(
    conducted: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        search_settings.lookup,
        "first_points",
        lambda method, dataset: [PAPER_BEER_BEST | {"lambda_g": 99.0}, PAPER_BEER_BEST],
    )
    search.main(SAMPLE)
    assert conducted[0]["prepared"].first_points == [PAPER_BEER_BEST]


def test_a_study_that_is_there_is_not_overwritten(
    empty_folder: Path,
    ahead: list[str | None],
    conducted: list[dict[str, Any]],
    capsys: pytest.CaptureFixture[str],
):
    search.main([*SAMPLE, "--name", "first", "--trials", "3"])
    capsys.readouterr()
    assert run_command(search.main, [*SAMPLE, "--name", "first", "--trials", "9"]) == 2
    assert capsys.readouterr().err == (
        "error: --name: there is a study `first` already\n\nhint: choose another name, or add `--resume`\n"
    )
    assert StudySettings.load(empty_folder / "runs/sample/studies/first", "first").num_trials == 3
    assert len(conducted) == 1
    assert ahead == [None], "only the search that begins"


def test_a_resumed_study_is_the_stored_one(
    ahead: list[str | None], conducted: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
):
    search.main([*SAMPLE, "--name", "first", "--trials", "3"])
    search.main(["--sample", "--name", "first", "--resume", "--trials", "9"])
    assert ahead == [None], "what is resumed may have nothing left to train"
    first, second = conducted
    assert second["resume"] is True
    assert second["prepared"] == first["prepared"]
    said = "note: with `--resume`, `--trials` has no effect: the study keeps its first settings"
    assert caplog.messages.count(said) == 1
    search.main(["--sample", "--name", "first", "--resume", "--trials", "9", "--epochs", "7"])
    assert any("`--epochs`, `--trials` have no effect" in one for one in caplog.messages)
    caplog.clear()
    search.main(["--sample", "--name", "first", "--resume", "--address", "auto"])
    assert not [one for one in caplog.messages if "has no effect" in one]


@pytest.fixture
def dies_while_features_are_built(conducted: list[Any], monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The flags that features are built with; the first build ends as by `kill -9`: nothing is cleaned up."""
    built: list[Any] = []

    def with_features(given: Any, run: Any) -> Any:
        built.append(given)
        if len(built) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return dataclasses.replace(run, features_dir=f"/features/{given.embedding}-{given.data_dir}")

    monkeypatch.setattr(planning, "with_features", with_features)
    return built


def test_a_resumed_study_is_tracked_and_exported_where_it_was(
    conducted: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    exports: list[str] = []
    monkeypatch.setattr(search_settings, "export_of", lambda url, *_: exports.append(url))
    tracked, moved = f"sqlite:///{tmp_path}/a b.db", f"sqlite:///{tmp_path}/c.db"
    places = ["--tracking-uri", tracked, "--optuna-storage", f"sqlite:///{tmp_path}/optuna.db"]
    search.main([*SAMPLE, "--name", "first", *places])
    search.main(["--sample", "--name", "first", "--resume"])
    search.main(["--sample", "--name", "first", "--resume", "--tracking-uri", moved])
    assert [call["uri"] for call in conducted] == [tracked, tracked, moved]
    assert exports == [places[-1]] * 3
    assert [shlex.split(call["commands"].resume)[4:] for call in conducted[1:]] == [
        ["--name", "first", "--storage", "runs/sample", "--tracking-uri", uri] for uri in (tracked, moved)
    ]


def test_a_stored_command_that_is_none_is_named(
    conducted: list[dict[str, Any]], empty_folder: Path, capsys: pytest.CaptureFixture[str]
):
    search.main([*SAMPLE, "--name", "first"])
    study = empty_folder / "runs/sample/studies/first"
    for command in ("python -m pipeline.search 'open", "python -m pipeline.search --trials many"):
        dataclasses.replace(StudySettings.load(study, "first"), command=command).save(study)
        assert run_command(search.main, ["--sample", "--name", "first", "--resume"]) == 2
        assert f"{SETTINGS} of `first`: expected a stored command line" in capsys.readouterr().err


def test_a_study_that_died_before_its_features_were_there_is_resumed_with_its_own_flags(
    empty_folder: Path, conducted: list[dict[str, Any]], dies_while_features_are_built: list[Any]
):
    child = os.fork()
    if child == 0:
        search.main([*SAMPLE, "--name", "first", "--trials", "3"])
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    stored = StudySettings.load(empty_folder / "runs/sample/studies/first", "first")
    assert (stored.num_trials, stored.run.features_dir) == (3, "")
    dies_while_features_are_built.append(None)  # the child's own
    search.main(["--sample", "--name", "first", "--resume", "--data-dir", "moved"])
    assert conducted[0]["prepared"].run.features_dir == "/features/random-moved"
    assert conducted[0]["prepared"].num_trials == 3


def test_a_study_that_died_before_all_says_so(
    empty_folder: Path, conducted: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
):
    (empty_folder / "runs/sample/studies/first").mkdir(parents=True)
    assert run_command(search.main, ["--sample", "--name", "first", "--resume"]) == 2
    assert capsys.readouterr().err == (
        "error: --resume: the study `first` ended before anything was trained\n\nhint: leave out `--resume`\n"
    )


def test_a_study_whose_settings_are_gone_is_no_new_one(
    empty_folder: Path, capsys: pytest.CaptureFixture[str]
):
    (empty_folder / "runs/sample/studies/first/ledger").mkdir(parents=True)
    assert run_command(search.main, [*SAMPLE, "--name", "first", "--resume"]) == 2
    said = capsys.readouterr().err
    assert (
        "studies/first/study.json: this file is missing, and the study cannot be resumed without it" in said
    )
    assert "leave out `--resume`" not in said


@pytest.mark.parametrize("experiment", ["tune", "tune-2", "replicates"])
@pytest.mark.parametrize("gone", ["ledger", "the last file", "what is in it"])
def test_a_study_whose_ledger_is_gone_is_no_new_one(
    empty_folder: Path, gone: str, experiment: str, capsys: pytest.CaptureFixture[str]
):
    study = empty_folder / "runs/sample/studies/first"
    (study / experiment / "b" / "checkpoint_000000").mkdir(parents=True)
    if gone != "ledger":
        train(Ledger(study), "a", 1)
    if gone == "what is in it":
        (study / LEDGER / "0001-b.jsonl").touch()
    study_settings().save(study)
    assert run_command(search.main, [*SAMPLE, "--name", "first", "--resume"]) == 2
    said = capsys.readouterr().err
    assert "studies/first/ledger: the file of trial b is missing, and the study cannot be resumed" in said


def test_a_folder_that_an_epoch_names_is_no_lost_trial(
    empty_folder: Path, conducted: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
):
    search.main([*SAMPLE, "--name", "first"])
    study = empty_folder / "runs/sample/studies/first"
    (study / "tune-1" / "other" / "checkpoint_000000").mkdir(parents=True)
    (study / "tune" / "a" / "checkpoint_000000").mkdir(parents=True)
    ledger = Ledger(study)
    ledger.begin("a", POINT, None)
    ledger.epoch("a", an_epoch(0), "tune-1/other/checkpoint_000000", is_last=False)
    search.main(["--sample", "--name", "first", "--resume"])
    assert conducted[1]["resume"] is True


@pytest.mark.parametrize("is_begun", [False, True])
def test_an_interrupt_before_the_first_trial_says_how_to_go_on(
    empty_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_begun: bool
):
    def interrupted(given: Any, prepared: Any) -> Any:
        if is_begun:
            (empty_folder / "runs/sample/studies/first/ledger").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(search_settings, "with_features", interrupted)
    with pytest.raises(KeyboardInterrupt):
        search.main([*SAMPLE, "--name", "first"])
    assert ("no trial was started: run the same command again" in caplog.text) != is_begun
    going_on = "to resume: python -m pipeline.search --resume --name first --storage runs/sample\n"
    assert (going_on in caplog.text) == is_begun


def test_a_study_whose_features_are_gone_goes_on_with_the_same_ones_only(
    empty_folder: Path,
    conducted: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    search.main([*SAMPLE, "--name", "first"])  # its features' folder, /features/built, is nowhere
    search.main(["--sample", "--name", "first", "--resume"])
    assert conducted[1]["prepared"] == conducted[0]["prepared"]
    monkeypatch.setattr(
        planning, "with_features", lambda given, run: dataclasses.replace(run, features_dir="/features/other")
    )
    capsys.readouterr()
    assert run_command(search.main, ["--sample", "--name", "first", "--resume"]) == 2
    assert capsys.readouterr().err.endswith(
        "error: --resume --name first: the features of the study (built) are missing, and the features that "
        "can be built here (other) are different: the difference is not known, because the run does not "
        "record how its features were built\n\nhint: start a new search\n"
    )


SOURCE = {"parameters": {"seed": 0, "min_count": 1}, "digests": {"train": "a" * 64}}


@pytest.mark.parametrize(
    ("is_sample", "here", "why", "hint"),
    [
        (
            True,
            SOURCE,
            "the files and parameters are the same, but the version of `feature_store` differs",
            "start a new search, or resume with the version of this project that began the study",
        ),
        (
            False,
            SOURCE | {"digests": {"train": "b" * 64}},
            f"sha256 of train was {'a' * 16} and is {'b' * 16}",
            "use `--data-dir` to name the data folder with which the study was started",
        ),
        (
            True,
            SOURCE | {"parameters": {"seed": 1, "min_count": 1}},
            "seed was 0 and is 1",
            "start a new search",
        ),
    ],
)
def test_features_that_cannot_be_built_again_are_refused_with_the_cause(
    is_sample: bool, here: dict[str, Any], why: str, hint: str, monkeypatch: pytest.MonkeyPatch
):
    run = run_settings(features_dir="/features/built", origin=SOURCE)
    prepared = dataclasses.replace(study_settings(), run=run, sample=is_sample, name="first")
    other = dataclasses.replace(run, features_dir="/features/other", origin=here)
    monkeypatch.setattr(planning, "with_features", lambda given, run: other)
    message = f"(built) are missing, and the features that can be built here (other) are different: {why}"
    with pytest.raises(PipelineError, match=f"{re.escape(message)}$") as caught:
        search_settings.with_features(argparse.Namespace(), prepared)
    assert caught.value.hint == hint


def test_an_unknown_study_is_answered_with_the_known_ones(
    conducted: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
):
    for name in ("one", "two"):
        search.main([*SAMPLE, "--name", name])
    capsys.readouterr()
    assert run_command(search.main, ["--sample", "--name", "three", "--resume"]) == 2
    said = capsys.readouterr().err
    assert "error: --name: there is no study `three` in runs/sample/studies; known names: one, two\n" in said
    assert "hint: check that `--storage` names the storage of the study" in said
    assert run_command(search.main, ["--name", "three", "--resume"]) == 2
    assert "in runs/studies; known names: none" in capsys.readouterr().err


def test_where_results_will_be_is_said_first(conducted: list[dict[str, Any]], caplog: Any):
    with caplog.at_level("INFO"):
        search.main([*SAMPLE, "--name", "first"])
    assert caplog.messages[0].startswith("results: runs/sample/studies/first\ntracking: sqlite:///")


@pytest.mark.parametrize("flags", [["--dry-run"], []])
def test_a_device_that_cannot_do_it_is_refused_before_anything_is_built(
    flags: list[str], empty_folder: Path, capsys: pytest.CaptureFixture[str]
):
    arguments = [*PALATE, "--sample", "--bf16", "--device", "cpu", *flags]
    assert run_command(search.main, arguments) == 2
    assert "error: --bf16: bf16 autocast needs a CUDA device" in capsys.readouterr().err
    assert list(empty_folder.iterdir()) == []


def test_an_unknown_kernel_is_refused_before_anything_is_built(
    empty_folder: Path,
    ahead: list[str | None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("INFOCAL_KERNEL", "bogus")
    assert run_command(search.main, [*PALATE, "--sample"]) == 2
    assert (
        "error: INFOCAL_KERNEL: unknown kernel `bogus`; the kernels are auto, cpp" in capsys.readouterr().err
    )
    assert list(empty_folder.iterdir()) == []
    assert ahead == [], "a mistake does not wait for Ray"


def test_a_space_whose_starts_last_longer_than_a_trial_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    space = tmp_path / "space.toml"
    space.write_text("[support_epochs]\nlow = 4.0\nhigh = 9.0\n")
    flags = [*PALATE, "--sample", "--method", "fresh", "--space", str(space), "--epochs", "8"]
    assert run_command(search.main, [*flags, "--storage", str(tmp_path / "runs"), "--dry-run"]) == 2
    said = capsys.readouterr().err
    assert "--epochs: expected at least 10 epochs, because the space has trials whose start phase" in said
    assert "takes 9 epochs, but got 8" in said

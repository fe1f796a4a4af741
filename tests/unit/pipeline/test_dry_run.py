import http.server
import threading
from collections.abc import Iterator

import pytest

from feature_store.sample import write_beer
from pipeline import compare
from pipeline.base.errors import run_command
from pipeline.base.locations import TRACKING_VARIABLE
from pipeline.cli import planning
from pipeline.search import main
from pipeline.study import cluster
from tests.own_corpora import own_records, write_own

FLAGS = ["--dataset", "beer", "--aspect", "palate", "--dry-run"]


def test_a_dry_run_names_the_missing_files_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(main, [*FLAGS, "--data-dir", "nowhere", "--cache-dir", "cache"]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "nowhere/beer/annotations.json" in captured.err
    assert "hint: point `--data-dir`" in captured.err
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_on_the_sample_needs_no_files_and_writes_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(main, [*FLAGS, "--sample", "--cache-dir", "cache", "--trials", "7"]) == 0
    plan = capsys.readouterr().out
    assert "trials       7, each of 50 epochs" in plan
    assert "\n  lambda_ib                   0.0001 .. 0.001, step 0.0001" in plan
    fixed = plan.partition("\nfixed\n")[2].splitlines()
    assert len({len(line) - len(line[2:].partition(" ")[2].lstrip()) for line in fixed}) == 1, "one column"
    assert all(len(line.split()) > 1 for line in fixed), "a setting without a value is left out"
    assert plan.count("[Sha2023]") == 1 and plan.count("(same reason)") == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["annotations.json", "reviews.aspect2.heldout.txt"])
def test_a_dry_run_reads_every_file(tmp_path, capsys, name):
    write_beer(tmp_path / "beer", seed=3, num_reviews=60, num_annotated=30)
    flags = [*FLAGS, "--data-dir", str(tmp_path), "--cache-dir", str(tmp_path / "cache")]
    assert run_command(main, flags) == 0
    plan = capsys.readouterr().out
    assert "training     batches of " in plan and "every row was read and checked in " in plan
    assert not (tmp_path / "cache").exists()
    (tmp_path / "beer" / name).write_text("not what it should be")
    assert run_command(main, flags) == 2
    assert f"{name}:1" in capsys.readouterr().err


def test_a_dry_run_looks_for_the_word_vectors(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(main, [*FLAGS, "--sample", "--embedding", "glove.txt"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: --embedding: expected `word2vec`, `random` or the path of a text file")
    assert "but got `glove.txt`" in said


def test_a_dry_run_on_own_data_says_what_the_criterion_waits_for(tmp_path, capsys):
    flags = ["--dataset", "jsonl", "--dry-run", "--data-dir", str(tmp_path)]
    assert run_command(main, flags) == 2
    assert (
        f"no train.jsonl.gz or train.jsonl; no test.jsonl.gz or test.jsonl; no task.toml in {tmp_path}"
        in (capsys.readouterr().err)
    )
    records = own_records()
    records["val"][0] |= {"rationale": [[6, 10]]}
    write_own(tmp_path, records)
    assert run_command(main, flags) == 2
    assert "20 training texts: expected at least 236 epochs, but got " in (capsys.readouterr().err)
    assert run_command(main, [*flags, "--epochs", "300"]) == 0
    plan = capsys.readouterr().out
    assert "data         train 20 texts, " in plan
    assert "; val 3 texts, " in plan and " tokens, 1 annotated; test 3 texts" in plan
    assert "training     batches of 8, all losses at full weight after 233.5 epochs" in plan
    assert (
        "criterion    best val_token_f1 with val_token_precision >= (HardKuma's val_token_precision - 0.02), "
        "val_selection_rate >= 0.01, val_selection_rate <= 0.5, at 20 % of the tokens\n"
        "             HardKuma is trained first on the same features for 300 epochs; the result is kept "
        "beside the features\n"
    ) in plan
    assert run_command(main, [*flags, "--epochs", "300", "--criterion", "paper"]) == 0
    fixed = "val_selection_rate >= 0.01, val_selection_rate <= 0.5, at 20 % of the tokens"
    assert f"criterion    best val_token_f1 with {fixed}\n" in capsys.readouterr().out
    del records["val"][0]["rationale"]
    write_own(tmp_path, records)
    assert run_command(main, [*flags, "--epochs", "300"]) == 0
    assert "criterion    best val_macro_f1 with" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("place", "where"),
    [
        (["--tracking-uri", "sqlite:///FILE/mlflow.db"], "--tracking-uri"),
        (["--tracking-uri", "http://127.0.0.1:9"], "--tracking-uri"),
        (["--storage", "FILE/runs"], "--storage"),
        (["--optuna-storage", "sqlite:///FILE/optuna.db"], "--optuna-storage"),
        (["--optuna-storage", "sqlite:///FILE"], "--optuna-storage"),
        (["--optuna-storage", "postgresql://bob:x@127.0.0.1:9/optuna"], "--optuna-storage"),
        (["--optuna-storage", "mysql://bob:a/b@127.0.0.1:9/optuna"], "--optuna-storage"),
        (["--tracking-uri", "sqlite:///FILE"], "--tracking-uri"),
        (["--optuna-storage", "nonsense"], "--optuna-storage: expected a URL"),
        (["--optuna-storage", "mysqll://bob@h/db"], "unknown kind of database `mysqll`"),
        (["--optuna-storage", "postgres://bob:x@h/db"], "hint: did you mean `postgresql://`?"),
        (["--tracking-uri", "http://REFUSING"], "cannot use the tracking store"),
        (["--tracking-uri", "http://REFUSING"], "hint: the server does not accept this user and password"),
        (
            ["--tracking-uri", "sqlite:///both.db", "--optuna-storage", "sqlite:///./both.db"],
            "--optuna-storage: MLflow already uses",
        ),
        (["--gpus-per-trial", "1"], "--gpus-per-trial: one trial needs 1 GPU, but this machine has 0"),
        (["--optuna-storage", "journal:///FILE/o.log"], "--optuna-storage"),
        (["--optuna-storage", "journal:///none/o.log"], "there is no folder `none`"),
        (["--optuna-storage", "journal:///FILE"], "the file is not an Optuna journal"),
        (["--optuna-storage", "sqlite:///none/o.db"], "there is no folder `none`"),
    ],
)
@pytest.mark.parametrize("dry", [True, False])
def test_a_place_that_cannot_be_is_told_before_anything_is_read(
    tmp_path, monkeypatch, capsys, refusing_server, place, where, dry
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cluster, "num_local_gpus", lambda: 0)
    place = [text.replace("http://REFUSING", refusing_server) for text in place]
    (tmp_path / "FILE").write_text("no folder")
    monkeypatch.setattr(planning, "looked_at", lambda *given: pytest.fail("data were read"))
    monkeypatch.setattr(planning, "with_features", lambda *given: pytest.fail("features were built"))
    monkeypatch.setattr(cluster, "started_ahead", lambda address: pytest.fail("Ray was started"))
    flags = [flag for flag in FLAGS if dry or flag != "--dry-run"]
    assert run_command(main, [*flags, "--sample", "--cache-dir", "cache", *place]) == 2
    told = capsys.readouterr().err
    assert where in told
    assert not (any("journal" in word for word in place) and ("server" in told or "driver" in told))
    assert [path.name for path in tmp_path.iterdir()] == ["FILE"]


COMPARE = ["--methods", "infocal,fresh", "--seeds", "2", "--target-selection-rate", "0.2", "--dry-run"]


def test_a_comparison_on_own_data_is_planned_without_a_trace(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    records = own_records(num_train=300)
    records["val"][0] |= {"rationale": [[6, 10]]}
    write_own(tmp_path / "own", records)
    flags = ["--dataset", "jsonl", "--data-dir", "own", "--cache-dir", "cache", "--name", "both", *COMPARE]
    assert run_command(compare.main, flags) == 0
    plan = capsys.readouterr().out
    assert plan.startswith("comparison   both  (own)\n")
    assert plan.count("data         train 300 texts, ") == 1
    assert "criterion    best val_token_f1 with val_selection_rate >= 0.01" in plan
    assert "selection    20.0% of the tokens\n" in plan
    assert "trainings    4, each of 50 epochs: 2 methods with seeds 0, 1\n" in plan
    assert "  infocal                  batches of 8, all losses at full weight after " in plan
    assert [path.name for path in tmp_path.iterdir()] == ["own"]
    (tmp_path / "own" / "test.jsonl").write_text('{"text": "so", "label": "never seen"}\n')
    assert run_command(compare.main, flags) == 2
    assert "test.jsonl:1: expected one of the 2 classes" in capsys.readouterr().err


def test_a_comparison_that_cannot_start_is_told_by_its_plan(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_own(tmp_path / "own", own_records())
    flags = ["--dataset", "jsonl", "--data-dir", "own", *COMPARE]
    assert run_command(compare.main, flags) == 2
    assert (
        "20 training texts: expected at least 236 epochs, but got 50: the losses that shorten"
        in capsys.readouterr().err
    )
    sample = ["--aspect", "palate", "--sample", *COMPARE]
    assert run_command(compare.main, [*sample, "--tracking-uri", "http://127.0.0.1:9"]) == 2
    assert "no MLflow server answers at http://127.0.0.1:9" in capsys.readouterr().err


@pytest.fixture
def answering() -> Iterator[str]:
    """The address of a server that is well, and has no experiments."""

    class Well(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        do_POST = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Nothing is said."""

    with http.server.HTTPServer(("127.0.0.1", 0), Well) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


PLANS = {
    "search": (main, ["--aspect", "palate", "--sample", "--dry-run"]),
    "comparison": (compare.main, ["--aspect", "palate", "--sample", *COMPARE]),
    "language models": (
        compare.main,
        ["--aspect", "palate", "--sample", "--table", "language-models", "--dry-run"],
    ),
}


@pytest.mark.parametrize("given_by", ["flag", "environment"])
@pytest.mark.parametrize("kind", PLANS)
def test_no_plan_holds_a_password(kind: str, given_by: str, answering, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command, flags = PLANS[kind]
    uri = f"http://ada:hush%2Fhush@{answering}"
    if given_by == "environment" or kind == "language models":  # which takes no such flag
        monkeypatch.setenv(TRACKING_VARIABLE, uri)
    else:
        flags = [*flags, "--tracking-uri", uri]
    assert run_command(command, flags) == 0
    captured = capsys.readouterr()
    assert "hush" not in captured.out + captured.err
    assert (f"tracking     http://ada:***@{answering}\n" in captured.out) == (kind != "language models")

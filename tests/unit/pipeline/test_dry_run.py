import pytest

from pipeline.errors import run_command
from pipeline.search import main
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
    assert "trials       7 of 50 epochs" in plan
    assert "lambda_ib                0.0001 .. 0.001, step 0.0001" in plan
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["annotations.json", "reviews.aspect2.heldout.txt"])
def test_a_dry_run_reads_no_file(tmp_path, capsys, name):
    folder = tmp_path / "beer"
    folder.mkdir()
    for file in ("annotations.json", "reviews.aspect2.heldout.txt"):
        (folder / file).write_text("not what it should be")
    assert run_command(main, [*FLAGS, "--data-dir", str(tmp_path)]) == 0
    (folder / name).unlink()
    assert run_command(main, [*FLAGS, "--data-dir", str(tmp_path)]) == 2
    assert name in capsys.readouterr().err


def test_a_dry_run_looks_for_the_word_vectors(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run_command(main, [*FLAGS, "--sample", "--embedding", "glove.txt"]) == 2
    assert "as embedding, but got `glove.txt`" in capsys.readouterr().err


def test_a_dry_run_on_own_data_says_what_the_criterion_waits_for(tmp_path, capsys):
    flags = ["--dataset", "jsonl", "--dry-run", "--data-dir", str(tmp_path)]
    assert run_command(main, flags) == 2
    assert (
        f"no train.jsonl.gz or train.jsonl; no test.jsonl.gz or test.jsonl; no task.toml in {tmp_path}"
        in (capsys.readouterr().err)
    )
    write_own(tmp_path, own_records())
    assert run_command(main, flags) == 0
    plan = capsys.readouterr().out
    assert (
        "criterion    best val_token_f1 with val_selection_rate >= 0.01, val_selection_rate <= 0.5, if"
        in plan
    )

"""The classifiers of legal cases, from raw cases to a table beside InfoCal and to an explained model."""

import json
import re
import sys
from pathlib import Path

import pytest

from pipeline import evaluate, explain
from pipeline.base.errors import run_command
from tests.integration.commands import run

pytestmark = pytest.mark.slow

TASK = ["--dataset", "cail-small", "--sample", "--embedding", "random", "--task", "charges,articles,terms"]
SMALL = ["--device", "cpu", "--set", "hidden_size=8", "--epochs", "2"]
METHODS = "infocal,fla,topjudge,mpbfn_wca"
ARTICLES = {"264": "被告人 财物", "266": "被害人 财物"}


def places(folder: Path) -> list[str]:
    return ["--storage", str(folder / "runs"), "--cache-dir", str(folder / "cache")]


def articles_of_the_sample(folder: Path) -> list[str]:
    """Every article that a case of the sample has."""
    files = list((folder / "cache").rglob("data_train.json"))
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    return sorted({str(one) for line in lines for one in json.loads(line)["meta"]["relevant_articles"]})


def test_a_comparison_shows_each_target_and_what_fla_reads(tmp_path: Path):
    build = [sys.executable, "-m", "feature_store", "build", *TASK, "--cache-dir", str(tmp_path / "cache")]
    done = run(build, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    texts = {name: ARTICLES.get(name, "被告人") for name in articles_of_the_sample(tmp_path)}
    (tmp_path / "law.json").write_text(json.dumps(texts, ensure_ascii=False), "utf-8")
    command = [sys.executable, "-m", "pipeline.compare", *TASK, *SMALL, "--methods", METHODS, "--seeds", "1"]
    command += ["--set", "fla.article_texts=law.json", "--name", "law", *places(tmp_path)]
    done = run(command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr and "Warning" not in done.stderr
    stored = json.loads((tmp_path / "runs/comparisons/law/table.json").read_text("utf-8"))
    ours = {row["name"]: row["cells"] for row in stored["rows"] if row["kind"] == "ours"}
    assert list(ours) == ["InfoCal", "FLA", "TOPJUDGE", "MPBFN-WCA"]
    for cells in ours.values():
        for score in ("accuracy", "macro_f1", "articles/accuracy", "articles/macro_f1", "terms/macro_f1"):
            assert 0 <= cells[score]["mean"] <= 1
    printed = {row["name"]: row["cells"] for row in stored["rows"] if row["kind"] == "paper"}
    assert printed["[Sha2023] table 5: TOPJUDGE"]["terms/accuracy"]["mean"] == 0.380
    assert "FLA: it reads the texts of the articles" in stored["notes"]
    assert "articles macro F1" in done.stdout and "[Sha2023] table 5: MPBFN-WCA" in done.stdout


def test_a_search_ends_with_a_model_that_is_explained_in_other_ways(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    command = [
        sys.executable,
        "-m",
        "pipeline.search",
        *TASK,
        *SMALL,
        "--method",
        "topjudge",
        "--trials",
        "1",
    ]
    command += [
        "--set",
        "num_filters=8",
        "--target-selection-rate",
        "0.13",
        "--name",
        "law",
        *places(tmp_path),
    ]
    done = run(command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (model,) = re.findall(r"registered (\S+) version 1", done.stdout)
    assert model == "topjudge-cail-small-charges-articles-terms"
    asked = ["--model", f"models:/{model}/1", "--sample", "--embedding", "random", *places(tmp_path)]
    for more in ([], ["--explainer", "integrated_gradients"]):
        assert run_command(evaluate.main, [*asked, *more]) == 0
        said = capsys.readouterr().out
        assert "articles: prediction from the whole text: accuracy" in said
    given = ["--model", f"models:/{model}/1", *places(tmp_path)[:2], "--text", "被告人李某盗窃手机。"]
    assert run_command(explain.main, given) == 0
    assert "terms: " in capsys.readouterr().out

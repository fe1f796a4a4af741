"""The page of a study: written again by itself, with links, and never without what it had."""

import json
import logging
import shutil

import pytest

from pipeline.base.errors import PipelineError
from pipeline.base.storage import Storage
from pipeline.report import main
from pipeline.study import study_report
from pipeline.study.findings import ADVICE_TAG
from pipeline.tracking import model_registry
from pipeline.tracking.studies import start_study
from pipeline.tracking.tracking import PARENT_TAG, TRIAL_TAG
from tests.small_store import new_store
from tests.unit.pipeline.html_reader import read
from tests.unit.pipeline.test_report import PARAMETERS, TEXT

ADVICE = "`python -m pipeline.register --name first --min-precision 0.74` registers trial-01, with F1 0.6"


class Results:
    """A study of one trial, below its criterion, in a folder of results."""

    def __init__(self, folder, **parameters):
        self.folder = folder
        self.tracker = new_store(folder)
        tracker, experiment = self.tracker, self.tracker.experiment("beer", "palate")
        tags = {ADVICE_TAG: ADVICE, "notes": parameters.pop("notes", "")}
        self.study = start_study(tracker, experiment, "first", PARAMETERS | parameters, tags)
        self.trial = tracker.start_run(
            experiment, "trial-00", {"lambda_ib": 0.0003}, {PARENT_TAG: self.study, TRIAL_TAG: "one"}
        )
        scores = {"best_val_token_precision": 0.745, "best_val_token_recall": 0.5}
        tracker.log_metrics(self.trial, scores | {"best_objective": -0.133, "best_epoch": 0}, step=0)
        pages = {"best/predictions.json": json.dumps([TEXT]), "rationales.html": "rationales"}
        tracker.finish(self.trial, artifacts=pages)
        tracker.finish(self.study)

    @property
    def page(self):
        return self.folder / "studies" / "first" / "report.html"

    def write(self):
        study_report.write(self.tracker, self.study, self.page)
        return read(self.page.read_text(encoding="utf-8"))


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "results")


def links(page):
    return {link.text: link.attributes["href"] for link in page.find("a") if link.attributes.get("href")}


def test_a_trial_links_to_its_run_and_its_rationales(results):
    found = links(results.write())
    assert found["trial-00"] == f"http://127.0.0.1:5000/#/experiments/1/runs/{results.trial}"
    assert (results.page.parent / found["rationales"]).resolve().read_text() == "rationales"


def test_the_page_of_the_run_links_to_mlflow_alone(results, tmp_path):
    results.write()
    stored = results.tracker.download(results.study, "report.html", tmp_path / "copy")
    found = links(read(stored.read_text(encoding="utf-8")))
    assert found["rationales"].endswith(f"/runs/{results.trial}/artifacts/rationales.html")


def test_a_missed_criterion_says_what_to_do(results):
    words = results.write().words
    assert "What to do: python -m pipeline.register --name first --min-precision 0.74 registers" in words
    assert "nothing was registered" in words


@pytest.mark.parametrize(
    ("notes", "command", "title"),
    [
        ("own data: Tickets of 2025", "", "first: Tickets of 2025"),
        ("", "python -m pipeline.search --dataset jsonl --data-dir /data/tickets", "first: tickets"),
        ("", "python -m pipeline.search --data-dir='/data/all tickets/' --task x", "first: all tickets"),
        ("", "python -m pipeline.search --name '--data-dir' --dataset jsonl", "first: jsonl"),
        ("", "no command 'at all", "first: jsonl"),
    ],
)
def test_own_data_are_called_by_their_title_or_folder(tmp_path, notes, command, title):
    changed = {"dataset": "jsonl", "aspect": "", "notes": notes}
    page = Results(tmp_path, **changed, **({"command": command} if command else {})).write()
    assert page.find("h1")[0].words == title


def test_own_data_that_the_environment_names_are_called_by_their_folder(tmp_path):
    found = Results(tmp_path, dataset="jsonl", aspect="", command="python -m pipeline.search")
    found.tracker.finish(found.study, tags={model_registry.DATA_FOLDER_TAG: "/data/酒 评"})
    assert found.write().find("h1")[0].words == "first: 酒 评"


def test_a_full_page_is_not_replaced_by_one_without_rationales(results):
    before = results.write()
    shutil.rmtree(results.tracker.artifact_folder(results.trial))
    with pytest.raises(PipelineError, match="was not replaced: it shows rationales of the best trial"):
        results.write()
    assert read(results.page.read_text(encoding="utf-8")).words == before.words


def test_the_page_is_written_again_by_itself(results, caplog):
    results.write()
    results.page.write_text("old")
    caplog.set_level(logging.INFO)
    study_report.refresh(results.tracker, results.trial, Storage(str(results.folder)))
    assert "trial-00" in results.page.read_text(encoding="utf-8")
    assert str(results.page) in caplog.text


def test_a_run_of_no_study_has_no_page(results, caplog):
    lone = results.tracker.start_run("1", "alone", {}, {})
    study_report.refresh(results.tracker, lone, Storage(str(results.folder)))
    assert not results.page.exists()
    assert not caplog.records


def test_a_page_that_cannot_be_written_is_said_and_ends_nothing(results, caplog):
    results.write()
    shutil.rmtree(results.tracker.artifact_folder(results.trial))
    study_report.refresh(results.tracker, results.trial, Storage(str(results.folder)))
    assert "the report of the study was not written again" in caplog.text


def test_a_moved_folder_is_reported_by_the_name_of_the_study(results, tmp_path, capsys):
    results.write()
    target = tmp_path / "moved"
    shutil.move(results.folder, target)
    assert main(["--aspect", "palate", "--storage", str(target), "--name", "first"]) == 0
    page = target / "studies" / "first" / "report.html"
    assert capsys.readouterr().out == f"{page}\n"
    text = read(page.read_text(encoding="utf-8"))
    assert text.find("article"), "with its rationales"
    assert (page.parent / links(text)["rationales"]).resolve().is_file()
    assert not results.folder.exists()


def test_no_page_is_made_in_a_storage_that_has_not_the_study(results, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    study_report.refresh(results.tracker, results.trial, Storage(str(tmp_path / "elsewhere")))
    assert not (tmp_path / "elsewhere").exists()
    assert "the report was not written again" in caplog.text

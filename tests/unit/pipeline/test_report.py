"""The command: which study it takes, where its page goes, and what it says to a mistake."""

import json

import pytest

from pipeline import report
from pipeline.base.errors import PipelineError, run_command
from pipeline.tracking.studies import start_study
from pipeline.tracking.tracking import COMPARISON_TAG, PARENT_TAG, TRIAL_TAG
from tests.small_store import new_store
from tests.unit.pipeline.html_reader import read

PARAMETERS = {
    "method": "infocal",
    "dataset": "beer",
    "aspect": "palate",
    "space_name": "paper",
    "criterion": "best val_token_recall with val_token_precision >= 0.878",
    "command": "python -m pipeline.search --aspect palate",
}
TEXT = {
    "example_id": "review-17",
    "tokens": ["thin", "body"],
    "human": [1, 1],
    "probability": [0.25, 0.75],
    "selected": [0, 1],
    "prediction": 0.5,
    "guider_prediction": 0.5,
    "target": 0.5,
}


class Store:
    """A tracking store with two studies of one trial each."""

    def __init__(self, folder):
        self.folder = folder
        self.tracker = new_store(folder)
        self.uri = self.tracker.uri
        self.experiment = self.tracker.experiment("beer", "palate")
        self.first = self.add("first", 0.25)
        self.second = self.add("second", 0.5)

    def add(self, name, recall):
        tracker = self.tracker
        parent = start_study(tracker, self.experiment, name, PARAMETERS, {"seed": "7", "corpus": "real"})
        tags = {PARENT_TAG: parent, TRIAL_TAG: f"{name}-1"}
        trial = tracker.start_run(self.experiment, "trial-00", {"lambda_ib": 0.0003, "lambda_g": 1.0}, tags)
        scores = {"val_token_precision": 0.9, "val_token_recall": recall}
        best = {f"best_{key}": value for key, value in scores.items()}
        tracker.log_metrics(trial, scores | best | {"best_objective": recall, "best_epoch": 0}, step=0)
        tracker.finish(trial, artifacts={"best/predictions.json": json.dumps([TEXT])})
        tracker.finish(parent, tags={"winner_run_id": trial})
        return parent

    def arguments(self, *more):
        return ["--storage", str(self.folder), "--tracking-uri", self.uri, *more]

    def artifact(self, run_id, folder):
        return self.tracker.download(run_id, report.REPORT, folder).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return Store(tmp_path_factory.mktemp("results"))


def test_latest_study_is_reported_and_stored_with_its_run(store, capsys, tmp_path):
    assert report.main(store.arguments("--aspect", "palate")) == 0
    path = store.folder / "studies" / "second" / "report.html"
    assert capsys.readouterr().out == f"{path}\n"
    text = path.read_text(encoding="utf-8")
    page = read(text)
    assert page.find("h1")[0].words == "second: beer palate"
    assert "trial-00 at epoch 1: precision 90.0 %, recall 50.0 %" in page.words
    assert page.find("article")[0].find("h3")[0].text == "review-17"
    assert any(cell.words == "InfoCal" for cell in page.find("th")), "the published rows stand beside it"
    assert store.artifact(store.second, tmp_path) == text


def test_a_study_is_found_by_its_name(store, tmp_path):
    output = tmp_path / "sub" / "page.html"
    assert (
        report.main(store.arguments("--aspect", "palate", "--study", "first", "--output", str(output))) == 0
    )
    assert read(output.read_text(encoding="utf-8")).find("h1")[0].words == "first: beer palate"
    assert not (store.folder / "studies" / "first").exists(), "--output is the only place"


def test_a_name_is_enough_whatever_the_data_set(store, tmp_path):
    other = store.tracker.experiment("jsonl", "")
    for name in ("inns", "second"):
        start_study(
            store.tracker, other, name, PARAMETERS | {"dataset": "jsonl", "aspect": ""}, {"seed": "7"}
        )
    for name in ("first", "inns"):
        output = tmp_path / f"{name}.html"
        assert report.main(store.arguments("--name", name, "--output", str(output))) == 0
        assert read(output.read_text(encoding="utf-8")).find("h1")[0].words.startswith(f"{name}: ")
    with pytest.raises(
        PipelineError, match="the name `second` is not unique: studies of beer/palate and of jsonl"
    ):
        report.main(store.arguments("--name", "second"))
    assert report.main(store.arguments("--name", "second", "--aspect", "palate")) == 0
    for name, hint in (("third", "studies in this store: "), ("secnd", "did you mean `second`?")):
        with pytest.raises(PipelineError, match=f"--name: there is no study `{name}` in sqlite") as caught:
            report.main(store.arguments("--name", name))
        assert str(caught.value.hint).startswith(hint)


def test_the_name_of_a_comparison_is_known_for_one(store):
    store.tracker.start_run(store.experiment, "rivals", {}, {COMPARISON_TAG: "rivals"})
    with pytest.raises(PipelineError, match="--name: there is no study `rivals` in sqlite") as caught:
        report.main(store.arguments("--name", "rivals"))
    assert str(caught.value.hint).startswith(
        "`rivals` is a comparison; its page is STORAGE/comparisons/rivals/"
    )


def test_a_study_is_found_by_its_run(store, tmp_path):
    output = tmp_path / "page.html"
    assert report.main(store.arguments("--run", store.first, "--output", str(output))) == 0
    assert "recall 25.0 %" in read(output.read_text(encoding="utf-8")).words


def test_a_trial_is_no_study(store):
    (trial,) = store.tracker.children(store.first)
    with pytest.raises(PipelineError, match=r"`trial-00`\) is not the run of a study"):
        report.main(store.arguments("--run", trial.run_id))


def test_unknown_name_is_refused(store):
    with pytest.raises(PipelineError, match="--name: there is no study `third` of beer/palate in sqlite"):
        report.main(store.arguments("--aspect", "palate", "--study", "third"))


def test_an_aspect_without_studies_is_refused_and_makes_no_experiment(store):
    with pytest.raises(PipelineError, match="no study was tracked of beer/smell") as caught:
        report.main(store.arguments("--aspect", "aroma"))
    assert "python -m pipeline.search --dataset beer --aspect smell" in caught.value.hint
    assert store.tracker.client.get_experiment_by_name("beer/smell") is None


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--aspect", "palete"], "no aspect `palete`"),
        ([], "dataset `beer` needs an aspect"),
        (["--aspect", "palate", "--output", "."], "--output: `.` is a folder"),
        (["--aspect", "palate"], "there is no tracking database"),
    ],
)
def test_mistakes_become_one_line_and_exit_code_2(arguments, error, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_command(report.main, arguments) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: ") and error in said.err.splitlines()[0]
    assert said.out == "" and "\n\nhint: " in said.err


def test_output_that_cannot_be_written_is_named(store, tmp_path):
    (tmp_path / "file").write_text("")
    target = tmp_path / "file" / "page.html"
    with pytest.raises(PipelineError, match=f"--output: cannot write `{target}`"):
        report.main(store.arguments("--aspect", "palate", "--output", str(target)))


def test_a_study_is_named_once():
    with pytest.raises(PipelineError, match="argument --run: not allowed with argument --name/--study"):
        report.main(["--study", "a", "--run", "b"])


def test_the_page_of_a_study_at_a_uri_is_written_there(store, tmp_path, capsys):
    there = (tmp_path / "store").as_uri()
    assert report.main(["--aspect", "palate", "--storage", there, "--tracking-uri", store.uri]) == 0
    assert capsys.readouterr().out == f"{there}/studies/second/report.html\n"
    assert "second" in (tmp_path / "store/studies/second/report.html").read_text(encoding="utf-8")

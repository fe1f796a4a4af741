"""`pipeline.compare --table language-models`: the table of the sample corpus, resumed runs, and mistakes."""

import dataclasses
import json
import shlex
import shutil
from pathlib import Path

import pytest

from infocal.errors import StateError
from infocal.language_models import continuous
from pipeline import compare, report
from pipeline.base.errors import PipelineError, run_command
from pipeline.base.storage import Location, Storage
from pipeline.comparing import language_models
from pipeline.reporting.language_model_tables import MeasuredModels, section
from pipeline.reporting.paper_tables import NOT_MEASURED
from pipeline.training import language_models as models
from pipeline.training.language_models import (
    CONTINUOUS,
    KNESER_NEY,
    PLAIN,
    RNNLM,
    LanguageModelData,
    LanguageModelOutcome,
)
from tests.small_store import sample_cache, sample_features

FLAGS = ["--table", "language-models", "--sample", "--aspect", "palate", "--embedding", "random"]


def command(folder: Path, *more: str) -> list[str]:
    places = ["--device", "cpu", "--storage", str(folder), "--cache-dir", str(sample_cache())]
    return [*FLAGS, *places, "--name", "lm", *more]


def outcome(folder: Path, model: str) -> dict:
    return json.loads((folder / "language-models" / "lm" / "outcomes" / f"{model}.json").read_text())


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    assert run_command(compare.main, command(folder)) == 0
    return folder


# ------------------------------------------------------------------------------------------ end to end


def test_the_table_has_every_model_and_the_published_rows(measured: Path):
    table = (measured / "language-models" / "lm" / "table.md").read_text()
    names = [
        "Kneser-Ney 5-gram",
        "KenLM, published",
        "RNNLM",
        "RNNLM, published",
        "Our LM",
        "Our LM, published",
    ]
    names += ["Our LM, scores alone", "word frequencies alone", "every word equally likely"]
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    assert rows == ["", *names]
    assert "Made-up sample corpus" in table
    for kind in ("html", "tex", "json"):
        assert (measured / "language-models" / "lm" / f"table.{kind}").stat().st_size > 500


def test_every_model_is_better_than_word_frequencies_alone(measured: Path):
    data = models.data_of(sample_features())
    for model, reading in ((KNESER_NEY, PLAIN), (RNNLM, PLAIN), (CONTINUOUS, continuous.RATIO)):
        stored = LanguageModelOutcome(**outcome(measured, model))
        assert 1 < stored.scored(reading).perplexity < 0.8 * data.frequencies, model
    assert data.frequencies < data.num_words


def test_all_models_score_the_same_tokens(measured: Path):
    nums = [outcome(measured, model)["num_scored"] for model in models.MODELS]
    assert nums[0] == nums[1] == nums[2]
    data = json.loads((measured / "language-models" / "lm" / "data.json").read_text())
    assert sum(nums[0]) == data["num_scored"] == data["num_tokens"] - data["num_texts"] - data["num_unknown"]


def test_resuming_measures_what_is_missing_alone_and_gives_the_same_table(measured: Path, capsys, caplog):
    place = measured / "language-models" / "lm"
    before = {model: outcome(measured, model) for model in models.MODELS}
    (place / "outcomes" / f"{RNNLM}.json").unlink()
    caplog.set_level("INFO")
    assert run_command(compare.main, command(measured, "--resume")) == 0
    assert f"{KNESER_NEY} is done already" in caplog.text and f"{RNNLM} is done already" not in caplog.text
    assert outcome(measured, RNNLM)["log_p"] == before[RNNLM]["log_p"]
    assert "RNNLM, published" in capsys.readouterr().out


def test_the_page_of_all_tables_has_the_language_models(measured: Path, tmp_path: Path):
    output = tmp_path / "all.html"
    assert run_command(report.main, ["--tables", "--storage", str(measured), "--output", str(output)]) == 0
    text = output.with_suffix(".md").read_text()
    assert "beer/palate: language models" in text
    assert "hatexplain: language models" in text, "the published table stands there without ours"
    assert "--table language-models --dataset hatexplain" in text


# ---------------------------------------------------------------------------------- interrupted, resumed


def fake(model: str, *_) -> LanguageModelOutcome:
    readings = [PLAIN] if model != CONTINUOUS else [continuous.RATIO, continuous.SOFTMAX]
    return LanguageModelOutcome(
        model=model,
        log_p={reading: [-20.0, -40.0] for reading in readings},
        num_scored=[10, 10],
        seconds=1.0,
    )


def test_an_interrupted_table_keeps_what_is_done_and_says_how_to_go_on(tmp_path, monkeypatch, caplog):
    done: list[str] = []

    def measure(model: str, *given) -> LanguageModelOutcome:
        if model == RNNLM and len(done) == 1:
            done.append("interrupted")
            raise KeyboardInterrupt
        done.append(model)
        return fake(model)

    monkeypatch.setattr(models, "measure", measure)
    caplog.set_level("INFO")
    folder = tmp_path / "my results"
    assert run_command(compare.main, command(folder)) != 0
    flags = f"--table language-models --resume --name lm --storage '{folder}' --sample"
    hint = f"python -m pipeline.compare {flags}"
    assert f"to resume: {hint}" in caplog.text
    place = folder / "language-models" / "lm"
    assert [path.name for path in (place / "outcomes").iterdir()] == [f"{KNESER_NEY}.json"]
    assert not (place / "table.md").exists()
    (one,) = language_models.gather(language_models_home(folder))
    assert not one.is_complete
    assert run_command(compare.main, shlex.split(flags)) == 0
    assert done == [KNESER_NEY, "interrupted", RNNLM, CONTINUOUS]
    assert (place / "table.md").is_file()


def language_models_home(folder: Path) -> Location:
    return Storage(str(folder)).opened()


def test_a_name_is_taken_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(models, "measure", fake)
    assert run_command(compare.main, command(tmp_path)) == 0
    assert run_command(compare.main, command(tmp_path)) == 2
    assert "there is a table of language models `lm` already" in capsys.readouterr().err


def test_a_dry_run_measures_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(models, "measure", lambda *_: pytest.fail("it measured"))
    assert run_command(compare.main, command(tmp_path, "--dry-run")) == 0
    assert "models       kneser-ney, rnnlm, continuous, one after the other" in capsys.readouterr().out
    assert not (tmp_path / "language-models").exists()


def test_a_damaged_table_does_not_hide_the_others(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(models, "measure", fake)
    assert run_command(compare.main, command(tmp_path)) == 0
    broken = tmp_path / "language-models" / "other"
    broken.mkdir()
    (broken / "data.json").write_text("{")
    (one,) = language_models.gather(language_models_home(tmp_path))
    assert one.name == "lm" and "`other` is left out" in caplog.text


def test_a_table_in_the_folder_of_another_is_left_out_and_not_resumed(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(models, "measure", fake)
    assert run_command(compare.main, command(tmp_path)) == 0
    shutil.copytree(tmp_path / "language-models" / "lm", tmp_path / "language-models" / "other")
    (one,) = language_models.gather(language_models_home(tmp_path))
    said = "expected the settings of the table of language models `other`, but got the settings of `lm`"
    assert one.name == "lm" and said in caplog.text
    with pytest.raises(StateError, match=said):
        compare.main(command(tmp_path, "--resume", "--name", "other"))


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--methods", "fresh"], "--methods: this flag has no effect on language models"),
        (["--set", "hidden_size=4"], "--set: this flag has no effect on language models"),
        (["--target-selection-rate", "0.1"], "--target-selection-rate: this flag has no effect"),
        (["--tracking-uri", "sqlite:///x.db"], "--tracking-uri: this flag has no effect"),
        (["--resume", "--name", "none"], "--name: there is no table of language models `none`"),
    ],
)
def test_mistakes_are_one_line(flags, error, tmp_path):
    with pytest.raises(PipelineError, match=error):
        compare.main(command(tmp_path, *flags))
    assert not (tmp_path / "language-models").exists()


def test_a_wrong_aspect_is_refused_with_the_nearest_one(tmp_path, capsys):
    assert run_command(compare.main, command(tmp_path, "--aspect", "palete")) == 2
    assert "no aspect `palete` in dataset `beer`" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------- the table


def small(*outcomes: LanguageModelOutcome, **changes) -> MeasuredModels:
    data = LanguageModelData(
        num_words=1000,
        num_train_texts=5,
        num_train_tokens=50,
        num_texts=2,
        num_tokens=24,
        num_scored=20,
        num_unknown=2,
        frequencies=300.0,
    )
    values = {
        **{"name": "lm", "dataset": "beer", "aspect": "palate", "options": {}, "is_sample": False},
        **{"data": data, "outcomes": outcomes, "command": "python -m pipeline.compare"},
    }
    return MeasuredModels(**{**values, **changes})


def test_a_cell_is_the_perplexity_with_its_interval():
    (table,) = section([small(fake(KNESER_NEY))]).tables
    # 60 nats over 20 tokens; with both draws of one text, 2 or 4 nats a token
    assert table.rows[0].cells == ["20.1 [7.4, 54.6]"]
    assert {row.name: row.cells[0] for row in table.rows}["RNNLM"] == NOT_MEASURED
    assert table.is_unfinished
    assert "2 unknown words (9.1%) without a score; 1,000 known words" in table.protocol[0]


def test_it_says_who_has_the_lowest_perplexity():
    better = dataclasses.replace(fake(RNNLM), log_p={PLAIN: [-10.0, -20.0]})
    (table,) = section([small(fake(KNESER_NEY), better, fake(CONTINUOUS))]).tables
    assert table.first == [
        "here: our LM is not first: RNNLM has the lowest perplexity (4.5 against 20.1)",
        "published, [Sha2023] table 12: our LM has the lowest perplexity",
    ]
    assert not table.is_unfinished


def test_without_our_model_it_says_who_is_first_of_the_others():
    better = dataclasses.replace(fake(RNNLM), log_p={PLAIN: [-10.0, -20.0]})
    (table,) = section([small(fake(KNESER_NEY), better)]).tables
    assert table.first[0] == (
        "here: RNNLM has the lowest perplexity of those measured; our LM is not measured"
    )
    (table,) = section([small(better)]).tables
    assert table.first[0] == "here: fewer than two models are measured"


def test_published_tables_without_ours_say_who_is_first_too():
    (table,) = section([], ["cail-small"]).tables
    assert table.first[0].endswith("--table language-models --dataset cail-small --aspect charges`")
    assert table.first[1] == (
        "published, [Sha2023] table 12: our LM is not first: RNNLM has the lowest perplexity "
        "(20.0 against 29.0)"
    )
    assert [row.cells[0] for row in table.rows] == ["32", "20", "29"]

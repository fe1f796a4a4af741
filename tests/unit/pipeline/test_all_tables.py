"""`pipeline.report --tables`: what is read of a storage, what is written, and what is said of a mistake."""

import dataclasses
import json
import re
import shlex

import pytest

from feature_store.store import FeatureRequest, open_features
from pipeline import compare as compare_command
from pipeline import report
from pipeline.base import locations
from pipeline.base.errors import PipelineError, run_command
from pipeline.base.storage import Storage
from pipeline.base.stored_files import write_json
from pipeline.comparing import all_tables
from pipeline.comparing.comparison_settings import ComparisonSettings
from pipeline.reporting.standings import Outcome, StandingsRow, over_seeds, standings
from tests.small_store import law_features, sample_cache
from tests.small_study import run_settings
from tests.unit.pipeline.html_reader import read

SCORES = {"token_precision": 0.5, "token_recall": 0.5, "token_f1": 0.5, "selection_rate": 0.18}


def compare(folder, name="first", outcomes=("infocal", "hardkuma"), is_whole=True, **changes):
    """A comparison's folder as `pipeline.compare` leaves it, without a training."""
    place = folder / "comparisons" / name
    (place / "outcomes").mkdir(parents=True)
    run = run_settings(**changes)
    prepared = ComparisonSettings(
        name=name,
        runs=[run, dataclasses.replace(run, method="hardkuma")],
        seeds=[0],
        target_rate=0.18,
        sample=True,
        data_dir=None,
        cpus_per_run=1.0,
        gpus_per_run=0.0,
        command="python -m pipeline.compare --sample",
    )
    prepared.save(place)
    made = [Outcome(method=method, seed=0, scores=SCORES) for method in outcomes]
    for one in made:
        write_json(place / "outcomes" / f"{one.method}-seed0.json", dataclasses.asdict(one))
    if is_whole:
        beside = [
            StandingsRow(name="first_k", kind="trivial", cells={"token_f1": over_seeds([0.125])}),
            StandingsRow(
                name="masks of Lei et al. (2016)", kind="paper", cells={"token_f1": over_seeds([0.375])}
            ),
        ]
        table = standings("beer", "palate", made, target_rate=0.18, beside=beside)
        write_json(place / "table.json", table.as_json())
    return place


def test_the_page_is_written_where_results_are_in_three_formats(tmp_path, capsys):
    compare(tmp_path)
    assert run_command(report.main, ["--tables", "--storage", str(tmp_path)]) == 0
    files = [tmp_path / "tables" / f"tables.{kind}" for kind in ("html", "md", "tex")]
    assert capsys.readouterr().out.split() == [str(file) for file in files]
    page = read(files[0].read_text("utf-8"))
    assert page.find("h1")[0].words == "All tables"
    assert "beer/palate: methods at 18 % of the tokens" in page.words
    assert "Made-up sample corpus" in page.words


def test_rows_beside_come_from_the_table_of_the_comparison(tmp_path):
    compare(tmp_path)
    (found,) = all_tables.gather(Storage(str(tmp_path)).opened())
    assert {row.name: row.cells["token_f1"].mean for row in found.beside} == {
        "first_k": 0.125,
        "masks of Lei et al. (2016)": 0.375,
    }
    assert found.is_complete and found.counts["test_rows"] > 0


def test_an_unfinished_comparison_is_shown_with_trivial_lines_of_its_features(tmp_path):
    compare(tmp_path, outcomes=["infocal"], is_whole=False)
    (found,) = all_tables.gather(Storage(str(tmp_path)).opened())
    assert not found.is_complete and found.num_all == 2
    assert "oracle_k" in {row.name for row in found.beside}


def test_features_that_are_gone_leave_the_sizes_unknown(tmp_path):
    compare(tmp_path, is_whole=False, features_dir=str(tmp_path / "gone"))
    (found,) = all_tables.gather(Storage(str(tmp_path)).opened())
    assert found.counts == {} and found.beside == []


def printed_commands(folder) -> list[list[str]]:
    """The commands that the page prints, as a shell reads them."""
    text = (folder / "tables" / "tables.md").read_text("utf-8")
    return [shlex.split(command) for command in re.findall(r"`(python -m pipeline\.compare [^`]*)`", text)]


@pytest.mark.parametrize(
    ("is_sample", "storage", "flags", "ends"),
    [
        (True, "my results", ["--storage", "my results"], ["--storage", "my results", "--sample"]),
        (False, "my results", ["--storage", "my results"], ["--storage", "my results"]),
        (True, "runs/sample", ["--sample"], ["--sample"]),
        (True, "runs", [], ["--storage", "runs", "--sample"]),
        (False, "runs", [], []),
        (None, "runs/sample", ["--sample"], ["--sample"]),
        (None, "runs", [], []),
    ],
)
def test_a_printed_command_fills_the_page_that_prints_it(
    is_sample, storage, flags, ends, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / storage
    folder.mkdir(parents=True)
    if is_sample is not None:
        place = compare(folder)
        stored = json.loads((place / "comparison.json").read_text("utf-8"))
        write_json(place / "comparison.json", stored | {"sample": is_sample})
    assert run_command(report.main, ["--tables", *flags]) == 0
    commands = printed_commands(folder)
    assert {given_to(command).table for command in commands} == {"methods", "language-models"}
    for command in commands:
        given = given_to(command)
        assert command[len(command) - len(ends) :] == ends and command.count("--sample") == given.sample
        assert str(locations.storage(given.storage, given.sample)) == storage
        assert given.sample == (storage == "runs/sample" if is_sample is None else is_sample)


def given_to(command: list[str]):
    return compare_command.build_parser().parse_args(command[3:])


def test_a_damaged_comparison_does_not_hide_the_others(tmp_path, caplog):
    compare(tmp_path)
    place = compare(tmp_path, name="second")
    (place / "outcomes" / "infocal-seed0.json").write_text("{")
    (found,) = all_tables.gather(Storage(str(tmp_path)).opened())
    assert found.name == "first"
    assert "the comparison `second` is left out: " in caplog.text and "infocal-seed0.json" in caplog.text


def test_a_storage_behind_a_uri_is_read_and_written(tmp_path, capsys):
    compare(tmp_path)
    assert run_command(report.main, ["--tables", "--storage", tmp_path.as_uri()]) == 0
    assert capsys.readouterr().out.startswith(f"{tmp_path.as_uri()}/tables/tables.html\n")
    assert "InfoCal" in (tmp_path / "tables" / "tables.md").read_text("utf-8")


def test_an_output_gets_the_other_formats_beside_it(tmp_path):
    compare(tmp_path)
    output = tmp_path / "sub" / "page.html"
    assert run_command(report.main, ["--tables", "--storage", str(tmp_path), "--output", str(output)]) == 0
    assert sorted(path.name for path in output.parent.iterdir()) == ["page.html", "page.md", "page.tex"]
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (["--dataset", "beer"], "--dataset: this flag has no effect with `--tables`, which reads every"),
        (["--tracking-uri", "sqlite:///x.db"], "--tracking-uri: this flag has no effect with `--tables`"),
        (["--name", "x"], "argument --name/--study: not allowed with argument --tables"),
        (["--output", "."], "--output: `.` is a folder"),
        (["--output", "page.pdf"], "--output: expected a name that ends in .html, but got `page.pdf`"),
    ],
)
def test_mistakes_are_one_line(flags, error, tmp_path):
    with pytest.raises(PipelineError, match=error):
        report.main(["--tables", "--storage", str(tmp_path), *flags])
    assert not (tmp_path / "tables").exists()


@pytest.mark.parametrize(("flags", "folder"), [(["--storage", "nowhere"], "nowhere"), ([], "runs")])
def test_a_storage_that_is_not_there_is_refused_and_not_made(flags, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(PipelineError, match=f"--storage: there is no folder `{folder}`"):
        report.main(["--tables", *flags])
    assert list(tmp_path.iterdir()) == []


def test_hyper_parameters_that_nobody_knows_any_more_are_said_and_hide_no_number(tmp_path):
    compare(tmp_path, base={"bygone": 1})
    (found,) = all_tables.gather(Storage(str(tmp_path)).opened())
    assert [one.method for one in found.outcomes] == ["infocal", "hardkuma"]
    said = (
        "InfoCal: its settings are from another version of this project and are no longer valid "
        "(unknown hyper-parameter `bygone`"
    )
    assert found.remarks[0].startswith(said)


def test_texts_are_the_same_whatever_their_targets(tmp_path):
    """Comparisons of one target and of several stand in one table if they read the same texts."""
    compare(tmp_path, name="several", features_dir=str(law_features().directory))
    alone = FeatureRequest(
        dataset="cail-small", aspect="charges", sample=True, embedding="random", cache_dir=sample_cache()
    )
    compare(tmp_path, name="alone", features_dir=str(open_features(alone).directory))
    other = dataclasses.replace(alone, max_length=50)
    compare(tmp_path, name="cut", features_dir=str(open_features(other).directory))
    found = {one.name: one.features for one in all_tables.gather(Storage(str(tmp_path)).opened())}
    assert found["several"] == found["alone"] != found["cut"]

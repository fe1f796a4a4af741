"""How the options of a data set are said."""

from pathlib import Path

import pytest

from pipeline.reporting.standings import standings
from pipeline.training import data_options
from tests.small_store import sample_features
from tests.small_study import run_settings


@pytest.mark.parametrize(
    ("dataset", "aspect", "options", "said"),
    [
        ("beer", "palate", {}, "beer/palate"),
        ("beer", "palate", {"pool": "none"}, "beer/palate"),
        ("beer", "smell", {"pool": "residual"}, "beer/smell (pool=residual)"),
        ("hatexplain", None, {"gold": "majority"}, "hatexplain (gold=majority)"),
        (
            "cail-small",
            "terms",
            {"dictionary": "lists/words.txt"},
            "cail-small/terms (dictionary=words.txt)",
        ),
    ],
)
def test_a_target_names_the_options_that_are_not_the_defaults(dataset, aspect, options, said):
    assert data_options.target(dataset, aspect, options) == said


@pytest.mark.parametrize(
    ("dataset", "notes", "folder", "title"),
    [
        ("jsonl", ["a note", "own data: Tickets of 2024"], Path("/data/tickets"), "Tickets of 2024"),
        ("jsonl", ["a note"], Path("/data/tickets"), "tickets"),
        ("eraser", [], Path("/data/movies"), "movies"),
        ("jsonl", [], None, ""),
        ("beer", ["own data: no"], Path("/data"), ""),
    ],
)
def test_own_data_are_called_by_their_title_or_folder(dataset, notes, folder, title):
    assert data_options.own_title(dataset, notes, folder) == title
    run = run_settings(dataset=dataset, aspect="", options={}, own_title=title)
    assert data_options.target_of_run(run) == (title or dataset)


def test_features_name_theirs():
    assert data_options.target_of(sample_features()) == "beer/palate"


def test_tags_name_no_folder_and_are_read_back():
    tags = data_options.tags("cail-small", {"recipe": "topjudge", "dictionary": "lists/words.txt"})
    assert tags == {"option.dictionary": "words.txt"}
    assert data_options.of_tags({**tags, "seed": "0"}) == {"dictionary": "words.txt"}


def test_the_caption_of_a_table_names_them():
    found = standings("beer", "palate", [], target_rate=0.08, options={"pool": "plain"})
    assert found.title == "beer/palate (pool=plain): methods at 8 % of the tokens, on test"

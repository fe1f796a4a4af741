import re

import pytest

from pipeline.cli import common_flags
from pipeline.training import naming


def test_a_default_name_says_what_is_searched_and_when():
    assert re.fullmatch(r"beer-palate-20\d{6}-\d{6}", naming.default_name("beer", "palate"))


@pytest.mark.parametrize(
    ("arguments", "aspect", "name"),
    [
        (["--dataset", "beer"], "palate", "infocal-beer-palate"),
        (["--dataset", "hatexplain", "--data-dir", "data"], "", "infocal-hatexplain"),
        (["--dataset", "jsonl", "--data-dir", "data/my tickets (2)"], "", "infocal-jsonl-my-tickets-2"),
        (["--dataset", "eraser", "--data-dir", "movies/"], "", "infocal-eraser-movies"),
        (["--dataset", "jsonl", "--sample"], "", "infocal-jsonl"),
        (["--dataset", "jsonl", "--data-dir", "data", "--model-name", "triage"], "", "triage"),
    ],
)
def test_a_model_is_named_after_the_corpus(
    arguments: list[str], aspect: str, name: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("INFOCAL_DATA", raising=False)
    parser = common_flags.parser("pipeline.some", "Does something.")
    common_flags.add_data_arguments(parser)
    common_flags.add_model_name(parser)
    assert naming.model_name(parser.parse_args(arguments), aspect) == name


def test_the_folder_of_own_data_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("INFOCAL_DATA", "/data/tickets")
    parser = common_flags.parser("pipeline.some", "Does something.")
    common_flags.add_data_arguments(parser)
    common_flags.add_model_name(parser)
    assert naming.model_name(parser.parse_args(["--dataset", "jsonl"]), "") == "infocal-jsonl-tickets"


def test_a_model_of_another_method_has_its_name_in_place_of_infocal():
    parser = common_flags.parser("pipeline.search", "a test")
    common_flags.add_data_arguments(parser)
    common_flags.add_training_arguments(parser)
    common_flags.add_model_name(parser)
    given = parser.parse_args(["--method", "infocal-no-lm"])
    assert naming.model_name(given, "palate") == "infocal-no-lm-beer-palate"

import argparse
import re

import pytest

from pipeline.base.errors import PipelineError
from pipeline.cli import common_flags


def all_flags() -> argparse.ArgumentParser:
    parser = common_flags.parser("pipeline.some", "Does something.")
    common_flags.add_data_arguments(parser)
    common_flags.add_training_arguments(parser)
    common_flags.add_storage_arguments(parser)
    return parser


def test_shared_flags_default_to_the_papers_length_on_beer():
    given = all_flags().parse_args([])
    assert (given.dataset, given.aspect, given.epochs, given.seed) == ("beer", None, 50, 0)
    assert (given.device, given.embedding, given.set, given.config) == ("auto", None, [], None)
    assert (given.sample, given.bf16, given.debug) == (False, False, False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", "0"], "argument --epochs: expected a whole number above 0, but got '0'"),
        (["--seed", "one"], "argument --seed: expected a whole number from 0 to 2**32 - 1, but got 'one'"),
        (["--seed", "-1"], "argument --seed: expected a whole number from 0 to 2**32 - 1, but got '-1'"),
        (["--seed", "4294967296"], "argument --seed: expected a whole number from 0 to 2**32 - 1"),
        (["--device", "tpu"], "argument --device: expected auto, cpu, cuda or cuda:N, but got 'tpu'"),
    ],
)
def test_a_bad_flag_is_named_like_every_mistake(arguments: list[str], message: str):
    with pytest.raises(PipelineError, match=re.escape(message)) as caught:
        all_flags().parse_args(arguments)
    assert caught.value.hint == "`python -m pipeline.some --help` lists the flags"


def test_a_flag_is_not_abbreviated_but_its_name_is_said():
    with pytest.raises(PipelineError, match=r"^unrecognized arguments: --epoch 3$") as caught:
        all_flags().parse_args(["--epoch", "3"])
    assert caught.value.hint == "did you mean `--epochs`?"


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ([], ["--data-dir=/corpora/all mine"]),
        (["--data-dir", "here"], ["--data-dir", "here"]),
        (["--data-dir=here"], ["--data-dir=here"]),
        (["--sample"], ["--sample"]),
    ],
)
def test_the_data_folder_of_the_environment_is_part_of_what_is_stored(
    given: list[str], stored: list[str], monkeypatch: pytest.MonkeyPatch
):
    parser = common_flags.parser("pipeline.search", "a test")
    common_flags.add_data_arguments(parser)
    monkeypatch.setenv("INFOCAL_DATA", "/corpora/all mine")
    assert common_flags.with_data_dir(given, parser.parse_args(given)) == stored
    monkeypatch.delenv("INFOCAL_DATA")
    assert common_flags.with_data_dir(given, parser.parse_args(given)) == given

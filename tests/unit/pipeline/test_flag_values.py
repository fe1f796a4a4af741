import argparse
import re
from pathlib import Path
from typing import Any

import pytest

from pipeline.base.errors import PipelineError
from pipeline.cli import flag_values


@pytest.mark.parametrize("text", ["0", "-3", "2.5", "many", "", "1e3"])
def test_a_count_that_is_none_is_quoted(text: str):
    with pytest.raises(
        argparse.ArgumentTypeError, match=f"expected a whole number above 0, but got {re.escape(repr(text))}"
    ):
        flag_values.positive_int(text)


@pytest.mark.parametrize(
    ("convert", "text", "wanted"),
    [
        (flag_values.fraction, "1.5", "a number from 0 to 1"),
        (flag_values.fraction, "-0.1", "a number from 0 to 1"),
        (flag_values.fraction, "nan", "a number from 0 to 1"),
        (flag_values.fraction, "half", "a number from 0 to 1"),
        (flag_values.positive_float, "0", "a number above 0"),
        (flag_values.positive_float, "inf", "a number above 0"),
        (flag_values.num_gpus, "-1", "`auto` or a number of 0 or more"),
        (flag_values.num_gpus, "nan", "`auto` or a number of 0 or more"),
        (flag_values.num_gpus, "Auto", "`auto` or a number of 0 or more"),
        # Ray gives out parts of one GPU, or whole ones
        (flag_values.num_gpus, "1.5", "a whole number of GPUs or a fraction below 1"),
        (flag_values.num_gpus, "0.00009", "at least 0.0001 of a GPU"),
        (flag_values.device, "tpu", "auto, cpu, cuda or cuda:N"),
        (flag_values.device, "cuda:", "auto, cpu, cuda or cuda:N"),
    ],
)
def test_a_value_out_of_range_is_quoted(convert: Any, text: str, wanted: str):
    with pytest.raises(argparse.ArgumentTypeError, match=f"^expected {wanted}, but got '{text}'$"):
        convert(text)


@pytest.mark.parametrize(("text", "rounded"), [("0.16667", 0.1666), ("0.3", 0.3), ("0.0003", 0.0003)])
def test_a_part_of_a_gpu_is_rounded_down_to_rays_step(text: str, rounded: float):
    """Ray would round 0.16667 up, and a sixth trial would find no place."""
    assert flag_values.num_gpus(text) == rounded


def test_gpus_can_be_left_to_a_measurement():
    assert flag_values.num_gpus("auto") == flag_values.AUTO


def test_values_at_the_ends_of_their_ranges_are_taken():
    assert (flag_values.fraction("0"), flag_values.fraction("1")) == (0.0, 1.0)
    assert flag_values.positive_int("1") == 1
    assert flag_values.positive_float("0.5") == 0.5
    assert [flag_values.num_gpus(text) for text in ("0", "0.0001", "1", "8")] == [0.0, 0.0001, 1.0, 8.0]
    assert [flag_values.device(name) for name in ("auto", "cpu", "cuda", "cuda:12")][-1] == "cuda:12"


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("hidden_size=64", 64),
        ("learning_rate=1e-3", 0.001),
        ("train_embeddings=true", True),
        ("encoder=lstm", "lstm"),
        ('encoder="lstm"', "lstm"),
        (" encoder = lstm ", "lstm"),
        ("encoder=a=b", "a=b"),
        ("encoder=", ""),
    ],
)
def test_an_assignment_is_a_toml_value_or_a_bare_word(assignment: str, value: object):
    (found,) = flag_values.hyper_parameters(None, [assignment]).values()
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("assignment", ["hidden_size", "=64", "hidden_size:64"])
def test_an_assignment_without_name_or_sign_is_quoted_with_its_flag(assignment: str):
    with pytest.raises(PipelineError, match=f"^--set: expected KEY=VALUE, but got `{assignment}`$") as caught:
        flag_values.hyper_parameters(None, [assignment])
    assert caught.value.hint == "for instance `--set hidden_size=64`"


def test_set_wins_over_the_file_and_the_last_set_wins(tmp_path: Path):
    file = tmp_path / "run.toml"
    file.write_text("hidden_size = 8\nlambda_ib = 0.5\n")
    found = flag_values.hyper_parameters(str(file), ["hidden_size=16", "hidden_size=32"])
    assert found == {"hidden_size": 32, "lambda_ib": 0.5}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"hidden_size = = 4", "Invalid value"),
        (b"hidden_size = " + b"9" * 5000, "not TOML: Exceeds the limit"),
        (b"hidden_size = 0x" + b"f" * 5000, "not TOML: a whole number of more than 64 bits"),
        (b"a = " + b"[" * 100_000, "not TOML: nested too deeply"),
        (b"#" * (2**20 + 1), "expected at most 1048576 bytes, but there are more"),
        (b"encoder = 'caf\xe9'", "invalid continuation byte|unexpected end of data|can't decode byte"),
    ],
    ids=range(7),
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, reason: str):
    file = tmp_path / "run.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(PipelineError, match=reason) as caught:
        flag_values.hyper_parameters(str(file), [])
    assert str(caught.value).startswith(f"--config {file}: cannot read the file: ")
    assert "TOML" in str(caught.value.hint)


def test_a_folder_in_place_of_a_file_is_named(tmp_path: Path):
    with pytest.raises(PipelineError, match=f"--config {tmp_path}: cannot read the file: .*Is a directory"):
        flag_values.hyper_parameters(str(tmp_path), [])


@pytest.mark.parametrize("text", ["../x", "a/b", ".hidden", "-x", "", "a b", "名"])
def test_a_study_is_named_like_a_folder(text: str):
    with pytest.raises(argparse.ArgumentTypeError, match="starting with a letter or digit, but got"):
        flag_values.study_name(text)


@pytest.mark.parametrize("text", ["酒店", "späte-Suche", "étude", "исследование", "a٣"])
def test_letters_of_other_scripts_are_said_not_to_do_for_a_folder(text: str):
    with pytest.raises(
        argparse.ArgumentTypeError, match=r"expected letters from a to z \(or A to Z\), digits"
    ):
        flag_values.study_name(text)
    assert flag_values.registered_name(text) == text


def test_a_name_that_is_too_long_is_said_to_be():
    assert flag_values.study_name("a" * 128) == "a" * 128
    for check in (flag_values.study_name, flag_values.registered_name):
        with pytest.raises(argparse.ArgumentTypeError, match=r"at most \d+ characters, but got 5000"):
            check("a" * 5000)
    with pytest.raises(argparse.ArgumentTypeError, match="at most 128 characters, but got 129"):
        flag_values.study_name("a" * 129)


@pytest.mark.parametrize("text", ["palate-6x8", "a", "beer-palate-20261128-024153", "v1.2_b"])
def test_ordinary_names_of_studies_are_taken(text: str):
    assert flag_values.study_name(text) == text

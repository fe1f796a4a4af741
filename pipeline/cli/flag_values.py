"""Values of flags: each is checked and converted while the command line is parsed."""

import argparse
import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from feature_store import command_line
from feature_store.errors import reason
from feature_store.toml import read_toml
from pipeline.base.errors import PipelineError
from pipeline.training.naming import MAX_NAME
from pipeline.training.settings import GPU_STEPS

_MAX_STUDY_NAME = 128

positive_int, seed = command_line.positive_int, command_line.seed
"""As for the commands of the feature store."""

AUTO = "auto"
"""In place of a number of GPUs: as many trials on each as are measured to fit."""


def count(text: str) -> int:
    """An argument that is a whole number, 0 or above."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"expected a whole number of 0 or more, but got {text!r}")
    return int(text)


def study_name(text: str) -> str:
    """An argument that can name a folder: a letter from a to z or a digit, then also `.`, `_` and `-`."""
    return _name(text, "letters from a to z (or A to Z)", _MAX_STUDY_NAME, re.ASCII)


def registered_name(text: str) -> str:
    """An argument that can name a registered model: as `study_name`, with letters of any script."""
    return _name(text, "letters", MAX_NAME, re.UNICODE)


def _name(text: str, letters: str, max_length: int, alphabet: re.RegexFlag) -> str:
    if len(text) > max_length:
        raise argparse.ArgumentTypeError(f"expected at most {max_length} characters, but got {len(text)}")
    if not re.fullmatch(r"\w[\w.-]*", text, alphabet):
        raise argparse.ArgumentTypeError(
            f"expected {letters}, digits, `.`, `_` or `-`, starting with a letter or digit, but got {text!r}"
        )
    return text


def fraction(text: str) -> float:
    """An argument that lies in [0, 1]."""
    return number(text, lambda value: 0 <= value <= 1, "a number from 0 to 1")


def tolerance(text: str) -> float:
    """An argument that is a finite number, 0 or above."""
    return number(text, lambda value: 0 <= value < math.inf, "a number of 0 or more")


def positive_float(text: str) -> float:
    """An argument that is a finite number above zero."""
    return number(text, lambda value: 0 < value < math.inf, "a number above 0")


def num_gpus(text: str) -> float | str:
    """An argument that says what GPUs a trial gets: `AUTO`, none, whole ones, or a part of one.

    A part is rounded down to Ray's step, so that 0.16667 lets six trials share a card.
    """
    if text == AUTO:
        return AUTO
    value = number(text, lambda value: 0 <= value < math.inf, f"`{AUTO}` or a number of 0 or more")
    if value >= 1 and value != int(value):
        raise argparse.ArgumentTypeError(
            f"expected a whole number of GPUs or a fraction below 1, but got {text!r}"
        )
    steps = math.floor(value * GPU_STEPS + 1e-6)  # 0.0003 * 10000 lies just below 3
    if value > 0 and steps == 0:
        raise argparse.ArgumentTypeError(f"expected at least {1 / GPU_STEPS:g} of a GPU, but got {text!r}")
    return steps / GPU_STEPS


def num_seeds(text: str) -> int | str:
    """An argument that says with how many seeds the best trial is trained: `AUTO`, or a number above zero."""
    return AUTO if text == AUTO else positive_int(text, f"`{AUTO}` or a whole number above 0")


def number(text: str, fits: Callable[[float], bool], wanted: str) -> float:
    """An argument that is a number which fits; `wanted` names it in words."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not fits(value):
        raise argparse.ArgumentTypeError(f"expected {wanted}, but got {text!r}")
    return value


def device(text: str) -> str:
    """An argument that names a device; whether it is there is found out when it is used."""
    if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", text):
        raise argparse.ArgumentTypeError(f"expected auto, cpu, cuda or cuda:N, but got {text!r}")
    return text


def hyper_parameters(config_file: str | None, assignments: Sequence[str]) -> dict[str, Any]:
    """Hyper-parameters from a TOML file and `key=value` flags; the flags win.

    Raises:
        PipelineError: if the file cannot be read or a flag has no `=`.
    """
    values: dict[str, Any] = dict(_read_toml(Path(config_file))) if config_file else {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name:
            raise PipelineError(
                f"expected KEY=VALUE, but got `{assignment}`",
                where="--set",
                hint="for instance `--set hidden_size=64`",
            )
        values[name.strip()] = _value(text.strip())
    return values


def _read_toml(path: Path) -> Mapping[str, Any]:
    try:
        return read_toml(path)
    except (OSError, ValueError) as error:
        raise PipelineError(
            f"cannot read the file: {reason(error)}",
            where=f"--config {path}",
            hint="give a TOML file with lines such as `hidden_size = 64`",
        ) from error


def _value(text: str) -> Any:
    """A TOML value; a bare word is a string."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text

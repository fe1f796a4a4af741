"""The flags of `pipeline.judge`, and which of them go together."""

import argparse
from collections.abc import Sequence

from pipeline.base.errors import PipelineError
from pipeline.cli import flag_values
from pipeline.judging.sheet import MAX_REPEATS
from pipeline.web import flags as web_flags
from pipeline.web.words import CHINESE, ENGLISH

_MAKING = ("models", "package", "rationales", "annotate", "input", "target")
"""Any of these asks for a new sheet."""
_ALWAYS = ("sheet", "results", "debug")
_ON_A_SHEET = (*_ALWAYS, "host", "port", "url", "no_serve", "export", "take_back", "replace")
_ON_RESULTS = (*_ALWAYS, "vote", "run", "tracking_uri", "storage", "sample")
"""Flags that count once there is a sheet."""
_VOTES = ("majority", "any", "all")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Everything but the folder, the data set and the storage."""
    _add_making(parser.add_argument_group("a new sheet"))
    group = parser.add_argument_group("the pages")
    web_flags.add_address(group, port_default="the port in the sheet's links; for a new sheet, a free port")
    group.add_argument("--no-serve", action="store_true", help="create the sheet, but do not serve it")
    group = parser.add_argument_group("without a server")
    group.add_argument("--export", metavar="DIR", help="write a JSONL file for each person, to be filled in")
    group.add_argument(
        "--import", dest="take_back", nargs="+", metavar="FILE", default=[], help="read the filled-in files"
    )
    group.add_argument("--replace", action="store_true", help="let `--import` replace existing answers")
    group = parser.add_argument_group("with --results")
    group.add_argument(
        "--vote",
        choices=_VOTES,
        default=_VOTES[0],
        help="how many annotators of a text must mark a token, so that it counts as marked "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--run", metavar="RUN_ID", help="MLflow run in which the results are stored as artifacts"
    )


def _add_making(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--models",
        action="append",
        default=[],
        metavar="[LABEL=]NAME[@ALIAS],...",
        help="registered models whose rationales are judged (default alias: champion)",
    )
    group.add_argument(
        "--package",
        action="append",
        default=[],
        metavar="[LABEL=]DIR",
        help="a model's folder; may be repeated",
    )
    group.add_argument(
        "--rationales",
        action="append",
        default=[],
        metavar="[LABEL=]FILE",
        help="masks of any method, as `pipeline.score` reads them; may be repeated",
    )
    group.add_argument("--annotate", action="store_true", help="let people mark rationales of their own")
    group.add_argument(
        "--input",
        metavar="FILE",
        help="JSONL with `text` or `tokens`, instead of the texts of a data set; `--option tokenizer=NAME` "
        "says how a `text` is split",
    )
    group.add_argument(
        "--target",
        metavar="NAME",
        help="target whose label and rationale are shown, if there are several (default: the main target)",
    )
    group.add_argument(
        "--split",
        choices=("train", "val", "test"),
        default="test",
        help="split from which the texts are taken (default: %(default)s)",
    )
    group.add_argument(
        "--texts",
        type=flag_values.positive_int,
        default=300,
        help="number of texts, chosen at random (default: %(default)s)",
    )
    group.add_argument(
        "--max-tokens", type=flag_values.positive_int, metavar="N", help="leave out texts with more tokens"
    )
    group.add_argument(
        "--judges", type=flag_values.positive_int, default=6, help="number of judges (default: %(default)s)"
    )
    group.add_argument(
        "--per-text",
        type=flag_values.positive_int,
        help="number of judges for each text (default: 2, or 1 if there is only one judge)",
    )
    group.add_argument(
        "--repeats",
        type=_repeats,
        default=0.1,
        metavar="RATE",
        help="share of the rationales that a judge is shown a second time, without being told: from 0 to "
        f"{MAX_REPEATS} (default: %(default)s)",
    )
    group.add_argument(
        "--language",
        choices=(ENGLISH, CHINESE),
        help="language of the pages (default: the language of the texts)",
    )
    group.add_argument(
        "--seed", type=flag_values.seed, default=0, help="seed of all random choices (default: %(default)s)"
    )


def _repeats(text: str) -> float:
    """An argument that lies in [0, MAX_REPEATS]."""
    return flag_values.number(
        text, lambda rate: 0 <= rate <= MAX_REPEATS, f"a number from 0 to {MAX_REPEATS}"
    )


def makes(given: argparse.Namespace) -> bool:
    """Whether the flags ask for a new sheet."""
    return any(getattr(given, name) for name in _MAKING)


def without_effect(parser: argparse.ArgumentParser, arguments: Sequence[str]) -> list[str]:
    """The flags of a command that count for nothing, because the sheet is there already.

    Args:
        parser: of `pipeline.judge`.
        arguments: in which no flag asks for a new sheet.
    """
    # a flag whose value is None is given none by the parser, neither
    unset = argparse.Namespace(**{action.dest: None for action in parser._actions})
    given = {name for name, value in vars(parser.parse_args(arguments, unset)).items() if value is not None}
    count = _ON_RESULTS if "results" in given else _ON_A_SHEET
    return [action.option_strings[0] for action in parser._actions if action.dest in given - {*count}]


def check(given: argparse.Namespace) -> None:
    """Settle what depends on other flags.

    Raises:
        PipelineError: if flags do not go together.
    """
    if given.per_text is None:
        given.per_text = min(2, given.judges)
    if given.annotate and (given.models or given.package or given.rationales):
        raise PipelineError(
            "people mark their own rationales on this sheet, so no methods can be given",
            where="--annotate",
            hint="leave out `--models`, `--package` and `--rationales`",
        )
    if given.input and not (given.annotate or given.rationales):
        raise PipelineError(
            "texts from a file have no rationales of a model",
            where="--input",
            hint="add `--rationales NAME=FILE` or `--annotate`",
        )
    if given.input and given.target:
        raise PipelineError(
            "texts from a file have no targets", where="--target", hint="leave out `--target` or `--input`"
        )
    if given.results and (makes(given) or given.export or given.take_back):
        raise PipelineError(
            "this flag only computes results, and cannot be combined with flags that create, export or "
            "import",
            where="--results",
            hint="use `--sheet` with those flags",
        )
    if given.sheet and given.no_serve and not (makes(given) or given.export or given.take_back):
        raise PipelineError(
            "there is nothing to do without a new sheet, `--export` or `--import`",
            where="--no-serve",
            hint="leave out the flag to serve the sheet",
        )
    if given.sheet and given.run:
        raise PipelineError("this flag needs `--results`", where="--run", hint="use `--results DIR`")
    if given.replace and not given.take_back:
        raise PipelineError("this flag needs `--import`", where="--replace", hint="add `--import FILE`")
    web_flags.check_address(given)
    web_flags.check_packages(("fastapi", "uvicorn", "krippendorff"))

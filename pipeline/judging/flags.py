"""The flags of `pipeline.judge`, and which of them go together."""

import argparse

from pipeline.base.errors import PipelineError
from pipeline.cli import flag_values
from pipeline.web import flags as web_flags
from pipeline.web.words import CHINESE, ENGLISH

_MAKING = ("models", "package", "rationales", "annotate", "input", "target")
"""Any of these asks for a new sheet."""
_SERVING = ("host", "port", "url", "no_serve")
_VOTES = ("majority", "any", "all")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Everything but the folder, the data set and the storage."""
    _add_making(parser.add_argument_group("a new sheet"))
    group = parser.add_argument_group("the pages")
    web_flags.add_address(group)
    group.add_argument("--no-serve", action="store_true", help="create the sheet, but do not serve it")
    group = parser.add_argument_group("without a server")
    group.add_argument("--export", metavar="DIR", help="write a JSONL file for each person, to be filled in")
    group.add_argument(
        "--import", dest="take_back", nargs="+", metavar="FILE", default=[], help="read the filled-in files"
    )
    group.add_argument("--replace", action="store_true", help="let `--import` replace existing answers")
    group = parser.add_argument_group("results")
    group.add_argument(
        "--vote",
        choices=_VOTES,
        default=_VOTES[0],
        help="how many annotators of a text must mark a token (default: %(default)s)",
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
        type=flag_values.fraction,
        default=0.1,
        metavar="RATE",
        help="share of a judge's texts that is shown a second time, without notice (default: %(default)s)",
    )
    group.add_argument(
        "--language",
        choices=(ENGLISH, CHINESE),
        help="language of the pages (default: the language of the texts)",
    )
    group.add_argument(
        "--seed", type=flag_values.seed, default=0, help="seed of all random choices (default: %(default)s)"
    )


def makes(given: argparse.Namespace) -> bool:
    """Whether the flags ask for a new sheet."""
    return any(getattr(given, name) for name in _MAKING)


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
            hint="leave out the methods",
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
    if given.sheet and given.run:
        raise PipelineError("this flag needs `--results`", where="--run", hint="use `--results DIR`")
    if given.replace and not given.take_back:
        raise PipelineError("this flag needs `--import`", where="--replace", hint="add `--import FILE`")
    web_flags.check_address(given)
    web_flags.check_packages(("fastapi", "uvicorn", "krippendorff"))

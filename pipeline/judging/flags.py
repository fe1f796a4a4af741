"""The flags of `pipeline.judge`, and which of them go together."""

import argparse

from pipeline.base.errors import PipelineError
from pipeline.cli import flag_values
from pipeline.web import flags as web_flags
from pipeline.web.words import CHINESE, ENGLISH

_MAKING = ("models", "package", "rationales", "annotate", "input")
"""Any of these asks for a new sheet."""
_SERVING = ("host", "port", "url", "no_serve")
_VOTES = ("majority", "any", "all")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Everything but the folder, the data set and the storage."""
    _add_making(parser.add_argument_group("a new sheet"))
    group = parser.add_argument_group("the pages")
    web_flags.add_address(group)
    group.add_argument("--no-serve", action="store_true", help="make the sheet and end")
    group = parser.add_argument_group("without a server")
    group.add_argument("--export", metavar="DIR", help="write a JSONL file for each person, to be filled in")
    group.add_argument(
        "--import", dest="take_back", nargs="+", metavar="FILE", default=[], help="read such files back"
    )
    group.add_argument("--replace", action="store_true", help="let `--import` change answers that are there")
    group = parser.add_argument_group("what came of it")
    group.add_argument(
        "--vote",
        choices=_VOTES,
        default=_VOTES[0],
        help="which marks of a text's annotators are gold (default: %(default)s)",
    )
    group.add_argument("--run", metavar="RUN_ID", help="MLflow run that gets the results as artifacts")


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
        "--input", metavar="FILE", help="JSONL with `text` or `tokens`, in place of a data set's texts"
    )
    group.add_argument(
        "--split", choices=("train", "val", "test"), default="test", help="(default: %(default)s)"
    )
    group.add_argument(
        "--texts",
        type=flag_values.positive_int,
        default=300,
        help="how many are drawn (default: %(default)s)",
    )
    group.add_argument(
        "--max-tokens", type=flag_values.positive_int, metavar="N", help="leave out texts that are longer"
    )
    group.add_argument(
        "--judges", type=flag_values.positive_int, default=6, help="people who answer (default: %(default)s)"
    )
    group.add_argument(
        "--per-text",
        type=flag_values.positive_int,
        help="people who see a text (default: 2, or 1 where there is but one)",
    )
    group.add_argument(
        "--repeats",
        type=flag_values.fraction,
        default=0.1,
        metavar="RATE",
        help="share of what one judges that comes back unannounced (default: %(default)s)",
    )
    group.add_argument(
        "--language", choices=(ENGLISH, CHINESE), help="of the pages (default: that of the texts)"
    )
    group.add_argument(
        "--seed", type=flag_values.seed, default=0, help="of all that is drawn (default: %(default)s)"
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
            "people mark their own rationales on such a sheet",
            where="--annotate",
            hint="leave out the methods",
        )
    if given.input and not (given.annotate or given.rationales):
        raise PipelineError(
            "whose rationales are judged?",
            where="--input",
            hint="add `--rationales NAME=FILE` or `--annotate`",
        )
    if given.results and (makes(given) or given.export or given.take_back):
        raise PipelineError(
            "results are read, nothing is made", where="--results", hint="use `--sheet` for that"
        )
    if given.sheet and given.run:
        raise PipelineError("only results are stored in a run", where="--run", hint="use `--results DIR`")
    if given.replace and not given.take_back:
        raise PipelineError("it says what `--import` may do", where="--replace", hint="add `--import FILE`")
    web_flags.check_address(given)
    web_flags.check_packages(("fastapi", "uvicorn", "krippendorff"))

"""The flags of `pipeline.demo`, and which of them go together."""

import argparse

from pipeline.base.errors import PipelineError
from pipeline.cli.models import URI_HELP
from pipeline.web import flags as web_flags
from pipeline.web.words import CHINESE, ENGLISH

MAX_MODELS = 2


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Everything but the storage."""
    group = parser.add_argument_group("models, one or two")
    group.add_argument(
        "--model",
        action="append",
        default=[],
        metavar="URI",
        help=URI_HELP,
    )
    group.add_argument(
        "--package", action="append", default=[], metavar="DIR", help="folder of a model, instead of a URI"
    )
    parser.add_argument("--sample", action="store_true", help="look in runs/sample for results, not in runs")
    group = parser.add_argument_group("the page")
    group.add_argument(
        "--examples",
        metavar="FILE",
        help="file of example texts, one on each line (default: validation texts of the model, if they are "
        "on this machine)",
    )
    group.add_argument("--no-examples", action="store_true", help="show no example texts")
    group.add_argument(
        "--cache-dir", metavar="DIR", help="cached features (default: INFOCAL_CACHE, else ~/.cache/infocal)"
    )
    group.add_argument(
        "--language",
        choices=(ENGLISH, CHINESE),
        help="language of the page (default: the language of the model's texts)",
    )
    group.add_argument(
        "--share",
        action="store_true",
        help="let other machines open the page, with its secret link (default: this machine only)",
    )
    web_flags.add_address(group, None)


def check(given: argparse.Namespace) -> None:
    """Settle what depends on other flags.

    Raises:
        PipelineError: if flags do not go together.
    """
    named = [*given.model, *given.package]
    if not 1 <= len(named) <= MAX_MODELS:
        raise PipelineError(
            f"expected one model or two, but got {len(named) or 'none'}",
            where="--model",
            hint="`--model models:/NAME@ALIAS` takes a registered model, `--package DIR` a model's folder",
        )
    if len(set(named)) < len(named):
        raise PipelineError(
            f"`{named[0]}` is named twice",
            where="--model" if given.model else "--package",
            hint="name two different models",
        )
    if given.examples and given.no_examples:
        raise PipelineError("expected one of `--examples` and `--no-examples`, but got both")
    if given.host and not web_flags.is_local(given.host) and not given.share:
        raise PipelineError(
            "this address lets other machines open the page",
            where=f"--host {given.host}",
            hint="add `--share` to allow this",
        )
    if given.url is not None and not given.share:
        raise PipelineError("this flag needs `--share`", where="--url", hint="add `--share`")
    if not given.host:
        given.host = "0.0.0.0" if given.share else web_flags.LOCAL
    web_flags.check_address(given)
    web_flags.check_packages(("fastapi", "uvicorn"))

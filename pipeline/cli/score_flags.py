"""The flags of `pipeline.score`, and which of them go together."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.base.errors import PipelineError

if TYPE_CHECKING:
    from pipeline.marks.printed import ValueRange


def add(parser: argparse.ArgumentParser) -> None:
    """All of them."""
    parser.add_argument("--rationale", metavar="FILE", help="masks to score (formats: docs/scoring.md)")
    parser.add_argument(
        "--human",
        metavar="FILE",
        help="human rationales of the same texts; with --audit: compute the gold density from this file",
    )
    parser.add_argument(
        "--audit",
        metavar="TABLE.csv",
        help="instead of scoring masks, check the scores in this table by arithmetic",
    )
    parser.add_argument(
        "--gold-density",
        metavar="X",
        help="with --audit: share of tokens that humans marked, such as 0.126 or 12.6%%",
    )
    parser.add_argument("--dataset", help="`beer`: read the file formats of the beer corpus")
    parser.add_argument("--aspect", help="aspect of beer: appearance, smell or palate")
    parser.add_argument(
        "--json",
        metavar="FILE",
        help="also write all results to this file as JSON; `-`: write JSON to stdout instead of the text",
    )


def check(given: argparse.Namespace) -> None:
    """Refuse flags that do not go together.

    Raises:
        PipelineError: if there are such.
    """
    if given.audit is None:
        if given.gold_density is not None:
            raise PipelineError(
                "this flag needs `--audit`", where="--gold-density", hint="add `--audit TABLE.csv`"
            )
        if missing := [flag for flag in ("human", "rationale") if getattr(given, flag) is None]:
            raise PipelineError(
                f"no `--{missing[0]}` was given",
                hint="`--human FILE --rationale FILE` scores masks, `--audit TABLE.csv` checks a table",
            )
        return
    if given.rationale is not None:
        raise PipelineError("give `--audit` or `--rationale`, not both", where="--rationale")
    if given.gold_density is not None and given.human is not None:
        raise PipelineError("give `--gold-density` or `--human`, not both", where="--gold-density")


def gold_density(given: argparse.Namespace) -> "ValueRange | None":
    """The share of marked tokens, as stated or as counted in `--human`; None where neither is given."""
    from pipeline.marks.printed import ValueRange, stated_share

    if given.human is None:
        for flag in ("dataset", "aspect"):
            if getattr(given, flag) is not None:
                raise PipelineError(
                    "this flag needs `--human`",
                    where=f"--{flag}",
                    hint="add `--human FILE`, or leave out the flag",
                )
        return None if given.gold_density is None else stated_share(given.gold_density, "--gold-density")
    from feature_store.masks import check_dataset, read_masks
    from pipeline.marks.scorecard import gold_density as counted

    density = counted(read_masks(Path(given.human), aspect=check_dataset(given.dataset, given.aspect)))
    return ValueRange(density, density)

"""Score given masks against human ones without training; or check a table of scores by arithmetic.

python -m pipeline.score --dataset beer --aspect palate --human annotations.json --rationale masks.jsonl
python -m pipeline.score --audit table.csv --gold-density 0.126
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.base.errors import PipelineError, run_command
from pipeline.training import settings

if TYPE_CHECKING:
    from pipeline.marks.printed import Interval


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.score`."""
    parser = settings.parser(
        "pipeline.score",
        "Score any rationales against human ones, in every metric mode; or check a published table.",
    )
    parser.add_argument("--rationale", metavar="FILE", help="masks to score (formats: docs/scoring.md)")
    parser.add_argument(
        "--human", metavar="FILE", help="human rationales of the same texts; with --audit, for X"
    )
    parser.add_argument(
        "--audit", metavar="TABLE.csv", help="check this table of scores by arithmetic, in place of scoring"
    )
    parser.add_argument(
        "--gold-density", metavar="X", help="for --audit: share of marked tokens, as 0.126 or 12.6%%"
    )
    parser.add_argument("--dataset", help="`beer` for the corpus's own file formats")
    parser.add_argument("--aspect", help="of beer: appearance, smell, palate")
    parser.add_argument(
        "--json", metavar="FILE", help="also write everything to this file; `-`: to stdout, in place of text"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    target = settings.json_target(given.json, given.human, given.rationale, given.audit)
    if given.gold_density is not None and given.audit is None:
        raise PipelineError(
            "only a table is checked against it", where="--gold-density", hint="add `--audit`"
        )
    text, document = _scores(given) if given.audit is None else _audit(given)
    if given.json == "-":
        print(settings.dumped(document))
        return 0
    print(text)
    settings.write_json(target, document)
    return 0


def _scores(given: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The scores of `--rationale` against `--human`: a page, and the same for machines."""
    if missing := [flag for flag in ("human", "rationale") if getattr(given, flag) is None]:
        raise PipelineError(
            f"no `--{missing[0]}` was given",
            hint="`--human FILE --rationale FILE` scores masks, `--audit TABLE.csv` checks a table",
        )
    from feature_store.masks import check_dataset, read_masks
    from pipeline.marks import scorecard

    aspect = check_dataset(given.dataset, given.aspect)
    human, rationales = (read_masks(Path(name), aspect=aspect) for name in (given.human, given.rationale))
    card = scorecard.scorecard(human, rationales)
    return scorecard.page(card, human, rationales), scorecard.as_json(card, human, rationales)


def _audit(given: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """What is wrong with the table `--audit`."""
    if given.rationale is not None:
        raise PipelineError("give `--audit` or `--rationale`, not both", where="--rationale")
    if given.gold_density is not None and given.human is not None:
        raise PipelineError("give `--gold-density` or `--human`, not both", where="--gold-density")
    from pipeline.marks import audit
    from pipeline.marks.printed import read_table

    table = read_table(Path(given.audit))
    density = _gold_density(given)
    corpora = sorted({row.corpus for row in table.rows})
    if density is not None and len(corpora) > 1:
        raise PipelineError(
            f"one gold density, but rows of {len(corpora)} corpora: {', '.join(corpora)[:200]}",
            where=f"--audit {given.audit}",
            hint="state it in a column `gold_density`, or check one corpus at a time",
        )
    result = audit.audit(table, density)
    return audit.page(result), audit.as_json(result)


def _gold_density(given: argparse.Namespace) -> "Interval | None":
    """The share of marked tokens, as stated or as counted in `--human`; None where neither is given."""
    from pipeline.marks.printed import Interval, stated_share

    if given.human is None:
        for flag in ("dataset", "aspect"):
            if getattr(given, flag) is not None:
                raise PipelineError(
                    "it says how `--human` is read, and there is none",
                    where=f"--{flag}",
                    hint="add `--human FILE`, or leave it out",
                )
        return None if given.gold_density is None else stated_share(given.gold_density, "--gold-density")
    from feature_store.masks import check_dataset, read_masks
    from pipeline.marks.scorecard import gold_density

    density = gold_density(read_masks(Path(given.human), aspect=check_dataset(given.dataset, given.aspect)))
    return Interval(density, density)


if __name__ == "__main__":
    sys.exit(run_command(main))

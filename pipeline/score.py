"""Score a file of masks against human rationales, or check a published table; nothing is trained.

python -m pipeline.score --dataset beer --aspect palate --human annotations.json --rationale masks.jsonl
python -m pipeline.score --audit table.csv --gold-density 0.126
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline.base.errors import PipelineError, run_command
from pipeline.cli import common_flags, json_output, score_flags


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.score`."""
    parser = common_flags.parser(
        "pipeline.score",
        "Score any rationales against human ones, in every metric mode; or check a published table.",
    )
    score_flags.add(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    target = json_output.json_target(given.json, given.human, given.rationale, given.audit)
    score_flags.check(given)
    text, document = _scores(given) if given.audit is None else _audit(given)
    if given.json == "-":
        print(json_output.dumped(document))
        return 0
    print(text)
    json_output.write_json(target, document)
    return 0


def _scores(given: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The scores of `--rationale` against `--human`: a page, and the same for machines."""
    from feature_store.masks import check_dataset, read_masks
    from pipeline.marks import scorecard

    aspect = check_dataset(given.dataset, given.aspect)
    human, rationales = (read_masks(Path(name), aspect=aspect) for name in (given.human, given.rationale))
    card = scorecard.scorecard(human, rationales)
    return scorecard.page(card, human, rationales), scorecard.as_json(card, human, rationales)


def _audit(given: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """What is wrong with the table `--audit`."""
    from pipeline.marks import audit
    from pipeline.marks.printed import read_table

    table = read_table(Path(given.audit))
    density = score_flags.gold_density(given)
    corpora = sorted({row.corpus for row in table.rows})
    if density is not None and len(corpora) > 1:
        raise PipelineError(
            f"expected rows of one corpus, because one gold density is given, but got {len(corpora)} "
            f"corpora: {', '.join(corpora)[:200]}",
            where=f"--audit {given.audit}",
            hint="state it in a column `gold_density`, or check one corpus at a time",
        )
    result = audit.audit(table, density)
    return audit.page(result), audit.as_json(result)


if __name__ == "__main__":
    sys.exit(run_command(main))

"""Score given masks against human ones without training; or check a table of scores by arithmetic.

python -m pipeline.score --dataset beer --aspect palate --human annotations.json --rationale masks.jsonl
python -m pipeline.score --audit table.csv --gold-density 0.126
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipeline import settings
from pipeline.errors import PipelineError, run_command


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.score`."""
    parser = settings.parser(
        "pipeline.score",
        "Score any rationales against human ones, in every metric mode; or check a published table.",
    )
    parser.add_argument("--rationale", metavar="FILE", help="masks to score (formats: docs/scoring.md)")
    parser.add_argument("--human", metavar="FILE", help="human rationales of the same texts")
    parser.add_argument("--dataset", help="`beer` for the corpus's own file formats")
    parser.add_argument("--aspect", help="of beer: appearance, smell, palate")
    parser.add_argument(
        "--json", metavar="FILE", help="also write everything to this file; `-`: to stdout, in place of text"
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    target = _json_target(given.json)
    text, document = _scores(given)
    if given.json == "-":
        print(_dumped(document))
        return 0
    print(text)
    if target is not None:
        target.write_text(_dumped(document) + "\n", encoding="utf-8")
    return 0


def _json_target(name: str | None) -> Path | None:
    """Where JSON goes; a folder that is missing is found here, before anything is read."""
    if name is None or name == "-":
        return None
    target = Path(name)
    if not target.absolute().parent.is_dir():
        raise PipelineError(f"there is no folder `{target.parent}`", where=f"--json {target}")
    return target


def _dumped(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)


def _scores(given: argparse.Namespace) -> tuple[str, dict[str, Any]]:
    """The scores of `--rationale` against `--human`: a page, and the same for machines."""
    if missing := [flag for flag in ("human", "rationale") if getattr(given, flag) is None]:
        raise PipelineError(
            f"no `--{missing[0]}` was given",
            hint="`--human FILE --rationale FILE` scores masks, `--audit TABLE.csv` checks a table",
        )
    from feature_store.masks import check_dataset, read_masks
    from pipeline import scorecard

    aspect = check_dataset(given.dataset, given.aspect)
    human, rationales = (read_masks(Path(name), aspect=aspect) for name in (given.human, given.rationale))
    card = scorecard.scorecard(human, rationales)
    return scorecard.page(card, human, rationales), scorecard.as_json(card, human, rationales)


if __name__ == "__main__":
    sys.exit(run_command(main))

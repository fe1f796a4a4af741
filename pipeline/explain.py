"""Print the prediction and the rationale of each text.

python -m pipeline.explain --model models:/infocal-beer-palate@champion --text "a smooth and creamy body ."
"""

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from feature_store import terminal
from pipeline.base.errors import run_command
from pipeline.cli import common_flags, models, text_input
from pipeline.cli.explanations import BATCH, BOLD, PLAIN, as_json, explained, how_marked, line

if TYPE_CHECKING:
    from pipeline.training.checkpoints import Package

logger = logging.getLogger("pipeline.explain")


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.explain`."""
    parser = common_flags.parser(
        "pipeline.explain", "Predict the label or score of texts and mark the words of the rationale."
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--model", type=models.model_uri, metavar="URI", help=models.URI_HELP)
    which.add_argument(
        "--package", metavar="DIR", help="folder of a model that `pipeline.train` or a search wrote"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--text", action="append", help="a text; may be repeated")
    what.add_argument(
        "--input", metavar="FILE", help="file with one text a line, `-` for standard input (default)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a line, with every token")
    parser.add_argument("--sample", action="store_true", help="look in runs/sample for results, not in runs")
    common_flags.add_storage_arguments(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    if given.model:
        models.parse_uri(given.model)  # before packages are loaded, which takes seconds
    windows = text_input.texts(given)
    with terminal.opened(), terminal.step("loading the model"):
        package = _package(given)
        from pipeline.training.explainer import Explainer

        explainer = Explainer(package, batch_size=BATCH)
    if not given.json:
        logger.info("%s", how_marked(explainer.model.threshold))
    marks = BOLD if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else PLAIN
    for window in windows:
        for text, found in explained(window, explainer):
            print(as_json(text, found) if given.json else line(text, found, marks))
        sys.stdout.flush()
    return 0


def _package(given: argparse.Namespace) -> "Package":
    """The model, from a folder or from the registry."""
    if given.package:
        from pipeline.training.checkpoints import load_package

        return load_package(Path(given.package))
    return models.registered(models.tracker_of(given, [given.model]), given.model)[0]


if __name__ == "__main__":
    sys.exit(run_command(main))

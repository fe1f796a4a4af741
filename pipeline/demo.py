"""Show one or two models on a web page: paste a text, see rationale and prediction, change the marked words.

python -m pipeline.demo --model models:/infocal-beer-palate@champion
python -m pipeline.demo --model infocal-beer-palate --model hardkuma-beer-palate@challenger
"""

import argparse
import sys
from collections.abc import Sequence

from feature_store import terminal
from pipeline.base.errors import run_command
from pipeline.cli import common_flags
from pipeline.showing import flags


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.demo`."""
    parser = common_flags.parser(
        "pipeline.demo",
        "Show models on a web page: their rationales, their predictions, and the predictions from rationales "
        "that you change.",
    )
    flags.add_flags(parser)
    common_flags.add_storage_arguments(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    flags.check(given)
    from pipeline.showing import host

    host.serve(given)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))

"""Correct the artifact paths in MLflow's database after a results folder was moved or copied.

python -m pipeline.relocate --storage DIR

The database has their paths from the root. The commands here find artifacts beside it by themselves;
`mlflow ui` and `mlflow models serve` need the paths to be right.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from pipeline.base import locations, uris
from pipeline.base.errors import PipelineError, run_command
from pipeline.cli import common_flags


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.relocate`."""
    parser = common_flags.parser(
        "pipeline.relocate",
        "Correct the artifact paths in MLflow's database after a folder was moved or copied.",
    )
    parser.add_argument("--sample", action="store_true", help="the results are of the sample corpus")
    parser.add_argument("--dry-run", action="store_true", help="print what would change, and change nothing")
    common_flags.add_storage_arguments(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    uri = locations.tracking_uri(given.tracking_uri, locations.storage(given.storage, given.sample))
    database = _database(uri)
    from pipeline.tracking.relocation import relocate

    print(relocate(database, dry_run=given.dry_run))
    return 0


def _database(uri: str) -> Path:
    """The file of a database that this MLflow can use.

    Raises:
        PipelineError: if it is none, or is not there.
    """
    file = uris.file_of_sqlite(uri)
    if file is None:
        raise PipelineError(
            f"expected `sqlite:///FILE`, but got `{uris.without_password(uri)}`",
            where="--tracking-uri",
            hint="an MLflow server stores the paths of its artifacts itself",
        )
    if not file.is_file():
        raise PipelineError(
            f"there is no tracking database `{file}`",
            hint="name the folder of results with `--storage` (`--sample`: runs/sample), or the database "
            "with `--tracking-uri`",
        )
    from pipeline.tracking.schema import refuse_another_schema  # SQLAlchemy takes a moment

    refuse_another_schema(uri)
    return file


if __name__ == "__main__":
    sys.exit(run_command(main))

"""Compare methods over several seeds, at the same selection rate and number of epochs, in one table.

python -m pipeline.compare --dataset beer --aspect palate --methods all --seeds 3
"""

import argparse
import contextlib
import logging
import sys
from collections.abc import Sequence

from feature_store import terminal
from pipeline.base import command_text, locations
from pipeline.base.errors import PipelineError, run_command
from pipeline.base.uris import without_password
from pipeline.cli import common_flags, compare_flags, compare_plan, compare_settings, planning
from pipeline.comparing.places import COMPARISON, SETTINGS
from pipeline.study import cluster, study_folder
from pipeline.tracking import places

logger = logging.getLogger("pipeline.compare")


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.compare`."""
    parser = common_flags.parser(
        "pipeline.compare", "Compare methods at equal selection rate and equal budget."
    )
    common_flags.add_data_arguments(parser)
    common_flags.add_training_arguments(parser, has_one_method=False)
    common_flags.add_storage_arguments(parser)
    compare_flags.add(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    if given.table == compare_flags.LANGUAGE_MODELS:
        from pipeline.cli import language_model_table

        return language_model_table.run(given, arguments, build_parser().parse_args([]))
    cluster.prepare_environment(given.address)
    storage = locations.storage(given.storage, given.sample)
    stated = given.tracking_uri
    uri = "" if given.resume else locations.tracking_uri(stated, storage)
    home = storage.opened()
    if given.resume:
        prepared = compare_settings.stored_comparison(given, home)
        first = command_text.parsed_again(prepared.command, f"{SETTINGS} of `{prepared.name}`")
        stated = stated or first.tracking_uri
        uri = locations.tracking_uri(stated, storage)
    else:
        prepared = compare_settings.new_comparison(given, arguments)
    commands = command_text.next_commands(prepared.name, storage, stated, given.address, "pipeline.compare")
    if storage.is_remote:
        home.check()
    compare_settings.check_devices(prepared, given.address)
    if not given.resume:
        planning.check_data(given, prepared.runs[0])
    places.check(storage, uri)
    cluster.check_address(given.address)
    directory = home / COMPARISON.home / prepared.name
    if given.dry_run:
        prepared, data = compare_settings.looked_at(given, prepared)
        print(compare_plan.plan(prepared, directory, uri, data))
        return 0
    cluster.share_cache(storage, given.cache_dir)
    with (
        study_folder.opened(storage, prepared.name, resume=given.resume, kind=COMPARISON) as folder,
        study_folder.resume_hint(folder.directory / SETTINGS, commands.how_to_resume, "training"),
    ):
        logger.info("results: %s\ntracking: %s", directory, without_password(uri))
        planning.compile_ahead(prepared.runs[0], given.address)
        width = terminal.width_of(sys.stdout)
        # Ray prints that a node has died, and MLflow where a run is: stdout holds the result alone
        with terminal.opened(), contextlib.redirect_stdout(sys.stderr):
            if not given.resume:
                with terminal.step("preparing the data"):
                    prepared = compare_settings.with_features(given, prepared)
            with terminal.step("loading the packages"):
                from pipeline.comparing.comparison import conduct
                from pipeline.comparing.comparison_table import tables
            table, broken = conduct(prepared, folder, uri, given.address, commands.how_to_resume, width)
            files = tables(folder)
    terminal.answer(table)
    logger.info("tables: %s", ", ".join(files))
    if broken:
        name, reason = next(iter(broken.items()))
        raise PipelineError(
            f"{len(broken)} of {len(prepared.runs) * len(prepared.seeds)} trainings crashed; {name}: "
            f"{reason}",
            hint=f"train the missing runs with: {commands.how_to_resume}",
        )
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))

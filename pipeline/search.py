"""Run or resume a study: prepare the data, train trials, choose one by the criterion, register it.

python -m pipeline.search --dataset beer --aspect palate
"""

import argparse
import contextlib
import logging
import sys
from collections.abc import Sequence

from feature_store import terminal
from pipeline.base import command_text, locations
from pipeline.base.errors import run_command
from pipeline.base.uris import without_password
from pipeline.cli import common_flags, planning, search_flags, search_plan, search_settings
from pipeline.study import cluster, study_folder
from pipeline.study.ledger import LEDGER
from pipeline.study.study_folder import OPTUNA_DB, STUDIES
from pipeline.tracking import places

logger = logging.getLogger("pipeline.search")


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.search`."""
    parser = common_flags.parser("pipeline.search", "Search hyper-parameters of a rationale model.")
    common_flags.add_data_arguments(parser)
    common_flags.add_training_arguments(parser)
    common_flags.add_storage_arguments(parser)
    search_flags.add(parser)
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    cluster.prepare_environment(given.address)
    storage = locations.storage(given.storage, given.sample)
    uri = "" if given.resume else locations.tracking_uri(given.tracking_uri, storage)
    home = storage.opened()
    if given.resume:
        prepared = search_settings.stored_study(given, home)
        given = search_settings.with_first_flags(given, prepared, build_parser())
        uri = locations.tracking_uri(given.tracking_uri, storage)
    else:
        prepared = search_settings.new_study(given, arguments)
    directory = home / STUDIES / prepared.name
    commands = command_text.next_commands(prepared.name, storage, given.tracking_uri, given.address)
    if storage.is_remote:
        home.check()
    if not given.resume:
        planning.check_data(given, prepared.run)
    cluster.check_address(given.address)
    if cluster.is_local(given.address) and not prepared.packs_gpus:
        cluster.check_machine(prepared.cpus_per_trial, prepared.gpus_per_trial, what="trial")
    cluster.share_cache(storage, given.cache_dir)
    with contextlib.ExitStack() as stack:
        planning.check_device(prepared.run, given.address)
        places.check(storage, uri, given.optuna_storage)
        if prepared.packs_gpus and not prepared.chooses_gpus:
            cluster.check_packing(given.address, prepared.run.device)
        if given.dry_run:
            prepared, data = search_settings.looked_at(given, prepared)
            print(search_plan.plan(prepared, directory, uri, given.address, data))
            return 0
        export = search_settings.export_of(given.optuna_storage, prepared.name, storage, directory)
        folder = stack.enter_context(study_folder.opened(storage, prepared.name, resume=given.resume))
        stack.enter_context(study_folder.resume_hint(folder.directory / LEDGER, commands.how_to_resume))
        with terminal.opened():
            logger.info("results: %s\ntracking: %s", directory, without_password(uri))
            if not given.resume:  # a resumed study may have nothing left to train
                stack.enter_context(cluster.started_ahead(given.address))
            planning.compile_ahead(prepared.run, given.address)
            with terminal.step("loading the packages"):
                from pipeline.study.conduct import check_model, conduct, save

            if not given.resume:
                save(prepared, folder)  # so that it can be resumed from now on
            with terminal.step("preparing the data"):
                prepared = search_settings.with_features(given, prepared)
                if not given.resume:
                    check_model(prepared, uri)
            with terminal.step("loading or training HardKuma, which sets the threshold on precision"):
                prepared = search_settings.with_rival(given, prepared, folder)
            # Ray prints that a node has died, and MLflow where a run is: stdout holds the result alone
            with contextlib.redirect_stdout(sys.stderr):
                result = conduct(
                    prepared, folder, uri, address=given.address, resume=given.resume, commands=commands
                )
        terminal.answer(result)
        if export is not None:
            export.run_or_say_how(folder.directory / OPTUNA_DB, commands.how_to_resume)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))

"""Make a registered model the champion if it meets its criterion on the test split.

python -m pipeline.promote --dataset beer --aspect palate
"""

import argparse
import sys
from collections.abc import Sequence

from feature_store import terminal
from pipeline.base import command_text, locations
from pipeline.base.errors import run_command
from pipeline.cli import common_flags, flag_values
from pipeline.training import naming
from search_spaces import lookup


def build_parser() -> argparse.ArgumentParser:
    """The command line of `pipeline.promote`."""
    parser = common_flags.parser(
        "pipeline.promote", "Score a registered model on the test split and make it the champion."
    )
    common_flags.add_data_arguments(parser)
    parser.add_argument("--embedding", help="`--embedding` of the training, if it had one")
    common_flags.add_storage_arguments(parser)
    group = parser.add_argument_group("promotion")
    common_flags.add_model_name(group)
    group.add_argument(
        "--version", type=flag_values.positive_int, help="version (default: the alias `challenger`)"
    )
    group.add_argument(
        "--min-precision",
        type=flag_values.fraction,
        help="threshold on test precision (default: the threshold by which the model was chosen)",
    )
    group.add_argument(
        "--force",
        action="store_true",
        help="promote the model even if it is worse on test than the present champion, or cannot be "
        "compared with it",
    )
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns its exit code."""
    given = build_parser().parse_args(arguments)
    terminal.log_to_stderr()
    from feature_store.sources import get_source
    from feature_store.sources.base import resolve_aspect

    aspect = resolve_aspect(get_source(given.dataset), given.aspect) or ""
    lookup.criterion(given.dataset, aspect)
    storage = locations.storage(given.storage, given.sample)
    uri = locations.tracking_uri(given.tracking_uri, storage)
    with terminal.opened(), terminal.step("loading the packages"):
        from pipeline.study import promotion, study_report
        from pipeline.tracking import model_registry
        from pipeline.tracking.tracking import Tracker

        tracker = Tracker(uri, create=False)
    name = naming.model_name(given, aspect)
    version = model_registry.find(tracker, name, given.version or model_registry.CHALLENGER)
    holder = model_registry.champion(tracker, name)
    if holder is not None and holder.version == version.version:
        said = f"{name} version {version.version} is `{model_registry.CHAMPION}` already"
        terminal.answer(said + promotion.trained_elsewhere(version, naming.own_folder(given)))
        return 0
    places = command_text.storage_flags(storage)
    places += command_text.named_store(given.tracking_uri) if given.tracking_uri else []
    promotion.check_comparable(version, holder, given.dataset, aspect, places)
    # the hint states another threshold, and whether the champion is better is seen anew
    left_out = {"--min-precision": 1, "--force": 0}
    if given.tracking_uri and not command_text.named_store(given.tracking_uri):
        left_out["--tracking-uri"] = 1
    command = command_text.without_flags(command_text.stored_command("pipeline.promote", arguments), left_out)
    text = promotion.judge(tracker, version, holder, given, command)
    model_registry.promote(tracker, version)
    if version.run_id:
        with terminal.opened(), terminal.step("writing the study's report again"):
            study_report.refresh(tracker, version.run_id, storage)
    before = "there was none" if holder is None else f"it was version {holder.version}"
    terminal.answer(
        f"\n`{model_registry.CHAMPION}` of {name} is version {version.version} now ({before}). Next:"
    )
    terminal.answer(promotion.next_steps(f"models:/{name}@{model_registry.CHAMPION}", uri, text, storage))
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))

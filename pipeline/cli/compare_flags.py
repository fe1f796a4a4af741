"""The flags of `pipeline.compare` that no other command has."""

import argparse

from pipeline.cli import common_flags, flag_values
from search_spaces import lookup

LANGUAGE_MODELS = "language-models"


def add(parser: argparse.ArgumentParser) -> None:
    """What is compared, where and under which name."""
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--table",
        choices=("methods", LANGUAGE_MODELS),
        default="methods",
        help=f"what to compare: methods, or the perplexities of {LANGUAGE_MODELS} (default: %(default)s)",
    )
    group.add_argument(
        "--methods",
        default="all",
        metavar="A,B,...",
        help=f"methods to compare: all, or some of {', '.join(lookup.method_names())} (default: %(default)s)",
    )
    group.add_argument(
        "--seeds",
        type=flag_values.positive_int,
        default=3,
        help="number of seeds for each method (default: %(default)s)",
    )
    group.add_argument(
        "--cpus-per-run",
        type=flag_values.positive_float,
        default=1.0,
        help="cores of each training, which limits how many run at once (default: %(default)s)",
    )
    group.add_argument(
        "--gpus-per-run",
        type=flag_values.num_gpus,
        help="GPUs of each training, may be a fraction (default: 1 if this machine or the cluster has a GPU, "
        "else 0)",
    )
    common_flags.add_address(group)
    group.add_argument(
        "--name",
        type=flag_values.study_name,
        help="name of the comparison (default: data set, aspect and time)",
    )
    group.add_argument(
        "--resume", action="store_true", help="resume the comparison NAME: train what is missing"
    )
    group.add_argument(
        "--dry-run", action="store_true", help="check the flags and the data, print the plan, train nothing"
    )

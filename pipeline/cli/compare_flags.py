"""The flags of `pipeline.compare` that no other command has."""

import argparse

from pipeline.cli import flag_values
from search_spaces import lookup


def add(parser: argparse.ArgumentParser) -> None:
    """What is compared, where and under which name."""
    group = parser.add_argument_group("comparison")
    group.add_argument(
        "--methods",
        default="all",
        metavar="A,B,...",
        help=f"methods to compare, of {', '.join(lookup.method_names())} (default: %(default)s)",
    )
    group.add_argument(
        "--seeds",
        type=flag_values.positive_int,
        default=3,
        help="seeds that each method is trained with (default: %(default)s)",
    )
    group.add_argument(
        "--cpus-per-run",
        type=flag_values.positive_float,
        default=1.0,
        help="cores of a training; as many run at once as fit (default: %(default)s)",
    )
    group.add_argument(
        "--gpus-per-run",
        type=flag_values.num_gpus,
        help="GPUs of a training, may be a fraction (default: 1 where this machine has one, else 0)",
    )
    group.add_argument(
        "--name",
        type=flag_values.study_name,
        help="name of the comparison (default: made of dataset, aspect and time)",
    )
    group.add_argument(
        "--resume", action="store_true", help="train what is missing of the comparison that --name names"
    )
    group.add_argument(
        "--dry-run", action="store_true", help="check everything, print the plan, train nothing"
    )

"""The flags of `pipeline.search` that no other command has."""

import argparse

from pipeline.cli import common_flags, flag_values
from pipeline.training import settings
from search_spaces.criteria import PAPER, RELATIVE


def add(parser: argparse.ArgumentParser) -> None:
    """What is searched, how, where and under which name."""
    study = parser.add_argument_group("search")
    study.add_argument(
        "--trials",
        type=flag_values.positive_int,
        default=30,
        help="configurations to try (default: %(default)s)",
    )
    study.add_argument(
        "--criterion",
        choices=(PAPER, RELATIVE),
        help="whose threshold on precision: paper, fixed ones; relative, 2 points below HardKuma's, which is "
        "trained first on the same features, for as many epochs and at the same selection rate, and kept "
        "(default: relative on real data with human rationales, else paper)",
    )
    study.add_argument("--space", default="paper", help="search space: paper or wide (default: %(default)s)")
    study.add_argument(
        "--sampler",
        default="tpe",
        choices=settings.SAMPLERS,
        help="who proposes points (default: %(default)s)",
    )
    study.add_argument(
        "--seeds",
        type=flag_values.positive_int,
        default=1,
        help="seeds the winner is trained with in all (default: %(default)s)",
    )
    study.add_argument(
        "--max-concurrent", type=flag_values.positive_int, help="trials at once (default: as many as fit)"
    )
    study.add_argument(
        "--cpus-per-trial",
        type=flag_values.positive_float,
        default=1.0,
        help="cores of a trial (default: %(default)s)",
    )
    study.add_argument(
        "--gpus-per-trial",
        type=flag_values.num_gpus,
        help="GPUs of a trial, may be a fraction; auto: as many trials on each GPU as a measured one says "
        "that fit; 0: trials run on the CPU (default: auto where there are GPUs, else 0)",
    )
    study.add_argument(
        "--checkpoint-every",
        type=flag_values.tolerance,
        metavar="SECONDS",
        default=60.0,
        help="training that is lost at most if a worker dies in mid-epoch; 0: up to an epoch "
        "(default: %(default)g)",
    )
    study.add_argument(
        "--address", help="Ray cluster to use (default: RAY_ADDRESS, else a private local one)"
    )
    study.add_argument(
        "--name",
        type=flag_values.study_name,
        help="name of the study (default: made of dataset, aspect and time)",
    )
    common_flags.add_model_name(study)
    study.add_argument(
        "--optuna-storage",
        metavar="URL",
        help="Optuna storage that the finished study is exported to, such as sqlite:///FILE, journal:///FILE "
        "or postgresql://USER:PASSWORD@HOST/DB",
    )
    study.add_argument("--resume", action="store_true", help="resume the study that --name names")
    study.add_argument(
        "--dry-run", action="store_true", help="check everything, print the plan, train nothing"
    )

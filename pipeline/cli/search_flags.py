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
        help="number of configurations to try (default: %(default)s)",
    )
    study.add_argument(
        "--criterion",
        choices=(PAPER, RELATIVE),
        help="threshold on precision. paper: the paper's fixed value. relative: 2 points below the precision "
        "of HardKuma, which is trained first on the same features, for the same number of epochs and at the "
        "same selection rate (default: relative on real data with human rationales, else paper)",
    )
    study.add_argument(
        "--space",
        default="paper",
        metavar="NAME|FILE",
        help="ranges to search: paper, wide, or a TOML file of your own (docs/choosing.md) "
        "(default: %(default)s)",
    )
    study.add_argument(
        "--sampler",
        default="tpe",
        choices=settings.SAMPLERS,
        help="method that proposes the configurations (default: %(default)s)",
    )
    study.add_argument(
        "--seeds",
        type=flag_values.num_seeds,
        default=1,
        help="number of seeds for the best trial, including the first (default: %(default)s). auto: train "
        "the four best trials with further seeds (at most eight further trainings) and choose the trial with "
        "the best mean",
    )
    study.add_argument(
        "--max-concurrent",
        type=flag_values.positive_int,
        help="largest number of trials at once (default: as many as fit)",
    )
    study.add_argument(
        "--cpus-per-trial",
        type=flag_values.positive_float,
        default=1.0,
        help="cores of each trial (default: %(default)s)",
    )
    study.add_argument(
        "--gpus-per-trial",
        type=flag_values.num_gpus,
        help="GPUs of each trial, may be a fraction. auto: measure the GPU memory of one trial, then run "
        "as many trials on each GPU as fit. 0: run trials on the CPU (default: auto if there are GPUs, "
        "else 0)",
    )
    study.add_argument(
        "--checkpoint-every",
        type=flag_values.tolerance,
        metavar="SECONDS",
        default=60.0,
        help="interval at which a trial saves its state within an epoch; longer if saving would take more "
        "than 2%% of the time. 0: save only after each epoch (default: %(default)g)",
    )
    common_flags.add_address(study)
    study.add_argument(
        "--name",
        type=flag_values.study_name,
        help="name of the study (default: data set, aspect and time)",
    )
    common_flags.add_model_name(study)
    study.add_argument(
        "--optuna-storage",
        metavar="URL",
        help="export the finished study to this Optuna storage: sqlite:///FILE, journal:///FILE or "
        "postgresql://USER:PASSWORD@HOST/DB",
    )
    study.add_argument("--resume", action="store_true", help="resume the study NAME")
    study.add_argument(
        "--dry-run", action="store_true", help="check the flags and the data, print the plan, train nothing"
    )

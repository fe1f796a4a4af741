"""Flags that several commands share."""

import argparse
import os
from collections.abc import Sequence

from feature_store.sources import DEFAULT_DATASET, aspects_in_words
from infocal.methods.registry import INFOCAL
from pipeline.base.command_text import PipelineParser
from pipeline.cli import flag_values
from search_spaces import lookup


def parser(module: str, description: str) -> argparse.ArgumentParser:
    """A parser with the habits of all commands: no abbreviations, and `--debug`."""
    made = PipelineParser(prog=f"python -m {module}", description=description)
    made.add_argument(
        "--debug", action="store_true", help="show the traceback of an error, and which kernels are used"
    )
    return made


def add_data_arguments(target: argparse.ArgumentParser) -> None:
    """Flags that say which data set is meant and where its files are."""
    group = target.add_argument_group("data")
    group.add_argument("--dataset", default=DEFAULT_DATASET, help="data set (default: %(default)s)")
    group.add_argument(
        "--aspect",
        "--task",
        help=f"what to predict ({aspects_in_words()}); several names, separated by commas, give one model "
        "for all of them (main target first)",
    )
    group.add_argument(
        "--option",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="an option of the data set (`python -m feature_store list` shows them); may be repeated",
    )
    group.add_argument(
        "--data-dir",
        metavar="DIR",
        help="folder that contains DATASET/; for jsonl and eraser, the folder of your data "
        "(default: INFOCAL_DATA)",
    )
    group.add_argument(
        "--sample", action="store_true", help="use the small made-up corpus instead of real data"
    )
    add_cache_dir(group)


def add_cache_dir(target: argparse._ActionsContainer) -> None:
    """The flag that names the folder of cached features."""
    target.add_argument(
        "--cache-dir",
        metavar="DIR",
        help="folder of cached features (default: INFOCAL_CACHE, else ~/.cache/infocal)",
    )


def add_feature_arguments(target: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Flags that say where the features of an earlier run are; returns their group."""
    group = target.add_argument_group("to build the features again, if the cache no longer has them")
    group.add_argument(
        "--data-dir", metavar="DIR", help="folder that contains DATASET/ (default: INFOCAL_DATA)"
    )
    add_cache_dir(group)
    return group


def add_model_name(target: argparse._ActionsContainer) -> None:
    """The flag that names the registered model."""
    target.add_argument(
        "--model-name",
        type=flag_values.registered_name,
        metavar="NAME",
        help="name of the registered model (default: METHOD-DATASET-ASPECT; for your own data "
        "METHOD-DATASET-FOLDER)",
    )


def add_address(target: argparse._ActionsContainer) -> None:
    """The flag that names a Ray cluster."""
    target.add_argument(
        "--address",
        help="address of a Ray cluster (default: RAY_ADDRESS, else a private Ray on this machine)",
    )


def add_storage_arguments(target: argparse.ArgumentParser) -> None:
    """Flags that say where results and tracking are."""
    group = target.add_argument_group("results")
    group.add_argument(
        "--storage",
        metavar="DIR|URI",
        help="folder of all results, or a URI such as s3://BUCKET/PREFIX (default: runs; with --sample, "
        "runs/sample)",
    )
    group.add_argument(
        "--tracking-uri",
        metavar="URI",
        help="address of MLflow (default: MLFLOW_TRACKING_URI, else a SQLite file in the storage, if this is "
        "a folder)",
    )


def add_training_arguments(target: argparse.ArgumentParser, *, has_one_method: bool = True) -> None:
    """Flags of how one configuration is trained.

    Args:
        has_one_method: whether `--method` is among them.
    """
    group = target.add_argument_group("training")
    if has_one_method:
        group.add_argument(
            "--method",
            default=INFOCAL,
            help=f"method to train: {', '.join(lookup.method_names())} (default: %(default)s)",
        )
    group.add_argument(
        "--target-selection-rate",
        type=flag_values.fraction,
        metavar="RATE",
        help="share of the tokens to select, in training and (by a threshold) in scoring; 1: select all "
        "tokens",
    )
    group.add_argument(
        "--min-precision",
        type=flag_values.fraction,
        help="replace the criterion's threshold on precision by this value",
    )
    group.add_argument(
        "--criterion-target",
        metavar="NAME",
        help="choose models by the predictions of this target, if there are several; mean: by the mean over "
        "all targets (default: the main target)",
    )
    group.add_argument(
        "--epochs",
        type=flag_values.positive_int,
        default=50,
        help="epochs of each training (default: %(default)s)",
    )
    group.add_argument(
        "--seed",
        type=flag_values.seed,
        default=0,
        help="random seed; if there are several seeds, the first of them (default: %(default)s)",
    )
    group.add_argument(
        "--device",
        type=flag_values.device,
        default="auto",
        help="auto, cpu, cuda or cuda:N (default: %(default)s)",
    )
    group.add_argument(
        "--bf16",
        action="store_true",
        help="train with bfloat16 autocast; on a CPU, only with `encoder=transformer` and if the CPU has "
        "instructions for bfloat16",
    )
    group.add_argument(
        "--embedding",
        help="word vectors: word2vec, random, or a file (default: as in the preset, else word2vec)",
    )
    group.add_argument("--config", metavar="FILE", help="TOML file with hyper-parameters")
    group.add_argument(
        "--set",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="set one hyper-parameter; may be repeated",
    )


def with_data_dir(arguments: Sequence[str], given: argparse.Namespace) -> list[str]:
    """A command's arguments, with the data folder of INFOCAL_DATA where that names the data.

    So that the command means the same where the variable is not set, or names another folder.

    Args:
        given: the same, parsed; `data_dir` and `sample` are read.
    """
    folder = os.environ.get("INFOCAL_DATA")
    if not folder or given.data_dir or given.sample:
        return list(arguments)
    return [*arguments, f"--data-dir={folder}"]

"""How a target, a study and a registered model are named."""

import argparse
import datetime
import os
import re
from pathlib import Path

from feature_store.targets import in_flags, in_names
from infocal.methods.registry import INFOCAL
from search_spaces import lookup

CHALLENGER, CHAMPION = "challenger", "champion"
"""Aliases of a registered model: what a search registers last, and what `promote` made of one."""
MAX_NAME = 128
"""Characters of the name of a registered model."""


def title(dataset: str, aspect: str | None, sign: str = "/") -> str:
    """How a data set's target is called: `beer/palate`, or `hatexplain`, which has but one."""
    return sign.join(part for part in (dataset, aspect) if part)


def default_name(dataset: str, aspect: str) -> str:
    """A study's name where none is given: what it searches and when it was started."""
    return f"{title(dataset, in_names(aspect), '-')}-{datetime.datetime.now():%Y%m%d-%H%M%S}"


def model_name(given: argparse.Namespace, aspect: str) -> str:
    """Name of the registered model: the flag, else `METHOD-DATASET-ASPECT`; own data add their folder.

    Args:
        given: parsed flags; `model_name`, `dataset`, `data_dir`, `sample` and, where there is one, `method`
            are read.
        aspect: target of the data set; empty where there is none.
    """
    if given.model_name:
        return str(given.model_name)
    folder = own_folder(given)
    corpus = "" if folder is None else re.sub(r"[^\w.-]+", "-", folder.name).strip("-")
    method = getattr(given, "method", INFOCAL)
    return title(default_model_name(given.dataset, aspect, method), corpus, "-")[:MAX_NAME]


def own_folder(given: argparse.Namespace) -> Path | None:
    """The folder of own data; None where the data are made up or not one's own.

    Args:
        given: parsed flags; `dataset`, `data_dir` and `sample` are read.
    """
    folder = given.data_dir or os.environ.get("INFOCAL_DATA")
    if folder and not given.sample and lookup.depends_on_data(given.dataset):
        return Path(folder).resolve()
    return None


def default_model_name(dataset: str, aspect: str, method: str = INFOCAL) -> str:
    """Name of the registered model of a data set's target, where nobody names another."""
    return title(f"{method}-{dataset}", in_names(aspect), "-")


def target_flags(dataset: str, aspect: str) -> str:
    """The flags that name a data set's target in a command."""
    return f"--dataset {dataset}" + (f" --aspect {in_flags(aspect)}" if aspect else "")

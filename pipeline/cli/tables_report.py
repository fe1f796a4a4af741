"""`pipeline.report --tables`: check the flags, and write the page of all tables."""

import argparse
from pathlib import Path

from feature_store import terminal
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Storage


def write(given: argparse.Namespace, storage: Storage, output: Path | None) -> list[str]:
    """Write the page in every format; returns where the files are.

    Args:
        given: parsed flags of `pipeline.report`.
        output: the HTML file; None: in the storage.

    Raises:
        PipelineError: if a flag chooses a study, there is no such storage, or the files cannot be written.
    """
    stated = [flag for flag in ("dataset", "aspect", "tracking_uri") if getattr(given, flag)]
    if stated:
        flag = f"--{stated[0].replace('_', '-')}"
        raise PipelineError(
            "this flag has no effect with `--tables`, which reads every comparison in the storage and "
            "nothing from MLflow",
            where=flag,
            hint=f"leave out `{flag}`, or leave out `--tables` to write the page of a study",
        )
    if output is not None and output.suffix not in ("", ".html"):
        raise PipelineError(
            f"expected a name that ends in .html, but got `{output}`",
            where="--output",
            hint="the Markdown and LaTeX files are written beside the HTML file, with its name",
        )
    if not storage.is_remote and not storage.folder.is_dir():
        raise PipelineError(
            f"there is no folder `{storage}`",
            where="--storage",
            hint="name the folder in which `python -m pipeline.compare` keeps its results",
        )
    with terminal.opened(), terminal.step("collecting the comparisons"):
        from pipeline.comparing import all_tables  # loads torch

        return all_tables.write(storage, output, sample=given.sample)

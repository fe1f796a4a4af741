"""The plan of a comparison, which `--dry-run` prints."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from feature_store.wording import counted
from pipeline.base.storage import Location
from pipeline.base.uris import without_password
from pipeline.cli import epoch_check
from pipeline.training import data_options

if TYPE_CHECKING:
    from pipeline.comparing.comparison_settings import ComparisonSettings


def plan(prepared: "ComparisonSettings", directory: Location, uri: str, data: Sequence[str]) -> str:
    """What would be done, for `--dry-run`.

    Args:
        uri: where MLflow tracks; its password is left out.
        data: the lines about the data files.
    """
    first, seeds = prepared.runs[0], ", ".join(map(str, prepared.seeds))
    lines = [
        f"comparison   {prepared.name}  ({data_options.target_of_run(first)})",
        f"results      {directory}",
        f"tracking     {without_password(uri)}",
        *data,
        f"criterion    {first.criterion}",
        f"selection    {prepared.target_rate:.1%} of the tokens",
        f"trainings    {len(prepared.runs) * len(prepared.seeds)}, each of "
        f"{counted(first.num_epochs, 'epoch')}: "
        f"{counted(len(prepared.runs), 'method')} with seeds {seeds}",
        "GPUs         1 for each training; without GPUs in the cluster, trainings run on the CPU"
        if prepared.chooses_gpus
        else f"GPUs         {prepared.gpus_per_run:g} for each training (device {first.device})",
        "\nmethods",
    ]
    lines += [f"  {run.method:<24} {epoch_check.start_of(run)}" for run in prepared.runs]
    return "\n".join(lines)

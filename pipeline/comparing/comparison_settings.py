"""What is to be compared: methods and seeds, and the entries that they make."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from pipeline.base.stored_files import check_name, read_settings, write_json_whole
from pipeline.comparing.places import SETTINGS
from pipeline.training.settings import RunSettings


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparisonSettings:
    """Everything that decides a comparison; stored with it, so that it can be resumed."""

    name: str
    runs: list[RunSettings]
    """One for each method."""
    seeds: list[int]
    target_rate: float
    sample: bool
    data_dir: str | None
    """Folder with `DATASET/`, for masks that others published; None: of the sample corpus there are none."""
    cpus_per_run: float
    gpus_per_run: float
    command: str
    run_id: str = ""
    """The parent run; empty until it is started."""
    chooses_gpus: bool = False
    """Whether the GPUs of a training follow from what the cluster has whenever the comparison is started."""

    def save(self, directory: Path) -> None:
        """Write `comparison.json`, whole or not at all."""
        write_json_whole(directory / SETTINGS, dataclasses.asdict(self))

    @classmethod
    def load(cls, directory: Path, name: str) -> "ComparisonSettings":
        """Read `comparison.json`.

        Args:
            directory: the comparison's folder, or a copy of it.

        Raises:
            StateError: if it is missing, not JSON, or not what `save` writes.
        """
        path = directory / SETTINGS
        found = read_settings(cls, path, "the settings of a comparison")
        check_name(found.name, name, "comparison", path)
        return found


def entries(prepared: ComparisonSettings) -> list[RunSettings]:
    """All of a comparison: every method with the first seed, then with the next."""
    return [dataclasses.replace(run, seed=seed) for seed in prepared.seeds for run in prepared.runs]

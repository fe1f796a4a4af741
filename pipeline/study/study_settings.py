"""What decides what a study does, as it is stored; loads neither torch nor Ray."""

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path

from infocal.errors import StateError
from pipeline.base.stored_files import check_name, read_settings, write_json_whole
from pipeline.study.study_folder import SETTINGS, SETTINGS_COPY
from pipeline.training.settings import RunSettings
from search_spaces import lookup
from search_spaces import space as spaces
from search_spaces.space import Space, Value

logger = logging.getLogger("pipeline.study.study_settings")


@dataclass(frozen=True, kw_only=True, slots=True)
class StudySettings:
    """Everything that decides what a study does; stored with it, so that it can be resumed."""

    name: str
    run: RunSettings
    space_name: str
    sampler: str
    num_trials: int
    max_concurrent: int
    cpus_per_trial: float
    gpus_per_trial: float
    num_seeds: int
    """Seeds that the winner is trained with in all; 1 where the best trials race."""
    sample: bool
    model_name: str
    """Registered model that the winner becomes a version of."""
    command: str
    first_points: list[dict[str, Value]]
    chooses_gpus: bool = False
    """Whether the GPUs of a trial follow from what the cluster has, whenever the study starts or resumes."""
    packs_gpus: bool = False
    """Whether `gpus_per_trial` and `run.gpu_memory_rate` are measured when the study starts, and anew when it
    is resumed: the cards may be others."""
    is_raced: bool = False
    """Whether the best trials are trained with further seeds, and the best mean wins: see `race`."""
    own_space: str = ""
    """The space as JSON where the user gave a file; empty: the space of that name is registered."""

    @property
    def space(self) -> Space:
        """What the study varies.

        Raises:
            ConfigError: if there is no such method, data set or space any more.
            StateError: if `own_space` is damaged.
        """
        if self.own_space:
            try:
                return spaces.from_json(self.own_space)
            except ValueError as error:
                raise StateError(str(error), where=SETTINGS) from error
        return lookup.space(self.run.method, self.run.dataset, self.space_name)

    def save(self, directory: Path) -> None:
        """Write `study.json` and its copy, each whole or not at all."""
        for name in (SETTINGS, SETTINGS_COPY):
            write_json_whole(directory / name, dataclasses.asdict(self))

    @classmethod
    def load(cls, directory: Path, name: str) -> "StudySettings":
        """Read `study.json`, or its copy where it is damaged or gone.

        Args:
            directory: the study's folder, or a copy of it.

        Raises:
            StateError: if it is missing, not JSON, or not what `save` writes, and so is its copy.
        """
        path = directory / SETTINGS
        try:
            found = read_settings(cls, path, "the settings of a study")
        except StateError as error:
            path = directory / SETTINGS_COPY
            try:
                found = read_settings(cls, path, "the settings of a study")
            except StateError as of_copy:
                fault = "cannot be used either" if path.is_file() else "is missing"
                hint = (
                    f"the copy, `{SETTINGS_COPY}`, {fault}: restore one of the two files from a backup, or "
                    "start a new study with another `--name`"
                )
                raise StateError(error.message, where=error.where, hint=hint) from of_copy
            logger.warning("%s; the copy of the file is used", error)
        check_name(found.name, name, "study", path)
        return found

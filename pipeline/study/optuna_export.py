"""The finished study in the Optuna storage that a URL names, where optuna-dashboard shows it to a team."""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.storages.journal import JournalFileBackend

from feature_store.wording import counted
from pipeline.base import full_disk
from pipeline.base.errors import PipelineError, one_line
from pipeline.base.uris import of_sqlite, without_password
from pipeline.tracking import export_place

logger = logging.getLogger("pipeline.study.optuna_export")

ORIGIN = "infocal_results"
"""Attribute of an exported study: where its results are."""


@dataclass(frozen=True, slots=True)
class Export:
    """A study's place in an Optuna storage."""

    url: str
    """Of SQLAlchemy (sqlite:///FILE, postgresql://USER:PASSWORD@HOST/DB), redis://HOST or journal:///FILE."""
    name: str
    """Of the study."""
    origin: str
    """Where its results are: tells it from another study of that name."""

    def check(self) -> None:
        """See whether the study can be exported, before anything is trained; makes missing tables.

        Raises:
            PipelineError: if the storage cannot be opened, or holds another study of that name.
        """
        export_place.check(self.url)
        storage = _storage(self.url)
        with _translated(self.url):
            self._exported(storage)

    def run(self, database: Path) -> None:
        """Copy the finished study; adds what is missing, replaces what has changed since.

        Args:
            database: its own SQLite file.

        Raises:
            PipelineError: as `check`.
        """
        source = optuna.load_study(study_name=self.name, storage=of_sqlite(database.resolve()))
        trials = source.get_trials(deepcopy=False)
        storage = _storage(self.url)
        with _translated(self.url):
            there = self._exported(storage)
            if there is not None and not (
                there.directions == source.directions and _is_prefix(there.get_trials(deepcopy=False), trials)
            ):
                optuna.delete_study(study_name=self.name, storage=storage)
                there = None
            if there is None:
                there = optuna.create_study(
                    storage=storage, study_name=self.name, directions=source.directions
                )
            there.set_user_attr(ORIGIN, self.origin)
            there.add_trials(trials[len(there.get_trials(deepcopy=False)) :])
        logger.info("exported %s to %s", counted(len(trials), "trial"), without_password(self.url))

    def run_or_say_how(self, database: Path, command: str) -> None:
        """Copy the finished study.

        Args:
            database: its own SQLite file.

        Raises:
            PipelineError: as `run`, with the command as a hint.
        """
        try:
            self.run(database)
        except PipelineError as error:
            hint = f"{error.hint}; " if error.hint else ""
            hint += f"the study is complete; to export it, run: {command}"
            raise PipelineError(error.message, where=error.where, hint=hint) from error

    def _exported(self, storage: optuna.storages.BaseStorage) -> optuna.Study | None:
        """The study as it was exported before; None where it was not."""
        if self.name not in optuna.get_all_study_names(storage):
            return None
        there = optuna.load_study(study_name=self.name, storage=storage)
        origin = there.user_attrs.get(ORIGIN)
        if not there.user_attrs and not there.get_trials(deepcopy=False):
            return there  # an export that was killed before it had said whose study this is
        if origin != self.origin:
            raise PipelineError(
                f"{without_password(self.url)} holds another study `{self.name}`, "
                f"of {origin or 'an unknown origin'}",
                where=export_place.FLAG,
                hint="choose another `--name`",
            )
        return there


def _is_prefix(there: list[optuna.trial.FrozenTrial], trials: list[optuna.trial.FrozenTrial]) -> bool:
    """Whether what is there is the beginning of what shall be."""

    def content(trial: optuna.trial.FrozenTrial) -> object:
        return trial.state, trial.values, trial.params, trial.user_attrs, trial.system_attrs

    return len(there) <= len(trials) and all(
        content(one) == content(other) for one, other in zip(there, trials, strict=False)
    )


def _storage(url: str) -> optuna.storages.BaseStorage:
    export_place.check_form(url)
    with _translated(url):
        if url.startswith(export_place.JOURNAL):
            path = Path(url.removeprefix(export_place.JOURNAL))
            path.touch()  # otherwise a missing folder shows only when the first study is written
            backend = JournalFileBackend(str(path))
            return optuna.storages.JournalStorage(backend)
        return optuna.storages.get_storage(url)


_ERRORS = (ImportError, OSError, ValueError, optuna.exceptions.OptunaError, RuntimeError)
"""What Optuna raises; a RuntimeError where the tables are those of another version of Optuna."""


@contextlib.contextmanager
def _translated(url: str) -> Iterator[None]:
    """Turn what the libraries raise into one clear line.

    Raises:
        PipelineError: in place of their errors.
    """
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (*_ERRORS, SQLAlchemyError) as error:
        reason = one_line(error.__cause__ or error)
        hint = full_disk.remedy(reason) if full_disk.is_said(reason) else None
        if type(error) is RuntimeError:
            hint = "name another storage, or upgrade a copy of this one with `optuna storage upgrade`"
        raise export_place.refused(url, reason, hint) from error

"""A study that nobody runs, opened to work with what it holds: what `register` and `sync` begin with."""

import argparse
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

from pipeline.base import command_text, locations, reach
from pipeline.study import cluster, study_folder
from pipeline.study.study_folder import SETTINGS, SETTINGS_COPY, StudyFolder
from pipeline.study.study_settings import StudySettings


@dataclass(frozen=True, slots=True)
class EndedStudy:
    """A study, kept for this process."""

    prepared: StudySettings
    folder: StudyFolder
    tracking: str | None
    """Where it is tracked, as this command or the study's first one states it."""
    uri: str
    """The same, resolved."""


@contextlib.contextmanager
def reopened(given: argparse.Namespace, otherwise: str) -> Iterator[EndedStudy]:
    """The study that `--name` names.

    Args:
        given: parsed flags; `name`, `sample`, `storage` and `tracking_uri` are read.
        otherwise: what is said of a study in which nothing was done.

    Raises:
        PipelineError: if there is no such study, it lacks something, another process has it, or MLflow is
            away.
    """
    cluster.prepare_environment()
    storage = locations.storage(given.storage, given.sample)
    home = storage.opened()
    study_folder.check_exists(home, given.name)
    study_folder.check_complete(home, given.name, "--name", otherwise)
    with study_folder.opened(storage, given.name, resume=True) as folder:
        with folder.place.localised(SETTINGS, SETTINGS_COPY) as copy:
            prepared = StudySettings.load(copy, given.name)
        first = command_text.parsed_again(prepared.command, f"{SETTINGS} of `{prepared.name}`")
        tracking = given.tracking_uri or first.tracking_uri
        uri = locations.tracking_uri(tracking, storage)
        reach.check_tracking(uri)
        yield EndedStudy(prepared, folder, tracking, uri)

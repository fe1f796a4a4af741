"""The page of a study, in its folder and with its run: written by a search, on demand, after a promotion."""

import logging
import socket
from pathlib import Path

from pipeline.base.errors import USER_ERRORS, PipelineError
from pipeline.base.storage import Location, Storage
from pipeline.base.stored_files import write_page
from pipeline.study import findings
from pipeline.study.study_folder import STUDIES
from pipeline.study.summary import REPORT
from pipeline.tracking.tracking import PARENT_TAG, RESULTS_TAG, STUDY_TAG, TrackedRun, Tracker

logger = logging.getLogger("pipeline.study.study_report")

_RATIONALES = b"<article"
"""Stands in a page that shows a text with its rationale."""


class WouldLoseRationales(PipelineError):  # noqa: N818 - what a caller may continue without
    """A page with rationales would be replaced by one without."""


def write(tracker: Tracker, study_run_id: str, target: Path | Location, where: str | None = None) -> None:
    """Write a study's page to a place and store it with the study's run.

    The page at the place links to files beside it, the one of the run to MLflow's own pages. A page that
    shows rationales is never replaced by one without.

    Args:
        where: flag that named the place.

    Raises:
        PipelineError: if there is no such study, or the page cannot be written.
        WouldLoseRationales: if the page at the place has rationales, and a new one would have none.
    """
    found = findings.gather(tracker, study_run_id)
    folder = target.parent if isinstance(target, Path) else None
    text = findings.of(findings.linked(tracker, found, folder))
    if not found.predictions and _RATIONALES in _content(target):
        raise WouldLoseRationales(
            f"`{target}` was not replaced: it shows rationales of the best trial, whose artifacts can no "
            "longer be read",
            where=where,
            hint="restore the artifacts, or name another file with `--output`",
        )
    write_page(target, text, where)
    tracker.log_artifact(study_run_id, findings.of(findings.linked(tracker, found, None)), REPORT)


def _content(target: Path | Location) -> bytes:
    """What is at the place; empty where nothing is."""
    if isinstance(target, Path):
        return target.read_bytes() if target.is_file() else b""
    return target.read() if target.exists() else b""


def place(storage: Storage, study: str) -> Path | Location:
    """Where the page of a study lies in a storage."""
    home = storage.opened() if storage.is_remote else storage.folder
    return home / STUDIES / study / REPORT


def _home(storage: Storage, study: TrackedRun) -> Path | Location | None:
    """Where the page of a study lies: in the storage, or in its folder here; None: neither is there."""
    here = place(storage, study.tags[STUDY_TAG])
    if not isinstance(here, Path) or here.parent.is_dir():
        return here
    host, _, folder = study.tags.get(RESULTS_TAG, "").partition(":")
    if host == socket.gethostname() and Path(folder).is_dir():
        return Path(folder) / REPORT
    return None


def refresh(tracker: Tracker, trial_run_id: str, storage: Storage) -> None:
    """Write the page of a trial's study again, after its model was registered, read on test or promoted.

    What keeps the page from being written is said, and ends nothing: it can be written later.

    Args:
        trial_run_id: run of a trial; one that belongs to no study has no page.
    """
    try:
        parent = tracker.run(trial_run_id).tags.get(PARENT_TAG)
        study = tracker.run(parent) if parent else None
        if study is None or STUDY_TAG not in study.tags:
            return
        target = _home(storage, study)
        if target is None:
            logger.info(
                "the report was not written again: the study's folder is not in %s; to write it, run "
                "`python -m pipeline.report` with the study's `--storage`",
                storage,
            )
            return
        write(tracker, study.run_id, target)
    except (OSError, *USER_ERRORS) as error:
        logger.warning("the report of the study was not written again: %s", error)
        return
    logger.info("report   %s", target)

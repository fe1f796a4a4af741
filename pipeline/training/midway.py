"""States of trials in mid-epoch: from which a trial resumes whose worker, or whose search, ended there.

They lie beside the checkpoints that Tune knows of, one a trial: `midway/TRIAL/EPOCH-POSITION`. A driver that
is to stop asks its trials for one, and waits a little for their answers.
"""

import contextlib
import logging
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol, TypeVar

from infocal.errors import StateError
from infocal.trainer import Trainer
from pipeline.base.errors import PipelineError
from pipeline.base.storage import Location
from pipeline.base.stored_files import check_digests, read_json
from pipeline.training import checkpoints

logger = logging.getLogger("pipeline.training.midway")

MIDWAY = "midway"
"""Folder of these states, in a study's."""
_STOP, _ASKED = "stop", "asked"
"""Folder in which a driver asks trials to stop, and each of them answers; the file that asks."""
_PARTS = (checkpoints.STATE, checkpoints.DIGESTS)
_NAME = re.compile(r"(\d+)-(\d+)")
_POLL_S, _REMOTE_POLL_S = 0.2, 3.0
"""How often a trial looks whether it is asked: a file costs nothing, one behind a URI a request."""
_PATIENCE_S, _REMOTE_PATIENCE_S = 10.0, 30.0
"""How long a driver waits for answers: somebody has pressed Ctrl-C."""
_COST = 50
"""Seconds of training that there are at least for each second of writing."""

_FAILURES = (OSError, RuntimeError, PipelineError)
"""Of writing: of this machine's disk, of torch where that is full, and of the storage."""

_T = TypeVar("_T")


class Interruptible(Protocol):
    """A trial, as far as it can be broken off in mid-epoch."""

    trainer: Trainer
    directory: Path
    """Working folder."""

    def save_midway(self, folder: Path) -> None:
        """Write the state between two batches."""

    def restore_midway(self, folder: Path) -> None:
        """Go on from there."""


class Midway:
    """The states of one trial, in its worker.

    Args:
        trial_id: the trial's, the same when it is resumed.
        every_s: seconds of training between states; 0: only when asked.
    """

    def __init__(self, study: Location, trial_id: str, every_s: float) -> None:
        self._place, self._stop = study / MIDWAY / trial_id, study / MIDWAY / _STOP
        self._trial_id, self._every_s = trial_id, every_s
        self._poll_s = _POLL_S if study.is_local else _REMOTE_POLL_S
        self._due = time.monotonic() + every_s
        self._looked = 0.0
        self.before_rest: Callable[[], object] = lambda: None
        """Called before a trial waits for its end: nothing is done after it."""

    def restore(self, trial: Interruptible) -> bool:
        """Put a trial that stands at the start of an epoch where it was in it, if that is known.

        Returns:
            False where the state is of something else, and forgotten now: the trial is of no use any more.
        """
        with self._newest(trial.trainer.epoch) as folder:
            if folder is None:
                return True
            try:
                trial.restore_midway(folder)
            except StateError as error:
                logger.warning("%s; the epoch is trained from its start", error)
                self.clear()
                return False
        return True

    def watched(self, batches: Iterable[_T], trial: Interruptible) -> Iterator[_T]:
        """The same batches; between them, a state is written where it is time, or the trial is asked to stop.

        Args:
            batches: of an epoch.
            trial: that trains on them; one that is asked does not come back while the driver is there.
        """
        for batch in batches:
            yield batch
            if self._is_asked():
                self._save(trial)
                self.rest()
            elif self._every_s and time.monotonic() >= self._due:
                self._save(trial)

    def rest(self) -> None:
        """Answer, and wait for the end, where the driver has asked for it; else nothing."""
        if self._is_asked(at_once=True):
            self.before_rest()
            with _costing_nothing("announce"):
                (self._stop / self._trial_id).write(b"")
            while self._is_asked(at_once=True):
                time.sleep(self._poll_s)

    def clear(self) -> None:
        """Forget the states: the epoch is over, and its checkpoint is written."""
        with _costing_nothing("remove"):
            self._place.remove()

    def _is_asked(self, *, at_once: bool = False) -> bool:
        now = time.monotonic()
        if not at_once and now < self._looked + self._poll_s:
            return False
        self._looked, is_asked = now, False
        with _costing_nothing("look for"):
            is_asked = (self._stop / _ASKED).exists()
        return is_asked

    def _save(self, trial: Interruptible) -> None:
        started = time.monotonic()
        name = f"{trial.trainer.epoch}-{trial.trainer.position}"
        with _costing_nothing("write"), tempfile.TemporaryDirectory(dir=trial.directory) as working:
            trial.save_midway(Path(working))
            older = self._place.names()
            for part in _PARTS:  # the digests last: without them it is none
                (self._place / name / part).upload(Path(working) / part)
            for one in older:
                if one != name:
                    (self._place / one).remove()
        now = time.monotonic()
        self._due = now + max(self._every_s, _COST * (now - started))

    @contextlib.contextmanager
    def _newest(self, epoch: int) -> Iterator[Path | None]:
        """The latest whole state within an epoch, on this machine; None: there is none."""
        names: list[str] = []
        with _costing_nothing("look for"):
            names = self._place.names()
        found = [match for name in names if (match := _NAME.fullmatch(name))]
        positions = sorted((int(match[2]) for match in found if int(match[1]) == epoch), reverse=True)
        for position in positions:
            with (self._place / f"{epoch}-{position}").localised(*_PARTS) as folder:
                try:
                    check_digests(folder, read_json(folder / checkpoints.DIGESTS), (checkpoints.STATE,))
                except StateError as error:
                    logger.warning("%s; the saved state is not used", error)
                    continue
                yield folder
                return
        yield None


def stop(study: Location, running: Iterable[str]) -> None:
    """Ask trials for a state, and wait until they have answered, or could have.

    Args:
        running: ids of the trials that train.
    """
    place = study / MIDWAY / _STOP
    deadline = time.monotonic() + (_PATIENCE_S if study.is_local else _REMOTE_PATIENCE_S)
    with _costing_nothing("ask for"):
        (place / _ASKED).write(b"")
        while set(running) - set(place.names()) and time.monotonic() < deadline:
            time.sleep(_POLL_S)


def reset(study: Location) -> None:
    """Take back what a driver asked for that has ended since."""
    (study / MIDWAY / _STOP).remove()


def clear(study: Location, trial_id: str | None = None) -> None:
    """Remove the states of a trial that has ended.

    Args:
        trial_id: the trial's; None: all of them have ended.
    """
    place = study / MIDWAY
    with _costing_nothing("remove"):
        (place if trial_id is None else place / trial_id).remove()


@contextlib.contextmanager
def _costing_nothing(what: str) -> Iterator[None]:
    """A state that cannot be kept costs some training when a worker dies, and nothing while it lives."""
    try:
        yield
    except _FAILURES as error:
        logger.warning("cannot %s the state of an unfinished epoch: %s", what, error)

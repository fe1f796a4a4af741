"""A study's own book: which trials were begun, what each epoch gave, and how each ended.

It is the truth of a study. Who resumes one rebuilds it from here, and MLflow is written from here, however
late. One file a trial, one line of JSON an event: appended and flushed to the disk before anybody else hears
of it, and never changed. What a process that died left half written, the last line of a file, is dropped.
"""

import dataclasses
import itertools
import json
import logging
import os
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from infocal.errors import StateError
from pipeline.base.errors import PipelineError
from pipeline.training.epochs import Epoch
from search_spaces.space import Value

logger = logging.getLogger("pipeline.study.ledger")

LEDGER = "ledger"
"""Folder of a study's ledger; where it is, there is something to resume."""
_EVENT, _SUM = "event", "crc32"

Moment = Annotated[float, Field(ge=0, le=250e9, allow_inf_nan=False)]
"""Seconds since 1970, as far as calendars go: MLflow and Optuna make dates of them."""

Publish = Callable[[str], None]
"""Copies a file, by its path below the study's folder, to where the study belongs."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """What Optuna knows of a trial that it proposed."""

    params: dict[str, Value]
    """The point as Optuna has it."""
    system_attrs: dict[str, Any]
    """What its sampler noted."""


@dataclass(frozen=True, slots=True)
class Begin:
    """A trial is begun."""

    trial_id: str
    """The id that Tune gives it; a resumed trial keeps it."""
    number: int
    """Trials of the study that were begun before it."""
    config: dict[str, Any]
    """Hyper-parameters of its own."""
    proposal: Proposal | None
    """None of a replicate, which Optuna did not propose."""
    time: Moment
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class Reported:
    """An epoch has ended."""

    epoch: Epoch
    checkpoint: str
    """Folder of the checkpoint that was written after it, below the study's."""
    is_last: bool
    """Whether the trial ended with it: it was the last one asked for, or the scheduler stopped the trial."""
    time: Moment
    """When it was reported, in seconds since 1970."""

    def __post_init__(self) -> None:
        path = PurePosixPath(self.checkpoint)
        if path.is_absolute() or ".." in path.parts:
            raise ValueError(f"the checkpoint `{self.checkpoint}` is outside the study's folder")

    @property
    def number(self) -> int:
        """The epoch's, from 0."""
        return self.epoch.number


@dataclass(frozen=True, slots=True)
class Failed:
    """Training failed."""

    reason: str
    """A name of `infocal.errors.TRAINING_FAILURES`, or `error`."""
    message: str
    time: Moment
    """Seconds since 1970."""


@dataclass(frozen=True, slots=True)
class _StoredEpoch:
    """An epoch as a line has it."""

    number: int
    numbers: dict[str, float]
    checkpoint: str
    is_last: bool
    time: Moment

    @classmethod
    def of(cls, event: Reported) -> "_StoredEpoch":
        numbers = {name: float(value) for name, value in event.epoch.numbers.items()}
        return cls(event.number, numbers, event.checkpoint, event.is_last, event.time)

    def event(self) -> Reported:
        epoch = Epoch.of_numbers(self.number, self.numbers)
        return Reported(epoch, self.checkpoint, self.is_last, self.time)


Event = Begin | Reported | Failed
_STORED: dict[str, type[Begin | _StoredEpoch | Failed]] = {
    "begin": Begin,
    "epoch": _StoredEpoch,
    "failure": Failed,
}
_NAMES = {kind: name for name, kind in _STORED.items()}
_READERS = {name: TypeAdapter(kind) for name, kind in _STORED.items()}


@dataclass(slots=True)
class TrialRecord:
    """What is known of a trial."""

    begin: Begin
    epochs: dict[int, Reported] = field(default_factory=dict)
    """By their numbers."""
    failure: Failed | None = None

    @property
    def trial_id(self) -> str:
        """The id by which Tune and MLflow know it."""
        return self.begin.trial_id

    @property
    def last(self) -> Reported | None:
        """The last epoch that was reported."""
        return self.epochs[max(self.epochs)] if self.epochs else None

    @property
    def is_over(self) -> bool:
        """Whether the trial has ended, in whatever way."""
        return self.failure is not None or (self.last is not None and self.last.is_last)

    def ended_early(self, num_epochs: int) -> str:
        """How it ended before its last epoch, `stopped` or `failed`; empty where it did not.

        Args:
            num_epochs: that it was to train.
        """
        if self.failure is not None:
            return "failed"
        return "stopped" if self.is_over and len(self.epochs) < num_epochs else ""

    @property
    def last_heard(self) -> float:
        """When it was heard of last, in seconds since 1970."""
        times = [self.begin.time, *(epoch.time for epoch in self.epochs.values())]
        return max([*times, self.failure.time] if self.failure else times)

    @property
    def checkpoints(self) -> list[str]:
        """Folders of its checkpoints, the newest first; Tune keeps the last two that it wrote."""
        return [self.epochs[number].checkpoint for number in sorted(self.epochs, reverse=True)]

    def add(self, event: Reported | Failed) -> None:
        """Take an event in; an epoch that was trained again only moves the checkpoint."""
        if isinstance(event, Failed):
            self.failure = event
        elif event.number in self.epochs:
            known = self.epochs[event.number]
            self.epochs[event.number] = dataclasses.replace(known, checkpoint=event.checkpoint)
        else:
            self.epochs[event.number] = event


class Ledger:
    """The ledger of one study, read from its folder and appended to.

    It may be read by a thread while another one appends.

    Args:
        study: the study's folder on this machine.
        publish: called with each file that has grown; a failure costs nothing until `flush`.

    Raises:
        StateError: if a file holds something else, or a trial's file is gone; names file and line.
    """

    def __init__(self, study: Path, publish: Publish | None = None) -> None:
        self.directory = study / LEDGER
        self._publish, self._behind = publish, set[str]()
        self._lock = threading.Lock()
        self._records: dict[str, TrialRecord] = {}
        self._files: dict[str, Path] = {}
        self._warned = False
        for path in sorted(self.directory.glob("*.jsonl")):
            self._read(path)
        self._check_complete()

    def trials(self) -> list[TrialRecord]:
        """Every trial in the order in which they were begun; a copy as of now."""
        with self._lock:
            every = [dataclasses.replace(r, epochs=dict(r.epochs)) for r in self._records.values()]
        return sorted(every, key=lambda record: record.begin.number)

    def has(self, trial_id: str) -> bool:
        """Whether a trial was begun."""
        return trial_id in self._records

    def number(self, trial_id: str) -> int:
        """How many trials were begun before one."""
        return self._records[trial_id].begin.number

    def begin(self, trial_id: str, config: Mapping[str, Any], proposal: Proposal | None) -> None:
        """Note that a trial begins; nothing where it is known.

        Raises:
            PipelineError: if that cannot be written.
        """
        if trial_id in self._records:
            return
        number = 1 + max((record.begin.number for record in self._records.values()), default=-1)
        event = Begin(trial_id, number, dict(config), proposal, time.time())
        self._files[trial_id] = self.directory / f"{number:04d}-{trial_id}.jsonl"
        self._append(trial_id, event)

    def epoch(self, trial_id: str, epoch: Epoch, checkpoint: str, *, is_last: bool) -> None:
        """Note what an epoch gave.

        Raises:
            PipelineError: if that cannot be written.
        """
        self._append(trial_id, Reported(epoch, checkpoint, is_last, time.time()))

    def fail(self, trial_id: str, reason: str, message: str) -> None:
        """Note that a trial has failed.

        Raises:
            PipelineError: if that cannot be written.
        """
        self._append(trial_id, Failed(reason, message, time.time()))

    def flush(self) -> None:
        """Publish what could not be published so far.

        Raises:
            PipelineError: if it still cannot.
        """
        for name in sorted(self._behind):
            if self._publish is not None:
                self._publish(name)
            self._behind.discard(name)

    def _append(self, trial_id: str, event: Event) -> None:
        path = self._files[trial_id]
        try:
            _write(path, _line(event))
        except OSError as error:
            raise PipelineError(
                f"cannot write the study's ledger: {error.strerror}",
                where=str(path),
                hint="free disk space, then resume with `--resume`: nothing that was written is lost",
            ) from error
        with self._lock:
            self._take(trial_id, event)
        self._behind.add(f"{LEDGER}/{path.name}")
        try:
            self.flush()
        except PipelineError as error:
            if not self._warned:
                self._warned = True
                logger.warning("%s; the search continues, and tries again at each epoch", error)

    def _take(self, trial_id: str, event: Event) -> None:
        if isinstance(event, Begin):
            self._records[trial_id] = TrialRecord(event)
        else:
            self._records[trial_id].add(event)

    def _read(self, path: Path) -> None:
        try:
            *lines, torn = path.read_bytes().split(b"\n")
        except OSError as error:
            raise StateError(f"cannot read the study's ledger: {error.strerror}", where=str(path)) from error
        trial_id, kept = "", 0
        for number, line in enumerate(lines, start=1):
            try:
                event = _event(line)
                self._check_follows(event, trial_id)
            except ValueError as error:
                raise StateError(
                    f"this line is not a valid event of the trial ({error})",
                    where=f"{path}:{number}",
                    hint="if a power failure interrupted the writing of this line, remove the line; the "
                    "epoch is then trained again"
                    if number == len(lines) > 1
                    else "restore this file from a backup, or start a new study with another `--name`",
                ) from error
            if isinstance(event, Begin):
                trial_id = event.trial_id
                self._files[trial_id] = path
            self._take(trial_id, event)
            kept += len(line) + 1
        if torn:
            logger.warning("%s: the last line is incomplete and is ignored", path)
            os.truncate(path, kept)

    def _check_complete(self) -> None:
        """Refuse a ledger from which a trial's file was taken: files are made one after the other.

        Raises:
            StateError: names the first trial that is not there.
        """
        there = {record.begin.number for record in self._records.values()}
        missing = next(number for number in itertools.count() if number not in there)
        if missing < len(there):
            raise StateError(
                f"the file of trial {missing} is missing; expected one file for each trial",
                where=str(self.directory),
                hint="restore it from a backup, or start a new study with another `--name`",
            )

    def _check_follows(self, event: Event, trial_id: str) -> None:
        """Refuse an event that cannot stand where it does, in the file of that trial, or at the head of one.

        Raises:
            ValueError: says what is wrong.
        """
        if isinstance(event, Begin) == bool(trial_id):
            raise ValueError(
                "expected the start of a trial on the first line and only there, but got an event of type "
                f"{type(event).__name__}"
            )
        if isinstance(event, Begin) and event.trial_id in self._records:
            raise ValueError(f"trial {event.trial_id[:40]} already has another file")
        if isinstance(event, Reported) and event.number > len(self._records[trial_id].epochs):
            raise ValueError(f"epoch {event.number} does not follow the one before it")


def _write(path: Path, line: bytes) -> None:
    """Append a line, whole or not at all, and see it onto the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # without a buffer, which would write what it still holds when the file is closed
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            left = memoryview(line)
            while left:
                left = left[file.write(left) :]
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise


def _line(event: Event) -> bytes:
    """An event as JSON, with the sum of what stands before it."""
    stored = _StoredEpoch.of(event) if isinstance(event, Reported) else event
    text = json.dumps({_EVENT: _NAMES[type(stored)], **dataclasses.asdict(stored)})
    return f'{text[:-1]}, "{_SUM}": {zlib.crc32(text.encode())}}}\n'.encode()


def _event(line: bytes) -> Event:
    """The event that `_line` wrote.

    Raises:
        ValueError: if the line is another one.
    """
    try:
        found = json.loads(line)
        stated, name = found.pop(_SUM), found.get(_EVENT)
        if stated != (actual := zlib.crc32(json.dumps(found).encode())):
            raise ValueError(f"the checksum does not match the line: expected {actual}, but got {stated}")
        del found[_EVENT]
        stored = _READERS[name].validate_json(json.dumps(found), strict=True)
        return stored.event() if isinstance(stored, _StoredEpoch) else stored
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (AttributeError, KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a line of a ledger: {line[:60]!r}") from error

"""The folder of a study, here or behind a URI; it belongs to one process at a time."""

import contextlib
import logging
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import filelock

from pipeline.base import claim, interruption
from pipeline.base.errors import PipelineError
from pipeline.base.locations import make_folder
from pipeline.base.storage import STAGED, Location, Storage
from pipeline.study.ledger import LEDGER

logger = logging.getLogger("pipeline.study.study_folder")

STUDIES = "studies"
"""Folder of all studies, in the storage."""
SETTINGS, SETTINGS_COPY, OPTUNA_DB = "study.json", "study.json.bak", "optuna.db"
"""In a study's folder; the second is read where the first is damaged or gone."""
TUNE, REPLICATES = "tune", "replicates"
"""Folders of Tune's experiments in the study's; those of a resumed study have a number behind."""
_LOCK = ".lock"
"""In a local study's folder."""


@dataclass(frozen=True, slots=True)
class ResultKind:
    """The kind of results that a folder holds: of a study, a comparison and so on.

    Functions with a parameter of this type use the kind of a study by default.
    """

    name: str
    """In messages."""
    home: str
    """Folder of all of them, in the storage."""
    sign: str
    """File or folder that is there once something was trained."""
    read: tuple[str, ...]
    """Files and folders that are read on this machine when one is resumed."""
    claims: str
    """Folder of all claims, in a storage behind a URI."""


STUDY = ResultKind("study", STUDIES, LEDGER, (LEDGER,), "claims")


@dataclass(frozen=True, slots=True)
class StudyFolder:
    """Where a study's results are, or a comparison's."""

    storage: Storage
    directory: Path
    """On this machine; everything is written here first."""
    remote: Location | None = None
    """Where it is copied to; None: the folder on this machine is the study's own."""

    @classmethod
    def local(cls, storage: Storage, name: str, kind: ResultKind = STUDY) -> "StudyFolder":
        """The folder of a study in a local storage."""
        return cls(storage, storage.folder / kind.home / name)

    @property
    def shown(self) -> Path | Location:
        """What a user is told."""
        return self.remote or self.directory

    @property
    def origin(self) -> str:
        """What tells the study from another one of its name, whatever machine asks."""
        return self.remote.uri if self.remote else f"{socket.gethostname()}:{self.directory.resolve()}"

    @property
    def place(self) -> Location:
        """Where its results are in the end."""
        return self.remote or Storage(str(self.directory.resolve())).opened()

    def publish(self, *names: str) -> None:
        """Copy finished files to where they belong, one after the other.

        Args:
            names: files below the folder; one that is not there is left out.
        """
        for name in names if self.remote else ():
            if self.remote and (self.directory / name).is_file():
                (self.remote / name).upload(self.directory / name)


def check_exists(home: Location, name: str, otherwise: str = "", kind: ResultKind = STUDY) -> None:
    """See whether there is a study of that name.

    Raises:
        PipelineError: if not; names those that are there.
    """
    studies = home / kind.home
    if not (studies / name).exists():
        known = ", ".join(studies.names()) or "none"
        raise PipelineError(
            f"there is no {kind.name} `{name}` in {studies}; known names: {known}",
            where="--name",
            hint="; ".join(
                filter(None, (f"check that `--storage` names the storage of the {kind.name}", otherwise))
            ),
        )


def check_complete(home: Location, name: str, where: str, otherwise: str) -> None:
    """See whether a study still has what it is resumed from: its settings and its ledger.

    Args:
        where: the flag that names it.
        otherwise: what to do where nothing was done in it.

    Raises:
        PipelineError: if not.
    """
    study = home / STUDIES / name
    # behind a URI the ledger may not have come as far as the first checkpoint
    lost = _lost_trials(Path(study.path)) if study.is_local else []
    if lost:
        raise PipelineError(
            f"the file of trial {lost[0]} is missing, and the study cannot be resumed without it",
            where=str(study / LEDGER),
            hint="restore it from a backup, or start a new study with another `--name`",
        )
    if (study / SETTINGS).exists() or (study / SETTINGS_COPY).exists():
        return
    if (study / LEDGER).exists():
        raise PipelineError(
            "this file is missing, and the study cannot be resumed without it",
            where=str(study / SETTINGS),
            hint="its trials are in MLflow; start a new study with another `--name`",
        )
    raise ended_at_once(name, where, otherwise)


def ended_at_once(name: str, where: str, otherwise: str, kind: ResultKind = STUDY) -> PipelineError:
    """What to raise of a study in which nothing was done."""
    return PipelineError(
        f"the {kind.name} `{name}` ended before anything was trained", where=where, hint=otherwise
    )


def _lost_trials(study: Path) -> list[str]:
    """Trials that have a checkpoint, but are not in the ledger, where each is before it trains."""
    ledger = {path: path.read_bytes() for path in (study / LEDGER).glob("*.jsonl")}
    begun = {path.stem.partition("-")[2] for path, content in ledger.items() if b"\n" in content}
    experiments = [path for kind in (TUNE, REPLICATES) for path in study.glob(f"{kind}*")]
    trained = {path.parent.name for one in experiments for path in one.glob("*/checkpoint_*")}
    # folders of resumed trials once had another id; the trial's epochs name them
    known = begun | {name for name in trained if any(f"/{name}/".encode() in c for c in ledger.values())}
    return sorted(trained - known)


@contextlib.contextmanager
def opened(storage: Storage, name: str, *, resume: bool, kind: ResultKind = STUDY) -> Iterator[StudyFolder]:
    """Keep a study for this process; a new one in which nothing was trained is removed at the end.

    Raises:
        PipelineError: if a study of that name was trained before, or another process has it.
    """
    if not storage.is_remote:
        folder = StudyFolder.local(storage, name, kind)
        with claimed(folder.directory, resume=resume, kind=kind):
            yield folder
        return
    home = storage.opened()
    remote, claims = home / kind.home / name, home / kind.claims
    with (
        tempfile.TemporaryDirectory(prefix="infocal-") as working,
        claim.held(claims / name, name, kind.name),
    ):
        if not resume and (remote / kind.sign).exists():
            raise _taken(name, kind.name)
        folder = StudyFolder(storage, Path(working) / kind.home / name, remote)
        with remote.localised(*kind.read) as copy:
            for one in kind.read:
                if (copy / one).is_dir():
                    shutil.copytree(copy / one, folder.directory / one)
                elif (copy / one).is_file():
                    folder.directory.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(copy / one, folder.directory / one)
        try:
            yield folder
        finally:
            if not resume and not (remote / kind.sign).exists():
                remote.remove()


def _taken(name: str, kind: str) -> PipelineError:
    return PipelineError(
        f"there is a {kind} `{name}` already",
        where="--name",
        hint="choose another name, or add `--resume`",
    )


@contextlib.contextmanager
def claimed(directory: Path, *, resume: bool, kind: ResultKind = STUDY) -> Iterator[None]:
    """Keep a study's folder for this process; a new one in which nothing was trained is removed at the end.

    A process that dies gives its claim up, so a study that was killed can be resumed at once.

    Raises:
        PipelineError: if a study of that name was trained before, or another process has it.
    """
    if not resume and (directory / kind.sign).exists():
        raise _taken(directory.name, kind.name)
    make_folder(directory, "--storage")
    lock = filelock.FileLock(directory / _LOCK)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout as error:
        raise PipelineError(
            f"another process is running the {kind.name} `{directory.name}`",
            where="--name",
            hint="choose another name, or wait until it has ended",
        ) from error
    except OSError as error:
        raise PipelineError(
            f"cannot write to the folder `{directory}`: {error.strerror}",
            where="--storage",
            hint="choose a folder in which you may write",
        ) from error
    try:
        _sweep(directory)
        yield
    finally:
        lock.release()
        if not resume and not (directory / kind.sign).exists():
            shutil.rmtree(directory, ignore_errors=True)
            with contextlib.suppress(OSError):  # others may have results there
                for above in (directory.parent, directory.parent.parent):
                    above.rmdir()


@contextlib.contextmanager
def resume_hint(sign: Path, command: str, unit: str = "trial") -> Iterator[None]:
    """Say how to continue after an interrupt, whenever it comes.

    Args:
        sign: file or folder that is there once something was trained.
        command: that resumes it.
    """

    def told() -> str:
        if sign.exists():
            return f"to resume: {command}"
        return f"no {unit} was started: run the same command again"

    try:
        with interruption.resumed_by(told):
            yield
    except (KeyboardInterrupt, SystemExit):
        logger.warning(told())
        raise


def _sweep(directory: Path) -> None:
    """Remove what a process that was killed was writing just then."""
    for path in directory.glob(f"{STAGED}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

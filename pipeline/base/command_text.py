"""Commands as text: what a user types next, and the command that a study was begun with."""

import argparse
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from feature_store import command_line
from pipeline.base.errors import PipelineError
from pipeline.base.locations import (
    SAMPLE_STORAGE,
    STORAGE,
    TRACKING_VARIABLE,
    is_in_environment,
    own_tracking,
)
from pipeline.base.storage import Storage
from pipeline.base.uris import file_of_sqlite, is_masked, of_sqlite, without_password


@dataclass(frozen=True, slots=True)
class Commands:
    """What a user types next, quoted for a shell; passwords are left out."""

    resume: str
    """Goes on with a study or a comparison."""
    sync: str
    """Writes to MLflow what it lacks of a study."""
    register: str
    """Registers a trial of a study that has ended, under a criterion to be added."""
    first: str = ""
    """What is to be done before any of them; empty: nothing."""

    @property
    def how_to_resume(self) -> str:
        """`resume` within a sentence, with what is to be done first."""
        return f"{self.resume} ({self.first})" if self.first else self.resume

    @property
    def how_to_sync(self) -> str:
        """`sync` within a sentence, with what is to be done first."""
        return f"{self.sync} ({self.first})" if self.first else self.sync


def next_commands(
    name: str,
    storage: Storage,
    tracking_uri: str | None,
    address: str | None = None,
    module: str = "pipeline.search",
) -> Commands:
    """The commands for a study or a comparison.

    Args:
        tracking_uri: as it was given; None: by MLFLOW_TRACKING_URI, or not at all.
        address: the same, of the Ray cluster.
        module: that resumes it.
    """
    places = ["--name", name, *storage_flags(storage)]
    stated = tracking_uri or os.environ.get(TRACKING_VARIABLE)
    if stated and stated != own_tracking(storage):
        places += named_store(stated)
    cluster = ["--address", address] if address else []
    return Commands(
        resume=shlex.join(["python", "-m", module, "--resume", *places, *cluster]),
        sync=shlex.join(["python", "-m", "pipeline.sync", *places]),
        register=shlex.join(["python", "-m", "pipeline.register", *places]),
        first=variable_to_set(stated) if stated else "",
    )


def storage_flags(storage: Storage, *, sample: bool = False) -> list[str]:
    """The flags that name a storage to a command; none where it is the command's default.

    Args:
        sample: whether the command gets `--sample`, which has a default of its own.
    """
    given = str(storage)
    if given == (SAMPLE_STORAGE if sample else STORAGE):
        return []
    return [f"--storage={given}"] if given.startswith("-") else ["--storage", given]


def tracking_flags(storage: Storage, uri: str) -> list[str]:
    """The flags that name a tracking store to a command that reads nothing but that.

    Args:
        uri: of the store; a password in it is left out.
    """
    if uri != own_tracking(storage) or os.environ.get(TRACKING_VARIABLE, uri) != uri:
        return named_store(uri)
    return ["--sample"] if str(storage) == SAMPLE_STORAGE else storage_flags(storage)


def named_store(uri: str) -> list[str]:
    """The flag that names a tracking store; none where its address holds a password.

    No password is printed, and with a masked one the flag would name no store: such an address is read from
    MLFLOW_TRACKING_URI; see `variable_to_set`.
    """
    shown = without_password(uri)
    return [] if is_masked(shown) else ["--tracking-uri", shown]


def variable_to_set(uri: str) -> str:
    """What to do before commands for a tracking store whose address holds a password; empty: nothing.

    Args:
        uri: of the store, with its password or without.
    """
    shown = without_password(uri)
    if not is_masked(shown) or is_in_environment(shown):
        return ""
    return f"first set {TRACKING_VARIABLE} to the full address of {shown}, with its password"


def stored_command(module: str, arguments: Sequence[str]) -> str:
    """A command as it is stored: without passwords, its databases named from the root, quoted for a shell."""
    words = ["python", "-m", module]
    for argument in arguments:
        flag, equals, value = argument.partition("=") if argument.startswith("--") else ("", "", argument)
        words.append(flag + equals + without_password(_from_root(value)))
    return shlex.join(words)


def without_flags(command: str, flags: Mapping[str, int]) -> str:
    """A stored command without some of its flags, quoted for a shell.

    Args:
        flags: with the number of values that follow each, 0 or 1.
    """
    words, kept = iter(shlex.split(command)), []
    for word in words:
        flag, equals, _ = word.partition("=")
        if flag not in flags:
            kept.append(word)
        elif flags[flag] and not equals:
            next(words, None)
    return shlex.join(kept)


def _from_root(uri: str) -> str:
    """A database's URI that means the same in every folder; other text stays as it is."""
    file, (address, question, options) = file_of_sqlite(uri), uri.partition("?")
    if file is not None and not str(file).startswith(":"):
        return of_sqlite(file.resolve()) + question + options
    found = re.fullmatch(r"journal:///([^/:].*)", address)
    return f"journal:///{Path(found[1]).resolve()}{question}{options}" if found else uri


class PipelineParser(command_line.Parser):
    """A parser whose errors are `PipelineError`."""

    failure = PipelineError


def bare_parser(*names: str) -> argparse.ArgumentParser:
    """A parser of flags that have one value each."""
    made = PipelineParser("pipeline", "")
    for name in names:
        made.add_argument(name)
    return made


def parsed_again(command: str, where: str, by: argparse.ArgumentParser | None = None) -> argparse.Namespace:
    """Flags of a command that was stored; what the parser does not know is left out.

    Args:
        command: `python -m MODULE` with its flags, quoted for a shell.
        where: it is stored, for messages.
        by: the parser; None: one of the flags that say where results and tracking are.

    Raises:
        PipelineError: if it is no such command.
    """
    if by is None:
        by = bare_parser("--storage", "--tracking-uri")
    try:
        return by.parse_known_args(shlex.split(command)[3:])[0]
    except (ValueError, PipelineError, SystemExit) as error:  # `--help` would end the process
        raise PipelineError(
            f"expected a stored command line, but got `{command[:100]}` ({error})", where=where
        ) from error

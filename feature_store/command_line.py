"""What the parsers of all commands share: a wrong argument is a user error that names the right one."""

import argparse
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from feature_store import errors
from feature_store.errors import RequestError, quoted

ENV_CACHE = "INFOCAL_CACHE"

_WRONG_CHOICE = re.compile(r"argument (.+?): invalid choice: '(.*?)' \(choose from", re.DOTALL)
_WRONG_FLAG = re.compile(r"unrecognized arguments: (?:.*? )?(--?[^\s=]+)", re.DOTALL)
_NEAR = 0.62
"""Ratio of like characters, of `difflib`, from which a word is taken for a slip of another."""


class Parser(argparse.ArgumentParser):
    """A parser without abbreviations, whose errors are those of every command."""

    failure: type[Exception] = RequestError
    """Raised for a wrong argument, as `failure(message, hint=...)`."""

    def __init__(self, prog: str, description: str, **more: Any) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False, **more)

        self._given: Sequence[str] = ()

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse, and keep what was given for the hint of an error."""
        self._given = sys.argv[1:] if args is None else args
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Raise the error of the commands in place of argparse's exit."""
        hint = self._nearest(message) or f"`{self.prog} --help` lists the flags"
        commands = _commands(self)
        if commands and (choice := _WRONG_CHOICE.search(message)):
            message = f"unknown command `{choice[2]}`; the commands are {quoted(commands)}"
        raise self.failure(message, hint=hint)  # type: ignore[call-arg]

    def _nearest(self, message: str) -> str | None:
        """A hint with the right word for the wrong one of the message; None where none is like it."""
        if choice := _WRONG_CHOICE.search(message):
            action = next((a for a in self._actions if choice[1] in (*a.option_strings, a.metavar)), None)
            choices = [] if action is None else [str(one) for one in action.choices or ()]
            near = nearest(choice[2], choices)
            flag = f"{choice[1]} " if action is not None and action.option_strings else ""
            return f"did you mean `{flag}{near}`?" if near else None
        if message.endswith("required") or "are required:" in message:
            # argparse misses what is required before it sees a slip in its name
            known = self._option_string_actions
            words = [word.partition("=")[0] for word in self._given]
            slips = [word for word in words if word.startswith("--") and word not in known]
            found = next(((slip, near) for slip in slips if (near := nearest(slip, known))), None)
            return f"did you mean `{found[1]}` instead of `{found[0]}`?" if found else None
        if wrong := _WRONG_FLAG.search(message):
            commands = _commands(self)
            owners = [
                name for name, command in commands.items() if wrong[1] in command._option_string_actions
            ]
            if owners:
                return f"`{wrong[1]}` is a flag of {quoted(owners)}"
            flags = {flag for parser in (self, *commands.values()) for flag in parser._option_string_actions}
            near = nearest(wrong[1], flags)
            return f"did you mean `{near}`?" if near else None
        return None


def nearest(given: str, known: Iterable[str]) -> str | None:
    """The known word that is most like a given one, dashes aside; None where none is."""
    plain = {word.strip("-"): word for word in sorted(known)}
    found = errors.nearest(given.strip("-").lower(), plain, _NEAR)
    return plain[found] if found else None


def positive_int(text: str, wanted: str = "a whole number above 0") -> int:
    """An argument that is a whole number above zero; `wanted` names it in words."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected {wanted}, but got {text!r}")
    return value


def seed(text: str) -> int:
    """An argument that can seed every generator: a whole number from 0 to 2**32 - 1."""
    if not (text.isascii() and text.isdigit() and int(text) < 2**32):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 to 2**32 - 1, but got {text!r}")
    return int(text)


def cache_folder(given: str | Path | None) -> Path:
    """Folder of cached features: the flag, else INFOCAL_CACHE, else `infocal` in the user's cache folder."""
    if given or os.environ.get(ENV_CACHE):
        return Path(given or os.environ[ENV_CACHE])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "infocal"


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The subcommands of a parser by their names."""
    return {k: v for a in parser._actions if isinstance(a.choices, dict) for k, v in a.choices.items()}

"""Errors that a user of the model can cause or has to know about."""

import difflib
from collections.abc import Iterable

MAX_MESSAGE = 1000
"""Characters of a message; a value that it quotes may be longer than one can read."""


def did_you_mean(given: str, known: Iterable[str], prefix: str = "", suffix: str = "") -> str | None:
    """A question that names the known name nearest to the given one; None where none is near."""
    near = difflib.get_close_matches(given, list(known), n=1)
    return f"did you mean `{prefix}{near[0]}{suffix}`?" if near else None


class UserError(Exception):
    """A mistake the user can mend; shown as one line, without a traceback.

    Args:
        message: what was expected and what was given.
        where: file, line or flag the mistake stands in.
        hint: what to do about it.
    """

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.message = _readable(message)
        super().__init__(self.message)
        self.where = where and _readable(where)
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


def _readable(message: str) -> str:
    """The message, or its place, in one line that ends."""
    line = " ".join(message.splitlines())
    return line if len(line) <= MAX_MESSAGE else f"{line[:MAX_MESSAGE]} ... ({len(line)} characters)"


class ConfigError(UserError):
    """A hyper-parameter is unknown, of the wrong type or out of its range."""


class StateError(UserError):
    """A checkpoint or a saved model does not belong to what it is loaded into, or is damaged."""


TRAINING_FAILURES = (
    "non_finite",
    "degenerate_all",
    "degenerate_none",
    "discriminator_stuck",
    "out_of_memory",
)


class TrainingFailure(Exception):  # noqa: N818 - a state of training, not a mistake of the user
    """Training ran into a state it cannot leave by itself; the trial ends as failed.

    Args:
        reason: one of `TRAINING_FAILURES`; becomes a tag of the run.
        message: the figures that show it.
    """

    def __init__(self, reason: str, message: str) -> None:
        if reason not in TRAINING_FAILURES:
            raise ValueError(f"unknown reason `{reason}`; the reasons are {', '.join(TRAINING_FAILURES)}")
        super().__init__(reason, message)  # both, or the error does not survive pickling (Ray)
        self.reason = reason
        self.message = message

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"

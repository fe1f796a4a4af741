"""How a command ends: results and 0, or one clear line and 2."""

import logging
import os
import select
import shutil
import sys
import traceback
from collections.abc import Callable, Sequence

import feature_store.errors
import infocal.errors
from feature_store import encodings, terminal
from pipeline.base import full_disk, interruption
from pipeline.base.uris import without_passwords

USER_ERRORS = (infocal.errors.UserError, feature_store.errors.UserError)
"""Mistakes a user can mend; everything else is a fault of ours and keeps its traceback."""


_BROKEN_PIPE = 128 + 13
"""What a shell reports of a process that SIGPIPE has ended."""
_MAX_REASON = 400
"""Characters that are shown of what another library says."""


class PipelineError(infocal.errors.UserError):
    """A mistake in how a command of the pipeline was called, or in what it was pointed at.

    Passwords in URIs are masked, so that what a library says of one can be quoted.
    """

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(
            without_passwords(message),
            where=where and without_passwords(where),
            hint=hint and without_passwords(hint),
        )


class CriterionNotMet(PipelineError):  # noqa: N818 - an outcome that a caller may expect, not a fault
    """No model reaches what the criterion asks for."""


def describe(error: BaseException) -> str:
    """The lines that stand on stderr: `error: ...`, then a `hint:` where there is one."""
    hint = getattr(error, "hint", None)
    return without_passwords(f"error: {error}" + (f"\n\nhint: {hint}" if hint else ""))


def one_line(error: BaseException) -> str:
    """What an error says, short: torch's own has a line for each tensor, shutil's an entry for each file."""
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list):
        _, file, reason = error.args[0][0]
        return shortened(reason if str(file) in reason else f"{file}: {reason}")
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return shortened(f"{error.filename}: {error.strerror}")
    inner = getattr(error, "orig", None) or error  # SQLAlchemy adds the statement to what the database says
    return shortened(str(inner)) or type(error).__name__


def shortened(text: str) -> str:
    """A text as one line that ends."""
    line = " ".join(text.split())
    return line if len(line) <= _MAX_REASON else f"{line[:_MAX_REASON]} ..."


def run_command(command: Callable[[Sequence[str]], int], arguments: Sequence[str] | None = None) -> int:
    """Run a command's `main`; a user's mistake becomes its line on stderr and exit code 2.

    The traceback is shown with `--debug` only. An interrupt gives 130, SIGTERM 143, and a reader of stdout
    that has seen enough, as `| head`, 141. A disk that is full is the user's to mend, too, and so is a locale
    that lacks a character.
    """
    if arguments is None:
        encodings.start_in_utf8()
    given = sys.argv[1:] if arguments is None else list(arguments)
    feature_store.errors.let_streams_take_every_text()
    if "--debug" in given:
        logging.getLogger("infocal").setLevel(logging.DEBUG)
    try:
        with interruption.handled():
            encodings.check_arguments(given)
            code = command(given)
            sys.stdout.flush()
            return code
    except USER_ERRORS as error:
        _show(error, given)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return interruption.exit_code()
    except BrokenPipeError:
        if _has_reader():
            raise
        return _BROKEN_PIPE
    except Exception as error:
        told = _without_room(error) if full_disk.is_meant(error) else encodings.of_locale(error)
        if told is None:
            raise
        _show(told, given)
        return 2


def _show(error: BaseException, given: Sequence[str]) -> None:
    if "--debug" in given:
        print(without_passwords(traceback.format_exc()), end="", file=sys.stderr)
    print(terminal.fit(describe(error), sys.stderr), file=sys.stderr)


def _without_room(error: Exception) -> PipelineError:
    """What to tell of a disk that takes nothing any more; what is left for a stdout on it is dropped."""
    try:
        sys.stdout.flush()
    except OSError:
        _drop_stdout()
    file, reason = getattr(error, "filename", None), getattr(error, "strerror", None) or one_line(error)
    others = "the disks of --storage, --cache-dir and TMPDIR"
    return PipelineError(
        f"cannot write {'a' if file is None else 'the'} file: {reason}",
        where=None if file is None else str(file),
        hint=full_disk.remedy(reason, others if file is None else f"the disk of this file, or on {others}"),
    )


def _has_reader() -> bool:
    """Whether anybody reads stdout; if not, what is left for it is dropped."""
    poll = select.poll()
    poll.register(sys.stdout, select.POLLOUT)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return True
    _drop_stdout()
    return False


def _drop_stdout() -> None:
    """Keep Python from trying once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

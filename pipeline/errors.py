"""How a command ends: results and 0, or one clear line and 2."""

import os
import select
import sys
import traceback
from collections.abc import Callable, Sequence

import feature_store.errors
import infocal.errors
from pipeline import interruption

USER_ERRORS = (infocal.errors.UserError, feature_store.errors.UserError)
"""Mistakes a user can mend; everything else is a fault of ours and keeps its traceback."""


_BROKEN_PIPE = 128 + 13
"""What a shell reports of a process that SIGPIPE has ended."""


class PipelineError(infocal.errors.UserError):
    """A mistake in how a command of the pipeline was called, or in what it was pointed at."""


class CriterionNotMet(PipelineError):  # noqa: N818 - an outcome that a caller may expect, not a fault
    """No model reaches what the criterion asks for."""


def describe(error: BaseException) -> str:
    """The lines that stand on stderr: `error: ...`, then a `hint:` where there is one."""
    hint = getattr(error, "hint", None)
    return f"error: {error}" + (f"\n\nhint: {hint}" if hint else "")


def run_command(command: Callable[[Sequence[str]], int], arguments: Sequence[str] | None = None) -> int:
    """Run a command's `main`; a user's mistake becomes its line on stderr and exit code 2.

    The traceback is shown with `--debug` only. An interrupt gives 130, SIGTERM 143, and a reader of stdout
    that has seen enough, as `| head`, 141.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with interruption.handled():
            code = command(given)
            sys.stdout.flush()
            return code
    except USER_ERRORS as error:
        if "--debug" in given:
            traceback.print_exc()
        print(describe(error), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return interruption.exit_code()
    except BrokenPipeError:
        if _has_reader():
            raise
        return _BROKEN_PIPE


def _has_reader() -> bool:
    """Whether anybody reads stdout; if not, what is left for it is dropped, or Python would try once more."""
    poll = select.poll()
    poll.register(sys.stdout, select.POLLOUT)
    if not any(event & select.POLLERR for _, event in poll.poll(0)):
        return True
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return False

"""How a command ends: results and 0, or one clear line and 2."""

import sys
import traceback
from collections.abc import Callable, Sequence

import feature_store.errors
import infocal.errors
from pipeline import interruption

USER_ERRORS = (infocal.errors.UserError, feature_store.errors.UserError)
"""Mistakes a user can mend; everything else is a fault of ours and keeps its traceback."""


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

    The traceback is shown with `--debug` only. An interrupt gives 130, SIGTERM 143.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with interruption.handled():
            return command(given)
    except USER_ERRORS as error:
        if "--debug" in given:
            traceback.print_exc()
        print(describe(error), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return interruption.exit_code()

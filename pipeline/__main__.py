"""List the commands: `python -m pipeline`."""

import ast
import sys
from collections.abc import Sequence
from pathlib import Path

from feature_store.command_line import nearest
from pipeline.base.errors import PipelineError, run_command


def commands() -> dict[str, str]:
    """Every module here that can be run, with the first line of its docstring."""
    found = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        text = path.read_text(encoding="utf-8")
        if path.stem != "__main__" and '\nif __name__ == "__main__":' in text:
            found[path.stem] = (ast.get_docstring(ast.parse(text)) or "").partition("\n")[0]
    return found


def main(arguments: Sequence[str]) -> int:
    """Print the commands; returns the exit code."""
    wanted = [argument for argument in arguments if argument not in ("-h", "--help")]
    if wanted:
        near = nearest(wanted[0], commands())
        raise PipelineError(
            f"expected a command as `python -m pipeline.NAME`, but got `{' '.join(wanted)}`",
            hint=f"did you mean `python -m pipeline.{near}`?" if near else "`python -m pipeline` lists them",
        )
    print("usage: python -m pipeline.COMMAND --help\n")
    for name, line in commands().items():
        print(f"  pipeline.{name:<10} {line}")
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))

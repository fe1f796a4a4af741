"""What `--json FILE` asks for: the file is checked before anything is read, and written at the end."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline.base.errors import PipelineError


def json_target(name: str | None, *inputs: str | None) -> Path | None:
    """Where `--json` writes to; a folder that is missing is found here, before anything is read.

    Args:
        name: as given; None or `-`, which is stdout, are no file.
        inputs: files that the command reads, where they are given.

    Raises:
        PipelineError: if there is no such folder, it is one itself, or an input would be overwritten.
    """
    if name is None or name == "-":
        return None
    target = Path(name)
    if not target.absolute().parent.is_dir():
        raise PipelineError(f"there is no folder `{target.parent}`", where=f"--json {target}")
    if target.is_dir():
        raise PipelineError("expected a file, but this is a folder", where=f"--json {target}")
    if target.exists() and any(one and Path(one).exists() and target.samefile(one) for one in inputs):
        raise PipelineError(
            "this file is read by the command, and would be overwritten",
            where=f"--json {target}",
            hint="name another file, or `-` for stdout",
        )
    return target


def dumped(document: Mapping[str, Any]) -> str:
    """What `--json` writes: readable, in the order given; JSON has no NaN, so what is not finite is null."""
    return json.dumps(_finite(document), indent=1, ensure_ascii=False, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_json(target: Path | None, document: Mapping[str, Any]) -> None:
    """Write it to the file that `json_target` found, where there is one.

    Raises:
        PipelineError: if it cannot be written.
    """
    if target is None:
        return
    try:
        target.write_text(dumped(document) + "\n", encoding="utf-8")
    except OSError as error:
        raise PipelineError(f"cannot be written: {error.strerror}", where=f"--json {target}") from error

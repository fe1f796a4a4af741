"""`task.toml`: what the user of an own corpus says about it."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from feature_store.errors import BadInputError, did_you_mean, quoted, shown
from feature_store.sources.base import TargetSpec, TaskKind
from feature_store.sources.labels import check_label
from feature_store.tokenize import ALIASES, TOKENIZERS
from feature_store.toml import read_toml

_OF_TARGET = ("kind", "classes", "score_range")
KEYS = (*_OF_TARGET, "tokenizer", "title", "targets")
_TAKEN = ("text", "tokens", "rationale", "id", "groups")
"""Keys of a line that are no target."""
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


TASK_FILE = "task.toml"
MAIN_KEYS: dict[str, str] = {"classification": "label", "regression": "score"}
"""Kind of a task -> key of its main target in a line, and its name where there are several."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskFile:
    """The content of a `task.toml`.

    A target has as name its key in a line. Without `class_names` a classification has the classes that the
    training file holds.
    """

    main: TargetSpec
    tokenizer: str | None
    """Name in `feature_store.tokenize` of what splits a text; None: nothing is said."""

    title: str | None
    """What the corpus is; said on each run."""

    targets: Mapping[str, TargetSpec]
    """The side targets that lines have, by their keys."""


def read_task_file(path: Path) -> TaskFile:
    """Read and check a `task.toml`.

    Raises:
        BadInputError: if it is no TOML, has an unknown key, or a value that does not fit.
    """
    where = str(path)
    try:
        values = read_toml(path)
    except ValueError as error:
        raise BadInputError(str(error), where=where) from error
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}", where=where) from error
    _check_keys(values, KEYS, where)
    main = _target(values, where)
    return TaskFile(
        main=main,
        tokenizer=_tokenizer(values, where),
        title=_title(values.get("title"), where),
        targets=_targets(values.get("targets", {}), main.name, where),
    )


def _check_keys(values: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in values:
        if key not in known:
            raise BadInputError(
                f"unknown key `{key}`; the keys are {quoted(known)}",
                where=where,
                hint=did_you_mean(key, known),
            )


def _targets(tables: object, main: str, where: str) -> dict[str, TargetSpec]:
    """The tables `[targets.NAME]`."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise BadInputError(f"expected tables `[targets.NAME]`, but got {shown(tables)}", where=where)
    taken = (*_TAKEN, main)
    for name, table in tables.items():
        if not _NAME.fullmatch(name) or name in taken:
            raise BadInputError(
                f"`{name}` cannot be the name of a side target",
                where=f"{where}, [targets.{name}]",
                hint="use letters, digits, _ and -, starting with a letter, and none of the names "
                f"{quoted(taken)}; each line gives the target's value under this name",
            )
        _check_keys(table, _OF_TARGET, f"{where}, [targets.{name}]")
    return {name: _target(table, f"{where}, [targets.{name}]", name) for name, table in tables.items()}


def _target(values: dict[str, Any], where: str, name: str | None = None) -> TargetSpec:
    kind = _choice(values, "kind", get_args(TaskKind), where)
    if kind is None:
        raise BadInputError(f"no key `kind`; expected one of {quoted(get_args(TaskKind))}", where=where)
    for key, owner in (("classes", "classification"), ("score_range", "regression")):
        if key in values and kind != owner:
            raise BadInputError(f"`{key}` belongs to kind `{owner}`, but kind is `{kind}`", where=where)
    return TargetSpec(
        name=name or MAIN_KEYS[kind],
        kind="classification" if kind == "classification" else "regression",
        class_names=_classes(values["classes"], where) if "classes" in values else None,
        score_range=_score_range(values.get("score_range", [0, 1]), where),
    )


def _choice(values: dict[str, Any], key: str, known: Any, where: str) -> str | None:
    if key not in values:
        return None
    value = values[key]
    if not isinstance(value, str) or value not in known:
        near = did_you_mean(str(value), known)
        raise BadInputError(
            f"expected one of {quoted(known)} as `{key}`, but got {shown(value)}", where=where, hint=near
        )
    return value


def _tokenizer(values: dict[str, Any], where: str) -> str | None:
    name = _choice(values, "tokenizer", (*TOKENIZERS, *ALIASES), where)
    return None if name is None else ALIASES.get(name, name)


def _classes(value: object, where: str) -> tuple[str, ...]:
    names = [check_label(name, "classes", where) for name in value] if isinstance(value, list) else []
    if len(names) < 2 or len(set(names)) < len(names):
        raise BadInputError(
            f"expected a list of at least two different names as `classes`, but got {value!r}", where=where
        )
    return tuple(names)


def _score_range(value: object, where: str) -> tuple[float, float]:
    if isinstance(value, list) and len(value) == 2 and all(type(edge) in (int, float) for edge in value):
        low, high = float(value[0]), float(value[1])
        if low < high and math.isfinite(high - low):
            return low, high
    raise BadInputError(
        f"expected [lowest, highest], two different numbers, as `score_range`, but got {value!r}", where=where
    )


def _title(value: object, where: str) -> str | None:
    if value is not None and not isinstance(value, str):
        raise BadInputError(f"expected text as `title`, but got {value!r}", where=where)
    return value

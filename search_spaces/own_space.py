"""A search space that the user wrote: a TOML file with a table for each hyper-parameter.

    [lambda_ib]
    low = 0.0001
    high = 0.01
    log = true

    [encoder]
    choices = ["rcnn", "lstm"]

    [hidden_size]
    low = 50
    high = 200
    step = 50
    when.encoder = ["lstm"]

    [[first]]
    lambda_ib = 0.001
    encoder = "rcnn"

A table has `low` and `high`, with `step` or `log = true` where they are wanted, or `choices`. `when` says for
which values of other hyper-parameters this one is searched; `why` and `role` are optional. `first` lists
points that are tried first.
"""

import dataclasses
import reprlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, get_args

from feature_store.toml import read_toml
from infocal.config import MethodConfig
from infocal.errors import ConfigError, did_you_mean
from search_spaces.space import Choice, Parameter, Range, Role, Search, check, restricted

SUFFIX = ".toml"
"""By which the name of a file is told from that of a registered space."""
NAME = "own"
"""Of the one space in a file's `Search`."""
_FIRST, _CHOICES, _WHEN = "first", "choices", "when"
_RANGE_KEYS = ("low", "high", "step", "log", "role", "why", _WHEN)
_CHOICE_KEYS = (_CHOICES, "role", "why", _WHEN)
_HINT = "a table is `[NAME]` with `low = 0.1` and `high = 1.0`, or with `choices = [...]`"

_T = TypeVar("_T")


def read(path: Path, config_class: type[MethodConfig]) -> Search:
    """The space of a file, and the points that it tries first.

    Args:
        path: of the TOML file.
        config_class: of the method, whose hyper-parameters may be searched.

    Raises:
        ConfigError: if the file cannot be read, or says something that cannot be searched: names
            the file, the table, what was expected and what is there.
    """
    try:
        tables = read_toml(path)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ConfigError(
            f"cannot read the search space: {reason}",
            where=f"--space {path}",
            hint=f"give a TOML file: {_HINT}",
        ) from error
    points = tables.pop(_FIRST, [])
    if not tables:
        raise ConfigError("no hyper-parameter is searched", where=str(path), hint=_HINT)
    space = tuple(_parameter(path, name, table, config_class) for name, table in tables.items())
    _said_at(f"{path}", lambda: check(space))
    if not isinstance(points, list) or not all(isinstance(point, dict) for point in points):
        raise ConfigError(
            f"expected tables `[[{_FIRST}]]`, but got {_shown(points)}",
            where=f"{path}: {_FIRST}",
            hint="write one table for each point",
        )
    for number, point in enumerate(points, start=1):
        drawn = restricted(space, point)
        if drawn is None or set(drawn) != set(point):
            raise ConfigError(
                "expected a value of each searched hyper-parameter, within its range, but got "
                f"{_shown(point)}",
                where=f"{path}: point {number} of `{_FIRST}`",
            )
    return Search(spaces={NAME: space}, first_points=points)


def _parameter(path: Path, name: str, table: Any, config_class: type[MethodConfig]) -> Parameter:
    where = f"{path}: [{_shown(name)}]"
    fields = {field.name: field for field in dataclasses.fields(config_class)}
    if name not in fields:
        raise ConfigError(
            f"unknown hyper-parameter `{_shown(name)}`",
            where=where,
            hint=did_you_mean(name, fields) or f"the hyper-parameters are {', '.join(fields)}",
        )
    if not isinstance(table, dict):
        raise ConfigError(f"expected a table, but got {_shown(table)}", where=where, hint=_HINT)
    keys = _CHOICE_KEYS if _CHOICES in table else _RANGE_KEYS
    for key in table:
        if key not in keys:
            raise ConfigError(
                f"unknown key `{_shown(key)}`; the keys are {', '.join(keys)}",
                where=where,
                hint=did_you_mean(key, keys) or _HINT,
            )
    stated: dict[str, Any] = {"why": "as the file says"} | table
    _check_plain(stated, where)
    stated[_WHEN] = _conditions(stated.get(_WHEN, {}), where)
    if _CHOICES in table:
        if not isinstance(table[_CHOICES], list):
            raise ConfigError(
                f"expected a list as `{_CHOICES}`, but got {_shown(table[_CHOICES])}", where=where
            )
        stated[_CHOICES] = tuple(table[_CHOICES])
        found: Parameter = _said_at(where, lambda: Choice(name=name, **stated))
    else:
        found = _range(name, stated, fields[name].type, where)
    for value in found.ends:
        _check_value(config_class, name, value, where)
    return found


def _range(name: str, stated: Mapping[str, Any], kind: Any, where: str) -> Range:
    if kind not in (int, float):
        listed = ", ".join(f'"{value}"' for value in get_args(kind)) or '"...", "..."'
        raise ConfigError(
            f"`{name}` is not a number, so its table needs `choices`",
            where=where,
            hint=f"add `choices = [{'true, false' if kind is bool else listed}]`",
        )
    for key in ("low", "high"):
        if key not in stated:
            raise ConfigError(f"`{key}` is missing", where=where, hint=_HINT)
    return _said_at(where, lambda: Range(name=name, is_integer=kind is int, **stated))


def _check_plain(stated: Mapping[str, Any], where: str) -> None:
    """Refuse a value of another type than the key has."""
    numbers = {"low", "high", "step"}
    for key, value in stated.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if key in numbers and not is_number:
            raise ConfigError(f"expected a number as `{key}`, but got {_shown(value)}", where=where)
        if key == "log" and not isinstance(value, bool):
            raise ConfigError(f"expected true or false as `log`, but got {_shown(value)}", where=where)
        if key == "why" and not isinstance(value, str):
            raise ConfigError(f"expected a text as `why`, but got {_shown(value)}", where=where)
        if key == "role" and value not in get_args(Role):
            expected = " or ".join(get_args(Role))
            raise ConfigError(f"expected {expected} as `role`, but got {_shown(value)}", where=where)


def _conditions(stated: Any, where: str) -> dict[str, tuple[Any, ...]]:
    if not isinstance(stated, dict) or not all(isinstance(values, list) for values in stated.values()):
        raise ConfigError(
            f"expected lists of values as `{_WHEN}`, but got {_shown(stated)}",
            where=where,
            hint=f'`{_WHEN}.encoder = ["lstm"]`',
        )
    return {name: tuple(values) for name, values in stated.items()}


def _check_value(config_class: type[MethodConfig], name: str, value: Any, where: str) -> None:
    try:
        config_class.from_mapping({name: value})
    except ConfigError as error:
        raise ConfigError(error.message, where=where, hint=error.hint) from error


def _said_at(where: str, make: Callable[[], _T]) -> _T:
    """What is made; where it cannot be, the reason with its place."""
    try:
        return make()
    except (ValueError, TypeError) as error:
        raise ConfigError(f"{error}", where=where, hint=_HINT) from error


_SHORT = reprlib.Repr()
_SHORT.maxlevel, _SHORT.maxstring, _SHORT.maxother = 3, 60, 60


def _shown(value: Any) -> str:
    """A value for a message; of what is nested deeply, and of long texts, a part."""
    return value[:80] if isinstance(value, str) else _SHORT.repr(value)

"""Several targets of one data set in one name: `charges+articles+terms`.

The first one is the main target: it names the files to read and the human rationales, and its name alone has
presets and a criterion. The others are side targets of the same texts.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

SIGN = "+"
"""Between the targets in the name of several; `--aspect` takes commas as well."""

NO_SIDES: Mapping[str, Any] = MappingProxyType({})
"""Name -> kind of the side targets where there is one target."""


def names_of(aspect: str | None) -> tuple[str, ...]:
    """The targets that an aspect names, the main one first; none where a data set has one target."""
    return tuple(aspect.split(SIGN)) if aspect else ()


def main_of(aspect: str | None) -> str | None:
    """The main target of an aspect: the aspect itself where it names one."""
    return aspect.split(SIGN)[0] if aspect else aspect


def sides_of(aspect: str | None) -> tuple[str, ...]:
    """The side targets that an aspect names."""
    return names_of(aspect)[1:]


def joined(names: Sequence[str]) -> str:
    """The name of these targets together."""
    return SIGN.join(names)


def in_flags(aspect: str) -> str:
    """The aspect as `--aspect` has it in commands and documentation: with commas."""
    return aspect.replace(SIGN, ",")


def in_names(aspect: str) -> str:
    """The aspect as a part of the names of files, studies and models, where a sign may mean something."""
    return aspect.replace(SIGN, "-")


def column_of(side: str) -> str:
    """The column of a side target in a table; that of the main target is `target`."""
    return f"target_{side}"

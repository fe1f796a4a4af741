"""Reading TOML files that a user wrote."""

import tomllib
from pathlib import Path
from typing import Any

MAX_BYTES = 2**20
"""No file of settings is longer."""

_MAX_BITS = 64
"""Of a whole number: what TOML asks readers to take. Python can neither show nor divide much longer ones."""


def read_toml(path: Path) -> dict[str, Any]:
    """The values of a TOML file, which may begin with a byte order mark.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no TOML, not UTF-8 or too long; says what and, where it can, on which line.
    """
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(f"expected at most {MAX_BYTES} bytes, but there are more")
    try:
        values = tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8: {error}") from error
    except RecursionError as error:
        raise ValueError("not TOML: nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"not TOML: {error}") from error
    _refuse_long_numbers(values)
    return values


def _refuse_long_numbers(values: dict[str, Any]) -> None:
    waiting: list[Any] = [values]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict | list):
            waiting.extend(value.values() if isinstance(value, dict) else value)
        elif isinstance(value, int) and value.bit_length() > _MAX_BITS:
            raise ValueError(f"not TOML: a whole number of more than {_MAX_BITS} bits")

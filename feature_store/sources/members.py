"""Reading a file that is one JSON object, member by member, with errors that name file and line."""

import codecs
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

from feature_store.errors import BadInputError
from feature_store.sources.lines import check_size, reading

BLOCK_BYTES = 1 << 18
MAX_MEMBER_CHARS = 16 * 2**20
"""No member of a corpus is this long: a text that does not end before is not JSON, or not cut into texts."""

_DECODER = json.JSONDecoder()


class JsonSyntaxError(ValueError):
    """The text cannot continue as JSON at a position of the buffer; more text may mend it."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message, self.position = message, position


def read_members(path: Path, *, max_bytes: int) -> Iterator[tuple[int, str, object]]:
    """Members of the file's one JSON object in order: the line where each starts, its key, its value.

    A name that ends in .gz is decompressed on the fly; one member and one block of text are held in memory.

    Args:
        path: a UTF-8 file, with a byte order mark or without.
        max_bytes: most bytes to accept after decompression.

    Raises:
        MissingDataError: if there is no such file.
        BadInputError: if the file cannot be read, is too large, is not UTF-8 or is not one whole JSON object.
    """
    text = _Text(path)
    with reading(path, lambda: text.line - 1) as stream:
        blocks = _blocks(iter(lambda: stream.read(BLOCK_BYTES), b""), text, max_bytes)
        yield from _members(text, blocks)


class _Text:
    """The text in memory: how far it is parsed, and on which line of the file that is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.held = ""
        self.position = 0
        self.line = 1
        self.last_key: str | None = None

    def append(self, more: str) -> None:
        self.held, self.position = self.held[self.position :] + more, 0

    def take(self, end: int) -> None:
        self.line = self.line_at(end)
        self.position = end

    def line_at(self, position: int) -> int:
        return self.line + self.held.count("\n", self.position, position)

    def error(self, message: str, position: int) -> BadInputError:
        line = self.line_at(position)
        after = "" if self.last_key is None else f", after the member `{self.last_key}`"
        return BadInputError(f"not a complete JSON object: {message}{after}", where=f"{self.path}:{line}")


def _blocks(raw: Iterator[bytes], text: _Text, max_bytes: int) -> Iterator[str]:
    """Decoded blocks of a file."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    total, line = 0, 1
    for block in itertools.chain(raw, [b""]):
        total += len(block)
        check_size(total, text.path, max_bytes)
        try:
            decoded = decoder.decode(block, final=not block)
        except UnicodeDecodeError as error:
            line += error.object.count(b"\n", 0, error.start)
            bad = error.object[error.start : error.start + 1].hex()
            raise BadInputError(f"not UTF-8: byte 0x{bad}", where=f"{text.path}:{line}") from error
        line += decoded.count("\n")
        yield decoded


def _members(text: _Text, blocks: Iterator[str]) -> Iterator[tuple[int, str, object]]:
    opening = "{"
    while (found := _parse(text, blocks, opening)) is not None:
        yield found
        text.last_key, opening = found[1], ","
    text.append("".join(blocks))
    if (position := _skip(text.held, 0)) < len(text.held):
        raise text.error("unexpected content after the end of the JSON object", position)


def _parse(text: _Text, blocks: Iterator[str], opening: str) -> tuple[int, str, object] | None:
    """The next member, or None where the object ends; reads on for as long as the text may be cut."""
    while True:
        try:
            start, member, end = _next_member(text.held, text.position, opening)
        except JsonSyntaxError as error:
            waiting = len(text.held) - text.position
            # as much again, so that a long member is not parsed anew for every block
            more = "".join(itertools.islice(blocks, 1 + waiting // BLOCK_BYTES))
            if not more or waiting > MAX_MEMBER_CHARS:
                raise text.error(error.message, error.position) from error
            text.append(more)
            continue
        line = text.line_at(start)
        text.take(end)
        return None if member is None else (line, *member)


def _next_member(held: str, position: int, opening: str) -> tuple[int, tuple[str, object] | None, int]:
    """Start of a member, key and value, and the position behind it; None for both where the object ends."""
    position = _skip(held, position)
    if opening == "," and held[position : position + 1] == "}":
        return position, None, position + 1
    start = _skip(held, _expect(held, position, opening))
    if opening == "{" and held[start : start + 1] == "}":
        return start, None, start + 1
    if held[start : start + 1] != '"':
        raise JsonSyntaxError("expected a key in double quotes", start)
    key, position = _value(held, start)
    value, end = _value(held, _skip(held, _expect(held, _skip(held, position), ":")))
    # a block may cut a number, and its part be one too, as `0` of `0.5`: what follows shows that it is whole
    following = _skip(held, end)
    if held[following : following + 1] not in (",", "}"):
        raise JsonSyntaxError(f"expected `,` or `}}`, but got {_given(held, following)}", following)
    return start, (str(key), value), end


def _skip(held: str, position: int) -> int:
    while position < len(held) and held[position] in " \t\r\n":
        position += 1
    return position


def _expect(held: str, position: int, mark: str) -> int:
    if held[position : position + 1] != mark:
        raise JsonSyntaxError(f"expected `{mark}`, but got {_given(held, position)}", position)
    return position + 1


def _given(held: str, position: int) -> str:
    return repr(held[position]) if position < len(held) else "the end of the file"


def _value(held: str, position: int) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(held, position)
    except json.JSONDecodeError as error:
        raise JsonSyntaxError(error.msg, error.pos) from error
    except ValueError as error:  # a whole number of thousands of digits
        raise JsonSyntaxError(str(error), position) from error
    except RecursionError as error:
        raise JsonSyntaxError("nested too deeply", position) from error

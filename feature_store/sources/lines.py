"""Reading text files line by line, plain or gzip, with errors that name file and line."""

import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from feature_store.errors import BadInputError, MissingDataError, keys_in_words, shown, slip_of_key

MAX_LINE_BYTES = 64 * 2**20
"""No line of a text corpus is this long; a file without line ends is not one."""

_BLOCK_BYTES = 1 << 22
_MOST_BLANK = 1 << 16
"""Blank lines that are given at once."""

UTF8 = "UTF-8"
_BYTE_ORDER_MARK = "\ufeff"
_CHINESE = re.compile("[\u4e00-\u9fff]{2}")


def read_lines(
    path: Path, *, max_bytes: int, encodings: Sequence[str] = (UTF8,)
) -> Iterator[tuple[int, str]]:
    """Lines of a text file with their numbers from 1, without line ends.

    A blank line, of white space alone, is given as an empty one; those at the end of the file are left out.
    A name that ends in .gz is decompressed on the fly; only one line is held in memory.

    Args:
        max_bytes: most bytes to accept after decompression.
        encodings: those that the file may have; one holds for the whole file. A line that is valid in
            several counts for the first of them, so the strictest, UTF-8, stands first.

    Raises:
        MissingDataError: if there is no such file.
        BadInputError: if the file is a folder, cannot be read, has nothing but blank lines, is cut short, has
        none of the encodings or two of them, or is too large.
    """
    number = told = 0
    decoder = _Decoder(encodings)
    with reading(path, lambda: number) as stream:
        lines = (line for block in _blocks(stream, path, max_bytes) for line in block.split(b"\n"))
        for number, line in enumerate(lines, start=1):
            if not line.removeprefix(b"" if number > 1 else _BYTE_ORDER_MARK.encode()).strip():
                continue
            for blank in range(told + 1, number):
                yield blank, ""
            yield number, decoder.decode(line, path, number)
            told = number
    _check_filled(told, number, path)


def filled_lines(
    path: Path, *, max_bytes: int, encodings: Sequence[str] = (UTF8,)
) -> Iterator[tuple[int, str]]:
    """Lines of a file that holds a record on each, as `read_lines` gives them, but for the blank ones.

    The numbers are those in the file: a blank line counts, wherever it stands.

    Raises:
        MissingDataError, BadInputError: as `read_lines`.
    """
    lines = read_lines(path, max_bytes=max_bytes, encodings=encodings)
    return ((number, line) for number, line in lines if line)


def text_blocks(path: Path, *, max_bytes: int) -> Iterator[tuple[int, str]]:
    """The same lines of a file in UTF-8, many at a time.

    Returns:
        The number of the first line, and the lines with a line feed between them; white space at a line's end
        is left in place, in blank lines too.

    Raises:
        MissingDataError, BadInputError: as `read_lines`, after the lines before the error.
    """
    number = last = 0
    is_utf8 = False
    with reading(path, lambda: number) as stream:
        for block in _blocks(stream, path, max_bytes):
            first, number = number + 1, number + block.count(b"\n") + 1
            mark = "" if first > 1 else _BYTE_ORDER_MARK
            filled = len(block.rstrip())
            if not block[:filled].removeprefix(mark.encode()):
                continue
            for blank in range(last + 1, first, _MOST_BLANK):
                yield blank, "\n" * (min(_MOST_BLANK, first - blank) - 1)
            end = block.find(b"\n", filled)
            try:
                text = (block if end < 0 else block[:end]).decode()
            except UnicodeDecodeError as error:
                start = block.rfind(b"\n", 0, error.start) + 1
                if start:
                    yield first, block[: start - 1].decode().removeprefix(mark)
                line, number = block[start:].partition(b"\n")[0], first + block.count(b"\n", 0, start)
                error.start -= start
                is_utf8 = is_utf8 or not block[:start].removeprefix(mark.encode()).isascii()
                hint = _conversion(line, number, UTF8 if is_utf8 else None)
                raise _undecodable(line, error, (UTF8,), f"{path}:{number}", hint) from error
            is_utf8 = is_utf8 or not text.removeprefix(mark).isascii()
            yield first, text.removeprefix(mark)
            last = first + text.count("\n")
    _check_filled(last, number, path)


def _check_filled(last: int, number: int, path: Path) -> None:
    """Refuse a file of so many lines of which none is the last that is not blank."""
    if last == 0:
        raise BadInputError("every line is blank" if number else "the file is empty", where=str(path))


@contextmanager
def reading(path: Path, lines_read: Callable[[], int]) -> Iterator[io.BufferedIOBase]:
    """A raw file, plain or gzip, whose failures name it.

    Args:
        lines_read: how many lines were read when one happens.

    Raises:
        MissingDataError: if there is no such file.
        BadInputError: if it is a folder, cannot be read or is cut short.
    """
    if path.is_dir():
        raise BadInputError("expected a file, but this is a folder", where=str(path))
    try:
        with _open(path) as stream:
            yield stream
    except (EOFError, zlib.error) as error:
        raise BadInputError(
            f"the compressed file is cut short or damaged after line {lines_read()} ({error})",
            where=f"{path}:{lines_read() + 1}",
            hint=f"remove `{path.name}` and download it again",
        ) from error
    except gzip.BadGzipFile as error:
        raise BadInputError(
            f"the name ends in .gz but the content is not gzip ({error})",
            where=f"{path}:{lines_read() + 1}",
            hint="rename it without .gz if it is plain text",
        ) from error
    except FileNotFoundError as error:
        raise MissingDataError("no such file", where=str(path)) from error
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}", where=str(path)) from error


def _open(path: Path) -> io.BufferedIOBase:
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _blocks(stream: io.BufferedIOBase, path: Path, max_bytes: int) -> Iterator[bytes]:
    """Whole lines, many at a time, without the last line feed; of a damaged file those before the damage."""
    total = number = 0
    limit = min(MAX_LINE_BYTES, max_bytes)
    rest = b""
    failure: Exception | None = None
    while failure is None:
        block, failure = _read_block(stream)
        if not block and failure is None:
            break
        total += len(block)
        check_size(total, path, max_bytes)
        lines, feed, rest = (rest + block).rpartition(b"\n")
        if feed:
            yield from _short_lines(lines, limit, path, number)
            number += lines.count(b"\n") + 1
        _check_line(len(rest), limit, f"{path}:{number + 1}")
    if failure is not None:
        raise failure
    if rest:
        yield rest


def _read_block(stream: io.BufferedIOBase) -> tuple[bytes, Exception | None]:
    """The next bytes, and why there are no more than these."""
    pieces: list[bytes] = []
    missing = _BLOCK_BYTES
    while missing > 0:
        try:
            # little at once, for a piece that ends in damage is lost
            piece = stream.read1(min(missing, io.DEFAULT_BUFFER_SIZE))
        except (EOFError, zlib.error, OSError) as error:
            return b"".join(pieces), error
        if not piece:
            break
        pieces.append(piece)
        missing -= len(piece)
    return b"".join(pieces), None


def _short_lines(lines: bytes, limit: int, path: Path, number: int) -> Iterator[bytes]:
    """Lines of at most `limit` bytes with their line feeds; at a longer one those before it, and an error."""
    if len(lines) < limit:
        yield lines
        return
    kept: list[bytes] = []
    for line in lines.split(b"\n"):
        if len(line) >= limit:
            if kept:
                yield b"\n".join(kept)
            _check_line(len(line) + 1, limit, f"{path}:{number + len(kept) + 1}")
        kept.append(line)
    yield lines


def _check_line(num_bytes: int, limit: int, where: str) -> None:
    if num_bytes > limit:
        raise BadInputError(
            f"expected lines of at most {limit} bytes, but this line is longer",
            where=where,
            hint="check that this is a text file",
        )


def check_size(num_bytes: int, path: Path, max_bytes: int) -> None:
    """Refuse a file of which more was read than is accepted."""
    if num_bytes > max_bytes:
        raise BadInputError(
            f"expected at most {max_bytes} bytes of text, but the file has more",
            where=str(path),
            hint="check that this is the right file; no flag changes this limit",
        )


class _Decoder:
    """Decodes the lines of one file, which all have the encoding of its first line that is not ASCII."""

    def __init__(self, encodings: Sequence[str]) -> None:
        self._encodings = encodings
        self._found: tuple[str, int] | None = None

    def decode(self, line: bytes, path: Path, number: int) -> str:
        if line.isascii():
            return line.decode("ascii").rstrip("\r\n")
        where = f"{path}:{number}"
        encoding, text = self._first_valid(line, where, number)
        if self._found is None:
            self._found = encoding, number
        if encoding != self._found[0]:
            raise BadInputError(
                f"this line is {encoding}, but line {self._found[1]} is {self._found[0]}: mixed encodings",
                where=where,
                hint="write the file again in one encoding",
            )
        return text.removeprefix(_BYTE_ORDER_MARK if number == 1 else "").rstrip("\r\n")

    def _first_valid(self, line: bytes, where: str, number: int) -> tuple[str, str]:
        failures = []
        for encoding in self._encodings:
            try:
                return encoding, line.decode(encoding)
            except UnicodeDecodeError as error:
                failures.append(error)
        hint = _conversion(line, number, self._found[0] if self._found else None)
        raise _undecodable(line, failures[0], self._encodings, where, hint) from failures[0]


def _undecodable(
    line: bytes, failure: UnicodeDecodeError, encodings: Sequence[str], where: str, hint: str
) -> BadInputError:
    """The error of a line that has none of the encodings; `failure` is that of the first of them."""
    return BadInputError(
        f"not {' and not '.join(encodings)}: byte 0x{line[failure.start]:02x} at position {failure.start} "
        "of the line",
        where=where,
        hint=hint,
    )


def _conversion(line: bytes, number: int, before: str | None) -> str:
    """A hint that names the encoding which a file with this line may have.

    Args:
        number: of the line in the file; a mark of UTF-16 stands at the start of a file alone.
        before: encoding of the lines before it; None where these are ASCII, and so tell nothing.
    """
    if before is not None:
        return f"the lines before it are {before}, so this line is damaged: write it again in {before}"
    found, sign = "ENCODING", ""
    try:
        chinese = line.decode("gb18030")
    except UnicodeDecodeError:
        chinese = ""
    if number == 1 and line.startswith((b"\xff\xfe", b"\xfe\xff")):
        found, sign = "UTF-16", "it begins like UTF-16: "
    elif _CHINESE.search(chinese):
        found, sign = "GB18030", "it may be GB18030 (GBK): "
    return f"{sign}`iconv -f {found} -t UTF-8 FILE > NEW` converts it to UTF-8"


class _RepeatedKeyError(ValueError):
    """An object names a key more than once."""


def _object(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    """The object of these keys and values; a key that stands there twice would lose one of its values."""
    found = dict(pairs)
    if len(found) < len(pairs):
        key = next(key for key, number in Counter(key for key, _ in pairs).items() if number > 1)
        raise _RepeatedKeyError(f"the object has the key `{key}` more than once")
    return found


_ONE_OBJECT = "write one JSON object on each line"


def parse_record(line: str, where: str, keys: Sequence[str]) -> dict[str, object]:
    """A line that holds a JSON object with at least these keys.

    Raises:
        BadInputError: if it is none, or a key is missing.
    """
    try:
        record = json.loads(line, object_pairs_hook=_object)
    except _RepeatedKeyError as error:
        raise BadInputError(str(error), where=where, hint="keep one value for each key") from error
    except (ValueError, RecursionError) as error:
        # the line is counted in the file, not in itself
        fault = str(error)
        if isinstance(error, json.JSONDecodeError):
            fault = f"{error.msg} (column {error.colno})"
        hint = f"{_ONE_OBJECT} instead of one array" if line.strip() == "[" else _ONE_OBJECT
        raise BadInputError(f"not JSON: {fault}", where=where, hint=hint) from error
    if not isinstance(record, dict):
        raise BadInputError(f"expected a JSON object, but got {shown(record)}", where=where, hint=_ONE_OBJECT)
    require_keys(record, keys, where)
    return record


def read_records(
    path: Path, keys: Sequence[str] = (), *, max_bytes: int
) -> Iterator[tuple[str, dict[str, object]]]:
    """The JSON objects of a file with one on each line, each with its place, `FILE:LINE`.

    Raises:
        MissingDataError, BadInputError: as `filled_lines` and `parse_record`.
    """
    for number, line in filled_lines(path, max_bytes=max_bytes):
        where = f"{path}:{number}"
        yield where, parse_record(line, where, keys)


def require_keys(record: Mapping[str, object], keys: Sequence[str], where: str, of: str = "") -> None:
    """Refuse a record without one of the keys; `of` says for messages what it is."""
    for key in keys:
        if key not in record:
            raise BadInputError(
                f"no key `{key}`{of}; {keys_in_words(record)}",
                where=where,
                hint=slip_of_key(key, [name for name in record if name not in keys]),
            )

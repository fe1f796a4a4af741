"""Reading text files line by line, plain or gzip, with errors that name file and line."""

import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from feature_store.errors import BadInputError, MissingDataError, shown

MAX_LINE_BYTES = 64 * 2**20
"""No line of a text corpus is this long; a file without line ends is not one."""

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
        for number, line in enumerate(_raw_lines(stream, path, max_bytes), start=1):
            if not line.strip():
                continue
            for blank in range(told + 1, number):
                yield blank, ""
            yield number, decoder.decode(line, path, number)
            told = number
    if told == 0:
        raise BadInputError("every line is blank" if number else "the file is empty", where=str(path))


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


@contextmanager
def reading(path: Path, lines_read: Callable[[], int]) -> Iterator[io.BufferedIOBase]:
    """A raw file, plain or gzip, whose failures name it.

    Args:
        path: the file.
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


def _raw_lines(stream: io.BufferedIOBase, path: Path, max_bytes: int) -> Iterator[bytes]:
    total = number = 0
    limit = min(MAX_LINE_BYTES, max_bytes)
    while line := stream.readline(limit + 1):
        total, number = total + len(line), number + 1
        check_size(total, path, max_bytes)
        if len(line) > limit:
            raise BadInputError(
                f"a line of more than {limit} bytes", where=f"{path}:{number}", hint="is it a text file?"
            )
        yield line


def check_size(num_bytes: int, path: Path, max_bytes: int) -> None:
    """Refuse a file of which more was read than is accepted."""
    if num_bytes > max_bytes:
        raise BadInputError(
            f"more than {max_bytes} bytes of text, the most that is accepted",
            where=str(path),
            hint="is it the right file? if so, raise `max_input_bytes`",
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
        encoding, text = self._first_valid(line, where)
        if self._found is None:
            self._found = encoding, number
        if encoding != self._found[0]:
            raise BadInputError(
                f"this line is {encoding}, but line {self._found[1]} is {self._found[0]}: mixed encodings",
                where=where,
                hint="write the file anew in one encoding",
            )
        return text.removeprefix(_BYTE_ORDER_MARK if number == 1 else "").rstrip("\r\n")

    def _first_valid(self, line: bytes, where: str) -> tuple[str, str]:
        failures = []
        for encoding in self._encodings:
            try:
                return encoding, line.decode(encoding)
            except UnicodeDecodeError as error:
                failures.append(error)
        bad = line[failures[0].start : failures[0].start + 1].hex()
        expected = " and not ".join(self._encodings)
        raise BadInputError(
            f"not {expected}: byte 0x{bad} at position {failures[0].start} of the line",
            where=where,
            hint=_conversion(line),
        ) from failures[0]


def _conversion(line: bytes) -> str:
    """A hint that names the encoding which a line that is not UTF-8 may have."""
    found, sign = "ENCODING", ""
    if line.startswith((b"\xff\xfe", b"\xfe\xff")):
        found, sign = "UTF-16", "it begins as UTF-16 does: "
    elif _CHINESE.search(line.decode("gb18030", errors="replace")) and _is_gb18030(line):
        found, sign = "GB18030", "it may be GB18030 (GBK): "
    return f"{sign}`iconv -f {found} -t UTF-8 FILE > NEW` writes it anew in UTF-8"


def _is_gb18030(line: bytes) -> bool:
    try:
        line.decode("gb18030")
    except UnicodeDecodeError:
        return False
    return True


def parse_record(line: str, where: str, keys: Sequence[str]) -> dict[str, object]:
    """A line that holds a JSON object with at least these keys.

    Args:
        where: file and line, for messages.

    Raises:
        BadInputError: if it is none, or a key is missing.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"not JSON: {error}", where=where) from error
    if not isinstance(record, dict):
        raise BadInputError(f"expected a JSON object, but got {shown(record)}", where=where)
    for key in keys:
        if key not in record:
            raise BadInputError(f"no key `{key}`; there is {sorted(record)}", where=where)
    return record

"""Damage to valid files, drawn from a seeded generator: what a fuzz run and tests feed to readers.

`mutate` takes the files of one valid corpus and damages some of them in one to three ways that suit their
kind. The same state of the generator gives the same damage.
"""

import copy
import functools
import gzip
import io
import json
import re
import stat
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

Files = dict[str, bytes]
"""Path inside the corpus's folder -> content."""

Damage = Callable[[Random, bytes], bytes]

_MAX_DAMAGES = 3
_BOMB_BYTES = 16 * 2**20
"""What a bomb decompresses to: far more than the limit that a fuzz run's readers are given."""
_LONG = 200_000
_DEEP = 100_000


def mutate(files: Mapping[str, bytes], targets: Sequence[str], random: Random) -> Files:
    """The files with one to three damages, each to one of the targets."""
    damaged = dict(files)
    for _ in range(random.randint(1, _MAX_DAMAGES)):
        name = random.choice(list(targets))
        damaged[name] = damage_to(name, random)(random, damaged[name])
    return damaged


def damage_to(name: str, random: Random) -> Damage:
    """A damage that suits a file of that name."""
    general: Sequence[Damage] = BYTE_DAMAGES
    special = next((found for suffix, found in _BY_SUFFIX.items() if name.endswith(suffix)), TEXT_DAMAGES)
    return random.choice(list(special if special and random.random() < 0.75 else general))


# ---------------------------------------------------------------------------------------------------- bytes

_NOISE = (
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",  # byte order mark
    b"\xed\xa0\x80",  # half a surrogate pair
    b"\xc0\x80",  # an overlong form
    b"\xe2\x80\xa8",  # a line separator that is no line end
    b"\x0b\x0c\x1c\x85",
    b"\r",
    "被告人".encode("gb18030"),
    "被告人".encode(),
    "\U0001f600\u202e\u200b".encode(),
    b"\xff\xfe\x00\x00",
)


def flip_bits(random: Random, content: bytes) -> bytes:
    """One to eight bits flipped anywhere."""
    changed = bytearray(content)
    for _ in range(random.randint(1, 8) if changed else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def write_byte(random: Random, content: bytes) -> bytes:
    """One byte replaced by an extreme one."""
    if not content:
        return content
    at = random.randrange(len(content))
    return content[:at] + bytes([random.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))]) + content[at + 1 :]


def cut(random: Random, content: bytes) -> bytes:
    """The end cut off."""
    return content[: random.randint(0, len(content))]


def cut_start(random: Random, content: bytes) -> bytes:
    """The start cut off."""
    return content[random.randint(0, len(content)) :]


def insert_noise(random: Random, content: bytes) -> bytes:
    """Bytes of another encoding, or none, put in somewhere."""
    at = random.choice((0, len(content), random.randint(0, len(content))))
    return content[:at] + random.choice(_NOISE) + content[at:]


def _span(random: Random, content: bytes) -> tuple[int, int]:
    start = random.randint(0, len(content))
    return start, min(len(content), start + random.choice((1, 8, 64, 512, len(content))))


def drop_span(random: Random, content: bytes) -> bytes:
    """Some bytes left out."""
    start, end = _span(random, content)
    return content[:start] + content[end:]


def repeat_span(random: Random, content: bytes) -> bytes:
    """Some bytes twice."""
    start, end = _span(random, content)
    return content[:end] + content[start:end] + content[end:]


def zero_span(random: Random, content: bytes) -> bytes:
    """Some bytes zero, as a crash leaves a file whose blocks were never written."""
    start, end = _span(random, content)
    return content[:start] + bytes(end - start) + content[end:]


def empty(random: Random, content: bytes) -> bytes:
    """Nothing."""
    return b""


BYTE_DAMAGES: tuple[Damage, ...] = (
    *(flip_bits, write_byte, cut, cut_start, insert_noise, drop_span, repeat_span, zero_span),
    empty,
)

# ----------------------------------------------------------------------------------------------------- text


def _lines(content: bytes) -> list[bytes]:
    return content.splitlines(keepends=True) or [b""]


def _on_lines(change: Callable[[Random, list[bytes]], None]) -> Damage:
    """A damage that changes the list of lines."""

    @functools.wraps(change)
    def damage(random: Random, content: bytes) -> bytes:
        lines = _lines(content)
        change(random, lines)
        return b"".join(lines)

    return damage


@_on_lines
def drop_line(random: Random, lines: list[bytes]) -> None:
    """A line missing."""
    del lines[random.randrange(len(lines))]


@_on_lines
def repeat_line(random: Random, lines: list[bytes]) -> None:
    """A line twice."""
    lines.insert(random.randrange(len(lines)), random.choice(lines))


@_on_lines
def shuffle_lines(random: Random, lines: list[bytes]) -> None:
    """Lines in another order."""
    random.shuffle(lines)


@_on_lines
def blank_line(random: Random, lines: list[bytes]) -> None:
    """A line with nothing in it."""
    lines.insert(random.randrange(len(lines) + 1), random.choice((b"\n", b" \n", b"\t\n", b"\r\n")))


@_on_lines
def long_line(random: Random, lines: list[bytes]) -> None:
    """A line that never ends."""
    at = random.randrange(len(lines))
    lines[at] = lines[at].rstrip(b"\r\n") + random.choice((b"x", b" y", b"1 ", b"\t", b"[")) * _LONG


@_on_lines
def join_lines(random: Random, lines: list[bytes]) -> None:
    """A line end missing."""
    at = random.randrange(len(lines))
    lines[at] = lines[at].rstrip(b"\r\n")


def other_line_ends(random: Random, content: bytes) -> bytes:
    """Line ends of another system."""
    return content.replace(b"\n", random.choice((b"\r\n", b"\r", b"\n\n", b"\n\r")))


def other_encoding(random: Random, content: bytes) -> bytes:
    """The whole file in another encoding."""
    text = content.decode("utf-8", "replace")
    return text.encode(random.choice(("utf-16", "utf-32", "utf-8-sig", "gb18030", "latin-1")), "replace")


@_on_lines
def mixed_encoding(random: Random, lines: list[bytes]) -> None:
    """One line in another encoding than the others."""
    at = random.randrange(len(lines))
    word = "，被告人é".encode(random.choice(("gb18030", "utf-8", "utf-16-le")), "replace")
    lines[at] = lines[at][: len(lines[at]) // 2] + word + lines[at][len(lines[at]) // 2 :]


_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_NUMBERS = (
    *(
        b"-1",
        b"0",
        b"2",
        b"1e999",
        b"-1e999",
        b"1e-999",
        b"nan",
        b"NaN",
        b"inf",
        b"-inf",
        b"Infinity",
        b"1_0",
    ),
    *(
        b"0x10",
        b"1.5",
        b"2147483648",
        b"18446744073709551616",
        b"9" * 400,
        b"9" * 5000,
        b"",
        b"x",
        b"1e",
        b"+1",
    ),
    *("１".encode(), "٣".encode(), b"true", b"null"),
)


def other_number(random: Random, content: bytes) -> bytes:
    """A number replaced by an extreme one, or by what is none."""
    found = list(_NUMBER.finditer(content))
    if not found:
        return content
    match = random.choice(found)
    return content[: match.start()] + random.choice(_NUMBERS) + content[match.end() :]


TEXT_DAMAGES: tuple[Damage, ...] = (
    *(drop_line, repeat_line, shuffle_lines, blank_line, long_line, join_lines),
    *(other_line_ends, other_encoding, mixed_encoding, other_number, other_number),
)

# ----------------------------------------------------------------------------------------------------- JSON

_RAW_MARK = "@raw@"
_HOSTILE_JSON = (
    *(
        "null",
        "true",
        "false",
        "0",
        "1",
        "-1",
        "2",
        "0.5",
        "-0.0",
        "1.5",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
    ),
    *(
        "65536",
        "2147483648",
        "-9223372036854775809",
        "18446744073709551616",
        "9" * 400,
        "9" * 5000,
        "-" + "9" * 400,
    ),
    *(
        '""',
        '" "',
        '"\\u0000"',
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '"\\ufeff"',
        '"<pad>"',
        '"../../etc/passwd"',
    ),
    *(
        '"/etc/passwd"',
        '"x\\ny"',
        '"' + "x" * 100_000 + '"',
        "[]",
        "{}",
        "[[]]",
        "[null]",
        "[[0, 1]]",
        "[[1, 0]]",
    ),
    *(
        "[[0, 9999999]]",
        "[-1]",
        "[0.5]",
        "[true]",
        '[""]',
        '["\\ud800"]',
        "[{}]",
        '{"": 1}',
        '{"\\ud800": 1}',
    ),
    *(
        '{"a": {"a": 1}}',
        "[" * _DEEP + "]" * _DEEP,
        '{"a":' * _DEEP + "1" + "}" * _DEEP,
        "[" * 900 + "]" * 900,
    ),
    "[" + "0," * 70_000 + "0]",
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key or index) below a value."""
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        inner = waiting.pop()
        keys = (
            inner.keys() if isinstance(inner, dict) else range(len(inner)) if isinstance(inner, list) else ()
        )
        for key in keys:
            found.append((inner, key))
            waiting.append(inner[key])
    return found


def change_value(random: Random, holder: list[Any], hostile: Callable[[], Any]) -> None:
    """Change something below the one value of a list, so that the value itself may be replaced.

    Args:
        hostile: draws what is put in place of a value.
    """
    # a place near the top is as likely as one of the many far below
    top = [(holder, 0), *_places(holder[0])[:12]]
    container, key = random.choice(random.choice((top, _places(holder))))
    kind = random.randrange(6)
    if kind <= 2:
        container[key] = hostile()
    elif kind == 3 and isinstance(container, dict):
        value = container.pop(key)
        if random.random() < 0.5:
            container[random.choice((f"{key} ", str(key).upper(), "", "\ud800", "extra"))] = value
    elif kind == 4:
        other, other_key = random.choice(_places(holder))
        container[key] = copy.deepcopy(other[other_key])
    elif isinstance(container[key], list):
        inner = container[key]
        random.choice((inner.clear, lambda: inner.extend(inner[:1]), lambda: inner.append([None])))()
    else:
        container[key] = [container[key]]


def _written(random: Random, value: Any, *, one: bool) -> str:
    """JSON of a value, with what Python's cannot write put in place of its marks."""
    indent = random.choice((None, None, 1)) if one else None
    text = json.dumps(value, ensure_ascii=random.random() < 0.5, indent=indent)
    text = re.sub(rf'"{_RAW_MARK}(\d+)"', lambda match: _HOSTILE_JSON[int(match[1])], text)
    if random.random() < 0.05:
        text = re.sub(r'"(\w+)":', r'"\1": 0, "\1":', text, count=1)  # a key twice
    return text


def change_json(random: Random, content: bytes) -> bytes:
    """A value, key or type of a JSON document changed; where it is none, of one of its lines."""
    lines = [content]
    at = 0
    try:
        holder = [json.loads(content)]
    except (ValueError, RecursionError):
        lines = _lines(content)
        at = random.randrange(len(lines))
        try:
            holder = [json.loads(lines[at])]
        except (ValueError, RecursionError):
            return flip_bits(random, content)
    try:
        change_value(random, holder, lambda: f"{_RAW_MARK}{random.randrange(len(_HOSTILE_JSON))}")
        text = _written(random, holder[0], one=len(lines) == 1)
    except RecursionError:  # an earlier damage nested it as deeply as can be
        return flip_bits(random, content)
    lines[at] = text.encode("utf-8", "surrogatepass") + b"\n"
    return b"".join(lines)


JSON_DAMAGES: tuple[Damage, ...] = (*TEXT_DAMAGES, *[change_json] * len(TEXT_DAMAGES))

# ----------------------------------------------------------------------------------------------------- TOML

_HOSTILE_TOML = (
    *(
        "true",
        "-1",
        "0",
        "1.5",
        "nan",
        "inf",
        "-inf",
        "1e999",
        "9" * 400,
        "9" * 5000,
        "0x" + "f" * 5000,
        "0b1",
    ),
    *(
        '""',
        "''",
        '"\\u0000"',
        '"\\ud800"',
        '"""\n"""',
        "[]",
        "{}",
        "[1, 'a']",
        "[[]]",
        "[0, 1]",
        "[1, 0]",
        "[nan, 1]",
    ),
    *(
        "['a', 'a']",
        "['a', '']",
        "1979-05-27",
        "07:32:00",
        "1979-05-27T07:32:00Z",
        "2024-13-45",
        "{a = 1}",
        "x",
    ),
    *(
        "[" * _DEEP + "]" * _DEEP,
        "[" * 900 + "]" * 900,
        "{a=" * 2000 + "1" + "}" * 2000,
        "'" + "x" * _LONG + "'",
    ),
    *("[-9" + "9" * 400 + ", 1]", "[0, 0x" + "f" * 400 + "]"),
)


@_on_lines
def change_toml(random: Random, lines: list[bytes]) -> None:
    """A line's value, key or table changed."""
    at = random.randrange(len(lines))
    key, equals, _ = lines[at].partition(b"=")
    kind = random.randrange(5)
    if kind <= 2 and equals:
        lines[at] = key + b"= " + random.choice(_HOSTILE_TOML).encode("utf-8", "surrogatepass") + b"\n"
    elif kind == 3:
        lines.insert(
            at,
            random.choice(
                (b"[table]\n", b"[[array]]\n", b"a.b.c = 1\n", b'"" = 1\n', b"a" * _LONG + b"=1\n")
            ),
        )
    else:
        lines[at] = b".".join([b"a"] * random.choice((2, 3000))) + b" = 1\n"


TOML_DAMAGES: tuple[Damage, ...] = (*TEXT_DAMAGES, *[change_toml] * len(TEXT_DAMAGES))

# ----------------------------------------------------------------------------------------------------- gzip


@functools.cache
def _bomb(lines: bool) -> bytes:
    """A small gzip file of very much text, in short lines or in one."""
    return gzip.compress((b"0 " * 511 + b"0\n" if lines else b"a" * 1024) * (_BOMB_BYTES // 1024), 9, mtime=0)


_NO_GZIP = (OSError, EOFError, ValueError, zlib.error)
"""What reading a file that an earlier damage spoilt may raise."""


def _zip(content: bytes) -> bytes:
    return gzip.compress(content, 1, mtime=0)


def _inside(damages: Sequence[Damage]) -> Damage:
    def damage(random: Random, content: bytes) -> bytes:
        try:
            inner = gzip.decompress(content)
        except _NO_GZIP:
            return flip_bits(random, content)
        return _zip(random.choice(damages)(random, inner))

    return damage


def gzip_twice(random: Random, content: bytes) -> bytes:
    """Two members in one file, the second whole, damaged or none at all."""
    return content + random.choice((content, cut(random, content), b"\0" * 512, b"rubbish", _zip(b"")))


def not_gzip(random: Random, content: bytes) -> bytes:
    """The text itself, or compressed twice, under the same name."""
    try:
        inner = gzip.decompress(content)
    except _NO_GZIP:
        return content
    return random.choice((inner, _zip(content), _zip(b"")))


def gzip_bomb(random: Random, content: bytes) -> bytes:
    """Very much text in few bytes."""
    return random.choice((_bomb(True), _bomb(False), content + _bomb(random.random() < 0.5)))


GZIP_DAMAGES: tuple[Damage, ...] = (
    *[_inside(TEXT_DAMAGES)] * 6,
    *[_inside(JSON_DAMAGES)] * 6,
    *(gzip_twice, not_gzip, gzip_bomb, *BYTE_DAMAGES),
)

# ------------------------------------------------------------------------------------------------------ zip


def rewrite_zip(random: Random, content: bytes) -> bytes:
    """An archive whose members have other names, kinds, contents or sizes than they should."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = [(entry.filename, archive.read(entry)) for entry in archive.infolist()]
    except Exception:
        return flip_bits(random, content)
    at = random.randrange(len(members)) if members else 0
    sink = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # two members of one name
        for number, (name, inner) in enumerate(members):
            for entry, written in (
                [(zipfile.ZipInfo(name), inner)] if number != at else _hostile(random, name, inner)
            ):
                entry.compress_type = random.choice(
                    (zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED, zipfile.ZIP_LZMA)
                )
                archive.writestr(entry, written)
    return sink.getvalue()


@functools.cache
def _zeros() -> bytes:
    return bytes(_BOMB_BYTES)


def _hostile(random: Random, name: str, inner: bytes) -> list[tuple[zipfile.ZipInfo, bytes]]:
    link = zipfile.ZipInfo(name)
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    kinds: Sequence[list[tuple[zipfile.ZipInfo, bytes]]] = (
        [],
        [(zipfile.ZipInfo("../" * 6 + name), inner)],
        [(zipfile.ZipInfo("/" + name), inner)],
        [(zipfile.ZipInfo(name.replace("/", "\\")), inner)],
        [(zipfile.ZipInfo(name + "/"), b"")],
        [(zipfile.ZipInfo(name), inner), (zipfile.ZipInfo(name), b"other")],
        [(link, b"/etc/passwd")],
        [(zipfile.ZipInfo(name), _zeros())],
        [(zipfile.ZipInfo(name), inner), (zipfile.ZipInfo("../escaped"), b"x")],
    )
    return random.choice(kinds)


ZIP_DAMAGES: tuple[Damage, ...] = (*[rewrite_zip] * len(BYTE_DAMAGES), *BYTE_DAMAGES)

# -------------------------------------------------------------------------------------------- binary formats


def change_header(random: Random, content: bytes) -> bytes:
    """A safetensors file with another length of the header, or another header."""
    length = int.from_bytes(content[:8], "little")
    if random.random() < 0.3:
        wrong = random.choice((0, 1, length - 1, length + 1, 2**31, 2**63, 2**64 - 1))
        return (wrong % 2**64).to_bytes(8, "little") + content[8:]
    header = random.choice((change_json, change_json, other_number, flip_bits))(
        random, content[8 : 8 + length]
    )
    return len(header).to_bytes(8, "little") + header + content[8 + length :]


SAFETENSORS_DAMAGES: tuple[Damage, ...] = (*[change_header] * len(BYTE_DAMAGES), *BYTE_DAMAGES)

_BY_SUFFIX: dict[str, Sequence[Damage]] = {
    ".gz": GZIP_DAMAGES,
    ".zip": ZIP_DAMAGES,
    ".json": JSON_DAMAGES,
    ".jsonl": JSON_DAMAGES,
    ".toml": TOML_DAMAGES,
    ".safetensors": SAFETENSORS_DAMAGES,
    ".arrow": BYTE_DAMAGES,
    ".npy": BYTE_DAMAGES,
    ".pt": BYTE_DAMAGES,
}

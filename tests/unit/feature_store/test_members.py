"""One JSON object read member by member: the same as at once, wherever blocks end; mistakes name the line."""

import gzip
import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from feature_store.errors import BadInputError, MissingDataError
from feature_store.sources import members
from feature_store.sources.members import read_members

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def write(folder: Path, text: str | bytes, name: str = "x.json") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def read(path: Path, max_bytes: int = 2**40) -> list[tuple[int, str, object]]:
    return list(read_members(path, max_bytes=max_bytes))


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text(), VALUES, max_size=5),
    st.sampled_from([None, 2]),
    st.booleans(),
    st.integers(1, 40),
)
def test_it_reads_what_json_reads_wherever_blocks_end(tmp_path_factory, content, indent, escaped, block):
    text = json.dumps(content, indent=indent, ensure_ascii=escaped)
    try:
        data = text.encode()
    except UnicodeEncodeError:  # a lone surrogate cannot stand in a file unescaped
        data = json.dumps(content, indent=indent).encode()
    path = write(tmp_path_factory.mktemp("members"), data)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(members, "BLOCK_BYTES", block)
        found = read(path)
    assert [(key, value) for _, key, value in found] == list(content.items())


@pytest.mark.parametrize("number", ["0.5", "-0.25e-3", "12", "1e5", "-7"])
@pytest.mark.parametrize("block", range(1, 9))
def test_a_number_cut_by_a_block_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: str, block: int
):
    monkeypatch.setattr(members, "BLOCK_BYTES", block)
    path = write(tmp_path, f'{{"a": {number}, "b":{number}\n}}')
    assert read(path) == [(1, "a", float(number)), (1, "b", float(number))]


def test_lines_are_those_of_the_keys(tmp_path: Path):
    path = write(tmp_path, '{"a": 1,\n\n "b":\n [1,\n2], "c": "x\\ny"\n}\n')
    assert [(line, key) for line, key, _ in read(path)] == [(1, "a"), (3, "b"), (5, "c")]


def test_a_gz_is_decompressed(tmp_path: Path):
    path = write(tmp_path, gzip.compress(b'{"a": [1, 2]}'), "x.json.gz")
    assert read(path) == [(1, "a", [1, 2])]


def test_a_byte_order_mark_is_none_of_the_text(tmp_path: Path):
    assert read(write(tmp_path, b'\xef\xbb\xbf{"a": 1}')) == [(1, "a", 1)]


def test_memory_is_bounded_by_the_members_not_by_the_file(tmp_path: Path):
    path = write(tmp_path, json.dumps({str(i): "x" * 1000 for i in range(10_000)}))
    tracemalloc.start()
    assert sum(1 for _ in read_members(path, max_bytes=2**40)) == 10_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < path.stat().st_size / 4


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "expected `{`, but got the end of the file"),
        ("[1]", 1, "expected `{`, but got '\\['"),
        ('{"a": 1, "b": {"c": [1,', 1, "Expecting value, after the member `a`"),
        ('{"a": 1, "b": "cut', 1, "Unterminated string starting at, after the member `a`"),
        ('{"a": 1', 1, "expected `,` or `}`, but got the end of the file"),
        ('{"a": 1,\n"b": 2\n', 3, "expected `,` or `}`, but got the end of the file, after the member `a`"),
        ('{"a": 1, "b": 0.}', 1, "expected `,` or `}`, but got '.', after the member `a`"),
        ('{"a": 1,\n}', 2, "expected a key in double quotes, after the member `a`"),
        ('{"a": 1,\n"b" 2}', 2, "expected `:`, but got '2', after the member `a`"),
        ('{"a": 1,\n"b": tru}', 2, "Expecting value"),
        (
            '{"a": 1}\n{"b": 2}',
            2,
            "unexpected content after the end of the JSON object, after the member `a`",
        ),
        ('{"a": ' + "[" * 100_000, 1, "nested too deeply"),
    ],
)
def test_broken_json_is_named_with_its_line(tmp_path: Path, text: str, line: int, message: str):
    path = write(tmp_path, text)
    with pytest.raises(BadInputError, match=f"x.json:{line}: not a complete JSON object: {message}"):
        read(path)


def test_what_is_not_utf8_is_named_with_its_line(tmp_path: Path):
    path = write(tmp_path, b'{"a": 1,\n "b": "\xff"}')
    with pytest.raises(BadInputError, match="x.json:2: not UTF-8: byte 0xff"):
        read(path)


@pytest.mark.parametrize("block_bytes", [1, 2, 3, 7, 1000])
def test_the_line_of_a_bad_byte_does_not_depend_on_the_blocks(
    tmp_path: Path, block_bytes: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(members, "BLOCK_BYTES", block_bytes)
    path = write(tmp_path, '{"é": 1,\n "b": [1,\n2,\n3,\n4, "é'.encode()[:-1] + b'\n\n"]}')
    with pytest.raises(BadInputError, match="x.json:5: not UTF-8: byte 0xc3"):
        read(path)


def test_a_character_cut_at_the_end_is_named(tmp_path: Path):
    path = write(tmp_path, '{"a": "é'.encode()[:-1])
    with pytest.raises(BadInputError, match="x.json:1: not UTF-8: byte 0xc3"):
        read(path)


def test_a_gz_cut_short_is_named(tmp_path: Path):
    path = write(tmp_path, gzip.compress(b'{"a": [1, 2]}')[:-12], "x.json.gz")
    with pytest.raises(BadInputError, match="x.json.gz:1: the compressed file is cut short or damaged"):
        read(path)


def test_a_missing_file_a_folder_and_one_that_is_too_large(tmp_path: Path):
    with pytest.raises(MissingDataError, match="no.json: no such file"):
        read(tmp_path / "no.json")
    with pytest.raises(BadInputError, match="expected a file, but this is a folder"):
        read(tmp_path)
    with pytest.raises(BadInputError, match="expected at most 5 bytes of text, but the file has more"):
        read(write(tmp_path, '{"a": 1}'), max_bytes=5)


def test_a_member_that_never_ends_is_not_read_to_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(members, "BLOCK_BYTES", 10)
    monkeypatch.setattr(members, "MAX_MEMBER_CHARS", 100)
    path = write(tmp_path, '{"a": "' + "x" * 1000 + '"}')
    with pytest.raises(BadInputError, match="Unterminated string"):
        read(path)


def test_a_number_of_thousands_of_digits_is_named(tmp_path: Path):
    path = write(tmp_path, '{"a": 1,\n"b": [' + "9" * 5000 + "]}")
    with pytest.raises(BadInputError, match=f"{path}:2: not a complete JSON object: Exceeds the limit"):
        read(path)

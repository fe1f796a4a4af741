"""Lines of plain and zipped files, and what can be wrong with a file."""

import gzip
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from feature_store.errors import BadInputError, MissingDataError
from feature_store.sources import lines
from feature_store.sources.frames import line_frames
from feature_store.sources.lines import parse_record, read_lines, text_blocks

LINE = st.text(alphabet=st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=10)


def read(path: Path, max_bytes: int = 1000) -> list[tuple[int, str]]:
    return list(read_lines(path, max_bytes=max_bytes))


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "f.txt"
    path.write_bytes("one\r\ntwo é\n\nlast".encode())
    return path


@pytest.mark.parametrize("pack", [False, True])
def test_lines_are_numbered_from_one(text: Path, zipped: Callable[[Path], Path], pack: bool):
    path = zipped(text) if pack else text
    assert read(path) == [(1, "one"), (2, "two é"), (3, ""), (4, "last")]


@settings(max_examples=30)
@given(st.lists(LINE, min_size=1, max_size=6))
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, texts: list[str]):
    path = tmp_path_factory.mktemp("lines") / "f.gz"
    path.write_bytes(gzip.compress("".join(f"{text}\n" for text in texts).encode()))
    wanted = [text if text.strip() else "" for text in texts]
    while wanted and not wanted[-1]:
        del wanted[-1]
    if wanted:
        assert read(path) == list(enumerate(wanted, start=1))
    else:
        with pytest.raises(BadInputError, match=r"f.gz: every line is blank$"):
            read(path)


def test_blank_lines_at_the_end_are_left_out(text: Path):
    text.write_bytes(text.read_bytes() + b"\r\n \t\n\n\n")
    assert read(text) == [(1, "one"), (2, "two é"), (3, ""), (4, "last")]


def test_a_file_that_is_not_there(tmp_path: Path):
    with pytest.raises(MissingDataError, match="gone.txt: no such file"):
        read(tmp_path / "gone.txt")


def test_a_folder(tmp_path: Path):
    with pytest.raises(BadInputError, match=f"{tmp_path.name}: expected a file, but this is a folder"):
        read(tmp_path)


@pytest.mark.parametrize("name", ["f.txt", "f.txt.gz"])
def test_an_empty_file(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(BadInputError, match=f"{name}: the file is empty"):
        read(tmp_path / name)


def test_a_zipped_nothing(tmp_path: Path):
    (tmp_path / "f.gz").write_bytes(gzip.compress(b""))
    with pytest.raises(BadInputError, match="f.gz: the file is empty"):
        read(tmp_path / "f.gz")


@pytest.mark.parametrize("cut", [5, 30, -1])
def test_a_zipped_file_that_is_cut_short(tmp_path: Path, cut: int):
    path = tmp_path / "f.gz"
    path.write_bytes(gzip.compress(b"".join(b"line %d\n" % i for i in range(100)))[:cut])
    with pytest.raises(
        BadInputError, match=r"f.gz:\d+: the compressed file is cut short or damaged"
    ) as caught:
        read(path)
    assert caught.value.hint == "remove `f.gz` and download it again"


def test_a_zipped_file_with_a_wrong_checksum(tmp_path: Path):
    content = bytearray(gzip.compress(b"line\n" * 50))
    content[-6] ^= 1
    (tmp_path / "f.gz").write_bytes(content)
    with pytest.raises(BadInputError, match="CRC check failed"):
        read(tmp_path / "f.gz")


def test_plain_text_that_calls_itself_gz(tmp_path: Path):
    (tmp_path / "f.gz").write_text("plain\n")
    with pytest.raises(
        BadInputError, match="f.gz:1: the name ends in .gz but the content is not gzip"
    ) as caught:
        read(tmp_path / "f.gz")
    assert caught.value.hint == "rename it without .gz if it is plain text"


def test_bytes_that_are_not_utf8(tmp_path: Path):
    (tmp_path / "f").write_bytes(b"good\nbad \xff byte\n")
    with pytest.raises(BadInputError, match="f:2: not UTF-8: byte 0xff at position 4 of the line"):
        read(tmp_path / "f")


def test_more_than_the_limit(tmp_path: Path):
    (tmp_path / "f.gz").write_bytes(gzip.compress(b"0123456789\n" * 1000))
    assert len(read(tmp_path / "f.gz", max_bytes=11_000)) == 1000
    with pytest.raises(
        BadInputError, match="f.gz: expected at most 10999 bytes of text, but the file has more"
    ):
        read(tmp_path / "f.gz", max_bytes=10_999)


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 20)
    (tmp_path / "f").write_bytes(b"short\n" + b"x" * 21)
    with pytest.raises(BadInputError, match="f:2: expected lines of at most 20 bytes"):
        read(tmp_path / "f")


def test_an_unreadable_file_is_named(text: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(lines, "_open", refuse)
    with pytest.raises(BadInputError, match="f.txt: cannot be read: Permission denied"):
        read(text)


CHINESE = "被告人盗窃"


@pytest.mark.parametrize("encoding", ["UTF-8", "GB18030"])
def test_one_of_several_encodings(tmp_path: Path, encoding: str):
    path = tmp_path / "f.txt"
    path.write_bytes(f"plain\n{CHINESE}\n\n{CHINESE}".encode(encoding))
    found = list(read_lines(path, max_bytes=1000, encodings=("UTF-8", "GB18030")))
    assert found == [(1, "plain"), (2, CHINESE), (3, ""), (4, CHINESE)]


def test_two_encodings_in_one_file(tmp_path: Path):
    path = tmp_path / "f.txt"
    path.write_bytes(b"plain\n" + f"{CHINESE}\n".encode("gb18030") + f"{CHINESE}\n".encode())
    with pytest.raises(BadInputError, match="f.txt:3: this line is UTF-8, but line 2 is GB18030: mixed"):
        list(read_lines(path, max_bytes=1000, encodings=("UTF-8", "GB18030")))


def test_a_byte_order_mark_is_no_text(tmp_path: Path):
    path = tmp_path / "f.txt"
    path.write_bytes("one é\ntwo".encode("utf-8-sig"))
    assert read(path) == [(1, "one é"), (2, "two")]


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("好的\n".encode("utf-16"), "it begins like UTF-16: `iconv -f UTF-16 -t UTF-8 FILE > NEW`"),
        ("屏幕坏了\n".encode("gbk"), r"it may be GB18030 \(GBK\): `iconv -f GB18030 -t UTF-8 FILE > NEW`"),
        ("un café noir\n".encode("latin-1"), "^`iconv -f ENCODING -t UTF-8 FILE > NEW` converts it to"),
    ],
)
def test_the_encoding_that_a_file_may_have_is_named(tmp_path: Path, content: bytes, hint: str):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(BadInputError, match="f:1: not UTF-8: byte 0x") as caught:
        read(tmp_path / "f")
    assert re.search(hint, caught.value.hint or "")


DAMAGED = "the lines before it are UTF-8, so this line is damaged"


@pytest.mark.parametrize("read_with", [read_lines, text_blocks])
@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("é\n".encode() + b"a\xffb\n", DAMAGED),
        ("é\n".encode() + b"\xff\xfeb\n", DAMAGED),
        (
            "é\n".encode() + "屏幕坏了\n".encode("gbk"),
            DAMAGED,
        ),
        (b"plain\n" + "屏幕坏了\n".encode("gbk"), "it may be GB18030"),
        (b"plain\n\xff\xfe\n", "^`iconv -f ENCODING "),
    ],
)
def test_the_hint_on_a_bad_line_is_true_of_the_whole_file(
    tmp_path: Path, read_with: Callable[..., Iterator[tuple[int, str]]], content: bytes, hint: str
):
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(BadInputError, match="f:2: not UTF-8: byte 0x") as caught:
        list(read_with(tmp_path / "f", max_bytes=1000))
    assert re.search(hint, caught.value.hint or "")
    assert "UTF-16" not in str(caught.value.hint)


def test_a_file_whose_lines_before_are_of_another_block_is_utf8_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(lines, "_BLOCK_BYTES", 2)
    (tmp_path / "f").write_bytes("é\nplain\n".encode() + b"a\xffb\n")
    with pytest.raises(BadInputError, match="f:3: not UTF-8") as caught:
        list(text_blocks(tmp_path / "f", max_bytes=1000))
    assert "the lines before it are UTF-8" in str(caught.value.hint)


def test_a_line_that_is_not_json_has_one_line_number_and_a_hint():
    with pytest.raises(
        BadInputError, match=r"^f:2: not JSON: Unterminated string .* \(column 10\)$"
    ) as caught:
        parse_record('{"text": "It is', "f:2", ())
    assert caught.value.hint == "write one JSON object on each line"


@pytest.mark.parametrize(
    ("record", "hint"),
    [
        ('{"lable": "a", "text": "b"}', "did you mean `label` instead of `lable`?"),
        ('{"text": "b", "id": 1}', None),
    ],
)
def test_a_slip_in_a_key_is_named(record: str, hint: str | None):
    with pytest.raises(BadInputError, match="no key `label`") as caught:
        parse_record(record, "f:2", ("text", "label"))
    assert caught.value.hint == hint


@pytest.mark.parametrize("block", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("pack", [False, True])
def test_lines_are_the_same_wherever_blocks_end(
    text: Path, zipped: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch, block: int, pack: bool
):
    monkeypatch.setattr(lines, "_BLOCK_BYTES", block)
    assert read(zipped(text) if pack else text) == [(1, "one"), (2, "two é"), (3, ""), (4, "last")]


@pytest.mark.parametrize(("limit", "line"), [(4, 2), (5, 3)])
def test_a_long_line_within_a_block_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int, line: int
):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", limit)
    (tmp_path / "f").write_bytes(b"abc\nabcd\nabcde\nabc\n")
    with pytest.raises(BadInputError, match=f"f:{line}: expected lines of at most {limit} bytes"):
        read(tmp_path / "f")


def outcome(rows: Iterator[tuple[int, str]]) -> tuple[list[tuple[int, str]], str]:
    """The lines that came, and the error after them."""
    found = []
    try:
        found.extend(rows)
    except BadInputError as error:
        return found, f"{error} {error.hint}"
    return found, ""


BYTES = st.lists(
    st.sampled_from(
        [b"\n", b"\n\n", b"\r\n", b"\r", b" ", b"\t\n", b"\x0b\n", b"a", "é".encode(), "\u00a0".encode()]
    )
    | st.sampled_from(
        [b"\xff", b"\xc3", b"\xef\xbb\xbf", b"\x00", b"\x85", "\u2028".encode(), b"abcdefgh\n"]
    ),
    max_size=30,
).map(b"".join)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BYTES, st.integers(1, 40), st.sampled_from([8, 1000]))
def test_frames_have_the_lines_and_errors_of_the_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, block: int, limit: int
):
    monkeypatch.setattr(lines, "_BLOCK_BYTES", block)
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", limit)
    path = tmp_path / "f"
    path.write_bytes(content)
    rows = (row for frame in line_frames(path, max_bytes=1000) for row in frame.iter_rows())
    assert outcome(rows) == outcome(read_lines(path, max_bytes=1000))


@pytest.mark.parametrize("block", [100, 10**6])
def test_frames_of_a_damaged_file_end_where_its_lines_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
):
    monkeypatch.setattr(lines, "_BLOCK_BYTES", block)
    path = tmp_path / "f.gz"
    content = "".join(f"line {number * number}\n" for number in range(20_000)).encode()
    path.write_bytes(gzip.compress(content)[:-3000])
    rows = (row for frame in line_frames(path, max_bytes=10**7) for row in frame.iter_rows())
    found, error = outcome(rows)
    assert len(found) > 10_000 and f"damaged after line {len(found)}" in error
    assert (found, error) == outcome(read_lines(path, max_bytes=10**7))


@pytest.mark.parametrize(
    "line",
    ['{"text": "a", "label": 1, "label": 2}', '{"label": 1, "meta": {"x": 1, "label": 2, "label": 2}}'],
)
def test_an_object_that_names_a_key_twice_is_refused(line: str):
    """One of the two values would be lost without a word."""
    with pytest.raises(BadInputError, match=r"f\.jsonl:3: the object has the key `label` more than once"):
        parse_record(line, "f.jsonl:3", ())


def test_objects_in_one_line_may_have_the_same_keys():
    assert parse_record('{"a": {"x": 1}, "b": [{"x": 1}, {"x": 2}]}', "f", ("a",))["b"] == [
        {"x": 1},
        {"x": 2},
    ]

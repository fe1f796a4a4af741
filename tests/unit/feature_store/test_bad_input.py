"""Bad raw files: the message names file and line, and the cache holds nothing afterwards."""

import errno
import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feature_store.errors import BadInputError, FeatureStoreError, MissingDataError
from feature_store.store import FeatureRequest, open_features

GOOD = "0.5 0.5 0.5 0.5 0.5"
MakeRequest = Callable[..., FeatureRequest]
Leftovers = Callable[[], list[str]]


def fails(request: FeatureRequest, leftovers: Leftovers, message: str) -> FeatureStoreError:
    """Opening fails with this message, and again when tried again, and leaves no file in the cache."""
    for _ in range(2):
        with pytest.raises(FeatureStoreError, match=message) as caught:
            open_features(request)
        assert leftovers() == []
    return caught.value


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0.5 0.5 0.5 0.5\ta b", r"expected 5 scores, but got 4: \['0.5', '0.5', '0.5', '0.5'\]"),
        ("0.5 0.5 0.5 0.5 0.5 0.5\ta b", "expected 5 scores, but got 6"),
        ("0.5 0.5 1.7 0.5 0.5\ta b", r"expected a score in \[0, 1\], but got 1.7"),
        ("0.5 0.5 -0.1 0.5 0.5\ta b", r"expected a score in \[0, 1\], but got -0.1"),
        ("0.5 0.5 nan 0.5 0.5\ta b", r"expected a score in \[0, 1\], but got nan"),
        ("0.5 0.5 inf 0.5 0.5\ta b", r"expected a score in \[0, 1\], but got inf"),
        ("nan 0.5 0.5 0.5 0.5\ta b", r"expected a score in \[0, 1\], but got nan"),
        ("0.5 0.5 good 0.5 0.5\ta b", r"expected a score in \[0, 1\], but got 'good'"),
        (f"{GOOD}\t", "expected tokens after the tab, but got"),
        (f"{GOOD}\t   ", "expected tokens after the tab, but got"),
        (f"{GOOD} a b", r"expected 5 scores, a tab and the tokens, but got no tab in '0.5"),
        ("", "expected 5 scores, a tab and the tokens, but got an empty line"),
    ],
)
def test_a_bad_review(
    make_request: MakeRequest, heldout: Path, leftovers: Leftovers, change_line: Any, line: str, message: str
):
    change_line(heldout, 41, line)
    fails(make_request(), leftovers, f"reviews.aspect2.heldout.txt:41: {message}")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"_2": [[0, 9999]]}, r"span \[0, 9999\] of \"2\" does not fit the text's \d+ tokens"),
        ({"_2": [[-1, 3]]}, r"span \[-1, 3\] of \"2\" does not fit"),
        ({"_2": [[3, 1]]}, r"span \[3, 1\] of \"2\" does not fit"),
        ({"_2": [[1, 2, 3]]}, r"expected a span \[start, end\) in \"2\", but got \[1, 2, 3\]"),
        ({"_2": [[1.5, 2]]}, r"expected a span \[start, end\) in \"2\", but got \[1.5, 2\]"),
        ({"_2": ["1-2"]}, r"expected a span \[start, end\) in \"2\", but got '1-2'"),
        ({"_2": "none"}, r"expected a list of \[start, end\) spans as \"2\", but got 'none'"),
        ({"_2": None}, r"no key `2`; the keys are `0`, `1`, `3`, `4`, `raw`, `rid`, `x`, `y`$"),
        ({"rid": None}, "no key `rid`"),
        ({"x": None}, "no key `x`"),
        ({"y": None}, "no key `y`"),
        ({"x": []}, "no tokens in `x`"),
        ({"x": "a b"}, "expected a list of words as `x`, but got 'a b'"),
        ({"x": ["a", ""]}, "expected a list of words as `x`"),
        ({"x": ["a", 1]}, "expected a list of words as `x`"),
        ({"x": ["\ud800"], "_2": []}, "a token of `x` is not valid text"),
        ({"y": [0.5] * 4}, "expected 5 scores, but got 4"),
        ({"y": "good"}, "expected 5 scores, but got 'good'"),
        ({"y": [0.5, 0.5, float("nan"), 0.5, 0.5]}, r"expected a score in \[0, 1\], but got nan"),
        ({"y": [0.5, 0.5, 1.7, 0.5, 0.5]}, r"expected a score in \[0, 1\], but got 1.7"),
        ({"y": [0.5, 0.5, True, 0.5, 0.5]}, r"expected a score in \[0, 1\], but got true"),
        ({"y": [0.5, 0.5, [], 0.5, 0.5]}, r"expected a score in \[0, 1\], but got \[\]"),
        ({"y": [0.5, 0.5, 10**400, 0.5, 0.5]}, r"expected a score in \[0, 1\], but got 1000"),
        ({"rid": 1.5}, "expected a whole number or text as `rid`, but got 1.5"),
        ({"rid": True}, "expected a whole number or text as `rid`, but got true"),
    ],
)
def test_a_bad_annotation(
    make_request: MakeRequest,
    annotations: Path,
    leftovers: Leftovers,
    change_record: Any,
    changes: dict[str, Any],
    message: str,
):
    change_record(annotations, 5, **changes)
    fails(make_request(), leftovers, f"annotations.json:5: {message}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON: Expecting property name"),
        ("[" * 100_000, "not JSON: maximum recursion depth exceeded"),
        ("[1]", r"expected a JSON object, but got \[1\]"),
    ],
)
def test_a_line_that_is_no_record(
    make_request: MakeRequest,
    annotations: Path,
    leftovers: Leftovers,
    change_line: Any,
    line: str,
    message: str,
):
    change_line(annotations, 3, line)
    fails(make_request(), leftovers, f"annotations.json:3: {message}")


def test_a_review_annotated_twice(
    make_request: MakeRequest, annotations: Path, leftovers: Leftovers, change_record: Any
):
    rid = json.loads(annotations.read_text().splitlines()[1])["rid"]
    change_record(annotations, 9, rid=rid)
    fails(make_request(), leftovers, f"annotations.json:9: `rid` {rid} is on line 2 already")


@pytest.mark.parametrize("share", [0.3, 0.6, 0.999])
def test_a_zipped_file_that_is_cut_short(
    make_request: MakeRequest, heldout: Path, leftovers: Leftovers, zipped: Any, share: float
):
    packed = zipped(heldout)
    content = packed.read_bytes()
    packed.write_bytes(content[: int(len(content) * share)])
    error = fails(
        make_request(), leftovers, r"reviews.aspect2.heldout.txt.gz:\d+: the compressed file is cut short"
    )
    assert error.hint == "remove `reviews.aspect2.heldout.txt.gz` and download it again"


def test_a_zipped_file_that_is_not(make_request: MakeRequest, heldout: Path, leftovers: Leftovers):
    heldout.rename(f"{heldout}.gz")
    fails(
        make_request(),
        leftovers,
        "reviews.aspect2.heldout.txt.gz:1: the name ends in .gz but the content is not",
    )


@pytest.mark.parametrize("name", ["reviews.aspect2.heldout.txt", "annotations.json"])
def test_an_empty_file(make_request: MakeRequest, corpus: Path, leftovers: Leftovers, name: str):
    (corpus / "beer" / name).write_bytes(b"")
    fails(make_request(), leftovers, f"{name}: the file is empty")


@pytest.mark.parametrize("name", ["reviews.aspect2.heldout.txt", "annotations.json"])
def test_a_folder_instead_of_a_file(make_request: MakeRequest, corpus: Path, leftovers: Leftovers, name: str):
    (corpus / "beer" / name).unlink()
    (corpus / "beer" / name).mkdir()
    fails(make_request(), leftovers, f"{name}: expected a file, but this is a folder")


@pytest.mark.parametrize("name", ["reviews.aspect2.heldout.txt", "annotations.json"])
def test_bytes_that_are_not_utf8(make_request: MakeRequest, corpus: Path, leftovers: Leftovers, name: str):
    path = corpus / "beer" / name
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:6], lines[6][:20] + b"\xe9" + lines[6][20:], *lines[7:]]))
    fails(make_request(), leftovers, f"{name}:7: not UTF-8: byte 0xe9 at position 20 of the line")


def test_more_text_than_the_limit(make_request: MakeRequest, heldout: Path, leftovers: Leftovers):
    packed = heldout.with_name(f"{heldout.name}.gz")
    packed.write_bytes(gzip.compress(heldout.read_bytes() * 50))
    error = fails(
        make_request(max_input_bytes=500_000),
        leftovers,
        "heldout.txt.gz: expected at most 500000 bytes of text",
    )
    assert "no flag changes this limit" in str(error.hint)


def test_missing_files(make_request: MakeRequest, heldout: Path, leftovers: Leftovers):
    heldout.unlink()
    error = fails(make_request(), leftovers, f"no file {heldout}.gz or {heldout}")
    assert isinstance(error, MissingDataError)
    assert (
        "`--data-dir`" in str(error.hint) and "fetch" in str(error.hint) and "`--sample`" in str(error.hint)
    )


def test_no_data_folder(cache_dir: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("INFOCAL_DATA", raising=False)
    with pytest.raises(MissingDataError, match="no data folder was named for dataset `beer`") as caught:
        open_features(FeatureRequest(aspect="palate", cache_dir=cache_dir))
    assert "`--data-dir` or INFOCAL_DATA" in str(caught.value.hint) and "`--sample`" in str(caught.value.hint)
    assert not cache_dir.exists()


def test_no_data_folder_of_ones_own(cache_dir: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("INFOCAL_DATA", raising=False)
    with pytest.raises(MissingDataError, match="no data folder was named for dataset `jsonl`") as caught:
        open_features(FeatureRequest(dataset="jsonl", cache_dir=cache_dir))
    assert "`--data-dir` or INFOCAL_DATA" in str(caught.value.hint) and "fetch" not in str(caught.value.hint)


def test_too_few_reviews_for_a_split(make_request: MakeRequest, heldout: Path, leftovers: Leftovers):
    heldout.write_text(f"{GOOD}\ta b c\n")
    fails(
        make_request(),
        leftovers,
        "heldout.txt.*: too few examples: nothing is left for the split `(train|val)`",
    )


def test_targets_that_are_all_equal(make_request: MakeRequest, heldout: Path, leftovers: Leftovers):
    heldout.write_text("".join(f"{GOOD}\tword{i} b c\n" for i in range(60)))
    fails(make_request(), leftovers, rf"{heldout}.*: all \d+ training targets are 0.5: nothing to learn")


def test_a_text_of_endless_length(
    make_request: MakeRequest, annotations: Path, leftovers: Leftovers, change_record: Any
):
    change_record(annotations, 2, x=["a"] * 65_537)
    rid = json.loads(annotations.read_text().splitlines()[1])["rid"]
    message = f"{annotations}.*: the text of example `{rid}` has 65537 tokens; at most 65536 are supported"
    fails(make_request(), leftovers, message)


def test_a_bad_file_of_vectors(make_request: MakeRequest, tmp_path: Path, leftovers: Leftovers):
    path = tmp_path / "vectors.txt"
    path.write_text("the 1 2 3 4\nbeer 1 2 x 4\n")
    fails(make_request(embedding=str(path)), leftovers, "vectors.txt:2: expected numbers, but got 'x'")


def test_what_was_built_before_stays(
    make_request: MakeRequest, heldout: Path, change_line: Any, leftovers: Leftovers
):
    open_features(make_request())
    before = leftovers()
    change_line(heldout, 3, "0.1\ta")
    with pytest.raises(BadInputError, match="heldout.txt:3: expected 5 scores, but got 1"):
        open_features(make_request())
    assert leftovers() == before != []


def test_a_pipe_is_not_waited_for(make_request: MakeRequest, annotations: Path, leftovers: Leftovers):
    annotations.unlink()
    os.mkfifo(annotations)
    fails(make_request(), leftovers, "annotations.json: expected a file, but this is a pipe or a device")


def test_a_folder_that_may_not_be_looked_into(
    make_request: MakeRequest, corpus: Path, leftovers: Leftovers, monkeypatch: pytest.MonkeyPatch
):
    exists = Path.exists

    def forbidden(path: Path, **given: Any) -> bool:
        if path.parent == corpus / "beer":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return exists(path, **given)

    monkeypatch.setattr(Path, "exists", forbidden)
    fails(make_request(), leftovers, "cannot read the folder: Permission denied")

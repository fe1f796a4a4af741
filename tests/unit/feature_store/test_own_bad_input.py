"""Bad files of one's own: the message names file and line, and the cache holds nothing afterwards."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feature_store.errors import BadInputError, RequestError
from feature_store.sources import get_source
from feature_store.sources.base import resolve_options
from feature_store.store import FeatureRequest, open_features
from tests.own_corpora import eraser_records, own_records, write_eraser, write_own

NAN = float("nan")
REGRESSION = 'kind = "regression"\n'
Leftovers = Callable[[], list[str]]


def fails(dataset: str, data_dir: Path, cache_dir: Path, leftovers: Leftovers, message: str) -> BadInputError:
    """Opening fails with this message, and leaves no file in the cache."""
    request = FeatureRequest(
        dataset=dataset, data_dir=data_dir, cache_dir=cache_dir, embedding="random", embedding_size=4
    )
    with pytest.raises(BadInputError, match=message) as caught:
        open_features(request)
    assert leftovers() == []
    return caught.value


def change(path: Path, number: int, changes: Any) -> None:
    """Replace a line, or (for a dict) set keys of its record and remove those that are "absent"."""
    lines = path.read_text(encoding="utf-8").splitlines()
    if isinstance(changes, dict):
        record = {**json.loads(lines[number - 1]), **changes}
        changes = json.dumps({key: value for key, value in record.items() if value != "absent"})
    lines[number - 1] = changes
    path.write_text("\n".join(lines) + "\n", encoding="utf-8", errors="surrogatepass")


@pytest.mark.parametrize("split", ["train", "val", "test"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ('{"text": "It is th', "not JSON: Unterminated string"),
        ("[1]", r"expected a JSON object, but got \[1\]"),
        ({"label": "absent"}, r"no key `label`; the keys are `text`$"),
        ({"label": None}, "expected a whole number or text as `label`, but got null"),
        ({"label": ""}, "expected a whole number or text as `label`, but got ''"),
        ({"label": 1.5}, "expected a whole number or text as `label`, but got 1.5"),
        ({"label": True}, "expected a whole number or text as `label`, but got true"),
        ({"label": "goood"}, "expected one of the 2 classes `bad`, `good`, but got `goood`"),
        ({"tokens": ["a"]}, "expected either `text` or `tokens`, but got both"),
        ({"text": None}, r"expected either `text` or `tokens`, but got neither; the keys are `label`$"),
        ({"text": ""}, "expected a text as `text`, but it is empty"),
        ({"text": " \n "}, "expected a text as `text`, but it is empty"),
        ({"text": 5}, "expected text as `text`, but got 5"),
        ({"text": "\ud800"}, "`text` is not valid text"),
        ({"text": None, "tokens": []}, "no tokens in `tokens`"),
        ({"text": None, "tokens": ["a", ""]}, "expected a list of words as `tokens`, but got"),
        ({"text": None, "tokens": "a b"}, "expected a list of words as `tokens`, but got 'a b'"),
        ({"text": None, "tokens": ["\udfff"]}, "a token of `tokens` is not valid text"),
        ({"rationale": "thin"}, r"expected a list of \[start, end\) spans as `rationale`, but got 'thin'"),
        ({"rationale": [[0, 999]]}, r"span \[0, 999\] of `rationale` does not fit the text's \d+ characters"),
        ({"rationale": [[-1, 2]]}, r"span \[-1, 2\] of `rationale` does not fit"),
        ({"rationale": [[3, 2]]}, r"span \[3, 2\] of `rationale` does not fit"),
        ({"rationale": [[1, 2, 3]]}, r"expected a span \[start, end\) in `rationale`, but got \[1, 2, 3\]"),
        ({"rationale": [[0.5, 2]]}, r"expected a span \[start, end\) in `rationale`, but got \[0.5, 2\]"),
        ({"rationale": [0, 1]}, r"expected one 0 or 1 for each token as `rationale`, but got 2 for 7 tokens"),
        ({"rationale": [0, 1, 2, 0, 0, 0, 0]}, "expected 0 or 1 in the mask `rationale`, but got 2"),
        ({"rationale": [0, 1, 0.5, 0, 0, 0, 0]}, r"expected a span \[start, end\) in `rationale`, but got 0"),
        (
            {"text": None, "tokens": ["a", "b"], "rationale": [[0, 3]]},
            r"span \[0, 3\] of `rationale` does not fit the text's 2 tokens",
        ),
        (
            {"text": None, "tokens": ["a", "b"], "rationale": [1]},
            "expected one 0 or 1 for each token as `rationale`, but got 1 for 2 tokens",
        ),
        ({"id": 1.5}, "expected a whole number or text as `id`, but got 1.5"),
        ({"id": ""}, "expected a whole number or text as `id`, but got ''"),
        ({"groups": "lager"}, "expected a list of names as `groups`, but got 'lager'"),
        ({"groups": ["lager", ""]}, "expected a list of names as `groups`, but got"),
        ({"groups": ["\ud800"]}, "a name in `groups` is not valid text"),
    ],
)
def test_a_bad_line_of_ones_own(
    tmp_path: Path, cache_dir: Path, leftovers: Leftovers, split: str, changes: Any, message: str
):
    task = 'kind = "classification"\nclasses = ["bad", "good"]\n'
    folder = write_own(tmp_path / "data", own_records(), task)
    change(folder / f"{split}.jsonl", 2, changes)
    fails("jsonl", folder, cache_dir, leftovers, f"{split}.jsonl:2: {message}")


@pytest.mark.parametrize("value", [-0.1, 1.1, NAN, float("inf"), "0.5", True, None, [], 10**400])
def test_a_bad_score(tmp_path: Path, cache_dir: Path, leftovers: Leftovers, value: Any):
    records = {s: [{"text": f"{s} {i}", "score": i / 9} for i in range(9)] for s in ("train", "val", "test")}
    folder = write_own(tmp_path / "data", records, REGRESSION)
    change(folder / "val.jsonl", 3, {"score": value})
    written = {"True": "true", "None": "null"}.get(repr(value), repr(value))
    shown = written[:20].replace("[", r"\[").replace("]", r"\]")
    message = rf"val.jsonl:3: expected a score in \[0, 1\], but got {shown}"
    fails("jsonl", folder, cache_dir, leftovers, message)


def test_a_score_that_is_missing(tmp_path: Path, cache_dir: Path, leftovers: Leftovers):
    folder = write_own(tmp_path / "data", own_records(), REGRESSION)
    fails(
        "jsonl",
        folder,
        cache_dir,
        leftovers,
        r"train.jsonl:1: no key `score`; the keys are `label`, `text`$",
    )


@pytest.mark.parametrize(
    ("task", "message", "hint"),
    [
        ("", "no key `kind`; expected one of `regression`, `classification`", None),
        ("kind = ", "not TOML: Invalid value", None),
        ('kind = "clasification"', "expected one of .* as `kind`, but got 'clasification'", "classification"),
        ("kind = 1", "expected one of .* as `kind`, but got 1", None),
        ('kind = "classification"\nclases = []', "unknown key `clases`; the keys are `kind`,", "classes"),
        (
            'kind = "classification"\nclasses = ["a"]',
            "expected a list of at least two different names as `classes`",
            None,
        ),
        (
            'kind = "classification"\nclasses = ["a", "a"]',
            "expected a list of at least two different names as `classes`",
            None,
        ),
        (
            'kind = "classification"\nclasses = "a, b"',
            "expected a list of at least two different names as `classes`",
            None,
        ),
        (
            'kind = "classification"\nclasses = ["a", 0.5]',
            "expected a whole number or text as `classes`",
            None,
        ),
        ('kind = "regression"\nclasses = ["a", "b"]', "`classes` belongs to kind `classification`", None),
        ('kind = "classification"\nscore_range = [0, 1]', "`score_range` belongs to kind `regression`", None),
        (
            'kind = "regression"\nscore_range = [1, 1]',
            r"expected \[lowest, highest\], two different numbers, as `score_range`",
            None,
        ),
        (
            'kind = "regression"\nscore_range = [5, 1]',
            r"expected \[lowest, highest\], two different numbers, as `score_range`",
            None,
        ),
        (
            'kind = "regression"\nscore_range = [0, inf]',
            r"expected \[lowest, highest\], two different numbers, as `score_range`",
            None,
        ),
        (
            'kind = "regression"\nscore_range = [nan, 1]',
            r"expected \[lowest, highest\], two different numbers, as `score_range`",
            None,
        ),
        (
            'kind = "regression"\nscore_range = 5',
            r"expected \[lowest, highest\], two different numbers, as `score_range`",
            None,
        ),
        (
            'kind = "regression"\ntokenizer = "englsh"',
            "expected one of .* as `tokenizer`, but got 'englsh'",
            "english",
        ),
        ('kind = "regression"\ntitle = 5', "expected text as `title`, but got 5", None),
        ('kind = "regression"\ntitle = ' + "9" * 5000, "not TOML: Exceeds the limit", None),
        ('kind = "regression"\ntitle = 0x' + "f" * 5000, "not TOML: a whole number of more than 64", None),
        ('kind = "regression"\nscore_range = [0, ' + "9" * 400 + "]", "not TOML: a whole number of", None),
        ('kind = "regression"\ntitle = ' + "[" * 100_000, "not TOML: nested too deeply", None),
        ('kind = "regression"\ntitle = "' + "x" * 2**20 + '"', "expected at most 1048576 bytes", None),
    ],
    ids=itertools.count(),
)
def test_a_bad_task_file(
    tmp_path: Path, cache_dir: Path, leftovers: Leftovers, task: str, message: str, hint: str | None
):
    folder = write_own(tmp_path / "data", own_records(), task)
    error = fails("jsonl", folder, cache_dir, leftovers, f"task.toml: {message}")
    assert error.hint == (hint and f"did you mean `{hint}`?")


def test_a_task_file_that_is_not_utf8(tmp_path: Path, cache_dir: Path, leftovers: Leftovers):
    folder = write_own(tmp_path / "data", own_records())
    (folder / "task.toml").write_bytes(b'title = "caf\xe9"\n')
    fails("jsonl", folder, cache_dir, leftovers, "task.toml: not UTF-8: ")


def test_a_folder_instead_of_a_task_file(tmp_path: Path, cache_dir: Path, leftovers: Leftovers):
    folder = write_own(tmp_path / "data", own_records())
    (folder / "task.toml").unlink()
    (folder / "task.toml").mkdir()
    fails("jsonl", folder, cache_dir, leftovers, "task.toml: expected a file, but this is a folder")


def test_a_single_class(tmp_path: Path, cache_dir: Path, leftovers: Leftovers):
    records = own_records()
    records["train"] = records["train"][::2]
    folder = write_own(tmp_path / "data", records)
    message = "train.jsonl: a classification needs two classes or more, but got `bad`"
    fails("jsonl", folder, cache_dir, leftovers, message)


def test_a_class_that_train_does_not_have(tmp_path: Path, cache_dir: Path, leftovers: Leftovers):
    folder = write_own(tmp_path / "data", own_records())
    change(folder / "test.jsonl", 1, {"label": "gud"})
    error = fails(
        "jsonl",
        folder,
        cache_dir,
        leftovers,
        "test.jsonl:1: expected one of the 2 classes `bad`, `good`, but got `gud`",
    )
    assert error.hint == "did you mean `good`?"


@pytest.mark.parametrize("split", ["train", "test"])
def test_an_id_that_stands_twice(tmp_path: Path, cache_dir: Path, leftovers: Leftovers, split: str):
    folder = write_own(tmp_path / "data", own_records())
    change(folder / "train.jsonl", 1, {"id": "7"})
    change(folder / f"{split}.jsonl", 3, {"id": 7})
    message = rf"{split}.jsonl:3: the id `7` is in .*train.jsonl:1 already"
    fails("jsonl", folder, cache_dir, leftovers, message)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16"])
@pytest.mark.parametrize("name", ["train.jsonl", "val.jsonl", "test.jsonl"])
def test_another_encoding(tmp_path: Path, cache_dir: Path, leftovers: Leftovers, name: str, encoding: str):
    folder = write_own(tmp_path / "data", own_records())
    (folder / name).write_bytes('{"text": "café", "label": "good"}\n'.encode(encoding))
    fails("jsonl", folder, cache_dir, leftovers, f"{name}:1: not UTF-8: byte 0x")


# ----------------------------------------------------------------------------------------------- eraser


def spans(docid: Any = "test1", start: Any = 2, end: Any = 4) -> list[list[dict[str, Any]]]:
    return [[{"docid": docid, "start_token": start, "end_token": end}]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ('{"annotation_id": "te', "not JSON: Unterminated string"),
        ({"annotation_id": "absent"}, "no key `annotation_id`; the keys are"),
        ({"classification": "absent"}, "no key `classification`; the keys are"),
        ({"evidences": "absent"}, "no key `evidences`; the keys are"),
        ({"classification": "PSO"}, "expected one of the 2 classes `NEG`, `POS`, but got `PSO`"),
        ({"annotation_id": None}, "expected a whole number or text as `annotation_id`, but got null"),
        ({"annotation_id": "val0"}, r"the id `val0` is in .*val.jsonl:1 already"),
        ({"evidences": None}, "expected a list of lists as `evidences`, but got null"),
        ({"evidences": spans()[0]}, "expected a list of lists as `evidences`, but got"),
        ({"evidences": [["x"]]}, "expected an object as evidence, but got 'x'"),
        ({"evidences": [[{"docid": "test1"}]]}, "no key `start_token` in an evidence; the keys are"),
        ({"evidences": spans(end=6)}, r"span \[2, 6\] of `evidences` does not fit the text's 5 tokens"),
        ({"evidences": spans(start=-1)}, r"span \[-1, 4\] of `evidences` does not fit"),
        ({"evidences": spans(end=None)}, r"expected a span \[start, end\) in `evidences`, but got \[2, None"),
        ({"evidences": spans("tset1")}, "no document `tset1` in .*docs"),
        ({"evidences": spans("../../train.jsonl")}, "no document `../../train.jsonl` in .*docs"),
        ({"evidences": spans(None)}, "expected a whole number or text as `docid`, but got null"),
        ({"docids": ["test0"]}, "evidence is in document `test1`, but `docids` are `test0`"),
        ({"docids": "test1"}, "expected a list as `docids`, but got 'test1'"),
        (
            {"annotation_id": "x", "evidences": []},
            "no document is given: expected `docids`, an evidence with a `docid`, or a document named `x`",
        ),
    ],
)
def test_a_bad_annotation_of_eraser(
    tmp_path: Path, cache_dir: Path, leftovers: Leftovers, changes: Any, message: str
):
    folder = write_eraser(tmp_path / "data", eraser_records())
    change(folder / "test.jsonl", 2, changes)
    fails("eraser", folder, cache_dir, leftovers, f"test.jsonl:2: {message}")


def test_a_near_miss_of_a_document(tmp_path: Path, cache_dir: Path, leftovers: Leftovers):
    folder = write_eraser(tmp_path / "data", eraser_records())
    change(folder / "test.jsonl", 2, {"evidences": spans("Test1")})
    error = fails("eraser", folder, cache_dir, leftovers, "test.jsonl:2: no document `Test1`")
    assert error.hint == "did you mean `test1`?"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "docs/val2: the file is empty"),
        (b" \n\n", "docs/val2: every line is blank"),
        (b"caf\xe9", "docs/val2:1: not UTF-8: byte 0xe9"),
    ],
)
def test_a_bad_document(tmp_path: Path, cache_dir: Path, leftovers: Leftovers, content: bytes, message: str):
    folder = write_eraser(tmp_path / "data", eraser_records())
    (folder / "docs" / "val2").write_bytes(content)
    fails("eraser", folder, cache_dir, leftovers, message)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('{"docid": "a"}', r"docs.jsonl:1: no key `document`; the keys are `docid`$"),
        ('{"docid": "a", "document": ""}', "docs.jsonl:1: expected a text as `document`, but it is empty"),
        ('{"docid": "a", "document": "x"}\n' * 2, "docs.jsonl:2: the docid `a` is in an earlier line"),
        ('{"docid": "a", "document": "x"}\n', "train.jsonl:1: no document `train0` in .*docs.jsonl"),
    ],
)
def test_a_bad_file_of_documents(
    tmp_path: Path, cache_dir: Path, leftovers: Leftovers, lines: str, message: str
):
    folder = write_eraser(tmp_path / "data", eraser_records())
    (folder / "docs").rename(folder / "other")
    (folder / "docs.jsonl").write_text(lines)
    fails("eraser", folder, cache_dir, leftovers, message)


def test_a_query_that_is_missing_where_it_is_used(tmp_path: Path, cache_dir: Path, leftovers: Leftovers):
    folder = write_eraser(tmp_path / "data", eraser_records())
    change(folder / "val.jsonl", 2, {"query": None})
    request = FeatureRequest(
        dataset="eraser", data_dir=folder, cache_dir=cache_dir, options={"query": "prepend"}
    )
    with pytest.raises(BadInputError, match="val.jsonl:2: expected text as `query`, but got null"):
        open_features(request)
    assert leftovers() == []


def test_a_split_without_a_text_is_named_beside_what_the_others_hold(
    tmp_path: Path, cache_dir: Path, leftovers: Leftovers
):
    records = own_records(num_train=3)
    del records["val"]
    folder = write_own(tmp_path / "few", records)
    message = r"too few examples: nothing is left for the split `val` \(train 3, val 0, test 3\)"
    error = fails("jsonl", folder, cache_dir, leftovers, message)
    assert "add a `val` file, or more training texts. " in str(error.hint)
    assert "of 50 training texts, it chooses none in 1 of 200 cases" in str(error.hint)


@pytest.mark.parametrize(
    ("name", "hint"), [("tokenizer", "write `tokenizer = ...` in task.toml"), ("x", None)]
)
def test_an_option_that_belongs_in_the_task_file_is_told_so(name: str, hint: str | None):
    with pytest.raises(RequestError, match=f"dataset `jsonl` has no option `{name}`; it has ") as caught:
        resolve_options(get_source("jsonl"), {name: "french"})
    assert caught.value.hint == hint

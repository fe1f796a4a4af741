"""Your own data as JSON lines: what is read, how it is cut, what is said aloud."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feature_store.errors import BadInputError, MissingDataError
from feature_store.fingerprint import unit_interval
from feature_store.sources.base import Example, Report
from feature_store.store import FeatureRequest, open_features
from feature_store.tokenize import TOKENIZERS
from tests.own_corpora import own_records, read_all, write_own

REGRESSION = 'kind = "regression"\nscore_range = [1, 5]\n'


def said(report: Report) -> list[str]:
    """The notes, but for the one that lists the classes."""
    return [note for note in report.notes if " classes in " not in note]


def of(examples: list[Example], split: str) -> list[Example]:
    return [example for example in examples if example.split == split]


def one(tmp_path: Path, record: dict[str, Any], task: str = 'kind = "classification"\n') -> Example:
    """What a record in the test file becomes."""
    records = own_records()
    if "regression" in task:
        records = {split: [{"text": "so it is", "score": 1}] for split in records}
    write_own(tmp_path, records | {"test": [record]}, task)
    return of(read_all("jsonl", tmp_path)[0], "test")[0]


def test_a_mark_beyond_what_a_table_holds_is_cut_off_with_its_text(tmp_path: Path):
    records = own_records()
    long = {"tokens": [f"w{number % 9}" for number in range(70_000)], "label": "good"}
    records["train"][0] = {**long, "rationale": [[3, 5], [69_998, 70_000]]}
    write_own(tmp_path / "jsonl", records)
    request = FeatureRequest(
        dataset="jsonl", data_dir=tmp_path, cache_dir=tmp_path / "cache", embedding="random"
    )
    features = open_features(request)
    assert features.table("train")["rationale"][0].as_py() == [3, 4]
    assert any("`--set max_length=70000` keeps all of them" in note for note in features.notes)


def test_every_line_becomes_an_example(tmp_path: Path):
    records = own_records()
    examples, task, report = read_all("jsonl", write_own(tmp_path, records))
    assert task.class_names == ("bad", "good")
    assert task.tokenizer == "english"
    for split, lines in records.items():
        found = of(examples, split)
        assert [example.example_id for example in found] == [f"{split}:{i}" for i in range(1, len(lines) + 1)]
        assert [example.target for example in found] == [int(line["label"] == "good") for line in lines]
        assert found[0].tokens == ["it", "is", "soft", ",", split, "0", "."]
        assert all(example.rationale is None and example.groups == () for example in found)
    assert report.notes == ["2 classes in train.jsonl: `bad` 10, `good` 10"]


def test_classes_have_the_order_of_the_task_file(tmp_path: Path):
    task = 'kind = "classification"\nclasses = ["good", "bad", "unseen"]\n'
    examples, found, _ = read_all("jsonl", write_own(tmp_path, own_records(), task))
    assert found.class_names == ("good", "bad", "unseen")
    assert [example.target for example in of(examples, "val")] == [1, 0, 1]


def test_whole_numbers_are_names_too(tmp_path: Path):
    records = {split: [{"text": f"{split} {i}", "label": i} for i in (0, 1)] for split in own_records()}
    assert read_all("jsonl", write_own(tmp_path, records))[1].class_names == ("0", "1")
    stated = 'kind = "classification"\nclasses = [1, 0]\n'
    assert read_all("jsonl", write_own(tmp_path, records, stated))[1].class_names == ("1", "0")


@pytest.mark.parametrize(("score", "target"), [(1, 0.0), (5, 1.0), (2.5, 0.375)])
def test_scores_are_scaled(tmp_path: Path, score: float, target: float):
    assert one(tmp_path, {"text": "so", "score": score}, REGRESSION).target == target


def test_scores_lie_between_0_and_1_where_nothing_is_said(tmp_path: Path):
    assert one(tmp_path, {"text": "so", "score": 0.25}, 'kind = "regression"\n').target == 0.25


TEXT = "Thin, but crisp 🍺 indeed"  # thin , but crisp 🍺 indeed: at 0, 4, 6, 10, 16, 18


@pytest.mark.parametrize(
    ("rationale", "expected"),
    [
        (None, None),
        ([], []),
        ([[0, 4]], [0]),
        ([[0, 5]], [0, 1]),
        ([[2, 3]], [0]),  # a touched token is in
        ([[5, 6]], []),  # a blank
        ([[0, 0]], []),
        ([[16, 17], [0, 4]], [0, 4]),  # code points: the glass is one
        ([[6, 15], [10, 24]], [2, 3, 4, 5]),
        ([0, 1, 0, 0, 0, 1], [1, 5]),
        ([0, 0, 0, 0, 0, 0], []),
        ([False, True, False, False, False, False], [1]),
    ],
)
def test_rationales_of_a_text(tmp_path: Path, rationale: Any, expected: list[int] | None):
    found = one(tmp_path, {"text": TEXT, "label": "good", "rationale": rationale})
    assert found.tokens == ["thin", ",", "but", "crisp", "🍺", "indeed"]
    assert found.rationale == expected


@pytest.mark.parametrize(
    ("rationale", "expected"),
    [(None, None), ([], []), ([[0, 2]], [0, 1]), ([[2, 3], [1, 3]], [1, 2]), ([1, 0, 0], [0])],
)
def test_rationales_of_tokens(tmp_path: Path, rationale: Any, expected: list[int] | None):
    tokens = ["It", "is", "Thin"]
    found = one(tmp_path, {"tokens": tokens, "label": "good", "rationale": rationale})
    assert (found.tokens, found.rationale) == (tokens, expected)


def test_id_and_groups(tmp_path: Path):
    record = {"text": "so", "label": "good", "id": 7, "groups": ["lager", "stout"], "tokens": None}
    found = one(tmp_path, record)
    assert (found.example_id, found.groups) == ("7", ("lager", "stout"))


def test_another_tokenizer(tmp_path: Path):
    task = 'kind = "classification"\ntokenizer = "whitespace"\n'
    assert one(tmp_path, {"text": "It's\tThin. ", "label": "good"}, task).tokens == ["It's", "Thin."]


@pytest.mark.parametrize("name", sorted(TOKENIZERS))
def test_the_tokenizer_goes_into_the_features(tmp_path: Path, name: str):
    write_own(tmp_path / "data", own_records(), f'kind = "classification"\ntokenizer = "{name}"\n')
    request = FeatureRequest(
        dataset="jsonl", data_dir=tmp_path / "data", cache_dir=tmp_path / "cache", embedding="random"
    )
    assert open_features(request).tokenizer == name


# ----------------------------------------------------------------------------------------------- files


def test_a_folder_of_its_own_or_the_folder_itself(tmp_path: Path):
    write_own(tmp_path / "jsonl", own_records())
    assert read_all("jsonl", tmp_path)[0] == read_all("jsonl", tmp_path / "jsonl")[0]


def test_zipped_files(tmp_path: Path, zipped: Callable[[Path], Path]):
    plain = read_all("jsonl", write_own(tmp_path, own_records()))[0]
    for path in tmp_path.glob("*.jsonl"):
        zipped(path)
    assert read_all("jsonl", tmp_path)[0] == plain


@pytest.mark.parametrize("name", ["train.jsonl", "test.jsonl", "task.toml"])
@pytest.mark.parametrize("inside", [True, False])
def test_a_missing_file(tmp_path: Path, name: str, inside: bool):
    folder = write_own(tmp_path / "jsonl" if inside else tmp_path, own_records())
    (folder / name).unlink()
    names = name if name == "task.toml" else f"{name}.gz or {name}"
    nor = "" if inside else ", and no folder `jsonl` in it"
    with pytest.raises(MissingDataError) as caught:  # noqa: PT011 - the whole message is compared
        read_all("jsonl", tmp_path)
    assert str(caught.value) == f"dataset `jsonl`: no {names} in {folder}{nor}"
    assert 'needs one line, `kind = "classification"`' in str(caught.value.hint)


def test_without_val_a_tenth_of_train_is_cut_off(tmp_path: Path):
    records = own_records(400)
    del records["val"]
    examples, _, report = read_all("jsonl", write_own(tmp_path, records))
    assert (
        said(report)[0]
        == "no val.jsonl: 10% of train.jsonl is used as val instead (chosen by a hash of the tokens, so "
        "another tokenizer, dictionary or list of stop words gives another split)"
    )
    cut = [*of(examples, "train"), *of(examples, "val")]
    assert len(cut) == 400
    assert len(of(examples, "val")) == pytest.approx(40, abs=18)  # three standard deviations
    for example in cut:
        assert (example.split == "val") == (unit_interval(" ".join(example.tokens)) < 0.1)


def test_equal_texts_are_counted_and_said(tmp_path: Path):
    records = own_records()
    records["test"] += records["train"][:2]
    _, _, report = read_all("jsonl", write_own(tmp_path, records))
    assert said(report) == [
        "2 texts of `test` are also in `train`: they are kept, so the scores on `test` are too high"
    ]
    assert report.counts["texts_of_test_in_train"] == 2


# ------------------------------------------------------------------------------------------ said aloud


def notes(tmp_path: Path, record: dict[str, Any], task: str = "") -> list[str]:
    records = own_records()
    records["val"] += [record]
    report: Report = read_all("jsonl", write_own(tmp_path, records, 'kind = "classification"\n' + task))[2]
    return said(report)


def test_the_title_is_said(tmp_path: Path):
    record = {"text": "so", "label": "good"}
    assert notes(tmp_path, record, 'title = "how it feels"') == ["own data: how it feels"]


def test_a_key_that_is_not_read_is_said(tmp_path: Path):
    record = {"text": "so", "label": "good", "rational": [[0, 2]], "source": "x", "score": None, "\ud800": 1}
    (note,) = notes(tmp_path, record)
    assert note.startswith("keys that are not read: ")
    assert "'rational' (1 line, did you mean `rationale`?)" in note
    assert "'source' (1 line)" in note
    note.encode()


def test_many_keys_that_are_not_read(tmp_path: Path):
    (note,) = notes(tmp_path, {"text": "so", "label": "good"} | {f"x{i}": 1 for i in range(30)})
    assert note.count("(1 line)") == 10
    assert note.endswith(", ...")


def test_tokens_without_a_stated_tokenizer(tmp_path: Path):
    record = {"tokens": ["so"], "label": "good"}
    (note,) = notes(tmp_path, record)
    assert re.match("1 text is given as tokens; later, the model will split new texts with `english`", note)
    assert notes(tmp_path, record, 'tokenizer = "whitespace"') == []


@pytest.mark.parametrize(
    ("records", "tokenizer"),
    [
        ([{"tokens": ["We", "stayed", "."]}, {"tokens": ["a", "lift"]}], "english_cased"),
        ([{"tokens": ["Größe", "passt"]}], "english_cased"),
        ([{"tokens": ["we", "stayed", "."]}, {"tokens": ["42", "!"]}], "english"),
        # most texts were lower-cased, a few forgotten
        ([{"tokens": ["a", "lift"]}] * 19 + [{"tokens": ["A"]}], "english"),
        # texts are split here, and so is a free one
        ([{"tokens": ["We", "stayed"]}, {"text": "We came by train."}], "english"),
    ],
)
def test_a_free_text_gets_the_capital_letters_that_the_corpus_has(
    tmp_path: Path, records: list[dict[str, Any]], tokenizer: str
):
    lines = [record | {"label": label} for record in records for label in ("good", "bad")]
    write_own(tmp_path / "data", {"train": lines, "val": lines[:2], "test": lines[:2]})
    request = FeatureRequest(
        dataset="jsonl", data_dir=tmp_path / "data", cache_dir=tmp_path / "cache", embedding="random"
    )
    assert open_features(request).tokenizer == tokenizer


# -------------------------------------------------------------------------------------- read back equal

TOKEN = st.text(st.characters(exclude_categories=("Cs", "Z", "C")), min_size=1, max_size=6)


@st.composite
def examples_of_any_kind(draw: st.DrawFn) -> dict[str, Any]:
    """An example: its tokens, label, positions of its rationale or None, and how it is written down."""
    tokens = draw(st.lists(TOKEN, min_size=1, max_size=8))
    positions = st.sets(st.integers(0, len(tokens) - 1)).map(sorted)
    return {
        "tokens": tokens,
        "label": draw(st.sampled_from(["no", "yes", "perhaps"])),
        "rationale": draw(st.none() | positions),
        "as_text": draw(st.booleans()),
        "as_mask": draw(st.booleans()),
    }


def written(example: dict[str, Any]) -> dict[str, Any]:
    """The record of an example; of a text, blanks are what separates the tokens."""
    tokens, marked = example["tokens"], example["rationale"]
    starts = [0]
    for token in tokens:
        starts.append(starts[-1] + len(token) + 1)
    record: dict[str, Any] = {"label": example["label"]}
    record |= {"text": " ".join(tokens)} if example["as_text"] else {"tokens": tokens}
    if marked is not None and example["as_mask"]:
        record["rationale"] = [int(i in marked) for i in range(len(tokens))]
    elif marked is not None:
        edges = [
            (starts[i], starts[i] + len(tokens[i])) if example["as_text"] else (i, i + 1) for i in marked
        ]
        record["rationale"] = [list(edge) for edge in edges]
    return record


@given(st.lists(examples_of_any_kind(), min_size=1, max_size=5))
def test_what_is_written_is_read_back(tmp_path_factory: pytest.TempPathFactory, drawn: list[dict[str, Any]]):
    task = 'kind = "classification"\ntokenizer = "whitespace"\nclasses = ["no", "yes", "perhaps"]\n'
    lines = [written(example) for example in drawn]
    folder = write_own(
        tmp_path_factory.mktemp("own"), {"train": lines, "val": lines[:1], "test": lines[:1]}, task
    )
    found, spec, _ = read_all("jsonl", folder)
    assert spec.class_names is not None
    for expected, example in zip(drawn, of(found, "train"), strict=True):
        assert example.tokens == expected["tokens"]
        assert spec.class_names[int(example.target)] == expected["label"]
        assert example.rationale == expected["rationale"]


def test_the_example_of_the_documentation(tmp_path: Path):
    page = (Path(__file__).parents[3] / "docs" / "own-data.md").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in page.splitlines() if re.match(r'    {"(text|tokens)"', line)]
    (task,) = re.findall(r'^    (kind = "classification".*)$', page, re.M)
    folder = write_own(tmp_path, {"train": lines, "val": lines[:1], "test": lines[1:2]}, f"{task}\n")
    first, second, third = of(read_all("jsonl", folder)[0], "train")
    assert [first.tokens[i] for i in first.rationale or ()] == ["was", "charged", "twice"]
    assert second.rationale == [2]
    assert third.rationale is None


def test_the_sample_is_read_as_it_was_made(tmp_path: Path):
    from feature_store import sample

    sample.write_jsonl(tmp_path, seed=0, sizes={"train": 40, "val": 10, "test": 10})
    examples, task, report = read_all("jsonl", tmp_path)
    assert task.kind == "regression"
    assert report.notes == ["own data: made-up reviews: how a beer feels"]
    lines = (tmp_path / "train.jsonl").read_text().splitlines()
    for example, line in zip(of(examples, "train"), lines, strict=True):
        record = json.loads(line)
        assert example.tokens == record["text"].split()  # the tokenizer leaves the sentences as they are
        assert example.target == record["score"] / 5
        marked = [record["text"][start:end].split() for start, end in record["rationale"] or ()]
        if record["rationale"] is None:
            assert example.rationale is None
        else:
            assert example.rationale is not None
            assert [example.tokens[i] for i in example.rationale] == [
                word for span in marked for word in span
            ]
    annotated = [example.rationale is not None for example in examples]
    assert 0.6 < sum(annotated) / len(annotated) < 0.95


def _chinese(tmp_path: Path) -> Path:
    records: dict[str, list[dict[str, Any]]] = {
        split: [{"text": f"屏幕用了{split}{i}两天就坏了。", "label": "ab"[i % 2]} for i in range(size)]
        for split, size in (("train", 12), ("val", 2), ("test", 2))
    }
    return write_own(tmp_path / "own", records)


def test_own_words_of_own_texts_say_what_they_did(tmp_path: Path):
    dictionary, stop_words = tmp_path / "words.txt", tmp_path / "stop.txt"
    dictionary.write_text("两天就\t50\tn\n好 店\t5\n从不出现\n", encoding="utf-8")
    stop_words.write_text("了\t7\n。\n这 家\n", encoding="utf-8")
    features = open_features(
        FeatureRequest(
            dataset="jsonl",
            data_dir=_chinese(tmp_path),
            cache_dir=tmp_path / "cache",
            embedding="random",
            embedding_size=4,
            options={"dictionary": str(dictionary), "stop_words": str(stop_words)},
        )
    )
    notes = "\n".join(features.notes)
    assert "dictionary: 1 of 3 words occur in the texts; 1 has no effect, " in notes
    assert "always splits it: `好 店`" in notes
    assert "stop words: 2 of 3 entries occur in the texts; 1 has no effect, " in notes
    tokens = features.table("val")["tokens"].to_pylist()
    assert all("两天就" in text and not {"了", "。"} & set(text) for text in tokens)


def test_a_dictionary_that_is_none_is_named_by_its_path(tmp_path: Path):
    dictionary = tmp_path / "words.txt"
    dictionary.write_text("屏幕\t3\n坏了\t0\n", encoding="utf-8")
    request = FeatureRequest(
        dataset="jsonl",
        data_dir=_chinese(tmp_path),
        cache_dir=tmp_path / "cache",
        options={"dictionary": str(dictionary)},
    )
    with pytest.raises(BadInputError, match=f"^{re.escape(str(dictionary))}:2: expected a frequency of at"):
        open_features(request)


def test_a_name_that_looks_like_another_one_shows_what_is_hidden(tmp_path: Path):
    records = own_records()
    for i, record in enumerate(records["train"]):
        record["label"] = ("food", "food\u200b", "late food", "late\u00a0food")[i % 4]
    for split in ("val", "test"):
        for record in records[split]:
            record["label"] = "food"
    notes = "\n".join(read_all("jsonl", write_own(tmp_path, records))[2].notes)
    assert "nearly equal: `food` (5 texts), `food\\u200b` (5 texts)" in notes
    assert "nearly equal: `late food` (5 texts), `late\\u00a0food` (5 texts)" in notes


@pytest.mark.parametrize(
    ("change", "message", "hint"),
    [
        ({"rationale": [0, 2]}, r"expected spans or a 0/1 mask as `rationale`, but got \[0, 2\]", "[[0, 2]]"),
        (
            {"rationale": [[5, 2]]},
            r"span \[5, 2\] of `rationale` does not fit .*: it ends before it begins",
            "",
        ),
        ({"score": None}, r"expected a score in \[1, 5\], but got null", "leave out the line"),
        ({"score": True}, r"expected a score in \[1, 5\], but got true", "a score is one number"),
    ],
)
def test_a_wrong_value_is_shown_as_it_is_written(
    tmp_path: Path, change: dict[str, Any], message: str, hint: str
):
    with pytest.raises(BadInputError, match=message) as caught:
        one(tmp_path, {"text": "so it is", "score": 1} | change, REGRESSION)
    assert hint in (caught.value.hint or "")

"""The official beer formats: which files are read, how they are cut, and what is counted."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from feature_store.errors import BadInputError, MissingDataError, RequestError
from feature_store.fingerprint import unit_interval
from feature_store.sources import REGISTRY, get_source
from feature_store.sources import lines as lines_module
from feature_store.sources.base import SPLITS, Example, Query, Report, resolve_aspect
from feature_store.sources.beer_reviews import read_reviews
from tests.own_corpora import examples_of

BEER = REGISTRY["beer"]


def read(corpus: Path, aspect: str = "palate") -> tuple[list[Example], Report]:
    report = Report()
    query = Query(inputs=BEER.inputs(corpus, aspect), aspect=aspect, options={}, max_bytes=10**7)
    return examples_of(BEER.frames(query, BEER.task(query, report), report)), report


def of(examples: list[Example], *splits: str) -> list[Example]:
    return [example for example in examples if example.split in splits]


def test_every_line_becomes_an_example(corpus: Path, heldout: Path, annotations: Path):
    examples, _ = read(corpus)
    assert len(of(examples, "train", "val")) == len(heldout.read_text().splitlines())
    assert len(of(examples, "val_annotated", "test")) == len(annotations.read_text().splitlines())
    assert {example.split for example in examples} == set(SPLITS)
    assert len({example.example_id for example in examples}) == len(examples)


@pytest.mark.parametrize(("aspect", "number"), [("appearance", 0), ("smell", 1), ("palate", 2)])
def test_each_aspect_has_its_file_score_and_spans(corpus: Path, aspect: str, number: int):
    examples, _ = read(corpus, aspect)
    path = corpus / "beer" / f"reviews.aspect{number}.heldout.txt"
    by_id = {example.example_id: example for example in examples}
    for line_number, line in enumerate(path.read_text().splitlines(), start=1):
        scores, text = line.split("\t")
        example = by_id[f"reviews.aspect{number}.heldout:{line_number}"]
        assert example.tokens == text.split()
        assert example.target == np.float32(scores.split()[number])
        assert example.rationale is None
    for line in (corpus / "beer" / "annotations.json").read_text().splitlines():
        record = json.loads(line)
        example = by_id[str(record["rid"])]
        marked = [i for start, end in record[str(number)] for i in range(start, end)]
        assert (example.tokens, example.target) == (record["x"], np.float32(record["y"][number]))
        assert example.rationale == (sorted(marked) or None)


def test_files_are_read_in_order(corpus: Path):
    numbers = [int(example.example_id.split(":")[1]) for example in of(read(corpus)[0], "train")]
    assert numbers == sorted(numbers)


def test_splits_follow_the_hash_of_content(corpus: Path):
    examples, _ = read(corpus)
    for example in of(examples, "train", "val"):
        assert (example.split == "val") == (unit_interval(" ".join(example.tokens)) < 0.1)
    for example in of(examples, "val_annotated", "test"):
        assert (example.split == "val_annotated") == (unit_interval(example.example_id) < 0.2)


def test_a_review_stays_in_its_split_when_others_go(corpus: Path, heldout: Path, annotations: Path):
    before = {" ".join(example.tokens): example.split for example in read(corpus)[0]}
    for path in (heldout, annotations):
        path.write_text("".join(path.read_text().splitlines(keepends=True)[7:]))
    after = {" ".join(example.tokens): example.split for example in read(corpus)[0]}
    assert after.items() <= before.items()
    assert len(after) == len(before) - 14


def test_equal_reviews_fall_on_the_same_side(corpus: Path, heldout: Path):
    heldout.write_text(heldout.read_text() * 2)
    examples, _ = read(corpus)
    train, val = ({" ".join(e.tokens) for e in of(examples, split)} for split in ("train", "val"))
    assert not train & val


def test_without_a_train_file_the_cut_is_said(corpus: Path, heldout: Path):
    _, report = read(corpus)
    expected = f"no reviews.aspect2.train.txt.gz: train and val are cut 90/10 from {heldout.name}"
    assert expected in report.notes


@pytest.mark.parametrize("pack", [False, True])
def test_with_a_train_file_held_out_is_val(
    corpus: Path, heldout: Path, zipped: Callable[[Path], Path], pack: bool
):
    train = heldout.with_name("reviews.aspect2.train.txt")
    train.write_text(
        "".join((corpus / "beer" / "reviews.aspect0.heldout.txt").read_text().splitlines(True)[:20])
    )
    if pack:
        zipped(train)
    examples, report = read(corpus)
    assert len(of(examples, "train")) == 20
    assert len(of(examples, "val")) == len(heldout.read_text().splitlines())
    assert not any("90/10" in note for note in report.notes)


def test_a_zipped_file_goes_before_a_plain_one(corpus: Path, heldout: Path, zipped: Callable[[Path], Path]):
    plain = heldout.read_text()
    zipped(heldout)
    heldout.write_text(plain)
    assert BEER.inputs(corpus, "palate")["heldout"].name == "reviews.aspect2.heldout.txt.gz"


def test_reviews_without_rationale_are_counted_and_said(corpus: Path, annotations: Path):
    examples, report = read(corpus)
    unmarked = sum(not json.loads(line)["2"] for line in annotations.read_text().splitlines())
    assert unmarked > 0
    assert sum(e.rationale is None for e in of(examples, "val_annotated", "test")) == unmarked
    assert report.counts["annotated_without_rationale"] == unmarked
    assert (
        f"{unmarked} of {report.counts['annotated']} annotated reviews have no rationale for `palate`: "
        "they are left out of precision, recall and F1"
    ) in report.notes


def test_spans_that_touch_or_overlap_count_once(
    corpus: Path, annotations: Path, change_record: Callable[..., None]
):
    change_record(annotations, 1, _2=[[5, 8], [2, 6], [8, 9], [3, 3]])
    example = of(read(corpus)[0], "val_annotated", "test")[0]
    assert example.rationale == [2, 3, 4, 5, 6, 7, 8]


def test_an_annotated_review_is_dropped_from_the_review_file(corpus: Path, heldout: Path, annotations: Path):
    record = json.loads(annotations.read_text().splitlines()[0])
    before = len(of(read(corpus)[0], "train", "val"))
    with heldout.open("a") as stream:
        stream.write("0.1 0.1 0.1 0.1 0.1\t" + " ".join(record["x"]) + "\n")
    examples, report = read(corpus)
    assert len(of(examples, "train", "val")) == before
    assert report.counts["dropped_annotated_in_reviews"] == 1
    assert "1 review of the annotated set is also in the review files, and is dropped there" in report.notes


def test_missing_files_are_all_named(corpus: Path, heldout: Path, annotations: Path):
    heldout.unlink()
    annotations.unlink()
    with pytest.raises(MissingDataError, match="no file") as caught:
        BEER.inputs(corpus, "palate")
    assert str(caught.value) == (
        f"dataset `beer`, aspect `palate`: no file {heldout}.gz or {heldout}; no file {annotations}"
    )
    for part in (
        "`--data-dir`",
        "INFOCAL_DATA",
        "`python -m feature_store fetch --dataset beer",
        "`--sample`",
    ):
        assert part in str(caught.value.hint)


def test_the_folder_one_too_deep_is_noticed(corpus: Path):
    with pytest.raises(MissingDataError, match="no file .*beer/beer/annotations.json") as caught:
        BEER.inputs(corpus / "beer", "palate")
    assert str(caught.value.hint).startswith(f"did you mean `--data-dir {corpus}`?")


@pytest.mark.parametrize(
    ("given", "name"), [("aroma", "smell"), ("look", "appearance"), ("palate", "palate")]
)
def test_aliases(given: str, name: str):
    assert resolve_aspect(BEER, given) == name


def test_an_unknown_aspect_gets_a_suggestion():
    with pytest.raises(
        RequestError, match="no aspect `palete` in dataset `beer`; it has `appearance`, `smell`, `palate`"
    ) as caught:
        resolve_aspect(BEER, "palete")
    assert caught.value.hint == "did you mean `--aspect palate`?"


def test_an_aspect_is_needed():
    with pytest.raises(RequestError, match="dataset `beer` needs an aspect: `appearance`, `smell`, `palate`"):
        resolve_aspect(BEER, None)


def test_a_dataset_without_aspects_takes_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(BEER, "aspects", ())
    assert resolve_aspect(BEER, None) is None
    with pytest.raises(RequestError, match="dataset `beer` has no aspects, but got `palate`"):
        resolve_aspect(BEER, "palate")


def test_an_unknown_dataset_gets_a_suggestion():
    with pytest.raises(RequestError, match="no dataset `bear`; the data sets are `beer`") as caught:
        get_source("bear")
    assert caught.value.hint == "did you mean `--dataset beer`?"


# ------------------------------------------------------------------------------------- lines of other forms


def scores_and_tokens(path: Path) -> list[tuple[str, list[float], list[str]]]:
    found = read_reviews(path, 10**6)
    return [(place, scores, text.split(" ")) for f in found for place, scores, text in f.iter_rows()]


@pytest.mark.parametrize("block", [1, 40, 10_000])
def test_lines_in_another_form_are_read_beside_usual_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
):
    monkeypatch.setattr(lines_module, "_BLOCK_BYTES", block)
    path = tmp_path / "reviews.aspect2.heldout.txt"
    lines = [
        "0.1 0.2 0.3 0.4 0.5\ta beer .",
        " 1e-1  0.2 .3 +0.4 1\ta  thin \u00a0 one ",  # a no-break space is a token
        "1 1.0 0 0.0 1.\tx\ty",  # a second tab belongs to the token
        "0.1 0.2 0.3 0.4 0.5\t  the  last ",
    ]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    stem = "reviews.aspect2.heldout"
    assert scores_and_tokens(path) == [
        (f"{stem}:1", [0.1, 0.2, 0.3, 0.4, 0.5], ["a", "beer", "."]),
        (f"{stem}:2", [0.1, 0.2, 0.3, 0.4, 1.0], ["a", "thin", "\u00a0", "one"]),
        (f"{stem}:3", [1.0, 1.0, 0.0, 0.0, 1.0], ["x\ty"]),
        (f"{stem}:4", [0.1, 0.2, 0.3, 0.4, 0.5], ["the", "last"]),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("0.1 0.2 0.3 0.4\ta", "expected 5 scores, but got 4"),
        ("0.1 0.2 0.3 0.4 0.5 0.6\ta", "expected 5 scores, but got 6"),
        ("0.1 0.2 0.3 0.4 1.1\ta", r"expected a score in \[0, 1\], but got 1.1"),
        ("0.1 0.2 0.3 0.4 nan\ta", r"expected a score in \[0, 1\], but got nan"),
        ("0.1 0.2 0.3 0.4 1.2.3\ta", r"expected a score in \[0, 1\], but got '1.2.3'"),
        ("0.1 0.2 0.3 0.4 .\ta", r"expected a score in \[0, 1\], but got '.'"),
        ("0.1 0.2 0.3 0.4 0.5 a", "expected 5 scores, a tab and the tokens, but got no tab in"),
        ("0.1 0.2 0.3 0.4 0.5\t  ", "expected tokens after the tab, but got"),
        ("", "but got an empty line"),
    ],
)
def test_the_first_bad_line_is_named(tmp_path: Path, line: str, message: str):
    good = "0.1 0.2 0.3 0.4 0.5\ta b\n"
    (tmp_path / "f.txt").write_bytes(f"{good}{line}\n{good}0.1\tlater\n".encode() + b"\xff\n")
    with pytest.raises(BadInputError, match=f"f.txt:2: .*{message}"):
        scores_and_tokens(tmp_path / "f.txt")

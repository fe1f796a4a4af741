"""The source `hatexplain` on small made-up files: labels, rationales, groups, splits, and every mistake."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from feature_store.errors import BadInputError, MissingDataError, RequestError
from feature_store.sources.base import Example, Query, Report
from feature_store.sources.hatexplain import CLASS_NAMES, HateXplain
from feature_store.store import FeatureRequest, open_features

SOURCE = HateXplain()
TOXIC = ("hatespeech", "hatespeech", "offensive")


def post(
    labels: tuple[str, ...] = TOXIC,
    masks: Any = ((0, 1, 1, 0), (0, 1, 0, 0)),
    tokens: Any = ("a", "bad", "word", "here"),
    targets: tuple[Any, ...] = (["Dunefolk"], ["Dunefolk", "Other"], ["None"]),
    **changes: Any,
) -> dict[str, Any]:
    annotators = [
        {"label": label, "annotator_id": i, "target": target}
        for i, (label, target) in enumerate(zip(labels, targets, strict=True))
    ]
    made = {
        "annotators": annotators,
        "rationales": [list(mask) for mask in masks],
        "post_tokens": list(tokens),
    }
    return made | changes


NORMAL = post(("normal", "normal", "offensive"), (), ("all", "is", "well"), (["None"], ["None"], None))


def write(folder: Path, posts: Any, divisions: Any = None, **changes: list[str]) -> Path:
    """The two files; ids are divided in turn where nothing else is said."""
    if divisions is None:
        ids = list(posts)
        divisions = {"train": ids[0::3], "val": ids[1::3], "test": ids[2::3]} | changes
    (folder / "hatexplain").mkdir(exist_ok=True)
    for name, content in (("dataset.json", posts), ("post_id_divisions.json", divisions)):
        text = content if isinstance(content, str) else json.dumps(content, indent=1)
        (folder / "hatexplain" / name).write_text(text, encoding="utf-8")
    return folder


def read(folder: Path, gold: str = "union") -> tuple[dict[str, Example], Report]:
    report = Report()
    query = Query(inputs=SOURCE.inputs(folder, None), aspect=None, options={"gold": gold}, max_bytes=2**40)
    examples = SOURCE.examples(query, SOURCE.task(query, report), report)
    return {example.example_id: example for example in examples}, report


def only(folder: Path, one: dict[str, Any], gold: str = "union") -> tuple[Example, Report]:
    """That post as `p`, in `test`, beside a normal one in the other splits."""
    examples, report = read(
        write(folder, {"a": NORMAL, "b": NORMAL | {"post_tokens": ["x"]}, "p": one}), gold
    )
    return examples["p"], report


# -------------------------------------------------------------------------------------- what is read


def test_a_post_becomes_an_example(tmp_path: Path):
    found, report = only(tmp_path, post())
    assert found == Example(
        example_id="p",
        split="test",
        tokens=["a", "bad", "word", "here"],
        target=CLASS_NAMES.index("hatespeech"),
        rationale=[1, 2],
        groups=("Dunefolk",),
    )
    assert report.notes == []


def test_classes_are_in_the_official_order():
    assert SOURCE.task(Query(inputs={}, aspect=None, options={}, max_bytes=1), Report()).class_names == (
        "hatespeech",
        "normal",
        "offensive",
    )


def test_the_label_is_that_of_most_annotators(tmp_path: Path):
    found, _ = only(tmp_path, post(("normal", "offensive", "offensive")))
    assert CLASS_NAMES[int(found.target)] == "offensive"


def test_undecided_posts_are_dropped_counted_and_said(tmp_path: Path):
    undecided = post(("normal", "offensive", "hatespeech"))
    posts = {str(i): NORMAL | {"post_tokens": ["w", str(i)]} for i in range(3)} | {"u": undecided}
    examples, report = read(write(tmp_path, posts, train=["0"]))
    assert "u" not in examples
    assert report.counts["dropped_undecided"] == 1
    assert report.notes == ["1 post without a majority label: left out"]


def test_a_group_needs_two_annotators_and_none_is_no_group(tmp_path: Path):
    targets = (["Other", "None"], ["Other", "None"], ["Dunefolk"])
    assert only(tmp_path, post(targets=targets))[0].groups == ("Other",)
    assert only(tmp_path, post(targets=(None, None, ["Dunefolk"])))[0].groups == ()


# ---------------------------------------------------------------------------------------- rationales


@pytest.mark.parametrize(
    ("masks", "union", "majority"),
    [
        ([[0, 1, 1, 0], [0, 1, 0, 0]], [1, 2], [1]),
        ([[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]], [0, 1], [0, 1]),
        ([[0, 1, 1, 0]], [1, 2], [1, 2]),
        ([[0, 1, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]], [1, 2], [1]),
    ],
)
def test_union_and_majority(tmp_path: Path, masks: list[list[int]], union: list[int], majority: list[int]):
    assert only(tmp_path, post(masks=masks))[0].rationale == union
    assert only(tmp_path, post(masks=masks), "majority")[0].rationale == majority


def test_an_empty_mask_marks_nothing_and_is_said(tmp_path: Path):
    found, report = only(tmp_path, post(masks=([0, 1, 1, 0], [0, 0, 0, 0], [])))
    assert found.rationale == [1, 2]
    assert report.counts["test_empty_mask"] == 2
    assert report.notes == [
        "2 masks mark no token: each counts as an annotator who marked nothing (test 2; p, p)"
    ]


def test_a_mask_of_another_length_is_left_out_and_said(tmp_path: Path):
    found, report = only(tmp_path, post(masks=([0, 1, 1, 0], [1, 1, 1])))
    assert found.rationale == [1, 2]
    assert report.notes == ["1 mask has a different length than the post: left out (test 1; p)"]


def test_a_toxic_post_without_masks_is_not_annotated_and_said(tmp_path: Path):
    for one in (post(masks=()), post(rationales=None)):
        found, report = only(tmp_path, one)
        assert found.rationale is None
        expected = "toxic post has no rationale: left out of every score that needs one (test 1; p)"
        assert report.notes == [f"1 {expected}"]


def test_a_toxic_post_on_which_no_token_counts_as_marked_is_said(tmp_path: Path):
    found, report = only(tmp_path, post(masks=([1, 0, 0, 0], [0, 1, 0, 0])), "majority")
    assert found.rationale is None
    assert report.counts["test_toxic_without_marked_token"] == 1
    assert report.notes[0].startswith("1 toxic post has masks, but no token that counts as marked: left out")


def test_a_normal_post_has_no_rationale_even_where_one_annotator_marked_it(tmp_path: Path):
    found, report = only(tmp_path, NORMAL | {"rationales": [[0, 1, 0]]})
    assert found.rationale is None
    assert report.notes[0].startswith("1 normal post has a rationale: it is left out")


def test_notes_count_by_split_and_name_three_posts(tmp_path: Path):
    posts = {f"p{i}": post(masks=(), tokens=("t", str(i))) for i in range(7)}
    _, report = read(write(tmp_path, posts))
    assert report.counts["train_toxic_without_mask"] == 3
    assert report.notes[0].endswith("(train 3, val 2, test 2; p0, p1, p2, ...)")


def test_texts_of_several_splits_stay_and_are_counted(tmp_path: Path):
    posts = {"a": post(), "b": post(), "c": NORMAL}
    examples, report = read(write(tmp_path, posts))
    assert len(examples) == 3
    assert report.counts["texts_of_val_in_train"] == 1
    assert (
        "1 text of `val` is also in `train`: it is kept, so the scores on `val` are too high" in report.notes
    )
    reverse = write(tmp_path, posts, {"val": ["a"], "train": ["b"], "test": ["c"]})
    assert read(reverse)[1].counts["texts_of_val_in_train"] == 1, "whatever the order of the file"


# ------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"post_tokens": []}, "no tokens in `post_tokens`"),
        ({"post_tokens": ["a", ""]}, "expected a list of words as `post_tokens`"),
        ({"post_tokens": "a b"}, "expected a list of words as `post_tokens`, but got 'a b'"),
        ({"annotators": []}, r"expected a list of annotators, but got \[\]"),
        ({"annotators": [1]}, r"expected a list of annotators, but got \[1\]"),
        (
            {"annotators": [{"label": "rude", "target": None}]},
            "expected `hatespeech`, `normal`, `offensive` as `label`, but got 'rude'",
        ),
        ({"annotators": [{"target": None}]}, "expected .* as `label`, but got null"),
        (
            {"annotators": [{"label": "normal", "target": "Other"}]},
            "expected a list of groups or null as `target`, but got 'Other'",
        ),
        ({"post_tokens": ["\ud800"]}, "a token of `post_tokens` is not valid text"),
        (
            {"annotators": [{"label": "normal", "target": ["\ud800"]}]},
            "a group of `target` is not valid text",
        ),
        ({"rationales": [1]}, r"expected a list of masks as `rationales`, but got \[1\]"),
        ({"rationales": [[0, 2, 0, 0]]}, "expected a mask of 0 and 1 in `rationales`, but got 2"),
        ({"rationales": [[0, True, 0, 0]]}, "expected a mask of 0 and 1 in `rationales`, but got true"),
    ],
)
def test_a_bad_post_is_named_with_file_line_and_id(tmp_path: Path, changes: dict[str, Any], message: str):
    folder = write(tmp_path, {"a": NORMAL, "b": NORMAL, "p": post(**changes)})
    lines = (folder / "hatexplain" / "dataset.json").read_text().splitlines()
    line = next(i for i, text in enumerate(lines, start=1) if text.startswith(' "p"'))
    with pytest.raises(BadInputError, match=f"dataset.json:{line}, post `p`: {message}"):
        read(folder)


def test_a_post_that_is_no_object_lacks_a_key_or_stands_twice(tmp_path: Path):
    with pytest.raises(BadInputError, match="post `p`: expected a JSON object, but got 3"):
        only(tmp_path, 3)  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match="post `p`: no key `post_tokens`; the keys are `annotators`"):
        only(tmp_path, {"annotators": []})
    text = json.dumps({"a": NORMAL})
    folder = write(tmp_path, text[:-1] + ", " + text[1:], {"train": ["a"], "val": [], "test": []})
    with pytest.raises(BadInputError, match="post `a`: the post is in the file already"):
        read(folder)


def test_json_cut_in_the_middle_names_the_last_whole_post(tmp_path: Path):
    folder = write(tmp_path, {"a": NORMAL, "b": post(), "c": NORMAL})
    path = folder / "hatexplain" / "dataset.json"
    path.write_text(path.read_text()[: path.read_text().index('"c"') + 30])
    with pytest.raises(BadInputError, match=r"dataset.json:\d+: not a complete JSON .*after the member `b`"):
        read(folder)


def test_a_post_in_no_division(tmp_path: Path):
    folder = write(tmp_path, {"a": NORMAL, "b": post(), "c": NORMAL}, test=[])
    with pytest.raises(BadInputError, match="post `c` is in none of the divisions `train`, `val`, `test`"):
        read(folder)


def test_an_unknown_post_in_the_divisions(tmp_path: Path):
    folder = write(tmp_path, {"a": NORMAL, "b": post(), "c": NORMAL}, test=["c", "z", "y"])
    message = "post_id_divisions.json:8: 2 post ids are not in dataset.json; the first is `z` in `test`"
    with pytest.raises(BadInputError, match=message):
        read(folder)


@pytest.mark.parametrize(
    ("divisions", "message"),
    [
        ({"train": ["a"], "val": ["b"]}, "expected also a division `test`"),
        (
            {"train": ["a"], "dev": ["b"]},
            "post_id_divisions.json:5: expected `train`, `val`, `test` once each",
        ),
        ({"train": ["a"], "val": "b"}, "expected a list of post ids as `val`, but got 'b'"),
        ({"train": ["a"], "val": [1]}, r"expected a list of post ids as `val`, but got \[1\]"),
        ({"train": ["a"], "val": ["a"]}, "post `a` is in `val`, but in `train` already"),
        ('{"train": [], "train": []}', "once each, but got `train`"),
    ],
)
def test_bad_divisions(tmp_path: Path, divisions: Any, message: str):
    with pytest.raises(BadInputError, match=message):
        read(write(tmp_path, {"a": NORMAL, "b": post()}, divisions))


def test_missing_files_are_named_with_what_to_do(tmp_path: Path):
    with pytest.raises(
        MissingDataError, match="dataset `hatexplain`: no file .*dataset.json.gz or"
    ) as caught:
        SOURCE.inputs(tmp_path, None)
    assert "post_id_divisions.json" in str(caught.value)
    assert "fetch --dataset hatexplain" in str(caught.value.hint)


def test_the_files_may_be_zipped(tmp_path: Path, zipped: Callable[[Path], Path]):
    folder = write(tmp_path, {"a": NORMAL, "b": post(), "c": NORMAL})
    plain = read(folder)[0]
    for name in ("dataset.json", "post_id_divisions.json"):
        zipped(folder / "hatexplain" / name)
    assert read(folder)[0] == plain


def test_a_mistake_leaves_nothing_in_the_cache(tmp_path: Path, cache_dir: Path, leftovers: Any):
    folder = write(tmp_path, {"a": NORMAL, "b": post(), "c": post(post_tokens=[])})
    request = FeatureRequest(dataset="hatexplain", data_dir=folder, cache_dir=cache_dir, embedding="random")
    with pytest.raises(BadInputError, match="post `c`: no tokens"):
        open_features(request)
    assert leftovers() == []


def test_the_option_is_part_of_the_fingerprint(tmp_path: Path, cache_dir: Path):
    def features(**options: str) -> Any:
        return open_features(
            FeatureRequest(
                dataset="hatexplain", sample=True, cache_dir=cache_dir, embedding="random", options=options
            )
        )

    union, majority = features(gold="union"), features(gold="majority")
    assert features().fingerprint == union.fingerprint != majority.fingerprint
    assert union.table("test")["rationale"] != majority.table("test")["rationale"]
    with pytest.raises(RequestError, match="option `gold` of dataset `hatexplain` takes `union`, `majority`"):
        features(gold="any")

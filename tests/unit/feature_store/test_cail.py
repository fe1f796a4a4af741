"""The official files of CAIL2018: which are read, what each filter leaves out, and what is said of it."""

import gzip
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from feature_store.errors import BadInputError, MissingDataError
from feature_store.fingerprint import unit_interval
from feature_store.sources import get_source
from feature_store.store import FeatureRequest, open_features
from tests.unit.feature_store import cail_corpus as corpus
from tests.unit.feature_store.cail_corpus import cases, read, record, write, write_lists

THEFT, FRAUD = ("盗窃", 264), ("诈骗", 266)
BOTH = [*cases(*THEFT, 100), *cases(*FRAUD, 100)]


def split_sizes(data_dir: Path, **options: str) -> dict[str, int]:
    return dict(Counter(example.split for example in read(data_dir, **options)[0]))


def reasons(data_dir: Path, **options: str) -> dict[str, dict[str, int]]:
    """What the filters left out, without those that left out nothing."""
    dropped = read(data_dir, **options)[1].dropped
    return {reason: dict(counts) for reason, counts in dropped.items() if counts}


def test_a_case_becomes_an_example(tmp_path: Path):
    write(tmp_path, train=BOTH, val=[record()], test=[record(imprisonment=0)])
    examples, report, names = read(tmp_path)
    assert names == ("盗窃", "诈骗")
    first, last, val, test = examples[0], examples[199], examples[200], examples[201]
    assert (first.example_id, first.split, first.target) == ("data_train:1", "train", 0)
    assert (last.example_id, last.target) == ("data_train:200", 1)
    assert (val.example_id, val.split, test.split) == ("data_valid:1", "val", "test")
    assert val.tokens == ["被告人", "张某", "盗窃", "手机", "。"]
    assert {example.rationale for example in examples} == {None}
    assert report.counts["train_cases"] == 200


@pytest.mark.parametrize(
    ("aspect", "names", "target"),
    [("charges", ("盗窃", "诈骗"), 1), ("articles", ("264", "266"), 1), ("terms", None, 9)],
)
def test_each_aspect_has_its_classes(tmp_path: Path, aspect: str, names: tuple[str, ...] | None, target: int):
    write(tmp_path, train=BOTH, val=[record()], test=[record()])
    examples, _, found = read(tmp_path, aspect=aspect)
    assert found == names or (names is None and len(found) == 11)
    assert examples[199].target == target


def test_the_recipe_decides_the_class_of_a_term(tmp_path: Path):
    write(tmp_path, train=BOTH, val=[record()], test=[record()])
    by_recipe = [read(tmp_path, aspect="terms", recipe=name)[0][0].target for name in ("topjudge", "infocal")]
    assert by_recipe == [9, 8]  # six months


def test_classes_are_in_order_whatever_the_files_order_is(tmp_path: Path):
    train = [*cases("甲罪", 401, 100), *cases("乙罪", 133, 100)]
    write(tmp_path, train=train, val=[train[0]], test=[train[0]])
    assert read(tmp_path, aspect="articles")[2] == ("133", "401")
    assert read(tmp_path, aspect="charges")[2] == ("乙罪", "甲罪")


# -------------------------------------------------------------------------------------------------- filters


@pytest.mark.parametrize(
    ("odd", "reason"),
    [
        (record(accusation=[]), "with no charge or several"),
        (record(accusation=["盗窃", "诈骗"]), "with no charge or several"),
        (record(relevant_articles=[]), "with no article or several"),
        (record(relevant_articles=[264, 266]), "with no article or several"),
        (record(relevant_articles=[67]), "with an article outside 102-452"),
        (record(accusation=["放火"]), "with a charge of fewer than 100 cases"),
        (record(relevant_articles=[114]), "with an article of fewer than 100 cases"),
    ],
)
@pytest.mark.parametrize("recipe", ["topjudge", "infocal"])
def test_what_a_filter_leaves_out_is_counted_in_its_split(
    tmp_path: Path, odd: dict[str, Any], reason: str, recipe: str
):
    write(tmp_path, train=[*BOTH, odd], val=[record(), odd, odd], test=[record(), odd])
    assert reasons(tmp_path, recipe=recipe) == {reason: {"train": 1, "val": 2, "test": 1}}
    assert split_sizes(tmp_path, recipe=recipe) == {"train": 200, "val": 1, "test": 1}
    assert read(tmp_path, recipe=recipe)[1].counts["val_dropped"] == 2


def test_several_defendants_are_left_out_by_one_recipe(tmp_path: Path):
    several = record(criminals=["张某", "李某"])
    write(tmp_path, train=[*BOTH, several], val=[record()], test=[several])
    assert reasons(tmp_path, recipe="topjudge") == {}
    assert reasons(tmp_path, recipe="infocal") == {"with several defendants": {"train": 1, "test": 1}}


def test_a_charge_of_a_hundred_cases_is_kept_and_of_99_is_not(tmp_path: Path):
    train = [*BOTH, *cases("放火", 114, 100), *cases("抢劫", 263, 99)]
    write(tmp_path, train=train, val=[record()], test=[record()])
    assert read(tmp_path)[2] == ("放火", "盗窃", "诈骗")
    assert reasons(tmp_path) == {"with a charge of fewer than 100 cases": {"train": 99}}


def test_who_is_counted_for_a_rare_label_depends_on_the_recipe(tmp_path: Path):
    fire = cases("放火", 114, 100)
    write(tmp_path, train=[*BOTH, *fire[:60]], val=[record(), *fire[60:80]], test=[record(), *fire[80:]])
    assert read(tmp_path, recipe="topjudge")[2] == ("放火", "盗窃", "诈骗")
    assert read(tmp_path, recipe="infocal")[2] == ("盗窃", "诈骗")
    rare = {"with a charge of fewer than 100 cases": {"train": 60, "val": 20, "test": 20}}
    assert reasons(tmp_path, recipe="infocal") == rare


def test_only_cases_that_pass_the_first_filters_count_for_a_label(tmp_path: Path):
    fire = [*cases("放火", 114, 99), record(accusation=["放火", "盗窃"], relevant_articles=[114])]
    write(tmp_path, train=[*BOTH, *fire], val=[record()], test=[record()])
    assert read(tmp_path)[2] == ("盗窃", "诈骗")


def test_a_label_that_no_case_of_train_has_is_no_class(tmp_path: Path):
    write(tmp_path, train=BOTH, val=[record()], test=[record(), *cases("放火", 114, 100)])
    assert read(tmp_path)[2] == ("盗窃", "诈骗")
    gone = "with a charge or an article that is in no case of train"
    assert reasons(tmp_path) == {gone: {"test": 100}}


def test_the_notes_tell_what_was_kept_and_dropped(tmp_path: Path):
    write_lists(tmp_path, ["盗窃", "诈骗"], [264, 266])
    write(tmp_path, train=[*BOTH, record(accusation=[])], val=[record("甲")], test=[record("乙")])
    assert read(tmp_path)[1].notes == [
        "recipe `topjudge` keeps 200 of 201 train cases, 1 of 1 val cases, 1 of 1 test cases, "
        "with 2 charges, 2 articles",
        "dropped: 1 with no charge or several",
    ]


def test_one_class_is_nothing_to_learn(tmp_path: Path):
    write(tmp_path, train=cases(*THEFT, 100), val=[record()], test=[record()])
    message = "expected at least 2 classes, but recipe `topjudge` keeps only .* 100 cases: 1 charge and 1"
    with pytest.raises(BadInputError, match=message):
        read(tmp_path)


# --------------------------------------------------------------------------------------------- texts, labels


def test_labels_may_come_bracketed(tmp_path: Path):
    bracketed = record(accusation=["[盗窃]"], relevant_articles=["[264]"])
    partly = record(accusation=["[制造、贩卖]枪支"], relevant_articles=["264"])
    write_lists(tmp_path, ["盗窃", "诈骗", "[制造、贩卖]枪支"], [264, 266])
    write(tmp_path, train=[*BOTH, bracketed, partly], val=[bracketed], test=[record()])
    assert reasons(tmp_path) == {"with a charge of fewer than 100 cases": {"train": 1}}
    assert split_sizes(tmp_path) == {"train": 201, "val": 1, "test": 1}


def test_a_label_that_stands_twice_is_one_label(tmp_path: Path):
    twice = record(accusation=["盗窃", "[盗窃]"], relevant_articles=[264, 264])
    write(tmp_path, train=[*BOTH, twice], val=[record()], test=[record()])
    assert reasons(tmp_path) == {}


def test_texts_that_splits_share_are_left_there_and_counted(tmp_path: Path):
    train_text = BOTH[0]["fact"]
    write(
        tmp_path,
        train=BOTH,
        val=[record(train_text), record()],
        test=[record(train_text), record(train_text)],
    )
    examples, report, _ = read(tmp_path)
    assert len(examples) == 204
    assert (report.counts["val_also_in_train"], report.counts["test_also_in_train"]) == (1, 2)
    assert "texts that also occur in train (kept, as in the official files): 1 of val and 2 of test" in (
        report.notes
    )


def test_white_space_is_no_word(tmp_path: Path):
    write(tmp_path, train=BOTH, val=[record("被告人\r\n  盗窃\u3000手机")], test=[record()])
    assert read(tmp_path)[0][200].tokens == ["被告人", "盗窃", "手机"]


def test_stop_words_are_left_out_and_a_text_of_them_alone_is_dropped(tmp_path: Path):
    stop_words = tmp_path / "stop.txt"
    stop_words.write_text("。\n被告人\n\n的\n", encoding="utf-8")
    write(tmp_path, train=BOTH, val=[record()], test=[record(), record("被告人。")])
    examples, _, _ = read(tmp_path, stop_words=str(stop_words))
    assert examples[200].tokens == ["张某", "盗窃", "手机"]
    gone = "without a word after the stop words are removed"
    assert reasons(tmp_path, stop_words=str(stop_words)) == {gone: {"test": 1}}


def test_a_dictionary_of_ones_own(tmp_path: Path):
    dictionary = tmp_path / "words.txt"
    dictionary.write_text("盗窃手机 100000 n\n", encoding="utf-8")
    write(tmp_path, train=BOTH, val=[record()], test=[record()])
    assert read(tmp_path, dictionary=str(dictionary))[0][200].tokens == ["被告人", "张某", "盗窃手机", "。"]


# ---------------------------------------------------------------------------------------------------- files


def test_val_of_the_big_one_is_cut_by_a_hash_of_the_text(tmp_path: Path):
    write(tmp_path, "cail-big", train=[*cases(*THEFT, 300), *cases(*FRAUD, 300)], test=[record()])
    examples, report, _ = read(tmp_path, "cail-big")
    facts = {
        f"train:{i + 1}": f"第{i % 300}号案件，被告人犯{'盗窃' if i < 300 else '诈骗'}罪。"
        for i in range(600)
    }
    for example in examples:
        if example.split != "test":
            assert example.split == ("val" if unit_interval(facts[example.example_id]) < 0.1 else "train")
    assert 30 <= sum(example.split == "val" for example in examples) <= 90
    assert "no official validation file: val is cut from train.json, 90/10" in report.notes


def test_labels_of_the_big_one_are_counted_before_val_is_cut(tmp_path: Path):
    write(tmp_path, "cail-big", train=BOTH, test=[record()])
    for recipe in ("topjudge", "infocal"):
        assert read(tmp_path, "cail-big", recipe=recipe)[2] == ("盗窃", "诈骗")


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030"])
def test_encodings(tmp_path: Path, encoding: str, pack: bool):
    folder = write(tmp_path, train=BOTH, val=[record()], test=[record()])
    content = (folder / "data_valid.json").read_text(encoding="utf-8").encode(encoding)
    (folder / "data_valid.json").unlink()
    path = folder / ("data_valid.json.gz" if pack else "data_valid.json")
    path.write_bytes(gzip.compress(content) if pack else content)
    assert read(tmp_path)[0][200].tokens == ["被告人", "张某", "盗窃", "手机", "。"]


@pytest.mark.parametrize("root", ["cail2018", "CAIL2018_ALL_DATA", "", "cail-small"])
def test_where_the_archive_may_lie(tmp_path: Path, root: str):
    write(tmp_path, train=BOTH, val=[record()], test=[record()])
    goal = tmp_path / "elsewhere" / root
    goal.mkdir(parents=True)
    (tmp_path / "cail2018" / "final_all_data").rename(goal / "final_all_data")
    inputs = get_source("cail-small").inputs(tmp_path / "elsewhere", "charges")
    folder = goal / "final_all_data" / "exercise_contest"
    assert inputs == {split: folder / name for split, name in corpus.SMALL.items()}


def test_missing_files_are_named(tmp_path: Path):
    folder = write(tmp_path, train=BOTH, test=[record()])
    with pytest.raises(
        MissingDataError, match=f"dataset `cail-small`: no file {folder}/data_valid.json$"
    ) as caught:
        read(tmp_path)
    assert "CAIL2018_ALL_DATA.zip" in str(caught.value.hint) and "`--sample`" in str(caught.value.hint)
    with pytest.raises(MissingDataError, match="first_stage/train.json; no file .*first_stage/test.json"):
        read(tmp_path, "cail-big")


def test_missing_lists_are_said(tmp_path: Path):
    write(tmp_path, train=BOTH, val=[record()], test=[record()])
    notes = read(tmp_path)[1].notes
    assert notes[:2] == [
        "no meta/accu.txt: labels are not compared with that official list",
        "no meta/law.txt: labels are not compared with that official list",
    ]


# ------------------------------------------------------------------------------------------------ bad input


def without(name: str) -> dict[str, Any]:
    """A record that lacks a key of `meta` or of the term."""
    made = record()
    made["meta"]["term_of_imprisonment"].pop(name, None)
    made["meta"].pop(name, None)
    return made


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"fact": "被告人', "not JSON: Unterminated string"),
        ("[1]", r"expected a JSON object, but got \[1\]"),
        ({"meta": record()["meta"]}, r"no key `fact`; the keys are `meta`$"),
        ({"fact": "事实"}, "no key `meta`"),
        (record(""), "expected a text as `fact`, but it is empty"),
        (record(" \n\u3000"), "expected a text as `fact`, but it is empty"),
        ({**record(), "fact": None}, "expected text as `fact`, but got null"),
        ({**record(), "fact": ["事实"]}, r"expected text as `fact`, but got \['事实'\]"),
        ('{"fact": "\\ud800", "meta": {}}', "no key `accusation` in `meta`"),
        ({**record(), "meta": []}, r"expected an object as `meta`, but got \[\]"),
        (without("accusation"), "no key `accusation` in `meta`; the keys are"),
        (without("relevant_articles"), "no key `relevant_articles` in `meta`"),
        (without("criminals"), "no key `criminals` in `meta`"),
        (without("term_of_imprisonment"), "no key `term_of_imprisonment` in `meta`"),
        (without("imprisonment"), "no key `imprisonment` in `term_of_imprisonment`"),
        (record(accusation="盗窃"), "expected a list as `accusation`, but got '盗窃'"),
        (record(accusation=[5]), "expected a charge's name in `accusation`, but got 5"),
        (record(accusation=["[]"]), r"expected a charge's name in `accusation`, but got '\[\]'"),
        (record(relevant_articles=264), "expected a list as `relevant_articles`, but got 264"),
        (record(relevant_articles=["盗窃"]), "expected the number of an article, but got '盗窃'"),
        (record(relevant_articles=[True]), "expected the number of an article, but got true"),
        (record(relevant_articles=[2.5]), "expected the number of an article, but got 2.5"),
        (record(relevant_articles=["9" * 5000]), "expected the number of an article, but got '99999"),
        (record(relevant_articles=[10**12]), "expected the number of an article, but got 1000000000000"),
        (record(criminals="张某"), "expected a list as `criminals`, but got '张某'"),
        (record(imprisonment=-1), "expected a number of months as `imprisonment`, but got -1"),
        (record(imprisonment="6"), "expected a number of months as `imprisonment`, but got '6'"),
        (record(imprisonment=True), "expected a number of months as `imprisonment`, but got true"),
        (record(death_penalty=0), "expected true or false as `death_penalty`, but got 0"),
        (record(life_imprisonment="no"), "expected true or false as `life_imprisonment`, but got 'no'"),
        (record(accusation=["盗窍"]), "charge `盗窍` is not one of the 2 entries of the official list"),
        (record(relevant_articles=[265]), "article `265` is not one of the 2 entries of the official list"),
    ],
)
def test_a_bad_line_is_named(
    tmp_path: Path, cache_dir: Path, leftovers: Any, line: dict[str, Any] | str, message: str
):
    write_lists(tmp_path, ["盗窃", "诈骗"], [264, 266])
    write(tmp_path, train=BOTH, val=[record(), record(), line, record()], test=[record()])
    request = FeatureRequest(dataset="cail-small", aspect="terms", data_dir=tmp_path, cache_dir=cache_dir)
    for _ in range(2):
        with pytest.raises(BadInputError, match=f"data_valid.json:3: {message}"):
            open_features(request)
        assert leftovers() == []


def test_text_that_is_no_text(tmp_path: Path):
    line = corpus.as_text([record("事实")]).strip().replace("事实", "\\ud800")
    write(tmp_path, train=BOTH, val=[line], test=[record()])
    with pytest.raises(BadInputError, match="data_valid.json:1: `fact` is not valid text"):
        read(tmp_path)


def test_a_label_near_one_of_the_list_is_guessed(tmp_path: Path):
    write_lists(tmp_path, ["盗窃", "诈骗", "交通肇事"], [264, 266])
    write(tmp_path, train=BOTH, val=[record(accusation=["交通事"])], test=[record()])
    with pytest.raises(BadInputError, match="charge `交通事`") as caught:
        read(tmp_path)
    assert caught.value.hint == "did you mean `交通肇事`?"


@pytest.mark.parametrize(("first", "second"), [("utf-8", "gb18030"), ("gb18030", "utf-8")])
def test_mixed_encodings_are_named(tmp_path: Path, first: str, second: str):
    folder = write(tmp_path, train=BOTH, val=[record()], test=[record()])
    line = corpus.as_text([record()])
    content = b"".join(line.encode(encoding) for encoding in (first, first, second))
    (folder / "data_valid.json").write_bytes(content)
    message = (
        f"data_valid.json:3: this line is {second.upper()}, but line 1 is {first.upper()}: mixed encodings"
    )
    with pytest.raises(BadInputError, match=message) as caught:
        read(tmp_path)
    assert caught.value.hint == "write the file again in one encoding"


def test_bytes_of_no_encoding(tmp_path: Path):
    folder = write(tmp_path, train=BOTH, val=[record()], test=[record()])
    (folder / "data_test.json").write_bytes(b'{"fact": "\xff\xff"}\n')
    message = "data_test.json:1: not UTF-8 and not GB18030: byte 0xff at position 10 of the line"
    with pytest.raises(BadInputError, match=message):
        read(tmp_path)


@pytest.mark.parametrize("separator", [" ", "\t", "\t\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_dictionary_of_any_layout_says_what_it_did(tmp_path: Path, separator: str, end: str):
    dictionary, stop_words = tmp_path / "words.txt", tmp_path / "stop.txt"
    lines = [separator.join(["盗窃手机", "100000", "n"]), "从未,如此"]
    dictionary.write_bytes(("\ufeff" + "".join(line + end for line in lines)).encode())
    stop_words.write_bytes(f"的{end}被告人{end}从未 如此{end}".encode())
    write(tmp_path, train=BOTH, val=[record()], test=[record()])
    examples, report, _ = read(tmp_path, dictionary=str(dictionary), stop_words=str(stop_words))
    assert examples[200].tokens == ["张某", "盗窃手机", "。"]
    assert "dictionary: 1 of 2 words occur in the texts; 1 has no effect, because" in "\n".join(report.notes)
    assert any(n.startswith("stop words: ") and "1 has no effect" in n for n in report.notes)


def test_a_dictionary_with_a_frequency_of_nothing(tmp_path: Path):
    dictionary = tmp_path / "words.txt"
    dictionary.write_text("手机\n盗窃 0 v\n", encoding="utf-8")
    write(tmp_path, train=BOTH, val=[record()], test=[record()])
    message = r"words.txt:2: expected a frequency of at least 1 .*, but got '盗窃 0 v'"
    with pytest.raises(BadInputError, match=message):
        read(tmp_path, dictionary=str(dictionary))


# ----------------------------------------------------------------------------------------- cutting only once


def test_aspects_recipes_and_stop_words_share_the_cut_texts(
    tmp_path: Path, cache_dir: Path, caplog: pytest.LogCaptureFixture
):
    stop_words = tmp_path / "stop.txt"
    stop_words.write_text("。\n", encoding="utf-8")
    write(tmp_path, train=BOTH, val=[record("甲盗窃")], test=[record("乙盗窃")])
    caplog.set_level("INFO", "feature_store")

    def build(aspect: str, **options: str) -> str:
        request = FeatureRequest(
            dataset="cail-small",
            aspect=aspect,
            data_dir=tmp_path,
            cache_dir=cache_dir,
            options=options,
            embedding="random",
            embedding_size=4,
        )
        return open_features(request).fingerprint

    keys = {
        build("charges"),
        build("articles"),
        build("articles", recipe="infocal"),
        build("articles", stop_words=str(stop_words)),
    }
    assert len(keys) == 4
    cut = [line for line in caplog.messages if line.startswith("cutting the")]
    assert cut == [
        f"cutting the {n} of {corpus.SMALL[s]} into words"
        for s, n in (("train", "200 texts"), ("val", "1 text"), ("test", "1 text"))
    ]
    dictionary = tmp_path / "words.txt"
    dictionary.write_text("盗窃手机\n", encoding="utf-8")
    build("charges", dictionary=str(dictionary))
    assert len([line for line in caplog.messages if line.startswith("cutting the")]) == 6


def test_users_files_travel_with_the_features(tmp_path: Path, cache_dir: Path):
    stop_words = tmp_path / "stop.txt"
    stop_words.write_text("。\r\n的\n", encoding="utf-8")
    write(tmp_path, train=BOTH, val=[record()], test=[record()])
    request = FeatureRequest(
        dataset="cail-small",
        aspect="charges",
        data_dir=tmp_path,
        cache_dir=cache_dir,
        options={"stop_words": str(stop_words)},
        embedding="random",
        embedding_size=4,
    )
    features = open_features(request)
    assert features.tokenizer_files == {"stop_words": "。\n的\n"}
    assert open_features(request, verify=True).tokenizer_files == features.tokenizer_files


def test_characters_without_width_split_no_word_of_a_case(tmp_path: Path):
    hidden = record("\ufeff被告人张某盗\u200b窃手\u00ad机。\u200b")
    write(tmp_path, train=BOTH, val=[record()], test=[hidden])
    examples, _, _ = read(tmp_path)
    assert examples[-1].tokens == examples[200].tokens == ["被告人", "张某", "盗窃", "手机", "。"]


def test_a_case_without_a_visible_character_is_named(tmp_path: Path):
    write(tmp_path, train=BOTH, val=[record()], test=[record("\u200b\ufeff")])
    with pytest.raises(BadInputError, match=r"data_test.json:1: expected a text as `fact`, but it is empty"):
        read(tmp_path)


def test_stop_words_may_have_a_count_behind_a_tab(tmp_path: Path):
    stop_words = tmp_path / "stop.txt"
    stop_words.write_text("。\t12\n被告人\t3\tn\n", encoding="utf-8")
    write(tmp_path, train=BOTH, val=[record()], test=[record()])
    examples, report, _ = read(tmp_path, stop_words=str(stop_words))
    assert examples[200].tokens == ["张某", "盗窃", "手机"]
    assert "stop words: 2 of 2 entries occur in the texts" in report.notes

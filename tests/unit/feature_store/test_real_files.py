"""Files as other programs and people write them: read as they are meant, and what is odd is said aloud."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from feature_store import embeddings
from feature_store.errors import BadInputError, RequestError
from feature_store.masks import read_masks
from feature_store.sources import labels
from feature_store.sources.base import Example, Report
from feature_store.sources.lines import parse_record
from feature_store.store import FeatureRequest, Features, open_features
from feature_store.tokenize import TOKENIZERS, Token, tokenize
from feature_store.vocabulary import Vocabulary
from tests.own_corpora import eraser_records, own_records, read_all, write_eraser, write_lines, write_own

CLASSIFICATION = 'kind = "classification"\n'
REGRESSION = 'kind = "regression"\nscore_range = [1, 5]\n'

TICKETS = [
    {"text": "I was charged twice for May.\nPlease refund me!", "label": "billing"},
    {"text": "The app crashes 💥 when I open settings, each time I try.", "label": "technical"},
    {"text": "My invoice shows the wrong amount.\n\nWhy?", "label": "billing"},
    {
        "text": "Since the update the screen stays black 🖤 all day, every day, for a week.",
        "label": "technical",
    },
]
CHINESE = [
    {"text": "手机屏幕很清晰，电池也很耐用，非常满意。", "label": "好评"},
    {"text": "物流太慢了，包装破损，客服态度很差。", "label": "差评"},
    {"text": "iPhone 拍照效果不错，值得购买。", "label": "好评"},
    {"text": "用了两天就坏了，再也不会买这个牌子。", "label": "差评"},
]
JAPANESE = [
    {"text": "電池がすぐ切れてしまいます。", "label": "差评"},
    {"text": "とても満足しています。", "label": "好评"},
]
THAI = [{"text": "สินค้าดีมากส่งเร็ว", "label": "好评"}, {"text": "แบตหมดเร็วไม่ชอบเลย", "label": "差评"}]


def write(folder: Path, lines: Sequence[dict[str, Any]], task: str = CLASSIFICATION) -> Path:
    return write_own(folder, dict.fromkeys(("train", "val", "test"), lines), task)


def said(folder: Path, name: str = "jsonl") -> list[str]:
    report: Report = read_all(name, folder)[2]
    return [note for note in report.notes if "are also in" not in note]


def train(folder: Path) -> list[Example]:
    return [example for example in read_all("jsonl", folder)[0] if example.split == "train"]


def built(folder: Path, cache_dir: Path, **settings: Any) -> Features:
    chosen = {"embedding": "random", "embedding_size": 4} | settings
    return open_features(FeatureRequest(dataset="jsonl", data_dir=folder, cache_dir=cache_dir, **chosen))


# ------------------------------------------------------------------------------------------------ spans


def marked(lines: Sequence[dict[str, Any]], phrases: Sequence[str], form: str) -> list[dict[str, Any]]:
    """The lines with a span for each phrase, counted as a program with another form of text would."""
    records = []
    for line, phrase in zip(lines, phrases, strict=True):
        start = line["text"].index(phrase)
        edges = []
        for edge in (start, start + len(phrase)):
            before = line["text"][:edge]
            edges.append(
                {
                    "as it is": len(before),
                    "crlf": len(before.replace("\n", "\r\n")),
                    "lf": len(before.replace("\r\n", "\n")),
                    "utf-16": len(before.encode("utf-16-le")) // 2,
                    "utf-8": len(before.encode()),
                }[form]
            )
        records.append(line | {"rationale": [edges]})
    return records


PHRASES = ["refund me", "open settings", "wrong amount", "all day"]


@pytest.mark.parametrize(
    ("form", "num", "hint"),
    [
        ("crlf", 1, r"If a line end counted as two characters (`\r\n`), all spans fit. "),
        ("utf-16", 2, "If characters were counted as UTF-16 units (Java, JavaScript, C#), all spans fit. "),
        ("utf-8", 2, "If bytes of UTF-8 were counted (Go, Rust, C), all spans fit. "),
    ],
)
def test_spans_counted_on_another_form_of_the_text(tmp_path: Path, form: str, num: int, hint: str):
    (_, train_note, *_) = notes = said(write(tmp_path, marked(TICKETS, PHRASES, form)))
    (note,) = [note for note in notes if note.startswith("train.jsonl: ")]
    verbs = "begins or ends" if num == 1 else "begin or end"
    assert note.startswith(f"train.jsonl: {num} of 4 spans {verbs} inside a word or on a blank. ")
    assert hint in note
    assert train_note


def test_spans_counted_without_the_returns_of_a_text(tmp_path: Path):
    lines = [{"text": f"Dear all,\r\nit is {w} again.\r\nBye {w}", "label": w} for w in ("slow", "loud")]
    records = marked(lines, ["slow again", "loud again"], "lf")
    (note,) = [note for note in said(write(tmp_path, records)) if note.startswith("test.jsonl: ")]
    assert note.startswith(
        r"test.jsonl: 2 of 2 spans begin or end inside a word or on a blank. If a line end `\r\n` counted as "
        "one character, all spans fit. Count the characters"
    )


def test_spans_that_fit_are_not_mentioned(tmp_path: Path):
    assert not [n for n in said(write(tmp_path, marked(TICKETS, PHRASES, "as it is"))) if "spans" in n]


def test_a_few_careless_spans_are_counted_without_a_guess(tmp_path: Path):
    lines = marked(TICKETS, ["efund me", "open settings", "wrong ", "all day"], "as it is")
    (note,) = [note for note in said(write(tmp_path, lines)) if note.startswith("val.jsonl: ")]
    assert note.endswith(
        "2 of 4 spans begin or end inside a word or on a blank; every token that a span touches "
        "counts as marked"
    )


def test_a_span_beyond_the_text_is_refused_with_the_form_in_which_it_fits(tmp_path: Path):
    text = "Line one\nline two\nline three is red"
    lines = [*TICKETS, {"text": text, "label": "billing", "rationale": [[34, 37]]}]
    with pytest.raises(
        BadInputError, match=r"train.jsonl:5: span \[34, 37\] .* the text's 35 char"
    ) as caught:
        train(write(tmp_path, lines))
    assert caught.value.hint is not None
    assert caught.value.hint.startswith(
        "count the characters of the text as it is in the file: these spans would fit if a line end counted "
        "as two characters"
    )


# --------------------------------------------------------------------------------------------- classes


def test_classes_are_listed_and_blanks_around_them_left_out(tmp_path: Path):
    lines = [
        *TICKETS,
        {"text": "Twice again.", "label": "billing "},
        {"text": "Black.", "label": "\ttechnical"},
    ]
    folder = write(tmp_path, lines)
    assert read_all("jsonl", folder)[1].class_names == ("billing", "technical")
    assert said(folder) == [
        "2 classes in train.jsonl: `billing` 3, `technical` 3",
        "blanks around 6 labels are removed",
    ]


def test_nearly_equal_names_stay_and_are_said(tmp_path: Path):
    names = ["billing", "Billing", "late fee", "late_fee", "café", "cafe\u0301", "1", "01", "other"]
    lines = [{"text": f"text {i}", "label": name} for i, name in enumerate(names)]
    folder = write(tmp_path, lines)
    assert set(read_all("jsonl", folder)[1].class_names or ()) == set(names)
    near = [note for note in said(folder) if "nearly equal" in note]
    assert len(near) == 4
    assert any(
        "`Billing` (1 text), `billing` (1 text); check that they are different classes" in note
        for note in near
    )


def groups_of(*names: str) -> list[set[str]]:
    return [set(group) for group in labels._nearly_equal(names)]


@pytest.mark.parametrize(
    "names",
    [
        ("Delivery", "Delivery."),
        ("Cafe", "café"),
        ("email", "e-mail", "E-Mail", "e mail"),
        ("R\u0435fund", "Refund"),
        ("\u0421\u041e\u0420", "COP", "cop"),
        ("\u0391lpha", "Alpha"),
        ("caf\u00e9", "cafe\u0301"),
        ("«quoted»", '"quoted"', "quoted"),
        ("late fee", "late_fee", "late - fee", "latefee"),
        ("ｆｕｌｌ", "full"),
        ("\u2764", "\u2764\ufe0f"),
        ("1", "01", "+1", "1.0"),
        ("why?", "Why"),
    ],
)
def test_names_that_may_be_one(names: tuple[str, ...]):
    assert groups_of("other", *names) == [set(names)]


@pytest.mark.parametrize(
    "names",
    [
        ("-1", "0", "1"),
        ("\u22121", "1"),
        ("-0.5", "0.5", "5", "05.5"),
        ("1.5", "15", "1.05", "1 5"),
        ("grade -1", "grade 1"),
        ("A", "A+", "A-"),
        ("C", "C#", "C++"),
        ("v1.05", "v1.5", "v15"),
        ("<5", ">5", "5%"),
        ("कि", "की", "कु"),
        ("が", "か"),
        ("酒店", "酒"),
        ("1/2", "12"),
        (":", "?", "!"),
    ],
)
def test_names_that_are_different(names: tuple[str, ...]):
    assert groups_of(*names) == []


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (
            ("caf\u00e9", "cafe\u0301"),
            "`café` in code points `caf\\u00e9` (1 text), `cafe\u0301` in code points ",
        ),
        (
            ("R\u0435fund", "Refund"),
            "`Refund` (1 text), `R\u0435fund` in code points `R\\u0435fund` (1 text)",
        ),
        (("Billing", "billing"), "`Billing` (1 text), `billing` (1 text);"),
    ],
)
def test_names_that_look_alike_are_told_apart(tmp_path: Path, names: tuple[str, ...], shown: str):
    lines = [{"text": f"text {i}", "label": name} for i, name in enumerate(names)]
    (near,) = [note for note in said(write(tmp_path, lines)) if "nearly equal" in note]
    assert all(part in near for part in shown.split(", "))


def test_numbered_names_are_not_nearly_equal(tmp_path: Path):
    names = ["c1", "c10", "c11", "c100", "c101", "topic 20", "topic 2", "c01"]
    folder = write(tmp_path, [{"text": f"text {i}", "label": name} for i, name in enumerate(names)])
    (near,) = [note for note in said(folder) if "nearly equal" in note]
    assert "`c01` (1 text), `c1` (1 text)" in near


def test_an_array_in_place_of_lines_is_named(tmp_path: Path):
    (tmp_path / "lines.jsonl").write_text('[\n {"text": "a"}\n]\n')
    with pytest.raises(BadInputError, match="not JSON") as caught:
        parse_record("[", "lines.jsonl:1", ())
    assert caught.value.hint == "write one JSON object on each line instead of one array"


def test_many_classes_are_listed_by_their_size(tmp_path: Path):
    lines = [{"text": f"{i} {j}", "label": f"k{i}"} for i in range(30) for j in range(i + 1)]
    (note, *_) = said(write(tmp_path, lines))
    assert note.startswith("30 classes in train.jsonl: `k29` 30, `k28` 29, ")
    assert note.endswith("`k10` 11, and 10 with fewer")


@pytest.mark.parametrize("write_down", [int, float, str])
def test_whole_numbers_as_names_stand_in_their_order(tmp_path: Path, write_down: Any):
    lines = [{"text": f"text {i}", "label": write_down(i)} for i in (10, 2, -1, 4)]
    task = read_all("jsonl", write(tmp_path, lines))[1]
    wanted = (
        ("-1", "2", "4", "10") if write_down is not str else tuple(sorted(["-1", "2", "4", "10"], key=int))
    )
    assert task.class_names == wanted


def test_stated_names_may_have_blanks_and_numbers_too(tmp_path: Path):
    folder = write(
        tmp_path,
        [{"text": f"t {i}", "label": i} for i in (1.0, 2)],
        'kind = "classification"\nclasses = [2.0, " 1 "]\n',
    )
    examples, task, _ = read_all("jsonl", folder)
    assert task.class_names == ("2", "1")
    assert [example.target for example in examples[:2]] == [1, 0]


def test_a_blank_label_is_refused(tmp_path: Path):
    with pytest.raises(
        BadInputError, match="train.jsonl:2: expected a name as `label`, but got the blank text ' '"
    ):
        train(write(tmp_path, [TICKETS[0], TICKETS[1] | {"label": " "}]))


def test_classes_of_eraser(tmp_path: Path):
    records = eraser_records()
    for lines in records.values():
        for line in lines:
            line["classification"] = {"POS": "10", "NEG": 9.0}[line["classification"]]
    folder = write_eraser(tmp_path, records)
    assert read_all("eraser", folder)[1].class_names == ("9", "10")
    assert said(folder, "eraser") == ["2 classes in train.jsonl: `9` 2, `10` 1"]


# ------------------------------------------------------------------------------------------ long texts


def test_what_long_texts_lose_is_said(tmp_path: Path, cache_dir: Path):
    def line(number: int, *positions: int) -> dict[str, Any]:
        mask = [int(i in positions) for i in range(30)]
        return {"tokens": [f"w{number}"] * 30, "label": "ab"[number % 2], "rationale": mask}

    lines = [line(0, 1, 2), line(1, 8, 12), line(2, 15, 20), line(3), {"text": "short", "label": "a"}]
    features = built(write(tmp_path / "data", lines), cache_dir, max_length=10)
    (note,) = [note for note in features.notes if "longer than" in note]
    assert note == (
        "4 of 5 texts of `train` are longer than 10 tokens and cut to this length; the longest has 30. "
        "This loses 3 of 6 tokens that humans marked (50.0%): 1 text loses a part of the rationale and 1 the "
        "whole rationale; `--set max_length=21` keeps all of them"
    )
    # a text that lost all of its evidence is not one in which a human found none
    assert features.table("train")["rationale"].to_pylist() == [[1, 2], [8], None, [], None]
    assert features.table("test")["rationale"].to_pylist()[2] == [15, 20]
    whole = built(tmp_path / "data", cache_dir, max_length=30)
    assert not [note for note in whole.notes if "longer than" in note]


def test_long_texts_without_rationales_are_counted(tmp_path: Path, cache_dir: Path):
    features = built(write(tmp_path / "data", TICKETS), cache_dir, max_length=9)
    (note,) = [note for note in features.notes if "longer than" in note]
    assert note.startswith(
        "3 of 4 texts of `train` are longer than 9 tokens and cut to this length; the longest has "
    )
    assert "--set max_length=N" in note


# --------------------------------------------------------------------------------------------- Chinese


def test_chinese_texts_are_recognised_and_cut_into_words(tmp_path: Path, cache_dir: Path):
    features = built(write(tmp_path / "data", CHINESE), cache_dir)
    assert features.tokenizer == "jieba"
    assert "4 of 4 texts are Chinese: jieba splits them into words" in features.notes
    tokens = features.table("train")["tokens"].to_pylist()
    assert {"手机", "屏幕", "清晰", "满意"} <= set(tokens[0])
    assert "iPhone" in tokens[2]
    assert features.task.class_names == ("好评", "差评")


def test_chinese_by_its_name_with_words_and_stop_words_of_ones_own(tmp_path: Path, cache_dir: Path):
    folder = write(tmp_path / "data", CHINESE, CLASSIFICATION + 'tokenizer = "chinese"\n')
    (tmp_path / "words").write_text("客服态度 100000\n", encoding="utf-8")
    (tmp_path / "stop").write_text("，\n。\n", encoding="utf-8")
    options = {"dictionary": str(tmp_path / "words"), "stop_words": str(tmp_path / "stop")}
    features = built(folder, cache_dir, options=options)
    assert features.tokenizer == "jieba"
    tokens = features.table("train")["tokens"].to_pylist()
    assert "客服态度" in tokens[1]
    assert not {"，", "。"} & {token for text in tokens for token in text}
    assert set(features.tokenizer_files) == {"dictionary", "stop_words"}


def test_words_of_ones_own_for_other_texts_are_refused(tmp_path: Path, cache_dir: Path):
    (tmp_path / "stop").write_text("the\n")
    with pytest.raises(RequestError, match="option `stop_words` is for Chinese .* are split by `english`"):
        built(write(tmp_path / "data", TICKETS), cache_dir, options={"stop_words": str(tmp_path / "stop")})


def test_spans_of_chinese_characters_mark_words(tmp_path: Path):
    lines = [line | {"rationale": [[0, 4]]} for line in CHINESE]
    first = train(write(tmp_path, lines))[0]
    assert [first.tokens[i] for i in first.rationale or ()] == ["手机", "屏幕"]


def test_a_mixed_corpus_has_to_say(tmp_path: Path):
    with pytest.raises(
        BadInputError, match="train.jsonl: 4 of 8 texts are Chinese and the others are not"
    ) as caught:
        train(write(tmp_path, [*CHINESE, *TICKETS]))
    assert 'write `tokenizer = "chinese"` in task.toml' in str(caught.value.hint)


@pytest.mark.parametrize(("lines", "name"), [(JAPANESE, "Japanese"), (THAI, "Thai")])
def test_a_script_without_a_tokenizer_is_refused(tmp_path: Path, lines: list[dict[str, Any]], name: str):
    with pytest.raises(
        BadInputError, match=f"train.jsonl: 2 of 2 texts are {name}, which puts no spaces"
    ) as caught:
        train(write(tmp_path, lines))
    assert str(caught.value.hint).startswith("give `tokens` instead of `text`")


def test_words_of_such_a_script_are_taken_as_tokens(tmp_path: Path, cache_dir: Path):
    lines = [{"tokens": ["電池", "が", "切れる"], "label": "a"}, {"tokens": ["とても", "満足"], "label": "b"}]
    features = built(write(tmp_path / "data", lines), cache_dir)
    assert features.tokenizer == "english"
    assert "2 of 2 texts are Japanese: their tokens are used as given" in features.notes


def test_jieba_is_not_said_to_split_what_is_given_as_tokens(tmp_path: Path):
    split = [
        {"tokens": [token.text for token in TOKENIZERS["jieba"](line["text"])], "label": line["label"]}
        for line in CHINESE
    ]
    assert "4 of 4 texts are Chinese: their tokens are used as given" in said(write(tmp_path / "all", split))
    notes = said(write(tmp_path / "some", [*split[:3], CHINESE[3]]))
    said_of = "jieba splits them into words, except 3 texts that are given as tokens"
    assert f"4 of 4 texts are Chinese: {said_of}" in notes


def test_a_few_chinese_texts_are_said(tmp_path: Path):
    notes = said(write(tmp_path, [*TICKETS * 5, CHINESE[0]]))
    assert "1 of 21 texts are Chinese: `english` makes a token of each clause" in notes


@pytest.mark.parametrize("tokenizer", ["english", "whitespace"])
def test_clauses_as_tokens_are_never_silent(tmp_path: Path, cache_dir: Path, tokenizer: str):
    folder = write(tmp_path / "data", CHINESE, CLASSIFICATION + f'tokenizer = "{tokenizer}"\n')
    (note,) = [note for note in built(folder, cache_dir).notes if "clause" in note]
    assert (
        f'`{tokenizer}` makes a token of each clause; write `tokenizer = "chinese"` to split the texts'
        in note
    )


def test_chinese_with_blanks_between_its_words_is_no_clause(tmp_path: Path, cache_dir: Path):
    lines = [
        {"text": " ".join(t.text for t in TOKENIZERS["jieba"](line["text"])), "label": line["label"]}
        for line in CHINESE
    ]
    folder = write(tmp_path / "data", lines, CLASSIFICATION + 'tokenizer = "whitespace"\n')
    assert not [note for note in built(folder, cache_dir).notes if "clause" in note]


@pytest.mark.parametrize(
    "text", ["한국어 문장은 띄어 씁니다", "Это русский текст", "यह हिन्दी है", "هذا نص عربي"]
)
def test_other_scripts_are_split_at_blanks(text: str):
    assert [token.text for token in tokenize(text)] == text.lower().split()


# --------------------------------------------------------------------------------------------- numbers


def test_whole_floats_are_whole_numbers(tmp_path: Path):
    lines = [
        {"tokens": ["so", "it", "is"], "label": 1.0, "id": 5.0, "rationale": [1.0, 0.0, 1.0]},
        {"tokens": ["no", "it", "is"], "label": 2, "id": "6", "rationale": [[1.0, 2.0]]},
        {"text": "never again", "label": 2.0, "rationale": [[0.0, 5.0]]},
    ]
    task = 'kind = "classification"\ntokenizer = "english"\n'
    folder = write_own(tmp_path, {"train": lines, "val": own(lines), "test": own(lines)}, task)
    first, second, third = train(folder)
    assert (first.example_id, first.rationale, first.target) == ("5", [0, 2], 0)
    assert (second.example_id, second.rationale, second.target) == ("6", [1], 1)
    assert third.rationale == [0]


def own(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines without their ids."""
    return [{key: value for key, value in line.items() if key != "id"} for line in lines]


def test_whole_floats_in_mask_files(tmp_path: Path):
    write_lines(tmp_path / "m.jsonl", [{"id": 1.0, "num_tokens": 3.0, "rationale": [0.0, 1.0, 0.0]}])
    (record,) = read_masks(tmp_path / "m.jsonl", aspect=None).records
    assert (record.example_id, record.num_tokens, record.positions) == ("1", 3, [1])


@pytest.mark.parametrize(
    ("score", "message", "hint"),
    [
        ("4", r"expected a score in \[1, 5\], but got '4'", "a number in quotes is a text"),
        ("4,5", r"expected a score in \[1, 5\], but got '4,5'", "a number in quotes is a text"),
        (True, r"expected a score in \[1, 5\], but got true", "a score is one number, such as 5"),
        ([4], r"expected a score in \[1, 5\], but got \[4\]", "a score is one number, such as 5"),
        (float("nan"), r"expected a score in \[1, 5\], but got nan", "leave out the line: a text without a"),
        (0, r"expected a score in \[1, 5\], but got 0", "`score_range ="),
        (5.0000001, r"expected a score in \[1, 5\], but got 5.0000001", "`score_range ="),
    ],
)
def test_a_score_in_the_wrong_form_is_shown_as_it_is(tmp_path: Path, score: Any, message: str, hint: str):
    lines = [{"text": f"text {i}", "score": i} for i in range(1, 6)]
    with pytest.raises(BadInputError, match=f"train.jsonl:6: {message}") as caught:
        train(write(tmp_path, [*lines, {"text": "x", "score": score}], REGRESSION))
    assert str(caught.value.hint).startswith(hint)


# ----------------------------------------------------------------------------------------------- files


def test_a_byte_order_mark_in_both_files(tmp_path: Path):
    folder = write(tmp_path, TICKETS)
    for path in folder.iterdir():
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(train(folder)) == 4


def test_blank_lines_are_passed_over_and_counted(tmp_path: Path):
    folder = write(tmp_path, TICKETS)
    lines = (folder / "train.jsonl").read_text().splitlines()
    (folder / "train.jsonl").write_text("\n" + "\n \t\n\n".join(lines) + "\n\n")
    assert [example.example_id for example in train(folder)] == ["train:2", "train:5", "train:8", "train:11"]
    (folder / "train.jsonl").write_text("\n".join([lines[0], "", "", lines[1], "", '{"text": "x"}']))
    with pytest.raises(BadInputError, match="train.jsonl:6: no key `label`"):
        train(folder)


def test_blank_lines_in_a_mask_file(tmp_path: Path):
    (tmp_path / "m.jsonl").write_text('\n{"id": 1, "rationale": [1]}\n\n{"id": 2, "rationale": [0]}\n')
    assert len(read_masks(tmp_path / "m.jsonl", aspect=None).records) == 2


@pytest.mark.parametrize("name", ["dev", "valid", "validation"])
@pytest.mark.parametrize("dataset", ["jsonl", "eraser"])
def test_other_names_of_the_validation_file(tmp_path: Path, name: str, dataset: str):
    if dataset == "jsonl":
        folder = write_own(tmp_path, own_records())
    else:
        folder = write_eraser(tmp_path, eraser_records())
    before = read_all(dataset, folder)[0]
    (folder / "val.jsonl").rename(folder / f"{name}.jsonl")
    assert read_all(dataset, folder)[0] == before


@pytest.mark.parametrize("names", [("val.jsonl", "dev.jsonl"), ("train.jsonl.gz", "train.jsonl")])
def test_two_files_for_one_split_are_refused(tmp_path: Path, names: tuple[str, str]):
    folder = write_own(tmp_path, own_records())
    for name in names:
        if not (folder / name).exists():
            (folder / name).write_text("{}\n")
    split = names[0].split(".")[0]
    message = f"2 files for the split `{split}`: `{names[0]}`, `{names[1]}`"
    with pytest.raises(BadInputError, match=message) as caught:
        read_all("jsonl", folder)
    assert caught.value.hint == "keep one, and move the other out of the folder"


# --------------------------------------------------------------------------------------------- vectors


def vectors(path: Path, content: str, *words: str) -> np.ndarray:
    path.write_text(content, encoding="utf-8")
    vocabulary = Vocabulary(["<pad>", "<unk>", *words])
    return embeddings.from_file(path, vocabulary, size=2, max_bytes=10_000)[0]


@pytest.mark.parametrize(
    "line", ["new york 3 4", ". . 3 4", "at name@domain.com 3 4", "the 7 dwarfs 3 4", "at\tnight\t3\t4"]
)
def test_words_of_vectors_may_hold_blanks(tmp_path: Path, line: str):
    word = line.replace("\t", " ").rsplit(" ", 2)[0]
    assert vectors(tmp_path / "v.txt", f"good 1 2\n{line}\n\n", "good", word)[3].tolist() == [3, 4]


def test_a_word_of_numbers_where_the_file_states_its_size(tmp_path: Path):
    assert vectors(tmp_path / "v.txt", "2 2\ngood 1 2\n1 000 3 4\n", "good", "1 000")[3].tolist() == [3, 4]


def test_vectors_of_another_size_are_still_refused(tmp_path: Path):
    with pytest.raises(
        RequestError, match="v.txt:1: expected vectors of 2 values, but the file has vectors of 3 values"
    ):
        vectors(tmp_path / "v.txt", "good 1 2 3\n", "good")
    with pytest.raises(
        BadInputError, match="v.txt:2: expected a word and 2 values, as line 1 has, but got 3"
    ):
        vectors(tmp_path / "v.txt", "good 1 2\nbad 1 2 3\n", "good")


# ------------------------------------------------------------------------------ characters without width


@pytest.mark.parametrize("name", ["english", "posts", "jieba"])
@pytest.mark.parametrize("mark", ["\u00ad", "\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u200e"])
def test_characters_without_width_split_no_word(name: str, mark: str):
    text = f"{mark}the in{mark}voice {mark} came{mark}"
    # HateXplain has the joiner of an emoji as a token of its own
    alone = [Token(mark, 14, 15)] if (name, mark) == ("posts", "\u200d") else []
    words = [Token("the", 1, 4), Token("invoice", 5, 13), *alone, Token("came", 16, 20)]
    assert TOKENIZERS[name](text) == words
    assert TOKENIZERS[name](f"{mark}a{mark}") == [Token("a", 1, 2)]
    assert TOKENIZERS[name](mark) == [Token(mark, 0, 1) for _ in alone]


def test_spans_refer_to_the_text_with_them(tmp_path: Path):
    text = "I was over\u00adcharged twice."
    start = text.index("over")
    lines = [{"text": text, "label": "a", "rationale": [[start, start + 12]]}, TICKETS[0]]
    folder = write(tmp_path, lines)
    first = train(folder)[0]
    assert first.rationale == [2]
    assert first.tokens[2] == "overcharged"
    assert not [note for note in said(folder) if "spans" in note]


def test_a_symbol_keeps_its_variation_selector():
    assert [token.text for token in tokenize("I ❤️ it")] == ["i", "❤️", "it"]


def test_regression_from_1_to_5_as_a_spreadsheet_exports_it(tmp_path: Path, cache_dir: Path):
    lines = [{"text": f"stars: {'*' * i}", "score": float(i), "id": float(i)} for i in range(1, 6)]
    folder = write_own(tmp_path / "data", {"train": lines, "val": own(lines), "test": own(lines)}, REGRESSION)
    features = built(folder, cache_dir)
    assert features.table("train")["target"].to_pylist() == [0, 0.25, 0.5, 0.75, 1]
    assert features.table("train")["example_id"].to_pylist() == ["1", "2", "3", "4", "5"]
    assert not [note for note in features.notes if "are also in" not in note]

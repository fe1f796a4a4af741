"""Words, kinds and counts of a text with two rationales."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.base.errors import PipelineError
from pipeline.reporting import markup


def prediction(
    text="a thin body , but nice", human=(0, 1, 1, 0, 0, 0), selected=(0, 0, 1, 1, 0, 0), **changes
):
    tokens = text.split()
    made = {
        "example_id": "r1",
        "tokens": tokens,
        "human": None if human is None else list(human),
        "probability": [0.9 if choice else 0.2 for choice in selected],
        "selected": list(selected),
        "prediction": 0.75,
        "guider_prediction": 0.7,
        "target": 0.5,
    }
    return made | changes


def only(**changes) -> markup.MarkedText:
    (text,) = markup.marked_texts([prediction(**changes)])
    return text


def test_each_word_has_its_kind():
    assert [word.kind for word in only().tokens] == ["", "miss", "hit", "extra", "", ""]


def test_without_annotation_nothing_is_right_or_wrong():
    text = only(human=None)
    assert [word.kind for word in text.tokens] == ["", "", "sel", "sel", "", ""]
    assert text.human_runs == []
    counts = text.counts
    assert (counts.precision, counts.recall, counts.f1) == (None, None, None)
    assert (counts.num_missed, counts.num_wrong, counts.num_selected) == (0, 0, 2)


def test_counts_and_scores_of_a_text():
    # by hand: one hit of two selected and two marked
    counts = only().counts
    assert (counts.num_tokens, counts.num_selected, counts.num_marked, counts.num_hits) == (6, 2, 2, 1)
    assert (counts.precision, counts.recall, counts.f1) == (0.5, 0.5, 0.5)
    assert (counts.num_missed, counts.num_wrong) == (1, 1)


@pytest.mark.parametrize(
    ("human", "selected", "expected"),
    [
        ((0, 0), (0, 0), (None, None, None)),
        ((1, 0), (0, 0), (None, 0.0, 0.0)),
        ((0, 0), (1, 0), (0.0, None, 0.0)),
        ((1, 1), (1, 1), (1.0, 1.0, 1.0)),
    ],
)
def test_undefined_scores_are_missing_not_zero(human, selected, expected):
    counts = only(text="a b", human=human, selected=selected).counts
    assert (counts.precision, counts.recall, counts.f1) == expected


def test_words_tell_their_probability_and_marks():
    titles = [word.title for word in only().tokens]
    assert titles[1] == "probability 0.200, not selected, marked by people"
    assert titles[3] == "probability 0.900, selected, not marked by people"
    assert only(human=None).tokens[2].title == "probability 0.900, selected"


def test_a_space_belongs_to_two_words_of_a_kind():
    text = only(text="so very smooth now", human=(0, 1, 1, 0), selected=(0, 1, 1, 0))
    assert [(word.text, word.space) for word in text.tokens] == [
        ("so", " "),
        ("very ", ""),
        ("smooth", " "),
        ("now", ""),
    ]


def test_human_side_is_laid_out_in_stretches():
    runs = only(text="so very smooth now", human=(0, 1, 1, 0), selected=(0, 0, 0, 0)).human_runs
    assert [(run.text, run.kind, run.space) for run in runs] == [
        ("so", "", " "),
        ("very smooth", "gold", " "),
        ("now", "", ""),
    ]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("i 'd say ( again ) it is n't bad , really .", "i'd say (again) it isn't bad, really."),
        (
            "被告人 李某 在 2016年 3月 盗窃 手机 ， 价值 2000 元 。",
            "被告人李某在2016年3月盗窃手机，价值2000元。",
        ),
        ("$ 4 a pint", "$4 a pint"),
        # in Chinese text marks of half width stand without a space, Latin words apart
        ("王 × × 与 “ 张 某 ” 签订 contract A 3 份 ( × × 元 )", "王××与“张某”签订contract A 3份(××元)"),
        ("贩卖 毒品 0.4 克 、 12 % … … 等", "贩卖毒品0.4克、12%……等"),
    ],
)
def test_text_is_set_as_people_write_it(text, shown):
    number = len(text.split())
    marked = only(text=text, human=[0] * number, selected=[0] * number)
    assert "".join(word.text + word.space for word in marked.tokens) == shown
    assert "".join(run.text + run.space for run in marked.human_runs) == shown


@pytest.mark.parametrize(
    ("text", "language"),
    [("被告人 盗窃 iphone 手机", "zh"), ("a nice 啤酒 from the east side", ""), ("", "")],
)
def test_language(text, language):
    number = len(text.split())
    assert only(text=text, human=[0] * number, selected=[0] * number).language == language


@given(st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_both_sides_hold_every_token(marks):
    tokens = [f"w{i}" for i in range(len(marks))]
    text = only(text=" ".join(tokens), human=[int(h) for h, _ in marks], selected=[int(s) for _, s in marks])
    assert "".join(word.text + word.space for word in text.tokens) == " ".join(tokens)
    assert "".join(run.text + run.space for run in text.human_runs) == " ".join(tokens)


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.75, "0.750"), (None, "–"), (3, "3"), ([0.1, 0.7, 0.2], "class 1 (0.70)"), ("theft", "theft")],
)
def test_outcomes(value, shown):
    assert only(prediction=value).prediction == shown


def test_error_is_there_for_regression_only():
    assert only().error == 0.25
    assert only(prediction=[0.2, 0.8], target=1).error is None
    assert only(prediction=None).error is None


def test_lists_of_different_lengths_are_refused():
    with pytest.raises(PipelineError, match=r"`r1`: a text of 2 tokens has 2 marks .* and 1 human marks"):
        only(text="a b", human=[1], selected=[0, 1])


def test_total_counts_tokens_not_texts():
    # hits 1 + 3, selected 2 + 3, marked 2 + 4; the text without annotation counts in the selection rate alone
    texts = markup.marked_texts(
        [
            prediction(),
            prediction(text="a b c d", human=(1, 1, 1, 1), selected=(1, 1, 1, 0)),
            prediction(text="a b", human=None, selected=(1, 1)),
        ]
    )
    total = markup.total(texts)
    assert (total.num_annotated, total.precision, total.recall) == (2, 4 / 5, 4 / 6)
    assert total.f1 == pytest.approx(8 / 11)
    assert (total.selection_rate, total.gold_density) == (7 / 12, 6 / 10)


def test_total_of_nothing_is_missing():
    assert markup.total([]) == markup.Total(
        num_annotated=0, precision=None, recall=None, f1=None, selection_rate=None, gold_density=None
    )


@pytest.mark.parametrize(
    ("tokens", "written"),
    [
        (["silky", ",", "🍺", "שלום"], "silky, 🍺 שלום"),
        (["good", "👍", "🏽", "beer"], "good 👍 🏽 beer"),
        (["🍺", "🍺", "ok"], "🍺 🍺 ok"),
        (["酒", "很", "好", "🍺", "。"], "酒很好🍺。"),
        (["beer", "（", "啤酒", "）", "is", "good"], "beer（啤酒）is good"),
    ],
)
def test_a_picture_stands_apart_from_words_but_in_chinese(tokens: list[str], written: str):
    spaces = markup.spaces(tokens)
    assert "".join(token + space for token, space in zip(tokens, spaces, strict=True)) == written

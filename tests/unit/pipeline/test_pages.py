"""Pages say what they were given: matching tags, escaped text, the numbers given, dashes for the rest."""

import re

import pytest

from pipeline import pages
from search_spaces.base import Bound, Criterion
from tests.unit.pipeline.html_reader import Node, read

CRITERION = Criterion(
    metric="val_token_recall",
    bounds=(Bound(metric="val_token_precision", limit=0.8, kind="at_least"),),
    why="a test",
)


def prediction(example_id="r1", tokens=("thin", "body", ",", "nice"), **changes):
    made = {
        "example_id": example_id,
        "tokens": list(tokens),
        "human": [1, 1, 0, 0],
        "probability": [0.25, 0.875, 0.1, 0.75],
        "selected": [0, 1, 0, 1],
        "prediction": 0.75,
        "guider_prediction": 0.7,
        "target": 0.5,
    }
    return made | changes


def rationale_page(*predictions, note="") -> Node:
    return read(pages.rationale_page(title="Rationales", predictions=predictions, note=note))


def entry(epoch, precision, recall, **more):
    return {"epoch": epoch, "val_token_precision": precision, "val_token_recall": recall} | more


def curve_page(*history) -> Node:
    return read(pages.curve_page(title="Curves", history=history, criterion=CRITERION))


def assert_stands_alone(page: Node) -> None:
    """Nothing is fetched: no address in an attribute or a style, and the page forbids it itself."""
    for node in page.walk():
        assert not {"src", "srcset", "data", "action", "background"} & set(node.attributes), node.tag
        assert not node.attributes.get("href", "#").startswith(("http", "//"))
    assert page.find("link") == []
    assert not re.search(r"url\(|@import", page.find("style")[0].text)
    policies = [meta.attributes["content"] for meta in page.find("meta") if "http-equiv" in meta.attributes]
    assert len(policies) == 1 and policies[0].startswith("default-src 'none'")


# ----------------------------------------------------------------------------------------------- numbers


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.12345, "0.123"), (0.0, "0.000"), (None, "–"), (float("nan"), "–"), (float("inf"), "–")],
)
def test_number(value, shown):
    assert pages.number(value) == shown


@pytest.mark.parametrize(
    ("value", "shown"), [(0.0714, "7.1 %"), (1, "100.0 %"), (None, "–"), (float("nan"), "–")]
)
def test_percent(value, shown):
    assert pages.percent(value) == shown


# -------------------------------------------------------------------------------------------- rationales


def test_rationale_page_stands_alone():
    page = rationale_page(prediction())
    assert_stands_alone(page)
    assert page.find("html")[0].attributes["lang"] == "en"
    assert page.find("title")[0].text == page.find("h1")[0].text == "Rationales"


def test_words_are_marked_and_tell_their_probability():
    page = rationale_page(prediction())
    words = page.find("div", "model")[0].find("span", "t")
    assert [(word.text, word.classes - {"t"}) for word in words] == [
        ("thin", {"miss"}),
        ("body", {"hit"}),
        (",", set()),
        ("nice", {"extra"}),
    ]
    assert words[0].attributes["title"] == "probability 0.250, not selected, marked by people"
    assert words[1].attributes["style"] == "--p:0.88"
    (gold,) = page.find("div", "human")[0].find("span", "t")
    assert (gold.text, gold.classes) == ("thin body", {"t", "gold"})


def test_scores_of_each_text_are_shown():
    (text,) = rationale_page(prediction()).find("article", "text")
    header = text.find("header")[0].words
    assert header.startswith("r1 precision 0.50 · recall 0.50 · F1 0.50 selected 2 of 4 (missed 1, wrong 1)")
    assert header.endswith("predicted 0.750 · target 0.500 · off by 0.25 · guider 0.700")
    shown = {
        "data-f1": "0.5000",
        "data-error": "0.2500",
        "data-missed": "1",
        "data-wrong": "1",
        "data-length": "4",
    }
    assert shown.items() <= text.attributes.items()


def test_summary_counts_all_tokens():
    page = rationale_page(prediction(), prediction("r2", human=None), note="of trial 3")
    assert page.find("p", "note")[0].text == "of trial 3"
    assert (
        "2 texts, 1 with a human rationale. On these together: precision 0.500, recall 0.500, F1 0.500; "
        "50.0 % of all tokens selected, 50.0 % marked by people." in page.find("main")[0].words
    )


def test_text_without_annotation_has_no_human_side_and_no_scores():
    (text,) = rationale_page(prediction(human=None)).find("article", "text")
    assert text.find("div", "human") == []
    assert "precision – · recall – · F1 –" in text.words
    assert text.attributes["data-f1"] == "" and text.attributes["data-annotated"] == "0"


def test_hostile_text_stays_text():
    evil = prediction('"><img src=x>', tokens=["<script>", "alert(1)", "</script>", "&amp;"])
    page = rationale_page(evil, note="<b>note</b>")
    assert page.find("img") == [] and len(page.find("script")) == 1, "the page's own script alone"
    words = page.find("div", "model")[0].find("span", "t")
    assert [word.text.strip() for word in words] == ["<script>", "alert(1)", "</script>", "&amp;"]
    assert page.find("h3")[0].text == '"><img src=x>'
    assert page.find("p", "note")[0].text == "<b>note</b>"
    raw = pages.rationale_page(title="t", predictions=[evil], note="")
    assert "&lt;script&gt;" in raw and "<script>alert" not in raw


def test_chinese_text_is_marked_as_such():
    page = rationale_page(prediction(tokens=["被告人", "盗窃", "手机", "。"]))
    (pair,) = page.find("div", "pair")
    assert pair.attributes["lang"] == "zh"
    assert "被告人盗窃手机。" in pair.find("div", "human")[0].text


def test_page_of_no_texts_says_so():
    page = rationale_page()
    assert "There is no text to show." in page.words
    assert "precision –" in page.words


# ------------------------------------------------------------------------------------------------ curves


def test_curve_page_shows_threshold_and_best_epoch():
    page = curve_page(entry(0, 0.5, 0.9), entry(1, 0.82, 0.6), entry(2, 0.85, 0.55))
    assert_stands_alone(page)
    svg = page.find("svg")[0]
    assert svg.find("title")[0].text == "Validation scores by epoch"
    assert "the best epoch is 1" in svg.find("desc")[0].text
    assert [svg.attributes["aria-labelledby"]] == ["scores-title scores-desc"]
    assert {"precision ≥ 0.8", "best epoch"} <= {text.text for text in svg.find("text")}
    note = page.find("p", "note")[0].words
    assert "Best epoch 1 (of 0 to 2): precision 0.820, recall 0.600, F1 –, selected –; it meets" in note


def test_curve_page_says_where_the_criterion_is_not_met():
    assert "it does not meet the criterion" in curve_page(entry(0, 0.5, 0.9)).words


def test_epoch_table_holds_the_input():
    page = curve_page(entry(0, 0.5, 0.9, val_mse=0.04), entry(1, 0.8125, 0.5))
    rows = [[cell.words for cell in row.walk() if cell.tag in ("td", "th")] for row in page.find("tr")]
    assert rows == [
        ["epoch", "precision", "recall", "MSE"],
        ["0", "0.5000", "0.9000", "0.0400"],
        ["1 (best)", "0.8125", "0.5000", "–"],
    ]


def test_losses_have_panels_with_their_equation():
    page = curve_page(
        entry(0, 0.5, 0.9, train_ib=30.0, train_lm=2.0), entry(1, 0.5, 0.9, train_ib=10.0, train_lm=1.0)
    )
    captions = [caption.words for caption in page.find("figcaption")]
    assert captions == [
        "L_ib, information bottleneck (Eq. 11) train_ib",
        "L_lm, language model (Eq. 15) train_lm",
    ]


def test_markers_hold_the_input():
    svg = curve_page(entry(3, 0.25, 0.75), entry(4, 0.5, None)).find("svg")[0]
    titles = {title.text for mark in svg.find("path", "mark") for title in mark.find("title")}
    assert titles == {"precision: 0.25 at epoch 3", "precision: 0.5 at epoch 4", "recall: 0.75 at epoch 3"}


def test_one_epoch_and_none_at_all():
    assert len(curve_page(entry(0, 0.9, 0.3)).find("svg")) == 1
    page = curve_page()
    assert page.find("svg") == [] and "No epoch has the scores that it reads." in page.words


def test_best_epoch_is_the_first_of_equals_and_skips_gaps():
    history = [entry(0, 0.9, float("nan")), entry(1, 0.9, 0.4), entry(2, 0.85, 0.4), entry(3, None, 0.9)]
    assert pages.best_epoch(history, CRITERION) == 1
    assert pages.best_epoch(history[:1], CRITERION) is None


def test_unmet_epochs_rank_below_met_ones_by_their_violation():
    assert pages.best_epoch([entry(0, 0.5, 0.9), entry(1, 0.7, 0.1)], CRITERION) == 1
    assert pages.objective(entry(0, 0.5, 0.9), CRITERION) == pytest.approx(-0.3)

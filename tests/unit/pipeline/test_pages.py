"""Pages say what they were given: matching tags, escaped text, the numbers given, dashes for the rest."""

import dataclasses
import json
import re

import pytest

from pipeline.reporting import pages
from pipeline.reporting.published import rows as published_rows
from pipeline.reporting.results import Findings, ScoreRow, Searched, TrialResult
from pipeline.training.epochs import EpochMetrics
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
    found = {"val_token_precision": precision, "val_token_recall": recall, **more}
    return EpochMetrics(number=epoch, metrics={n: value for n, value in found.items() if value is not None})


def curve_page(*history, best: int | None = None) -> Node:
    page = pages.curve_page(title="Curves", history=history, criterion=CRITERION, best=best, dataset="beer")
    return read(page)


def drawn(page: Node) -> dict[str, dict]:
    """The figures of a page by the id of their chart, as plotly gets them."""
    data = [one for one in page.find("script") if one.attributes.get("type") == "application/json"]
    found = {
        one.attributes["id"].removeprefix("chart-").removesuffix("-data"): json.loads(one.text)
        for one in data
    }
    assert {f"chart-{name}" for name in found} == {one.attributes["id"] for one in page.find("div", "plot")}
    assert len(found) == len(data), "each chart has an id of its own"
    return found


def assert_stands_alone(page: Node) -> None:
    """Nothing is fetched: no address in an attribute or a style, and the page forbids it itself."""
    for node in page.walk():
        assert not {"src", "srcset", "data", "action", "background"} & set(node.attributes), node.tag
        assert not node.attributes.get("href", "#").startswith(("http", "//"))
    assert page.find("link") == []
    assert not re.search(r"url\(|@import", page.find("style")[0].text)
    policies = [meta.attributes["content"] for meta in page.find("meta") if "http-equiv" in meta.attributes]
    assert len(policies) == 1 and policies[0].startswith("default-src 'none'")


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


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ([1.0, 5.0], "predicted 3.400 (from 1 to 5) · target 4.000 · off by 0.60"),
        ([0.0, 10.0], "predicted 3.400 of 10 · target 4.000 · off by 0.60"),
        ([-1.0, 1.5], "predicted 3.400 (from -1 to 1.5) · target 4.000 · off by 0.60"),
        (None, "predicted 3.400 · target 4.000 · off by 0.60"),
    ],
)
def test_a_score_is_shown_with_its_scale(ends, said):
    shown = prediction(prediction=3.4, target=4.0, guider_prediction=None, score_range=ends)
    (text,) = rationale_page(shown).find("article", "text")
    assert said in text.find("header")[0].words


def test_summary_counts_all_tokens():
    page = rationale_page(prediction(), prediction("r2", human=None), note="of trial 3")
    assert page.find("p", "note")[0].text == "of trial 3"
    assert (
        "2 texts, 1 with a human rationale. On these together: precision 0.500, recall 0.500, F1 0.500; "
        "50.0 % of all tokens selected, 50.0 % marked by people." in page.find("main")[0].words
    )


@pytest.mark.parametrize(
    ("humans", "shown"),
    [
        (([0, 1, 1, 0], [0, 1, 1, 0]), {"both", "missed", "wrong"}),
        ((None, None), {"selected"}),
        (([0, 1, 1, 0], None), {"both", "missed", "wrong", "selected"}),
    ],
)
def test_the_legend_explains_what_is_on_the_page(humans, shown):
    page = rationale_page(*(prediction(human=human) for human in humans))
    (legend,) = page.find("div", "legend")
    assert {node.text for node in legend.find("span", "t")} == shown


def test_notes_of_the_data_set_their_names_apart():
    page = study_page(notes=["no rationale for `palate`: <left> out", "cut 90/10"])
    (notes,) = page.find("ul", "note")
    assert [item.words for item in notes.find("li")] == ["no rationale for palate: <left> out", "cut 90/10"]
    assert [code.text for code in notes.find("code")] == ["palate"]


def test_the_dashed_line_is_explained_where_it_is_drawn():
    missed = "Above the dashed line the bounds hold"
    assert missed in study_page().words
    met = [trial(i, 0.5 + 0.1 * i, 0.9, 0.5) for i in range(2)]
    assert missed not in study_page(trials=met).words
    assert "All trials drawn here meet the bounds" in study_page(trials=met).words


def test_the_page_says_which_trials_the_charts_leave_out():
    assert "Trials that were not trained to their end are left out (1 of 3)." in study_page().words
    page = study_page(trials=[trial(i, 0.5, 0.9, 0.5, is_stopped_early=True) for i in range(3)])
    assert "it takes two trials with different values that were trained to their end" in page.words
    assert not {"history", "parallel", "by-lambda_ib"} & set(drawn(page))


def test_text_without_annotation_has_no_human_side_and_no_scores():
    (text,) = rationale_page(prediction(human=None)).find("article", "text")
    assert text.find("div", "human") == []
    assert "precision" not in text.words
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
    assert "被告人盗窃手机。" in pair.find("div", "model")[0].text
    style = page.find("style")[0].text
    assert re.search(r'\.pair:lang\(zh\) p \{ font-family: "Noto Serif CJK SC"', style)


def test_chinese_text_of_classes_and_marks_has_no_space_of_ours():
    tokens = ["王", "×", "×", "以", "“", "张", "某", "”", "之名", "，", "取走", "1300", "元"]
    page = rationale_page(prediction(tokens=tokens, human=None, selected=[0] * 13, probability=[0.1] * 13))
    (model,) = page.find("div", "model")
    assert "王××以“张某”之名，取走1300元" in model.text


def test_page_of_no_texts_says_so():
    page = rationale_page()
    assert "There is no text to show." in page.words
    assert "precision –" in page.words


# ------------------------------------------------------------------------------------------------ curves


def test_curve_page_shows_threshold_and_best_epoch():
    page = curve_page(entry(0, 0.5, 0.9), entry(1, 0.82, 0.6), entry(2, 0.85, 0.55), best=1)
    assert_stands_alone(page)
    chart = page.find("div", "plot")[0]
    assert chart.attributes["role"] == "img"
    assert chart.attributes["aria-label"].startswith(
        "Validation scores by epoch. 3 epochs; precision ends at 0.850"
    )
    layout = drawn(page)["scores"]["layout"]
    assert [text["text"] for text in layout["annotations"]] == ["precision ≥ 0.8", "best epoch"]
    note = page.find("p", "note")[0].words
    assert "Best epoch 2 of 3: precision 0.820, recall 0.600; it meets" in note


def test_curve_page_says_where_the_criterion_is_not_met():
    assert "it does not meet the criterion" in curve_page(entry(0, 0.5, 0.9), best=0).words


def test_epoch_table_holds_the_input():
    page = curve_page(entry(0, 0.5, 0.9, val_mse=0.04), entry(1, 0.8125, 0.5), best=1)
    rows = [[cell.words for cell in row.walk() if cell.tag in ("td", "th")] for row in page.find("tr")]
    assert rows == [
        ["epoch", "precision", "recall", "MSE"],
        ["1", "0.5000", "0.9000", "0.0400"],
        ["2 (best)", "0.8125", "0.5000", "–"],
    ]


def test_losses_have_panels_with_their_equation():
    page = curve_page(
        entry(0, 0.5, 0.9, train_ib=30.0, train_lm=2.0), entry(1, 0.5, 0.9, train_ib=10.0, train_lm=1.0)
    )
    headings = [heading.words for heading in page.find("h3")]
    assert headings == ["L_ib, information bottleneck (Eq. 11)", "L_lm, language model (Eq. 15)"]


def test_charts_hold_the_input():
    lines = drawn(curve_page(entry(3, 0.25, 0.75), entry(4, 0.5, None)))["scores"]["data"]
    assert {line["name"]: (line["x"], line["y"]) for line in lines} == {
        "precision": ([4, 5], [0.25, 0.5]),
        "recall": ([4, 5], [0.75, None]),
    }


def test_one_epoch_and_none_at_all():
    assert len(drawn(curve_page(entry(0, 0.9, 0.3)))) == 1
    page = curve_page()
    assert drawn(page) == {} and "No epoch has the scores that it reads." in page.words
    assert page.find("script") == [], "nothing is carried that draws nothing"


def test_without_javascript_captions_and_tables_say_what_the_charts_show():
    page = study_page(published_rows("beer", "palate"))
    (hint,) = page.find("noscript")
    assert "JavaScript is off, so no chart is drawn." in hint.words
    assert re.match(r"\.plot, .* { display: none; }", hint.find("style")[0].text)
    for chart in page.find("figure"):
        assert chart.find("div", "plot")[0].attributes["aria-label"]
    assert ["lambda_ib", "100.0 %"] in table(page, "shares")
    captions = [caption.words for caption in page.find("figcaption")]
    assert "After the last epoch: trial-00 0.900." in captions


def test_a_page_moves_nothing_where_motion_is_unwanted():
    style = study_page().find("style")[0].text
    assert "@media (prefers-reduced-motion: reduce)" in style and "transition: none !important" in style
    for figure in drawn(study_page()).values():
        assert figure["layout"]["template"]["layout"]["transition"] == {"duration": 0}


@pytest.mark.parametrize(
    ("criterion", "said"),
    [
        (CRITERION, "best recall with precision ≥ 0.8, on validation"),
        (
            Criterion(
                metric="val_token_f1",
                bounds=(
                    Bound(metric="val_accuracy", limit=0.61, kind="at_least"),
                    Bound(metric="val_selection_rate", limit=0.5, kind="at_most"),
                ),
                why="a test",
            ),
            "best F1 with accuracy ≥ 0.61 and selected ≤ 0.5, on validation",
        ),
        (Criterion(metric="val_token_f1", bounds=(), why="a test"), "best F1, on validation"),
        (None, "not known"),
    ],
)
def test_criterion_in_words(criterion, said):
    assert pages.sentence(criterion, "beer") == said


# ----------------------------------------------------------------------------------------------- a study


def trial(number, objective, precision, recall, **changes) -> TrialResult:
    made = {
        "run_id": f"run{number}",
        "name": f"trial-{number:02d}",
        "status": "FINISHED",
        "searched": {"lambda_ib": 0.0001 * (number + 1)},
        "epoch": 4,
        "objective": objective,
        "scores": {
            "token_precision": precision,
            "token_recall": recall,
            "token_f1": 0.625,
            "selection_rate": 0.08125,
            "mse": 0.0375,
        },
    }
    return TrialResult(**(made | changes))


FAILED = TrialResult(
    run_id="run2", name="trial-02", status="FAILED", failure="degenerate_none", searched={"lambda_ib": 0.0003}
)

RANDOM_K = ScoreRow(
    name="random k",
    scores={"token_precision": 0.125, "token_recall": 0.075, "token_f1": 0.09375, "selection_rate": 0.075},
)


def findings(**changes) -> Findings:
    trials = [trial(0, 0.5, 0.9, 0.5), trial(1, -0.1, 0.7, 0.75), FAILED]
    made = {
        "study": "study-1",
        "run_id": "parent",
        "dataset": "beer",
        "aspect": "palate",
        "status": "FINISHED",
        "is_sample": False,
        "criterion": CRITERION,
        "notes": ["cut 90/10"],
        "facts": {"command": "python -m pipeline.search", "seed": "7"},
        "searched": [Searched(name="lambda_ib")],
        "trials": trials,
        "winner": trials[0],
        "importance": {"lambda_ib": 1.0},
        "importance_note": "over 2 trials",
        "curves": {"trial-00": [entry(0, 0.5, 0.9), entry(1, 0.9, 0.5)]},
        "predictions": [prediction(f"r{i}") for i in range(12)],
        "trivial": [RANDOM_K],
        "trivial_note": "on validation",
        "evaluate": "python -m pipeline.evaluate --run run0 --storage all",
    }
    return Findings(**(made | changes))


def study_page(published=(), **changes) -> Node:
    return read(pages.study_page(findings(**changes), published))


def table(page: Node, class_name: str) -> list[list[str]]:
    (found,) = page.find("table", class_name)
    return [[cell.words for cell in row.walk() if cell.tag in ("td", "th")] for row in found.find("tr")]


def test_study_page_stands_alone_and_names_its_charts():
    page = study_page(published_rows("beer", "palate"))
    assert_stands_alone(page)
    assert page.find("h1")[0].words == "study-1: beer palate"
    assert len(drawn(page)) > 3
    for chart in page.find("div", "plot"):
        assert chart.attributes["role"] == "img" and chart.attributes["aria-label"]


def test_study_page_names_the_options_of_its_data():
    page = study_page(options={"pool": "plain"})
    assert page.find("h1")[0].words == "study-1: beer palate (pool=plain)"


def test_study_page_says_what_was_found():
    words = study_page().words
    assert (
        "The best trial is trial-00 at epoch 5: precision 90.0 %, recall 50.0 %, F1 62.5 % with 8.1 % of the "
        "tokens selected, on validation. It meets the criterion." in words
    )
    assert "best recall with precision ≥ 0.8, on validation" in words and "cut 90/10" in words


def test_study_page_says_that_no_trial_meets_the_criterion():
    near = trial(1, -0.1, 0.7, 0.75)
    words = study_page(trials=[near], winner=near).words
    assert (
        "No trial meets the criterion, so nothing was registered. The nearest is trial-01 at epoch 5" in words
    )
    assert "on validation, missed by 0.100." in words


def test_comparison_keeps_validation_test_and_paper_apart():
    shown = table(study_page(published_rows("beer", "palate")), "comparison")
    headings = [row[0] for row in shown if len(row) == 1]
    assert headings == [
        "This study, validation",
        "This study, test split",
        "Trivial rationales, on validation",
        "[Sha2023] table 2, test",
        "[Sha2023] table 3, test, tuned to select 7 %",
        "masks of Lei et al. (2016), scored on all 994 annotated reviews",
    ]
    assert ["trial-00, best epoch meets the criterion", "90.0", "50.0", "62.5", "8.1"] in shown
    assert [
        "not read yet python -m pipeline.evaluate --run run0 --storage all reads it",
        "–",
        "–",
        "–",
        "–",
    ] in shown
    assert ["random k", "12.5", "7.5", "9.4", "7.5"] in shown


def test_comparison_shows_every_published_number_as_printed():
    rows = published_rows("beer", "smell")
    shown = table(study_page(rows), "comparison")
    for row in rows:
        figures = [row.printed[name] for name in ("precision", "recall", "f1")]
        selected = row.printed.get("selected")
        cells = [*(f"{figure:.1f}" for figure in figures), "–" if selected is None else f"{selected:.1f}"]
        assert [row.method, *cells] in shown


def test_comparison_shows_readings_of_the_test_split_and_the_spread_over_seeds():
    page = study_page(
        readings=[
            ScoreRow(
                name="test",
                scores={"token_precision": 0.5, "token_recall": 0.25, "token_f1": 0.375},
                note="read once",
            )
        ],
        spread=[("token_precision", 0.875, 0.0125), ("token_recall", 0.5, 0.025)],
        num_seeds=3,
    )
    shown = table(page, "comparison")
    assert ["test read once", "50.0", "25.0", "37.5", "–"] in shown
    assert ["mean of 3 seeds precision ± 1.2 %, recall ± 2.5 %", "87.5", "50.0", "–", "–"] in shown


def test_trials_are_listed_with_their_numbers():
    shown = table(study_page(), "sortable")
    assert shown == [
        ["trial", "lambda_ib", "epoch", "precision", "recall", "F1", "selected", "MSE", "criterion", "ended"],
        ["trial-00", "0.0001", "5", "90.0", "50.0", "62.5", "8.1", "0.0375", "met", "finished"],
        ["trial-01", "0.0002", "5", "70.0", "75.0", "62.5", "8.1", "0.0375", "missed by 0.100", "finished"],
        ["trial-02", "0.0003", "–", "–", "–", "–", "–", "–", "–", "(nearly) no token is selected"],
    ]


def test_no_score_of_a_study_is_a_zero_with_a_sign():
    scores = {"accuracy": 0.61, "sufficiency": -0.0004, "comprehensiveness": -0.00001, "selection_rate": 0.3}
    one = dataclasses.replace(trial(0, 0.5, 0.9, 0.2), scores=scores, errors={"sufficiency": 0.0001})
    row = ScoreRow(name="InfoCal", scores=scores)
    page = study_page(dataset="hatexplain", aspect="", trials=[one], winner=one, readings=[row])
    assert "sufficiency" in page.words
    assert not re.search(r"(?<![\d.])-0\.0+(?!\d)", page.words), "-0.0 on the page"


def test_trials_sort_by_their_exact_numbers():
    (listed,) = study_page().find("table", "sortable")
    rows = listed.find("tr")[1:]
    values = [
        [cell.attributes["data-value"] for cell in row.walk() if cell.tag in ("td", "th")] for row in rows
    ]
    assert values[0][3:5] == ["0.900000", "0.500000"] and values[2][3] == ""
    assert [row.classes for row in rows] == [{"best"}, set(), set()]


def test_repeated_and_stopped_trials_are_said_to_be_so():
    page = study_page(
        trials=[trial(0, 0.5, 0.9, 0.5, is_stopped_early=True)],
        replicates=[trial(3, 0.4, 0.9, 0.4, seed="8")],
    )
    shown = table(page, "sortable")
    assert [row[0] for row in shown[1:]] == ["trial-00", "trial-03, seed 8"]
    assert shown[1][-1] == "stopped early"


def test_ten_examples_are_shown_and_the_rest_is_pointed_to():
    page = study_page()
    assert [text.find("h3")[0].text for text in page.find("article")] == [f"r{i}" for i in range(10)]
    assert "rationales.html of the trial's run shows 12" in page.words


def test_importance_has_a_chart_and_a_table_or_a_reason():
    page = study_page()
    (bar,) = drawn(page)["importance"]["data"]
    assert bar["y"] == ["lambda_ib"] and bar["text"] == ["100.0\N{NO-BREAK SPACE}%"]
    assert table(page, "shares") == [["hyper-parameter", "importance"], ["lambda_ib", "100.0 %"]]
    page = study_page(importance={}, importance_note="Importance is not computed: too few.")
    assert "importance" not in drawn(page) and "Importance is not computed: too few." in page.words


def test_study_without_a_trial():
    page = study_page(
        trials=[], winner=None, predictions=[], curves={}, trivial=[], importance={}, criterion=None
    )
    assert "No trial finished an epoch, so there is nothing to choose from." in page.words
    assert ["no trial has a score", *"–––––"] in table(page, "comparison")
    assert ["not computed", *"–––––"] in table(page, "comparison")
    assert table(page, "sortable")[-1] == ["no trial was started"]
    assert "The winner's run holds no predictions to show." in page.words


def test_sample_corpus_and_running_study_are_said_aloud():
    words = study_page(is_sample=True, status="RUNNING").words
    assert "Made-up sample corpus." in words and "The study is running: these are the trials so far." in words
    assert "Made-up sample corpus." not in study_page().words


def test_hostile_names_stay_text():
    page = study_page(
        study="<script>1</script>", notes=["<i>x</i>"], facts={"command": "a && <b>", "seed": "7"}
    )
    assert "<script>1" not in "".join(one.text for one in page.find("script")) and page.find("i") == []
    assert page.find("pre")[0].text == "a && <b>"
    assert [cell.words for cell in page.find("table", "facts")[0].find("td")] == ["7"]


# ------------------------------------------------------------------------------- a study of posts


def post_findings(**changes) -> Findings:
    criterion = Criterion(
        metric="val_hatexplain_token_f1",
        bounds=(Bound(metric="val_accuracy", limit=0.61, kind="at_least"),),
        why="a test",
    )
    best = trial(0, 0.5, 0.5, 0.25)
    scores = {"accuracy": 0.625, "macro_f1": 0.5, "hatexplain_token_f1": 0.4375, "selection_rate": 0.25}
    best = dataclasses.replace(best, scores=scores | {"token_precision": 0.5, "token_recall": 0.25})
    once = {"comprehensiveness": 0.125, "sufficiency": -0.0625}
    made = {
        "dataset": "hatexplain",
        "aspect": "",
        "criterion": criterion,
        "trials": [best],
        "winner": dataclasses.replace(best, scores={**best.scores, **once}),
        "trivial": [ScoreRow(name="all tokens", scores={"hatexplain_token_f1": 0.5, "selection_rate": 1.0})],
    }
    return findings(**(made | changes))


def test_a_study_of_posts_shows_the_columns_of_its_published_table():
    page = read(pages.study_page(post_findings(), published_rows("hatexplain", "")))
    assert page.find("h1")[0].words == "study-1: hatexplain"
    shown = table(page, "comparison")
    names = ["accuracy", "macro F1", "AUROC (ovo)", "IOU F1", "token F1", "AUPRC"]
    assert shown[0] == ["rationales", *names, "comprehensiveness", "sufficiency", "selected"]
    ours = ["62.5", "50.0", "–", "–", "43.8", "–", "12.5", "-6.2", "25.0"]
    assert ["trial-00, best epoch meets the criterion", *ours] in shown
    assert ["all tokens", "–", "–", "–", "–", "50.0", "–", "–", "–", "100.0"] in shown
    paper = ["63.0", "61.4", "79.2", "20.6", "49.3", "68.0", "43.6", "-9.7", "–"]
    assert ["InfoCal", *paper] in shown


def test_a_study_of_posts_lists_only_scores_that_its_trials_have():
    page = read(pages.study_page(post_findings(), []))
    head = table(page, "sortable")[0]
    assert head[3:-2] == ["accuracy", "macro F1", "token F1", "selected"]
    assert "MSE" not in head
    assert "best token F1 with accuracy ≥ 0.61, on validation" in page.words
    assert (
        "accuracy 62.5 %, macro F1 50.0 %, token F1 43.8 % with 25.0 % of the tokens selected" in page.words
    )
    assert "Precision against recall" in page.words


def test_without_human_rationales_there_is_no_chart_of_precision():
    bare = dataclasses.replace(trial(0, 0.5, 0.5, 0.25), scores={"macro_f1": 0.5, "selection_rate": 0.1})
    page = read(pages.study_page(post_findings(trials=[bare], winner=bare, trivial=[]), []))
    assert "Precision against recall" not in page.words
    assert "macro F1 50.0 %" in page.words


def test_the_curves_of_posts_are_those_of_their_scores():
    history = [
        {"val_accuracy": 0.5, "val_guider_accuracy": 0.6, "val_hatexplain_token_f1": 0.4},
        {"val_accuracy": 0.65, "val_guider_accuracy": 0.7, "val_hatexplain_token_f1": 0.3},
    ]
    history = [EpochMetrics(number=number, metrics=scores) for number, scores in enumerate(history)]
    criterion = post_findings().criterion
    page = read(
        pages.curve_page(title="t", history=history, criterion=criterion, best=1, dataset="hatexplain")
    )
    rows = [[cell.words for cell in row.walk() if cell.tag in ("td", "th")] for row in page.find("tr")]
    assert rows[0] == ["epoch", "accuracy", "token F1", "guider accuracy"]
    assert rows[2] == ["2 (best)", "0.6500", "0.3000", "0.7000"]
    assert "accuracy on validation" in page.words

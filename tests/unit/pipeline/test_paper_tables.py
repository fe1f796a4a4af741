"""The paper's tables, filled from comparisons: whose numbers stand where, who is first, what is missing."""

import dataclasses
import re

import pytest

from infocal.metrics.resampling import TextCounts, mean_interval
from pipeline.base import text_tables
from pipeline.reporting import pages, paper_tables, published, typeset
from pipeline.reporting.paper_tables import NOT_MEASURED, Compared, PaperTable, sections, state
from pipeline.reporting.standings import Outcome, StandingsRow, over_seeds
from tests.unit.pipeline.html_reader import read

NUM_TEXTS = 20


def texts(hits: int) -> dict[str, list[int] | list[float]]:
    """Ten tokens a text, two marked and two selected; in each second text, `hits` of the two are hit."""
    rows = range(NUM_TEXTS)
    return {
        "lengths": [10] * NUM_TEXTS,
        "annotated": [1] * NUM_TEXTS,
        "selected": [2] * NUM_TEXTS,
        "marked": [2] * NUM_TEXTS,
        "hits": [hits if row % 2 else 1 for row in rows],
        "predicted_score": [0.5] * NUM_TEXTS,
        "target_score": [row / NUM_TEXTS for row in rows],
    }


def outcome(method: str, seed: int, hits: int = 1, rate: float = 0.2, **changes) -> Outcome:
    share = (hits + 1) / 4
    names = ("token_precision", "token_recall", "token_f1", "paper_iou_f1", "paper_auprc")
    scores = dict.fromkeys(names, share) | {"selection_rate": rate}
    return Outcome(**{"method": method, "seed": seed, "scores": scores, "texts": texts(hits), **changes})


def compared(outcomes, name="first", **changes) -> Compared:
    methods = list(dict.fromkeys(one.method for one in outcomes))
    seeds = sorted({one.seed for one in outcomes})
    values = {
        **{"name": name, "dataset": "beer", "aspect": "palate", "options": {}, "features": "beer-1"},
        **{"target_rate": 0.2, "num_epochs": 3, "is_sample": False, "methods": methods, "seeds": seeds},
        **{"outcomes": outcomes, "num_all": len(methods) * len(seeds)},
        "counts": {"train_rows": 8981, "train_tokens": 1331527, "test_rows": 401},
        "beside": [StandingsRow(name="random_k", kind="trivial", cells={"token_f1": over_seeds([0.1])})],
    }
    return Compared(**{**values, **changes})


def table(*found: Compared, label="Table 2", title="beer/palate") -> PaperTable:
    (section,) = [one for one in sections(found) if one.label == label and "beer" in one.title]
    (only,) = [one for one in section.tables if one.title.startswith(title)]
    return only


def row(of: PaperTable, name: str):
    (only,) = [one for one in of.rows if one.name == name]
    return only


def both(infocal=1, hardkuma=2, seeds=2):
    return [
        one
        for seed in range(seeds)
        for one in (outcome("infocal", seed, infocal), outcome("hardkuma", seed, hardkuma))
    ]


# -------------------------------------------------------------------------------------------- the cells


def test_ours_stand_above_the_published_row_with_mean_and_interval():
    found = table(compared(both()))
    ours = row(found, "InfoCal")
    # 1 of 2 selected tokens is marked in every text, whichever are drawn
    assert ours.cells[:3] == ["50.0 [50.0, 50.0]"] * 3
    assert ours.cells[3:6] == ["50.0 ± 0.0", "20.0 ± 0.0", "50.0 ± 0.0"]
    place = found.rows.index(ours)
    assert found.rows[place + 1].name == "InfoCal, published"
    assert found.rows[place + 1].cells == ["89.6", "59.8", "71.7", "55.9", "7.0", "76.7", "–"]
    assert found.head[1:4] == ["precision %", "recall %", "F1 %"]


def test_the_interval_is_over_texts_and_seeds():
    counts = [TextCounts.of_lists(texts(hits)) for hits in (2, 2)]
    ends = mean_interval("token_f1", counts)
    cell = row(table(compared(both(hardkuma=2))), "HardKuma").cells[2]
    assert cell == f"75.0 [{100 * ends.low:.1f}, {100 * ends.high:.1f}]"
    assert ends.low < 0.75 < ends.high
    # with seeds that differ, the draws of seeds add to it
    mixed = mean_interval("token_f1", [TextCounts.of_lists(texts(hits)) for hits in (0, 2)])
    assert mixed.error > 2 * ends.error


def test_no_seeds_have_no_interval():
    with pytest.raises(ValueError, match="at least one seed, but got none"):
        mean_interval("token_f1", [])


def test_the_difference_is_from_infocal_of_the_same_comparison_alone():
    first = compared([outcome("infocal", 0, 1)], name="first")
    second = compared([outcome("infocal", 0, 2), outcome("hardkuma", 0, 2)], name="second")
    found = table(first, second)
    assert row(found, "HardKuma, in `second`").cells[-1] == "+0.0 [+0.0, +0.0]"
    assert row(found, "InfoCal, in `first`").cells[2].startswith("50.0 ")
    assert row(found, "InfoCal, in `second`").cells[2].startswith("75.0 ")


def test_a_method_that_nobody_trained_says_so():
    found = table(compared(both()))
    sparse = row(found, "Sparse IB")
    assert sparse.kind == "missing" and set(sparse.cells) == {NOT_MEASURED}
    assert row(found, "Sparse IB, published").cells[0] == "84.3"
    assert state(found) == "2 rows, 4 rows not measured"


def test_a_score_that_a_run_lacks_is_not_measured():
    lacking = dataclasses.replace(outcome("infocal", 0), scores={"token_f1": 0.5}, texts={})
    cells = row(table(compared([lacking])), "InfoCal").cells
    assert cells[:3] == [NOT_MEASURED, NOT_MEASURED, "50.0"]


def test_a_table_of_which_nothing_is_measured_names_the_command():
    found = table(compared(both()), title="beer/smell")
    assert state(found) == NOT_MEASURED
    assert {one.kind for one in found.rows} == {"paper"}
    command = re.search(r"`(python -m pipeline.compare .*)`", found.first[0])
    assert command, found.first
    assert "--dataset beer --aspect smell --methods infocal,bernoulli,hardkuma" in command[1]


def test_every_published_row_of_its_tables_is_on_the_page_as_printed():
    every = [one for section in sections([]) for one in section.tables]
    shown = {(one.title, line.name) for one in every for line in one.rows}
    for line in published.all_rows():
        if line.dataset in ("beer", "cail-small", "hatexplain") and line.source.startswith("[Sha2023]"):
            aspect = "" if line.task == "supervised" else line.task
            title = f"{line.dataset}/{aspect}" if aspect else line.dataset
            assert (title, f"{line.method}, published") in shown, (line.source, title, line.method)


# ------------------------------------------------------------------------------------------- protocols


def test_comparisons_under_other_protocols_have_tables_of_their_own():
    plain, pooled = compared(both()), compared(both(), name="pool", options={"pool": "plain"})
    other = compared(both(), name="rate", target_rate=0.1)
    (section,) = [one for one in sections([plain, pooled, other]) if one.label == "Table 2"]
    titles = [one.title for one in section.tables if one.title.startswith("beer/palate")]
    assert titles == [
        "beer/palate: methods at 20 % of the tokens",
        "beer/palate (pool=plain): methods at 20 % of the tokens",
        "beer/palate: methods at 10 % of the tokens",
    ]


def test_the_protocol_names_rate_sizes_and_the_published_training_data():
    ours, theirs, *_ = table(compared(both())).protocol
    assert ours.startswith(
        "ours, `first`: 20 % of the tokens selected on validation; trained on 8,981 texts "
    )
    assert "scored on 401 texts; 3 epochs; 2 seeds (0, 1); all trainings have ended" in ours
    assert theirs == "published, [Sha2023] table 2: test; trained on 80,000 to 90,000 reviews of each aspect"
    unknown = table(compared(both(), counts={})).protocol[0]
    assert "number of texts not known, because the features are not on this machine" in unknown


def test_an_unfinished_comparison_is_called_so():
    found = table(compared(both()[:3], num_all=4, seeds=[0, 1]))
    assert found.is_unfinished and state(found).endswith("unfinished")
    assert row(found, "HardKuma").note == "1 of 2 seeds"
    assert "UNFINISHED: 3 of 4 trainings have ended" in found.protocol[0]
    assert found.first[0].startswith("here: so far, ")
    assert not table(compared(both())).is_unfinished


def test_a_failed_seed_is_counted_and_named():
    failed = Outcome(method="hardkuma", seed=1, failure="all_tokens", failure_message="at epoch 3")
    found = table(compared([*both(seeds=1), outcome("infocal", 1), failed]))
    assert row(found, "HardKuma").note == "1 of 2 seeds"
    assert "HardKuma: 1 of 2 seeds failed: all_tokens: at epoch 3" in found.notes
    assert not found.is_unfinished


def test_ablations_stand_in_the_table_of_ablations_and_unknown_methods_in_the_first():
    found = compared([outcome("infocal", 0), outcome("infocal-no-adv", 0), outcome("mcd", 0)])
    assert {"InfoCal", "MCD"} <= {one.name for one in table(found).rows if one.kind == "ours"}
    names = {one.name for one in table(found, label="Table 3").rows if one.kind == "ours"}
    assert names == {"InfoCal", "InfoCal - L_adv"}


def test_other_data_have_a_table_without_published_rows():
    *_, last = sections([compared(both(), dataset="jsonl", aspect="")])
    assert last.label == "Other data"
    assert [one.kind for one in last.tables[0].rows] == ["ours", "ours", "trivial"]


# ------------------------------------------------------------------------------------------ who is first


def test_where_infocal_is_not_first_the_page_says_who_is():
    said = table(compared(both(infocal=1, hardkuma=2))).first[0]
    assert said.startswith("here: InfoCal is not first in any column; HardKuma is first in precision (75.0 ")
    ahead = table(compared(both(infocal=2, hardkuma=1))).first[0]
    assert ahead == "here: InfoCal is first in precision, recall, F1, IOU F1 and AUPRC"


def test_the_published_table_has_its_own_first():
    said = table(compared(both())).first[-1]
    assert said == (
        "published, [Sha2023] table 2: InfoCal is first in recall, F1, IOU F1 and AUPRC; HardKuma is "
        "first in precision (89.8 against 89.6)"
    )
    (law,) = [one for one in sections([]) if "cail-small" in one.title]
    assert "MPBFN-WCA is first in accuracy (88.3 against 83.4)" in law.tables[0].first[-1]


def test_less_is_better_for_sufficiency():
    (posts,) = [one for one in sections([]) if "hatexplain" in one.title]
    assert (
        posts.tables[0]
        .first[-1]
        .startswith("published, [Sha2023] table 10: InfoCal is first in sufficiency;")
    )


def test_a_row_off_the_target_takes_part_with_its_mark():
    off = [outcome("hardkuma", 0, 2, rate=0.5), outcome("infocal", 0, 1)]
    said = table(compared(off)).first[0]
    assert "InfoCal is not first in any column; HardKuma † is first in precision (75.0 against 50.0)" in said


def test_trivial_rows_do_not_take_part():
    trivial = [outcome("hardkuma", 0, 2, degenerate="first_k"), outcome("infocal", 0, 1)]
    said = table(compared(trivial)).first[0]
    assert said == (
        "here: no other measured method can be compared with InfoCal; left out, because they read or select "
        "all tokens, or select none: "
        "HardKuma ‡"
    )


def test_without_infocal_nobody_is_called_first():
    said = table(compared([outcome("hardkuma", 0)])).first[0]
    assert said == "here: InfoCal is not measured, so its place is not known"


def test_few_seeds_support_no_claim():
    assert "2 seeds are too few for a claim" in table(compared(both())).first[1]
    assert not any("no claim" in text for text in table(compared(both(seeds=8))).first)


# -------------------------------------------------------------------------------------------- the formats


def test_all_formats_have_every_row():
    made = sections([compared(both()), compared(both(), name="s", is_sample=True, features="beer-2")])
    page = read(pages.paper_page(title="All tables", sections=made, notes=["a `note`"]))
    markdown = typeset.paper_markdown("All tables", made, ["a `note`"])
    latex = typeset.paper_latex(made, ["a note"])
    for one in (line for section in made for of in section.tables for line in of.rows):
        assert one.name in page.words and one.name in markdown
        assert text_tables.latex_escaped(one.name) in latex
    num = sum(len(section.tables) for section in made)
    assert latex.count(r"\begin{table}") == latex.count(r"\end{table}") == num
    assert len(page.find("h3")) == num
    assert "Made-up sample corpus" in page.words and "Made-up sample corpus" in markdown
    links = {one.attributes["href"] for one in page.find("a")}
    assert links == {f"#{one.attributes['id']}" for one in page.find("h3")}


def test_each_line_of_the_latex_table_has_as_many_cells_as_the_head():
    latex = typeset.paper_latex(sections([compared(both())]), [])
    for body in re.findall(r"\\toprule\n(.*?)\\bottomrule", latex, re.S):
        cells = {line.count(" & ") for line in body.splitlines() if line.endswith(r"\\")}
        assert len(cells) == 1, body[:200]


def test_a_page_of_nothing_still_has_the_published_tables():
    assert {one.label for one in sections([])} == {
        "Table 2",
        "Table 3",
        "Table 5",
        "Table 10",
        "Polar reviews",
    }
    assert paper_tables.sections([])[0].tables[0].rows


def test_comparisons_of_classes_have_a_section_and_published_rows_of_their_own():
    polar = compared([outcome("fr", 0), outcome("infocal", 0)], options={"target": "polar"})
    scores = compared([outcome("infocal", 0)], name="second")
    shown = table(polar, scores, label="Polar reviews")
    assert "target=polar" in shown.title
    assert {"FR", "InfoCal", "FR, published", "RNP, published"} <= {one.name for one in shown.rows}
    of_scores = table(polar, scores)
    assert "HardKuma, published" in {one.name for one in of_scores.rows}
    assert not any(one.name.startswith("FR,") or one.name == "FR" for one in of_scores.rows)
    assert all("`first`" not in said for said in of_scores.protocol)


def test_a_published_method_of_the_polar_reviews_that_nobody_trained_says_so():
    found = [
        table
        for one in sections([compared(both(), options={"target": "polar"})])
        if one.label == "Polar reviews"
        for table in one.tables
    ]
    (palate,) = [one for one in found if one.title.startswith("beer/palate")]
    assert {"A2R", "DMR"} <= {row.name for row in palate.rows if row.kind == "missing"}
    assert "token_precision" in both()[0].scores and "precision %" in palate.head
    assert "mse" not in both()[0].scores and "MSE" not in palate.head, "classes have none"


def test_a_protocol_that_was_never_compared_names_the_command_that_does():
    (said, *_) = table(label="Polar reviews").first
    assert "nothing of this table was measured here" in said
    assert "--option target=polar --methods " in said


# --------------------------------------------------------------------------------------- several targets


def of_law(method: str, seed: int = 0, shift: float = 0.0) -> Outcome:
    scores = {"accuracy": 0.9 + shift, "macro_f1": 0.8 + shift, "selection_rate": 0.13}
    scores |= {"charges/macro_f1": 0.8 + shift, "mean/macro_f1": 0.6}
    scores |= {"articles/accuracy": 0.85, "articles/macro_f1": 0.75 + shift, "terms/macro_f1": 0.25}
    return Outcome(method=method, seed=seed, scores=scores)


def of_cases(outcomes, **changes) -> Compared:
    values = {"dataset": "cail-small", "aspect": "charges+articles+terms", "target_rate": 0.13}
    return compared(outcomes, **{**values, "features": "cases", "beside": [], **changes})


def law_table_of(target: str, *found: Compared) -> PaperTable:
    (section,) = [one for one in sections(found) if one.label == "Table 5" and "cail-small" in one.title]
    (only,) = [one for one in section.tables if one.title.startswith(f"cail-small/{target}")]
    return only


def test_models_of_several_targets_stand_in_the_table_of_each():
    several = of_cases([of_law("infocal"), of_law("topjudge", shift=0.05)], name="joint")
    for target, ours, theirs in (("charges", "80.0", "85.0"), ("articles", "75.0", "80.0")):
        found = law_table_of(target, several)
        place = found.head.index("macro F1 %") - 1
        assert row(found, "InfoCal (3 targets)").cells[place] == ours
        assert row(found, "TOPJUDGE (3 targets)").cells[place] == theirs
        assert row(found, "TOPJUDGE (3 targets)").cells[-1] == "+5.0 (no interval)"
        (said,) = [line for line in found.protocol if line.startswith("ours")]
        assert "each model predicts charges, articles and terms, and was chosen by its main target" in said
    assert row(law_table_of("articles", several), "TOPJUDGE, published").cells[0] == "87.2"


def test_models_of_one_target_and_of_several_share_a_table_where_texts_and_rate_are_the_same():
    alone = of_cases([of_law("infocal", shift=0.02)], name="alone", aspect="charges")
    several = of_cases([of_law("infocal"), of_law("topjudge")], name="joint")
    found = law_table_of("charges", alone, several)
    place = found.head.index("macro F1 %") - 1
    assert row(found, "InfoCal, in `alone`").cells[place] == "82.0"
    assert row(found, "InfoCal (3 targets), in `joint`").cells[place] == "80.0"
    assert row(found, "TOPJUDGE (3 targets), in `joint`").cells[-1] == "+0.0 (no interval)"


def test_what_a_method_says_of_itself_stands_below():
    said = "FLA: the vectors of the articles are learnt"
    found = law_table_of("terms", of_cases([of_law("infocal"), of_law("fla")], remarks=[said]))
    assert said in found.notes


def test_what_methods_say_of_themselves_names_their_comparison_where_there_are_two():
    named = {"with": "FLA: it reads the texts of the articles", "without": "FLA: the vectors are learnt"}
    found = law_table_of(
        "terms",
        *(of_cases([of_law("infocal"), of_law("fla")], name=n, remarks=[said]) for n, said in named.items()),
    )
    assert {f"`{name}`: {said}" for name, said in named.items()} <= set(found.notes)


def test_texts_that_nobody_marked_lack_no_trivial_masks():
    marked = table(compared(both(), beside=[]))
    assert any(note.startswith("the trivial masks are not here") for note in marked.notes)
    unmarked = law_table_of("charges", of_cases([of_law("infocal"), of_law("fla")]))
    assert not any(note.startswith("the trivial masks") for note in unmarked.notes)


def test_a_row_is_called_by_the_explainer_that_ranked_its_tokens():
    outcomes = [
        outcome("birnn_attn", 0, rate=0.5),
        outcome("cnn_gru", 0, rate=0.5, title="CNN-GRU [LIME]"),
    ]
    lime = [outcome("birnn_attn", 0, rate=0.5, title="BiRNN-Attn [LIME]")]
    posts = {"dataset": "hatexplain", "aspect": "", "target_rate": 0.5}
    (section,) = [
        one
        for one in sections([compared(outcomes, **posts), compared(lime, name="lime", **posts)])
        if one.label == "Table 10"
    ]
    (found,) = section.tables
    kinds = {row.name: row.kind for row in found.rows}
    assert kinds["BiRNN-Attn [Attn], in `first`"] == "ours"
    assert kinds["BiRNN-Attn [LIME], in `lime`"] == "ours"
    assert kinds["CNN-GRU [LIME], in `first`"] == "ours"


def test_several_targets_of_rationales_stay_together():
    """The rationale is scored by the annotators of the main target: no table of a side target shows it."""
    found = sections([compared(both(), aspect="palate+smell")])
    titles = [one.title for section in found if section.label == "Other data" for one in section.tables]
    assert len(titles) == 1 and "palate" in titles[0] and "smell" in titles[0]


def test_methods_of_several_targets_have_a_command_of_their_own():
    said = law_table_of("terms").first[0]
    assert (
        "; these commands measure it: `python -m pipeline.compare --dataset cail-small --aspect terms "
        in said
    )
    joint = "--aspect terms,charges,articles --methods fla,topjudge,mpbfn_wca --seeds 8`"
    assert said.endswith(joint) and said.count("topjudge") == 1


def test_a_printed_command_asks_for_the_weights_that_a_method_needs():
    assert paper_tables._pretrained(["infocal", "bert", "birnn"]) == " --set bert.pretrained=FOLDER_OR_NAME"

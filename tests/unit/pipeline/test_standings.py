import dataclasses
import html
import itertools
import math
from statistics import stdev

import pytest

from infocal.metrics.resampling import TextCounts, paired_difference
from pipeline.base import text_tables
from pipeline.reporting import pages, standings, typeset
from pipeline.reporting.paper_tables import PaperRow, PaperSection, PaperTable
from pipeline.reporting.significance import holm, smallest_difference, smallest_paired_difference
from pipeline.reporting.standings import (
    DEGENERATE,
    DENSE,
    OFF_TARGET,
    UNFINISHED,
    MeanScore,
    Outcome,
    Standings,
    StandingsRow,
    over_seeds,
    paired_p,
)


def outcome(method="infocal", seed=0, f1=0.6, rate=0.07, **changes):
    scores = {
        "token_precision": 0.5,
        "token_recall": 0.75,
        "token_f1": f1,
        "selection_rate": rate,
        "mse": 0.02,
    }
    return Outcome(**{"method": method, "seed": seed, "epoch": 5, "scores": scores, **changes})


def failed(method="hardkuma", seed=0, reason="all_tokens"):
    return Outcome(method=method, seed=seed, failure=reason, failure_message=f"{reason} at epoch 3")


def table(outcomes, **changes) -> Standings:
    return standings.standings("beer", "palate", outcomes, **{"target_rate": 0.07, **changes})


def row(found: Standings, name: str) -> StandingsRow:
    (only,) = [row for row in found.rows if row.name == name]
    return only


# ------------------------------------------------------------------------------------------ arithmetic


def test_mean_and_sample_deviation_by_hand():
    # mean (1 + 2 + 6) / 3; deviations -2, -1, 3; variance (4 + 1 + 9) / 2
    assert over_seeds([1.0, 2.0, 6.0]) == MeanScore(3.0, pytest.approx(math.sqrt(7)))
    assert over_seeds([0.25]) == MeanScore(0.25, None)


def test_the_paired_t_test_by_hand():
    ours, theirs = {0: 0.3, 1: 0.5}, {0: 0.2, 1: 0.1}
    # differences .1 and .4: t = .25 / (.3 / sqrt(2) / sqrt(2)) = 5/3 with 1 degree of freedom, whose
    # distribution is Cauchy's: p = 1 - 2 / pi * atan(5 / 3)
    assert paired_p(ours, theirs) == pytest.approx(1 - 2 / math.pi * math.atan(5 / 3))


def test_seeds_are_paired_and_not_lists():
    ours, theirs = {0: 0.3, 1: 0.5, 2: 0.9}, {1: 0.1, 0: 0.2, 7: 0.0}
    assert paired_p(ours, theirs) == pytest.approx(1 - 2 / math.pi * math.atan(5 / 3))


def test_no_p_without_two_common_seeds_or_any_difference():
    assert paired_p({0: 0.3}, {0: 0.1}) is None
    assert paired_p({0: 0.3, 1: 0.4}, {0: 0.1, 2: 0.2}) is None
    assert paired_p({0: 0.3, 1: 0.4}, {0: 0.3, 1: 0.4}) is None


def test_equal_differences_give_a_p_of_nought_and_no_warning():
    assert paired_p({0: 0.5, 1: 0.75}, {0: 0.25, 1: 0.5}) == 0


# -------------------------------------------------------------------------------------------- the rows


def test_a_row_has_mean_deviation_and_p_against_infocal():
    found = table(
        [
            *(outcome("infocal", seed, f1) for seed, f1 in enumerate([0.2, 0.1])),
            *(outcome("hardkuma", seed, f1) for seed, f1 in enumerate([0.3, 0.5])),
        ]
    )
    assert found.header() == ["precision %", "recall %", "F1 %", "selected %", "MSE", "p (F1)"]
    assert found.texts(row(found, "InfoCal")) == [
        *("50.0 ± 0.0", "75.0 ± 0.0", "15.0 ± 7.1", "7.0 ± 0.0", "0.0200 ± 0.0000", "-")
    ]
    assert found.texts(row(found, "HardKuma"))[2:] == ["40.0 ± 14.1", "7.0 ± 0.0", "0.0200 ± 0.0000", "0.344"]


def test_beside_the_share_that_is_held_stands_that_of_the_annotated_texts():
    scores = outcome().scores | {"selection_rate_annotated": 0.085}
    found = table([outcome(scores=scores)])
    assert found.header()[3:5] == ["selected %", "of annotated %"]
    assert found.texts(row(found, "InfoCal"))[3:5] == ["7.0", "8.5"]
    assert row(found, "InfoCal").marks == "", "the mark is of the share that is held"


def test_one_seed_has_neither_deviation_nor_p():
    found = table([outcome(), outcome("hardkuma", f1=0.5)])
    assert found.texts(row(found, "HardKuma")) == ["50.0", "75.0", "50.0", "7.0", "0.0200", "-"]


def test_the_published_row_stands_below_ours():
    found = table([outcome(), outcome("infocal-no-lm"), outcome("infocal-dense", rate=1.0, is_dense=True)])
    names = [row.name for row in found.rows]
    assert names == [
        "InfoCal",
        "[Sha2023] table 2: InfoCal",
        "[Sha2023] table 3: InfoCal",
        "InfoCal - L_lm",
        "[Sha2023] table 3: InfoCal - L_lm",
        "InfoCal - L_adv - L_ib (w/o)",
    ]
    assert found.texts(found.rows[1]) == ["89.6", "59.8", "71.7", "7.0", "-", "-"]


def test_a_failed_method_is_a_row_with_the_reason_and_the_others_stand():
    found = table([outcome(), outcome(seed=1), failed(), failed(seed=1)])
    assert found.texts(row(found, "HardKuma")) == ["-"] * 6
    said = "2 of 2 seeds failed: all_tokens: all_tokens at epoch 3"
    assert row(found, "HardKuma").note == said
    assert f"HardKuma: {said}" in found.notes
    assert row(found, "InfoCal").cells["token_f1"] == MeanScore(0.6, 0.0)


def test_a_failed_seed_is_left_out_of_the_mean_and_said():
    found = table([outcome("hardkuma", 0, 0.5), failed(seed=1)])
    assert row(found, "HardKuma").cells["token_f1"] == MeanScore(0.5)
    assert row(found, "HardKuma").note.startswith("1 of 2 seeds failed")


@pytest.mark.parametrize(
    ("changes", "marks"),
    [
        ({"rate": 0.08}, ""),
        ({"rate": 0.0801}, OFF_TARGET),
        ({"rate": 0.0599}, OFF_TARGET),
        ({"degenerate": "all_tokens"}, DEGENERATE),
        ({"is_finished": False}, UNFINISHED),
        ({"rate": 0.5, "degenerate": "first", "is_finished": False}, OFF_TARGET + DEGENERATE + UNFINISHED),
        ({"rate": 1.0, "is_dense": True}, DENSE),
    ],
)
def test_marks(changes, marks):
    # the other seed is right: one that is not suffices
    found = table([outcome(), outcome(seed=1, **changes)])
    assert row(found, "InfoCal").marks == marks
    assert [line[0] for line in found.used_marks()] == list(marks)


def test_beside_stand_trivial_lines_and_given_masks():
    lei = standings.given_row("masks of Lei et al. (2016)", {"token_f1": 0.63}, "paper", "on 9 test texts")
    found = table([outcome()], beside=[lei, *standings.trivial_rows({"random_k": {"token_f1": 0.12}})])
    assert [(row.name, row.kind) for row in found.rows[-2:]] == [(lei.name, "paper"), ("random_k", "trivial")]
    assert found.texts(found.rows[-1]) == ["-", "-", "12.0", "-", "-", "-"]


def test_columns_that_nobody_has_are_left_out():
    bare = outcome(scores={"macro_f1": 0.5, "accuracy": 0.6, "selection_rate": 0.14})
    found = standings.standings("cail-small", "charges", [bare], target_rate=0.14)
    assert found.header()[0] == "accuracy %"
    assert "token F1 %" not in found.header()
    assert found.header()[-1] == "p (macro F1)"


# --------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize("width", [45, 60, 80])
def test_a_table_is_set_as_several_where_the_terminal_is_narrow(width: int):
    wide = typeset.markdown(table([outcome(rate=0.2)])).splitlines()
    found = [line for line in typeset.markdown(table([outcome(rate=0.2)]), width).splitlines() if "|" in line]
    assert all(len(line) <= width for line in found)
    heads = [line for line, rule in itertools.pairwise(found) if rule.startswith("|--")]
    assert len(heads) > 1
    cells = [[cell.strip() for cell in head.strip("|").split(" | ")] for head in heads]
    assert {head[0] for head in cells} == {"rationales"}, "each table names its rows"
    (whole,) = [line for line, rule in itertools.pairwise(wide) if rule.startswith("|--")]
    columns = [cell for head in cells for cell in head[1:]]
    assert columns == [cell.strip() for cell in whole.strip("|").split(" | ")][1:]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1.50 [1.20, 3.10]", None),
        ("< .001", None),
        ("token_f1 5 ± 1 †", None),
        ("ours, in `a<b>`", None),
        ("in `a|b`", r"in `a\|b`"),
        ("A<script>", r"A\<script>"),
        ("`<b>``", r"`\<b>``"),
        (r"a\|b", r"a\\\|b"),
        ("**a** _b_ ~~c~~", r"\*\*a\*\* \_b\_ \~\~c\~\~"),
        ("[x](javascript:y) &lt;", r"\[x](javascript:y) \&lt;"),
        ("a\r\n b", "a b"),
    ],
)
def test_a_text_is_shown_in_markdown_as_it_is(text: str, expected: str | None):
    assert text_tables.markdown_escaped(text) == (text if expected is None else expected)


def test_every_markdown_table_escapes_its_title_and_cells():
    odd, shown = "<b>|x", r"\<b>\|x"
    of_standings = dataclasses.replace(table([outcome(rate=0.2)]), title=odd)
    assert f"### {shown}" in typeset.markdown(of_standings)
    rows = [PaperRow(name=odd, kind="ours", cells=[odd])]
    of_paper = PaperTable(title=odd, head=["", odd], rows=rows, protocol=[], first=[], notes=[])
    page = typeset.paper_markdown("All", [PaperSection(label="", title="", tables=[of_paper])], [])
    assert odd not in page and page.count(shown) == 4


def test_a_table_of_the_sample_corpus_says_so_directly_below_its_title():
    found, said = table([outcome(rate=0.2)], notes=["a note"]), "the published rows say nothing about these"
    for width in (None, 60):
        title, _, warning, _, head, *_ = typeset.markdown(found, width, is_sample=True).splitlines()
        assert title.startswith("### ") and head.startswith("| rationales ")
        assert warning == f"**Made-up sample corpus**: {said} numbers."
    latex = typeset.latex(found, is_sample=True)
    assert latex.index(f"Made-up sample corpus: {said}") < latex.index("a note") and "**" not in latex
    assert said not in typeset.markdown(found) + typeset.latex(found)


def test_markdown_is_aligned_and_has_its_notes():
    text = typeset.markdown(table([outcome(rate=0.2)], notes=["a | b"]))
    lines = text.splitlines()
    assert lines[0] == "### beer/palate: methods at 7 % of the tokens, on test"
    assert lines[2].startswith("| rationales ")
    assert set(lines[3]) == set("|-:")
    assert lines[4].startswith(f"| InfoCal {OFF_TARGET} ")
    assert len({len(line) for line in lines[2:5]}) == 1
    assert any(line.startswith(f"- {OFF_TARGET} with at least one seed") for line in lines)


def test_latex_escapes_what_it_would_read_as_commands():
    assert text_tables.latex_escaped(r"a_b & 5 % $x$ {#} \ ^~ <> ± †") == (
        r"a\_b \& 5 \% \$x\$ \{\#\} \textbackslash{} \textasciicircum{}\textasciitilde{} "
        r"\textless{}\textgreater{} $\pm$ \dag{}"
    )


def test_trivial_lines_of_texts_without_annotations_have_no_row():
    assert standings.trivial_rows({"first_k": {"selection_rate": 0.13, "num_skipped": 9}}) == []
    (row,) = standings.trivial_rows({"first_k": {"selection_rate": 0.13, "token_f1": 0.2}})
    assert row.name == "first_k"


def test_latex_is_a_booktabs_table():
    trivial = standings.trivial_rows({"random_k": {"token_f1": 0.1}})
    text = typeset.latex(table([outcome("infocal-no-lm"), outcome("infocal-no-lm", 1)], beside=trivial))
    lines = text.splitlines()
    body = lines[lines.index(r"\toprule") : lines.index(r"\bottomrule") + 1]
    assert r"\begin{tabular}{lrrrrrr}" in lines
    assert body[1].startswith(r"rationales & precision \% & ")
    assert body[2] == r"\midrule"
    assert body[3].startswith(r"InfoCal - L\_lm & 50.0 $\pm$ 0.0 & ")
    assert body[-3:-1] == [r"\midrule", r"random\_k & - & - & 10.0 & - & - & - \\"]
    assert all(line.count("&") == 6 for line in body if line.endswith(r"\\"))


# ---------------------------------------------------------------------- intervals, corrections, ceilings


def texts(hits: list[int], selected: int = 2, marked: int = 2) -> dict[str, list[int] | list[float]]:
    """Counts of texts of ten tokens with so many hits each; F1 is their mean over two."""
    size = len(hits)
    return {
        "lengths": [10] * size,
        "annotated": [1] * size,
        "selected": [selected] * size,
        "marked": [marked] * size,
        "hits": hits,
        "predicted_score": [0.5] * size,
        "target_score": [0.5] * size,
    }


def seeds_of(method: str, *hits: list[int], **changes) -> list[Outcome]:
    found = []
    for seed, one in enumerate(hits):
        f1 = sum(one) / (2 * len(one))
        scores = outcome().scores | {"token_f1": f1, "gold_density": 0.2, "selection_rate": 0.2}
        found.append(outcome(method, seed, scores=scores, texts=texts(one), **changes))
    return found


OURS = [[2, 2, 1, 0, 2, 1, 0, 2], [2, 1, 1, 0, 2, 1, 1, 2], [2, 2, 1, 0, 1, 1, 0, 2]]
WORSE = [[max(0, hit - 1) for hit in one] for one in OURS]


def test_a_difference_from_infocal_has_an_interval_over_texts_and_seeds():
    found = table([*seeds_of("infocal", *OURS), *seeds_of("hardkuma", *WORSE)], target_rate=0.2)
    gap = row(found, "HardKuma").differences["token_f1"]
    theirs, ours = ([TextCounts.of_lists(texts(one)) for one in some] for some in (WORSE, OURS))
    assert gap == paired_difference("token_f1", theirs, ours)
    assert gap.estimate == pytest.approx(sum(map(sum, WORSE)) / 48 - sum(map(sum, OURS)) / 48)
    assert gap.interval.high < 0 and row(found, "HardKuma").corrected["token_f1"] == gap.p_value
    assert found.header()[-3:] == ["p (F1)", "F1 minus InfoCal's [95 %]", "p, Holm"]
    ends = 100 * gap.interval.low, 100 * gap.interval.high
    assert (
        found.texts(row(found, "HardKuma"))[-2]
        == f"{100 * gap.estimate:+.1f} [{ends[0]:+.1f}, {ends[1]:+.1f}]"
    )
    assert found.texts(row(found, "InfoCal"))[-2:] == ["-", "-"]
    stored = {one["name"]: one["differences"] for one in found.as_json()["rows"]}
    assert stored["HardKuma"]["token_f1"]["interval"]["low"] == gap.interval.low


def test_p_values_are_corrected_for_as_many_methods_as_are_compared():
    others = [*seeds_of("hardkuma", *WORSE), *seeds_of("bernoulli", *WORSE), *seeds_of("attention", *OURS)]
    found = table([*seeds_of("infocal", *OURS), *others], target_rate=0.2)
    plain = {r.name: r.differences["token_f1"].p_value for r in found.rows if r.differences}
    assert len(plain) == 3
    assert {r.name: r.corrected["token_f1"] for r in found.rows if r.differences} == holm(plain)
    assert row(found, "HardKuma").corrected["token_f1"] == pytest.approx(3 * plain["HardKuma"])


def test_holm_multiplies_the_least_p_most_and_keeps_the_order():
    assert holm({"a": 0.04, "b": 0.01, "c": 0.03}) == pytest.approx({"a": 0.06, "b": 0.03, "c": 0.06})
    assert holm({1: 0.9, 2: 0.8}) == {1: 1.0, 2: 1.0}
    assert holm({}) == {}


def test_every_format_has_the_interval_the_correction_the_ceiling_and_the_smallest_difference():
    found = table([*seeds_of("infocal", *OURS), *seeds_of("hardkuma", *WORSE)], target_rate=0.2)
    gap = found.texts(row(found, "HardKuma"))[-2]
    page = pages.comparison_page(found, command="python", is_sample=False)
    for text in (typeset.markdown(found), html.unescape(page)):
        assert gap in text and "of the ceiling %" in text and "p, Holm" in text
        assert (
            "smallest detectable difference in F1 with 3 seeds on these texts, at 80% power and alpha 0.05"
            in text
        )
        assert "3 seeds are too few for a claim: intervals over seeds are too narrow; use at least 8" in text
    assert gap in typeset.latex(found) and r"of the ceiling \%" in typeset.latex(found)
    assert set(found.as_json()["smallest"]) == {"interval", "interval_least", "interval_most", "t_test"}


def test_the_smallest_difference_is_that_of_the_intervals_and_of_the_t_test():
    found = table([*seeds_of("infocal", *OURS), *seeds_of("hardkuma", *WORSE)], target_rate=0.2)
    error = row(found, "HardKuma").differences["token_f1"].interval.error
    assert found.smallest["interval"] == pytest.approx(smallest_difference(error))
    gaps = [sum(w) / 16 - sum(o) / 16 for w, o in zip(WORSE, OURS, strict=True)]
    assert found.smallest["t_test"] == pytest.approx(smallest_paired_difference(stdev(gaps), 3))


def test_eight_seeds_allow_a_claim():
    many = [OURS[seed % 3] for seed in range(8)]
    found = table([*seeds_of("infocal", *many), *seeds_of("hardkuma", *many)], target_rate=0.2)
    assert not any("too few for a claim" in note for note in found.notes)
    one = table([*seeds_of("infocal", *OURS[:1]), *seeds_of("hardkuma", *WORSE[:1])], target_rate=0.2)
    assert any(
        note.startswith("1 seed is too few for a claim: ") and note.endswith("use at least 8 (`--seeds 8`)")
        for note in one.notes
    )


def test_outcomes_of_an_older_version_have_no_interval_and_that_is_said():
    old = [outcome("hardkuma", seed) for seed in range(3)]
    found = table([*seeds_of("infocal", *OURS), *old, *seeds_of("attention", *WORSE)], target_rate=0.2)
    assert row(found, "HardKuma").differences == {}
    assert "no interval, because an older version stored the results: HardKuma" in found.notes


def test_the_share_of_the_ceiling_is_f1_over_the_oracles_at_the_target_rate():
    found = table(
        [*seeds_of("infocal", *OURS), *seeds_of("infocal-dense", *OURS, is_dense=True)],
        target_rate=0.05,
        beside=standings.trivial_rows({"oracle_k": {"token_f1": 0.4}, "all_tokens": {"token_f1": 0.3}}),
    )
    # of 100 tokens 20 are marked and 5 may be selected: F1 = 2 x 5 / (5 + 20)
    assert found.ceiling == pytest.approx(0.4)
    f1 = row(found, "InfoCal").cells["token_f1"]
    share = row(found, "InfoCal").cells["ceiling_share"]
    assert (share.mean, share.deviation) == (pytest.approx(f1.mean / 0.4), pytest.approx(f1.deviation / 0.4))
    assert row(found, "oracle_k").cells["ceiling_share"].mean == pytest.approx(1)
    for name in ("all_tokens", "InfoCal - L_adv - L_ib (w/o)", "[Sha2023] table 2: InfoCal"):
        assert "ceiling_share" not in row(found, name).cells
    labels = found.header()
    assert labels[labels.index("F1 %") + 1] == "of the ceiling %"
    assert any(
        "micro token F1 (over the tokens of all annotated texts) as a share of 40.0, the F1 of an oracle "
        "that selects 5 %" in note
        for note in found.notes
    )


def test_the_ceiling_is_that_of_micro_f1_also_beside_another_token_f1():
    scores = {"hatexplain_token_f1": 0.5, "token_f1": 0.2, "gold_density": 0.25, "selection_rate": 0.5}
    own = Outcome(method="infocal", seed=0, epoch=1, scores=scores)
    found = standings.standings("hatexplain", "", [own], target_rate=0.5)
    labels = found.header()
    assert labels[labels.index("token F1 %") + 1] == "micro F1 of the ceiling %"
    assert row(found, "InfoCal").cells["ceiling_share"].mean == pytest.approx(0.2 / (2 * 0.25 / 0.75))


# --------------------------------------------------------------------------------------- several targets


LAW = "charges+articles+terms"


def of_law(method: str, seed: int = 0, **scores: float) -> Outcome:
    known = {"accuracy": 0.9, "macro_f1": 0.8, "selection_rate": 0.13, "mean/macro_f1": 0.5}
    known |= {"charges/accuracy": 0.9, "charges/macro_f1": 0.8, "articles/macro_f1": 0.7}
    return Outcome(method=method, seed=seed, epoch=1, scores=known | scores)


def law_table(*outcomes: Outcome, **changes) -> Standings:
    return standings.standings("cail-small", LAW, outcomes, **{"target_rate": 0.13, **changes})


def targets_of(found: Standings) -> list[str]:
    """The targets of the columns, in their order."""
    return list(dict.fromkeys(column.label.partition(" ")[0] for column in found.columns))


def test_each_of_several_targets_has_columns_that_name_it():
    found = law_table(of_law("infocal", **{"terms/macro_f1": 0.3, "terms/accuracy": 0.4}), of_law("topjudge"))
    assert [column.label for column in found.columns] == [
        *("charges accuracy", "charges macro precision", "charges macro recall", "charges macro F1"),
        *("articles accuracy", "articles macro precision", "articles macro recall", "articles macro F1"),
        *("terms accuracy", "terms macro precision", "terms macro recall", "terms macro F1"),
        "selected",
    ]
    assert found.headline is not None and found.headline.label == "charges macro F1"
    own = dict(zip((c.label for c in found.columns), found.texts(row(found, "InfoCal")), strict=False))
    assert own["articles macro F1"] == "70.0" and own["terms macro F1"] == "30.0"
    assert own["terms macro recall"] == "-"


def test_the_published_row_of_several_targets_has_the_numbers_of_each():
    found = law_table(of_law("infocal"), of_law("topjudge"))
    published = row(found, "[Sha2023] table 5: TOPJUDGE")
    assert published.kind == "paper"
    cells = {score: cell.mean for score, cell in published.cells.items()}
    assert cells["accuracy"] == 0.871 and cells["macro_f1"] == 0.846
    assert cells["articles/accuracy"] == 0.872 and cells["articles/macro_f1"] == 0.800
    assert cells["terms/accuracy"] == 0.380 and cells["terms/macro_f1"] == 0.346
    assert "selected_rate" not in cells and "selection_rate" not in cells
    # its own numbers are ours alone
    assert row(found, "TOPJUDGE").cells["articles/macro_f1"].mean == 0.7


@pytest.mark.parametrize(
    ("chosen_by", "order"),
    [
        ("val_macro_f1", ["charges", "articles", "terms"]),
        ("val_articles/macro_f1", ["articles", "charges", "terms"]),
        ("val_terms/macro_f1", ["terms", "charges", "articles"]),
        ("val_mean/macro_f1", ["mean", "charges", "articles", "terms"]),
    ],
)
def test_the_target_of_the_criterion_stands_first(chosen_by: str, order: list[str]):
    known = {"terms/macro_f1": 0.3, "mean/accuracy": 0.6}
    outcomes = [of_law("infocal", **known), of_law("topjudge", **known)]
    found = law_table(*outcomes, chosen_by=chosen_by)
    assert targets_of(found) == [*order, "selected"]
    values = dict(zip((c.label for c in found.columns), found.texts(row(found, "InfoCal")), strict=False))
    assert (values["charges macro F1"], values["terms macro F1"]) == ("80.0", "30.0")
    (note,) = [note for note in found.notes if "differences and p-values are of charges macro F1" in note]
    target = order[0]
    said = f"the best epoch of each training is chosen by {target} macro F1"
    assert (said in note) == (target != "charges")


def test_targets_with_rationales_of_their_own_have_a_share_each_and_one_off_the_target_is_marked():
    rates = {"articles/selection_rate": 0.13, "terms/selection_rate": 0.16}
    found = law_table(of_law("infocal", **rates))
    assert [column.label for column in found.columns][-3:] == [
        "charges selected",
        "articles selected",
        "terms selected",
    ]
    assert found.texts(row(found, "InfoCal"))[-4:-1] == ["13.0", "13.0", "16.0"]
    assert row(found, "InfoCal").marks == OFF_TARGET
    shared = law_table(of_law("infocal", **dict.fromkeys(rates, 0.13)))
    assert [column.label for column in shared.columns][-1] == "selected"
    assert row(shared, "InfoCal").marks == ""


def test_the_faithfulness_of_each_target_has_columns_that_name_it():
    scores = {"comprehensiveness": 0.2, "articles/comprehensiveness": 0.3, "terms/sufficiency": 0.1}
    found = law_table(of_law("infocal", **scores), chosen_by="val_terms/macro_f1")
    values = dict(zip((c.label for c in found.columns), found.texts(row(found, "InfoCal")), strict=False))
    named = {label: text for label, text in values.items() if "ness" in label or "sufficiency" in label}
    assert named == {
        "terms sufficiency": "10.0",
        "charges comprehensiveness": "20.0",
        "articles comprehensiveness": "30.0",
    }


def test_scores_of_two_reviews_stand_side_by_side():
    scores = {"mse": 0.02, "palate/mse": 0.02, "smell/mse": 0.03, "mean/mse": 0.025}
    found = standings.standings(
        "beer", "palate+smell", [outcome(scores=outcome().scores | scores)], target_rate=0.07
    )
    labels = [column.label for column in found.columns]
    place = labels.index("palate MSE")
    assert labels[place : place + 2] == ["palate MSE", "smell MSE"]
    assert not any("p-values are of" in note for note in found.notes), "there is one method"


def test_one_target_has_the_columns_that_it_had():
    found = standings.standings("cail-small", "charges", [of_law("infocal")], target_rate=0.13)
    labels = [column.label for column in found.columns]
    assert labels == ["accuracy", "macro precision", "macro recall", "macro F1", "selected"]

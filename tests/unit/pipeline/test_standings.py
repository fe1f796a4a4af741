import math

import pytest

from pipeline import standings, typeset
from pipeline.standings import (
    DEGENERATE,
    DENSE,
    OFF_TARGET,
    UNFINISHED,
    Cell,
    Outcome,
    Row,
    Standings,
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


def row(found: Standings, name: str) -> Row:
    (only,) = [row for row in found.rows if row.name == name]
    return only


# ------------------------------------------------------------------------------------------ arithmetic


def test_mean_and_sample_deviation_by_hand():
    # mean (1 + 2 + 6) / 3; deviations -2, -1, 3; variance (4 + 1 + 9) / 2
    assert over_seeds([1.0, 2.0, 6.0]) == Cell(3.0, pytest.approx(math.sqrt(7)))
    assert over_seeds([0.25]) == Cell(0.25, None)


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
    assert row(found, "InfoCal").cells["token_f1"] == Cell(0.6, 0.0)


def test_a_failed_seed_is_left_out_of_the_mean_and_said():
    found = table([outcome("hardkuma", 0, 0.5), failed(seed=1)])
    assert row(found, "HardKuma").cells["token_f1"] == Cell(0.5)
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
    assert typeset.escaped(r"a_b & 5 % $x$ {#} \ ^~ <> ± †") == (
        r"a\_b \& 5 \% \$x\$ \{\#\} \textbackslash{} \textasciicircum{}\textasciitilde{} "
        r"\textless{}\textgreater{} $\pm$ \dag{}"
    )


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

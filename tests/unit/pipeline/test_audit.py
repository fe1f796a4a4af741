"""The audit finds planted faults and the published ones, and never calls a measured table wrong."""

import csv
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from infocal.metrics.scores import Mask, ranked_mask_scores, token_scores
from pipeline import score
from pipeline.base.errors import run_command
from pipeline.marks.audit import Audit, as_json, audit, page
from pipeline.marks.printed import ValueRange, read_table
from pipeline.reporting import published

TABLES = Path(__file__).parents[2] / "data" / "published"


def checked(tmp_path: Path, text: str, density: float | None = None) -> Audit:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    return audit(read_table(path), None if density is None else ValueRange(density, density))


def found(result: Audit) -> list[tuple[int, str, tuple[str, ...]]]:
    return [(one.line, one.rule, one.columns) for one in result.findings]


# ------------------------------------------------------------------------------------------ planted faults


@pytest.mark.parametrize(
    ("text", "density", "expected"),
    [
        # 2 x .8 x .5 / 1.3 = .6154: .615 is right, .614 is not
        ("precision,recall,f1\n0.8000,0.5000,0.6154\n0.8000,0.5000,0.6140\n", None, (3, "f1", "prf")),
        # .8 and .5 with one digit may be .75 to .85 and .45 to .55: F1 from .5625 to .668
        ("precision,recall,f1\n0.8,0.5,0.7\n0.8,0.5,0.8\n", None, (3, "f1", "prf")),
        ("precision,recall,f1\n80.0,50.0,61.5\n80.0,50.0,60.5\n40.0,50.0,44.4\n", None, (3, "f1", "prf")),
        # with recall unknown, F1 is at most 2P / (1 + P) = .667
        ("precision,f1\n0.500,0.666\n0.500,0.668\n", None, (3, "f1", "pf")),
        ("recall,f1\n0.500,0.666\n0.500,0.668\n", None, (3, "f1", "rf")),
        ("precision,recall\n1.000,0.5\n1.001,0.5\n", None, (3, "range", "p")),
        ("precision,recall\n100.0,50\n100.1,50\n", None, (3, "range", "p")),
        ("precision,recall\n0.9,0.5\n0.9,-0.1\n", None, (3, "range", "r")),
        # .8 x .1 / .5 = .16
        (
            "precision,recall,selected\n0.800,0.500,0.100\n0.800,0.500,0.120\n",
            0.16,
            (3, "density", "prs"),
        ),
        # recall .5 of a density of .16 needs .08
        ("recall,selected\n0.500,0.080\n0.500,0.070\n", 0.16, (3, "ceiling", "rs")),
        # 1 - .9 of .5 would be missed: .05, but only .02 is left out
        ("recall,selected\n0.900,0.950\n0.900,0.980\n", 0.5, (3, "ceiling", "rs")),
        # .9 x .2 = .18 would be selected rightly
        ("precision,selected\n0.800,0.200\n0.900,0.200\n", 0.16, (3, "ceiling", "ps")),
        # .9 selected with precision .3 is .63 unmarked, of .5
        ("precision,selected\n0.500,0.900\n0.300,0.900\n", 0.5, (3, "ceiling", "ps")),
        # .08 selected at .16: at best 2 x .08 / .24 = .667
        ("f1,selected\n0.666,0.080\n0.670,0.080\n", 0.16, (3, "ceiling", "fs")),
        ("f1,selected\n0.666,0.320\n0.670,0.320\n", 0.16, (3, "ceiling", "fs")),
        # .9 selected, .9 marked, .45 both: 1.35
        ("precision,recall,selected\n0.900,0.900,0.900\n0.500,0.500,0.900\n", None, (3, "union", "prs")),
        ("f1,paper_iou_f1\n0.750,0.600\n0.750,0.610\n", None, (3, "formula", "fi")),
        # .8 x 1.9 / 2 + .2 x 1.0 / 2 = .86
        (
            "precision,recall,paper_auprc\n0.900,0.800,0.860\n0.900,0.800,0.870\n",
            None,
            (3, "formula", "pra"),
        ),
        # of means: at most the harmonic mean, at least P + R - 1
        (
            "macro_precision,macro_recall,macro_f1\n0.900,0.500,0.642\n0.900,0.500,0.650\n",
            None,
            (3, "macro_f1", "PRF"),
        ),
        (
            "macro_precision,macro_recall,macro_f1\n0.900,0.500,0.400\n0.900,0.500,0.390\n",
            None,
            (3, "macro_f1", "PRF"),
        ),
    ],
)
def test_a_planted_fault_is_found_and_its_neighbours_are_not(
    tmp_path: Path, text: str, density: float | None, expected: tuple[int, str, str]
):
    letters = {"p": "precision", "r": "recall", "f": "f1", "s": "selected", "i": "paper_iou_f1"}
    letters |= {"a": "paper_auprc", "P": "macro_precision", "R": "macro_recall", "F": "macro_f1"}
    line, rule, columns = expected
    result = checked(tmp_path, text, density)
    assert found(result) == [(line, rule, tuple(letters[letter] for letter in columns))]
    assert not [one for one in result.densities if one.is_contradiction and rule != "union"]


def test_rows_of_one_corpus_must_share_a_density(tmp_path: Path):
    header = "method,corpus,precision,recall,selected\n"
    rows = "a,x,0.800,0.500,0.100\nb,x,0.640,0.400,0.100\nc,x,0.800,0.500,0.200\nd,y,0.800,0.500,0.200\n"
    result = checked(tmp_path, header + rows)
    assert result.findings == []
    one, other = result.densities
    assert (one.corpus, one.num_agreeing, one.is_contradiction) == ("x", 2, True)
    assert [row.method for row in one.rows if not row.agrees] == ["c"]
    assert one.span.low < 0.16 < one.span.high
    assert (other.corpus, other.is_contradiction) == ("y", False)
    text = page(result)
    assert "and 2 of 3 rows agree on 0.158" in text
    assert "  line 4 c: 0.31" in text and "line 2" not in text


def test_where_no_majority_agrees_no_row_is_singled_out(tmp_path: Path):
    result = checked(tmp_path, "precision,recall,selected\n0.80,0.50,0.10\n0.80,0.50,0.20\n")
    assert "but at most 1 of 2 rows agree on one value; the rows give:" in page(result)
    assert "  line 2: 0.1" in page(result) and "  line 3: 0.3" in page(result)


def test_a_column_of_densities_comes_before_the_flag(tmp_path: Path):
    text = "precision,recall,selected,gold_density\n0.800,0.500,0.100,0.160\n0.800,0.500,0.200,-\n"
    assert found(checked(tmp_path, text, 0.32)) == []
    assert [line for line, *_ in found(checked(tmp_path, text, 0.16))] == [3]


def test_columns_that_follow_from_others_are_told(tmp_path: Path):
    # F 2/3 -> .5; trapezoid to .16: .5 x 1.0 + ... by hand: R (1 + P) / 2 + (1 - R) (P + .16) / 2
    auprc = 0.5 * 1.8 / 2 + 0.5 * 0.96 / 2
    text = f"precision,recall,f1,iou_f1,auprc,selected\n0.800,0.500,0.615,0.444,{auprc:.3f},0.100\n"
    text += "0.800,0.500,0.615,0.600,0.900,0.100\n"
    result = checked(tmp_path, text)
    assert result.findings == []
    iou, area = result.formulas
    assert (iou.column, iou.lines, iou.num_comparable) == ("iou_f1", [2], 2)
    assert (area.column, area.lines) == ("auprc", [2])
    assert "(1, gold density)" in area.text
    assert "in 1 of 2 rows, iou_f1 is f1 / (2 - f1)" in page(result)


def test_nothing_is_told_of_a_column_that_is_all_or_nothing(tmp_path: Path):
    result = checked(
        tmp_path, "precision,recall,f1,iou_f1\n0.000,0.000,0.000,0.000\n1.000,1.000,1.000,1.000\n"
    )
    assert (result.findings, result.formulas) == ([], [])
    assert "no contradiction found" in page(result)


# ----------------------------------------------------------------------------------------- published tables


@pytest.mark.parametrize(
    ("name", "source", "prefix"),
    [
        ("sha2023_table2.csv", "[Sha2023] table 2", ""),
        ("sha2023_table3.csv", "[Sha2023] table 3", ""),
        ("sha2023_table5.csv", "[Sha2023] table 5", "cail"),
    ],
)
def test_the_published_tables_here_are_those_of_the_pipeline(name: str, source: str, prefix: str):
    with (TABLES / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    there = [row for row in published.all_rows() if row.source == source and row.dataset.startswith(prefix)]
    assert [row["method"] for row in rows] == [row.method for row in there]
    for row, other in zip(rows, there, strict=True):
        columns = row.keys() - {"method", "corpus"}
        assert {c: row[c] for c in columns} == {c: str(other.printed[c]) for c in columns}


def published_audit(number: int) -> Audit:
    return audit(read_table(TABLES / f"sha2023_table{number}.csv"))


def test_table_2_contradicts_itself_and_has_two_columns_of_formulas():
    result = published_audit(2)
    assert result.findings == []
    agreeing = {one.corpus: (one.num_agreeing, len(one.rows)) for one in result.densities}
    assert agreeing == {"appearance": (2, 6), "smell": (3, 6), "palate": (4, 6)}
    assert {one.column: len(one.lines) for one in result.formulas} == {"iou_f1": 18, "auprc": 18}
    assert all("(1, 0.10)" in one.text for one in result.formulas if one.column == "auprc")


def test_table_3_is_consistent():
    result = published_audit(3)
    assert (result.findings, result.densities, result.formulas) == ([], [], [])


def test_table_5_has_macro_f1_above_what_precision_and_recall_allow():
    result = published_audit(5)
    assert {one.rule for one in result.findings} == {"macro_f1"}
    assert len(result.findings) == 31
    # the weaker bound of test_published, (P + R) / 2, finds 30 of them
    assert {"Bernoulli (w/o)", "InfoCal", "FLA"} <= {one.method for one in result.findings}


# ------------------------------------------------------------------------- a measured table is never wrong


def masks(draw: st.DrawFn, lengths: list[int]) -> list[Mask]:
    return [np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)), dtype=np.bool_) for n in lengths]


NAMES = {
    "precision": "token_precision",
    "recall": "token_recall",
    "f1": "token_f1",
    "selected": "selection_rate_annotated",
    "iou_f1": "iou_f1",
    "auprc": "auprc",
    "macro_precision": "token_precision_macro",
    "macro_recall": "token_recall_macro",
    "macro_f1": "token_f1_macro",
    "paper_iou_f1": "paper_iou_f1",
    "paper_auprc": "paper_auprc",
}


@dataclass(frozen=True)
class Measured:
    """What a table is made of; scored in the test, as the checks of shapes draw at random themselves."""

    golds: list[Mask]
    rows: list[list[Mask]]
    columns: list[str]
    digits: int
    is_percent: bool

    def text(self) -> str:
        lines = [",".join(f"{column} %" if self.is_percent else column for column in self.columns)]
        for row in self.rows:
            ranks = [mask.astype(np.float64) for mask in row]
            scores = ranked_mask_scores(row, ranks, self.golds, mode="paper")
            values = [scores[NAMES[column]] * (100 if self.is_percent else 1) for column in self.columns]
            lines.append(",".join(f"{value:.{self.digits}f}" for value in values))
        return "\n".join(lines) + "\n"


@st.composite
def tables(draw: st.DrawFn) -> Measured:
    """A table of masks measured against one set of human ones."""
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=5))
    golds = masks(draw, lengths)
    assume(any(gold.any() for gold in golds))
    return Measured(
        golds,
        [masks(draw, lengths) for _ in range(draw(st.integers(1, 4)))],
        draw(st.lists(st.sampled_from(list(NAMES)), min_size=1, unique=True)),
        draw(st.integers(0, 17)),
        draw(st.booleans()),
    )


@given(measured=tables(), is_known=st.booleans())
def test_a_measured_table_is_never_called_wrong(measured: Measured, is_known: bool):
    text, density = measured.text(), token_scores(measured.golds, measured.golds).gold_density
    with tempfile.TemporaryDirectory() as folder:
        result = checked(Path(folder), text, density if is_known else None)
    assert result.findings == [], text
    assert not any(one.is_contradiction for one in result.densities), text


# --------------------------------------------------------------------------------------------- the command


def write(tmp_path: Path, text: str) -> str:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    return str(path)


FAULTY = "method,precision,recall,f1,selected\nours,80.0,50.0,70.0,10.0\n"


def test_findings_are_results_and_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "audit.json"
    assert run_command(score.main, ["--audit", write(tmp_path, FAULTY), "--json", str(target)]) == 0
    text = capsys.readouterr().out
    assert "1 of 1 row has values that cannot be right:" in text
    assert "line 2 ours, precision, recall and f1: f1 is 0.6995 to 0.7005, but" in text
    document: dict[str, Any] = json.loads(target.read_text("utf-8"))
    assert document["impossible"][0]["columns"] == ["precision", "recall", "f1"]
    assert document["units"]["selected"] == "percent"
    assert document["gold_density"][0]["span"]["low"] == pytest.approx(0.16, abs=0.002)
    assert document["assumed"] in text


def test_the_density_is_counted_in_a_human_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    human = tmp_path / "human.jsonl"
    human.write_text('{"id": 1, "rationale": [1, 0, 0, 0]}\n{"id": 2, "num_tokens": 9, "rationale": null}\n')
    sound = write(tmp_path, FAULTY.replace("70.0", "61.5"))
    assert score.main(["--audit", sound, "--human", str(human), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)[
        "impossible"
    ]  # 1 of 4 tokens is marked: .5 of that is above .1
    assert [(one["rule"], one["columns"]) for one in found] == [
        ("ceiling", ["recall", "selected"]),
        ("ceiling", ["f1", "selected"]),
    ]
    assert score.main(["--audit", sound, "--gold-density", "16%", "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["impossible"] == []


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--rationale", "r"], "--rationale: give `--audit` or `--rationale`, not both"),
        (["--human", "h", "--gold-density", "0.1"], "give `--gold-density` or `--human`, not both"),
        (["--gold-density", "x"], "--gold-density: expected one number, but got `x`"),
        (["--human", "nowhere"], "nowhere: no such file"),
        (["--dataset", "beer"], "--dataset: this flag needs `--human`"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    flags: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert run_command(score.main, ["--audit", write(tmp_path, FAULTY), *flags]) == 2
    assert message in capsys.readouterr().err


def test_one_density_does_not_do_for_two_corpora(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table = write(tmp_path, "aspect,precision\nsmell,0.5\npalate,0.5\n")
    assert run_command(score.main, ["--audit", table, "--gold-density", "0.1"]) == 2
    assert (
        "expected rows of one corpus, because one gold density is given, but got 2 corpora: palate"
        in capsys.readouterr().err
    )


def test_a_density_is_for_a_table(capsys: pytest.CaptureFixture[str]):
    assert run_command(score.main, ["--gold-density", "0.1"]) == 2
    assert "--gold-density: this flag needs `--audit`" in capsys.readouterr().err


def test_a_bad_cell_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    table = write(tmp_path, "precision\n0.5\nhalf\n")
    assert run_command(score.main, ["--audit", table]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"error: {table}:3: column `precision`: expected one number, but got `half`" in captured.err


def test_everything_is_fit_for_machines(tmp_path: Path):
    assert json.dumps(as_json(checked(tmp_path, FAULTY)), allow_nan=False)

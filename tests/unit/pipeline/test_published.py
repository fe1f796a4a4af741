"""The published numbers: all there, as printed, and consistent where they must be."""

from decimal import Decimal

import pytest

from infocal.metrics.scores import paper_auprc, paper_iou_f1
from pipeline.reporting import published
from pipeline.reporting.published import PublishedRow

HALF_UNIT = 0.0005
"""Half of the last digit printed, 0.1 % or 0.001."""

EPSILON = 1e-9

BEER = [row for row in published.all_rows() if row.dataset == "beer"]
CAIL = [row for row in published.all_rows() if row.dataset.startswith("cail-")]


def cell(row: PublishedRow) -> tuple[str, str, str, str]:
    return row.source, row.dataset, row.task, row.method


def value(row: PublishedRow, column: str) -> float:
    found = row.value(column)
    assert found is not None, (cell(row), column)
    return found


# ------------------------------------------------------------------------------------------- what is there


@pytest.mark.parametrize(
    ("source", "dataset", "task", "methods"),
    [
        ("[Sha2023] table 2", "beer", "appearance", 6),
        ("[Sha2023] table 2", "beer", "smell", 6),
        ("[Sha2023] table 2", "beer", "palate", 6),
        ("[Sha2023] table 3", "beer", "appearance", 5),
        ("[Sha2023] table 3", "beer", "smell", 5),
        ("[Sha2023] table 3", "beer", "palate", 5),
        ("masks of Lei et al. (2016)", "beer", "palate", 1),
        ("[Sha2023] table 5", "cail-small", "charges", 13),
        ("[Sha2023] table 5", "cail-big", "terms", 13),
        ("[Sha2023] table 7", "cail", "articles", 3),
        ("[Sha2023] table 8", "cail", "terms", 4),
        ("[Sha2023] table 10", "hatexplain", "", 10),
        ("[Sha2023] table 10", "hatexplain", "supervised", 4),
        ("[Sha2023] table 12", "language-models", "beer", 3),
        ("[Sha2023] table 12", "language-models", "hatexplain", 3),
    ],
)
def test_every_row_of_a_table_is_there(source, dataset, task, methods):
    rows = [row for row in published.rows(dataset, task) if row.source == source]
    assert len({row.method for row in rows}) == len(rows) == methods


@pytest.mark.parametrize(
    ("dataset", "task", "method", "columns"),
    [
        (
            "beer",
            "appearance",
            "InfoCal",
            {"precision": "98.5", "recall": "73.2", "f1": "84.0", "auprc": "0.871"},
        ),
        ("beer", "smell", "InfoCal", {"precision": "95.6", "recall": "45.6", "f1": "61.7", "selected": "7"}),
        (
            "beer",
            "palate",
            "InfoCal",
            {"precision": "89.6", "recall": "59.8", "f1": "71.7", "iou_f1": "55.9"},
        ),
        ("beer", "palate", "HardKuma", {"precision": "89.8", "recall": "48.6", "f1": "63.1"}),
        ("beer", "palate", "Lei et al. (2016), masks", {"precision": "81.1", "recall": "51.7", "f1": "63.1"}),
        ("cail-small", "charges", "InfoCal", {"accuracy": "0.849", "macro_f1": "0.813", "selected": "14"}),
        ("cail-small", "terms", "TOPJUDGE", {"accuracy": "0.380", "macro_f1": "0.346", "selected": None}),
        ("cail", "articles", "InfoCal", {"comprehensiveness": "0.395", "sufficiency": "-0.056"}),
        ("hatexplain", "", "InfoCal", {"accuracy": "0.630", "iou_f1": "0.206", "sufficiency": "-0.097"}),
        ("hatexplain", "supervised", "BERT-HateXplain [LIME]", {"comprehensiveness": "0.500"}),
    ],
)
def test_numbers_stand_as_printed(dataset, task, method, columns):
    row = next(row for row in published.rows(dataset, task) if row.method == method)
    shown = {name: None if (number := row.printed[name]) is None else str(number) for name in columns}
    assert shown == columns


def test_percent_becomes_a_fraction_and_a_fraction_stays():
    row = published.rows("beer", "palate")[-1]
    assert row.value("f1") == pytest.approx(0.631)
    infocal = next(row for row in published.rows("beer", "palate") if row.method == "InfoCal")
    assert infocal.value("auprc") == 0.767
    assert infocal.value("selected") == 0.07
    assert infocal.value("mse") is None, "not reported"


def test_unknown_dataset_has_no_rows():
    assert published.rows("beer", "taste") == []


def test_the_ablation_repeats_infocal_exactly():
    for task in ("appearance", "smell", "palate"):
        first, second = (row for row in published.rows("beer", task) if row.method == "InfoCal")
        assert second.printed.items() <= first.printed.items()


def test_every_number_is_in_its_range():
    for row in published.all_rows():
        for column, number in row.printed.items():
            if number is None or row.source.endswith("table 8"):
                continue
            if column == "perplexity":  # at least 1, and of no more than a vocabulary
                assert 1 <= number <= 1_000_000, cell(row)
                continue
            limit = Decimal(100) if column in row.percent else Decimal(1)
            low = -limit if column in {"sufficiency", "comprehensiveness"} else Decimal(0)
            assert low <= number <= limit, (cell(row), column)


# ------------------------------------------------------------------------------- arithmetic that must hold


def span(function, *centres: float, half: float = HALF_UNIT) -> tuple[float, float]:
    """Least and greatest value of a monotone function where each argument was rounded."""
    values = [function(*(c + sign * half for c in centres)) for sign in (-1, 1)]
    return min(values), max(values)


def f1(precision: float, recall: float) -> float:
    return 2 * precision * recall / (precision + recall)


def outside(found: tuple[float, float], printed: float, half: float = HALF_UNIT) -> bool:
    return not found[0] - half - EPSILON <= printed <= found[1] + half + EPSILON


def test_f1_follows_from_precision_and_recall():
    wrong = {
        cell(row)
        for row in BEER
        if "precision" in row.printed
        and outside(span(f1, value(row, "precision"), value(row, "recall")), value(row, "f1"))
    }
    assert wrong == set()


def test_iou_f1_follows_from_f1():
    rows = [row for row in BEER if "iou_f1" in row.printed]
    wrong = {cell(row) for row in rows if outside(span(paper_iou_f1, value(row, "f1")), value(row, "iou_f1"))}
    assert wrong == set()


def test_auprc_follows_from_precision_and_recall():
    rows = [row for row in BEER if "auprc" in row.printed]
    wrong = {
        cell(row)
        for row in rows
        if outside(span(paper_auprc, value(row, "precision"), value(row, "recall")), value(row, "auprc"))
    }
    assert wrong == set()


MACRO_F1_ERRORS = {
    ("cail-small", "articles"): [
        "Bernoulli (w/o)",
        "Bernoulli",
        "HardKuma (w/o)",
        "HardKuma",
        "FRESH",
        "InfoCal - L_adv",
        "InfoCal - L_adv - L_ib (w/o)",
        "InfoCal - L_lm",
        "InfoCal",
    ],
    ("cail-small", "charges"): [
        "Bernoulli (w/o)",
        "Bernoulli",
        "HardKuma (w/o)",
        "InfoCal - L_adv",
        "InfoCal - L_adv - L_ib (w/o)",
        "InfoCal",
    ],
    ("cail-small", "terms"): ["MPBFN-WCA"],
    ("cail-big", "articles"): [
        "Bernoulli (w/o)",
        "Bernoulli",
        "HardKuma (w/o)",
        "HardKuma",
        "Sparse IB",
        "InfoCal - L_adv",
        "InfoCal",
        "FLA",
    ],
    ("cail-big", "charges"): [
        "Bernoulli (w/o)",
        "Bernoulli",
        "HardKuma (w/o)",
        "HardKuma",
        "Sparse IB",
        "FLA",
    ],
}
"""Impossible unless the three columns average over different classes; some by .12, all beyond rounding."""


def test_macro_f1_is_at_most_the_mean_of_macro_precision_and_recall():
    """Of each class F1 <= (P + R) / 2, so it holds for the means over classes."""
    wrong = [
        row
        for row in CAIL
        if value(row, "macro_f1") - HALF_UNIT
        > (value(row, "macro_precision") + value(row, "macro_recall")) / 2 + HALF_UNIT + EPSILON
    ]
    found: dict[tuple[str, str], list[str]] = {}
    for row in wrong:
        found.setdefault((row.dataset, row.task), []).append(row.method)
    assert found == MACRO_F1_ERRORS


def test_dense_rows_select_everything():
    dense = [row for row in CAIL if row.method.endswith("(w/o)")]
    assert len(dense) == 18
    wrong = {cell(row) for row in dense if row.value("selected") != 1}
    assert wrong == {("[Sha2023] table 5", "cail-big", "terms", "InfoCal - L_adv - L_ib (w/o)")}

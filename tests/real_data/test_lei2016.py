"""The rationales that Lei et al. (2016) published, scored on the human annotations of the beer reviews."""

import json
from pathlib import Path

import numpy as np
import pytest

from infocal.metrics.scores import degenerate_kind, token_scores
from pipeline import score

pytestmark = pytest.mark.real_data

GOLDEN = json.loads(
    (Path(__file__).parents[1] / "data" / "golden" / "lei2016_on_annotations.json").read_text("utf-8")
)
ASPECTS = {"appearance": "0", "smell": "1", "palate": "2"}


def read_lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def reviews(data_dir):
    """Annotated reviews, each with the published positions by aspect."""
    published = {row["rid"]: row for row in read_lines(data_dir / "beer" / "lei2016_rationales.jsonl")}
    return [(row, published[row["rid"]]) for row in read_lines(data_dir / "beer" / "annotations.json")]


def masks_and_golds(reviews, aspect):
    masks, golds = [], []
    for review, published in reviews:
        positions = np.arange(len(review["x"]))
        masks.append(np.isin(positions, published[aspect]))
        spans = review[ASPECTS[aspect]]
        inside = [(positions >= start) & (positions < end) for start, end in spans]
        golds.append(np.any(inside, axis=0) if spans else None)
    return masks, golds


@pytest.mark.parametrize("aspect", ASPECTS)
def test_published_rationales_score_as_stored(reviews, aspect):
    reference = GOLDEN[aspect]
    masks, golds = masks_and_golds(reviews, aspect)
    scores = token_scores(masks, golds)
    assert scores.num_documents - scores.num_skipped == reference["num_reviews"]
    assert (scores.precision, scores.recall, scores.f1) == pytest.approx(
        (reference["precision"], reference["recall"], reference["f1"]), abs=1e-4
    )
    assert scores.gold_density == pytest.approx(reference["gold_density"], abs=1e-4)
    assert scores.selection_rate_annotated == pytest.approx(reference["selection_rate_micro"], abs=1e-4)
    annotated = [i for i, gold in enumerate(golds) if gold is not None]
    alone = token_scores([masks[i] for i in annotated], [golds[i] for i in annotated])
    per_review = reference["selection_rate_per_review"]
    assert alone.selection_rate_per_document == pytest.approx(per_review, abs=1e-4)


@pytest.mark.parametrize("aspect", ASPECTS)
def test_published_rationales_are_not_degenerate(reviews, aspect):
    assert degenerate_kind(masks_and_golds(reviews, aspect)[0]) is None


@pytest.mark.parametrize("aspect", ASPECTS)
def test_the_command_gives_the_stored_scores(data_dir, aspect, capsys):
    beer = data_dir / "beer"
    flags = ["--human", beer / "annotations.json", "--rationale", beer / "lei2016_rationales.jsonl"]
    arguments = [*map(str, flags), "--dataset", "beer", "--aspect", aspect, "--json", "-"]
    assert score.main(arguments) == 0
    document = json.loads(capsys.readouterr().out)
    reference, found = GOLDEN[aspect], document["scores"]["paper"]
    assert document["counts"]["annotated"] == reference["num_reviews"]
    assert document["counts"]["matched_by_id"] == document["counts"]["human_texts"] == 496
    assert document["left_out"]["human_alone"] == document["left_out"]["rationale_alone"] == []
    names = {
        "precision": "token_precision",
        "recall": "token_recall",
        "f1": "token_f1",
        "selection_rate_micro": "selection_rate_annotated",
        "gold_density": "gold_density",
    }
    stored = {name: reference[key] for key, name in names.items()}
    assert {name: found[name] for name in stored} == pytest.approx(stored, abs=1e-4)


POSSIBLE = {
    "appearance": {"InfoCal"},
    "smell": {"InfoCal"},
    "palate": {"Attention", "HardKuma", "Sparse IB"},
}
"""Rows of [Sha2023] table 2 whose P x selected / R may be the gold density of the annotated reviews here."""


@pytest.mark.parametrize("aspect", ASPECTS)
def test_the_audit_counts_the_gold_density(data_dir, aspect, tmp_path, capsys):
    published = (Path(__file__).parents[1] / "data" / "published" / "sha2023_table2.csv").read_text("utf-8")
    header, *rows = published.splitlines()
    rows = [row for row in rows if row.split(",")[1] == aspect]
    table = tmp_path / "table.csv"
    table.write_text("\n".join([header, *rows]) + "\n", "utf-8")
    human = str(data_dir / "beer" / "annotations.json")
    arguments = ["--audit", str(table), "--human", human, "--dataset", "beer", "--aspect", aspect]
    assert score.main([*arguments, "--json", "-"]) == 0
    impossible = {finding["method"] for finding in json.loads(capsys.readouterr().out)["impossible"]}
    assert {row.split(",")[0] for row in rows} - impossible == POSSIBLE[aspect]

"""Token, span and ranking agreement against reference values, scikit-learn and plain loops."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    auc,
    average_precision_score,
    precision_recall_curve,
    precision_recall_fscore_support,
)

from infocal.metrics.overlap import (
    PrecisionRecallF1,
    iou_scores,
    lay_out,
    paper_auprc,
    paper_iou_f1,
    ranking_scores,
    span_scores,
    token_scores,
)

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "data" / "golden" / "eraser_metrics.json").read_text(encoding="utf-8")
)


few = settings(max_examples=20)  # each draws a corpus of several texts: cases enough, and the suite is short


def bits(text):
    """'0110' as a mask."""
    return np.array([c == "1" for c in text], dtype=np.bool_)


def hard_case(name):
    case = GOLDEN["hard"][name]
    texts = sorted(case["gold"])
    return ([np.array(case[side][text], dtype=np.bool_) for text in texts] for side in ("pred", "gold"))


def same(scores, reference):
    assert scores == pytest.approx((reference["p"], reference["r"], reference["f1"]), abs=1e-12)


def as_corpus(texts):
    """Masks and golds of texts such as "-mgb": tokens in neither, in the mask, in the gold, in both.

    A text that starts with "?" is not annotated.
    """
    bodies = [text.removeprefix("?") for text in texts]
    masks = [np.array([c in "mb" for c in body], dtype=np.bool_) for body in bodies]
    marks = [np.array([c in "gb" for c in body], dtype=np.bool_) for body in bodies]
    return masks, [None if t[:1] == "?" else mark for t, mark in zip(texts, marks, strict=True)]


def corpora(annotated=False):
    """Some texts, of which some may be without gold and some without tokens."""
    text = st.from_regex(r"[-mgb]{0,9}" if annotated else r"[?]?[-mgb]{0,9}", fullmatch=True)
    texts = st.lists(text, min_size=1, max_size=6).filter(lambda ts: any(t.strip("?") for t in ts))
    return texts.map(as_corpus)


def every_number(masks, golds):
    tokens = token_scores(masks, golds)
    iou, exact = iou_scores(masks, golds), span_scores(masks, golds)
    return [*tokens.micro, *tokens.macro, *iou.micro, *iou.macro, *exact.micro, *exact.macro]


# ---------------------------------------------------------------- reference values


@pytest.mark.parametrize("kind", ["contiguous_spans", "single_token_spans"])
@pytest.mark.parametrize("name", GOLDEN["hard"])
class TestReferenceValues:
    def test_tokens(self, name, kind):
        masks, golds = hard_case(name)
        scores = token_scores(masks, golds)
        same(scores.micro, GOLDEN["hard"][name][kind]["token"]["instance_micro"])
        same(scores.macro, GOLDEN["hard"][name][kind]["token"]["instance_macro"])

    def test_partial_match(self, name, kind):
        masks, golds = hard_case(name)
        for threshold, reference in GOLDEN["hard"][name][kind]["iou"].items():
            scores = iou_scores(
                masks, golds, threshold=float(threshold), single_tokens=kind == "single_token_spans"
            )
            same(scores.micro, reference["micro"])
            same(scores.macro, reference["macro"])

    def test_exact_spans(self, name, kind):
        masks, golds = hard_case(name)
        scores = span_scores(masks, golds, single_tokens=kind == "single_token_spans")
        same(scores.micro, GOLDEN["hard"][name][kind]["span_exact"]["instance_micro"])
        same(scores.macro, GOLDEN["hard"][name][kind]["span_exact"]["instance_macro"])


@pytest.mark.parametrize("name", GOLDEN["soft"])
def test_reference_ranking(name):
    case = GOLDEN["soft"][name]
    scores = ranking_scores(
        [np.array(row, dtype=np.float64) for row in case["scores"]],
        [np.array(row, dtype=np.bool_) for row in case["truth"]],
    )
    assert scores.auprc == pytest.approx(case["auprc"], abs=1e-12)
    if case["average_precision"] is None:
        assert math.isnan(scores.average_precision)
        assert scores.num_all_positives == 1
    else:
        assert scores.average_precision == pytest.approx(case["average_precision"], abs=1e-12)


@pytest.mark.parametrize("name", GOLDEN["hard"])
def test_paper_iou_is_that_of_all_selected_with_all_marked_tokens(name):
    masks, golds = hard_case(name)
    mask, gold = np.concatenate(masks), np.concatenate(golds)
    given_by_f1 = paper_iou_f1(token_scores(masks, golds).f1)
    assert given_by_f1 == pytest.approx((mask & gold).sum() / (mask | gold).sum(), abs=1e-12)
    reference = GOLDEN["hard"][name]["other_definitions"]["micro IOU implied by micro F (F/(2-F))"]
    assert given_by_f1 == pytest.approx(reference, abs=1e-12)


@pytest.mark.parametrize(
    ("precision", "recall", "f1", "iou_f1", "auprc"),
    [  # rows of the beer tables of [Sha2023]: what it prints as IOU F1 and AUPRC follows from P, R and F
        (0.985, 0.732, 0.840, 0.724, 0.871),  # appearance, InfoCal
        (0.981, 0.651, 0.783, 0.643, 0.833),  # appearance, HardKuma
        (0.956, 0.456, 0.617, 0.447, 0.733),  # smell, InfoCal
        (0.908, 0.345, 0.500, 0.333, 0.659),  # smell, Sparse IB
        (0.896, 0.598, 0.717, 0.559, 0.767),  # palate, InfoCal
        (0.653, 0.358, 0.462, 0.301, 0.537),  # palate, Attention
    ],
)
def test_paper_mode_gives_the_printed_columns(precision, recall, f1, iou_f1, auprc):
    assert paper_iou_f1(f1) == pytest.approx(iou_f1, abs=1.1e-3)
    assert paper_auprc(precision, recall) == pytest.approx(auprc, abs=1.1e-3)


# ---------------------------------------------------------------- tokens


def test_token_scores_by_hand():
    # 2 of 3 selected tokens are marked, 2 of 4 marked tokens are selected; the third text is not annotated
    scores = token_scores([bits("1100"), bits("010"), bits("111")], [bits("1110"), bits("011"), None])
    assert scores.micro == PrecisionRecallF1(1.0, 3 / 5, 0.75)
    assert scores.macro == pytest.approx((1.0, (2 / 3 + 1 / 2) / 2, (4 / 5 + 2 / 3) / 2))
    assert scores.selection_rate == 6 / 10
    assert scores.selection_rate_annotated == 3 / 7
    assert scores.selection_rate_per_document == pytest.approx((2 / 4 + 1 / 3 + 3 / 3) / 3)
    assert scores.empty_rationale_rate == 0.0
    assert scores.gold_density == 5 / 7
    assert (scores.num_documents, scores.num_skipped) == (3, 1)
    assert (scores.precision, scores.recall, scores.f1) == tuple(scores.micro)


def test_an_empty_selection_has_precision_zero():
    scores = token_scores([bits("000"), bits("00")], [bits("010"), bits("11")])
    assert scores.micro == scores.macro == PrecisionRecallF1(0.0, 0.0, 0.0)
    assert scores.precision_macro_selected == 0.0
    assert scores.selection_rate == 0.0


def test_nothing_marked_has_recall_zero():
    assert token_scores([bits("010")], [bits("000")]).micro == PrecisionRecallF1(0.0, 0.0, 0.0)


def test_a_text_with_nothing_selected_and_nothing_marked_is_not_in_the_macro_average():
    alone = token_scores([bits("110")], [bits("010")])
    assert token_scores([bits("110"), bits("000")], [bits("010"), bits("000")]).macro == alone.macro


def test_macro_precision_of_hardkuma_leaves_out_empty_selections():
    scores = token_scores([bits("1100"), bits("000")], [bits("1000"), bits("010")])
    assert scores.precision_macro_selected == 0.5
    assert scores.macro.precision == 0.25


def test_without_annotation_agreement_is_undefined_and_the_rate_is_not():
    scores = token_scores([bits("110"), bits("0")], [None, None])
    assert all(math.isnan(x) for x in every_number([bits("110")], [None]))
    assert math.isnan(scores.gold_density)
    assert math.isnan(scores.selection_rate_annotated)
    assert scores.selection_rate == 0.5
    assert scores.num_skipped == 2


def test_a_text_without_tokens_counts_as_a_text_and_in_no_average():
    scores = token_scores([bits("10"), bits("")], [bits("11"), bits("")])
    assert scores.num_documents == 2
    assert scores.selection_rate_per_document == 0.5
    assert scores.macro == PrecisionRecallF1(1.0, 0.5, 2 / 3)


def test_empty_rationales_are_counted_whether_annotated_or_not_but_for_texts_without_tokens():
    masks = [bits("00"), bits("010"), bits("000"), bits("1"), bits("")]
    scores = token_scores(masks, [bits("11"), bits("000"), None, bits("1"), None])
    assert scores.empty_rationale_rate == 2 / 4


@pytest.mark.parametrize("seed", range(3))
def test_tokens_against_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    masks, golds = ([rng.random(n) < share for n in range(1, 12)] for share in (0.3, 0.4))

    def reference(mask, gold):
        return precision_recall_fscore_support(gold, mask, average="binary", zero_division=0)[:3]

    scores = token_scores(masks, golds)
    assert scores.micro == pytest.approx(reference(np.concatenate(masks), np.concatenate(golds)), abs=1e-12)
    rows = [reference(m, g) for m, g in zip(masks, golds, strict=True) if m.any() or g.any()]
    assert scores.macro == pytest.approx(np.mean(rows, axis=0), abs=1e-12)


# ---------------------------------------------------------------- spans


def naive_spans(mask):
    spans, start = [], None
    for i, selected in enumerate([*mask.tolist(), False]):
        if selected and start is None:
            start = i
        if not selected and start is not None:
            spans.append(set(range(start, i)))
            start = None
    return spans


@few
@given(corpora(annotated=True), st.sampled_from([0.1, 1 / 3, 0.5, 0.9, 1.0]))
def test_partial_match_against_a_plain_loop(corpus, threshold):
    hits = num_predicted = num_marked = 0
    precisions, recalls = [], []
    for mask, gold in zip(*corpus, strict=True):
        predicted, marked = naive_spans(mask), naive_spans(gold)
        good = sum(any(len(p & m) / len(p | m) >= threshold for m in marked) for p in predicted)
        hits, num_predicted, num_marked = (
            hits + good,
            num_predicted + len(predicted),
            num_marked + len(marked),
        )
        precisions += [good / len(predicted)] if predicted else []
        recalls += [good / len(marked)] if marked else []
    scores = iou_scores(*corpus, threshold=threshold)
    assert scores.micro.precision == pytest.approx(hits / max(num_predicted, 1))
    assert scores.micro.recall == pytest.approx(hits / max(num_marked, 1))
    assert scores.macro.precision == pytest.approx(sum(precisions) / max(len(precisions), 1))
    assert scores.macro.recall == pytest.approx(sum(recalls) / max(len(recalls), 1))


def test_spans_end_with_their_text():
    # the last token of one text and the first of the next are not one span
    masks, golds = [bits("011"), bits("100")], [bits("011"), bits("100")]
    assert span_scores(masks, golds).micro == PrecisionRecallF1(1.0, 1.0, 1.0)
    joined = span_scores([np.concatenate(masks)], [bits("011000")])
    assert joined.micro == PrecisionRecallF1(0.0, 0.0, 0.0)


def test_an_iou_of_one_half_is_a_match_and_a_little_less_is_not():
    assert iou_scores([bits("1000")], [bits("1100")]).micro.f1 == 1.0
    assert iou_scores([bits("1000")], [bits("1110")]).micro.f1 == 0.0
    assert iou_scores([bits("111000")], [bits("001110")]).micro.f1 == 0.0  # 1 of 5


@few
@given(corpora(annotated=True))
def test_at_one_half_every_score_lies_between_zero_and_one(corpus):
    assert all(0 <= x <= 1 + 1e-12 for x in every_number(*corpus))


@few
@given(corpora())
def test_exact_spans_are_those_of_iou_one(corpus):
    exact, iou = span_scores(*corpus), iou_scores(*corpus, threshold=1.0)
    assert exact.micro == pytest.approx(iou.micro, nan_ok=True)


# ---------------------------------------------------------------- what must hold for every corpus


@few
@given(corpora(), st.randoms(use_true_random=False))
def test_the_order_of_texts_changes_nothing(corpus, random):
    pairs = list(zip(*corpus, strict=True))
    random.shuffle(pairs)
    masks, golds = (list(side) for side in zip(*pairs, strict=True))
    assert every_number(masks, golds) == pytest.approx(every_number(*corpus), abs=1e-12, nan_ok=True)


@few
@given(corpora(), st.lists(st.booleans(), min_size=1, max_size=8))
def test_a_text_without_gold_changes_no_agreement_and_is_counted(corpus, extra):
    masks, golds = corpus
    more = [*masks, np.array(extra, dtype=np.bool_)], [*golds, None]
    assert every_number(*more) == pytest.approx(every_number(*corpus), abs=1e-12, nan_ok=True)
    before, after = token_scores(*corpus), token_scores(*more)
    assert after.num_skipped == before.num_skipped + 1
    total = sum(map(len, masks)) + len(extra)
    selected = sum(int(mask.sum()) for mask in masks) + sum(extra)
    assert after.selection_rate == pytest.approx(selected / total)


@few
@given(corpora(annotated=True))
def test_f1_lies_between_precision_and_recall(corpus):
    scores = token_scores(*corpus)
    for p, r, f in (scores.micro, iou_scores(*corpus).micro):
        assert f == 0 or min(p, r) - 1e-12 <= f <= max(p, r) + 1e-12


@few
@given(corpora(annotated=True))
def test_perfect_masks_score_one(corpus):
    _, golds = corpus
    perfect = 1.0 if any(gold.any() for gold in golds) else 0.0
    assert every_number(golds, golds) == pytest.approx([perfect] * 18)


def test_padding_would_count_and_a_padded_text_is_refused():
    mask, gold = bits("110"), bits("010")
    padded = np.concatenate([mask, bits("11")])
    with pytest.raises(ValueError, match=r"golds\[1\] must have the 5 tokens of masks\[1\], but it has 3"):
        token_scores([mask, padded], [gold, gold])


# ---------------------------------------------------------------- rankings


@st.composite
def ranked(draw):
    """Scores with many ties, and golds."""
    _, golds = draw(corpora(annotated=True))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    levels = np.array([0.0, 0.1, 0.25, 0.5, 0.9, 1.0])
    return [rng.choice(levels, len(gold)) for gold in golds], golds


@few
@given(ranked())
def test_rankings_against_scikit_learn(corpus):
    scores, golds = corpus
    areas, steps = [], []
    for score, gold in zip(scores, golds, strict=True):
        if gold.any():
            precision, recall, _ = precision_recall_curve(gold, score)
            areas.append(auc(recall, precision))
            steps += [] if gold.all() else [average_precision_score(gold, score)]
    result = ranking_scores(scores, golds)
    nan = float("nan")
    assert result.auprc == pytest.approx(np.mean(areas) if areas else nan, abs=1e-12, nan_ok=True)
    assert result.average_precision == pytest.approx(np.mean(steps) if steps else nan, abs=1e-12, nan_ok=True)
    assert result.num_without_positives == sum(not gold.any() for gold in golds)
    assert result.num_all_positives == len(areas) - len(steps)


@few
@given(st.integers(1, 12), st.data())
def test_equal_scores_give_one_plus_density_over_two(length, data):
    marked = data.draw(st.integers(1, length))
    gold = np.arange(length) < marked
    result = ranking_scores([np.full(length, 0.3)], [gold])
    assert result.auprc == pytest.approx((1 + marked / length) / 2)


def test_texts_without_gold_or_without_a_marked_token_have_no_curve():
    scores = [np.array([0.9, 0.1]), np.array([0.5, 0.4]), np.array([0.1])]
    result = ranking_scores(scores, [bits("10"), bits("00"), None])
    assert (result.auprc, result.average_precision) == (1.0, 1.0)
    assert (result.num_without_positives, result.num_skipped) == (1, 1)


def test_scores_may_be_logits_but_must_be_finite():
    assert ranking_scores([np.array([7.0, -3.0])], [bits("10")]).auprc == 1.0
    with pytest.raises(ValueError, match=r"scores\[1\] must be finite, but its token 2 has nan"):
        ranking_scores([np.array([1.0]), np.array([0.1, 0.2, np.nan])], [bits("1"), bits("110")])


@few
@given(ranked())
def test_a_monotone_transformation_changes_no_ranking(corpus):
    scores, golds = corpus
    before, after = ranking_scores(scores, golds), ranking_scores([s**3 - 2 for s in scores], golds)
    assert after.auprc == pytest.approx(before.auprc, nan_ok=True)
    assert after.average_precision == pytest.approx(before.average_precision, nan_ok=True)


# ---------------------------------------------------------------- messages


def test_a_missing_gold_is_named():
    with pytest.raises(ValueError, match="`golds` must hold the 2 texts of `masks`, but it holds 1"):
        token_scores([bits("1"), bits("0")], [bits("1")])


def test_a_length_that_differs_is_named_with_its_text():
    with pytest.raises(ValueError, match=r"golds\[1\] must have the 3 tokens of masks\[1\], but it has 2"):
        iou_scores([bits("1"), bits("011")], [bits("1"), bits("01")])
    with pytest.raises(ValueError, match=r"golds\[0\] must have the 2 tokens of scores\[0\], but it has 1"):
        ranking_scores([np.array([0.1, 0.2])], [bits("1")])


def test_no_text_and_no_token_are_refused():
    with pytest.raises(ValueError, match="`masks` must hold at least one text, but it is empty"):
        token_scores([], [])
    with pytest.raises(ValueError, match="the 2 texts hold no token at all"):
        token_scores([bits(""), bits("")], [None, bits("")])


def test_a_table_is_no_text():
    with pytest.raises(ValueError, match=r"masks\[0\] must have one dimension, but its shape is \(2, 3\)"):
        token_scores([np.zeros((2, 3), dtype=np.bool_)], [None])


def test_probabilities_are_no_masks():
    probabilities = [bits("10"), np.array([0.2, 0.7], dtype=np.float32)]
    with pytest.raises(
        TypeError, match=r"masks\[1\] must be an array of bool.*holds float32; `apply_threshold`"
    ):
        lay_out(probabilities, "masks", np.bool_)
    with pytest.raises(TypeError, match=r"scores\[0\] must be an array of floating, but it holds bool$"):
        lay_out(probabilities, "scores", np.floating)


@pytest.mark.parametrize("threshold", [0.0, -0.5, 1.5])
def test_an_impossible_iou_threshold_is_refused(threshold):
    with pytest.raises(ValueError, match=rf"`threshold` must lie in \(0, 1\], but got {threshold}"):
        iou_scores([bits("1")], [bits("1")], threshold=threshold)

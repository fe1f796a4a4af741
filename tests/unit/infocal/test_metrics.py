"""Scores under flat names: what a report says, at a threshold, by mode; predictions; faithfulness."""

import json
import math
import re
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, precision_recall_fscore_support, r2_score, roc_auc_score

from infocal.metrics.scores import (
    AOPC_SHARES,
    DEFINITIONS,
    MODES,
    aopc_scores,
    apply_threshold,
    auroc_scores,
    classification_scores,
    definition,
    degenerate_kind,
    faithfulness_scores,
    mask_scores,
    ranking_scores,
    rationale_scores,
    regression_scores,
    threshold_for_rate,
    token_scores,
    top_share_masks,
)

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "data" / "golden" / "eraser_metrics.json").read_text(encoding="utf-8")
)
PROBABILITIES = [np.array([0.9, 0.6, 0.2, 0.1]), np.array([0.7, 0.3, 0.4])]
GOLDS = [np.array([True, True, True, False]), np.array([False, True, False])]

few = settings(max_examples=20)


def some_corpus(seed, num_texts=40):
    """Probabilities that know something of the golds."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 40, num_texts)
    golds = [rng.random(n) < 0.2 for n in lengths]
    return [np.clip(0.4 * gold + rng.random(len(gold)) * 0.7, 0, 1) for gold in golds], golds


# ---------------------------------------------------------------- the one call of an evaluation


@pytest.mark.parametrize("mode", MODES)
def test_every_number_has_a_definition_and_a_name_fit_for_a_tracking_server(mode):
    flat = rationale_scores(PROBABILITIES, GOLDS, target_rate=0.3, mode=mode)
    for name, value in flat.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert type(value) is float, name
        assert math.isfinite(value), name
        assert definition(name)


def test_a_score_nobody_makes_has_no_definition():
    with pytest.raises(KeyError, match="no score is called `token_f2`"):
        definition("token_f2")
    assert definition("token_f1") == DEFINITIONS["token_f1"]
    of_rate = ", at the threshold that gives the target selection rate"
    assert definition("calibrated_token_f1") == DEFINITIONS["token_f1"] + of_rate


def test_rationale_scores_by_hand():
    flat = rationale_scores(PROBABILITIES, GOLDS)
    # selected at 0.5: tokens 0 and 1 of the first text, token 0 of the second
    assert flat["selection_rate"] == pytest.approx(3 / 7)
    assert flat["gold_density"] == pytest.approx(4 / 7)
    assert flat["token_precision"] == pytest.approx(2 / 3)
    assert flat["token_recall"] == pytest.approx(2 / 4)
    assert flat["token_f1"] == pytest.approx(4 / 7)
    assert flat["token_precision_macro"] == pytest.approx((1 + 0) / 2)
    assert flat["token_recall_macro"] == pytest.approx((2 / 3 + 0) / 2)
    assert flat["token_f1_macro"] == pytest.approx((4 / 5 + 0) / 2)
    assert flat["iou_f1"] == pytest.approx(0.5)  # IOU 2/3 in the first text, no overlap in the second
    assert flat["span_f1"] == 0.0
    # all marked tokens come first; the one of the second text comes third: from (0, 0) to (1, 1/3)
    assert flat["auprc"] == pytest.approx((1 + (0 + 1 / 3) / 2) / 2)
    assert flat["threshold"] == 0.5
    assert (flat["num_documents"], flat["num_skipped"], flat["num_without_positives"]) == (2, 0, 0)
    assert not [name for name in flat if name.startswith(("calibrated", "paper", "hatexplain"))]


def test_the_flat_names_agree_with_the_structures():
    probabilities, golds = some_corpus(0)
    flat = rationale_scores(probabilities, golds)
    tokens = token_scores(apply_threshold(probabilities, 0.5), golds)
    ranking = ranking_scores(probabilities, golds)
    assert flat["token_f1"] == tokens.f1
    assert flat["token_recall_macro"] == tokens.macro.recall
    assert flat["selection_rate_per_document"] == tokens.selection_rate_per_document
    assert flat["empty_rationale_rate"] == tokens.empty_rationale_rate
    assert flat["gold_density"] == pytest.approx(tokens.gold_density)
    assert (flat["auprc"], flat["average_precision"]) == (ranking.auprc, ranking.average_precision)


def test_paper_mode_names_its_own_definitions():
    flat = rationale_scores(PROBABILITIES, GOLDS, mode="paper")
    assert flat["paper_iou_f1"] == pytest.approx((4 / 7) / (2 - 4 / 7))
    assert flat["paper_auprc"] == pytest.approx(0.5 * (1 + 2 / 3) / 2 + 0.5 * (2 / 3 + 0.1) / 2)
    assert flat["precision_micro"] == flat["token_precision"]
    assert flat["precision_macro"] == pytest.approx(0.5)
    assert flat["iou_f1"] == rationale_scores(PROBABILITIES, GOLDS)["iou_f1"]  # no name changes its meaning


def test_hatexplain_mode_is_macro():
    flat = rationale_scores(PROBABILITIES, GOLDS, mode="hatexplain")
    assert flat["hatexplain_token_f1"] == flat["token_f1_macro"]
    assert flat["hatexplain_iou_f1"] == flat["iou_f1_macro"]
    assert flat["hatexplain_auprc"] == flat["auprc"]


def test_an_unknown_mode_is_refused():
    with pytest.raises(ValueError, match="`mode` must be one of eraser, hatexplain, paper, but got `erasor`"):
        rationale_scores(PROBABILITIES, GOLDS, mode="erasor")


@pytest.mark.parametrize("mode", MODES)
def test_without_annotation_there_are_rates_and_counts_only(mode):
    flat = rationale_scores(PROBABILITIES, [None, None], target_rate=1.0, mode=mode)
    plain = {name.removeprefix("calibrated_") for name in flat}
    assert plain == {
        *("threshold", "selection_rate", "selection_rate_per_document", "empty_rationale_rate"),
        *("num_documents", "num_skipped"),
    }
    assert flat["num_skipped"] == 2
    assert flat["calibrated_selection_rate"] == 1.0


def test_undefined_rankings_have_no_entry():
    nothing_marked = [np.zeros(4, dtype=np.bool_), None]
    flat = rationale_scores(PROBABILITIES, nothing_marked, mode="hatexplain")
    assert flat["num_without_positives"] == 1
    assert flat["token_recall"] == 0.0
    assert not {"auprc", "average_precision", "hatexplain_auprc"} & set(flat)


def test_a_text_without_gold_enters_the_selection_rate_only():
    before = rationale_scores(PROBABILITIES, GOLDS)
    after = rationale_scores([*PROBABILITIES, np.array([0.9, 0.9])], [*GOLDS, None])
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"selection_rate", "selection_rate_per_document", "num_documents", "num_skipped"}


def test_masks_as_probabilities_score_as_masks():
    masks = apply_threshold(PROBABILITIES, 0.35)
    flat = rationale_scores([mask.astype(np.float64) for mask in masks], GOLDS, mode="paper")
    assert mask_scores(masks, GOLDS, mode="paper").items() <= flat.items()


def test_probabilities_outside_their_range_are_refused():
    with pytest.raises(
        ValueError, match=r"probabilities\[1\] must lie in \[0, 1\], but its token 2 has 1\.5"
    ):
        rationale_scores([np.array([0.5]), np.array([0.0, 1.0, 1.5])], [None, None])
    with pytest.raises(ValueError, match=r"probabilities\[0\] must lie in \[0, 1\], but its token 0 has nan"):
        rationale_scores([np.array([np.nan])], [None])


def test_the_text_named_is_right_where_texts_are_empty():
    texts = [np.zeros(0), np.array([0.5]), np.zeros(0), np.array([0.5, -1.0])]
    with pytest.raises(ValueError, match=r"probabilities\[3\] .* its token 1 has -1\.0"):
        threshold_for_rate(texts, 0.5)


def test_five_hundred_reviews_take_milliseconds():
    rng = np.random.default_rng(0)
    masks, golds = ([rng.random(130) < share for _ in range(500)] for share in (0.1, 0.15))
    took = []
    for _ in range(5):
        start = time.process_time()
        token_scores(masks, golds)
        took.append(time.process_time() - start)
    assert min(took) < 0.05


# ---------------------------------------------------------------- thresholds


def test_threshold_for_rate_by_hand():
    probabilities = [np.array([0.9, 0.1, 0.5, 0.5]), np.array([0.3])]
    # rates that can be had: .9 -> 1/5, .5 -> 3/5, .3 -> 4/5, .1 -> 5/5
    for rate, threshold in (
        (0.01, 0.9),
        (0.2, 0.9),
        (0.4, 0.9),
        (0.45, 0.5),
        (0.7, 0.5),
        (0.75, 0.3),
        (1, 0.1),
    ):
        assert threshold_for_rate(probabilities, float(rate)) == threshold, rate


probability_lists = st.lists(
    st.lists(st.sampled_from([0.0, 0.05, 0.3, 0.5, 0.51, 0.9, 1.0]), max_size=8), min_size=1, max_size=5
).filter(any)


@few
@given(probability_lists, st.floats(0.01, 1.0))
def test_no_other_threshold_comes_nearer_to_the_rate(lists, rate):
    probabilities = [np.array(row, dtype=np.float32) for row in lists]
    flat = np.concatenate(probabilities)
    found = np.concatenate(apply_threshold(probabilities, threshold_for_rate(probabilities, rate))).mean()
    assert found > 0
    for other in np.unique(flat):
        assert abs(found - rate) <= abs((flat >= other).mean() - rate) + 1e-12


def test_without_ties_the_rate_is_met_to_a_token():
    probabilities, golds = some_corpus(1)
    flat = rationale_scores(probabilities, golds, target_rate=0.2)
    num_tokens = sum(map(len, golds))
    assert abs(flat["calibrated_selection_rate"] - 0.2) <= 0.5 / num_tokens + 1e-12


def test_the_threshold_found_on_validation_is_applied_to_test():
    validation, val_golds = some_corpus(2)
    test, test_golds = some_corpus(3)
    threshold = rationale_scores(validation, val_golds, target_rate=0.15)["calibrated_threshold"]
    flat = rationale_scores(test, test_golds, calibrated_threshold=threshold, mode="paper")
    assert flat["calibrated_threshold"] == threshold
    assert flat["threshold"] == 0.5
    at_it = mask_scores(apply_threshold(test, threshold), test_golds, mode="paper")
    twins = {f"calibrated_{name}": value for name, value in at_it.items()}
    assert twins.items() <= flat.items()
    assert abs(flat["calibrated_selection_rate"] - 0.15) < 0.05


def test_target_rate_and_calibrated_threshold_exclude_each_other():
    with pytest.raises(ValueError, match=r"not both: got 0\.1 and 0\.7"):
        rationale_scores(PROBABILITIES, GOLDS, target_rate=0.1, calibrated_threshold=0.7)


@pytest.mark.parametrize("rate", [0.0, -0.1, 1.01])
def test_an_impossible_rate_is_refused(rate):
    with pytest.raises(ValueError, match=rf"`rate` must lie in \(0, 1\], but got {rate}"):
        threshold_for_rate(PROBABILITIES, rate)


def test_a_threshold_needs_tokens():
    with pytest.raises(ValueError, match="the 1 texts hold no token at all"):
        threshold_for_rate([np.zeros(0)], 0.1)


def test_a_float32_probability_reaches_the_threshold_made_of_it():
    probabilities = [np.array([0.1, 0.7, 0.3], dtype=np.float32)]
    threshold = threshold_for_rate(probabilities, 1 / 3)
    assert threshold == float(np.float32(0.7))
    assert apply_threshold(probabilities, threshold)[0].tolist() == [False, True, False]


# ---------------------------------------------------------------- degenerate masks


@pytest.mark.parametrize(
    ("num_selected", "kind"),
    [
        (0, "degenerate_none"),
        (1, "degenerate_none"),
        (2, None),
        (100, None),
        (980, None),
        (981, "degenerate_all"),
    ],
)
def test_degenerate_masks_are_named(num_selected, kind):
    mask = np.arange(1000) < num_selected
    assert degenerate_kind([mask[:300], mask[300:]]) == kind


def test_a_mask_of_numbers_is_refused_by_its_name():
    with pytest.raises((TypeError, ValueError), match="masks"):
        degenerate_kind([np.array([0.5, 1.0])])


def test_tolerances_can_be_stated():
    mask = np.arange(100) < 90
    assert degenerate_kind([mask], all_above=0.85) == "degenerate_all"
    assert degenerate_kind([~mask], none_below=0.2) == "degenerate_none"


def test_no_token_is_not_degenerate_but_wrong():
    with pytest.raises(ValueError, match="the 2 texts hold no token at all"):
        degenerate_kind([np.zeros(0, dtype=np.bool_)] * 2)


# ---------------------------------------------------------------- predictions


def test_regression_scores_by_hand():
    flat = regression_scores(np.array([0.5, 0.75], dtype=np.float32), np.array([0.25, 1.0], dtype=np.float32))
    # the targets lie 0.375 on each side of their mean: variance 0.140625, and 1 - 0.0625 / 0.140625 = 5 / 9
    assert flat == {"mse": 0.0625, "mae": 0.25, "explained_rate": pytest.approx(5 / 9)}


@few
@given(st.integers(2, 30), st.floats(0.01, 2), st.integers(0, 2**32))
def test_the_explained_rate_against_scikit_learn(num_texts, noise, seed):
    rng = np.random.default_rng(seed)
    targets = rng.random(num_texts)
    predictions = targets + noise * rng.standard_normal(num_texts)
    found = regression_scores(predictions, targets)["explained_rate"]
    assert found == pytest.approx(max(0.0, r2_score(targets, predictions)), abs=1e-12)


@pytest.mark.parametrize("prediction", [0.5, 0.7])
def test_nothing_is_explained_where_all_targets_are_equal(prediction):
    assert regression_scores(np.array([prediction, 0.5]), np.array([0.5, 0.5]))["explained_rate"] == 0.0


@few
@given(st.integers(1, 30), st.integers(1, 6), st.integers(0, 2**32))
def test_classification_against_scikit_learn(num_texts, num_classes, seed):
    rng = np.random.default_rng(seed)
    predicted, targets = (3 * rng.integers(0, num_classes, num_texts) for _ in range(2))
    flat = classification_scores(predicted, targets)
    macro = precision_recall_fscore_support(targets, predicted, average="macro", zero_division=0)[:3]
    assert flat["accuracy"] == pytest.approx(accuracy_score(targets, predicted))
    assert [flat[f"macro_{x}"] for x in ("precision", "recall", "f1")] == pytest.approx(
        list(macro), abs=1e-12
    )


@few
@given(st.integers(10, 40), st.integers(3, 5), st.booleans(), st.integers(0, 2**32))
def test_auroc_against_scikit_learn(num_texts, num_classes, rounded, seed):
    rng = np.random.default_rng(seed)
    targets = np.concatenate([np.arange(num_classes), rng.integers(0, num_classes, num_texts)])
    scores = rng.dirichlet(np.ones(num_classes), len(targets))
    if rounded:  # equal scores share a rank
        scores = np.round(4 * scores) + 1
        scores /= scores.sum(axis=1, keepdims=True)
    flat = auroc_scores(scores, targets)
    for way in ("ovr", "ovo"):
        expected = roc_auc_score(targets, scores, multi_class=way, average="macro")
        assert flat[f"auroc_{way}"] == pytest.approx(expected, abs=1e-12)


def test_auroc_by_hand():
    # class 1 against 0: its scores .8 and .4 stand over .6, .3 and over .3 alone: 3 of 4 pairs
    scores = np.array([0.8, 0.4, 0.6, 0.3])
    flat = auroc_scores(np.stack([1 - scores, scores], axis=1), np.array([1, 1, 0, 0]))
    assert flat == {"auroc_ovr": 0.75, "auroc_ovo": 0.75}


def test_auroc_leaves_out_a_class_without_a_text():
    scores, targets = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.6, 0.3, 0.1]]), np.array([0, 1, 0])
    assert auroc_scores(scores, targets) == {"auroc_ovr": 1.0, "auroc_ovo": 1.0}
    assert auroc_scores(scores, np.zeros(3, dtype=np.int64)) == {}


def test_auroc_of_other_shapes_is_refused():
    with pytest.raises(ValueError, match=re.escape("but their shapes are (3, 2) and (2,)")):
        auroc_scores(np.zeros((3, 2)), np.zeros(2, dtype=np.int64))


@pytest.mark.parametrize("score", [regression_scores, classification_scores])
@pytest.mark.parametrize(("left", "right"), [((2,), (3,)), ((0,), (0,)), ((2, 1), (2, 1))])
def test_predictions_of_another_shape_are_refused(score, left, right):
    kind = np.float64 if score is regression_scores else np.int64
    message = re.escape(f"but their shapes are {left} and {right}")
    with pytest.raises(ValueError, match=message):
        score(np.zeros(left, dtype=kind), np.zeros(right, dtype=kind))


# ---------------------------------------------------------------- faithfulness


def faithfulness_case():
    inputs = GOLDEN["classification"]["inputs"]
    return [np.array(inputs[name]) for name in ("p_full", "p_without", "p_only")]


def test_reference_faithfulness():
    flat = faithfulness_scores(*faithfulness_case())
    assert flat == pytest.approx({name: GOLDEN["classification"][name] for name in flat}, abs=1e-12)
    assert len(flat) == 6


def test_reference_aopc():
    p_full = faithfulness_case()[0]
    inputs = GOLDEN["classification"]["inputs"]

    def tables(falls):  # predictions in which the first class, the predicted one, has fallen by so much
        first = p_full[:, 0] - np.array(falls)
        return np.stack([first, 1 - first, np.zeros_like(first)], axis=-1)

    flat = aopc_scores(p_full, tables(inputs["comprehensiveness_falls"]), tables(inputs["sufficiency_falls"]))
    for kind in ("comprehensiveness", "sufficiency"):
        points = [flat[f"{kind}_at_{percent}"] for percent in (1, 5, 10, 20, 50)]
        assert points == pytest.approx(GOLDEN["classification"][f"{kind}_aopc_points"], abs=1e-12)
        assert flat[f"{kind}_aopc"] == pytest.approx(GOLDEN["classification"][f"{kind}_aopc"], abs=1e-12)


def test_faithfulness_has_definitions():
    p_full, p_without, p_only = faithfulness_case()
    tables = [np.stack([p] * len(AOPC_SHARES)) for p in (p_without, p_only)]
    names = {**faithfulness_scores(p_full, p_without, p_only), **aopc_scores(p_full, *tables)}
    assert all(definition(name) for name in names)
    assert len(names) == 18


def test_a_rationale_that_is_the_text_has_sufficiency_zero():
    p_full, p_without, _ = faithfulness_case()
    flat = faithfulness_scores(p_full, p_without, p_full)
    assert [flat[f"sufficiency{suffix}"] for suffix in ("", "_entropy", "_kl")] == [0.0, 0.0, 0.0]


def test_a_class_ruled_out_gives_a_finite_kl():
    p_full = np.array([[1.0, 0.0]], dtype=np.float32)
    flat = faithfulness_scores(p_full, np.array([[0.5, 0.5]], dtype=np.float32), p_full)
    assert flat["comprehensiveness"] == 0.5
    assert flat["comprehensiveness_kl"] == pytest.approx(math.log(0.5) + 0.5 * math.log(1e12))


def test_the_fall_is_that_of_the_class_predicted_for_each_text():
    p_full = np.array([[0.6, 0.4], [0.1, 0.9]])
    p_without = np.array([[0.5, 0.5], [0.4, 0.6]])
    found = faithfulness_scores(p_full, p_without, p_full)
    assert found["comprehensiveness"] == pytest.approx((0.1 + 0.3) / 2)
    assert found["sufficiency"] == 0.0
    curve = aopc_scores(p_full, np.stack([p_without] * 4 + [p_full]), np.stack([p_full] * 5))
    assert curve["comprehensiveness_at_50"] == 0.0
    assert curve["comprehensiveness_at_20"] == pytest.approx(0.2)


@pytest.mark.parametrize("score", [faithfulness_scores, aopc_scores])
@pytest.mark.parametrize(("place", "name"), [(0, "p_full"), (1, "p_without"), (2, "p_only")])
def test_the_table_that_holds_no_probabilities_is_named(score, place, name):
    tables = [np.array([[0.25, 0.75], [0.5, 0.5]])] * 3
    tables[place] = tables[place] - 0.005
    if score is aopc_scores:
        tables[1:] = [np.stack([table] * len(AOPC_SHARES)) for table in tables[1:]]
    with pytest.raises(ValueError, match=rf"each row of `{name}` must be .* from 0\.99 to 0\.99"):
        score(*tables)


def test_sums_of_single_precision_are_accepted():
    p = np.array([[0.25, 0.7495]], dtype=np.float32)
    assert faithfulness_scores(p, p, p)["comprehensiveness"] == 0.0


def test_predictions_must_be_probabilities_of_one_shape():
    p_full, p_without, p_only = faithfulness_case()
    with pytest.raises(ValueError, match=r"`p_only` must have the \(texts, classes\) \(2, 3\), .* \(1, 3\)"):
        faithfulness_scores(p_full, p_without, p_only[:1])
    with pytest.raises(ValueError, match=r"each row of `p_without` must be .* sums reach from 2 to 2"):
        faithfulness_scores(p_full, 2 * p_without, p_only)
    with pytest.raises(ValueError, match=r"`p_full` must have the shape \(texts, classes\).*is \(0, 3\)"):
        faithfulness_scores(p_full[:0], p_without[:0], p_only[:0])
    with pytest.raises(ValueError, match=r"one table for each of \(0\.01, .*shape is \(2, 2, 3\)"):
        aopc_scores(p_full, np.stack([p_without] * 2), np.stack([p_only] * 2))


def test_top_share_masks_take_the_highest_scores_rounded_up():
    masks = top_share_masks([np.array([0.1, 0.9, 0.5, 0.9, 0.2]), np.array([3.0]), np.zeros(0)], 0.4)
    assert [mask.tolist() for mask in masks] == [[False, True, False, True, False], [True], []]
    ties = top_share_masks([np.full(100, 0.5)], 0.07)[0]  # 0.07 * 100 > 7 in floating point
    assert np.flatnonzero(ties).tolist() == list(range(7))


@pytest.mark.parametrize("share", AOPC_SHARES)
def test_top_share_masks_hold_their_share(share):
    masks = top_share_masks([np.linspace(0, 1, n) for n in (1, 7, 100, 200)], share)
    assert [int(mask.sum()) for mask in masks] == [math.ceil(round(share * n, 6)) for n in (1, 7, 100, 200)]


def test_a_share_of_one_takes_every_token():
    (mask,) = top_share_masks([np.array([0.3, 0.1, 0.2])], 1.0)
    assert mask.all()
    assert mask.dtype == np.bool_


def test_of_equal_scores_the_earlier_tokens_are_taken():
    scores = np.tile([0.2, 0.7, 0.7, 0.1], 50)
    (mask,) = top_share_masks([scores], 0.25)
    assert np.flatnonzero(mask).tolist() == np.flatnonzero(scores == 0.7)[:50].tolist()


@pytest.mark.parametrize("share", [0.0, -0.5, 1.001, 2.0])
def test_an_impossible_share_is_refused(share):
    with pytest.raises(ValueError, match=rf"`share` must lie in \(0, 1\], but got {share}"):
        top_share_masks([np.zeros(3)], share)
